/*
 * failure.c
 *		Sorts failures into classes and counts them.
 *
 * Runs in every thread; allocates nothing, says nothing.
 *
 * libpq has no call for the SQLSTATE of a connection that failed.  With
 * verbose messages, set before the server's answer can come, the text holds
 * it: "FATAL:  53300: sorry, too many clients already".  Failures of libpq's
 * own have none: the system's error text or libpq's words tell (always in
 * English, since the program sets no locale).
 */
#include "failure.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* by SQLSTATE: the longest prefix counts */
static const struct
{
	const char *prefix;
	const char *failure_class;
}			by_sqlstate[] = {
	{"53300", "too_many_connections"},
	{"57P03", "starting_up"},
	{"57P01", "shutdown"},
	{"57P02", "shutdown"},
	{"40001", "serialization"},
	{"40P01", "serialization"},
	{"28", "authentication"},
	{"08", "protocol"},
};

/*
 * PgBouncer and others report all that is theirs as 08P01, so within it the
 * text decides.
 */
static const struct
{
	const char *text;
	const char *failure_class;
}			by_pooler_text[] = {
	{"no more connections allowed", "too_many_connections"},
	{"SASL authentication failed", "authentication"},
	{"password authentication failed", "authentication"},
	{"no such user", "authentication"},
	{"query_wait_timeout", "pooler"},
	{"server login has been failing", "pooler"},
	{"server_login_retry", "pooler"},
	{"cannot connect to server", "pooler"},
	{"pgbouncer", "pooler"},
	{"server conn crashed", "pooler"},
	{"no such database", "sql"},
};

static const struct
{
	int			sys_errno;
	const char *failure_class;
}			by_errno[] = {
	{ECONNREFUSED, "refused"},
	{ENOENT, "refused"},
	{ECONNRESET, "reset"},
	{EPIPE, "reset"},
	{EAGAIN, "backlog"},
	{EADDRNOTAVAIL, "no_ports"},
	{EMFILE, "no_descriptors"},
	{ENFILE, "no_descriptors"},
	{EHOSTUNREACH, "unreachable"},
	{ENETUNREACH, "unreachable"},
	{ETIMEDOUT, "timeout"},
};

#define COUNT_OF(array)	((int) (sizeof(array) / sizeof((array)[0])))

/* Copies the message up to its first line end, and no secrets are in it. */
static void
copy_line(char *to, size_t size, const char *from)
{
	size_t		len = strcspn(from, "\n");

	if (len >= size)
		len = size - 1;
	memcpy(to, from, len);
	to[len] = '\0';
}

/* Finds ":  XXXXX: " as verbose messages have it. */
static bool
find_sqlstate(const char *message, char sqlstate[6])
{
	for (const char *p = strstr(message, ":  "); p != NULL; p = strstr(p + 1, ":  "))
	{
		int			n = 0;

		while (n < 5 && (isdigit((unsigned char) p[3 + n]) || isupper((unsigned char) p[3 + n])))
			n++;
		if (n == 5 && p[8] == ':')
		{
			memcpy(sqlstate, p + 3, 5);
			sqlstate[5] = '\0';
			return true;
		}
	}
	return false;
}

static const char *
class_of_sqlstate(const char *sqlstate, const char *message)
{
	if (strcmp(sqlstate, "08P01") == 0)
	{
		for (int i = 0; i < COUNT_OF(by_pooler_text); i++)
		{
			if (strstr(message, by_pooler_text[i].text) != NULL)
				return by_pooler_text[i].failure_class;
		}
		return "pooler";
	}
	for (int i = 0; i < COUNT_OF(by_sqlstate); i++)
	{
		if (strncmp(sqlstate, by_sqlstate[i].prefix, strlen(by_sqlstate[i].prefix)) == 0)
			return by_sqlstate[i].failure_class;
	}
	return "sql";
}

/* What libpq says when the server had no say. */
static const char *
class_of_text(const char *message, bool in_tls, int *sys_errno)
{
	for (int i = 0; i < COUNT_OF(by_errno); i++)
	{
		if (strstr(message, strerror(by_errno[i].sys_errno)) != NULL)
		{
			*sys_errno = by_errno[i].sys_errno;
			return by_errno[i].failure_class;
		}
	}
	if (strstr(message, "could not translate host name") != NULL)
		return "unresolved";
	if (in_tls || strstr(message, "SSL") != NULL)
		return "tls";
	if (strstr(message, "server closed the connection unexpectedly") != NULL)
		return "closed";
	if (strstr(message, "password") != NULL || strstr(message, "SASL") != NULL ||
		strstr(message, "authentication") != NULL)
		return "authentication";
	return "other";
}

static void
classify(cb_cause *cause, const char *message, bool in_tls)
{
	if (cause->sqlstate[0] != '\0')
		cause->failure_class = class_of_sqlstate(cause->sqlstate, message);
	else
		cause->failure_class = class_of_text(message, in_tls, &cause->sys_errno);
	copy_line(cause->message, sizeof(cause->message), message);
}

void
cb_cause_of_connection(cb_cause *cause, const char *message, cb_measure phase)
{
	memset(cause, 0, sizeof(*cause));
	(void) find_sqlstate(message, cause->sqlstate);
	classify(cause, message,
			 phase == CB_MEASURE_TLS || phase == CB_MEASURE_NEGOTIATE);
}

void
cb_cause_of_query(cb_cause *cause, const PGresult *res, const PGconn *conn)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorMessage(res);

	memset(cause, 0, sizeof(*cause));
	if (sqlstate != NULL)
		snprintf(cause->sqlstate, sizeof(cause->sqlstate), "%s", sqlstate);
	if (message == NULL || message[0] == '\0')
		message = PQerrorMessage(conn);
	classify(cause, message, false);
}

void
cb_cause_of_timeout(cb_cause *cause, const char *phase, double seconds)
{
	memset(cause, 0, sizeof(*cause));
	cause->failure_class = "timeout";
	snprintf(cause->message, sizeof(cause->message),
			 "no answer within %g s, in phase \"%s\"", seconds, phase);
}

/* ------------------------------------------------------------------------
 * Counting
 * ------------------------------------------------------------------------
 */

static bool
same_kind(const cb_failure *f, const cb_cause *cause, const char *phase)
{
	return strcmp(f->failure_class, cause->failure_class) == 0 &&
		strcmp(f->sqlstate, cause->sqlstate) == 0 &&
		f->sys_errno == cause->sys_errno && strcmp(f->phase, phase) == 0;
}

void
cb_failures_count(cb_failures *failures, const cb_cause *cause, const char *phase,
				  int64_t count)
{
	int			i = 0;
	cb_failure *f;

	while (i < failures->n && !same_kind(&failures->failure[i], cause, phase))
		i++;
	if (i == CB_MAX_FAILURES)
		i = CB_MAX_FAILURES - 1;
	f = &failures->failure[i];
	if (i == failures->n)
	{
		f->failure_class = (i == CB_MAX_FAILURES - 1) ? "other" : cause->failure_class;
		memcpy(f->sqlstate, cause->sqlstate, sizeof(f->sqlstate));
		f->sys_errno = cause->sys_errno;
		f->phase = phase;
		f->count = 0;
		snprintf(failures->message[i], sizeof(failures->message[i]), "%s", cause->message);
		f->first_message = failures->message[i];
		failures->n++;
	}
	f->count += count;
}

void
cb_failures_merge(cb_failures *into, const cb_failures *from)
{
	for (int i = 0; i < from->n; i++)
	{
		const cb_failure *f = &from->failure[i];
		cb_cause	cause = {.failure_class = f->failure_class,.sys_errno = f->sys_errno};

		memcpy(cause.sqlstate, f->sqlstate, sizeof(cause.sqlstate));
		snprintf(cause.message, sizeof(cause.message), "%s", f->first_message);
		cb_failures_count(into, &cause, f->phase, f->count);
	}
}
