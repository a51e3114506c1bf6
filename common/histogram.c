/*
 * histogram.c
 *		Log-linear histogram of durations; see histogram.h for the layout.
 *
 * Runs in backends before and after they have a PGPROC, in the census worker
 * and in every thread of the load generator.  It must not allocate, lock, log
 * or call into PostgreSQL.
 */
#include "histogram.h"

#include <math.h>
#include <string.h>

void
cb_histogram_init(cb_histogram *h)
{
	memset(h, 0, sizeof(*h));
	h->min_ns = UINT64_MAX;
}

/*
 * The octave is the position of the highest bit of value / 1000; the step is
 * 32 * value / (1000 * 2^octave) - 32, which integer division gives exactly
 * since floor(floor(a / 2^e) / 1000) = floor(a / (1000 * 2^e)).
 */
int
cb_histogram_bucket_of(uint64_t value_ns)
{
	int			octave;
	int			step;

	if (value_ns < CB_HISTOGRAM_LOWEST_NS)
		return 0;
	if (value_ns >= CB_HISTOGRAM_LIMIT_NS)
		return CB_HISTOGRAM_BUCKETS - 1;

	octave = 63 - __builtin_clzll(value_ns / CB_HISTOGRAM_LOWEST_NS);
	step = (int) (((value_ns * CB_HISTOGRAM_STEPS) >> octave) /
				  CB_HISTOGRAM_LOWEST_NS) - CB_HISTOGRAM_STEPS;
	return octave * CB_HISTOGRAM_STEPS + step;
}

/*
 * The inverse: the smallest value v with bucket_of(v) = bucket, hence the
 * division rounds up (a step of the lowest octaves is not a whole number).
 */
uint64_t
cb_histogram_bucket_low(int bucket)
{
	int			octave = bucket / CB_HISTOGRAM_STEPS;
	uint64_t	step = (uint64_t) (bucket % CB_HISTOGRAM_STEPS);
	uint64_t	scaled = (CB_HISTOGRAM_LOWEST_NS << octave) *
		(CB_HISTOGRAM_STEPS + step);

	return (scaled + CB_HISTOGRAM_STEPS - 1) / CB_HISTOGRAM_STEPS;
}

void
cb_histogram_record(cb_histogram *h, uint64_t value_ns)
{
	h->bucket[cb_histogram_bucket_of(value_ns)]++;
	h->sum_ns += value_ns;
	if (value_ns < h->min_ns)
		h->min_ns = value_ns;
	if (value_ns > h->max_ns)
		h->max_ns = value_ns;
	if (value_ns < CB_HISTOGRAM_LOWEST_NS)
		h->clamped_low++;
	else if (value_ns >= CB_HISTOGRAM_LIMIT_NS)
		h->clamped_high++;
}

static void
add_relaxed(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static uint64_t
load_relaxed(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/*
 * Relaxed order is enough: each field stands for itself, and a reader takes
 * the histogram as it is at about the time of the call.
 */
void
cb_histogram_record_atomic(cb_histogram *h, uint64_t value_ns)
{
	uint64_t	seen;

	/*
	 * A new process's first touch of a page of shared memory is a fault; one
	 * that reads brings the pages around it along, one that writes does not.
	 * So the extremes, which are mostly just read, come first.  A failed
	 * exchange reloads "seen"; both loops end after a few values.
	 */
	seen = load_relaxed(&h->min_ns);
	while (value_ns < seen &&
		   !__atomic_compare_exchange_n(&h->min_ns, &seen, value_ns, false,
										__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	seen = load_relaxed(&h->max_ns);
	while (value_ns > seen &&
		   !__atomic_compare_exchange_n(&h->max_ns, &seen, value_ns, false,
										__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;

	add_relaxed(&h->bucket[cb_histogram_bucket_of(value_ns)], 1);
	add_relaxed(&h->sum_ns, value_ns);
	if (value_ns < CB_HISTOGRAM_LOWEST_NS)
		add_relaxed(&h->clamped_low, 1);
	else if (value_ns >= CB_HISTOGRAM_LIMIT_NS)
		add_relaxed(&h->clamped_high, 1);
}

void
cb_histogram_copy_atomic(cb_histogram *dst, const cb_histogram *src)
{
	dst->sum_ns = load_relaxed(&src->sum_ns);
	dst->min_ns = load_relaxed(&src->min_ns);
	dst->max_ns = load_relaxed(&src->max_ns);
	dst->clamped_low = load_relaxed(&src->clamped_low);
	dst->clamped_high = load_relaxed(&src->clamped_high);
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
		dst->bucket[i] = load_relaxed(&src->bucket[i]);
}

void
cb_histogram_add(cb_histogram *into, const cb_histogram *from)
{
	into->sum_ns += from->sum_ns;
	if (from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	into->clamped_low += from->clamped_low;
	into->clamped_high += from->clamped_high;
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

void
cb_histogram_bound_extremes(cb_histogram *h)
{
	h->min_ns = UINT64_MAX;
	h->max_ns = 0;
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
	{
		if (h->bucket[i] == 0)
			continue;
		if (h->min_ns == UINT64_MAX)
			h->min_ns = (h->clamped_low > 0) ? 0 : cb_histogram_bucket_low(i);
		h->max_ns = cb_histogram_bucket_low(i + 1) - 1;
	}
}

uint64_t
cb_histogram_count(const cb_histogram *h)
{
	uint64_t	count = 0;

	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
		count += h->bucket[i];
	return count;
}

double
cb_histogram_mean(const cb_histogram *h)
{
	uint64_t	count = cb_histogram_count(h);

	return count == 0 ? 0.0 : (double) h->sum_ns / (double) count;
}

uint64_t
cb_histogram_quantile(const cb_histogram *h, double q)
{
	uint64_t	count = cb_histogram_count(h);
	uint64_t	rank;
	uint64_t	below = 0;
	uint64_t	value = h->max_ns;

	if (count == 0)
		return 0;

	/* written so that a NaN counts as 0 */
	rank = (q > 0.0) ? (uint64_t) ceil((q < 1.0 ? q : 1.0) * (double) count) : 1;
	if (rank >= count)
		return h->max_ns;

	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
	{
		below += h->bucket[i];
		if (below >= rank)
		{
			uint64_t	low = cb_histogram_bucket_low(i);

			value = low + (cb_histogram_bucket_low(i + 1) - 1 - low) / 2;
			break;
		}
	}
	if (value < h->min_ns)
		value = h->min_ns;
	if (value > h->max_ns)
		value = h->max_ns;
	return value;
}
