/*
 * ping.c
 *		`connbench ping`: connects a few times, one after another, and shows
 *		where the time goes.
 *
 * Runs in the main thread.  It needs nothing on the server; where the extension
 * is loaded there, the server's own phases stand beside.  A connection that
 * fails is a line like any other, and the next one is tried.
 */
#include "ping.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/clock.h"
#include "connection.h"
#include "message.h"
#include "target.h"

/* columns: what the client sees, in order of time; then what the server tells */
typedef enum Part
{
	PART_RESOLVE,
	PART_TCP,
	PART_NEGOTIATE,
	PART_TLS,
	PART_STARTUP,
	PART_AUTH,
	PART_READY,
	PART_FIRST_QUERY,
	PART_CLOSE,
	PART_TOTAL,
	PART_SERVER_FORK,
	PART_SERVER_STARTUP,
	PART_SERVER_INIT,
	PART_SERVER_TOTAL,
	PART_COUNT
} Part;

#define CLIENT_PARTS	(PART_TOTAL + 1)

static const char *const headings[PART_COUNT] = {
	"resolve", "tcp", "negotiate", "tls", "startup", "auth", "ready", "first query", "close", "total",
	"fork", "startup", "init", "total"
};

/* parts that libpq's phases fill */
static const cb_measure measure_of[PART_COUNT] = {
	[PART_TCP] = CB_MEASURE_TCP,
	[PART_NEGOTIATE] = CB_MEASURE_NEGOTIATE,
	[PART_TLS] = CB_MEASURE_TLS,
	[PART_STARTUP] = CB_MEASURE_STARTUP,
	[PART_AUTH] = CB_MEASURE_AUTH,
	[PART_READY] = CB_MEASURE_READY,
};

/* What usually helps where a part is the largest. */
static const char *const remedies[PART_TOTAL] = {
	[PART_RESOLVE] = "name look-up: give hostaddr, or look at the name servers",
	[PART_TCP] = "network round trips, or a full listen queue: connect from nearer by, or less often",
	[PART_NEGOTIATE] = "the server was asked for TLS or GSS first: set sslmode and gssencmode to what is meant",
	[PART_TLS] = "the TLS handshake: keep connections, or have a pooler near the client",
	[PART_STARTUP] = "the server had to start a backend and begin authentication: keep connections, or use a pooler",
	[PART_AUTH] = "authentication: SCRAM costs CPU on both sides, LDAP and PAM ask elsewhere: keep connections, or use a pooler",
	[PART_READY] = "the server initialised the new backend's session: keep connections, or use a pooler",
	[PART_FIRST_QUERY] = "a new backend's caches are empty: keep connections, or use a pooler",
	[PART_CLOSE] = "closing: the client's own cost",
};

typedef struct Options
{
	const char *conninfo;
	int			count;
	double		interval_s;
	double		timeout_s;
} Options;

typedef struct Totals
{
	int			attempted;
	int			failed;
	cb_histogram part[PART_COUNT];
} Totals;

static volatile sig_atomic_t interrupted = 0;

/* ------------------------------------------------------------------------
 * The command line
 * ------------------------------------------------------------------------
 */

static void
usage(void)
{
	puts("connbench ping connects to a server a few times and shows where the time goes.\n"
		 "\n"
		 "Usage:\n"
		 "  connbench ping [OPTION]... [CONNINFO]\n"
		 "\n"
		 "  CONNINFO               libpq keywords or URI, as psql takes them (default: PGHOST\n"
		 "                         and the like)\n"
		 "  -c, --count N          connections (default: 5)\n"
		 "  -i, --interval SECONDS pause between them (default: 0.2)\n"
		 "  -W, --timeout SECONDS  longest time for one (default: 10)\n"
		 "  -h, --help             show this help, then exit\n"
		 "\n"
		 "All times are in milliseconds. Exit status: 0 if all connections succeeded, 1 for wrong\n"
		 "options, 2 if some failed.");
}

static bool
take_number(const char *option, const char *text, double min, double max, double *value)
{
	char	   *end;

	errno = 0;
	*value = strtod(text, &end);
	if (end != text && *end == '\0' && errno == 0 && *value >= min && *value <= max)
		return true;
	cb_error("%s must be a number from %g to %g, not \"%s\"", option, min, max, text);
	return false;
}

/* False: the program is to end, with *status. */
static bool
parse_options(int argc, char **argv, Options *o, int *status)
{
	static const struct option long_options[] = {
		{"count", required_argument, NULL, 'c'},
		{"interval", required_argument, NULL, 'i'},
		{"timeout", required_argument, NULL, 'W'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}
	};
	double		count = 5;
	int			opt;

	*status = 1;
	o->interval_s = 0.2;
	o->timeout_s = 10;
	while ((opt = getopt_long(argc, argv, "c:i:W:h", long_options, NULL)) != -1)
	{
		if (opt == 'h')
		{
			usage();
			*status = 0;
			return false;
		}
		if ((opt == 'c' && !take_number("--count", optarg, 1, 1e6, &count)) ||
			(opt == 'i' && !take_number("--interval", optarg, 0, 3600, &o->interval_s)) ||
			(opt == 'W' && !take_number("--timeout", optarg, 0.001, 3600, &o->timeout_s)))
			return false;
		if (opt == '?')
		{
			cb_hint("Try \"connbench ping --help\".");
			return false;
		}
	}
	if (count != (int) count)
	{
		cb_error("--count must be a whole number, not %g", count);
		return false;
	}
	o->count = (int) count;
	o->conninfo = optind < argc ? argv[optind++] : "";
	if (optind < argc)
	{
		cb_error("unexpected argument \"%s\"", argv[optind]);
		cb_hint("A conninfo of several words is quoted: \"host=127.0.0.1 dbname=bench\".");
		return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * One connection
 * ------------------------------------------------------------------------
 */

/* "SELECT 1" and its answer; -1 if that fails. */
static int64_t
time_first_query(PGconn *conn)
{
	uint64_t	start_ns = cb_now_ns();
	PGresult   *res = PQexec(conn, "SELECT 1");
	bool		ok = PQresultStatus(res) == PGRES_TUPLES_OK;

	PQclear(res);
	return ok ? (int64_t) (cb_now_ns() - start_ns) : -1;
}

/* The server's phases of this connection, where it can tell them. */
static void
ask_server(PGconn *conn, int64_t *ns)
{
	static bool may_ask = true;
	PGresult   *res;

	if (!may_ask)
		return;
	res = PQexec(conn,
				 "SELECT pg_catalog.round(fork_ms * 1000000), pg_catalog.round(startup_ms * 1000000),"
				 " pg_catalog.round(init_ms * 1000000), pg_catalog.round(total_ms * 1000000)"
				 " FROM connbench.recent_connections WHERE pid = pg_catalog.pg_backend_pid()");
	may_ask = PQresultStatus(res) == PGRES_TUPLES_OK;
	for (int i = 0; may_ask && PQntuples(res) == 1 && i < 4; i++)
	{
		if (!PQgetisnull(res, 0, i))
			ns[PART_SERVER_FORK + i] = strtoll(PQgetvalue(res, 0, i), NULL, 10);
	}
	PQclear(res);
}

static void
ignore_notice(void *arg, const PGresult *res)
{
	(void) arg;
	(void) res;
}

/* Fills in the parts that happened, in ns (the others are -1); false and a
 * message if it failed. */
static bool
connect_once(const Options *o, cb_target *target, int64_t *ns, cb_connect *connect)
{
	cb_target_plan plan;
	uint64_t	start_ns = cb_now_ns();
	bool		ok;

	for (int p = 0; p < PART_COUNT; p++)
		ns[p] = -1;
	memset(connect, 0, sizeof(*connect));
	if (!cb_target_resolve(target, &plan, o->timeout_s, &connect->cause))
	{
		cb_target_plan_free(&plan);
		return false;
	}
	if (plan.resolved)
		ns[PART_RESOLVE] = (int64_t) (cb_now_ns() - start_ns);

	ok = cb_connect_and_wait(connect, &plan.params, plan.connect_timeout_s);
	for (int p = PART_TCP; p <= PART_READY; p++)
	{
		if (connect->phase_ns[measure_of[p]] > 0)
			ns[p] = (int64_t) connect->phase_ns[measure_of[p]];
	}
	if (ok)
	{
		int64_t		asked_ns;

		PQsetNoticeReceiver(connect->conn, ignore_notice, NULL);
		ns[PART_FIRST_QUERY] = time_first_query(connect->conn);
		asked_ns = (int64_t) cb_now_ns();
		ask_server(connect->conn, ns);
		asked_ns = (int64_t) cb_now_ns() - asked_ns;
		ns[PART_CLOSE] = (int64_t) cb_connect_close(connect);
		ns[PART_TOTAL] = (int64_t) (cb_now_ns() - start_ns) - asked_ns;
	}
	else
		(void) cb_connect_close(connect);
	cb_target_plan_free(&plan);
	return ok;
}

/* ------------------------------------------------------------------------
 * What is printed
 * ------------------------------------------------------------------------
 */

static int
width_of(int part)
{
	int			len = (int) strlen(headings[part]);

	return len > 9 ? len : 9;
}

static void
print_headings(bool with_server)
{
	int			last = with_server ? PART_COUNT : CLIENT_PARTS;

	if (with_server)
	{
		int			width = 6;

		for (int p = 0; p < CLIENT_PARTS; p++)
			width += 1 + width_of(p);
		printf("%-*s | server\n", width, "client");
	}
	printf("%6s", "ms");
	for (int p = 0; p < last; p++)
		printf("%s %*s", p == PART_SERVER_FORK ? " |" : "", width_of(p), headings[p]);
	putchar('\n');
}

static void
print_row(const char *title, const int64_t *ns, bool with_server)
{
	int			last = with_server ? PART_COUNT : CLIENT_PARTS;

	printf("%6s", title);
	for (int p = 0; p < last; p++)
	{
		printf("%s", p == PART_SERVER_FORK ? " |" : "");
		if (ns[p] < 0)
			printf(" %*s", width_of(p), "-");
		else
			printf(" %*.3f", width_of(p), (double) ns[p] / 1e6);
	}
	putchar('\n');
	fflush(stdout);
}

/* q = 0 and 1 are exact */
static void
print_quantile(const char *title, const Totals *t, double q, bool with_server)
{
	int64_t		ns[PART_COUNT];

	for (int p = 0; p < PART_COUNT; p++)
	{
		const cb_histogram *h = &t->part[p];

		ns[p] = cb_histogram_count(h) == 0 ? -1 :
			(int64_t) (q > 0 ? cb_histogram_quantile(h, q) : h->min_ns);
	}
	print_row(title, ns, with_server);
}

static void
print_summary(const Totals *t, bool with_server)
{
	int			succeeded = t->attempted - t->failed;
	int			largest = 0;
	double		sum[PART_COUNT];

	printf("\n%d connections attempted, %d succeeded, %d failed\n", t->attempted, succeeded, t->failed);
	if (succeeded == 0)
		return;
	print_quantile("min", t, 0, with_server);
	print_quantile("p50", t, 0.5, with_server);
	print_quantile("p95", t, 0.95, with_server);
	print_quantile("max", t, 1, with_server);

	for (int p = 0; p <= PART_TOTAL; p++)
	{
		sum[p] = cb_histogram_mean(&t->part[p]) * (double) cb_histogram_count(&t->part[p]);
		if (p < PART_TOTAL && sum[p] > sum[largest])
			largest = p;
	}
	if (sum[PART_TOTAL] > 0)
		printf("\nThe largest part is %s, %.0f %% of the time: %s.\n", headings[largest],
			   100 * sum[largest] / sum[PART_TOTAL], remedies[largest]);
}

/* ------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------
 */

static void
on_interrupt(int signo)
{
	(void) signo;
	interrupted = 1;
}

static void
pause_for(double seconds)
{
	struct timespec t = {
		.tv_sec = (time_t) seconds,
		.tv_nsec = (long) ((seconds - (double) (time_t) seconds) * 1e9),
	};

	nanosleep(&t, NULL);
}

int
cb_ping_main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_interrupt};
	static Totals t;
	Options		o;
	cb_target	target;
	bool		with_server = false;
	char	   *named;
	int			status;

	if (!parse_options(argc, argv, &o, &status))
		return status;
	named = cb_format("server=%s", o.conninfo);
	if (!cb_target_parse(named, &target))
		return 1;
	free(named);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (int p = 0; p < PART_COUNT; p++)
		cb_histogram_init(&t.part[p]);

	while (t.attempted < o.count && !interrupted)
	{
		int64_t		ns[PART_COUNT];
		cb_connect	connect;
		char		number[16];
		bool		ok = connect_once(&o, &target, ns, &connect);

		if (t.attempted++ == 0)
		{
			with_server = ns[PART_SERVER_TOTAL] >= 0;
			print_headings(with_server);
		}
		snprintf(number, sizeof(number), "%d", t.attempted);
		print_row(number, ns, with_server);
		if (!ok)
		{
			t.failed++;
			printf("       failed in phase %s, class %s%s%s: %s\n",
				   connect.phase_start_ns == 0 ? "resolve" : cb_connect_phase_name(&connect),
				   connect.cause.failure_class, connect.cause.sqlstate[0] != '\0' ? " " : "",
				   connect.cause.sqlstate, connect.cause.message);
		}
		for (int p = 0; ok && p < PART_COUNT; p++)
		{
			if (ns[p] >= 0)
				cb_histogram_record(&t.part[p], (uint64_t) ns[p]);
		}
		if (t.attempted < o.count && !interrupted)
			pause_for(o.interval_s);
	}
	print_summary(&t, with_server);
	return t.failed > 0 ? 2 : 0;
}
