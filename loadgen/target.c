/*
 * target.c
 *		Looks at a target before any load is sent to it.
 *
 * Runs in the main thread.  Whatever would make every request fail is found
 * here, with one line that says what is wrong and what would be right.
 */
#include "target.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "message.h"

/* ------------------------------------------------------------------------
 * Conninfo
 * ------------------------------------------------------------------------
 */

static bool
is_secret(const char *keyword)
{
	static const char *const secrets[] = {
		"password", "sslpassword", "scram_client_key", "scram_server_key",
		"oauth_client_secret",
	};

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
	{
		if (strcmp(keyword, secrets[i]) == 0)
			return true;
	}
	return false;
}

static void
put_value(FILE *out, const char *value)
{
	bool		quote = value[0] == '\0' || strpbrk(value, " '\\") != NULL;

	if (quote)
		fputc('\'', out);
	for (const char *p = value; *p != '\0'; p++)
	{
		if (*p == '\'' || *p == '\\')
			fputc('\\', out);
		fputc(*p, out);
	}
	if (quote)
		fputc('\'', out);
}

char *
cb_conninfo_without_secrets(const char *conninfo, char **error)
{
	char	   *parse_error = NULL;
	PQconninfoOption *options = PQconninfoParse(conninfo, &parse_error);
	char	   *text = NULL;
	size_t		size = 0;
	FILE	   *out;

	if (options == NULL)
	{
		*error = cb_format("%.*s", parse_error ? (int) strcspn(parse_error, "\n") : 0,
						   parse_error ? parse_error : "");
		PQfreemem(parse_error);
		return NULL;
	}
	out = open_memstream(&text, &size);
	for (PQconninfoOption *o = options; o->keyword != NULL; o++)
	{
		if (o->val == NULL || is_secret(o->keyword))
			continue;
		fprintf(out, "%s%s=", ftell(out) > 0 ? " " : "", o->keyword);
		put_value(out, o->val);
	}
	fclose(out);
	PQconninfoFree(options);
	return text;
}

bool
cb_target_parse(const char *argument, cb_target *target)
{
	const char *equals = strchr(argument, '=');
	size_t		name_len = equals != NULL ? (size_t) (equals - argument) : 0;
	char	   *error = NULL;

	memset(target, 0, sizeof(*target));
	if (name_len == 0 || strcspn(argument, " \t:/") < name_len)
	{
		cb_error("a target is given as NAME=CONNINFO, not as \"%.*s\"",
				 (int) strcspn(argument, " \t:/="), argument);
		cb_hint("For example --target direct=\"host=127.0.0.1 dbname=bench\".");
		return false;
	}
	target->name = cb_format("%.*s", (int) name_len, argument);
	target->conninfo = cb_strdup(equals + 1);
	target->conninfo_shown = cb_conninfo_without_secrets(target->conninfo, &error);
	if (target->conninfo_shown == NULL)
	{
		cb_error("target \"%s\": %s", target->name, error);
		free(error);
		return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * Name resolution: once, since libpq would do it, blocking, at each connect
 * ------------------------------------------------------------------------
 */

static char *
resolve(const char *host, cb_cause *cause)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC,.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char		address[NI_MAXHOST];
	int			rc = getaddrinfo(host, NULL, &hints, &found);

	if (rc == 0)
		rc = getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof(address),
						 NULL, 0, NI_NUMERICHOST);
	if (found != NULL)
		freeaddrinfo(found);
	if (rc == 0)
		return cb_strdup(address);
	memset(cause, 0, sizeof(*cause));
	cause->failure_class = "unresolved";
	snprintf(cause->message, sizeof(cause->message), "could not resolve host name \"%s\": %s",
			 host, gai_strerror(rc));
	return NULL;
}

static const char *
option_value(const PQconninfoOption *options, const char *keyword)
{
	for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
	{
		if (strcmp(o->keyword, keyword) == 0)
			return o->val;
	}
	return NULL;
}

/* A name that is to be looked up, or NULL: sockets, addresses and lists of
 * hosts are left to libpq. */
static const char *
host_to_resolve(const PQconninfoOption *options)
{
	const char *host = option_value(options, "host");

	if (host == NULL)
		host = getenv("PGHOST");
	if (option_value(options, "hostaddr") != NULL || getenv("PGHOSTADDR") != NULL)
		return NULL;
	if (host == NULL || host[0] == '\0' || host[0] == '/' || host[0] == '@' ||
		strchr(host, ',') != NULL)
		return NULL;
	return host;
}

static void
add_param(cb_target_plan *plan, const char *keyword, const char *value)
{
	plan->params.keyword[plan->nparams] = cb_strdup(keyword);
	plan->params.value[plan->nparams++] = cb_strdup(value);
}

/* libpq's arrays, with the address added. */
bool
cb_target_resolve(const cb_target *target, cb_target_plan *plan,
				  double default_timeout_s, cb_cause *cause)
{
	PQconninfoOption *options = PQconninfoParse(target->conninfo, NULL);
	const char *host = host_to_resolve(options);
	const char *timeout = option_value(options, "connect_timeout");
	char	   *address = NULL;
	int			max = 3;

	for (PQconninfoOption *o = options; o->keyword != NULL; o++)
		max++;
	memset(plan, 0, sizeof(*plan));
	plan->params.keyword = cb_alloc(sizeof(char *) * (unsigned long) max);
	plan->params.value = cb_alloc(sizeof(char *) * (unsigned long) max);
	for (PQconninfoOption *o = options; o->keyword != NULL; o++)
	{
		if (o->val != NULL)
			add_param(plan, o->keyword, o->val);
	}
	/* before PGAPPNAME, which would give all targets the same name */
	if (option_value(options, "application_name") == NULL)
	{
		char	   *name = cb_format("connbench %s", target->name);

		add_param(plan, "application_name", name);
		free(name);
	}
	plan->connect_timeout_s = timeout != NULL && atof(timeout) > 0 ?
		atof(timeout) : default_timeout_s;
	plan->resolved = host != NULL;
	if (host != NULL && (address = resolve(host, cause)) != NULL)
		add_param(plan, "hostaddr", address);
	PQconninfoFree(options);
	free(address);
	return !plan->resolved || address != NULL;
}

void
cb_target_plan_free(cb_target_plan *plan)
{
	for (int i = 0; i < plan->nparams; i++)
	{
		free((char *) plan->params.keyword[i]);
		free((char *) plan->params.value[i]);
	}
	free(plan->params.keyword);
	free(plan->params.value);
}

/* ------------------------------------------------------------------------
 * What the target is
 * ------------------------------------------------------------------------
 */

/* One value as a malloc'd string; NULL if there is none, or on an error. */
static char *
query_value(PGconn *conn, const char *sql)
{
	PGresult   *res = PQexec(conn, sql);
	char	   *value = NULL;

	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1 &&
		!PQgetisnull(res, 0, 0))
		value = cb_strdup(PQgetvalue(res, 0, 0));
	PQclear(res);
	return value;
}

static long long
query_number(PGconn *conn, const char *sql, long long otherwise)
{
	char	   *value = query_value(conn, sql);
	long long	number = value != NULL ? strtoll(value, NULL, 10) : otherwise;

	free(value);
	return number;
}

static int
local_port(PGconn *conn)
{
	struct sockaddr_storage address;
	socklen_t	len = sizeof(address);

	if (getsockname(PQsocket(conn), (struct sockaddr *) &address, &len) != 0)
		return -1;
	if (address.ss_family == AF_INET)
		return ntohs(((struct sockaddr_in *) &address)->sin_port);
	if (address.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *) &address)->sin6_port);
	return 0;					/* a Unix socket has none */
}

/*
 * A pooler shows a process number of its own; a proxy that passes bytes on
 * shows the backend's, but the backend sees another peer than us.
 */
static const char *
kind_of(PGconn *conn)
{
	long long	backend = query_number(conn, "SELECT pg_catalog.pg_backend_pid()", -1);
	long long	peer = query_number(conn, "SELECT coalesce(pg_catalog.inet_client_port(), 0)", -1);

	if (backend < 0 || peer < 0)
		return NULL;
	if (backend != PQbackendPID(conn))
		return "pooler";
	return peer == local_port(conn) ? "direct" : "proxy";
}

static const char *
transport_of(PGconn *conn)
{
	if (PQsslInUse(conn))
		return "tls";
	return local_port(conn) == 0 ? "unix" : "tcp";
}

/*
 * Without TLS the server's request was seen.  On a Unix socket no request may
 * mean peer as well as trust.  Under TLS the server tells, where its backend
 * is ours and the extension is there.
 */
static char *
auth_method_of(const cb_connect *connect, const cb_target *target)
{
	if (connect->auth_method != NULL &&
		(strcmp(connect->auth_method, "trust") != 0 || strcmp(target->transport, "unix") != 0))
		return cb_strdup(connect->auth_method);
	if (target->kind == NULL || strcmp(target->kind, "pooler") == 0)
		return NULL;
	return query_value(connect->conn,
					   "SELECT auth_method FROM connbench.recent_connections WHERE pid = pg_backend_pid()");
}

static bool
check_tables(PGconn *conn, const cb_target *target, cb_target_plan *plan)
{
	long long	scale = query_number(conn, "SELECT pg_catalog.count(*) FROM pgbench_branches", -1);
	long long	tables = query_number(conn,
									  "SELECT pg_catalog.count(*) FROM (VALUES ('pgbench_accounts'), ('pgbench_tellers'),"
									  " ('pgbench_branches'), ('pgbench_history')) AS t (name)"
									  " WHERE pg_catalog.to_regclass(name) IS NOT NULL", 4);

	if (scale > 0 && tables == 4)
	{
		plan->scale = (int) scale;
		return true;
	}
	cb_error("target \"%s\": pgbench's tables are missing or empty", target->name);
	cb_hint("Fill them with: pgbench -i -s 10 \"%s\"", target->conninfo_shown);
	return false;
}

static bool
examine(cb_connect *connect, cb_target *target, cb_target_plan *plan)
{
	PGconn	   *conn = connect->conn;
	char	   *identifier;

	target->application_name = cb_strdup(PQparameterStatus(conn, "application_name") != NULL ?
										 PQparameterStatus(conn, "application_name") : "");
	target->transport = transport_of(conn);
	target->kind = kind_of(conn);
	target->auth_method = auth_method_of(connect, target);
	target->server_version = PQparameterStatus(conn, "server_version") != NULL ?
		cb_strdup(PQparameterStatus(conn, "server_version")) : NULL;
	identifier = query_value(conn, "SELECT system_identifier FROM pg_catalog.pg_control_system()");
	target->system_identifier = identifier != NULL ? strtoull(identifier, NULL, 10) : 0;
	free(identifier);
	return check_tables(conn, target, plan);
}

static void
discard_notice(void *arg, const PGresult *res)
{
	(void) arg;
	(void) res;
}

bool
cb_target_preflight(cb_target *target, cb_target_plan *plan, double default_timeout_s)
{
	cb_connect	connect = {.look_at_auth = true};
	bool		ok;

	if (!cb_target_resolve(target, plan, default_timeout_s, &connect.cause))
	{
		cb_error("target \"%s\": %s", target->name, connect.cause.message);
		return false;
	}
	ok = cb_connect_and_wait(&connect, &plan->params, plan->connect_timeout_s);
	if (!ok)
	{
		cb_error("target \"%s\": could not connect: %s", target->name, connect.cause.message);
		cb_detail("It failed in phase \"%s\", class \"%s\".",
				  cb_connect_phase_name(&connect), connect.cause.failure_class);
	}
	else
	{
		PQsetNoticeReceiver(connect.conn, discard_notice, NULL);
		ok = examine(&connect, target, plan);
	}
	(void) cb_connect_close(&connect);
	return ok;
}

/* ------------------------------------------------------------------------
 * Are they alike?
 * ------------------------------------------------------------------------
 */

static bool
differ(const char *a, const char *b)
{
	return a != NULL && b != NULL && strcmp(a, b) != 0;
}

/* Why b cannot be compared with a, malloc'd; NULL if it can. */
static char *
unlikeness(const cb_target *a, const cb_target_plan *plan_a,
		   const cb_target *b, const cb_target_plan *plan_b)
{
	if (differ(a->transport, b->transport))
		return cb_format("transport %s against %s", a->transport, b->transport);
	if (differ(a->auth_method, b->auth_method))
		return cb_format("authentication %s against %s", a->auth_method, b->auth_method);
	if (a->system_identifier != 0 && b->system_identifier != 0 &&
		a->system_identifier != b->system_identifier)
		return cb_strdup("another server");
	if (plan_a->scale != plan_b->scale)
		return cb_format("pgbench scale %d against %d", plan_a->scale, plan_b->scale);
	return NULL;
}

/*
 * The server's sessions are told apart by application_name; a name that two
 * targets share, or that a pooler does not pass on, tells nothing.
 */
static void
forget_shared_names(cb_target *target, int ntargets)
{
	bool		useless[CB_MAX_TARGETS];

	for (int i = 0; i < ntargets; i++)
	{
		useless[i] = target[i].application_name[0] == '\0';
		for (int j = 0; j < ntargets; j++)
		{
			if (j != i && strcmp(target[i].application_name, target[j].application_name) == 0)
				useless[i] = true;
		}
	}
	for (int i = 0; i < ntargets; i++)
	{
		if (useless[i])
			target[i].application_name = NULL;
	}
}

void
cb_targets_compare(cb_target *target, const cb_target_plan *plan, int ntargets,
				   bool unlike_is_the_question)
{
	forget_shared_names(target, ntargets);
	for (int i = 1; i < ntargets; i++)
	{
		char	   *why = unlikeness(&target[0], &plan[0], &target[i], &plan[i]);

		if (why == NULL)
			continue;
		if (unlike_is_the_question)
		{
			free(why);
			continue;
		}
		target[i].not_comparable = why;
		cb_warning("targets \"%s\" and \"%s\" are not comparable: %s",
				   target[0].name, target[i].name, why);
		cb_hint("Make them alike (for example sslmode=disable gssencmode=disable on both), or say --compare-unlike if this difference is the question.");
	}
}
