/*
 * report.h
 *		What the user sees: progress on stderr, the table on stdout.
 */
#ifndef CONNBENCH_REPORT_H
#define CONNBENCH_REPORT_H

#include "results.h"

/* All rounds of a scenario added up, for the table. */
typedef struct cb_summary
{
	int			rounds;
	uint64_t	window_ns;
	int64_t		attempted;
	int64_t		succeeded;
	int64_t		failed;
	int64_t		abandoned;
	int64_t		target_backends_max;	/* CB_UNKNOWN */
	int64_t		processes_max;	/* CB_UNKNOWN */
	cb_histogram latency;
	cb_histogram connect;
} cb_summary;

extern void cb_summary_init(cb_summary *summary);
extern void cb_summary_add(cb_summary *summary, const cb_round *round);

/* A line that replaces the one before on a terminal; "" clears it. */
extern void cb_report_progress(const char *line);

extern void cb_report_table(const cb_run *run, const cb_summary *summary);

/* Failures of all rounds, by scenario and kind. */
extern void cb_report_failures(const cb_run *run, const cb_round *round, int nrounds);

#endif							/* CONNBENCH_REPORT_H */
