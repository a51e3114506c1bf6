/*
 * compat.h
 *		The only place that looks at PG_VERSION_NUM: what differs between
 *		PostgreSQL 15 and 19, each with the reason why.
 */
#ifndef CONNBENCH_COMPAT_H
#define CONNBENCH_COMPAT_H

#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/backend_status.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 180000
#include "tcop/backend_startup.h"
#endif

#if PG_VERSION_NUM < 150000
#error "connbench needs PostgreSQL 15 or later"
#endif

static inline uint32
cb_server_major(void)
{
	return PG_VERSION_NUM / 10000;
}

/* 18: a module can tell its name and version to pg_get_loaded_modules() */
#if PG_VERSION_NUM >= 180000
#define CB_MODULE_MAGIC(n, v)	PG_MODULE_MAGIC_EXT(.name = (n), .version = (v))
#else
#define CB_MODULE_MAGIC(n, v)	PG_MODULE_MAGIC
#endif

/* Children that are started by exec() keep nothing of the postmaster's memory. */
#ifdef EXEC_BACKEND
#define CB_HAVE_FORK_MARKS	false
#else
#define CB_HAVE_FORK_MARKS	true
#endif

/* Upper bound of BackendType on all versions; the enum has grown each time. */
#define CB_BACKEND_TYPES	20
#if PG_VERSION_NUM >= 160000
StaticAssertDecl(BACKEND_NUM_TYPES <= CB_BACKEND_TYPES,
				 "CB_BACKEND_TYPES is too small for this server version");
#endif

/* 16: backend status entries are indexed from 1 under a new name */
static inline LocalPgBackendStatus *
cb_backend_status(int i)
{
#if PG_VERSION_NUM >= 160000
	return pgstat_get_local_beentry_by_index(i);
#else
	return pgstat_fetch_stat_local_beentry(i);
#endif
}

/* 18: a client that is still authenticating has an entry, in this state */
static inline bool
cb_state_is_starting(BackendState state)
{
#if PG_VERSION_NUM >= 180000
	return state == STATE_STARTING;
#else
	(void) state;
	return false;
#endif
}

/*
 * Is a live process behind this PGPROC?  15 and 16 leave the pid in the entry
 * of a process that has gone; the latch, which is disowned on exit, tells.
 */
static inline bool
cb_proc_is_alive(const PGPROC *proc)
{
	if (proc->pid == 0)
		return false;
#if PG_VERSION_NUM < 170000
	return proc->procLatch.owner_pid != 0;
#else
	return true;
#endif
}

/*
 * Kind of process as far as PGPROC tells it.  Below 19 it only knows client
 * backends (walsenders included) from the rest.
 */
static inline BackendType
cb_proc_backend_type(const PGPROC *proc)
{
#if PG_VERSION_NUM >= 190000
	return proc->backendType;
#elif PG_VERSION_NUM >= 180000
	return proc->isRegularBackend ? B_BACKEND : B_BG_WORKER;
#else
	return proc->isBackgroundWorker ? B_BG_WORKER : B_BACKEND;
#endif
}

/* 17: extensions may name their wait event; the name lives in shared memory */
static inline uint32
cb_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	(void) name;
	return PG_WAIT_EXTENSION;
#endif
}

/* 18: asynchronous I/O has processes of its own */
#if PG_VERSION_NUM >= 180000
#define CB_IS_IO_WORKER(type)	((type) == B_IO_WORKER)
#else
#define CB_IS_IO_WORKER(type)	false
#endif

/*
 * 18: PostgreSQL keeps its own times of a connection, in wall clock
 * microseconds.  Gives false below 18, and for what is not a client.
 */
typedef struct cb_core_timing
{
	TimestampTz socket_create;
	TimestampTz fork_start;
	TimestampTz fork_end;
	TimestampTz auth_start;
	TimestampTz ready_for_use;	/* 0 before that, and unless it is logged */
} cb_core_timing;

static inline bool
cb_get_core_timing(cb_core_timing *timing)
{
#if PG_VERSION_NUM >= 180000
	if (conn_timing.fork_start == 0 || conn_timing.auth_start == 0)
		return false;
	timing->socket_create = conn_timing.socket_create;
	timing->fork_start = conn_timing.fork_start;
	timing->fork_end = conn_timing.fork_end;
	timing->auth_start = conn_timing.auth_start;
	timing->ready_for_use = Max(conn_timing.ready_for_use, 0);
	return true;
#else
	(void) timing;
	return false;
#endif
}

/*
 * The handshake is seen through a callback on the context that
 * openssl_tls_init_hook is given.  19 makes connections from another context,
 * which no hook is given (and warns of such hooks where ssl_sni is on), so
 * there TLS is known only as a part of "negotiation".
 */
#if defined(USE_OPENSSL) && PG_VERSION_NUM < 190000
#define CB_HAVE_TLS_MARKS
#endif

/*
 * 17: does this database have login event triggers?  If so a transaction of
 * theirs follows that of InitPostgres.
 */
static inline bool
cb_login_triggers_follow(void)
{
#if PG_VERSION_NUM >= 170000
	return MyDatabaseHasLoginEventTriggers;
#else
	return false;
#endif
}

/* 18 dropped the last argument of ExecutorRun, 19 made the jumble const */
#if PG_VERSION_NUM >= 180000
#define CB_EXECUTOR_RUN_ARGS	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define CB_EXECUTOR_RUN_PASS	queryDesc, direction, count
#else
#define CB_EXECUTOR_RUN_ARGS	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define CB_EXECUTOR_RUN_PASS	queryDesc, direction, count, execute_once
#endif
#if PG_VERSION_NUM >= 190000
#define CB_JUMBLE_STATE			const JumbleState
#else
#define CB_JUMBLE_STATE			JumbleState
#endif

#endif							/* CONNBENCH_COMPAT_H */
