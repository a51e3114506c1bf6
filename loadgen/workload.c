/*
 * workload.c
 *		The transactions of pgbench's built-in scripts, on pgbench's tables.
 *
 * Runs in the engine's threads; allocates nothing.
 *
 * The statements and the ranges of their values are those of pgbench, so that
 * its figures and ours can be compared: 1 branch, 10 tellers and 100,000
 * accounts per unit of scale, deltas from -5000 to 5000.
 */
#include "workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BEGIN_COMMAND	{"BEGIN", 0, {0}}
#define END_COMMAND		{"END", 0, {0}}
#define UPDATE_ACCOUNTS \
	{"UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2", \
	 2, {CB_VAR_DELTA, CB_VAR_AID}}
#define SELECT_ACCOUNTS \
	{"SELECT abalance FROM pgbench_accounts WHERE aid = $1", 1, {CB_VAR_AID}}
#define UPDATE_TELLERS \
	{"UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2", \
	 2, {CB_VAR_DELTA, CB_VAR_TID}}
#define UPDATE_BRANCHES \
	{"UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2", \
	 2, {CB_VAR_DELTA, CB_VAR_BID}}
#define INSERT_HISTORY \
	{"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)" \
	 " VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP)", \
	 4, {CB_VAR_TID, CB_VAR_BID, CB_VAR_AID, CB_VAR_DELTA}}

static const cb_workload workloads[] = {
	{"tpcb-like", 7,
		{BEGIN_COMMAND, UPDATE_ACCOUNTS, SELECT_ACCOUNTS, UPDATE_TELLERS,
	UPDATE_BRANCHES, INSERT_HISTORY, END_COMMAND}},
	{"simple-update", 5,
	{BEGIN_COMMAND, UPDATE_ACCOUNTS, SELECT_ACCOUNTS, INSERT_HISTORY, END_COMMAND}},
	{"select-only", 1, {SELECT_ACCOUNTS}},
};

const cb_workload *
cb_workload_find(const char *name)
{
	for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++)
	{
		if (strcmp(workloads[i].name, name) == 0)
			return &workloads[i];
	}
	return NULL;
}

const char *
cb_workload_names(void)
{
	return "tpcb-like, simple-update, select-only";
}

void
cb_transaction_new_session(cb_transaction *t)
{
	memset(t->prepared, 0, sizeof(t->prepared));
	t->preparing = false;
}

void
cb_transaction_begin(cb_transaction *t, cb_random *random, int scale)
{
	t->next = 0;
	t->preparing = false;
	t->value[CB_VAR_AID] = cb_random_range(random, 1, INT64_C(100000) * scale);
	t->value[CB_VAR_BID] = cb_random_range(random, 1, scale);
	t->value[CB_VAR_TID] = cb_random_range(random, 1, INT64_C(10) * scale);
	t->value[CB_VAR_DELTA] = cb_random_range(random, -5000, 5000);
}

/* The statement with its values in place; $1 is the only form that occurs. */
static void
write_simple(const cb_transaction *t, const cb_command *command, char *sql, size_t size)
{
	size_t		len = 0;

	for (const char *p = command->sql; *p != '\0' && len + 24 < size; p++)
	{
		if (*p == '$')
			len += snprintf(sql + len, size - len, "%" PRId64,
							t->value[command->var[*++p - '1']]);
		else
			sql[len++] = *p;
	}
	sql[len] = '\0';
}

static bool
send_simple(const cb_transaction *t, const cb_command *command, PGconn *conn)
{
	char		sql[512];

	if (command->nvars == 0)
		return PQsendQuery(conn, command->sql) == 1;
	write_simple(t, command, sql, sizeof(sql));
	return PQsendQuery(conn, sql) == 1;
}

static bool
send_with_params(cb_transaction *t, const cb_command *command, cb_protocol protocol,
				 PGconn *conn)
{
	char		text[CB_MAX_VARS][24];
	const char *values[CB_MAX_VARS];
	char		name[8];

	for (int i = 0; i < command->nvars; i++)
	{
		snprintf(text[i], sizeof(text[i]), "%" PRId64, t->value[command->var[i]]);
		values[i] = text[i];
	}
	if (protocol == CB_PROTOCOL_EXTENDED)
		return PQsendQueryParams(conn, command->sql, command->nvars, NULL, values,
								 NULL, NULL, 0) == 1;

	snprintf(name, sizeof(name), "P%d", t->next);
	if (!t->prepared[t->next])
	{
		t->preparing = true;
		return PQsendPrepare(conn, name, command->sql, command->nvars, NULL) == 1;
	}
	return PQsendQueryPrepared(conn, name, command->nvars, values, NULL, NULL, 0) == 1;
}

bool
cb_transaction_send(cb_transaction *t, const cb_workload *w, cb_protocol protocol,
					PGconn *conn)
{
	const cb_command *command = &w->command[t->next];

	if (protocol == CB_PROTOCOL_SIMPLE)
		return send_simple(t, command, conn);
	return send_with_params(t, command, protocol, conn);
}

bool
cb_transaction_answered(cb_transaction *t, const cb_workload *w)
{
	if (t->preparing)
	{
		t->preparing = false;
		t->prepared[t->next] = true;
		return false;
	}
	t->next++;
	return t->next == w->ncommands;
}
