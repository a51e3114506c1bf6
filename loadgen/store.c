/*
 * store.c
 *		Writes a run to the tables of the results database.
 *
 * Runs in the main thread, between rounds, with blocking libpq calls: never
 * while load is being generated.  Each round is one transaction, so a round is
 * stored whole or not at all, and storing it twice is the same as once.
 *
 * All values travel as parameters in text form; NULL for what is unknown.
 */
#include "store.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_facts.h"
#include "version.h"

#define MAX_PARAMS	24

struct CbStore
{
	char	   *conninfo;
	PGconn	   *conn;
};

/* ------------------------------------------------------------------------
 * Parameters of one statement, added from left to right
 * ------------------------------------------------------------------------
 */

typedef struct Params
{
	int			n;
	const char *value[MAX_PARAMS];
	char		number[MAX_PARAMS][32];
} Params;

static void
add_text(Params *p, const char *value)
{
	p->value[p->n++] = value;
}

static void
add_int(Params *p, int64_t value)
{
	snprintf(p->number[p->n], sizeof(p->number[0]), "%" PRId64, value);
	add_text(p, p->number[p->n]);
}

/* for counts where CB_UNKNOWN stands for NULL */
static void
add_known(Params *p, int64_t value)
{
	if (value == CB_UNKNOWN)
		add_text(p, NULL);
	else
		add_int(p, value);
}

static void
add_unsigned(Params *p, uint64_t value)
{
	snprintf(p->number[p->n], sizeof(p->number[0]), "%" PRIu64, value);
	add_text(p, p->number[p->n]);
}

static void
add_double(Params *p, double value)
{
	snprintf(p->number[p->n], sizeof(p->number[0]), "%.17g", value);
	add_text(p, p->number[p->n]);
}

static void
add_bool(Params *p, bool value)
{
	add_text(p, value ? "t" : "f");
}

/* microseconds since 1970 as seconds, for to_timestamp() */
static void
add_time(Params *p, int64_t epoch_us)
{
	if (epoch_us == CB_UNKNOWN)
		add_text(p, NULL);
	else
		add_double(p, (double) epoch_us / 1e6);
}

/* ------------------------------------------------------------------------
 * Statements
 * ------------------------------------------------------------------------
 */

/* One line out of libpq's message, malloc'd. */
static char *
one_line(const char *message)
{
	size_t		len = strcspn(message, "\n");
	char	   *line = strndup(message, len);

	return line;
}

/* Returns a result with the expected status, or NULL and the error. */
static PGresult *
execute(CbStore *store, const char *sql, const Params *p, char **error)
{
	PGresult   *res = PQexecParams(store->conn, sql, p != NULL ? p->n : 0, NULL,
								   p != NULL ? p->value : NULL, NULL, NULL, 0);
	ExecStatusType status = PQresultStatus(res);

	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		return res;
	*error = one_line(PQresultErrorMessage(res)[0] != '\0' ?
					  PQresultErrorMessage(res) : PQerrorMessage(store->conn));
	PQclear(res);
	return NULL;
}

static bool
command(CbStore *store, const char *sql, const Params *p, char **error)
{
	PGresult   *res = execute(store, sql, p, error);

	PQclear(res);
	return res != NULL;
}

/* The one value that a statement returns; *found says whether it did. */
static bool
fetch_id(CbStore *store, const char *sql, const Params *p, int64_t *id,
		 bool *found, char **error)
{
	PGresult   *res = execute(store, sql, p, error);

	if (res == NULL)
		return false;
	*found = PQntuples(res) == 1;
	if (*found)
		*id = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
	PQclear(res);
	return true;
}

/* Ends a transaction; a failure inside it stays the error that is reported. */
static bool
end_transaction(CbStore *store, bool ok, char **error)
{
	char	   *ignored = NULL;

	if (ok)
		return command(store, "COMMIT", NULL, error);
	(void) command(store, "ROLLBACK", NULL, &ignored);
	free(ignored);
	return false;
}

/* ------------------------------------------------------------------------
 * The connection
 * ------------------------------------------------------------------------
 */

static bool
connect_to(CbStore *store, char **error)
{
	const char *keywords[] = {"connect_timeout", "application_name", "dbname", NULL};
	const char *values[] = {"10", "connbench_results", store->conninfo, NULL};

	store->conn = PQconnectdbParams(keywords, values, 1);
	if (PQstatus(store->conn) == CONNECTION_OK)
		return true;
	*error = one_line(PQerrorMessage(store->conn));
	return false;
}

static bool
check_extension(CbStore *store, char **error)
{
	PGresult   *res = execute(store,
							  "SELECT pg_catalog.to_regclass('connbench.round') IS NOT NULL",
							  NULL, error);
	bool		there;

	if (res == NULL)
		return false;
	there = PQgetvalue(res, 0, 0)[0] == 't';
	PQclear(res);
	if (!there)
		*error = strdup("the results database does not have the extension: run CREATE EXTENSION connbench there");
	return there;
}

CbStore *
cb_store_open(const char *conninfo, char **error)
{
	CbStore    *store = calloc(1, sizeof(CbStore));

	store->conninfo = strdup(conninfo);
	if (connect_to(store, error) && check_extension(store, error))
		return store;
	cb_store_close(store);
	return NULL;
}

bool
cb_store_reconnect(CbStore *store, char **error)
{
	PQfinish(store->conn);
	return connect_to(store, error);
}

uint64_t
cb_store_system_identifier(CbStore *store)
{
	char	   *ignored = NULL;
	PGresult   *res = execute(store, "SELECT system_identifier FROM pg_catalog.pg_control_system()",
							  NULL, &ignored);
	uint64_t	identifier = res != NULL ? strtoull(PQgetvalue(res, 0, 0), NULL, 10) : 0;

	PQclear(res);
	free(ignored);
	return identifier;
}

int
cb_store_backend_pid(const CbStore *store)
{
	return PQbackendPID(store->conn);
}

void
cb_store_close(CbStore *store)
{
	PQfinish(store->conn);
	free(store->conninfo);
	free(store);
}

/* ------------------------------------------------------------------------
 * Run and scenarios
 * ------------------------------------------------------------------------
 */

static bool
insert_run(CbStore *store, cb_run *run, char **error)
{
	char	   *host = cb_host_facts();
	Params		p = {0};
	bool		found;
	bool		ok;

	add_text(&p, run->uuid);
	add_time(&p, run->started_at_us);
	add_text(&p, run->command_line);
	add_text(&p, run->workload);
	add_text(&p, run->protocol);
	add_known(&p, run->scale);
	add_int(&p, run->threads);
	add_double(&p, run->duration_s);
	add_double(&p, run->warmup_s);
	add_int(&p, run->rounds);
	add_unsigned(&p, run->seed);
	add_text(&p, CONNBENCH_VERSION);
	add_int(&p, PQlibVersion());
	add_text(&p, host != NULL ? host : "{}");
	add_text(&p, run->server_version);
	if (run->system_identifier != 0)
		add_unsigned(&p, run->system_identifier);
	else
		add_text(&p, NULL);
	add_text(&p, run->server_settings);
	add_text(&p, run->server_note);
	add_bool(&p, run->unlike_is_the_question);
	ok = fetch_id(store,
				  "INSERT INTO connbench.run (run_uuid, started_at, command_line, workload, protocol,"
				  " scale, threads, duration_s, warmup_s, rounds, seed, generator_version, libpq_version,"
				  " host, server_version, system_identifier, server_settings, server_note, unlike_is_the_question)"
				  " VALUES ($1, to_timestamp($2), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,"
				  " $16, $17, $18, $19) RETURNING run_id",
				  &p, &run->db_id, &found, error);
	free(host);
	return ok;
}

static bool
insert_scenario(CbStore *store, const cb_run *run, cb_scenario *scenario, char **error)
{
	const cb_target *target = &run->target[scenario->target];
	Params		p = {0};
	bool		found;

	add_int(&p, run->db_id);
	add_int(&p, scenario->target + 1);
	add_text(&p, target->name);
	add_text(&p, target->kind);
	add_text(&p, target->conninfo_shown);
	add_text(&p, target->transport);
	add_text(&p, target->auth_method);
	add_text(&p, target->server_version);
	if (target->system_identifier != 0)
		add_unsigned(&p, target->system_identifier);
	else
		add_text(&p, NULL);
	add_text(&p, target->not_comparable);
	add_text(&p, cb_mode_name(scenario->mode));
	add_int(&p, scenario->clients);
	return fetch_id(store,
					"INSERT INTO connbench.scenario (run_id, target_no, target, target_kind, conninfo,"
					" transport, auth_method, server_version, system_identifier, not_comparable, mode, clients)"
					" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING scenario_id",
					&p, &scenario->db_id, &found, error);
}

bool
cb_store_begin_run(CbStore *store, cb_run *run, char **error)
{
	bool		ok = command(store, "BEGIN", NULL, error) && insert_run(store, run, error);

	for (int i = 0; ok && i < run->nscenarios; i++)
		ok = insert_scenario(store, run, &run->scenario[i], error);
	return end_transaction(store, ok, error);
}

bool
cb_store_finish_run(CbStore *store, const cb_run *run, char **error)
{
	Params		p = {0};

	add_int(&p, run->db_id);
	add_time(&p, run->finished_at_us);
	add_bool(&p, run->complete);
	return command(store,
				   "UPDATE connbench.run SET finished_at = to_timestamp($2), complete = $3 WHERE run_id = $1",
				   &p, error);
}

/* ------------------------------------------------------------------------
 * Rounds
 * ------------------------------------------------------------------------
 */

static bool
insert_round(CbStore *store, const cb_run *run, const cb_round *r, int64_t *id,
			 bool *is_new, char **error)
{
	Params		p = {0};

	add_int(&p, run->scenario[r->scenario].db_id);
	add_int(&p, r->round_no);
	add_int(&p, r->order_no);
	add_time(&p, r->started_at_us);
	add_double(&p, (double) r->window_ns / 1e9);
	if (r->initial_connect_ns == CB_UNKNOWN)
		add_text(&p, NULL);
	else
		add_double(&p, (double) r->initial_connect_ns / 1e6);
	add_int(&p, r->attempted);
	add_int(&p, r->succeeded);
	add_int(&p, r->failed);
	add_int(&p, r->abandoned);
	add_int(&p, r->warmup_requests);
	add_int(&p, r->connects_attempted);
	add_int(&p, r->connects_failed);
	add_double(&p, (double) r->cpu_user_us / 1e3);
	add_double(&p, (double) r->cpu_system_us / 1e3);
	add_known(&p, r->client_backends_max);
	if (r->client_backends_avg < 0)
		add_text(&p, NULL);
	else
		add_double(&p, r->client_backends_avg);
	add_known(&p, r->target_backends_max);
	add_known(&p, r->processes_max);
	add_int(&p, r->samples);
	add_bool(&p, r->partial);
	add_bool(&p, r->server_restarted);
	return fetch_id(store,
					"INSERT INTO connbench.round (scenario_id, round_no, order_no, started_at, window_s,"
					" initial_connect_ms, attempted, succeeded, failed, abandoned, warmup_requests, connects_attempted,"
					" connects_failed, client_cpu_user_ms, client_cpu_system_ms, client_backends_max,"
					" client_backends_avg, target_backends_max, processes_max, samples, partial, server_restarted)"
					" VALUES ($1, $2, $3, to_timestamp($4), $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
					" $15, $16, $17, $18, $19, $20, $21, $22)"
					" ON CONFLICT (scenario_id, round_no) DO NOTHING RETURNING round_id",
					&p, id, is_new, error);
}

/* The text form of the SQL type histogram, malloc'd. */
static char *
histogram_text(const cb_histogram *h)
{
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&text, &size);
	const char *separator = "";

	if (out == NULL)
		return NULL;
	fprintf(out, "sum_ns=%" PRIu64 " min_ns=%" PRIu64 " max_ns=%" PRIu64 " clamped=%" PRIu64 "/%" PRIu64 " buckets=",
			h->sum_ns, h->min_ns, h->max_ns, h->clamped_low, h->clamped_high);
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
	{
		if (h->bucket[i] == 0)
			continue;
		fprintf(out, "%s%d:%" PRIu64, separator, i, h->bucket[i]);
		separator = ",";
	}
	fclose(out);
	return text;
}

static bool
insert_measurement(CbStore *store, int64_t round_id, cb_measure measure,
				   const cb_histogram *h, char **error)
{
	Params		p = {0};
	char	   *text;
	bool		ok;

	if (cb_histogram_count(h) == 0)
		return true;
	text = histogram_text(h);
	add_int(&p, round_id);
	add_text(&p, cb_measure_name(measure));
	add_text(&p, text);
	ok = command(store,
				 "INSERT INTO connbench.measurement (round_id, measure, histogram)"
				 " VALUES ($1, $2, $3::connbench.histogram)", &p, error);
	free(text);
	return ok;
}

static bool
insert_failure(CbStore *store, int64_t round_id, int number,
			   const cb_failure *f, char **error)
{
	Params		p = {0};

	add_int(&p, round_id);
	add_int(&p, number);
	add_text(&p, f->failure_class);
	add_text(&p, f->sqlstate[0] != '\0' ? f->sqlstate : NULL);
	if (f->sys_errno != 0)
		add_int(&p, f->sys_errno);
	else
		add_text(&p, NULL);
	add_text(&p, f->phase);
	add_int(&p, f->count);
	add_text(&p, f->first_message);
	return command(store,
				   "INSERT INTO connbench.failure (round_id, failure_no, failure_class, sqlstate, errno,"
				   " phase, count, first_message) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", &p, error);
}

static bool
insert_snapshot(CbStore *store, int64_t round_id, const char *moment,
				const char *snapshot, char **error)
{
	Params		p = {0};

	if (snapshot == NULL)
		return true;
	add_int(&p, round_id);
	add_text(&p, moment);
	add_text(&p, snapshot);
	return command(store,
				   "INSERT INTO connbench.server_snapshot (round_id, moment, snapshot) VALUES ($1, $2, $3)",
				   &p, error);
}

bool
cb_store_save_round(CbStore *store, const cb_run *run, const cb_round *r, char **error)
{
	int64_t		id;
	bool		is_new = false;
	bool		ok = command(store, "BEGIN", NULL, error) &&
		insert_round(store, run, r, &id, &is_new, error);

	if (ok && is_new)
	{
		for (int m = 0; ok && m < CB_MEASURE_COUNT; m++)
			ok = insert_measurement(store, id, m, &r->measure[m], error);
		for (int i = 0; ok && i < r->nfailures; i++)
			ok = insert_failure(store, id, i + 1, &r->failure[i], error);
		ok = ok && insert_snapshot(store, id, "before", r->snapshot_before, error) &&
			insert_snapshot(store, id, "after", r->snapshot_after, error);
	}
	return end_transaction(store, ok, error);
}
