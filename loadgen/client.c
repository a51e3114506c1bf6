/*
 * client.c
 *		What one client does: request after request, each of which ends in
 *		exactly one way.
 *
 * Runs in the engine's threads; everything here is event driven and nothing
 * blocks or allocates.
 *
 *		IDLE ──> CONNECTING ──> QUERYING ──> next request ...
 *				     │              │
 *				     └── failed ────┴──> [ROLLING_BACK] ──> BACKOFF ──> next
 *
 * A request counts if it begins inside the window.  It is "attempted" when it
 * begins and then either succeeds (request_succeeded), fails (request_failed)
 * or is given up (cb_client_abandon): these three are the only places that
 * end one.  Getting a connection is a part of the request that needs it.
 */
#include "client.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "../common/clock.h"

#define MIN_BACKOFF_NS	UINT64_C(10000000)
#define MAX_BACKOFF_NS	UINT64_C(1000000000)

static void request_failed(cb_client *c, const cb_cause *cause, const char *phase);

/* ------------------------------------------------------------------------
 * Helpers
 * ------------------------------------------------------------------------
 */

static const cb_round_plan *
plan_of(const cb_client *c)
{
	return c->worker->control->plan;
}

static void
record(cb_client *c, cb_measure measure, uint64_t ns)
{
	cb_histogram_record(&c->worker->measure[measure], ns);
}

/*
 * While connecting, libpq may open another socket at any step, even one with
 * the same number, which epoll would not know: so tell it each time.
 */
static void
watch_socket(cb_client *c, uint32_t events)
{
	struct epoll_event ev = {.events = events,.data.ptr = c};
	int			fd = PQsocket(c->connect.conn);

	c->events = events;
	if (epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_MOD, fd, &ev) != 0 && errno == ENOENT)
		(void) epoll_ctl(c->worker->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* On an established connection the socket stays the same. */
static void
watch_for(cb_client *c, uint32_t events)
{
	if (c->events != events)
		watch_socket(c, events);
}

static void
discard_notice(void *arg, const PGresult *res)
{
	(void) arg;
	(void) res;
}

/* ------------------------------------------------------------------------
 * The end of a request
 * ------------------------------------------------------------------------
 */

static void
end_request(cb_client *c, uint64_t now_ns)
{
	c->in_request = false;
	if (c->request_counts)
		c->worker->last_done_ns = now_ns;
}

static void
request_succeeded(cb_client *c)
{
	cb_worker  *w = c->worker;
	uint64_t	now_ns = cb_now_ns();
	uint64_t	transaction_ns = now_ns - c->transaction_start_ns;

	if (plan_of(c)->mode == CB_MODE_PER_TRANSACTION)
	{
		uint64_t	close_ns = cb_connect_close(&c->connect);

		now_ns += close_ns;
		if (c->request_counts)
			record(c, CB_MEASURE_CLOSE, close_ns);
	}
	if (c->request_counts)
	{
		record(c, CB_MEASURE_TRANSACTION, transaction_ns);
		record(c, CB_MEASURE_LATENCY, now_ns - c->request_start_ns);
		w->succeeded++;
		atomic_store_explicit(&w->live_succeeded, w->succeeded, memory_order_relaxed);
	}
	end_request(c, now_ns);
	c->backoff_ns = 0;
	cb_client_next_request(c);
}

/* Wait longer after each failure in a row; the window's end ends it, too. */
static void
back_off(cb_client *c)
{
	c->backoff_ns = c->backoff_ns == 0 ? MIN_BACKOFF_NS : c->backoff_ns * 2;
	if (c->backoff_ns > MAX_BACKOFF_NS)
		c->backoff_ns = MAX_BACKOFF_NS;
	c->deadline_ns = cb_now_ns() + c->backoff_ns;
	c->state = CB_CLIENT_BACKOFF;
}

/* The connection is of use to the next request only if it is at rest. */
static void
after_failure(cb_client *c)
{
	PGconn	   *conn = c->connect.conn;

	if (conn != NULL && PQstatus(conn) == CONNECTION_OK &&
		plan_of(c)->mode == CB_MODE_PERSISTENT)
	{
		switch (PQtransactionStatus(conn))
		{
			case PQTRANS_INERROR:
			case PQTRANS_INTRANS:
				if (PQsendQuery(conn, "ROLLBACK") == 1 && PQflush(conn) == 0)
				{
					c->state = CB_CLIENT_ROLLING_BACK;
					watch_for(c, EPOLLIN);
					return;
				}
				break;
			case PQTRANS_IDLE:
				back_off(c);
				return;
			default:
				break;
		}
	}
	cb_client_close(c);
	back_off(c);
}

static void
request_failed(cb_client *c, const cb_cause *cause, const char *phase)
{
	cb_worker  *w = c->worker;
	uint64_t	now_ns = cb_now_ns();

	c->command_failed = false;
	if (c->request_counts)
	{
		cb_failures_count(&w->failures, cause, phase, 1);
		record(c, CB_MEASURE_LATENCY_FAILED, now_ns - c->request_start_ns);
		w->failed++;
		atomic_store_explicit(&w->live_failed, w->failed, memory_order_relaxed);
	}
	end_request(c, now_ns);
	after_failure(c);
}

void
cb_client_abandon(cb_client *c)
{
	if (c->in_request && c->request_counts)
		c->worker->abandoned++;
	c->in_request = false;
}

/* ------------------------------------------------------------------------
 * Queries
 * ------------------------------------------------------------------------
 */

static void
query_failed(cb_client *c)
{
	cb_cause	cause;

	cb_cause_of_query(&cause, NULL, c->connect.conn);
	request_failed(c, &cause, "query");
}

static void
send_command(cb_client *c)
{
	const cb_round_plan *plan = plan_of(c);
	PGconn	   *conn = c->connect.conn;
	int			unsent;

	c->state = CB_CLIENT_QUERYING;
	if (!cb_transaction_send(&c->transaction, plan->workload, plan->protocol, conn) ||
		(unsent = PQflush(conn)) < 0)
	{
		query_failed(c);
		return;
	}
	watch_for(c, unsent ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void
begin_transaction(cb_client *c)
{
	c->transaction_start_ns = cb_now_ns();
	send_command(c);
}

/* The command has been answered in full. */
static void
command_done(cb_client *c)
{
	if (c->command_failed)
		request_failed(c, &c->cause, "query");
	else if (cb_transaction_answered(&c->transaction, plan_of(c)->workload))
		request_succeeded(c);
	else
		send_command(c);
}

static void
take_result(cb_client *c, const PGresult *res)
{
	ExecStatusType status = PQresultStatus(res);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && !c->command_failed)
	{
		c->command_failed = true;
		cb_cause_of_query(&c->cause, res, c->connect.conn);
	}
}

/* Takes what has come; returns true when the command is complete. */
static bool
take_results(cb_client *c)
{
	PGconn	   *conn = c->connect.conn;

	while (!PQisBusy(conn))
	{
		PGresult   *res = PQgetResult(conn);

		if (res == NULL)
			return true;
		take_result(c, res);
		PQclear(res);
	}
	return false;
}

static void
on_query_event(cb_client *c, uint32_t events)
{
	PGconn	   *conn = c->connect.conn;

	if (events & EPOLLOUT)
	{
		int			unsent = PQflush(conn);

		if (unsent < 0)
		{
			query_failed(c);
			return;
		}
		watch_for(c, unsent ? EPOLLIN | EPOLLOUT : EPOLLIN);
	}
	if ((events & ~EPOLLOUT) == 0)
		return;
	/* what the server said before it went is still to be read */
	if (PQconsumeInput(conn) == 0 && PQisBusy(conn))
	{
		query_failed(c);
		return;
	}
	if (take_results(c))
		command_done(c);
}

static void
on_rollback_event(cb_client *c)
{
	PGconn	   *conn = c->connect.conn;
	bool		alive = PQconsumeInput(conn) == 1;

	if (alive && !take_results(c))
		return;
	c->command_failed = false;
	if (!alive || PQstatus(conn) != CONNECTION_OK ||
		PQtransactionStatus(conn) != PQTRANS_IDLE)
		cb_client_close(c);
	back_off(c);
}

/* ------------------------------------------------------------------------
 * Connecting
 * ------------------------------------------------------------------------
 */

static void
connection_settled(cb_client *c)
{
	if (!c->in_request)
	{
		c->state = CB_CLIENT_IDLE;
		atomic_fetch_sub(&c->worker->live_unsettled, 1);
	}
}

static void
connected(cb_client *c)
{
	cb_connect *k = &c->connect;

	c->deadline_ns = 0;
	if (c->connect_counts)
	{
		record(c, CB_MEASURE_CONNECT, k->end_ns - k->start_ns);
		for (int m = CB_MEASURE_TCP; m <= CB_MEASURE_READY; m++)
		{
			if (k->phase_ns[m] > 0)
				record(c, m, k->phase_ns[m]);
		}
	}
	(void) PQsetnonblocking(k->conn, 1);
	PQsetNoticeReceiver(k->conn, discard_notice, NULL);
	cb_transaction_new_session(&c->transaction);
	watch_socket(c, EPOLLIN);
	if (c->in_request)
		begin_transaction(c);
	else
		connection_settled(c);
}

static void
connect_failed(cb_client *c, const cb_cause *cause)
{
	const char *phase = cb_connect_phase_name(&c->connect);

	c->deadline_ns = 0;
	if (c->connect_counts)
		c->worker->connects_failed++;
	if (c->in_request)
	{
		request_failed(c, cause, phase);
		return;
	}
	/* a first connection: the first request will try again */
	cb_failures_count(&c->worker->failures, cause, phase, 1);
	cb_client_close(c);
	connection_settled(c);
}

static void
on_connect_status(cb_client *c, cb_connect_status status)
{
	switch (status)
	{
		case CB_CONNECT_READING:
			watch_socket(c, EPOLLIN);
			break;
		case CB_CONNECT_WRITING:
			watch_socket(c, EPOLLOUT);
			break;
		case CB_CONNECT_DONE:
			connected(c);
			break;
		case CB_CONNECT_FAILED:
			{
				cb_cause	cause = c->connect.cause;

				connect_failed(c, &cause);
				break;
			}
	}
}

static void
start_connecting(cb_client *c, bool counts)
{
	const cb_round_plan *plan = plan_of(c);

	c->state = CB_CLIENT_CONNECTING;
	c->connect_counts = counts;
	if (counts)
		c->worker->connects_attempted++;
	c->deadline_ns = cb_now_ns() + (uint64_t) (plan->connect_timeout_s * 1e9);
	on_connect_status(c, cb_connect_start(&c->connect, plan->params));
}

void
cb_client_connect_first(cb_client *c)
{
	start_connecting(c, true);
}

void
cb_client_close(cb_client *c)
{
	(void) cb_connect_close(&c->connect);
	c->events = 0;
}

/* ------------------------------------------------------------------------
 * Requests
 * ------------------------------------------------------------------------
 */

static void
finish(cb_client *c)
{
	c->state = CB_CLIENT_FINISHED;
	c->deadline_ns = 0;
	c->worker->unfinished--;
}

void
cb_client_next_request(cb_client *c)
{
	cb_control *control = c->worker->control;
	uint64_t	now_ns = cb_now_ns();

	if (now_ns >= atomic_load_explicit(&control->measure_end_ns, memory_order_relaxed))
	{
		finish(c);
		return;
	}
	c->in_request = true;
	c->request_start_ns = now_ns;
	c->request_counts = now_ns >= control->measure_start_ns;
	if (c->request_counts)
		c->worker->attempted++;
	else
		c->worker->warmup_requests++;
	c->command_failed = false;
	c->deadline_ns = 0;
	cb_transaction_begin(&c->transaction, &c->random, control->plan->scale);
	if (c->connect.conn == NULL)
		start_connecting(c, c->request_counts);
	else
		begin_transaction(c);
}

void
cb_client_on_event(cb_client *c, uint32_t events)
{
	if (c->connect.conn == NULL)
		return;					/* closed by an event of the same batch */
	switch (c->state)
	{
		case CB_CLIENT_CONNECTING:
			on_connect_status(c, cb_connect_step(&c->connect));
			break;
		case CB_CLIENT_QUERYING:
			on_query_event(c, events);
			break;
		case CB_CLIENT_ROLLING_BACK:
			on_rollback_event(c);
			break;
		case CB_CLIENT_IDLE:
		case CB_CLIENT_BACKOFF:
		case CB_CLIENT_FINISHED:
			/* unasked for: a notice, or the connection has gone */
			if (PQconsumeInput(c->connect.conn) == 0 ||
				PQstatus(c->connect.conn) != CONNECTION_OK)
				cb_client_close(c);
			break;
	}
}

void
cb_client_on_time(cb_client *c, uint64_t now_ns)
{
	const cb_round_plan *plan = plan_of(c);
	cb_cause	cause;

	switch (c->state)
	{
		case CB_CLIENT_CONNECTING:
			if (now_ns < c->deadline_ns)
				break;
			cb_cause_of_timeout(&cause, cb_connect_phase_name(&c->connect),
								plan->connect_timeout_s);
			connect_failed(c, &cause);
			break;
		case CB_CLIENT_BACKOFF:
			if (now_ns >= c->deadline_ns ||
				now_ns >= atomic_load_explicit(&c->worker->control->measure_end_ns,
											   memory_order_relaxed))
				cb_client_next_request(c);
			break;
		default:
			break;
	}
}
