/*
 * histogram.h
 *		Log-linear histogram of durations in nanoseconds.
 *
 * One layout serves three places: a cell of the ledger in shared memory (many
 * writers, atomic adds), a recorder of one load generator thread (one writer,
 * plain adds) and the SQL type connbench.histogram (read only).  The code uses
 * neither PostgreSQL nor libpq, allocates nothing and raises nothing, so that
 * it may run in a child that has no PGPROC and in the generator's hot path.
 *
 * Buckets: each octave [1000 * 2^e, 1000 * 2^(e+1)) ns, e = 0 .. 31, is cut
 * into 32 equal steps.  A value is reported as the middle of its step, so its
 * relative error is at most 1/64 from 1 us to 4294.967296 s.  Smaller and
 * larger values go into the first and the last bucket and are counted as
 * clamped; min, max and sum are kept exactly.
 */
#ifndef CONNBENCH_HISTOGRAM_H
#define CONNBENCH_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define CB_HISTOGRAM_OCTAVES	32
#define CB_HISTOGRAM_STEPS		32
#define CB_HISTOGRAM_BUCKETS	(CB_HISTOGRAM_OCTAVES * CB_HISTOGRAM_STEPS)

/* smallest value that is not clamped, and the smallest that is too large */
#define CB_HISTOGRAM_LOWEST_NS	UINT64_C(1000)
#define CB_HISTOGRAM_LIMIT_NS	(CB_HISTOGRAM_LOWEST_NS << CB_HISTOGRAM_OCTAVES)

typedef struct cb_histogram
{
	uint64_t	sum_ns;
	uint64_t	min_ns;			/* UINT64_MAX while empty */
	uint64_t	max_ns;			/* 0 while empty */
	uint64_t	clamped_low;	/* values below CB_HISTOGRAM_LOWEST_NS */
	uint64_t	clamped_high;	/* values of CB_HISTOGRAM_LIMIT_NS and more */
	uint64_t	bucket[CB_HISTOGRAM_BUCKETS];
} cb_histogram;

extern void cb_histogram_init(cb_histogram *h);

/* The bucket that a value falls into, 0 .. CB_HISTOGRAM_BUCKETS - 1. */
extern int	cb_histogram_bucket_of(uint64_t value_ns);

/* Lowest value of a bucket; bucket CB_HISTOGRAM_BUCKETS gives the limit. */
extern uint64_t cb_histogram_bucket_low(int bucket);

/* Record one value: the plain form for one writer, the other for many. */
extern void cb_histogram_record(cb_histogram *h, uint64_t value_ns);
extern void cb_histogram_record_atomic(cb_histogram *h, uint64_t value_ns);

/*
 * Copy a histogram that others may be writing to.  Every field is read
 * atomically, but not all at the same instant: a value that is being recorded
 * may be in the buckets and not yet in the sum.
 */
extern void cb_histogram_copy_atomic(cb_histogram *dst, const cb_histogram *src);

extern void cb_histogram_add(cb_histogram *into, const cb_histogram *from);

/*
 * Set min and max to what the buckets allow to say: for a histogram whose
 * extremes were not kept, such as the difference of two.
 */
extern void cb_histogram_bound_extremes(cb_histogram *h);

/* Number of values: the sum of the buckets. */
extern uint64_t cb_histogram_count(const cb_histogram *h);

/* Exact arithmetic mean in nanoseconds; 0 for an empty histogram. */
extern double cb_histogram_mean(const cb_histogram *h);

/*
 * Value at quantile q in 0 .. 1 (clipped to it), in nanoseconds; 0 for an
 * empty histogram.  The value of rank ceil(q * count), at least 1, is
 * reported as the middle of its bucket, held between min and max, so that
 * q = 1 gives max exactly.
 */
extern uint64_t cb_histogram_quantile(const cb_histogram *h, double q);

#endif							/* CONNBENCH_HISTOGRAM_H */
