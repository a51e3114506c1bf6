/*
 * test_workload.c
 *		loadgen/workload and the random numbers it draws.
 */
#include "unit.h"

#include "../../loadgen/workload.h"

static void
random_numbers_stay_in_range_and_reach_both_ends(void **state)
{
	cb_random	random;
	int			seen[10] = {0};

	(void) state;
	cb_random_seed(&random, 1);
	for (int i = 0; i < 10000; i++)
	{
		int64_t		value = cb_random_range(&random, -4, 5);

		assert_in_range(value + 4, 0, 9);
		seen[value + 4]++;
	}
	/* 1,000 each; 5 standard deviations are 150 */
	for (int i = 0; i < 10; i++)
		assert_in_range(seen[i], 850, 1150);
	assert_int_equal(cb_random_range(&random, 7, 7), 7);
}

static void
the_same_seed_gives_the_same_numbers(void **state)
{
	cb_random	a;
	cb_random	b;

	(void) state;
	cb_random_seed(&a, 42);
	cb_random_seed(&b, 42);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(cb_random_next(&a), cb_random_next(&b));
}

static void
values_have_the_ranges_of_pgbench(void **state)
{
	cb_transaction t = {0};
	cb_random	random;

	(void) state;
	cb_random_seed(&random, 3);
	for (int i = 0; i < 10000; i++)
	{
		cb_transaction_begin(&t, &random, 3);
		assert_in_range(t.value[CB_VAR_AID], 1, 300000);
		assert_in_range(t.value[CB_VAR_BID], 1, 3);
		assert_in_range(t.value[CB_VAR_TID], 1, 30);
		assert_in_range(t.value[CB_VAR_DELTA] + 5000, 0, 10000);
	}
}

static void
a_transaction_has_as_many_answers_as_commands(void **state)
{
	static const struct
	{
		const char *name;
		int			commands;
	}			expected[] = {{"tpcb-like", 7}, {"simple-update", 5}, {"select-only", 1}};

	(void) state;
	for (int i = 0; i < 3; i++)
	{
		const cb_workload *w = cb_workload_find(expected[i].name);
		cb_transaction t = {0};

		assert_non_null(w);
		for (int answers = 1; answers < expected[i].commands; answers++)
			assert_false(cb_transaction_answered(&t, w));
		assert_true(cb_transaction_answered(&t, w));
	}
	assert_null(cb_workload_find("tpcc"));
}

static void
the_answer_to_a_parse_does_not_count(void **state)
{
	const cb_workload *w = cb_workload_find("select-only");
	cb_transaction t = {.preparing = true};

	(void) state;
	assert_false(cb_transaction_answered(&t, w));
	assert_true(t.prepared[0]);
	assert_true(cb_transaction_answered(&t, w));
	cb_transaction_new_session(&t);
	assert_false(t.prepared[0]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_numbers_stay_in_range_and_reach_both_ends),
		cmocka_unit_test(the_same_seed_gives_the_same_numbers),
		cmocka_unit_test(values_have_the_ranges_of_pgbench),
		cmocka_unit_test(a_transaction_has_as_many_answers_as_commands),
		cmocka_unit_test(the_answer_to_a_parse_does_not_count),
	};

	return cmocka_run_group_tests_name("workload", tests, NULL, NULL);
}
