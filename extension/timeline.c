/*
 * timeline.c
 *		Takes the marks of a connection: the only place where a clock is read
 *		for one.
 *
 * mark          taken in                        runs in
 * fork_start    pthread_atfork prepare          postmaster
 * (blocked)     pthread_atfork parent           postmaster
 * child_start   pthread_atfork child            any child, before anything
 * auth_end      ClientAuthentication_hook       client backend
 * init_end      first commit after that: the    client backend
 *               transaction of InitPostgres
 * rejection     emit_log_hook at FATAL          client backend, possibly
 *                                               without a PGPROC
 * exit          on_proc_exit                    client backend, its PGPROC
 *                                               already given back
 *
 * The fork handlers run with signals blocked, and in the postmaster: they read
 * a clock into a static and return; no lock, no allocation, no elog, no shared
 * memory.  They also run for a fork() that a backend makes (a PAM module
 * does), which must not touch its marks, hence the tests of IsUnderPostmaster
 * and of getpid().  Nothing here may raise an error.
 */
#include "postgres.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "access/xact.h"
#include "libpq/auth.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/walsender.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "compat.h"
#include "ledger.h"
#include "timeline.h"

/* how far this process has come with its client */
typedef enum Progress
{
	AT_STARTUP,					/* before authentication was decided */
	AT_INIT,					/* authenticated */
	AT_READY					/* init_end taken */
} Progress;

/* the postmaster's, inherited by each child as of its fork */
static cb_fork_account fork_account;
static uint64 fork_start_ns = CB_NOT_MEASURED;

/* this process's */
static uint64 child_start_ns = CB_NOT_MEASURED;
static Progress progress = AT_STARTUP;
static cb_connection connection;

static ClientAuthentication_hook_type prev_client_authentication = NULL;
static emit_log_hook_type prev_emit_log = NULL;

/* ------------------------------------------------------------------------
 * fork()
 * ------------------------------------------------------------------------
 */

#ifndef EXEC_BACKEND

static void
before_fork(void)
{
	if (IsUnderPostmaster)
		return;
	fork_start_ns = cb_now_ns();
	fork_account.forks++;
}

/* Also runs when fork() failed: the time was spent all the same. */
static void
after_fork_in_postmaster(void)
{
	if (IsUnderPostmaster)
		return;
	cb_histogram_record(&fork_account.blocked, cb_now_ns() - fork_start_ns);
}

static void
after_fork_in_child(void)
{
	if (IsUnderPostmaster)
		return;
	child_start_ns = cb_now_ns();
}

#endif							/* !EXEC_BACKEND */

/*
 * The ledger is empty after a crash, while our account goes on; starting
 * anew keeps "published" and this in step.
 */
void
cb_timeline_reset_fork_account(void)
{
	fork_account.forks = 0;
	cb_histogram_init(&fork_account.blocked);
}

/* ------------------------------------------------------------------------
 * Authentication
 * ------------------------------------------------------------------------
 */

/* False in a process that a backend forked: it inherits all of the above. */
static bool
is_client_backend(void)
{
	return MyProcPort != NULL && IsUnderPostmaster && cb_ledger_is_attached() &&
		MyProcPid == (int) getpid();
}

static cb_transport
transport_of(Port *port)
{
	if (port->ssl_in_use)
		return CB_TRANSPORT_TLS;
#ifdef ENABLE_GSS
	if (be_gssapi_get_enc(port))
		return CB_TRANSPORT_GSS;
#endif
	return port->raddr.addr.ss_family == AF_UNIX ?
		CB_TRANSPORT_UNIX : CB_TRANSPORT_TCP;
}

/* The clock first: other modules' hooks may sleep (auth_delay) or not return. */
static void
on_client_authentication(Port *port, int status)
{
	uint64		now_ns = cb_now_ns();

	if (is_client_backend())
	{
		if (status == STATUS_OK)
		{
			connection.auth_end_ns = now_ns;
			connection.key.transport = transport_of(port);
			connection.key.auth_method = (uint8) port->hba->auth_method;
			progress = AT_INIT;
		}
		else if (status == STATUS_EOF)
		{
			cb_ledger_authentication_abandoned();
			cb_ledger_publish_forks(&fork_account);
		}
		/* any other failure ends in a FATAL, which on_log() counts */
	}

	if (prev_client_authentication)
		prev_client_authentication(port, status);
}

/* ------------------------------------------------------------------------
 * Ready
 * ------------------------------------------------------------------------
 */

static uint64
microseconds(struct timeval tv)
{
	return (uint64) tv.tv_sec * 1000000 + (uint64) tv.tv_usec;
}

static void
note_resource_usage(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return;
	connection.cpu_user_us = microseconds(usage.ru_utime);
	connection.cpu_system_us = microseconds(usage.ru_stime);
	connection.minor_faults = usage.ru_minflt;
	connection.context_switches = usage.ru_nvcsw + usage.ru_nivcsw;
}

static void
note_identity(void)
{
	connection.pid = MyProcPid;
	connection.key.database = MyDatabaseId;
	connection.key.role = GetSessionUserId();
	connection.key.kind = am_walsender ? CB_KIND_WALSENDER : CB_KIND_CLIENT;
	namestrcpy(&connection.database_name,
			   OidIsValid(MyDatabaseId) && MyProcPort->database_name ?
			   MyProcPort->database_name : "");
	namestrcpy(&connection.role_name,
			   MyProcPort->user_name ? MyProcPort->user_name : "");
}

/* Wall clock of the first mark, for people; all else is monotonic. */
static TimestampTz
wall_clock_of(uint64 mark_ns, uint64 now_ns)
{
	return GetCurrentTimestamp() - (TimestampTz) ((now_ns - mark_ns) / 1000);
}

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
	if (MyProcPid != (int) getpid())
		return;
	connection.exit_ns = cb_now_ns();
	connection.session_end = session_end();
	cb_ledger_disconnected(&connection);
}

/*
 * The first commit after authentication is that of InitPostgres.  The
 * callback is registered once, in the postmaster, and stays: 15 cannot
 * unregister one from inside (use after free).
 */
static void
on_xact_event(XactEvent event, void *arg)
{
	uint64		now_ns;

	if (progress != AT_INIT || event != XACT_EVENT_COMMIT)
		return;

	now_ns = cb_now_ns();
	progress = AT_READY;
	connection.init_end_ns = now_ns;
	connection.fork_start_ns = fork_start_ns;
	connection.child_start_ns = child_start_ns;
	connection.exit_ns = CB_NOT_MEASURED;
	connection.started_at =
		wall_clock_of(fork_start_ns != CB_NOT_MEASURED ? fork_start_ns : connection.auth_end_ns,
					  now_ns);
	note_resource_usage();
	note_identity();

	/* the way out first, so that nothing that follows can leak a count */
	on_proc_exit(on_exit_of_session, (Datum) 0);
	cb_ledger_connected(&connection);
	cb_ledger_publish_forks(&fork_account);
}

/* ------------------------------------------------------------------------
 * Rejection
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
	if (progress == AT_INIT)
		return CB_REJECT_INIT;
	return MyProc == NULL ? CB_REJECT_STARTUP : CB_REJECT_AUTHENTICATION;
}

static void
on_log(ErrorData *edata)
{
	if (edata->elevel == FATAL && progress != AT_READY && is_client_backend())
	{
		cb_ledger_rejected(edata->sqlerrcode, reject_phase(), reason_of(edata),
						   GetCurrentTimestamp());
		cb_ledger_publish_forks(&fork_account);
	}

	if (prev_emit_log)
		prev_emit_log(edata);
}

void
cb_timeline_install(void)
{
	cb_timeline_reset_fork_account();

#ifndef EXEC_BACKEND
	{
		int			rc = pthread_atfork(before_fork, after_fork_in_postmaster,
										after_fork_in_child);

		if (rc != 0)
		{
			errno = rc;
			ereport(FATAL,
					(errmsg("connbench could not register its fork handlers: %m")));
		}
	}
#endif

	prev_client_authentication = ClientAuthentication_hook;
	ClientAuthentication_hook = on_client_authentication;
	prev_emit_log = emit_log_hook;
	emit_log_hook = on_log;
	RegisterXactCallback(on_xact_event, NULL);
}
