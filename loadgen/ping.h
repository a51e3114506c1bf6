/*
 * ping.h
 *		The command `connbench ping`.
 */
#ifndef CONNBENCH_PING_H
#define CONNBENCH_PING_H

/* Arguments from the command's name on; returns the exit status. */
extern int	cb_ping_main(int argc, char **argv);

#endif							/* CONNBENCH_PING_H */
