/*
 * ledger_internal.h
 *		The ledger as it lies in shared memory: for ledger.c, rejections.c and
 *		forks.c, which together are the only ones that touch it.  The protocol
 *		is told in ledger.c.
 */
#ifndef CONNBENCH_LEDGER_INTERNAL_H
#define CONNBENCH_LEDGER_INTERNAL_H

#include "port/atomics.h"
#include "storage/spin.h"

#include "ledger.h"

/* A key and its counters.  The histograms lie apart, after all slots, so that
 * looking for a key touches few pages. */
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
} LedgerSlot;

/* A kind of rejection is one word, so that taking a place is one exchange. */
typedef struct RejectionSlot
{
	pg_atomic_uint64 kind;		/* see rejection_kind(); 0 = free */
	pg_atomic_uint64 count;
	pg_atomic_uint64 last_at;
} RejectionSlot;

typedef struct LeaverSlot
{
	pg_atomic_uint64 count;
	pg_atomic_uint64 last_at;
} LeaverSlot;

typedef struct Ledger
{
	pg_atomic_uint32 gate;		/* number inside, and GATE_CLOSED */
	slock_t		mutex;			/* taking a slot */
	pg_atomic_uint64 stats_since;
	pg_atomic_uint64 connections;

	/* never cleared */
	pg_atomic_uint64 connected[CB_KIND_COUNT];
	pg_atomic_uint64 begun;
	pg_atomic_uint64 ended;

	pg_atomic_uint64 connected_max;
	pg_atomic_uint64 connected_max_at;
	pg_atomic_uint64 connected_peak;	/* since the census last asked */

	RejectionSlot rejection[CB_MAX_REJECTIONS];
	LeaverSlot	left[CB_LEFT_COUNT];

	/* what children have published, and what that made since the reset */
	cb_fork_account published;
	cb_fork_account forks;
	uint64_t	forks_at_reset; /* number of the last fork before it */
	pg_atomic_uint64 client_forks;
	pg_atomic_uint64 children_ended[CB_CHILD_KINDS];
	uint64		children_at_reset[CB_CHILD_KINDS];

	int			nslots;			/* keys; slot[nslots] is "other" */
	LedgerSlot	slot[FLEXIBLE_ARRAY_MEMBER];
	/* then CB_PHASE_COUNT histograms for each slot: phases_of() */
} Ledger;

/* NULL without shared_preload_libraries */
extern Ledger *cb_ledger;

extern void cb_gate_enter(void);
extern void cb_gate_leave(void);

/* for init, reset and restoring: nobody else is in there */
extern Size cb_rejections_shmem_size(void);
extern void cb_rejections_shmem_init(void);
extern void cb_rejections_clear(void);
extern void cb_rejections_restore(const cb_ledger_image *image);
extern void cb_forks_init(void);
extern void cb_forks_clear(const uint64 *children_alive);
extern void cb_forks_restore(const cb_ledger_image *image);

#endif							/* CONNBENCH_LEDGER_INTERNAL_H */
