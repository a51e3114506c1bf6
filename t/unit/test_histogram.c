/*
 * test_histogram.c
 *		common/histogram against sorted arrays and exact arithmetic.
 */
#include "unit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/histogram.h"
#include "../../loadgen/random.h"

#define VALUES 20000

static int
compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

/* log-uniform in 1 us .. 1 h */
static uint64_t
random_duration(cb_random *random)
{
	double		u = (double) cb_random_range(random, 0, 1000000) / 1e6;

	return (uint64_t) (1000.0 * exp(u * log(3.6e9)));
}

static void
bucket_of_inverts_bucket_low(void **state)
{
	(void) state;
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
	{
		uint64_t	low = cb_histogram_bucket_low(i);

		assert_int_equal(cb_histogram_bucket_of(low), i);
		assert_int_equal(cb_histogram_bucket_of(low - 1), i == 0 ? 0 : i - 1);
		assert_int_equal(cb_histogram_bucket_of(cb_histogram_bucket_low(i + 1) - 1), i);
	}
	assert_int_equal(cb_histogram_bucket_low(0), CB_HISTOGRAM_LOWEST_NS);
	assert_int_equal(cb_histogram_bucket_low(CB_HISTOGRAM_BUCKETS), CB_HISTOGRAM_LIMIT_NS);
}

static void
out_of_range_is_clamped_and_counted(void **state)
{
	cb_histogram h;

	(void) state;
	cb_histogram_init(&h);
	cb_histogram_record(&h, 0);
	cb_histogram_record(&h, CB_HISTOGRAM_LOWEST_NS - 1);
	cb_histogram_record(&h, CB_HISTOGRAM_LOWEST_NS);
	cb_histogram_record(&h, CB_HISTOGRAM_LIMIT_NS - 1);
	cb_histogram_record(&h, CB_HISTOGRAM_LIMIT_NS);
	cb_histogram_record(&h, UINT64_C(1) << 62);
	assert_int_equal(h.clamped_low, 2);
	assert_int_equal(h.clamped_high, 2);
	assert_int_equal(h.bucket[0], 3);
	assert_int_equal(h.bucket[CB_HISTOGRAM_BUCKETS - 1], 3);
	assert_int_equal(cb_histogram_count(&h), 6);
	assert_int_equal(h.min_ns, 0);
	assert_int_equal(cb_histogram_quantile(&h, 1.0), UINT64_C(1) << 62);
}

static void
an_empty_histogram_has_no_values(void **state)
{
	cb_histogram h;

	(void) state;
	cb_histogram_init(&h);
	assert_int_equal(cb_histogram_count(&h), 0);
	assert_int_equal(cb_histogram_quantile(&h, 0.5), 0);
	assert_true(cb_histogram_mean(&h) == 0.0);
}

static void
quantiles_are_within_a_64th_of_the_sorted_values(void **state)
{
	static const double qs[] = {0, 0.0001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1};
	static uint64_t value[VALUES];
	cb_histogram h;
	cb_random	random;
	double		sum = 0;

	(void) state;
	cb_random_seed(&random, 7);
	cb_histogram_init(&h);
	for (int i = 0; i < VALUES; i++)
	{
		value[i] = random_duration(&random);
		sum += (double) value[i];
		cb_histogram_record(&h, value[i]);
	}
	qsort(value, VALUES, sizeof(value[0]), compare);
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++)
	{
		int			rank = (int) ceil(qs[i] * VALUES);
		double		exact = (double) value[rank < 1 ? 0 : rank - 1];
		double		reported = (double) cb_histogram_quantile(&h, qs[i]);

		assert_true(fabs(reported - exact) <= exact / 64);
	}
	assert_int_equal(cb_histogram_quantile(&h, 1), value[VALUES - 1]);
	assert_true(fabs(cb_histogram_mean(&h) - sum / VALUES) <= sum / VALUES * 1e-9);
	assert_int_equal(h.min_ns, value[0]);
	assert_int_equal(h.max_ns, value[VALUES - 1]);
}

static void
every_single_value_is_reported_within_a_64th(void **state)
{
	cb_random	random;

	(void) state;
	cb_random_seed(&random, 8);
	for (int i = 0; i < VALUES; i++)
	{
		uint64_t	value = random_duration(&random);
		int			bucket = cb_histogram_bucket_of(value);
		double		low = (double) cb_histogram_bucket_low(bucket);
		double		high = (double) cb_histogram_bucket_low(bucket + 1) - 1;
		double		middle = floor(low + floor((high - low) / 2));

		assert_true(fabs(middle - (double) value) <= (double) value / 64);
	}
}

static void
merging_is_recording_all(void **state)
{
	cb_histogram all;
	cb_histogram part[3];
	cb_random	random;

	(void) state;
	cb_random_seed(&random, 9);
	cb_histogram_init(&all);
	for (int p = 0; p < 3; p++)
		cb_histogram_init(&part[p]);
	for (int i = 0; i < VALUES; i++)
	{
		uint64_t	value = random_duration(&random);

		cb_histogram_record(&all, value);
		cb_histogram_record(&part[i % 3], value);
	}
	cb_histogram_add(&part[0], &part[1]);
	cb_histogram_add(&part[0], &part[2]);
	assert_memory_equal(&part[0], &all, sizeof(all));
}

static void
bounded_extremes_hold_the_true_ones(void **state)
{
	cb_histogram h;
	cb_random	random;

	(void) state;
	cb_random_seed(&random, 10);
	cb_histogram_init(&h);
	for (int i = 0; i < 100; i++)
		cb_histogram_record(&h, random_duration(&random));
	{
		uint64_t	min_ns = h.min_ns;
		uint64_t	max_ns = h.max_ns;

		cb_histogram_bound_extremes(&h);
		assert_true(h.min_ns <= min_ns && min_ns - h.min_ns <= min_ns / 32);
		assert_true(h.max_ns >= max_ns && h.max_ns - max_ns <= max_ns / 32);
	}
}

/* ------------------------------------------------------------------------
 * Many writers
 * ------------------------------------------------------------------------
 */

static cb_histogram shared;

static void *
record_many(void *arg)
{
	cb_random	random;

	cb_random_seed(&random, (uint64_t) (uintptr_t) arg);
	for (int i = 0; i < VALUES; i++)
		cb_histogram_record_atomic(&shared, random_duration(&random));
	return NULL;
}

static void
atomic_recording_loses_nothing(void **state)
{
	pthread_t	thread[4];
	cb_histogram expected;
	cb_histogram copy;

	(void) state;
	cb_histogram_init(&shared);
	cb_histogram_init(&expected);
	for (uintptr_t t = 0; t < 4; t++)
		assert_int_equal(pthread_create(&thread[t], NULL, record_many, (void *) t), 0);
	for (uintptr_t t = 0; t < 4; t++)
	{
		cb_random	random;

		pthread_join(thread[t], NULL);
		cb_random_seed(&random, t);
		for (int i = 0; i < VALUES; i++)
			cb_histogram_record(&expected, random_duration(&random));
	}
	cb_histogram_copy_atomic(&copy, &shared);
	assert_memory_equal(&copy, &expected, sizeof(copy));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bucket_of_inverts_bucket_low),
		cmocka_unit_test(out_of_range_is_clamped_and_counted),
		cmocka_unit_test(an_empty_histogram_has_no_values),
		cmocka_unit_test(quantiles_are_within_a_64th_of_the_sorted_values),
		cmocka_unit_test(every_single_value_is_reported_within_a_64th),
		cmocka_unit_test(merging_is_recording_all),
		cmocka_unit_test(bounded_extremes_hold_the_true_ones),
		cmocka_unit_test(atomic_recording_loses_nothing),
	};

	return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
