/*
 * engine.h
 *		Generates the load of one round; see engine.c.
 */
#ifndef CONNBENCH_ENGINE_H
#define CONNBENCH_ENGINE_H

#include <signal.h>

#include "connection.h"
#include "results.h"
#include "workload.h"

/* Interrupts received: 1 ends the round in good order, 2 stops at once. */
extern volatile sig_atomic_t cb_interrupts;

typedef struct cb_round_plan
{
	const cb_conn_params *params;
	const cb_workload *workload;
	cb_protocol protocol;
	cb_mode		mode;
	int			clients;
	int			threads;
	int			scale;
	double		warmup_s;
	double		duration_s;
	double		connect_timeout_s;
	uint64_t	seed;
	/* called now and then with what has been counted so far */
	void		(*progress) (void *arg, int64_t succeeded, int64_t failed, double elapsed_s);
	/* called when the window begins and when it is over */
	void		(*window) (void *arg, bool begins);
	void	   *arg;
} cb_round_plan;

/*
 * Runs one round and fills in what the generator measures of it: times,
 * counts, failures, histograms, CPU, partial.  The failures' memory belongs to
 * the round.
 */
extern void cb_engine_run_round(const cb_round_plan *plan, cb_round *round);

#endif							/* CONNBENCH_ENGINE_H */
