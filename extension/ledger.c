/*
 * ledger.c
 *		Totals per key, rejections, gauges and the postmaster's fork account,
 *		in shared memory.
 *
 * Runs in: the postmaster (size and init only, while no child exists); every
 * client backend from its first hook to its exit, also before it has a PGPROC
 * and after it has given it back; the census worker; backends that run the
 * SQL functions.
 *
 * Protocol
 * - Counters and histograms are atomic adds.  Nobody waits for a reader.
 * - The gate keeps reset() apart from everyone else: writers and readers pass
 *   it shared (one atomic add each way), reset closes it, waits until it is
 *   empty, and clears.  So a reset never halves a connection.  Whoever is
 *   inside must not raise an error, check for interrupts or sleep.
 * - A slot, once taken for a key, keeps it until a reset finds it without
 *   sessions; "in_use" is set, with a barrier, after the key is complete.
 *   Slots are taken under a spinlock (LWLocks need a PGPROC).
 * - A session remembers its slot from cb_ledger_connected() to
 *   cb_ledger_disconnected(), and "sessions" counts them, so a reset never
 *   takes away a slot that a session will still write to.
 * - A process that is killed in here takes the server through crash recovery,
 *   which makes the ledger anew.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "ledger.h"
#include "recent.h"

#define GATE_CLOSED		0x80000000U

typedef struct LedgerSlot
{
	pg_atomic_uint32 in_use;
	pg_atomic_uint32 sessions;	/* that remember this slot; never cleared */
	cb_key		key;
	NameData	database_name;
	NameData	role_name;
	pg_atomic_uint64 connections;
	pg_atomic_uint64 sessions_ended[CB_END_COUNT];
	pg_atomic_uint64 cpu_user_us;
	pg_atomic_uint64 cpu_system_us;
	pg_atomic_uint64 minor_faults;
	pg_atomic_uint64 context_switches;
	cb_histogram phase[CB_PHASE_COUNT];
} LedgerSlot;

/* A kind of rejection is one word, so that taking a place is one exchange. */
typedef struct RejectionSlot
{
	pg_atomic_uint64 kind;		/* see rejection_kind(); 0 = free */
	pg_atomic_uint64 count;
	pg_atomic_uint64 last_at;
} RejectionSlot;

typedef struct Ledger
{
	pg_atomic_uint32 gate;		/* number inside, and GATE_CLOSED */
	slock_t		mutex;			/* taking a slot */
	pg_atomic_uint64 stats_since;
	pg_atomic_uint64 connections;
	pg_atomic_uint64 abandoned_authentications;

	pg_atomic_uint64 connected[CB_KIND_COUNT];	/* never cleared */
	pg_atomic_uint64 connected_max;
	pg_atomic_uint64 connected_max_at;
	pg_atomic_uint64 connected_peak;	/* since the census last asked */

	RejectionSlot rejection[CB_MAX_REJECTIONS];

	/* what children have published, and what that made since the reset */
	cb_fork_account published;
	cb_fork_account forks;

	int			nslots;			/* keys; slot[nslots] is "other" */
	LedgerSlot	slot[FLEXIBLE_ARRAY_MEMBER];
} Ledger;

int			cb_max_keys = 64;
int			cb_max_recent = 1024;

static Ledger *ledger = NULL;

/* slot of this backend's session, from connected to disconnected */
static LedgerSlot *my_slot = NULL;

/* ------------------------------------------------------------------------
 * Setting up
 * ------------------------------------------------------------------------
 */

static Size
ledger_size(void)
{
	return add_size(offsetof(Ledger, slot),
					mul_size(cb_max_keys + 1, sizeof(LedgerSlot)));
}

Size
cb_ledger_shmem_size(void)
{
	return add_size(MAXALIGN(ledger_size()), cb_recent_shmem_size());
}

/* in_use and key are left alone: the caller decides about them */
static void
clear_slot_counters(LedgerSlot *slot)
{
	pg_atomic_write_u64(&slot->connections, 0);
	for (int i = 0; i < CB_END_COUNT; i++)
		pg_atomic_write_u64(&slot->sessions_ended[i], 0);
	pg_atomic_write_u64(&slot->cpu_user_us, 0);
	pg_atomic_write_u64(&slot->cpu_system_us, 0);
	pg_atomic_write_u64(&slot->minor_faults, 0);
	pg_atomic_write_u64(&slot->context_switches, 0);
	for (int i = 0; i < CB_PHASE_COUNT; i++)
		cb_histogram_init(&slot->phase[i]);
}

/* All bytes zero is a valid start for every atomic on the platforms we build
 * for, but only init makes it one on those that emulate 64-bit atomics. */
static void
init_atomics(void)
{
	pg_atomic_init_u32(&ledger->gate, 0);
	pg_atomic_init_u64(&ledger->stats_since, (uint64) GetCurrentTimestamp());
	pg_atomic_init_u64(&ledger->connections, 0);
	pg_atomic_init_u64(&ledger->abandoned_authentications, 0);
	for (int i = 0; i < CB_KIND_COUNT; i++)
		pg_atomic_init_u64(&ledger->connected[i], 0);
	pg_atomic_init_u64(&ledger->connected_max, 0);
	pg_atomic_init_u64(&ledger->connected_max_at, 0);
	pg_atomic_init_u64(&ledger->connected_peak, 0);
	for (int i = 0; i < CB_MAX_REJECTIONS; i++)
	{
		pg_atomic_init_u64(&ledger->rejection[i].kind, 0);
		pg_atomic_init_u64(&ledger->rejection[i].count, 0);
		pg_atomic_init_u64(&ledger->rejection[i].last_at, 0);
	}
	for (int i = 0; i <= ledger->nslots; i++)
	{
		LedgerSlot *slot = &ledger->slot[i];

		pg_atomic_init_u32(&slot->in_use, 0);
		pg_atomic_init_u32(&slot->sessions, 0);
		pg_atomic_init_u64(&slot->connections, 0);
		for (int e = 0; e < CB_END_COUNT; e++)
			pg_atomic_init_u64(&slot->sessions_ended[e], 0);
		pg_atomic_init_u64(&slot->cpu_user_us, 0);
		pg_atomic_init_u64(&slot->cpu_system_us, 0);
		pg_atomic_init_u64(&slot->minor_faults, 0);
		pg_atomic_init_u64(&slot->context_switches, 0);
		clear_slot_counters(slot);
	}
}

/* In the postmaster, at start and after each crash: no child exists. */
void
cb_ledger_shmem_init(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	ledger = ShmemInitStruct("connbench ledger", ledger_size(), &found);
	if (!found)
	{
		memset(ledger, 0, ledger_size());
		ledger->nslots = cb_max_keys;
		SpinLockInit(&ledger->mutex);
		init_atomics();
		cb_histogram_init(&ledger->published.blocked);
		cb_histogram_init(&ledger->forks.blocked);
		pg_atomic_write_u32(&ledger->slot[ledger->nslots].in_use, 1);
	}
	cb_recent_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}

bool
cb_ledger_is_attached(void)
{
	return ledger != NULL;
}

/* ------------------------------------------------------------------------
 * The gate
 * ------------------------------------------------------------------------
 */

static void
enter_gate(void)
{
	while (pg_atomic_fetch_add_u32(&ledger->gate, 1) & GATE_CLOSED)
	{
		/* a reset is clearing; it takes well under a millisecond */
		pg_atomic_fetch_sub_u32(&ledger->gate, 1);
		pg_usleep(50);
	}
}

static void
leave_gate(void)
{
	pg_atomic_fetch_sub_u32(&ledger->gate, 1);
}

/* Returns when nobody is inside and nobody gets in. */
static void
close_gate(void)
{
	while (pg_atomic_fetch_or_u32(&ledger->gate, GATE_CLOSED) & GATE_CLOSED)
	{
		/* another reset; not ours yet, so we may be interrupted */
		CHECK_FOR_INTERRUPTS();
		pg_usleep(50);
	}
	while (pg_atomic_read_u32(&ledger->gate) != GATE_CLOSED)
		pg_usleep(10);
}

static void
open_gate(void)
{
	pg_atomic_fetch_and_u32(&ledger->gate, ~GATE_CLOSED);
}

/* ------------------------------------------------------------------------
 * Connections
 * ------------------------------------------------------------------------
 */

static LedgerSlot *
find_slot(const cb_key *key)
{
	for (int i = 0; i < ledger->nslots; i++)
	{
		LedgerSlot *slot = &ledger->slot[i];

		if (pg_atomic_read_u32(&slot->in_use) == 0)
			continue;
		pg_read_barrier();
		if (memcmp(&slot->key, key, sizeof(cb_key)) == 0)
			return slot;
	}
	return NULL;
}

/* The first free slot, given this key, or "other" when all are taken. */
static LedgerSlot *
take_slot(const cb_connection *connection)
{
	LedgerSlot *slot;

	SpinLockAcquire(&ledger->mutex);
	slot = find_slot(&connection->key);
	for (int i = 0; slot == NULL && i < ledger->nslots; i++)
	{
		if (pg_atomic_read_u32(&ledger->slot[i].in_use) != 0)
			continue;
		slot = &ledger->slot[i];
		slot->key = connection->key;
		slot->database_name = connection->database_name;
		slot->role_name = connection->role_name;
		pg_write_barrier();
		pg_atomic_write_u32(&slot->in_use, 1);
	}
	SpinLockRelease(&ledger->mutex);

	return slot != NULL ? slot : &ledger->slot[ledger->nslots];
}

static void
count_connected(cb_backend_kind kind, TimestampTz at)
{
	uint64		now = pg_atomic_fetch_add_u64(&ledger->connected[kind], 1) + 1;
	uint64		seen;

	if (kind != CB_KIND_CLIENT)
		return;

	seen = pg_atomic_read_u64(&ledger->connected_peak);
	while (now > seen &&
		   !pg_atomic_compare_exchange_u64(&ledger->connected_peak, &seen, now))
		;
	seen = pg_atomic_read_u64(&ledger->connected_max);
	while (now > seen)
	{
		if (pg_atomic_compare_exchange_u64(&ledger->connected_max, &seen, now))
		{
			pg_atomic_write_u64(&ledger->connected_max_at, (uint64) at);
			break;
		}
	}
}

static void
record_phase(LedgerSlot *slot, const cb_connection *connection, cb_phase phase)
{
	uint64		ns = cb_connection_phase(connection, phase);

	if (ns != CB_NOT_MEASURED)
		cb_histogram_record_atomic(&slot->phase[phase], ns);
}

/* The caller has reached init_end. */
void
cb_ledger_connected(const cb_connection *connection)
{
	LedgerSlot *slot;

	enter_gate();

	slot = find_slot(&connection->key);
	if (slot == NULL)
		slot = take_slot(connection);
	pg_atomic_fetch_add_u32(&slot->sessions, 1);
	my_slot = slot;

	pg_atomic_fetch_add_u64(&ledger->connections, 1);
	pg_atomic_fetch_add_u64(&slot->connections, 1);
	pg_atomic_fetch_add_u64(&slot->cpu_user_us, connection->cpu_user_us);
	pg_atomic_fetch_add_u64(&slot->cpu_system_us, connection->cpu_system_us);
	pg_atomic_fetch_add_u64(&slot->minor_faults, connection->minor_faults);
	pg_atomic_fetch_add_u64(&slot->context_switches,
							connection->context_switches);
	for (int i = 0; i < CB_PHASE_COUNT; i++)
		record_phase(slot, connection, i);
	count_connected(connection->key.kind, connection->started_at);
	cb_recent_add(connection);

	leave_gate();
}

/* A phase that ended after the session had become ready. */
void
cb_ledger_add_phase(const cb_connection *connection, cb_phase phase)
{
	if (my_slot == NULL)
		return;

	enter_gate();
	record_phase(my_slot, connection, phase);
	cb_recent_update(connection);
	leave_gate();
}

/* The caller is on its way out: no PGPROC, no transaction, no error. */
void
cb_ledger_disconnected(const cb_connection *connection)
{
	LedgerSlot *slot = my_slot;

	if (slot == NULL)
		return;
	my_slot = NULL;

	enter_gate();
	pg_atomic_fetch_sub_u64(&ledger->connected[connection->key.kind], 1);
	pg_atomic_fetch_add_u64(&slot->sessions_ended[connection->session_end], 1);
	record_phase(slot, connection, CB_PHASE_SESSION);
	cb_recent_update(connection);
	pg_atomic_fetch_sub_u32(&slot->sessions, 1);
	leave_gate();
}

/*
 * Ask for the number of client backends connected now, and the most that
 * there were since the last call: so a peak between two samples is not lost.
 */
uint64
cb_ledger_take_connected_peak(uint64 *connected)
{
	uint64		peak;

	*connected = pg_atomic_read_u64(&ledger->connected[CB_KIND_CLIENT]);
	peak = pg_atomic_exchange_u64(&ledger->connected_peak, *connected);
	return Max(peak, *connected);
}

/* ------------------------------------------------------------------------
 * Connections that did not come about
 * ------------------------------------------------------------------------
 */

/* SQLSTATE in the upper half, which is not 0 for a FATAL */
static uint64
rejection_kind(int sqlstate, cb_reject_phase phase, cb_reject_reason reason)
{
	return ((uint64) (uint32) sqlstate << 32) |
		((uint64) phase << 8) | (uint64) reason;
}

void
cb_ledger_rejected(int sqlstate, cb_reject_phase phase, cb_reject_reason reason,
				   TimestampTz at)
{
	uint64		kind = rejection_kind(sqlstate, phase, reason);
	RejectionSlot *slot = ledger->rejection;

	enter_gate();
	/* the last place is the overflow's: it takes what found no other */
	for (; slot < &ledger->rejection[CB_MAX_REJECTIONS - 1]; slot++)
	{
		uint64		seen = 0;

		if (pg_atomic_compare_exchange_u64(&slot->kind, &seen, kind) ||
			seen == kind)
			break;
	}
	pg_atomic_fetch_add_u64(&slot->count, 1);
	pg_atomic_write_u64(&slot->last_at, (uint64) at);
	leave_gate();
}

void
cb_ledger_authentication_abandoned(void)
{
	enter_gate();
	pg_atomic_fetch_add_u64(&ledger->abandoned_authentications, 1);
	leave_gate();
}

/* ------------------------------------------------------------------------
 * The postmaster's forks
 *
 * A child inherits the postmaster's absolute account as of its own fork.  Of
 * the children that publish it, in whatever order, each brings every number
 * up to its own if that is higher, and whoever raised it adds the difference
 * to what the views show.  So nothing is counted twice, a child that dies
 * silently loses nothing, and a reset is just zeroing the sums.
 * ------------------------------------------------------------------------
 */

/* Raises *published to "value"; returns by how much. */
static uint64
raise_to(uint64_t *published, uint64 value)
{
	uint64_t	seen = __atomic_load_n(published, __ATOMIC_RELAXED);

	while (seen < value)
	{
		if (__atomic_compare_exchange_n(published, &seen, value, false,
										__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return value - seen;
	}
	return 0;
}

static void
lift(uint64_t *published, uint64_t *sum, uint64 value)
{
	uint64		more = raise_to(published, value);

	if (more > 0)
		__atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
}

void
cb_ledger_publish_forks(const cb_fork_account *account)
{
	cb_histogram *published = &ledger->published.blocked;
	cb_histogram *sum = &ledger->forks.blocked;

	enter_gate();
	lift(&ledger->published.forks, &ledger->forks.forks, account->forks);
	lift(&published->sum_ns, &sum->sum_ns, account->blocked.sum_ns);
	lift(&published->clamped_low, &sum->clamped_low, account->blocked.clamped_low);
	lift(&published->clamped_high, &sum->clamped_high, account->blocked.clamped_high);
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
		lift(&published->bucket[i], &sum->bucket[i], account->blocked.bucket[i]);
	leave_gate();
}

/* The extremes since a reset are known as well as the buckets tell them. */
void
cb_ledger_read_forks(cb_fork_account *account)
{
	enter_gate();
	account->forks = __atomic_load_n(&ledger->forks.forks, __ATOMIC_RELAXED);
	cb_histogram_copy_atomic(&account->blocked, &ledger->forks.blocked);
	leave_gate();

	cb_histogram_bound_extremes(&account->blocked);
}

/* ------------------------------------------------------------------------
 * Reset
 * ------------------------------------------------------------------------
 */

/* Returns the time from which on the ledger counts. */
TimestampTz
cb_ledger_reset(void)
{
	TimestampTz now;
	uint64		connected;

	close_gate();
	now = GetCurrentTimestamp();
	for (int i = 0; i <= ledger->nslots; i++)
	{
		LedgerSlot *slot = &ledger->slot[i];

		clear_slot_counters(slot);
		if (i < ledger->nslots && pg_atomic_read_u32(&slot->sessions) == 0)
			pg_atomic_write_u32(&slot->in_use, 0);
	}
	for (int i = 0; i < CB_MAX_REJECTIONS; i++)
	{
		pg_atomic_write_u64(&ledger->rejection[i].kind, 0);
		pg_atomic_write_u64(&ledger->rejection[i].count, 0);
		pg_atomic_write_u64(&ledger->rejection[i].last_at, 0);
	}
	ledger->forks.forks = 0;
	cb_histogram_init(&ledger->forks.blocked);
	pg_atomic_write_u64(&ledger->connections, 0);
	pg_atomic_write_u64(&ledger->abandoned_authentications, 0);
	connected = pg_atomic_read_u64(&ledger->connected[CB_KIND_CLIENT]);
	pg_atomic_write_u64(&ledger->connected_max, connected);
	pg_atomic_write_u64(&ledger->connected_max_at, (uint64) now);
	pg_atomic_write_u64(&ledger->stats_since, (uint64) now);
	cb_recent_clear();
	open_gate();

	return now;
}

/* ------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------
 */

void
cb_ledger_read_totals(cb_totals *totals)
{
	enter_gate();
	totals->stats_since = (TimestampTz) pg_atomic_read_u64(&ledger->stats_since);
	totals->connections = pg_atomic_read_u64(&ledger->connections);
	totals->abandoned_authentications =
		pg_atomic_read_u64(&ledger->abandoned_authentications);
	for (int i = 0; i < CB_KIND_COUNT; i++)
		totals->connected[i] = pg_atomic_read_u64(&ledger->connected[i]);
	totals->connected_max = pg_atomic_read_u64(&ledger->connected_max);
	totals->connected_max_at =
		(TimestampTz) pg_atomic_read_u64(&ledger->connected_max_at);
	totals->keys_used = 0;
	for (int i = 0; i < ledger->nslots; i++)
		totals->keys_used += pg_atomic_read_u32(&ledger->slot[i].in_use);
	leave_gate();

	totals->keys_max = ledger->nslots;
	totals->recent_skipped = cb_recent_skipped();
	totals->recent_max = cb_max_recent;
	totals->shared_memory_bytes = cb_ledger_shmem_size();
}

/* Number of slots to read, "other" included: the last one. */
int
cb_ledger_slots(void)
{
	return ledger->nslots + 1;
}

void
cb_ledger_read_slot(int i, cb_ledger_row *row)
{
	LedgerSlot *slot = &ledger->slot[i];

	enter_gate();
	row->in_use = pg_atomic_read_u32(&slot->in_use) != 0;
	if (row->in_use)
	{
		pg_read_barrier();
		row->is_other = (i == ledger->nslots);
		row->key = slot->key;
		row->database_name = slot->database_name;
		row->role_name = slot->role_name;
		row->connections = pg_atomic_read_u64(&slot->connections);
		for (int e = 0; e < CB_END_COUNT; e++)
			row->sessions_ended[e] = pg_atomic_read_u64(&slot->sessions_ended[e]);
		row->cpu_user_us = pg_atomic_read_u64(&slot->cpu_user_us);
		row->cpu_system_us = pg_atomic_read_u64(&slot->cpu_system_us);
		row->minor_faults = pg_atomic_read_u64(&slot->minor_faults);
		row->context_switches = pg_atomic_read_u64(&slot->context_switches);
		for (int p = 0; p < CB_PHASE_COUNT; p++)
			cb_histogram_copy_atomic(&row->phase[p], &slot->phase[p]);
	}
	leave_gate();
}

/* Fills at most CB_MAX_REJECTIONS entries; returns how many. */
int
cb_ledger_read_rejections(cb_rejection *rejections)
{
	int			n = 0;

	enter_gate();
	for (int i = 0; i < CB_MAX_REJECTIONS; i++)
	{
		RejectionSlot *slot = &ledger->rejection[i];
		uint64		kind = pg_atomic_read_u64(&slot->kind);
		cb_rejection *out = &rejections[n];

		out->count = pg_atomic_read_u64(&slot->count);
		if (out->count == 0)
			continue;
		out->sqlstate = (int) (kind >> 32);
		out->phase = (cb_reject_phase) ((kind >> 8) & 0xff);
		out->reason = (cb_reject_reason) (kind & 0xff);
		out->last_at = (TimestampTz) pg_atomic_read_u64(&slot->last_at);
		n++;
	}
	leave_gate();
	return n;
}

/* ------------------------------------------------------------------------
 * Saving and restoring: nobody else is about
 * ------------------------------------------------------------------------
 */

void
cb_ledger_read_image(cb_ledger_image *image)
{
	cb_totals	totals;

	cb_ledger_read_totals(&totals);
	image->stats_since = totals.stats_since;
	image->connections = totals.connections;
	image->abandoned_authentications = totals.abandoned_authentications;
	image->connected_max = totals.connected_max;
	image->connected_max_at = totals.connected_max_at;
	cb_ledger_read_forks(&image->forks);
	image->nrejections = cb_ledger_read_rejections(image->rejections);
}

void
cb_ledger_restore_image(const cb_ledger_image *image)
{
	pg_atomic_write_u64(&ledger->stats_since, (uint64) image->stats_since);
	pg_atomic_write_u64(&ledger->connections, image->connections);
	pg_atomic_write_u64(&ledger->abandoned_authentications,
						image->abandoned_authentications);
	pg_atomic_write_u64(&ledger->connected_max, image->connected_max);
	pg_atomic_write_u64(&ledger->connected_max_at, (uint64) image->connected_max_at);
	ledger->forks = image->forks;
	for (int i = 0; i < image->nrejections && i < CB_MAX_REJECTIONS; i++)
	{
		const cb_rejection *r = &image->rejections[i];
		/* the overflow row has a place of its own, the last */
		RejectionSlot *slot = &ledger->rejection[r->sqlstate == 0 ? CB_MAX_REJECTIONS - 1 : i];

		if (r->sqlstate != 0)
			pg_atomic_write_u64(&slot->kind, rejection_kind(r->sqlstate, r->phase, r->reason));
		pg_atomic_write_u64(&slot->count, r->count);
		pg_atomic_write_u64(&slot->last_at, (uint64) r->last_at);
	}
}

/* A row that finds no free slot, since max_keys is smaller now, is counted as
 * "other"; returns false then. */
bool
cb_ledger_restore_row(const cb_ledger_row *row)
{
	LedgerSlot *slot = &ledger->slot[ledger->nslots];

	for (int i = 0; i < ledger->nslots && !row->is_other; i++)
	{
		if (pg_atomic_read_u32(&ledger->slot[i].in_use) != 0)
			continue;
		slot = &ledger->slot[i];
		slot->key = row->key;
		slot->database_name = row->database_name;
		slot->role_name = row->role_name;
		pg_atomic_write_u32(&slot->in_use, 1);
		break;
	}
	pg_atomic_fetch_add_u64(&slot->connections, row->connections);
	for (int e = 0; e < CB_END_COUNT; e++)
		pg_atomic_fetch_add_u64(&slot->sessions_ended[e], row->sessions_ended[e]);
	pg_atomic_fetch_add_u64(&slot->cpu_user_us, row->cpu_user_us);
	pg_atomic_fetch_add_u64(&slot->cpu_system_us, row->cpu_system_us);
	pg_atomic_fetch_add_u64(&slot->minor_faults, row->minor_faults);
	pg_atomic_fetch_add_u64(&slot->context_switches, row->context_switches);
	for (int p = 0; p < CB_PHASE_COUNT; p++)
		cb_histogram_add(&slot->phase[p], &row->phase[p]);
	return row->is_other || slot != &ledger->slot[ledger->nslots];
}

/* ------------------------------------------------------------------------
 * Phases
 * ------------------------------------------------------------------------
 */

const char *
cb_phase_name(cb_phase phase)
{
	static const char *const names[CB_PHASE_COUNT] = {
		[CB_PHASE_ACCEPT_WAIT] = "accept_wait",
		[CB_PHASE_FORK] = "fork",
		[CB_PHASE_STARTUP] = "startup",
		[CB_PHASE_TLS] = "tls",
		[CB_PHASE_NEGOTIATION] = "negotiation",
		[CB_PHASE_AUTH] = "auth",
		[CB_PHASE_INIT] = "init",
		[CB_PHASE_TOTAL] = "total",
		[CB_PHASE_LOGIN_TRIGGER] = "login_trigger",
		[CB_PHASE_FIRST_QUERY] = "first_query",
		[CB_PHASE_SESSION] = "session",
	};

	return names[phase];
}

static uint64
between(uint64 from_ns, uint64 to_ns)
{
	if (from_ns == CB_NOT_MEASURED || to_ns == CB_NOT_MEASURED)
		return CB_NOT_MEASURED;
	return to_ns - from_ns;
}

uint64
cb_connection_phase(const cb_connection *c, cb_phase phase)
{
	switch (phase)
	{
		case CB_PHASE_ACCEPT_WAIT:
			return c->accept_wait_ns;
		case CB_PHASE_FORK:
			return between(c->fork_start_ns, c->child_start_ns);
		case CB_PHASE_STARTUP:
			return between(c->child_start_ns, c->auth_end_ns);
		case CB_PHASE_TLS:
			return between(c->tls_start_ns, c->tls_end_ns);
		case CB_PHASE_NEGOTIATION:
			return c->negotiation_ns;
		case CB_PHASE_AUTH:
			return between(c->auth_start_ns, c->auth_end_ns);
		case CB_PHASE_INIT:
			return between(c->auth_end_ns, c->init_end_ns);
		case CB_PHASE_TOTAL:
			return between(c->fork_start_ns, c->init_end_ns);
		case CB_PHASE_LOGIN_TRIGGER:
			return between(c->init_end_ns, c->login_trigger_end_ns);
		case CB_PHASE_FIRST_QUERY:
			return between(c->first_query_start_ns, c->first_query_end_ns);
		case CB_PHASE_SESSION:
			return between(c->init_end_ns, c->exit_ns);
		case CB_PHASE_COUNT:
			break;
	}
	return CB_NOT_MEASURED;
}
