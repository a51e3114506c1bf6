/*
 * run.h
 *		The command `connbench run`.
 */
#ifndef CONNBENCH_RUN_H
#define CONNBENCH_RUN_H

/* Arguments from the command's name on; returns the exit status. */
extern int	cb_run_main(int argc, char **argv);

#endif							/* CONNBENCH_RUN_H */
