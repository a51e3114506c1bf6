/*
 * test_options.c
 *		loadgen/options and the parsing of targets: what is taken, what is not,
 *		and that no secret is shown.
 */
#include "unit.h"

#include <getopt.h>
#include <string.h>

#include "../../loadgen/options.h"
#include "../../loadgen/target.h"

static void
lists_of_counts(void **state)
{
	int			counts[4];

	(void) state;
	assert_int_equal(cb_parse_counts("10,50,100", counts, 4), 3);
	assert_int_equal(counts[0], 10);
	assert_int_equal(counts[2], 100);
	assert_int_equal(cb_parse_counts("1", counts, 4), 1);
	assert_int_equal(cb_parse_counts("1,2,3,4,5", counts, 4), -1);
	assert_int_equal(cb_parse_counts("", counts, 4), -1);
	assert_int_equal(cb_parse_counts("0", counts, 4), -1);
	assert_int_equal(cb_parse_counts("-1", counts, 4), -1);
	assert_int_equal(cb_parse_counts("1,", counts, 4), -1);
	assert_int_equal(cb_parse_counts(",1", counts, 4), -1);
	assert_int_equal(cb_parse_counts("1 2", counts, 4), -1);
	assert_int_equal(cb_parse_counts("99999999999999999999", counts, 4), -1);
}

static void
a_command_line(void **state)
{
	char	   *argv[] = {"connbench", "-t", "a=host=x", "--target", "b=host=y", "-c", "5,6", "-j", "3",
		"-T", "1.5", "--rounds", "7", "--warmup", "0", "-C", "-S", "-M", "prepared", "--seed", "9", NULL};
	cb_options	o;

	(void) state;
	optind = 1;
	assert_true(cb_options_parse(sizeof(argv) / sizeof(argv[0]) - 1, argv, &o));
	assert_int_equal(o.ntargets, 2);
	assert_string_equal(o.target[1].name, "b");
	assert_int_equal(o.ncounts, 2);
	assert_int_equal(o.threads, 3);
	assert_true(o.duration_s == 1.5);
	assert_int_equal(o.rounds, 7);
	assert_true(o.warmup_s == 0);
	assert_int_equal(o.nmodes, 1);
	assert_int_equal(o.mode[0], CB_MODE_PER_TRANSACTION);
	assert_string_equal(o.workload->name, "select-only");
	assert_int_equal(o.protocol, CB_PROTOCOL_PREPARED);
	assert_int_equal(o.seed, 9);
}

static void
secrets_are_not_shown(void **state)
{
	static const char *const conninfos[] = {
		"host=h user=u password=hidden dbname='two words'",
		"postgresql://u:hidden@h/two%20words",
		"host=h user=u dbname='two words' sslpassword=hidden",
	};

	(void) state;
	for (size_t i = 0; i < sizeof(conninfos) / sizeof(conninfos[0]); i++)
	{
		char	   *error = NULL;
		char	   *shown = cb_conninfo_without_secrets(conninfos[i], &error);

		assert_non_null(shown);
		assert_null(strstr(shown, "hidden"));
		assert_non_null(strstr(shown, "host=h"));
		assert_non_null(strstr(shown, "dbname='two words'"));
		assert_non_null(strstr(shown, "user=u"));
	}
}

static void
a_conninfo_that_is_none(void **state)
{
	char	   *error = NULL;

	(void) state;
	assert_null(cb_conninfo_without_secrets("nonsense", &error));
	assert_non_null(error);
	assert_null(strchr(error, '\n'));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_counts),
		cmocka_unit_test(a_command_line),
		cmocka_unit_test(secrets_are_not_shown),
		cmocka_unit_test(a_conninfo_that_is_none),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
