/*
 * test_failure.c
 *		loadgen/failure: texts as servers, poolers and libpq really give them.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "../../loadgen/failure.h"

static const struct
{
	const char *message;
	cb_measure	phase;
	const char *failure_class;
	const char *sqlstate;
}			cases[] = {
	{"connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  53300: sorry, too many clients already\nLOCATION:  x", CB_MEASURE_STARTUP, "too_many_connections", "53300"},
	{"connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  28P01: password authentication failed for user \"a\"", CB_MEASURE_READY, "authentication", "28P01"},
	{"connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  3D000: database \"x\" does not exist", CB_MEASURE_READY, "sql", "3D000"},
	{"connection to server at \"127.0.0.1\", port 5432 failed: FATAL:  57P03: the database system is in recovery mode", CB_MEASURE_STARTUP, "starting_up", "57P03"},
	{"connection to server at \"127.0.0.1\", port 6432 failed: FATAL:  08P01: no more connections allowed (max_client_conn)", CB_MEASURE_STARTUP, "too_many_connections", "08P01"},
	{"connection to server at \"127.0.0.1\", port 6432 failed: FATAL:  08P01: SASL authentication failed", CB_MEASURE_READY, "authentication", "08P01"},
	{"FATAL:  08P01: query_wait_timeout", CB_MEASURE_READY, "pooler", "08P01"},
	{"FATAL:  08P01: something new", CB_MEASURE_READY, "pooler", "08P01"},
	{"connection to server at \"127.0.0.1\", port 1 failed: Connection refused\n\tIs the server running?", CB_MEASURE_TCP, "refused", ""},
	{"connection to server on socket \"/tmp/.s.PGSQL.1\" failed: No such file or directory", CB_MEASURE_TCP, "refused", ""},
	{"connection to server on socket \"/tmp/.s.PGSQL.1\" failed: Resource temporarily unavailable", CB_MEASURE_TCP, "backlog", ""},
	{"connection to server at \"127.0.0.1\", port 1 failed: Cannot assign requested address", CB_MEASURE_TCP, "no_ports", ""},
	{"could not create socket: Too many open files", CB_MEASURE_TCP, "no_descriptors", ""},
	{"connection to server at \"10.0.0.1\", port 1 failed: No route to host", CB_MEASURE_TCP, "unreachable", ""},
	{"could not receive data from server: Connection reset by peer", CB_MEASURE_STARTUP, "reset", ""},
	{"connection to server at \"127.0.0.1\", port 1 failed: server closed the connection unexpectedly\n\tThis probably means", CB_MEASURE_STARTUP, "closed", ""},
	{"could not translate host name \"x\" to address: Name or service not known", CB_MEASURE_TCP, "unresolved", ""},
	{"connection to server at \"127.0.0.1\", port 1 failed: server does not support SSL, but SSL was required", CB_MEASURE_NEGOTIATE, "tls", ""},
	{"connection to server at \"127.0.0.1\", port 1 failed: fe_sendauth: no password supplied", CB_MEASURE_STARTUP, "authentication", ""},
	{"something else", CB_MEASURE_STARTUP, "other", ""},
};

static void
each_text_has_its_class(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		cb_cause	cause;

		cb_cause_of_connection(&cause, cases[i].message, cases[i].phase);
		assert_string_equal(cause.failure_class, cases[i].failure_class);
		assert_string_equal(cause.sqlstate, cases[i].sqlstate);
		assert_null(strchr(cause.message, '\n'));
	}
}

static void
a_long_message_is_cut(void **state)
{
	char		message[1000];
	cb_cause	cause;

	(void) state;
	memset(message, 'x', sizeof(message));
	message[sizeof(message) - 1] = '\0';
	cb_cause_of_connection(&cause, message, CB_MEASURE_STARTUP);
	assert_int_equal(strlen(cause.message), sizeof(cause.message) - 1);
}

static void
failures_are_counted_by_kind(void **state)
{
	cb_failures a = {0};
	cb_failures b = {0};
	cb_cause	refused;
	cb_cause	timeout;

	(void) state;
	cb_cause_of_connection(&refused, "Connection refused", CB_MEASURE_TCP);
	cb_cause_of_timeout(&timeout, "startup", 2);
	cb_failures_count(&a, &refused, "tcp", 3);
	cb_failures_count(&a, &timeout, "startup", 1);
	cb_failures_count(&b, &refused, "tcp", 4);
	cb_failures_count(&b, &timeout, "tcp", 5);
	cb_failures_merge(&a, &b);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.failure[0].count, 7);
	assert_int_equal(a.failure[1].count, 1);
	assert_int_equal(a.failure[2].count, 5);
	assert_string_equal(a.failure[1].first_message, "no answer within 2 s, in phase \"startup\"");
}

/* kinds beyond the room for them are counted all the same */
static void
no_failure_is_lost_to_overflow(void **state)
{
	cb_failures f = {0};
	int64_t		sum = 0;

	(void) state;
	for (int i = 0; i < 100; i++)
	{
		cb_cause	cause;

		cb_cause_of_timeout(&cause, "x", 1);
		snprintf(cause.sqlstate, sizeof(cause.sqlstate), "%05d", i);
		cb_failures_count(&f, &cause, "x", 1);
	}
	assert_int_equal(f.n, CB_MAX_FAILURES);
	for (int i = 0; i < f.n; i++)
		sum += f.failure[i].count;
	assert_int_equal(sum, 100);
	assert_string_equal(f.failure[CB_MAX_FAILURES - 1].failure_class, "other");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_text_has_its_class),
		cmocka_unit_test(a_long_message_is_cut),
		cmocka_unit_test(failures_are_counted_by_kind),
		cmocka_unit_test(no_failure_is_lost_to_overflow),
	};

	return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
