/*
 * server_watch.h
 *		Looks at the server behind the targets while load runs.
 */
#ifndef CONNBENCH_SERVER_WATCH_H
#define CONNBENCH_SERVER_WATCH_H

#include "results.h"

typedef struct CbWatch CbWatch;

/* Connects directly to the server; NULL and a malloc'd line if it cannot. */
extern CbWatch *cb_watch_open(const char *conninfo, char **error);

extern uint64_t cb_watch_system_identifier(const CbWatch *watch);

/* Facts of the server for the run: version, settings, identifier. */
extern void cb_watch_describe(CbWatch *watch, cb_run *run);

/* How many sessions on this server are the generator's own observers. */
extern void cb_watch_set_observers(CbWatch *watch, int observers);

/* Before and after a round: snapshots, and whether the server restarted. */
extern void cb_watch_before_round(CbWatch *watch, cb_round *round);
extern void cb_watch_after_round(CbWatch *watch, cb_round *round);

/* Between these two, at the edges of the window, a thread counts processes. */
extern void cb_watch_begin_window(CbWatch *watch, const cb_target *target);
extern void cb_watch_end_window(CbWatch *watch, cb_round *round);

extern void cb_watch_close(CbWatch *watch);

#endif							/* CONNBENCH_SERVER_WATCH_H */
