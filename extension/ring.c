/*
 * ring.c
 *		A ring of the newest records in shared memory: the last connections,
 *		the last rejections, the samples of the census.
 *
 * Runs in client backends, also those without a PGPROC (they write, through
 * the ledger and inside its gate), in the census worker, and in backends that
 * read the views.
 * Atomics only, no error.
 *
 * Each place has a version: odd while someone writes to it.  A writer that
 * finds it odd, or loses the race to make it odd, goes away without writing
 * (counted as skipped), so no place ever mixes two records.  A reader takes a
 * copy and keeps it if the version was even and the same before and after.
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/shmem.h"

#include "ring.h"

typedef struct Place
{
	pg_atomic_uint64 version;	/* odd: being written */
	uint64		ticket;			/* which record is in; 0 = none */
	char		record[FLEXIBLE_ARRAY_MEMBER];
} Place;

struct cb_ring
{
	pg_atomic_uint64 tickets;	/* handed out so far */
	pg_atomic_uint64 skipped;
	int			nplaces;
	Size		record_size;
	Size		place_size;
	char		places[FLEXIBLE_ARRAY_MEMBER];
};

static Size
place_size(Size record_size)
{
	return MAXALIGN(offsetof(Place, record) + record_size);
}

static Place *
place_at(cb_ring *ring, uint64 i)
{
	return (Place *) (ring->places + i * ring->place_size);
}

Size
cb_ring_size(int places, Size record_size)
{
	return add_size(offsetof(cb_ring, places),
					mul_size(places, place_size(record_size)));
}

void
cb_ring_init(cb_ring *ring, int places, Size record_size)
{
	pg_atomic_init_u64(&ring->tickets, 0);
	pg_atomic_init_u64(&ring->skipped, 0);
	ring->nplaces = places;
	ring->record_size = record_size;
	ring->place_size = place_size(record_size);
	for (int i = 0; i < places; i++)
		pg_atomic_init_u64(&place_at(ring, i)->version, 0);
}

/* Makes the version odd; false if another writer is in there. */
static bool
begin_write(Place *place)
{
	uint64		version = pg_atomic_read_u64(&place->version);

	return (version & 1) == 0 &&
		pg_atomic_compare_exchange_u64(&place->version, &version, version + 1);
}

static void
end_write(Place *place)
{
	pg_write_barrier();
	pg_atomic_fetch_add_u64(&place->version, 1);
}

uint64
cb_ring_add(cb_ring *ring, const void *record)
{
	/* read first: see cb_histogram_record_atomic() */
	uint64		nplaces = ring->nplaces;
	uint64		ticket = pg_atomic_fetch_add_u64(&ring->tickets, 1) + 1;
	Place	   *place = place_at(ring, ticket % nplaces);

	if (!begin_write(place))
	{
		pg_atomic_fetch_add_u64(&ring->skipped, 1);
		return 0;
	}
	place->ticket = ticket;
	memcpy(place->record, record, ring->record_size);
	end_write(place);
	return ticket;
}

/* Does nothing if the ring has overrun the record since. */
void
cb_ring_update(cb_ring *ring, uint64 ticket, const void *record)
{
	Place	   *place = place_at(ring, ticket % ring->nplaces);

	if (ticket == 0 || !begin_write(place))
		return;
	if (place->ticket == ticket)
		memcpy(place->record, record, ring->record_size);
	end_write(place);
}

void
cb_ring_clear(cb_ring *ring)
{
	for (int i = 0; i < ring->nplaces; i++)
		place_at(ring, i)->ticket = 0;
	pg_atomic_write_u64(&ring->skipped, 0);
}

int
cb_ring_places(const cb_ring *ring)
{
	return ring->nplaces;
}

uint64
cb_ring_skipped(cb_ring *ring)
{
	return pg_atomic_read_u64(&ring->skipped);
}

/* The ticket of what was copied, 0 if there is nothing to be had. */
static uint64
read_place(cb_ring *ring, Place *place, void *record)
{
	for (int attempt = 0; attempt < 100; attempt++)
	{
		uint64		before = pg_atomic_read_u64(&place->version);
		uint64		ticket;

		pg_read_barrier();
		ticket = place->ticket;
		memcpy(record, place->record, ring->record_size);
		pg_read_barrier();
		if ((before & 1) == 0 && pg_atomic_read_u64(&place->version) == before)
			return ticket;
	}
	return 0;
}

bool
cb_ring_read(cb_ring *ring, int i, void *record)
{
	return read_place(ring, place_at(ring, i), record) != 0;
}

bool
cb_ring_read_ticket(cb_ring *ring, uint64 ticket, void *record)
{
	return ticket != 0 &&
		read_place(ring, place_at(ring, ticket % ring->nplaces), record) == ticket;
}
