/*
 * connection.c
 *		Takes one connection from PQconnectStart to ready, phase by phase.
 *
 * Runs in the engine's threads and, before any load, in the main thread.  It
 * must not block: names are resolved before, and libpq is polled.
 *
 * Phases follow one another without a gap, so they add up to the whole.  A
 * phase ends when the event that the client waited for is there, before libpq
 * gets to see it; what libpq then computes (a SCRAM proof takes milliseconds)
 * belongs to the phase that follows.
 *
 *		tcp			libpq's start, until the connection is established
 *		negotiate	SSL or GSS request sent, until the server's answer
 *		tls			the handshake
 *		startup		startup packet sent, until the server's first answer
 *		auth		further answers but the last
 *		ready		the last answer, if there was more than one
 *
 * Without a password the server's first answer is also its last: then there is
 * no auth and no ready.
 */
#include "connection.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "../common/clock.h"

const char *
cb_measure_name(cb_measure m)
{
	static const char *const names[CB_MEASURE_COUNT] = {
		[CB_MEASURE_LATENCY] = "latency",
		[CB_MEASURE_LATENCY_FAILED] = "latency_failed",
		[CB_MEASURE_CONNECT] = "connect",
		[CB_MEASURE_TRANSACTION] = "transaction",
		[CB_MEASURE_CLOSE] = "close",
		[CB_MEASURE_TCP] = "tcp",
		[CB_MEASURE_NEGOTIATE] = "negotiate",
		[CB_MEASURE_TLS] = "tls",
		[CB_MEASURE_STARTUP] = "startup",
		[CB_MEASURE_AUTH] = "auth",
		[CB_MEASURE_READY] = "ready",
	};

	return names[m];
}

const char *
cb_connect_phase_name(const cb_connect *c)
{
	return cb_measure_name(c->phase);
}

/* ------------------------------------------------------------------------
 * Phases
 * ------------------------------------------------------------------------
 */

static void
end_phase(cb_connect *c, uint64_t now_ns, cb_measure next)
{
	c->phase_ns[c->phase] += now_ns - c->phase_start_ns;
	c->phase_start_ns = now_ns;
	c->phase = next;
}

/*
 * An answer has come while we waited for the server.  Which answer is the last
 * is known only when the connection is ready, so the latest wait stands under
 * "ready" and moves to "auth" when another follows.
 */
static void
note_answer(cb_connect *c, uint64_t now_ns)
{
	c->phase_ns[CB_MEASURE_AUTH] += c->phase_ns[CB_MEASURE_READY];
	c->phase_ns[CB_MEASURE_READY] = 0;
	end_phase(c, now_ns, CB_MEASURE_READY);
	c->answers++;
}

/* The phase that libpq's status after a step means we are waiting in. */
static cb_measure
phase_of_status(const cb_connect *c)
{
	switch (PQstatus(c->conn))
	{
		case CONNECTION_STARTED:
			return CB_MEASURE_TCP;
		case CONNECTION_MADE:
			/* about to send: still what came before */
			return c->phase;
		case CONNECTION_SSL_STARTUP:
		case CONNECTION_GSS_STARTUP:
			return c->phase == CB_MEASURE_TCP ? CB_MEASURE_NEGOTIATE : CB_MEASURE_TLS;
		case CONNECTION_AWAITING_RESPONSE:
			return c->answers == 0 ? CB_MEASURE_STARTUP : CB_MEASURE_READY;
		default:
			/* states that libpq may add come after authentication began */
			return c->answers == 0 ? c->phase : CB_MEASURE_READY;
	}
}

/* ------------------------------------------------------------------------
 * What the server asks for
 * ------------------------------------------------------------------------
 */

/*
 * The first authentication message lies in the socket, unread: 'R', length,
 * code, and for SASL the names of the mechanisms.
 */
static void
look_at_auth_request(cb_connect *c)
{
	unsigned char buf[64];
	ssize_t		len;

	if (PQsslInUse(c->conn))
		return;
	len = recv(PQsocket(c->conn), buf, sizeof(buf) - 1, MSG_PEEK | MSG_DONTWAIT);
	if (len < 9 || buf[0] != 'R')
		return;
	buf[len] = '\0';
	switch (buf[8])
	{
		case 0:
			c->auth_method = "trust";
			break;
		case 3:
			c->auth_method = "password";
			break;
		case 5:
			c->auth_method = "md5";
			break;
		case 7:
			c->auth_method = "gss";
			break;
		case 10:
			c->auth_method = strncmp((char *) buf + 9, "SCRAM-SHA-256", 13) == 0 ?
				"scram-sha-256" : "sasl";
			break;
		default:
			break;
	}
}

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------
 */

static cb_connect_status
fail(cb_connect *c)
{
	c->end_ns = cb_now_ns();
	end_phase(c, c->end_ns, c->phase);
	cb_cause_of_connection(&c->cause, PQerrorMessage(c->conn), c->phase);
	return CB_CONNECT_FAILED;
}

cb_connect_status
cb_connect_start(cb_connect *c, const cb_conn_params *params)
{
	bool		look_at_auth = c->look_at_auth;

	memset(c, 0, sizeof(*c));
	c->look_at_auth = look_at_auth;
	c->start_ns = c->phase_start_ns = cb_now_ns();
	c->phase = CB_MEASURE_TCP;
	c->conn = PQconnectStartParams(params->keyword, params->value, 1);
	if (PQstatus(c->conn) == CONNECTION_BAD)
		return fail(c);
	/* so that the message of a refusal holds its SQLSTATE */
	PQsetErrorVerbosity(c->conn, PQERRORS_VERBOSE);
	return CB_CONNECT_WRITING;
}

cb_connect_status
cb_connect_step(cb_connect *c)
{
	uint64_t	now_ns = cb_now_ns();
	bool		was_awaiting = PQstatus(c->conn) == CONNECTION_AWAITING_RESPONSE ||
		c->answers > 0;
	PostgresPollingStatusType polled;

	if (was_awaiting)
	{
		if (c->answers == 0 && c->look_at_auth)
			look_at_auth_request(c);
		note_answer(c, now_ns);
	}
	else
		end_phase(c, now_ns, c->phase);

	polled = PQconnectPoll(c->conn);
	switch (polled)
	{
		case PGRES_POLLING_READING:
		case PGRES_POLLING_WRITING:
			c->phase = phase_of_status(c);
			return polled == PGRES_POLLING_READING ? CB_CONNECT_READING : CB_CONNECT_WRITING;
		case PGRES_POLLING_OK:
			c->end_ns = cb_now_ns();
			/* one answer: it was first and last, and all of it is startup */
			if (c->answers < 2)
				c->phase = CB_MEASURE_STARTUP;
			end_phase(c, c->end_ns, c->phase);
			PQsetErrorVerbosity(c->conn, PQERRORS_DEFAULT);
			return CB_CONNECT_DONE;
		default:
			return fail(c);
	}
}

uint64_t
cb_connect_close(cb_connect *c)
{
	uint64_t	start_ns;

	if (c->conn == NULL)
		return 0;
	start_ns = cb_now_ns();
	PQfinish(c->conn);
	c->conn = NULL;
	return cb_now_ns() - start_ns;
}

bool
cb_connect_and_wait(cb_connect *c, const cb_conn_params *params, double timeout_s)
{
	uint64_t	deadline_ns = cb_now_ns() + (uint64_t) (timeout_s * 1e9);
	cb_connect_status status = cb_connect_start(c, params);

	while (status == CB_CONNECT_READING || status == CB_CONNECT_WRITING)
	{
		struct pollfd pfd = {
			.fd = PQsocket(c->conn),
			.events = status == CB_CONNECT_READING ? POLLIN : POLLOUT,
		};
		int64_t		left_ns = (int64_t) (deadline_ns - cb_now_ns());

		if (left_ns <= 0)
		{
			cb_cause_of_timeout(&c->cause, cb_connect_phase_name(c), timeout_s);
			return false;
		}
		if (poll(&pfd, 1, (int) (left_ns / 1000000) + 1) > 0)
			status = cb_connect_step(c);
	}
	return status == CB_CONNECT_DONE;
}
