/*
 * census.c
 *		Counts the server's processes by kind and state: a background worker
 *		that takes a sample every connbench.sample_interval, and the same
 *		count on demand for the view process_counts.
 *
 * Runs in: the postmaster (size, init, registration), the worker, backends
 * that read the views.  The worker attaches to shared memory only: it has no
 * database, takes part in no ProcSignal barrier, cannot hold up DROP
 * DATABASE, and works on a standby.
 *
 * Nothing tells of every process.  PGPROC knows all but children that are
 * still starting or were born without a slot, and the logger; the backend
 * status array knows type and state, but below 18 no client that is still
 * authenticating, and never this worker; /proc knows how many there are.  So
 * a sample carries the typed counts and the number that /proc gives, and the
 * difference shows as "not yet classified".
 *
 * The ring of samples has one writer; a sample's ticket is its number, from 1.
 */
#include "postgres.h"

#include <sys/resource.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "postmaster/syslogger.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "census.h"
#include "ledger.h"
#include "procfs.h"
#include "ring.h"
#include "timeline.h"

/* an hour at the default interval */
#define CENSUS_PLACES	3600

typedef struct Census
{
	pg_atomic_uint32 worker_pid;
	pg_atomic_uint64 last_sample_at;
	pg_atomic_uint64 samples;
	pg_atomic_uint64 worker_cpu_us;
} Census;

/* One process that has a backend status entry. */
typedef struct StatusEntry
{
	int			pid;
	BackendType type;
	BackendState state;
} StatusEntry;

int			cb_sample_interval = 1000;

static Census *census = NULL;
static cb_ring *samples = NULL;

PGDLLEXPORT void cb_census_main(Datum arg);

/* ------------------------------------------------------------------------
 * Setting up
 * ------------------------------------------------------------------------
 */

static Size
samples_size(void)
{
	return cb_ring_size(CENSUS_PLACES, sizeof(cb_sample));
}

Size
cb_census_shmem_size(void)
{
	return add_size(MAXALIGN(sizeof(Census)), samples_size());
}

void
cb_census_shmem_init(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	census = ShmemInitStruct("connbench census", sizeof(Census), &found);
	if (!found)
	{
		memset(census, 0, sizeof(Census));
		pg_atomic_init_u32(&census->worker_pid, 0);
		pg_atomic_init_u64(&census->last_sample_at, 0);
		pg_atomic_init_u64(&census->samples, 0);
		pg_atomic_init_u64(&census->worker_cpu_us, 0);
	}
	samples = ShmemInitStruct("connbench samples", samples_size(), &found);
	if (!found)
	{
		memset(samples, 0, samples_size());
		cb_ring_init(samples, CENSUS_PLACES, sizeof(cb_sample));
	}
	LWLockRelease(AddinShmemInitLock);
}

void
cb_census_register_worker(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = 10;	/* seconds */
	strlcpy(worker.bgw_library_name, "connbench", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "cb_census_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "connbench census", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "connbench census", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

/* ------------------------------------------------------------------------
 * Counting
 * ------------------------------------------------------------------------
 */

static int
compare_pids(const void *a, const void *b)
{
	int			pid_a = ((const StatusEntry *) a)->pid;
	int			pid_b = ((const StatusEntry *) b)->pid;

	return (pid_a > pid_b) - (pid_a < pid_b);
}

/* All backend status entries, sorted by pid; palloc'd. */
static StatusEntry *
read_status_entries(int *nentries)
{
	int			n = pgstat_fetch_stat_numbackends();
	StatusEntry *entries = palloc(sizeof(StatusEntry) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		PgBackendStatus *status = &cb_backend_status(i + 1)->backendStatus;

		entries[i].pid = status->st_procpid;
		entries[i].type = status->st_backendType;
		entries[i].state = status->st_state;
	}
	qsort(entries, n, sizeof(StatusEntry), compare_pids);
	*nentries = n;
	return entries;
}

static cb_client_state
client_state(BackendState state, uint32 wait_event_info)
{
	if (cb_state_is_starting(state))
		return CB_STATE_AUTHENTICATING;
	switch (state)
	{
		case STATE_IDLE:
			return CB_STATE_IDLE;
		case STATE_IDLEINTRANSACTION:
			return CB_STATE_IDLE_IN_TRANSACTION;
		case STATE_IDLEINTRANSACTION_ABORTED:
			return CB_STATE_IDLE_IN_TRANSACTION_ABORTED;
		case STATE_FASTPATH:
			return CB_STATE_FASTPATH;
		case STATE_DISABLED:
			return CB_STATE_DISABLED;
		case STATE_UNDEFINED:
			/* between the end of authentication and the first command */
			return CB_STATE_AUTHENTICATING;
		default:
			break;
	}
	return (wait_event_info & 0xFF000000U) == PG_WAIT_LOCK ?
		CB_STATE_WAITING_ON_LOCK : CB_STATE_ACTIVE;
}

/* In a lock group that somebody else leads. */
static bool
is_parallel_worker(const PGPROC *proc)
{
	const PGPROC *leader = proc->lockGroupLeader;

	return leader != NULL && leader != proc;
}

static void
count_process(cb_sample *sample, const PGPROC *proc, bool in_client_range,
			  const StatusEntry *entry)
{
	BackendType type = entry ? entry->type : cb_proc_backend_type(proc);

	if (type == B_BACKEND && entry)
		sample->client[client_state(entry->state, proc->wait_event_info)]++;
	else if (type == B_BACKEND)
	{
		/*
		 * No status entry: a client that is still authenticating, or an
		 * auxiliary process that has just started, which PGPROC cannot tell
		 * from a client below 19, but whose slot lies elsewhere.
		 */
		if (in_client_range)
			sample->client[CB_STATE_AUTHENTICATING]++;
	}
	else if (type == B_BG_WORKER && is_parallel_worker(proc))
		sample->parallel_workers++;
	else if (type > B_INVALID && (int) type < CB_BACKEND_TYPES)
		sample->other[type]++;
}

/* Reads without locks: a process may come or go meanwhile, as it may after. */
void
cb_census_count(cb_sample *sample)
{
	int			nentries;
	StatusEntry *entries = read_status_entries(&nentries);
	int			children;

	memset(sample, 0, sizeof(*sample));
	sample->sampled_at = GetCurrentTimestamp();
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		const PGPROC *proc = &ProcGlobal->allProcs[i];
		StatusEntry sought = {.pid = proc->pid};

		if (cb_proc_is_alive(proc))
			count_process(sample, proc, (int) i < MaxConnections,
						  bsearch(&sought, entries, nentries,
								  sizeof(StatusEntry), compare_pids));
	}
	if (Logging_collector)
		sample->other[B_LOGGER]++;

	children = cb_proc_children(PostmasterPid);
	sample->processes = children < 0 ? -1 : children + 1;
	sample->postmaster_cpu_us = cb_proc_cpu_us(PostmasterPid);
	pfree(entries);
}

int
cb_sample_untyped(const cb_sample *sample)
{
	int			typed = 1 + sample->parallel_workers;	/* 1: the postmaster */

	if (sample->processes < 0)
		return -1;
	for (int i = 0; i < CB_STATE_COUNT; i++)
		typed += sample->client[i];
	for (int i = 0; i < CB_BACKEND_TYPES; i++)
		typed += sample->other[i];
	return Max(sample->processes - typed, 0);
}

void
cb_sample_children(const cb_sample *sample, uint64 *alive)
{
	memset(alive, 0, sizeof(uint64) * CB_CHILD_KINDS);
	for (int i = 0; i < CB_STATE_COUNT; i++)
		alive[CB_CHILD_CLIENT] += sample->client[i];
	for (int i = B_INVALID + 1; i < CB_BACKEND_TYPES; i++)
		alive[cb_child_kind_of(i, false)] += sample->other[i];
	alive[CB_CHILD_PARALLEL_WORKER] += sample->parallel_workers;
}

const char *
cb_client_state_name(cb_client_state state)
{
	static const char *const names[CB_STATE_COUNT] = {
		[CB_STATE_ACTIVE] = "active",
		[CB_STATE_IDLE] = "idle",
		[CB_STATE_IDLE_IN_TRANSACTION] = "idle in transaction",
		[CB_STATE_IDLE_IN_TRANSACTION_ABORTED] = "idle in transaction (aborted)",
		[CB_STATE_FASTPATH] = "fastpath function call",
		[CB_STATE_WAITING_ON_LOCK] = "waiting on a lock",
		[CB_STATE_AUTHENTICATING] = "authenticating",
		[CB_STATE_DISABLED] = "disabled",
	};

	return names[state];
}

/* ------------------------------------------------------------------------
 * The worker
 * ------------------------------------------------------------------------
 */

static void
take_sample(void)
{
	cb_sample	sample;
	struct rusage usage;

	pgstat_clear_backend_activity_snapshot();
	cb_census_count(&sample);
	cb_ledger_take_counters(&sample.counters);
	(void) cb_ring_add(samples, &sample);
	pg_atomic_fetch_add_u64(&census->samples, 1);
	pg_atomic_write_u64(&census->last_sample_at, (uint64) sample.sampled_at);

	if (getrusage(RUSAGE_SELF, &usage) == 0)
		pg_atomic_write_u64(&census->worker_cpu_us,
							(uint64) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
							(uint64) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
}

static void
forget_worker(int code, Datum arg)
{
	pg_atomic_write_u32(&census->worker_pid, 0);
}

/* Milliseconds until the next sample is due; -1 while sampling is off. */
static long
time_to_sample(TimestampTz due)
{
	if (cb_sample_interval == 0)
		return -1;
	return TimestampDifferenceMilliseconds(GetCurrentTimestamp(), due);
}

/* A fixed grid of times; one that was missed is left out, not made up for. */
static TimestampTz
next_due(TimestampTz due)
{
	TimestampTz now = GetCurrentTimestamp();

	due = TimestampTzPlusMilliseconds(due, cb_sample_interval);
	return due > now ? due : TimestampTzPlusMilliseconds(now, cb_sample_interval);
}

void
cb_census_main(Datum arg)
{
	TimestampTz due;
	uint32		wait_event;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();

	before_shmem_exit(forget_worker, (Datum) 0);
	pg_atomic_write_u32(&census->worker_pid, MyProcPid);
	wait_event = cb_wait_event("ConnbenchCensus");
	due = GetCurrentTimestamp();

	while (!ShutdownRequestPending)
	{
		long		delay = time_to_sample(due);

		if (delay == 0)
		{
			take_sample();
			due = next_due(due);
			delay = time_to_sample(due);
		}

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
						 (delay >= 0 ? WL_TIMEOUT : 0),
						 delay, wait_event);
		ResetLatch(MyLatch);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			due = GetCurrentTimestamp();
		}
	}
}

/* ------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------
 */

bool
cb_census_read_sample(uint64 number, cb_sample *sample)
{
	return cb_ring_read_ticket(samples, number, sample);
}

void
cb_census_read_state(cb_census_state *state)
{
	state->worker_pid = (int) pg_atomic_read_u32(&census->worker_pid);
	state->last_sample_at = (TimestampTz) pg_atomic_read_u64(&census->last_sample_at);
	state->samples = pg_atomic_read_u64(&census->samples);
	state->oldest_sample = state->samples > CENSUS_PLACES ?
		state->samples - CENSUS_PLACES + 1 : 1;
	state->worker_cpu_us = pg_atomic_read_u64(&census->worker_cpu_us);
}
