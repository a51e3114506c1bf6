/*
 * timeline.h
 *		The marks of the connection that this process serves; see timeline.c,
 *		session.c and departures.c.
 */
#ifndef CONNBENCH_TIMELINE_H
#define CONNBENCH_TIMELINE_H

#include "libpq/libpq-be.h"

#include "ledger.h"

/* settings: what else tells keys of the ledger apart */
extern bool cb_track_application_name;
extern bool cb_track_client_address;

/* In the postmaster, from _PG_init: registers the fork handlers and hooks. */
extern void cb_timeline_install(void);

/* In the postmaster, whenever shared memory is made anew. */
extern void cb_timeline_reset_fork_account(void);

/*
 * What timeline.c tells the other two.
 */

/* how far this process has come with its client */
typedef enum cb_progress
{
	CB_AT_STARTUP,				/* before authentication was decided */
	CB_AT_INIT,					/* authenticated */
	CB_AT_READY					/* init_end taken */
} cb_progress;

extern cb_progress cb_timeline_progress(void);
extern bool cb_is_client_backend(void);
extern void cb_client_address(const Port *port, char *address);
extern void cb_timeline_tell_of_fork(void);
extern bool cb_timeline_fork_is_told(void);
extern const cb_fork_account *cb_timeline_fork_account(void);
extern void cb_timeline_fork_failed(void);

/*
 * session.c takes over a connection that has reached init_end: login triggers,
 * first query, exit.
 */
extern void cb_session_install(void);
extern void cb_session_begin(cb_connection *connection);

/* has a login trigger still to let this session in? */
extern bool cb_session_awaits_login_trigger(void);

/* departures.c: connections that end early, and children of other kinds */
extern void cb_departures_install(void);
extern cb_child_kind cb_child_kind_of(BackendType type, bool parallel_worker);

#endif							/* CONNBENCH_TIMELINE_H */
