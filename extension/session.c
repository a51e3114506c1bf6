/*
 * session.c
 *		Takes the marks of a connection after it has become ready: login event
 *		triggers, first query, exit.
 *
 * Runs in client backends only.
 *
 * mark                 taken in
 * login_trigger_end    first commit after init_end, where the database has
 *                      login event triggers (17 and later)
 * ready                PostgreSQL's own time of being ready for a query, where
 *                      log_connections = setup_durations makes it take one
 *                      (18 and later); read at the first statement
 * first_query_start    the statement start time that PostgreSQL keeps, once
 *                      the first statement that is no utility was analysed:
 *                      so parsing and analysis, with cold caches, are in it
 * first_query_end      end of the first outermost ExecutorRun
 * exit                 on_proc_exit: the PGPROC is gone, atomics only
 *
 * Each query pays for two tests of a static; nothing here may raise an error
 * of its own.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "parser/analyze.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#include "../common/clock.h"
#include "compat.h"
#include "ledger.h"
#include "timeline.h"

/* what this session is waiting for */
typedef enum Awaiting
{
	AWAITING_NOTHING,			/* not a client that is ready, or all is taken */
	AWAITING_LOGIN_TRIGGER,
	AWAITING_FIRST_QUERY,
	AWAITING_FIRST_RUN,			/* analysed, not executed yet */
	IN_FIRST_RUN
} Awaiting;

static Awaiting awaiting = AWAITING_NOTHING;
static cb_connection *mine = NULL;

static post_parse_analyze_hook_type prev_post_parse_analyze = NULL;
static ExecutorRun_hook_type prev_executor_run = NULL;

/* ------------------------------------------------------------------------
 * First query
 * ------------------------------------------------------------------------
 */

static void
note_ready(void)
{
	cb_core_timing core;
	uint64		ago_ns;

	if (mine->ready_ns != CB_NOT_MEASURED ||
		!cb_get_core_timing(&core) || core.ready_for_use == 0)
		return;
	ago_ns = (uint64) Max(GetCurrentTimestamp() - core.ready_for_use, 0) * 1000;
	mine->ready_ns = Max(cb_now_ns() - ago_ns, mine->init_end_ns);
	cb_ledger_add_phase(mine, CB_PHASE_READY);
}

static void
on_post_parse_analyze(ParseState *pstate, Query *query, CB_JUMBLE_STATE *jstate)
{
	/* again in the second state: the statement before may have failed */
	if ((awaiting == AWAITING_FIRST_QUERY || awaiting == AWAITING_FIRST_RUN) &&
		query->commandType != CMD_UTILITY)
	{
		TimestampTz since_start = GetCurrentTimestamp() -
			GetCurrentStatementStartTimestamp();

		/* not before init_end, should the wall clock have been set */
		mine->first_query_start_ns =
			Max(cb_now_ns() - (uint64) Max(since_start, 0) * 1000,
				mine->init_end_ns);
		awaiting = AWAITING_FIRST_RUN;
		note_ready();
	}
	if (prev_post_parse_analyze)
		prev_post_parse_analyze(pstate, query, jstate);
}

static void
run_executor(CB_EXECUTOR_RUN_ARGS)
{
	if (prev_executor_run)
		prev_executor_run(CB_EXECUTOR_RUN_PASS);
	else
		standard_ExecutorRun(CB_EXECUTOR_RUN_PASS);
}

/*
 * Runs of functions inside the first one do not count, since the state has
 * moved on; if it fails, on_xact_event() goes back to waiting.
 */
static void
on_executor_run(CB_EXECUTOR_RUN_ARGS)
{
	bool		is_first = (awaiting == AWAITING_FIRST_RUN);

	if (is_first)
		awaiting = IN_FIRST_RUN;
	run_executor(CB_EXECUTOR_RUN_PASS);
	if (is_first)
	{
		awaiting = AWAITING_NOTHING;
		mine->first_query_end_ns = cb_now_ns();
		cb_ledger_add_phase(mine, CB_PHASE_FIRST_QUERY);
	}
}

/* ------------------------------------------------------------------------
 * Transactions: login event triggers, and a first query that failed
 * ------------------------------------------------------------------------
 */

bool
cb_session_awaits_login_trigger(void)
{
	return awaiting == AWAITING_LOGIN_TRIGGER;
}

static void
on_xact_event(XactEvent event, void *arg)
{
	if (awaiting == AWAITING_LOGIN_TRIGGER && event == XACT_EVENT_COMMIT)
	{
		mine->login_trigger_end_ns = cb_now_ns();
		awaiting = AWAITING_FIRST_QUERY;
		cb_ledger_add_phase(mine, CB_PHASE_LOGIN_TRIGGER);
	}
	else if (awaiting == IN_FIRST_RUN && event == XACT_EVENT_ABORT)
		awaiting = AWAITING_FIRST_QUERY;
}

/* ------------------------------------------------------------------------
 * Begin and end
 * ------------------------------------------------------------------------
 */

static cb_session_end
session_end(void)
{
	switch (pgStatSessionEndCause)
	{
		case DISCONNECT_CLIENT_EOF:
			return CB_END_CLIENT_LOST;
		case DISCONNECT_FATAL:
			return CB_END_FATAL;
		case DISCONNECT_KILLED:
			return CB_END_KILLED;
		case DISCONNECT_NOT_YET:
		case DISCONNECT_NORMAL:
			break;
	}
	return CB_END_NORMAL;
}

static void
on_exit_of_session(int code, Datum arg)
{
	/* a process that this backend forked is not the session */
	if (MyProcPid != (int) getpid())
		return;
	mine->exit_ns = cb_now_ns();
	mine->session_end = session_end();
	cb_ledger_disconnected(mine);
}

/* Called from the commit of InitPostgres; "connection" stays valid. */
void
cb_session_begin(cb_connection *connection)
{
	mine = connection;

	/* the way out first, so that nothing that follows can leak a count */
	on_proc_exit(on_exit_of_session, (Datum) 0);
	cb_ledger_connected(connection);
	awaiting = (connection->key.kind == CB_KIND_CLIENT && cb_login_triggers_follow()) ?
		AWAITING_LOGIN_TRIGGER : AWAITING_FIRST_QUERY;
}

/*
 * In the postmaster.  Must come after timeline.c has registered its own
 * transaction callback: of two, the later one is called first, so the commit
 * that begins a session is not taken for that of its login triggers.
 */
void
cb_session_install(void)
{
	prev_post_parse_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = on_post_parse_analyze;
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = on_executor_run;
	RegisterXactCallback(on_xact_event, NULL);
}
