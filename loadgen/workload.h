/*
 * workload.h
 *		What a transaction does: pgbench's built-in scripts.
 */
#ifndef CONNBENCH_WORKLOAD_H
#define CONNBENCH_WORKLOAD_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "random.h"

typedef enum cb_protocol
{
	CB_PROTOCOL_SIMPLE,
	CB_PROTOCOL_EXTENDED,
	CB_PROTOCOL_PREPARED
} cb_protocol;

typedef enum cb_variable
{
	CB_VAR_AID,
	CB_VAR_BID,
	CB_VAR_TID,
	CB_VAR_DELTA,
	CB_VAR_COUNT
} cb_variable;

#define CB_MAX_COMMANDS	8		/* of one transaction */
#define CB_MAX_VARS		4		/* of one command */

/* One statement; variables stand in it as $1, $2, ... */
typedef struct cb_command
{
	const char *sql;
	int			nvars;
	cb_variable var[CB_MAX_VARS];
} cb_command;

typedef struct cb_workload
{
	const char *name;
	int			ncommands;
	cb_command	command[CB_MAX_COMMANDS];
} cb_workload;

/* One client's transaction. */
typedef struct cb_transaction
{
	int			next;			/* command to send */
	bool		prepared[CB_MAX_COMMANDS];	/* in this session */
	bool		preparing;		/* the answer awaited is that of a Parse */
	int64_t		value[CB_VAR_COUNT];
} cb_transaction;

/* NULL if there is none of that name */
extern const cb_workload *cb_workload_find(const char *name);

/* names of all, for messages */
extern const char *cb_workload_names(void);

/* A new session knows no prepared statements. */
extern void cb_transaction_new_session(cb_transaction *t);

/* Draws the values of a transaction, uniformly as pgbench does. */
extern void cb_transaction_begin(cb_transaction *t, cb_random *random, int scale);

/* Sends what is next; false if libpq cannot. */
extern bool cb_transaction_send(cb_transaction *t, const cb_workload *w,
								cb_protocol protocol, PGconn *conn);

/* What was sent has been answered well; true if the transaction is complete. */
extern bool cb_transaction_answered(cb_transaction *t, const cb_workload *w);

#endif							/* CONNBENCH_WORKLOAD_H */
