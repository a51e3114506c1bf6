/*
 * sql_functions.c
 *		What SQL calls to read the ledger and the census: thin, it only
 *		formats.
 *
 * Runs in ordinary backends.  Units are those of the column names in
 * connbench--1.0.sql; a number that was not measured is NULL.  Every function
 * raises 55000 (object_not_in_prerequisite_state) without
 * shared_preload_libraries.
 *
 * Rows that name a role are masked like pg_stat_statements masks queries: who
 * has no privileges of pg_read_all_stats sees names of their own rows only.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "libpq/hba.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "census.h"
#include "compat.h"
#include "histogram_type.h"
#include "ledger.h"
#include "procfs.h"
#include "timeline.h"

#define INSUFFICIENT_PRIVILEGE	"<insufficient privilege>"

PG_FUNCTION_INFO_V1(connbench_connection_ledger);
PG_FUNCTION_INFO_V1(connbench_rejections);
PG_FUNCTION_INFO_V1(connbench_recent);
PG_FUNCTION_INFO_V1(connbench_recent_rejections);
PG_FUNCTION_INFO_V1(connbench_leavers);
PG_FUNCTION_INFO_V1(connbench_process_counts);
PG_FUNCTION_INFO_V1(connbench_process_samples);
PG_FUNCTION_INFO_V1(connbench_server_samples);
PG_FUNCTION_INFO_V1(connbench_backend_memory);
PG_FUNCTION_INFO_V1(connbench_postmaster);
PG_FUNCTION_INFO_V1(connbench_info);
PG_FUNCTION_INFO_V1(connbench_reset);

/* ------------------------------------------------------------------------
 * Helpers
 * ------------------------------------------------------------------------
 */

static void
require_preload(void)
{
	if (!cb_ledger_is_attached())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("connbench is not loaded"),
				 errhint("Add \"connbench\" to \"shared_preload_libraries\" and restart the server.")));
}

/* A row under construction: values are added from left to right. */
typedef struct Row
{
	ReturnSetInfo *rsinfo;
	int			natts;
	int			n;
	Datum		values[40];
	bool		nulls[40];
} Row;

/* The columns must be those that connbench--1.0.sql declares. */
static void
begin_rows(FunctionCallInfo fcinfo, Row *row, int natts)
{
	require_preload();
	InitMaterializedSRF(fcinfo, 0);
	row->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	row->natts = natts;
	row->n = 0;
	if (row->rsinfo->setDesc->natts != natts)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("function returns %d columns where its declaration has %d",
						natts, row->rsinfo->setDesc->natts),
				 errhint("The library and the SQL objects are of different versions: run ALTER EXTENSION connbench UPDATE.")));
}

static void
add_datum(Row *row, Datum value, bool isnull)
{
	row->values[row->n] = value;
	row->nulls[row->n] = isnull;
	row->n++;
}

static void
add_null(Row *row)
{
	add_datum(row, (Datum) 0, true);
}

static void
add_int64(Row *row, int64 value)
{
	add_datum(row, Int64GetDatum(value), false);
}

static void
add_text(Row *row, const char *value)
{
	if (value == NULL)
		add_null(row);
	else
		add_datum(row, CStringGetTextDatum(value), false);
}

/* for texts that are empty when there is none */
static void
add_name(Row *row, const char *value)
{
	add_text(row, value[0] != '\0' ? value : NULL);
}

static void
add_timestamp(Row *row, TimestampTz value)
{
	add_datum(row, TimestampTzGetDatum(value), value == 0);
}

/* for marks, durations and counters where -1 or CB_NOT_MEASURED is unknown */
static void
add_known(Row *row, uint64 value)
{
	add_datum(row, Int64GetDatum((int64) value), (int64) value < 0);
}

/* the postmaster's forks are not seen in every build */
static void
add_forks(Row *row, uint64 value)
{
	add_datum(row, Int64GetDatum((int64) value), !CB_HAVE_FORK_MARKS);
}

static void
put_row(Row *row)
{
	Assert(row->n == row->natts);
	tuplestore_putvalues(row->rsinfo->setResult, row->rsinfo->setDesc,
						 row->values, row->nulls);
	row->n = 0;
}

static bool
may_see(Oid role)
{
	return role == GetUserId() ||
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

static const char *
transport_name(uint8 transport)
{
	switch ((cb_transport) transport)
	{
		case CB_TRANSPORT_UNIX:
			return "unix";
		case CB_TRANSPORT_TCP:
			return "tcp";
		case CB_TRANSPORT_TLS:
			return "tls";
		case CB_TRANSPORT_GSS:
			return "gss";
	}
	return NULL;
}

/*
 * database_oid, database, role_oid, role, transport, auth_method,
 * backend_kind, application_name, client_address
 */
#define KEY_COLUMNS		9

static void
add_key(Row *row, const cb_key *key, const NameData *database,
		const NameData *role, const char *application, const char *address)
{
	bool		visible = may_see(key->role);

	if (visible)
	{
		add_datum(row, ObjectIdGetDatum(key->database), !OidIsValid(key->database));
		add_text(row, NameStr(*database)[0] ? NameStr(*database) : NULL);
		add_datum(row, ObjectIdGetDatum(key->role), false);
		add_text(row, NameStr(*role));
	}
	else
	{
		add_null(row);
		add_text(row, INSUFFICIENT_PRIVILEGE);
		add_null(row);
		add_text(row, INSUFFICIENT_PRIVILEGE);
	}
	add_text(row, transport_name(key->transport));
	add_text(row, hba_authname((UserAuth) key->auth_method));
	add_text(row, key->kind == CB_KIND_WALSENDER ? "walsender" : "client");
	add_name(row, visible ? application : "");
	add_name(row, visible ? address : "");
}

/* ------------------------------------------------------------------------
 * Connections
 * ------------------------------------------------------------------------
 */

static void
add_other_key(Row *row)
{
	add_null(row);
	add_text(row, "other");
	add_null(row);
	add_text(row, "other");
	for (int i = 4; i < KEY_COLUMNS; i++)
		add_null(row);
}

static bool
is_empty(const cb_ledger_row *l)
{
	uint64		sum = l->connections;

	for (int i = 0; i < CB_END_COUNT; i++)
		sum += l->sessions_ended[i];
	return sum == 0;
}

Datum
connbench_connection_ledger(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_ledger_row *l = palloc(sizeof(cb_ledger_row));

	begin_rows(fcinfo, &row, KEY_COLUMNS + 1 + CB_END_COUNT + 4 + CB_PHASE_COUNT);
	for (int slot = 0; slot < cb_ledger_slots(); slot++)
	{
		cb_ledger_read_slot(slot, l);
		if (!l->in_use || is_empty(l))
			continue;
		if (l->is_other)
			add_other_key(&row);
		else
			add_key(&row, &l->key, &l->database_name, &l->role_name,
					l->key.application_name, l->key.client_address);
		add_int64(&row, l->connections);
		for (int i = 0; i < CB_END_COUNT; i++)
			add_int64(&row, l->sessions_ended[i]);
		add_int64(&row, l->cpu_user_us);
		add_int64(&row, l->cpu_system_us);
		add_int64(&row, l->minor_faults);
		add_int64(&row, l->context_switches);
		for (int i = 0; i < CB_PHASE_COUNT; i++)
			add_datum(&row, cb_histogram_to_datum(&l->phase[i]), false);
		put_row(&row);
	}
	return (Datum) 0;
}

static const char *
session_end_name(int end)
{
	static const char *const names[CB_END_COUNT] = {
		[CB_END_NORMAL] = "normal",
		[CB_END_CLIENT_LOST] = "client lost",
		[CB_END_FATAL] = "fatal",
		[CB_END_KILLED] = "killed",
	};

	return names[end];
}

Datum
connbench_recent(PG_FUNCTION_ARGS)
{
	Row			row;

	begin_rows(fcinfo, &row, 2 + KEY_COLUMNS + 5 + CB_PHASE_COUNT + 4 + 2);
	for (int i = 0; i < cb_max_recent; i++)
	{
		cb_connection c;
		bool		ended;

		if (!cb_ledger_read_recent(i, &c))
			continue;
		ended = c.exit_ns != CB_NOT_MEASURED;
		add_datum(&row, Int32GetDatum(c.pid), !may_see(c.key.role));
		add_timestamp(&row, c.started_at);
		add_key(&row, &c.key, &c.database_name, &c.role_name,
				c.application_name, c.client_address);
		add_known(&row, c.fork_start_ns);
		add_known(&row, c.child_start_ns);
		add_known(&row, c.auth_end_ns);
		add_known(&row, c.init_end_ns);
		add_known(&row, c.exit_ns);
		for (int p = 0; p < CB_PHASE_COUNT; p++)
			add_known(&row, cb_connection_phase(&c, p));
		add_int64(&row, c.cpu_user_us);
		add_int64(&row, c.cpu_system_us);
		add_int64(&row, c.minor_faults);
		add_int64(&row, c.context_switches);
		add_text(&row, ended ? session_end_name(c.session_end) : NULL);
		add_datum(&row, BoolGetDatum(c.cold), false);
		put_row(&row);
	}
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Rejections
 * ------------------------------------------------------------------------
 */

static const char *
reject_phase_name(cb_reject_phase phase)
{
	switch (phase)
	{
		case CB_REJECT_STARTUP:
			return "startup";
		case CB_REJECT_AUTHENTICATION:
			return "authentication";
		case CB_REJECT_INIT:
			return "init";
		case CB_REJECT_LOGIN_TRIGGER:
			return "login_trigger";
	}
	return NULL;
}

static const char *
reject_reason_name(cb_reject_reason reason)
{
	switch (reason)
	{
		case CB_REASON_OTHER:
			return NULL;
		case CB_REASON_SLOTS:
			return "slots";
		case CB_REASON_RESERVED_SLOTS:
			return "reserved";
		case CB_REASON_ROLE_LIMIT:
			return "role";
		case CB_REASON_DATABASE_LIMIT:
			return "database";
		case CB_REASON_WALSENDER_LIMIT:
			return "walsender";
		case CB_REASON_TIMEOUT:
			return "timeout";
	}
	return NULL;
}

Datum
connbench_rejections(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_rejection rejections[CB_MAX_REJECTIONS];
	int			n;

	begin_rows(fcinfo, &row, 5);
	n = cb_ledger_read_rejections(rejections);
	for (int i = 0; i < n; i++)
	{
		cb_rejection *r = &rejections[i];
		bool		overflow = (r->sqlstate == 0);

		add_text(&row, overflow ? "other" : unpack_sql_state(r->sqlstate));
		add_text(&row, overflow ? NULL : reject_phase_name(r->phase));
		add_text(&row, overflow ? NULL : reject_reason_name(r->reason));
		add_int64(&row, r->count);
		add_timestamp(&row, r->last_at);
		put_row(&row);
	}
	return (Datum) 0;
}

/* The newest ones; only pg_read_all_stats sees who it was. */
Datum
connbench_recent_rejections(PG_FUNCTION_ARGS)
{
	Row			row;
	bool		visible = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	begin_rows(fcinfo, &row, 9);
	for (int i = 0; i < CB_MAX_REJECTION_DETAILS; i++)
	{
		cb_rejection_detail d;

		if (!cb_ledger_read_rejection_detail(i, &d))
			continue;
		add_timestamp(&row, d.at);
		add_datum(&row, Int32GetDatum(d.pid), !visible);
		add_text(&row, unpack_sql_state(d.sqlstate));
		add_text(&row, reject_phase_name(d.phase));
		add_text(&row, reject_reason_name(d.reason));
		add_name(&row, visible ? d.database_name : "");
		add_name(&row, visible ? d.role_name : "");
		add_name(&row, visible ? d.application_name : "");
		add_name(&row, visible ? d.client_address : "");
		put_row(&row);
	}
	return (Datum) 0;
}

static const char *
leave_stage_name(int stage)
{
	static const char *const names[CB_LEFT_COUNT] = {
		[CB_LEFT_SILENTLY] = "sent nothing",
		[CB_LEFT_STARTUP_PACKET] = "startup packet",
		[CB_LEFT_NEGOTIATION] = "negotiation",
		[CB_LEFT_CANCEL] = "cancel request",
		[CB_LEFT_AUTHENTICATION] = "authentication",
		[CB_LEFT_UNLOGGED] = "unlogged rejection",
	};

	return names[stage];
}

Datum
connbench_leavers(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_leavers	leavers;

	begin_rows(fcinfo, &row, 3);
	cb_ledger_read_leavers(&leavers);
	for (int i = 0; i < CB_LEFT_COUNT; i++)
	{
		add_text(&row, leave_stage_name(i));
		add_int64(&row, leavers.count[i]);
		add_timestamp(&row, leavers.last_at[i]);
		put_row(&row);
	}
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Processes
 * ------------------------------------------------------------------------
 */

/* One row; "sample" gives its time unless the caller's rows have none. */
static void
put_count(Row *row, bool with_time, const cb_sample *sample,
		  const char *backend_type, const char *state, int count)
{
	if (count == 0)
		return;
	if (with_time)
		add_timestamp(row, sample->sampled_at);
	add_text(row, backend_type);
	add_text(row, state);
	add_datum(row, Int32GetDatum(count), false);
	put_row(row);
}

static void
put_sample(Row *row, bool with_time, const cb_sample *sample)
{
	for (int i = 0; i < CB_STATE_COUNT; i++)
		put_count(row, with_time, sample, "client backend",
				  cb_client_state_name(i), sample->client[i]);
	for (int i = B_INVALID + 1; i < CB_BACKEND_TYPES; i++)
		put_count(row, with_time, sample, GetBackendTypeDesc(i), NULL,
				  sample->other[i]);
	put_count(row, with_time, sample, "parallel worker", NULL,
			  sample->parallel_workers);
	put_count(row, with_time, sample, "postmaster", NULL, 1);
	put_count(row, with_time, sample, "not yet classified", NULL,
			  Max(cb_sample_untyped(sample), 0));
}

Datum
connbench_process_counts(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_sample	sample;

	begin_rows(fcinfo, &row, 3);
	cb_census_count(&sample);
	put_sample(&row, false, &sample);
	return (Datum) 0;
}

Datum
connbench_process_samples(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_census_state state;

	begin_rows(fcinfo, &row, 4);
	cb_census_read_state(&state);
	for (uint64 n = state.oldest_sample; n <= state.samples; n++)
	{
		cb_sample	sample;

		if (cb_census_read_sample(n, &sample))
			put_sample(&row, true, &sample);
	}
	return (Datum) 0;
}

Datum
connbench_server_samples(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_census_state state;

	begin_rows(fcinfo, &row, 9);
	cb_census_read_state(&state);
	for (uint64 n = state.oldest_sample; n <= state.samples; n++)
	{
		cb_sample	sample;

		if (!cb_census_read_sample(n, &sample))
			continue;
		add_timestamp(&row, sample.sampled_at);
		add_known(&row, sample.processes);
		add_int64(&row, sample.counters.connected);
		add_int64(&row, sample.counters.connected_max);
		add_known(&row, sample.postmaster_cpu_us);
		add_int64(&row, sample.counters.begun);
		add_int64(&row, sample.counters.ended);
		add_forks(&row, sample.counters.forks);
		add_forks(&row, sample.counters.blocked_ns);
		put_row(&row);
	}
	return (Datum) 0;
}

/* The process of this server that has this pid, or NULL. */
static const PGPROC *
find_process(int pid)
{
	for (uint32 i = 0; pid > 0 && i < ProcGlobal->allProcCount; i++)
	{
		const PGPROC *proc = &ProcGlobal->allProcs[i];

		if (proc->pid == pid && cb_proc_is_alive(proc))
			return proc;
	}
	return NULL;
}

/*
 * backend_memory(pid): one row, of NULLs where the process is gone, may not be
 * looked at, or /proc does not tell.
 */
Datum
connbench_backend_memory(PG_FUNCTION_ARGS)
{
	int			pid = PG_GETARG_INT32(0);
	const PGPROC *proc;
	cb_memory	memory = {-1, -1, -1, -1};
	Row			row;

	begin_rows(fcinfo, &row, 4);
	proc = find_process(pid);
	if (proc == NULL)
		ereport(WARNING,
				(errmsg("PID %d is not a PostgreSQL server process", pid)));
	else if (may_see(proc->roleId) && !cb_proc_memory(pid, &memory))
		ereport(NOTICE,
				(errmsg("memory of process %d is not known", pid),
				 errdetail("It has ended, or /proc does not show it.")));
	add_known(&row, memory.pss);
	add_known(&row, memory.unshared);
	add_known(&row, memory.page_tables);
	add_known(&row, memory.rss);
	put_row(&row);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * The postmaster, the module itself
 * ------------------------------------------------------------------------
 */

/* How many were born since the reset; what happened meanwhile is not known. */
static uint64
births(const cb_children *children, const uint64 *alive, cb_child_kind kind)
{
	int64		n = (int64) (children->ended[kind] + alive[kind] -
							 children->alive_at_reset[kind]);

	return kind == CB_CHILD_CLIENT ? children->clients : (uint64) Max(n, 0);
}

/*
 * Unseen are forks that no child has told of: those that ended by _exit(), and
 * for a moment those that are still starting.
 */
Datum
connbench_postmaster(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_fork_account account;
	cb_children children;
	cb_totals	totals;
	cb_sample	sample;
	uint64		alive[CB_CHILD_KINDS];
	uint64		seen;

	begin_rows(fcinfo, &row, 5 + CB_CHILD_KINDS + 1);
	cb_census_count(&sample);
	cb_sample_children(&sample, alive);
	cb_ledger_read_forks(&account, &children);
	cb_ledger_read_totals(&totals);

	add_timestamp(&row, totals.stats_since);
	add_forks(&row, account.forks);
	seen = account.failed;
	for (int kind = 0; kind < CB_CHILD_KINDS; kind++)
	{
		add_forks(&row, births(&children, alive, kind));
		seen += births(&children, alive, kind);
	}
	add_forks(&row, account.failed);
	add_forks(&row, account.forks - Min(account.forks, seen));
	add_datum(&row, cb_histogram_to_datum(&account.blocked), !CB_HAVE_FORK_MARKS);
	add_known(&row, sample.postmaster_cpu_us);
	put_row(&row);
	return (Datum) 0;
}

Datum
connbench_info(PG_FUNCTION_ARGS)
{
	Row			row;
	cb_totals	totals;
	cb_census_state census;

	begin_rows(fcinfo, &row, 16);
	cb_ledger_read_totals(&totals);
	cb_census_read_state(&census);
	add_timestamp(&row, totals.stats_since);
	add_int64(&row, totals.connections);
	add_int64(&row, totals.connected[CB_KIND_CLIENT]);
	add_int64(&row, totals.connected[CB_KIND_WALSENDER]);
	add_int64(&row, totals.connected_max);
	add_timestamp(&row, totals.connected_max_at);
	add_int64(&row, totals.keys_used);
	add_int64(&row, totals.keys_max);
	add_int64(&row, totals.recent_max);
	add_int64(&row, totals.recent_skipped);
	add_int64(&row, totals.shared_memory_bytes + cb_census_shmem_size());
	add_datum(&row, Int32GetDatum(census.worker_pid), census.worker_pid == 0);
	add_datum(&row, Int32GetDatum(cb_sample_interval), false);
	add_int64(&row, census.samples);
	add_timestamp(&row, census.last_sample_at);
	add_int64(&row, census.worker_cpu_us);
	put_row(&row);
	return (Datum) 0;
}

/* Returns the time from which on the ledger counts. */
Datum
connbench_reset(PG_FUNCTION_ARGS)
{
	cb_sample	sample;
	uint64		alive[CB_CHILD_KINDS];

	require_preload();
	cb_census_count(&sample);
	cb_sample_children(&sample, alive);
	PG_RETURN_TIMESTAMPTZ(cb_ledger_reset(alive));
}
