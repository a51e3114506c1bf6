/*
 * server_watch.c
 *		The observer on the server behind the targets.
 *
 * One connection of its own, used by the main thread between windows and by
 * one thread of its own during a window, never by both at once.  The thread
 * polls every 100 ms; should the server go away it connects anew.
 *
 * With connbench preloaded there, process counts come from its census, and
 * snapshots of its ledger are taken around each round; without it, client
 * backends come from pg_stat_activity and the rest stays unknown.
 */
#include "server_watch.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "message.h"

#define POLL_NS	100000000

struct CbWatch
{
	char	   *conninfo;
	PGconn	   *conn;
	bool		has_extension;	/* preloaded, and created in this database */
	int			observers;
	uint64_t	system_identifier;
	char	   *started_at;		/* of the postmaster, before the round */

	pthread_t	thread;
	atomic_bool stop;
	/* of the thread, read after it has ended */
	int64_t		samples;
	const char *application_name;	/* of the target's sessions, or NULL */
	int64_t		client_backends_max;
	int64_t		target_backends_max;
	double		client_backends_sum;
	int64_t		processes_max;
};

#define TARGET_SESSIONS \
	"SELECT count(*) FROM pg_catalog.pg_stat_activity" \
	" WHERE backend_type = 'client backend' AND application_name = $1"

/* client backends, all processes, client backends of the target */
static const char *const count_by_census =
"SELECT coalesce(sum(count) FILTER (WHERE backend_type = 'client backend'), 0), sum(count),"
" (" TARGET_SESSIONS ") FROM connbench.process_counts";

static const char *const count_by_activity =
"SELECT count(*), NULL, (" TARGET_SESSIONS ")"
" FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'";

/* ------------------------------------------------------------------------
 * The connection
 * ------------------------------------------------------------------------
 */

static bool
connect_to(CbWatch *w)
{
	const char *keywords[] = {"connect_timeout", "application_name", "dbname", NULL};
	const char *values[] = {"10", "connbench_watch", w->conninfo, NULL};

	w->conn = PQconnectdbParams(keywords, values, 1);
	return PQstatus(w->conn) == CONNECTION_OK;
}

/* One value as a malloc'd string; NULL on NULL or error. */
static char *
query_value(CbWatch *w, const char *sql)
{
	PGresult   *res = PQexec(w->conn, sql);
	char	   *value = NULL;

	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1 &&
		!PQgetisnull(res, 0, 0))
		value = cb_strdup(PQgetvalue(res, 0, 0));
	PQclear(res);
	return value;
}

static bool
has_extension(CbWatch *w)
{
	char	   *version = query_value(w, "SELECT version FROM connbench.info");
	bool		there = version != NULL;

	free(version);
	return there;
}

CbWatch *
cb_watch_open(const char *conninfo, char **error)
{
	CbWatch    *w = cb_alloc(sizeof(CbWatch));
	char	   *identifier;

	w->conninfo = cb_strdup(conninfo);
	w->observers = 1;
	if (!connect_to(w))
	{
		*error = cb_format("%.*s", (int) strcspn(PQerrorMessage(w->conn), "\n"),
						   PQerrorMessage(w->conn));
		cb_watch_close(w);
		return NULL;
	}
	w->has_extension = has_extension(w);
	identifier = query_value(w, "SELECT system_identifier FROM pg_catalog.pg_control_system()");
	w->system_identifier = identifier != NULL ? strtoull(identifier, NULL, 10) : 0;
	free(identifier);
	return w;
}

void
cb_watch_close(CbWatch *w)
{
	PQfinish(w->conn);
	free(w->started_at);
	free(w->conninfo);
	free(w);
}

uint64_t
cb_watch_system_identifier(const CbWatch *w)
{
	return w->system_identifier;
}

void
cb_watch_set_observers(CbWatch *w, int observers)
{
	w->observers = observers;
}

void
cb_watch_describe(CbWatch *w, cb_run *run)
{
	run->system_identifier = w->system_identifier;
	run->server_version = query_value(w, "SELECT pg_catalog.version()");
	run->server_settings = query_value(w,
									   "SELECT jsonb_object_agg(name, setting) FROM pg_catalog.pg_settings"
									   " WHERE source NOT IN ('default', 'override', 'client', 'session')"
									   " AND name NOT IN ('primary_conninfo', 'ssl_passphrase_command')");
	if (!w->has_extension)
		run->server_note = cb_strdup("connbench is not preloaded on the server observed, or not created in that database: only client backends are counted");
}

/* ------------------------------------------------------------------------
 * During a window
 * ------------------------------------------------------------------------
 */

/* A count of the result's only row; *max becomes at least that. */
static int64_t
raise_to(int64_t *max, const PGresult *res, int column, int observers)
{
	int64_t		count = strtoll(PQgetvalue(res, 0, column), NULL, 10) - observers;

	if (count > *max)
		*max = count;
	return count;
}

static void
look(CbWatch *w)
{
	PGresult   *res = PQexecParams(w->conn, w->has_extension ? count_by_census : count_by_activity,
								   1, NULL, &w->application_name, NULL, NULL, 0);

	if (PQresultStatus(res) != PGRES_TUPLES_OK)
	{
		PQclear(res);
		if (PQstatus(w->conn) != CONNECTION_OK)
		{
			PQfinish(w->conn);
			(void) connect_to(w);
		}
		return;
	}
	w->client_backends_sum +=
		(double) raise_to(&w->client_backends_max, res, 0, w->observers);
	if (!PQgetisnull(res, 0, 1))
		(void) raise_to(&w->processes_max, res, 1, w->observers);
	/* a pooler that does not pass the name on shows none: unknown, not 0 */
	if (w->application_name != NULL && strcmp(PQgetvalue(res, 0, 2), "0") != 0)
		(void) raise_to(&w->target_backends_max, res, 2, 0);
	w->samples++;
	PQclear(res);
}

static void *
watch_main(void *arg)
{
	CbWatch    *w = arg;

	while (!atomic_load(&w->stop))
	{
		struct timespec interval = {.tv_nsec = POLL_NS};

		look(w);
		nanosleep(&interval, NULL);
	}
	return NULL;
}

void
cb_watch_begin_window(CbWatch *w, const cb_target *target)
{
	w->application_name = target->application_name;
	atomic_store(&w->stop, false);
	w->samples = 0;
	w->client_backends_max = CB_UNKNOWN;
	w->target_backends_max = CB_UNKNOWN;
	w->client_backends_sum = 0;
	w->processes_max = CB_UNKNOWN;
	if (pthread_create(&w->thread, NULL, watch_main, w) != 0)
	{
		cb_error("could not start a thread: %m");
		exit(1);
	}
}

void
cb_watch_end_window(CbWatch *w, cb_round *round)
{
	atomic_store(&w->stop, true);
	pthread_join(w->thread, NULL);
	round->samples = w->samples;
	round->client_backends_max = w->client_backends_max;
	round->client_backends_avg = w->samples > 0 ?
		w->client_backends_sum / (double) w->samples : -1;
	round->target_backends_max = w->target_backends_max;
	round->processes_max = w->processes_max;
}

/* ------------------------------------------------------------------------
 * Around a round
 * ------------------------------------------------------------------------
 */

static void
ensure_connected(CbWatch *w)
{
	/* after a crash the server takes a while to come back */
	for (int tries = 0; tries < 50; tries++)
	{
		char	   *one = query_value(w, "SELECT 1");
		struct timespec pause = {.tv_nsec = POLL_NS};

		if (one != NULL)
		{
			free(one);
			return;
		}
		PQfinish(w->conn);
		if (!connect_to(w))
			nanosleep(&pause, NULL);
	}
}

static char *
postmaster_start(CbWatch *w)
{
	return query_value(w, "SELECT pg_catalog.pg_postmaster_start_time()::text || coalesce("
					   "(SELECT stats_reset::text FROM pg_catalog.pg_stat_bgwriter), '')");
}

static char *
snapshot(CbWatch *w)
{
	return w->has_extension ? query_value(w, "SELECT connbench.snapshot()") : NULL;
}

void
cb_watch_before_round(CbWatch *w, cb_round *round)
{
	ensure_connected(w);
	free(w->started_at);
	w->started_at = postmaster_start(w);
	round->snapshot_before = snapshot(w);
}

void
cb_watch_after_round(CbWatch *w, cb_round *round)
{
	char	   *started_at;

	ensure_connected(w);
	started_at = postmaster_start(w);
	round->server_restarted = started_at == NULL || w->started_at == NULL ||
		strcmp(started_at, w->started_at) != 0;
	free(started_at);
	round->snapshot_after = snapshot(w);
}
