/*
 * target.h
 *		A target of the load: where it is, and what it turns out to be.
 */
#ifndef CONNBENCH_TARGET_H
#define CONNBENCH_TARGET_H

#include "connection.h"
#include "results.h"

/* What the generator needs to know of a target besides cb_target. */
typedef struct cb_target_plan
{
	cb_conn_params params;		/* names resolved */
	int			nparams;
	bool		resolved;		/* there was a name to look up */
	double		connect_timeout_s;
	int			scale;			/* of pgbench's tables */
} cb_target_plan;

/*
 * Fills in name, conninfo and conninfo_shown from NAME=CONNINFO; says what is
 * wrong and returns false if it is not of that form.
 */
extern bool cb_target_parse(const char *argument, cb_target *target);

/*
 * Looks the target's name up, as libpq would do, blocking, at each connect, and
 * makes libpq's parameters.  False and a cause if there is no such name.
 */
extern bool cb_target_resolve(const cb_target *target, cb_target_plan *plan,
							  double default_timeout_s, cb_cause *cause);

/* Frees what cb_target_resolve() made. */
extern void cb_target_plan_free(cb_target_plan *plan);

/*
 * Resolves the target's name, connects once, finds out what it is and checks
 * that the load can run there.  Says what is wrong and returns false.
 */
extern bool cb_target_preflight(cb_target *target, cb_target_plan *plan,
								double default_timeout_s);

/* Marks targets that are unlike the first one, and warns of each. */
extern void cb_targets_compare(cb_target *target, const cb_target_plan *plan,
							   int ntargets, bool unlike_is_the_question);

/* "host=... dbname=..." of a conninfo without passwords, malloc'd; NULL if it
 * cannot be parsed. */
extern char *cb_conninfo_without_secrets(const char *conninfo, char **error);

#endif							/* CONNBENCH_TARGET_H */
