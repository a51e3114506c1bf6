/*
 * recent.h
 *		Ring of the last connections with all their marks; see recent.c.
 */
#ifndef CONNBENCH_RECENT_H
#define CONNBENCH_RECENT_H

#include "ledger.h"

extern Size cb_recent_shmem_size(void);
extern void cb_recent_shmem_init(void);

/* called by ledger.c, inside its gate */
extern void cb_recent_add(const cb_connection *connection);
extern void cb_recent_update(const cb_connection *connection);
extern void cb_recent_clear(void);

/* a reader: false if the place (0 .. cb_max_recent - 1) holds no connection */
extern bool cb_recent_read(int place, cb_connection *connection);

/* connections that found their place in the ring busy, since the reset */
extern uint64 cb_recent_skipped(void);

#endif							/* CONNBENCH_RECENT_H */
