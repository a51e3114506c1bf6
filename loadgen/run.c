/*
 * run.c
 *		`connbench run` from the command line to the last table: preflight,
 *		rounds in random order, results.
 *
 * Runs in the main thread.  Everything that can be found out before any load
 * is found out before any load, and ends the program with status 1; from the
 * first round on, nothing ends it but the user.
 */
#include "run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "../common/clock.h"
#include "engine.h"
#include "message.h"
#include "options.h"
#include "report.h"
#include "server_watch.h"
#include "store.h"
#include "target.h"

#define EXIT_OK			0
#define EXIT_USAGE		1
#define EXIT_INCOMPLETE 2

/* descriptors that are not a client's: files, epoll, observers */
#define RESERVED_DESCRIPTORS	64

typedef struct Session
{
	cb_options	options;
	cb_target_plan target_plan[CB_MAX_TARGETS];
	cb_run		run;
	CbStore    *store;			/* NULL: results are only printed */
	CbWatch    *watch;			/* NULL: the server is not observed */
	cb_summary *summary;		/* by scenario */
	cb_round   *round;			/* all that were done */
	int			nrounds;
	int			planned;
	bool		lost_rounds;	/* some could not be stored */
	cb_round   *current;		/* the one that is being measured */
	uint64_t	begun_ns;		/* of the first round */
	uint64_t	last_progress_ns;
} Session;

/* ------------------------------------------------------------------------
 * Before any load
 * ------------------------------------------------------------------------
 */

static void
on_interrupt(int signo)
{
	(void) signo;
	cb_interrupts++;
}

static void
catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_interrupt};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static bool
check_descriptors(const cb_options *o)
{
	struct rlimit limit;
	int			most = 0;

	for (int i = 0; i < o->ncounts; i++)
		most = o->clients[i] > most ? o->clients[i] : most;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return true;
	limit.rlim_cur = limit.rlim_max;
	(void) setrlimit(RLIMIT_NOFILE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		limit.rlim_cur < (rlim_t) most + RESERVED_DESCRIPTORS + (rlim_t) o->threads * 2)
	{
		cb_error("%d clients need more file descriptors than the limit of %llu allows",
				 most, (unsigned long long) limit.rlim_cur);
		cb_hint("Raise the hard limit (ulimit -Hn) to at least %d.",
				most + RESERVED_DESCRIPTORS + o->threads * 2);
		return false;
	}
	return true;
}

static bool
examine_targets(Session *s)
{
	cb_options *o = &s->options;

	for (int i = 0; i < o->ntargets; i++)
	{
		if (!cb_target_preflight(&o->target[i], &s->target_plan[i], o->connect_timeout_s))
			return false;
	}
	cb_targets_compare(o->target, s->target_plan, o->ntargets, o->compare_unlike);
	return true;
}

static bool
open_store(Session *s)
{
	char	   *error = NULL;

	if (s->options.results == NULL)
		return true;
	s->store = cb_store_open(s->options.results, &error);
	if (s->store == NULL)
	{
		cb_error("could not use the results database: %s", error);
		free(error);
	}
	return s->store != NULL;
}

static bool
leads_to(const Session *s, uint64_t system_identifier)
{
	for (int i = 0; i < s->options.ntargets; i++)
	{
		if (s->options.target[i].system_identifier != system_identifier)
			return false;
	}
	return system_identifier != 0;
}

/*
 * --server must be the server behind the targets; without it, the results
 * server is taken if it is that.
 */
static bool
open_watch(Session *s)
{
	bool		asked = s->options.server != NULL;
	const char *conninfo = asked ? s->options.server : s->options.results;
	char	   *error = NULL;
	uint64_t	identifier;

	if (conninfo == NULL)
	{
		s->run.server_note = cb_strdup("the server was not observed: give --server CONNINFO for process counts");
		return true;
	}
	s->watch = cb_watch_open(conninfo, &error);
	if (s->watch == NULL)
	{
		cb_error("could not connect to the server to observe: %s", error);
		free(error);
		return false;
	}
	identifier = cb_watch_system_identifier(s->watch);
	if (leads_to(s, identifier))
	{
		cb_watch_describe(s->watch, &s->run);
		if (s->store != NULL && cb_store_system_identifier(s->store) == identifier)
			cb_watch_set_observers(s->watch, 2);
		return true;
	}
	cb_watch_close(s->watch);
	s->watch = NULL;
	if (asked)
	{
		cb_error("the server given by --server is not the one that the targets lead to");
		cb_detail("Their system identifiers differ, or cannot be read.");
		return false;
	}
	s->run.server_note = cb_strdup("the server was not observed: the results are stored on another one; give --server CONNINFO");
	return true;
}

/* ------------------------------------------------------------------------
 * The plan
 * ------------------------------------------------------------------------
 */

static int64_t
wall_clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* A random (version 4) UUID; not from the seed, which may be given again. */
static void
make_uuid(char *uuid, size_t size)
{
	uint64_t	seed = (uint64_t) wall_clock_us() ^ cb_now_ns();
	uint64_t	a = cb_splitmix64(&seed);
	uint64_t	b = cb_splitmix64(&seed);

	snprintf(uuid, size, "%08" PRIx64 "-%04" PRIx64 "-4%03" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
			 a >> 32, (a >> 16) & 0xffff, a & 0xfff,
			 0x8000 | ((b >> 48) & 0x3fff), b & UINT64_C(0xffffffffffff));
}

/* The command line with conninfos freed of secrets. */
static char *
command_line(int argc, char **argv)
{
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&text, &size);

	fputs("connbench run", out);
	for (int i = 1; i < argc; i++)
	{
		const char *equals = strchr(argv[i], '=');
		char	   *error = NULL;
		char	   *shown;

		if (equals == NULL)
		{
			fprintf(out, " %s", argv[i]);
			continue;
		}
		/* NAME=CONNINFO, --option=..., or a conninfo by itself */
		shown = cb_conninfo_without_secrets(equals + 1, &error);
		if (shown != NULL)
			fprintf(out, " %.*s=\"%s\"", (int) (equals - argv[i]), argv[i], shown);
		else if ((shown = cb_conninfo_without_secrets(argv[i], &error)) != NULL)
			fprintf(out, " \"%s\"", shown);
		else
			fprintf(out, " %.*s=...", (int) (equals - argv[i]), argv[i]);
		free(shown);
		free(error);
	}
	fclose(out);
	return text;
}

static void
make_scenarios(Session *s)
{
	cb_options *o = &s->options;
	cb_run	   *run = &s->run;

	run->scenario = cb_alloc(sizeof(cb_scenario) *
							 (unsigned long) (o->nmodes * o->ncounts * o->ntargets));
	for (int m = 0; m < o->nmodes; m++)
		for (int c = 0; c < o->ncounts; c++)
			for (int t = 0; t < o->ntargets; t++)
				run->scenario[run->nscenarios++] = (cb_scenario)
				{
					.target = t,.mode = o->mode[m],.clients = o->clients[c]
				};
}

static void
make_run(Session *s, int argc, char **argv)
{
	cb_options *o = &s->options;
	cb_run	   *run = &s->run;

	make_uuid(run->uuid, sizeof(run->uuid));
	run->started_at_us = wall_clock_us();
	run->finished_at_us = CB_UNKNOWN;
	run->seed = o->seed;
	run->command_line = command_line(argc, argv);
	run->workload = cb_strdup(o->workload->name);
	run->protocol = cb_strdup(cb_protocol_name(o->protocol));
	run->threads = o->threads;
	run->scale = s->target_plan[0].scale;
	run->duration_s = o->duration_s;
	run->warmup_s = o->warmup_s;
	run->rounds = o->rounds;
	run->unlike_is_the_question = o->compare_unlike;
	run->ntargets = o->ntargets;
	run->target = o->target;
	make_scenarios(s);

	s->planned = run->nscenarios * o->rounds;
	s->round = cb_alloc(sizeof(cb_round) * (unsigned long) s->planned);
	s->summary = cb_alloc(sizeof(cb_summary) * (unsigned long) run->nscenarios);
	for (int i = 0; i < run->nscenarios; i++)
		cb_summary_init(&s->summary[i]);
}

static bool
prepare(Session *s, int argc, char **argv)
{
	char	   *error = NULL;

	if (!cb_options_parse(argc, argv, &s->options) || !check_descriptors(&s->options) ||
		!examine_targets(s) || !open_store(s) || !open_watch(s))
		return false;
	make_run(s, argc, argv);
	if (s->store == NULL || cb_store_begin_run(s->store, &s->run, &error))
		return true;
	cb_error("could not store the run: %s", error);
	free(error);
	return false;
}

/* ------------------------------------------------------------------------
 * Rounds
 * ------------------------------------------------------------------------
 */

static void
on_progress(void *arg, int64_t succeeded, int64_t failed, double elapsed_s)
{
	Session    *s = arg;
	const cb_options *o = &s->options;
	const cb_scenario *scenario = &s->run.scenario[s->current->scenario];
	uint64_t	now_ns = cb_now_ns();
	double		per_round_s;
	char	   *line;

	if (o->progress_s == 0 ||
		now_ns - s->last_progress_ns < (uint64_t) (o->progress_s * 1e9))
		return;
	s->last_progress_ns = now_ns;
	/* by the rounds done so far, or by the plan while there is none */
	per_round_s = s->nrounds > 0 ?
		(double) (now_ns - s->begun_ns) / 1e9 / (s->nrounds + 0.5) : o->duration_s + o->warmup_s;
	line = cb_format("round %d of %d: %s, %s, %d clients: %.1f tps, %" PRId64 " failed, about %.0f s to go",
					 s->nrounds + 1, s->planned, s->run.target[scenario->target].name,
					 cb_mode_name(scenario->mode), scenario->clients,
					 (double) succeeded / elapsed_s, failed,
					 per_round_s * (s->planned - s->nrounds - 0.5));
	cb_report_progress(line);
	free(line);
}

static void
on_window(void *arg, bool begins)
{
	Session    *s = arg;

	if (s->watch == NULL)
		return;
	if (begins)
		cb_watch_begin_window(s->watch, &s->run.target[s->run.scenario[s->current->scenario].target]);
	else
		cb_watch_end_window(s->watch, s->current);
}

/* A round that cannot be stored is reported, and the run goes on. */
static void
store_round(Session *s, const cb_round *round)
{
	char	   *error = NULL;

	if (s->store == NULL || cb_store_save_round(s->store, &s->run, round, &error))
		return;
	free(error);
	error = NULL;
	if (cb_store_reconnect(s->store, &error) &&
		cb_store_save_round(s->store, &s->run, round, &error))
		return;
	s->lost_rounds = true;
	cb_report_progress("");
	cb_warning("round %d could not be stored: %s", round->order_no, error);
	free(error);
}

static void
run_round(Session *s, int scenario_no, int round_no)
{
	cb_options *o = &s->options;
	const cb_scenario *scenario = &s->run.scenario[scenario_no];
	const cb_target_plan *target = &s->target_plan[scenario->target];
	cb_round   *round = &s->round[s->nrounds];
	uint64_t	seed = o->seed + (uint64_t) s->nrounds * 1000003;
	cb_round_plan plan = {
		.params = &target->params,
		.workload = o->workload,
		.protocol = o->protocol,
		.mode = scenario->mode,
		.clients = scenario->clients,
		.threads = o->threads,
		.scale = target->scale,
		.warmup_s = o->warmup_s,
		.duration_s = o->duration_s,
		.connect_timeout_s = target->connect_timeout_s,
		.seed = seed,
		.progress = on_progress,
		.window = on_window,
		.arg = s,
	};

	round->scenario = scenario_no;
	round->round_no = round_no;
	round->order_no = s->nrounds + 1;
	round->client_backends_max = round->target_backends_max = round->processes_max = CB_UNKNOWN;
	round->client_backends_avg = -1;
	s->current = round;
	if (s->watch != NULL)
		cb_watch_before_round(s->watch, round);
	cb_engine_run_round(&plan, round);
	if (s->watch != NULL)
		cb_watch_after_round(s->watch, round);
	s->nrounds++;
	cb_summary_add(&s->summary[scenario_no], round);
	store_round(s, round);
	free(round->snapshot_before);
	free(round->snapshot_after);
	round->snapshot_before = round->snapshot_after = NULL;
}

/* Each scenario once, in an order of its own: so drift hits all alike. */
static void
shuffle(int *order, int n, cb_random *random)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--)
	{
		int			j = (int) cb_random_range(random, 0, i);
		int			swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

static void
run_rounds(Session *s)
{
	int			n = s->run.nscenarios;
	int		   *order = cb_alloc(sizeof(int) * (unsigned long) n);
	cb_random	random;

	cb_random_seed(&random, s->options.seed);
	s->begun_ns = cb_now_ns();
	for (int r = 1; r <= s->options.rounds; r++)
	{
		shuffle(order, n, &random);
		for (int i = 0; i < n && cb_interrupts == 0; i++)
			run_round(s, order[i], r);
	}
	free(order);
}

/* ------------------------------------------------------------------------
 * After
 * ------------------------------------------------------------------------
 */

static void
finish_run(Session *s)
{
	char	   *error = NULL;

	s->run.finished_at_us = wall_clock_us();
	s->run.complete = s->nrounds == s->planned && cb_interrupts == 0 && !s->lost_rounds;
	if (s->store != NULL && !cb_store_finish_run(s->store, &s->run, &error))
	{
		s->lost_rounds = true;
		cb_warning("the end of the run could not be stored: %s", error);
		free(error);
	}
}

static void
print_notes(const Session *s)
{
	const cb_run *run = &s->run;

	printf("\n%s, %s protocol, scale %d; %d of %d rounds of %g s after %g s of warm-up; seed %" PRIu64 "\n",
		   run->workload, run->protocol, run->scale, s->nrounds, s->planned,
		   run->duration_s, run->warmup_s, run->seed);
	for (int i = 0; i < run->ntargets; i++)
	{
		const cb_target *t = &run->target[i];

		printf("%s: %s, %s, authentication %s, server %s%s%s\n", t->name,
			   t->kind != NULL ? t->kind : "kind unknown", t->transport,
			   t->auth_method != NULL ? t->auth_method : "unknown",
			   t->server_version != NULL ? t->server_version : "unknown",
			   t->not_comparable != NULL ? "; (!) not comparable: " : "",
			   t->not_comparable != NULL ? t->not_comparable : "");
	}
	if (run->server_note != NULL)
		printf("note: %s\n", run->server_note);
	if (s->store != NULL)
		printf("stored as run %" PRId64 ": SELECT * FROM connbench.results WHERE run_id = %" PRId64 "\n",
			   run->db_id, run->db_id);
	if (!run->complete)
		printf("the run is incomplete%s\n", cb_interrupts > 0 ? ": it was interrupted" : "");
}

int
cb_run_main(int argc, char **argv)
{
	static Session s;

	if (!prepare(&s, argc, argv))
		return EXIT_USAGE;
	catch_signals();
	run_rounds(&s);
	cb_report_progress("");
	finish_run(&s);

	cb_report_table(&s.run, s.summary);
	cb_report_failures(&s.run, s.round, s.nrounds);
	if (!s.options.quiet)
		print_notes(&s);
	if (s.store != NULL)
		cb_store_close(s.store);
	if (s.watch != NULL)
		cb_watch_close(s.watch);
	return s.run.complete ? EXIT_OK : EXIT_INCOMPLETE;
}
