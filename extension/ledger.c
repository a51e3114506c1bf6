/*
 * ledger.c
 *		Totals per key and gauges, in shared memory.  rejections.c and forks.c
 *		keep the rest of it, by the same protocol.
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
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "ledger_internal.h"
#include "ring.h"

#define GATE_CLOSED		0x80000000U

int			cb_max_keys = 64;
int			cb_max_recent = 1024;

Ledger	   *cb_ledger = NULL;

static cb_ring *recent = NULL;

/* slot of this backend's session, from connected to disconnected */
static LedgerSlot *my_slot = NULL;
static uint64 my_ticket = 0;	/* and its record in "recent" */

/* ------------------------------------------------------------------------
 * Setting up
 * ------------------------------------------------------------------------
 */

static Size
phases_offset(void)
{
	return MAXALIGN(add_size(offsetof(Ledger, slot),
							 mul_size(cb_max_keys + 1, sizeof(LedgerSlot))));
}

/* The histograms of a slot, by phase. */
static cb_histogram *
phases_of(const LedgerSlot *slot)
{
	cb_histogram *first = (cb_histogram *) ((char *) cb_ledger + phases_offset());

	return first + (slot - cb_ledger->slot) * CB_PHASE_COUNT;
}

static Size
ledger_size(void)
{
	return add_size(phases_offset(),
					mul_size(mul_size(cb_max_keys + 1, CB_PHASE_COUNT),
							 sizeof(cb_histogram)));
}

static Size
recent_size(void)
{
	return cb_ring_size(cb_max_recent, sizeof(cb_connection));
}

Size
cb_ledger_shmem_size(void)
{
	return add_size(MAXALIGN(ledger_size()),
					add_size(MAXALIGN(recent_size()),
							 cb_rejections_shmem_size()));
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
		cb_histogram_init(&phases_of(slot)[i]);
}

/* All bytes zero is a valid start for every atomic on the platforms we build
 * for, but only init makes it one on those that emulate 64-bit atomics. */
static void
init_atomics(void)
{
	pg_atomic_init_u32(&cb_ledger->gate, 0);
	pg_atomic_init_u64(&cb_ledger->stats_since, (uint64) GetCurrentTimestamp());
	pg_atomic_init_u64(&cb_ledger->connections, 0);
	for (int i = 0; i < CB_KIND_COUNT; i++)
		pg_atomic_init_u64(&cb_ledger->connected[i], 0);
	pg_atomic_init_u64(&cb_ledger->begun, 0);
	pg_atomic_init_u64(&cb_ledger->ended, 0);
	pg_atomic_init_u64(&cb_ledger->connected_max, 0);
	pg_atomic_init_u64(&cb_ledger->connected_max_at, 0);
	pg_atomic_init_u64(&cb_ledger->connected_peak, 0);
	for (int i = 0; i <= cb_ledger->nslots; i++)
	{
		LedgerSlot *slot = &cb_ledger->slot[i];

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
	cb_ledger = ShmemInitStruct("connbench ledger", ledger_size(), &found);
	if (!found)
	{
		memset(cb_ledger, 0, ledger_size());
		cb_ledger->nslots = cb_max_keys;
		SpinLockInit(&cb_ledger->mutex);
		init_atomics();
		cb_forks_init();
		pg_atomic_write_u32(&cb_ledger->slot[cb_ledger->nslots].in_use, 1);
	}
	cb_rejections_shmem_init();
	recent = ShmemInitStruct("connbench recent connections", recent_size(), &found);
	if (!found)
	{
		memset(recent, 0, recent_size());
		cb_ring_init(recent, cb_max_recent, sizeof(cb_connection));
	}
	LWLockRelease(AddinShmemInitLock);
}

bool
cb_ledger_is_attached(void)
{
	return cb_ledger != NULL;
}

/* ------------------------------------------------------------------------
 * The gate
 * ------------------------------------------------------------------------
 */

void
cb_gate_enter(void)
{
	for (;;)
	{
		/* read first: see cb_histogram_record_atomic() */
		if (!(pg_atomic_read_u32(&cb_ledger->gate) & GATE_CLOSED))
		{
			if (!(pg_atomic_fetch_add_u32(&cb_ledger->gate, 1) & GATE_CLOSED))
				return;
			pg_atomic_fetch_sub_u32(&cb_ledger->gate, 1);
		}
		/* a reset is clearing; it takes well under a millisecond */
		pg_usleep(50);
	}
}

void
cb_gate_leave(void)
{
	pg_atomic_fetch_sub_u32(&cb_ledger->gate, 1);
}

/* Returns when nobody is inside and nobody gets in. */
static void
close_gate(void)
{
	while (pg_atomic_fetch_or_u32(&cb_ledger->gate, GATE_CLOSED) & GATE_CLOSED)
	{
		/* another reset; not ours yet, so we may be interrupted */
		CHECK_FOR_INTERRUPTS();
		pg_usleep(50);
	}
	while (pg_atomic_read_u32(&cb_ledger->gate) != GATE_CLOSED)
		pg_usleep(10);
}

static void
open_gate(void)
{
	pg_atomic_fetch_and_u32(&cb_ledger->gate, ~GATE_CLOSED);
}

/* ------------------------------------------------------------------------
 * Connections
 * ------------------------------------------------------------------------
 */

static LedgerSlot *
find_slot(const cb_key *key)
{
	for (int i = 0; i < cb_ledger->nslots; i++)
	{
		LedgerSlot *slot = &cb_ledger->slot[i];

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

	SpinLockAcquire(&cb_ledger->mutex);
	slot = find_slot(&connection->key);
	for (int i = 0; slot == NULL && i < cb_ledger->nslots; i++)
	{
		if (pg_atomic_read_u32(&cb_ledger->slot[i].in_use) != 0)
			continue;
		slot = &cb_ledger->slot[i];
		slot->key = connection->key;
		slot->database_name = connection->database_name;
		slot->role_name = connection->role_name;
		pg_write_barrier();
		pg_atomic_write_u32(&slot->in_use, 1);
	}
	SpinLockRelease(&cb_ledger->mutex);

	return slot != NULL ? slot : &cb_ledger->slot[cb_ledger->nslots];
}

static void
count_connected(cb_backend_kind kind, TimestampTz at)
{
	uint64		now = pg_atomic_fetch_add_u64(&cb_ledger->connected[kind], 1) + 1;
	uint64		seen;

	if (kind != CB_KIND_CLIENT)
		return;

	seen = pg_atomic_read_u64(&cb_ledger->connected_peak);
	while (now > seen &&
		   !pg_atomic_compare_exchange_u64(&cb_ledger->connected_peak, &seen, now))
		;
	seen = pg_atomic_read_u64(&cb_ledger->connected_max);
	while (now > seen)
	{
		if (pg_atomic_compare_exchange_u64(&cb_ledger->connected_max, &seen, now))
		{
			pg_atomic_write_u64(&cb_ledger->connected_max_at, (uint64) at);
			break;
		}
	}
}

static void
record_phase(LedgerSlot *slot, const cb_connection *connection, cb_phase phase)
{
	uint64		ns = cb_connection_phase(connection, phase);

	if (ns != CB_NOT_MEASURED)
		cb_histogram_record_atomic(&phases_of(slot)[phase], ns);
}

/* The caller has reached init_end. */
void
cb_ledger_connected(const cb_connection *connection)
{
	LedgerSlot *slot;

	cb_gate_enter();

	slot = find_slot(&connection->key);
	if (slot == NULL)
		slot = take_slot(connection);
	pg_atomic_fetch_add_u32(&slot->sessions, 1);
	my_slot = slot;

	pg_atomic_fetch_add_u64(&cb_ledger->connections, 1);
	pg_atomic_fetch_add_u64(&slot->connections, 1);
	pg_atomic_fetch_add_u64(&slot->cpu_user_us, connection->cpu_user_us);
	pg_atomic_fetch_add_u64(&slot->cpu_system_us, connection->cpu_system_us);
	pg_atomic_fetch_add_u64(&slot->minor_faults, connection->minor_faults);
	pg_atomic_fetch_add_u64(&slot->context_switches,
							connection->context_switches);
	if (connection->cold)
		record_phase(slot, connection, CB_PHASE_COLD);
	else
		for (int i = 0; i < CB_PHASE_COUNT; i++)
			record_phase(slot, connection, i);
	count_connected(connection->key.kind, connection->started_at);
	pg_atomic_fetch_add_u64(&cb_ledger->begun, 1);
	my_ticket = cb_ring_add(recent, connection);

	cb_gate_leave();
}

/* A phase that ended after the session had become ready. */
void
cb_ledger_add_phase(const cb_connection *connection, cb_phase phase)
{
	if (my_slot == NULL)
		return;

	cb_gate_enter();
	record_phase(my_slot, connection, phase);
	cb_ring_update(recent, my_ticket, connection);
	cb_gate_leave();
}

/* The caller is on its way out: no PGPROC, no transaction, no error. */
void
cb_ledger_disconnected(const cb_connection *connection)
{
	LedgerSlot *slot = my_slot;

	if (slot == NULL)
		return;
	my_slot = NULL;

	cb_gate_enter();
	pg_atomic_fetch_sub_u64(&cb_ledger->connected[connection->key.kind], 1);
	pg_atomic_fetch_add_u64(&cb_ledger->ended, 1);
	pg_atomic_fetch_add_u64(&slot->sessions_ended[connection->session_end], 1);
	record_phase(slot, connection, CB_PHASE_SESSION);
	cb_ring_update(recent, my_ticket, connection);
	pg_atomic_fetch_sub_u32(&slot->sessions, 1);
	cb_gate_leave();
}

/*
 * For the census: the most client backends since the last such call comes
 * along, so a peak between two samples is not lost.
 */
void
cb_ledger_take_counters(cb_counters *counters)
{
	uint64		peak;

	counters->connected = pg_atomic_read_u64(&cb_ledger->connected[CB_KIND_CLIENT]);
	peak = pg_atomic_exchange_u64(&cb_ledger->connected_peak, counters->connected);
	counters->connected_max = Max(peak, counters->connected);
	counters->begun = pg_atomic_read_u64(&cb_ledger->begun);
	counters->ended = pg_atomic_read_u64(&cb_ledger->ended);
	counters->forks = __atomic_load_n(&cb_ledger->published.forks, __ATOMIC_RELAXED);
	counters->blocked_ns = __atomic_load_n(&cb_ledger->published.blocked.sum_ns,
										   __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------------
 * Reset
 * ------------------------------------------------------------------------
 */

/*
 * Returns the time from which on the ledger counts.  children_alive: how many
 * processes of each cb_child_kind there are.
 */
TimestampTz
cb_ledger_reset(const uint64 *children_alive)
{
	TimestampTz now;
	uint64		connected;

	close_gate();
	now = GetCurrentTimestamp();
	for (int i = 0; i <= cb_ledger->nslots; i++)
	{
		LedgerSlot *slot = &cb_ledger->slot[i];

		clear_slot_counters(slot);
		if (i < cb_ledger->nslots && pg_atomic_read_u32(&slot->sessions) == 0)
			pg_atomic_write_u32(&slot->in_use, 0);
	}
	cb_rejections_clear();
	cb_forks_clear(children_alive);
	pg_atomic_write_u64(&cb_ledger->connections, 0);
	connected = pg_atomic_read_u64(&cb_ledger->connected[CB_KIND_CLIENT]);
	pg_atomic_write_u64(&cb_ledger->connected_max, connected);
	pg_atomic_write_u64(&cb_ledger->connected_max_at, (uint64) now);
	pg_atomic_write_u64(&cb_ledger->stats_since, (uint64) now);
	cb_ring_clear(recent);
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
	cb_gate_enter();
	totals->stats_since = (TimestampTz) pg_atomic_read_u64(&cb_ledger->stats_since);
	totals->connections = pg_atomic_read_u64(&cb_ledger->connections);
	for (int i = 0; i < CB_KIND_COUNT; i++)
		totals->connected[i] = pg_atomic_read_u64(&cb_ledger->connected[i]);
	totals->connected_max = pg_atomic_read_u64(&cb_ledger->connected_max);
	totals->connected_max_at =
		(TimestampTz) pg_atomic_read_u64(&cb_ledger->connected_max_at);
	totals->keys_used = 0;
	for (int i = 0; i < cb_ledger->nslots; i++)
		totals->keys_used += pg_atomic_read_u32(&cb_ledger->slot[i].in_use);
	cb_gate_leave();

	totals->keys_max = cb_ledger->nslots;
	totals->recent_skipped = cb_ring_skipped(recent);
	totals->recent_max = cb_max_recent;
	totals->shared_memory_bytes = cb_ledger_shmem_size();
}

/* Number of slots to read, "other" included: the last one. */
int
cb_ledger_slots(void)
{
	return cb_ledger->nslots + 1;
}

void
cb_ledger_read_slot(int i, cb_ledger_row *row)
{
	LedgerSlot *slot = &cb_ledger->slot[i];

	cb_gate_enter();
	row->in_use = pg_atomic_read_u32(&slot->in_use) != 0;
	if (row->in_use)
	{
		pg_read_barrier();
		row->is_other = (i == cb_ledger->nslots);
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
			cb_histogram_copy_atomic(&row->phase[p], &phases_of(slot)[p]);
	}
	cb_gate_leave();
}

/* False if there is none at this place, 0 .. cb_max_recent - 1. */
bool
cb_ledger_read_recent(int place, cb_connection *connection)
{
	return cb_ring_read(recent, place, connection);
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
	image->connected_max = totals.connected_max;
	image->connected_max_at = totals.connected_max_at;
	cb_ledger_read_forks(&image->forks, &image->children);
	cb_ledger_read_leavers(&image->leavers);
	image->nrejections = cb_ledger_read_rejections(image->rejections);
}

void
cb_ledger_restore_image(const cb_ledger_image *image)
{
	pg_atomic_write_u64(&cb_ledger->stats_since, (uint64) image->stats_since);
	pg_atomic_write_u64(&cb_ledger->connections, image->connections);
	pg_atomic_write_u64(&cb_ledger->connected_max, image->connected_max);
	pg_atomic_write_u64(&cb_ledger->connected_max_at, (uint64) image->connected_max_at);
	cb_rejections_restore(image);
	cb_forks_restore(image);
}

/* A row that finds no free slot, since max_keys is smaller now, is counted as
 * "other"; returns false then. */
bool
cb_ledger_restore_row(const cb_ledger_row *row)
{
	LedgerSlot *slot = &cb_ledger->slot[cb_ledger->nslots];

	for (int i = 0; i < cb_ledger->nslots && !row->is_other; i++)
	{
		if (pg_atomic_read_u32(&cb_ledger->slot[i].in_use) != 0)
			continue;
		slot = &cb_ledger->slot[i];
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
		cb_histogram_add(&phases_of(slot)[p], &row->phase[p]);
	return row->is_other || slot != &cb_ledger->slot[cb_ledger->nslots];
}

