/*
 * connection.c
 *		The phases of a connection, from its marks.
 *
 * Pure arithmetic, in any process.
 */
#include "postgres.h"

#include "ledger.h"

const char *
cb_phase_name(cb_phase phase)
{
	static const char *const names[CB_PHASE_COUNT] = {
		[CB_PHASE_ACCEPT_WAIT] = "accept_wait",
		[CB_PHASE_FORK] = "fork",
		[CB_PHASE_STARTUP] = "startup",
		[CB_PHASE_TLS] = "tls",
		[CB_PHASE_NEGOTIATION] = "negotiation",
		[CB_PHASE_AUTH] = "auth",
		[CB_PHASE_INIT] = "init",
		[CB_PHASE_TOTAL] = "total",
		[CB_PHASE_READY] = "ready",
		[CB_PHASE_LOGIN_TRIGGER] = "login_trigger",
		[CB_PHASE_FIRST_QUERY] = "first_query",
		[CB_PHASE_SESSION] = "session",
		[CB_PHASE_COLD] = "cold",
	};

	return names[phase];
}

static uint64
between(uint64 from_ns, uint64 to_ns)
{
	if (from_ns == CB_NOT_MEASURED || to_ns == CB_NOT_MEASURED)
		return CB_NOT_MEASURED;
	return to_ns - from_ns;
}

uint64
cb_connection_phase(const cb_connection *c, cb_phase phase)
{
	switch (phase)
	{
		case CB_PHASE_ACCEPT_WAIT:
			return c->accept_wait_ns;
		case CB_PHASE_FORK:
			return between(c->fork_start_ns, c->child_start_ns);
		case CB_PHASE_STARTUP:
			return between(c->child_start_ns, c->auth_end_ns);
		case CB_PHASE_TLS:
			return between(c->tls_start_ns, c->tls_end_ns);
		case CB_PHASE_NEGOTIATION:
			return c->negotiation_ns;
		case CB_PHASE_AUTH:
			return between(c->auth_start_ns, c->auth_end_ns);
		case CB_PHASE_INIT:
			return between(c->auth_end_ns, c->init_end_ns);
		case CB_PHASE_TOTAL:
			return between(c->fork_start_ns, c->init_end_ns);
		case CB_PHASE_READY:
			return between(c->init_end_ns, c->ready_ns);
		case CB_PHASE_LOGIN_TRIGGER:
			return between(c->init_end_ns, c->login_trigger_end_ns);
		case CB_PHASE_FIRST_QUERY:
			return between(c->first_query_start_ns, c->first_query_end_ns);
		case CB_PHASE_SESSION:
			return between(c->init_end_ns, c->exit_ns);
		case CB_PHASE_COLD:
			return c->cold ? between(c->fork_start_ns, c->init_end_ns) : CB_NOT_MEASURED;
		case CB_PHASE_COUNT:
			break;
	}
	return CB_NOT_MEASURED;
}
