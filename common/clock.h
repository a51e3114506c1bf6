/*
 * clock.h
 *		The clock of all marks: CLOCK_MONOTONIC in nanoseconds.
 *
 * Not instr_time: its ticks may be those of the processor's counter (19 and
 * later), and the marks are joined with the load generator's, which uses the
 * same.  Safe in fork handlers: one vDSO call.
 */
#ifndef CONNBENCH_CLOCK_H
#define CONNBENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t
cb_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}

#endif							/* CONNBENCH_CLOCK_H */
