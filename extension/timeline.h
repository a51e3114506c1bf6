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

/*
 * session.c takes over a connection that has reached init_end: login triggers,
 * first query, exit.
 */
struct cb_connection;
extern void cb_session_install(void);
extern void cb_session_begin(struct cb_connection *connection);

/* on_log()'s question: has a login trigger still to let this session in? */
extern bool cb_session_awaits_login_trigger(void);

#endif							/* CONNBENCH_TIMELINE_H */
