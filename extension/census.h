/*
 * census.h
 *		How many server processes there are, by kind and state; see census.c.
 */
#ifndef CONNBENCH_CENSUS_H
#define CONNBENCH_CENSUS_H

#include "postgres.h"

#include "datatype/timestamp.h"

#include "compat.h"
#include "ledger.h"

/* States of a client backend; other processes are counted by type alone. */
typedef enum cb_client_state
{
	CB_STATE_ACTIVE,
	CB_STATE_IDLE,
	CB_STATE_IDLE_IN_TRANSACTION,
	CB_STATE_IDLE_IN_TRANSACTION_ABORTED,
	CB_STATE_FASTPATH,
	CB_STATE_WAITING_ON_LOCK,	/* active, but waiting for a heavyweight lock */
	CB_STATE_AUTHENTICATING,
	CB_STATE_DISABLED,			/* track_activities is off */
	CB_STATE_COUNT
} cb_client_state;

typedef struct cb_sample
{
	TimestampTz sampled_at;
	int			client[CB_STATE_COUNT];
	int			other[CB_BACKEND_TYPES];	/* indexed by BackendType */
	int			parallel_workers;	/* not among the background workers */
	int			processes;		/* of the server, itself included; -1: unknown */
	int64		postmaster_cpu_us;	/* -1: unknown */
	cb_counters counters;
} cb_sample;

typedef struct cb_census_state
{
	int			worker_pid;		/* 0: not running */
	TimestampTz last_sample_at; /* 0: none yet */
	uint64		samples;		/* taken since the server started */
	uint64		oldest_sample;	/* number of the oldest still kept, from 1 */
	uint64		worker_cpu_us;
} cb_census_state;

/* milliseconds; 0 = off */
extern int	cb_sample_interval;

extern Size cb_census_shmem_size(void);
extern void cb_census_shmem_init(void);
extern void cb_census_register_worker(void);

/* Count now; the ledger's counters are left to the caller. */
extern void cb_census_count(cb_sample *sample);

/* Processes alive by kind: alive has CB_CHILD_KINDS places. */
extern void cb_sample_children(const cb_sample *sample, uint64 *alive);

/* Processes that /proc shows and that have no type yet; -1: unknown. */
extern int	cb_sample_untyped(const cb_sample *sample);
extern const char *cb_client_state_name(cb_client_state state);

/*
 * The samples oldest_sample .. samples are in the ring, numbered from 1;
 * reading one gives false if it has been overwritten meanwhile.
 */
extern bool cb_census_read_sample(uint64 number, cb_sample *sample);
extern void cb_census_read_state(cb_census_state *state);

#endif							/* CONNBENCH_CENSUS_H */
