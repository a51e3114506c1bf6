/*
 * departures.c
 *		What becomes of connections that end before they are ready, and the end
 *		of all other children of the postmaster.
 *
 * event               seen by                runs in
 * rejection           emit_log_hook, FATAL   client backend, possibly without
 *                                            a PGPROC
 * left early          exit handler of C,     client backend without a PGPROC
 *                     nothing told before
 * end of a worker     exit handler of C      every other child
 * fork failed         emit_log_hook, LOG     postmaster
 *
 * PostgreSQL has no hook for a client that leaves before authentication; but
 * such a child ends by exit(), and what it had read tells how far it had come.
 * Children that end by _exit() (startup packet timed out, or shutdown in that
 * phase) run nothing: they are the forks that nobody tells of, "unseen".
 *
 * emit_log_hook runs with the error stack in use, in the postmaster as well:
 * no error, no allocation.  The exit handler runs after all of PostgreSQL's:
 * atomics only, and only where shared memory is still attached.
 */
#include "postgres.h"

#include <unistd.h>

#include "access/parallel.h"
#include "libpq/pqcomm.h"
#include "miscadmin.h"
#include "storage/pg_shmem.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "ledger.h"
#include "timeline.h"

static emit_log_hook_type prev_emit_log = NULL;

/* a protocol error was logged, without being an error for PostgreSQL */
static bool saw_protocol_error = false;

/* ------------------------------------------------------------------------
 * Rejections
 * ------------------------------------------------------------------------
 */

/* message_id is the text before translation and before its %-fields */
static cb_reject_reason
reason_of(const ErrorData *edata)
{
	static const struct
	{
		const char *prefix;
		cb_reject_reason reason;
	}			reasons[] = {
		{"sorry, too many clients already", CB_REASON_SLOTS},
		{"remaining connection slots are reserved", CB_REASON_RESERVED_SLOTS},
		{"too many connections for role", CB_REASON_ROLE_LIMIT},
		{"too many connections for database", CB_REASON_DATABASE_LIMIT},
		{"number of requested standby connections exceeds", CB_REASON_WALSENDER_LIMIT},
	};

	if (edata->sqlerrcode == ERRCODE_QUERY_CANCELED &&
		cb_timeline_progress() == CB_AT_STARTUP)
		return CB_REASON_TIMEOUT;
	if (edata->sqlerrcode != ERRCODE_TOO_MANY_CONNECTIONS ||
		edata->message_id == NULL)
		return CB_REASON_OTHER;
	for (int i = 0; i < (int) lengthof(reasons); i++)
	{
		if (strncmp(edata->message_id, reasons[i].prefix,
					strlen(reasons[i].prefix)) == 0)
			return reasons[i].reason;
	}
	return CB_REASON_OTHER;
}

/* A PGPROC is given to a child between its startup packet and authentication. */
static cb_reject_phase
reject_phase(void)
{
	switch (cb_timeline_progress())
	{
		case CB_AT_READY:
			return CB_REJECT_LOGIN_TRIGGER;
		case CB_AT_INIT:
			return CB_REJECT_INIT;
		case CB_AT_STARTUP:
			break;
	}
	return MyProc == NULL ? CB_REJECT_STARTUP : CB_REJECT_AUTHENTICATION;
}

static void
copy_if_known(char *to, const char *from)
{
	if (from != NULL)
		strlcpy(to, from, NAMEDATALEN);
}

static void
count_rejection(const ErrorData *edata)
{
	cb_rejection_detail rejection;

	memset(&rejection, 0, sizeof(rejection));
	rejection.at = GetCurrentTimestamp();
	rejection.pid = MyProcPid;
	rejection.sqlstate = edata->sqlerrcode;
	rejection.phase = reject_phase();
	rejection.reason = reason_of(edata);
	copy_if_known(rejection.database_name, MyProcPort->database_name);
	copy_if_known(rejection.role_name, MyProcPort->user_name);
	copy_if_known(rejection.application_name, MyProcPort->application_name);
	cb_client_address(MyProcPort, rejection.client_address);
	cb_ledger_rejected(&rejection);
	cb_timeline_tell_of_fork();
}

/* Nobody was turned away: the answer found no client any more. */
static bool
is_client_gone(const ErrorData *edata)
{
	return edata->sqlerrcode == ERRCODE_CONNECTION_FAILURE &&
		cb_timeline_progress() == CB_AT_STARTUP;
}

static bool
is_failed_fork(const ErrorData *edata)
{
	return edata->elevel == LOG && edata->message_id != NULL &&
		strncmp(edata->message_id, "could not fork", strlen("could not fork")) == 0;
}

static void
on_log(ErrorData *edata)
{
	if (!IsUnderPostmaster)
	{
		if (is_failed_fork(edata))
			cb_timeline_fork_failed();
	}
	else if (cb_is_client_backend() &&
			 (cb_timeline_progress() != CB_AT_READY || cb_session_awaits_login_trigger()))
	{
		if (edata->elevel == FATAL && is_client_gone(edata))
		{
			cb_ledger_left_early(CB_LEFT_AUTHENTICATION, GetCurrentTimestamp());
			cb_timeline_tell_of_fork();
		}
		else if (edata->elevel == FATAL)
			count_rejection(edata);
		else if (edata->elevel == COMMERROR)
			saw_protocol_error = true;
	}

	if (prev_emit_log)
		prev_emit_log(edata);
}

/* ------------------------------------------------------------------------
 * Leaving early, and the end of other children
 * ------------------------------------------------------------------------
 */

/* The protocol word is that of the last packet that was read whole. */
static cb_leave_stage
leave_stage(const Port *port)
{
	switch (port->proto)
	{
		case 0:
			return saw_protocol_error ? CB_LEFT_STARTUP_PACKET : CB_LEFT_SILENTLY;
		case CANCEL_REQUEST_CODE:
			return CB_LEFT_CANCEL;
		case NEGOTIATE_SSL_CODE:
		case NEGOTIATE_GSS_CODE:
			return CB_LEFT_NEGOTIATION;
		default:
			return CB_LEFT_UNLOGGED;
	}
}

cb_child_kind
cb_child_kind_of(BackendType type, bool parallel_worker)
{
	if (CB_IS_IO_WORKER(type))
		return CB_CHILD_IO_WORKER;
	switch (type)
	{
		case B_BACKEND:
		case B_WAL_SENDER:
			return CB_CHILD_CLIENT;
		case B_AUTOVAC_LAUNCHER:
		case B_AUTOVAC_WORKER:
			return CB_CHILD_AUTOVACUUM;
		case B_BG_WORKER:
			return parallel_worker ? CB_CHILD_PARALLEL_WORKER : CB_CHILD_BACKGROUND_WORKER;
		default:
			return CB_CHILD_AUXILIARY;
	}
}

/*
 * Registered once, in the postmaster.  Leaves alone the postmaster, processes
 * that a child forked, and the logger, which has no shared memory.
 */
static void
on_exit_of_child(void)
{
	if (!IsUnderPostmaster || MyProcPid != (int) getpid() ||
		UsedShmemSegAddr == NULL || !cb_ledger_is_attached())
		return;

	if (MyProcPort == NULL)
		cb_ledger_child_ended(cb_child_kind_of(MyBackendType, IsParallelWorker()),
							  cb_timeline_fork_account());
	else if (!cb_timeline_fork_is_told())
	{
		cb_ledger_left_early(leave_stage(MyProcPort), GetCurrentTimestamp());
		cb_timeline_tell_of_fork();
	}
}

/* In the postmaster, from _PG_init. */
void
cb_departures_install(void)
{
	prev_emit_log = emit_log_hook;
	emit_log_hook = on_log;
	if (atexit(on_exit_of_child) != 0)
		ereport(FATAL,
				(errmsg("connbench could not register its exit handler")));
}
