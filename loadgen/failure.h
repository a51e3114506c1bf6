/*
 * failure.h
 *		What went wrong, in classes that mean the same for every target.
 */
#ifndef CONNBENCH_FAILURE_H
#define CONNBENCH_FAILURE_H

#include <libpq-fe.h>
#include <stdint.h>

#include "results.h"

/* What is known of one failure, before it is counted. */
typedef struct cb_cause
{
	const char *failure_class;	/* see failure.c for the list */
	char		sqlstate[6];
	int			sys_errno;
	char		message[256];	/* one line */
} cb_cause;

/* A connection attempt that libpq gave up; phase tells TLS from the rest. */
extern void cb_cause_of_connection(cb_cause *cause, const char *message, cb_measure phase);

/* A query that failed: the result's fields, or the connection's message. */
extern void cb_cause_of_query(cb_cause *cause, const PGresult *res, const PGconn *conn);

/* A deadline that the generator keeps. */
extern void cb_cause_of_timeout(cb_cause *cause, const char *phase, double seconds);

#define CB_MAX_FAILURES	32

/* Failures of one thread in one round, by kind; the last takes the rest. */
typedef struct cb_failures
{
	int			n;
	cb_failure	failure[CB_MAX_FAILURES];
	char		message[CB_MAX_FAILURES][256];
} cb_failures;

extern void cb_failures_count(cb_failures *failures, const cb_cause *cause,
							  const char *phase, int64_t count);

extern void cb_failures_merge(cb_failures *into, const cb_failures *from);

#endif							/* CONNBENCH_FAILURE_H */
