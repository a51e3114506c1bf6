/*
 * ring.h
 *		A ring of the newest records in shared memory; see ring.c.
 */
#ifndef CONNBENCH_RING_H
#define CONNBENCH_RING_H

#include "postgres.h"

typedef struct cb_ring cb_ring;

/* bytes for so many records of this size */
extern Size cb_ring_size(int places, Size record_size);

/* in the postmaster, over zeroed memory */
extern void cb_ring_init(cb_ring *ring, int places, Size record_size);

/*
 * Writers: atomics only.  add() returns the ticket of the new record, by which
 * update() finds it again, or 0 if it had to be skipped.
 */
extern uint64 cb_ring_add(cb_ring *ring, const void *record);
extern void cb_ring_update(cb_ring *ring, uint64 ticket, const void *record);

/* while no writer is about */
extern void cb_ring_clear(cb_ring *ring);

/*
 * Readers.  read() is false if the place is empty, or was being written at
 * each of a few tries; read_ticket() also if the ring has overrun that record.
 */
extern int	cb_ring_places(const cb_ring *ring);
extern uint64 cb_ring_skipped(cb_ring *ring);
extern bool cb_ring_read(cb_ring *ring, int place, void *record);
extern bool cb_ring_read_ticket(cb_ring *ring, uint64 ticket, void *record);

#endif							/* CONNBENCH_RING_H */
