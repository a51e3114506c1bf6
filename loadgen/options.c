/*
 * options.c
 *		The command line of `connbench run`.
 *
 * Runs in the main thread, first of all.  Where pgbench has an option of the
 * same meaning, the letter is the same.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "message.h"
#include "target.h"

/* options without a letter */
enum
{
	OPT_WARMUP = 1000,
	OPT_ROUNDS,
	OPT_MODE,
	OPT_RESULTS,
	OPT_SERVER,
	OPT_CONNECT_TIMEOUT,
	OPT_SEED,
	OPT_COMPARE_UNLIKE
};

static const struct option long_options[] = {
	{"target", required_argument, NULL, 't'},
	{"clients", required_argument, NULL, 'c'},
	{"threads", required_argument, NULL, 'j'},
	{"duration", required_argument, NULL, 'T'},
	{"rounds", required_argument, NULL, OPT_ROUNDS},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"mode", required_argument, NULL, OPT_MODE},
	{"connect", no_argument, NULL, 'C'},
	{"workload", required_argument, NULL, 'w'},
	{"builtin", required_argument, NULL, 'b'},
	{"skip-some-updates", no_argument, NULL, 'N'},
	{"select-only", no_argument, NULL, 'S'},
	{"protocol", required_argument, NULL, 'M'},
	{"results", required_argument, NULL, OPT_RESULTS},
	{"server", required_argument, NULL, OPT_SERVER},
	{"connect-timeout", required_argument, NULL, OPT_CONNECT_TIMEOUT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"compare-unlike", no_argument, NULL, OPT_COMPARE_UNLIKE},
	{"progress", required_argument, NULL, 'P'},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}
};

void
cb_run_usage(void)
{
	puts("connbench run measures what PostgreSQL connections cost, and compares targets.\n"
		 "\n"
		 "Usage:\n"
		 "  connbench run --target NAME=CONNINFO [--target NAME=CONNINFO]... [OPTION]...\n"
		 "\n"
		 "Example: PostgreSQL itself against PgBouncer in front of it, on pgbench's tables\n"
		 "  connbench run --target direct=\"host=127.0.0.1 port=5432 dbname=bench sslmode=disable\" \\\n"
		 "                --target pooled=\"host=127.0.0.1 port=6432 dbname=bench sslmode=disable\" \\\n"
		 "                --clients 10,50,100 --mode persistent --mode per-transaction\n"
		 "\n"
		 "What is measured:\n"
		 "  -t, --target NAME=CONNINFO  a way to the database: libpq keywords or URI (repeatable)\n"
		 "  -c, --clients LIST          numbers of concurrent clients, as 10,50,100 (default: 10)\n"
		 "      --mode MODE             persistent: clients keep their connection (default);\n"
		 "                              per-transaction: connect, transaction, close (repeatable)\n"
		 "  -C, --connect               the same as --mode per-transaction\n"
		 "  -w, --workload NAME         tpcb-like (default), simple-update or select-only, on\n"
		 "                              the tables of pgbench -i; also -b, --builtin\n"
		 "  -N, --skip-some-updates     the same as --workload simple-update\n"
		 "  -S, --select-only           the same as --workload select-only\n"
		 "  -M, --protocol NAME         simple (default), extended or prepared\n"
		 "\n"
		 "How:\n"
		 "  -T, --duration SECONDS      length of each round (default: 10)\n"
		 "      --rounds N              rounds of each scenario, interleaved (default: 3)\n"
		 "      --warmup SECONDS        before each round, not counted (default: 1)\n"
		 "  -j, --threads N             threads of the generator (default: 1)\n"
		 "      --connect-timeout SECONDS\n"
		 "                              longest time for one connection, unless the conninfo\n"
		 "                              has connect_timeout (default: 30)\n"
		 "      --seed N                repeats order and values of an earlier run\n"
		 "\n"
		 "What becomes of the results:\n"
		 "      --results CONNINFO      store them in this database (CREATE EXTENSION connbench)\n"
		 "      --server CONNINFO       the server behind the targets, directly: process counts\n"
		 "                              and snapshots (default: that of --results, if the targets\n"
		 "                              lead to it)\n"
		 "      --compare-unlike        targets of unlike transport or authentication are the\n"
		 "                              question, not a mistake\n"
		 "  -P, --progress SECONDS      time between progress lines, 0 for none\n"
		 "                              (default: 1 on a terminal, otherwise 5)\n"
		 "  -q, --quiet                 no progress, no notes\n"
		 "  -h, --help                  show this help, then exit\n"
		 "\n"
		 "Exit status: 0 all done; 1 wrong options, or a target cannot be used (nothing was\n"
		 "measured); 2 the run is incomplete.");
}

const char *
cb_protocol_name(cb_protocol protocol)
{
	static const char *const names[] = {
		[CB_PROTOCOL_SIMPLE] = "simple",
		[CB_PROTOCOL_EXTENDED] = "extended",
		[CB_PROTOCOL_PREPARED] = "prepared",
	};

	return names[protocol];
}

const char *
cb_mode_name(cb_mode mode)
{
	return mode == CB_MODE_PERSISTENT ? "persistent" : "per-transaction";
}

/* ------------------------------------------------------------------------
 * Values
 * ------------------------------------------------------------------------
 */

int
cb_parse_counts(const char *list, int *counts, int max)
{
	int			n = 0;
	const char *p = list;

	for (;;)
	{
		char	   *end;
		long		value;

		errno = 0;
		value = strtol(p, &end, 10);
		if (end == p || errno != 0 || value < 1 || value > 1000000 || n == max)
			return -1;
		counts[n++] = (int) value;
		if (*end == '\0')
			return n;
		if (*end != ',')
			return -1;
		p = end + 1;
	}
}

static bool
take_int(const char *option, const char *text, int min, int max, int *value)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || number < min || number > max)
	{
		cb_error("%s must be a whole number from %d to %d, not \"%s\"", option, min, max, text);
		return false;
	}
	*value = (int) number;
	return true;
}

/* Seconds; zero only where it has a meaning. */
static bool
take_seconds(const char *option, const char *text, bool zero_allowed, double *value)
{
	char	   *end;
	double		number = strtod(text, &end);

	if (end == text || *end != '\0' || !isfinite(number) || number < 0 ||
		(number == 0 && !zero_allowed) || number > 1e6)
	{
		cb_error("%s must be a number of seconds %s, not \"%s\"", option,
				 zero_allowed ? "from 0 on" : "greater than 0", text);
		return false;
	}
	*value = number;
	return true;
}

static bool
take_seed(const char *text, uint64_t *value)
{
	char	   *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || text[0] == '-')
	{
		cb_error("--seed must be a whole number from 0 on, not \"%s\"", text);
		return false;
	}
	return true;
}

static bool
take_clients(const char *text, cb_options *o)
{
	o->ncounts = cb_parse_counts(text, o->clients, CB_MAX_COUNTS);
	if (o->ncounts < 0)
		cb_error("--clients must be numbers from 1 on, separated by commas, not \"%s\"", text);
	return o->ncounts > 0;
}

static bool
take_target(const char *text, cb_options *o)
{
	cb_target  *target = &o->target[o->ntargets];

	if (o->ntargets == CB_MAX_TARGETS)
	{
		cb_error("there can be at most %d targets", CB_MAX_TARGETS);
		return false;
	}
	if (!cb_target_parse(text, target))
		return false;
	for (int i = 0; i < o->ntargets; i++)
	{
		if (strcmp(o->target[i].name, target->name) == 0)
		{
			cb_error("there are two targets named \"%s\"", target->name);
			return false;
		}
	}
	o->ntargets++;
	return true;
}

static bool
add_mode(cb_mode mode, cb_options *o)
{
	for (int i = 0; i < o->nmodes; i++)
	{
		if (o->mode[i] == mode)
			return true;
	}
	o->mode[o->nmodes++] = mode;
	return true;
}

static bool
take_mode(const char *text, cb_options *o)
{
	if (strcmp(text, "persistent") == 0)
		return add_mode(CB_MODE_PERSISTENT, o);
	if (strcmp(text, "per-transaction") == 0)
		return add_mode(CB_MODE_PER_TRANSACTION, o);
	cb_error("unknown mode \"%s\"", text);
	cb_hint("Modes are: persistent, per-transaction.");
	return false;
}

static bool
take_workload(const char *text, cb_options *o)
{
	o->workload = cb_workload_find(text);
	if (o->workload == NULL)
	{
		cb_error("unknown workload \"%s\"", text);
		cb_hint("Workloads are: %s.", cb_workload_names());
	}
	return o->workload != NULL;
}

static bool
take_protocol(const char *text, cb_options *o)
{
	for (int p = CB_PROTOCOL_SIMPLE; p <= CB_PROTOCOL_PREPARED; p++)
	{
		if (strcmp(text, cb_protocol_name(p)) == 0)
		{
			o->protocol = p;
			return true;
		}
	}
	cb_error("unknown protocol \"%s\"", text);
	cb_hint("Protocols are: simple, extended, prepared.");
	return false;
}

/* ------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------
 */

static void
set_defaults(cb_options *o)
{
	memset(o, 0, sizeof(*o));
	o->ncounts = 1;
	o->clients[0] = 10;
	o->workload = cb_workload_find("tpcb-like");
	o->threads = 1;
	o->rounds = 3;
	o->duration_s = 10;
	o->warmup_s = 1;
	o->connect_timeout_s = 30;
	o->progress_s = isatty(STDERR_FILENO) ? 1 : 5;
	if (getrandom(&o->seed, sizeof(o->seed), 0) != sizeof(o->seed))
		o->seed = 1;
	o->seed >>= 32;				/* short enough to type again */
}

static bool
take_option(int opt, cb_options *o)
{
	switch (opt)
	{
		case 't':
			return take_target(optarg, o);
		case 'c':
			return take_clients(optarg, o);
		case 'j':
			return take_int("--threads", optarg, 1, 1024, &o->threads);
		case 'T':
			return take_seconds("--duration", optarg, false, &o->duration_s);
		case OPT_ROUNDS:
			return take_int("--rounds", optarg, 1, 100000, &o->rounds);
		case OPT_WARMUP:
			return take_seconds("--warmup", optarg, true, &o->warmup_s);
		case OPT_MODE:
			return take_mode(optarg, o);
		case 'C':
			return add_mode(CB_MODE_PER_TRANSACTION, o);
		case 'w':
		case 'b':
			return take_workload(optarg, o);
		case 'N':
			return take_workload("simple-update", o);
		case 'S':
			return take_workload("select-only", o);
		case 'M':
			return take_protocol(optarg, o);
		case OPT_RESULTS:
			o->results = optarg;
			return true;
		case OPT_SERVER:
			o->server = optarg;
			return true;
		case OPT_CONNECT_TIMEOUT:
			return take_seconds("--connect-timeout", optarg, false, &o->connect_timeout_s);
		case OPT_SEED:
			return take_seed(optarg, &o->seed);
		case OPT_COMPARE_UNLIKE:
			o->compare_unlike = true;
			return true;
		case 'P':
			return take_seconds("--progress", optarg, true, &o->progress_s);
		case 'q':
			o->quiet = true;
			return true;
		case 'h':
			cb_run_usage();
			exit(0);
		default:
			/* getopt has said what is wrong */
			cb_hint("Try \"connbench run --help\".");
			return false;
	}
}

bool
cb_options_parse(int argc, char **argv, cb_options *o)
{
	int			opt;

	set_defaults(o);
	while ((opt = getopt_long(argc, argv, "t:c:j:T:Cw:b:NSM:P:qh", long_options, NULL)) != -1)
	{
		if (!take_option(opt, o))
			return false;
	}
	if (optind < argc)
	{
		cb_error("unexpected argument \"%s\"", argv[optind]);
		cb_hint("Options begin with \"-\"; a target is given as --target NAME=CONNINFO.");
		return false;
	}
	if (o->ntargets == 0)
	{
		cb_error("no target was given");
		cb_hint("For example --target direct=\"host=127.0.0.1 dbname=bench\"; see \"connbench run --help\".");
		return false;
	}
	if (o->nmodes == 0)
		add_mode(CB_MODE_PERSISTENT, o);
	if (o->quiet)
		o->progress_s = 0;
	return true;
}
