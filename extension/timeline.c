/*
 * timeline.c
 *		Takes the marks of a connection until it is ready; session.c takes
 *		those that follow.
 *
 * mark          taken in                        runs in
 * fork_start    pthread_atfork prepare          postmaster
 * (blocked)     pthread_atfork parent           postmaster
 * child_start   pthread_atfork child            any child, before anything
 * tls_start,    message callback of OpenSSL     client backend, before it has
 *   tls_end     (handshake messages)              a PGPROC
 * auth_end      ClientAuthentication_hook       client backend
 * init_end      first commit after that: the    client backend
 *               transaction of InitPostgres
 * all later     session.c                       client backend
 *
 * What becomes of connections that end before they are ready: departures.c.
 *
 * The fork handlers run with signals blocked, and in the postmaster: they read
 * a clock into a static and return; no lock, no allocation, no elog, no shared
 * memory.  They also run for a fork() that a backend makes (a PAM module
 * does), which must not touch its marks, hence the tests of IsUnderPostmaster
 * and of getpid().  Nothing here may raise an error.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/xact.h"
#include "libpq/auth.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "../common/clock.h"
#include "compat.h"
#include "ledger.h"
#include "timeline.h"

bool		cb_track_application_name = false;
bool		cb_track_client_address = false;

/* the postmaster's, inherited by each child as of its fork */
static cb_fork_account fork_account;
static uint64 fork_start_ns = CB_NOT_MEASURED;

/* this process's */
static uint64 child_start_ns = CB_NOT_MEASURED;
static cb_progress progress = CB_AT_STARTUP;
static bool fork_is_told = false;
static cb_connection connection;

/* auth_end on the clock that the times of files are taken from */
static struct timespec auth_end_of_files;

static ClientAuthentication_hook_type prev_client_authentication = NULL;

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
 * TLS
 * ------------------------------------------------------------------------
 */

#ifdef CB_HAVE_TLS_MARKS

static openssl_tls_init_hook_typ prev_openssl_tls_init = NULL;

/*
 * Called for each protocol message.  PostgreSQL issues no session tickets, so
 * all handshake messages come before the first byte of the session.
 */
static void
on_tls_message(int write_p, int version, int content_type, const void *buf,
			   size_t len, SSL *ssl, void *arg)
{
	uint64		now_ns;

	if (content_type != SSL3_RT_HANDSHAKE || progress != CB_AT_STARTUP)
		return;
	now_ns = cb_now_ns();
	if (connection.tls_start_ns == CB_NOT_MEASURED)
		connection.tls_start_ns = now_ns;
	connection.tls_end_ns = now_ns;
}

/* In the postmaster, at start and at each reload: a new context each time. */
static void
on_openssl_tls_init(SSL_CTX *context, bool is_server_start)
{
	prev_openssl_tls_init(context, is_server_start);
	SSL_CTX_set_msg_callback(context, on_tls_message);
}

#endif							/* CB_HAVE_TLS_MARKS */

/* ------------------------------------------------------------------------
 * Authentication
 * ------------------------------------------------------------------------
 */

/* False in a process that a backend forked: it inherits all of the above. */
bool
cb_is_client_backend(void)
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

	if (cb_is_client_backend())
	{
		if (status == STATUS_OK)
		{
			connection.auth_end_ns = now_ns;
			(void) clock_gettime(CLOCK_REALTIME_COARSE, &auth_end_of_files);
			connection.key.transport = transport_of(port);
			connection.key.auth_method = (uint8) port->hba->auth_method;
			progress = CB_AT_INIT;
		}
		else if (status == STATUS_EOF)
		{
			cb_ledger_left_early(CB_LEFT_AUTHENTICATION, GetCurrentTimestamp());
			cb_timeline_tell_of_fork();
		}
		/* any other failure ends in a FATAL, which departures.c counts */
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

/* Empty for a Unix socket, or when it is not known. */
void
cb_client_address(const Port *port, char *address)
{
	const struct sockaddr_storage *addr = &port->raddr.addr;
	const void *bytes = NULL;

	if (addr->ss_family == AF_INET)
		bytes = &((const struct sockaddr_in *) addr)->sin_addr;
	else if (addr->ss_family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *) addr)->sin6_addr;
	memset(address, 0, CB_ADDRESS_LEN);
	if (bytes != NULL)
		(void) inet_ntop(addr->ss_family, bytes, address, CB_ADDRESS_LEN);
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
	if (application_name)
		strlcpy(connection.application_name, application_name, NAMEDATALEN);
	cb_client_address(MyProcPort, connection.client_address);

	if (cb_track_application_name)
		memcpy(connection.key.application_name, connection.application_name, NAMEDATALEN);
	if (cb_track_client_address)
		memcpy(connection.key.client_address, connection.client_address, CB_ADDRESS_LEN);
}

/*
 * 18 and later keep wall clock times of their own; bring what they add to ours
 * onto our clock, unless the wall clock was set meanwhile: then core's
 * fork_start is not where it must be, shortly before ours.
 */
static void
note_core_timing(uint64 now_ns, TimestampTz now)
{
	cb_core_timing core;
	int64		fork_gap_us;

	if (!cb_get_core_timing(&core) || fork_start_ns == CB_NOT_MEASURED)
		return;
	fork_gap_us = (now - core.fork_start) - (int64) ((now_ns - fork_start_ns) / 1000);
	if (fork_gap_us < -2 || fork_gap_us > 1000000)
		return;

	connection.accept_wait_ns = (uint64) Max(core.fork_start - core.socket_create, 0) * 1000;
	connection.negotiation_ns = (uint64) Max(core.auth_start - core.fork_end, 0) * 1000;
	connection.auth_start_ns = Min(now_ns - (uint64) (now - core.auth_start) * 1000,
								   connection.auth_end_ns);
}

static bool
written_since_authentication(const char *directory)
{
	char		path[MAXPGPATH];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", directory, RELCACHE_INIT_FILENAME);
	if (stat(path, &st) != 0)
		return false;
	return st.st_mtim.tv_sec > auth_end_of_files.tv_sec ||
		(st.st_mtim.tv_sec == auth_end_of_files.tv_sec &&
		 st.st_mtim.tv_nsec >= auth_end_of_files.tv_nsec);
}

/*
 * The first connection to a database after the server's start, or after its
 * relation cache file was invalidated, finds no such file and writes it:
 * between authentication and init_end.
 */
static bool
is_cold(void)
{
	return DatabasePath != NULL &&
		(written_since_authentication(DatabasePath) ||
		 written_since_authentication("global"));
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
	TimestampTz now;

	if (progress != CB_AT_INIT || event != XACT_EVENT_COMMIT)
		return;

	now_ns = cb_now_ns();
	now = GetCurrentTimestamp();
	progress = CB_AT_READY;
	connection.init_end_ns = now_ns;
	connection.fork_start_ns = fork_start_ns;
	connection.child_start_ns = child_start_ns;
	connection.started_at = now - (TimestampTz)
		((now_ns - (fork_start_ns != CB_NOT_MEASURED ?
					fork_start_ns : connection.auth_end_ns)) / 1000);
	note_core_timing(now_ns, now);
	note_resource_usage();
	note_identity();
	connection.cold = is_cold();

	cb_session_begin(&connection);
	cb_timeline_tell_of_fork();
}

/* ------------------------------------------------------------------------
 * For session.c and departures.c, and setting up
 * ------------------------------------------------------------------------
 */

cb_progress
cb_timeline_progress(void)
{
	return progress;
}

/* Once per client, as soon as it is known what became of it. */
void
cb_timeline_tell_of_fork(void)
{
	if (fork_is_told)
		return;
	fork_is_told = true;
	cb_ledger_client_forked(&fork_account);
}

bool
cb_timeline_fork_is_told(void)
{
	return fork_is_told;
}

const cb_fork_account *
cb_timeline_fork_account(void)
{
	return &fork_account;
}

/* In the postmaster: a static, like the rest of the account. */
void
cb_timeline_fork_failed(void)
{
	fork_account.failed++;
}

/* Children inherit this state and fill in what they come to. */
static void
forget_marks(void)
{
	connection.fork_start_ns = CB_NOT_MEASURED;
	connection.child_start_ns = CB_NOT_MEASURED;
	connection.tls_start_ns = CB_NOT_MEASURED;
	connection.tls_end_ns = CB_NOT_MEASURED;
	connection.auth_end_ns = CB_NOT_MEASURED;
	connection.init_end_ns = CB_NOT_MEASURED;
	connection.login_trigger_end_ns = CB_NOT_MEASURED;
	connection.first_query_start_ns = CB_NOT_MEASURED;
	connection.first_query_end_ns = CB_NOT_MEASURED;
	connection.exit_ns = CB_NOT_MEASURED;
	connection.accept_wait_ns = CB_NOT_MEASURED;
	connection.negotiation_ns = CB_NOT_MEASURED;
	connection.auth_start_ns = CB_NOT_MEASURED;
	connection.ready_ns = CB_NOT_MEASURED;
}

void
cb_timeline_install(void)
{
	cb_timeline_reset_fork_account();
	forget_marks();

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

#ifdef CB_HAVE_TLS_MARKS
	prev_openssl_tls_init = openssl_tls_init_hook;
	openssl_tls_init_hook = on_openssl_tls_init;
#endif
	prev_client_authentication = ClientAuthentication_hook;
	ClientAuthentication_hook = on_client_authentication;
	RegisterXactCallback(on_xact_event, NULL);
	cb_session_install();
	cb_departures_install();
}
