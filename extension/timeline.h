/*
 * timeline.h
 *		The marks of the connection that this process serves; see timeline.c.
 */
#ifndef CONNBENCH_TIMELINE_H
#define CONNBENCH_TIMELINE_H

/* In the postmaster, from _PG_init: registers the fork handlers and hooks. */
extern void cb_timeline_install(void);

/* In the postmaster, whenever shared memory is made anew. */
extern void cb_timeline_reset_fork_account(void);

#endif							/* CONNBENCH_TIMELINE_H */
