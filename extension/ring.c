/*
 * recent.c
 *		Ring of the last connbench.max_recent connections, in shared memory.
 *
 * Runs in client backends (written at init_end and after, through ledger.c and
 * inside its gate) and in backends that read the view.  Atomics only: at
 * exit there is no PGPROC.
 *
 * Each place has a version: odd while someone writes to it.  A writer that
 * finds it odd, or loses the race to make it odd, goes away without writing
 * (counted as skipped), so no place ever mixes two connections.  A reader
 * takes a copy and keeps it if the version was even and the same before and
 * after.
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"

#include "recent.h"

typedef struct RecentPlace
{
	pg_atomic_uint64 version;	/* odd: being written */
	uint64		ticket;			/* which connection is in; 0 = none */
	cb_connection connection;
} RecentPlace;

typedef struct RecentRing
{
	pg_atomic_uint64 tickets;	/* handed out so far */
	pg_atomic_uint64 skipped;
	int			nplaces;
	RecentPlace place[FLEXIBLE_ARRAY_MEMBER];
} RecentRing;

static RecentRing *ring = NULL;

/* this backend's own entry, 0 = it has none */
static uint64 my_ticket = 0;

Size
cb_recent_shmem_size(void)
{
	return add_size(offsetof(RecentRing, place),
					mul_size(cb_max_recent, sizeof(RecentPlace)));
}

/* In the postmaster; the caller holds AddinShmemInitLock. */
void
cb_recent_shmem_init(void)
{
	bool		found;

	ring = ShmemInitStruct("connbench recent connections",
						   cb_recent_shmem_size(), &found);
	if (found)
		return;

	memset(ring, 0, cb_recent_shmem_size());
	ring->nplaces = cb_max_recent;
	pg_atomic_init_u64(&ring->tickets, 0);
	pg_atomic_init_u64(&ring->skipped, 0);
	for (int i = 0; i < ring->nplaces; i++)
		pg_atomic_init_u64(&ring->place[i].version, 0);
}

/* Makes the version odd; false if another writer is in there. */
static bool
begin_write(RecentPlace *place)
{
	uint64		version = pg_atomic_read_u64(&place->version);

	return (version & 1) == 0 &&
		pg_atomic_compare_exchange_u64(&place->version, &version, version + 1);
}

static void
end_write(RecentPlace *place)
{
	pg_write_barrier();
	pg_atomic_fetch_add_u64(&place->version, 1);
}

void
cb_recent_add(const cb_connection *connection)
{
	uint64		ticket = pg_atomic_fetch_add_u64(&ring->tickets, 1) + 1;
	RecentPlace *place = &ring->place[ticket % ring->nplaces];

	my_ticket = 0;
	if (!begin_write(place))
	{
		pg_atomic_fetch_add_u64(&ring->skipped, 1);
		return;
	}
	place->ticket = ticket;
	place->connection = *connection;
	end_write(place);
	my_ticket = ticket;
}

/* Brings this backend's entry up to date, if the ring has not overrun it. */
void
cb_recent_update(const cb_connection *connection)
{
	RecentPlace *place;

	if (my_ticket == 0)
		return;
	place = &ring->place[my_ticket % ring->nplaces];
	if (!begin_write(place))
		return;
	if (place->ticket == my_ticket)
		place->connection = *connection;
	end_write(place);
}

/* Inside the closed gate: no writer is about. */
void
cb_recent_clear(void)
{
	for (int i = 0; i < ring->nplaces; i++)
		ring->place[i].ticket = 0;
	pg_atomic_write_u64(&ring->skipped, 0);
}

uint64
cb_recent_skipped(void)
{
	return pg_atomic_read_u64(&ring->skipped);
}

/* False if the place is empty, or was being written at each of a few tries. */
bool
cb_recent_read(int i, cb_connection *connection)
{
	RecentPlace *place = &ring->place[i];

	for (int attempt = 0; attempt < 100; attempt++)
	{
		uint64		before = pg_atomic_read_u64(&place->version);
		uint64		ticket;

		pg_read_barrier();
		ticket = place->ticket;
		*connection = place->connection;
		pg_read_barrier();
		if ((before & 1) == 0 && pg_atomic_read_u64(&place->version) == before)
			return ticket != 0;
	}
	return false;
}
