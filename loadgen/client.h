/*
 * client.h
 *		One client of the load and the thread it belongs to; see client.c.
 */
#ifndef CONNBENCH_CLIENT_H
#define CONNBENCH_CLIENT_H

#include <stdatomic.h>

#include "engine.h"
#include "failure.h"

typedef enum cb_stage
{
	CB_STAGE_CONNECT,			/* persistent: clients connect, no requests */
	CB_STAGE_RUN,				/* requests until measure_end_ns */
	CB_STAGE_STOP				/* give up what is in flight */
} cb_stage;

/* Shared by the threads of a round; written by the main thread. */
typedef struct cb_control
{
	const cb_round_plan *plan;
	atomic_int	stage;
	/* valid from CB_STAGE_RUN on; the end may move forward on an interrupt */
	uint64_t	measure_start_ns;
	_Atomic uint64_t measure_end_ns;
} cb_control;

typedef enum cb_client_state
{
	CB_CLIENT_IDLE,				/* no request: before the run, or it is over */
	CB_CLIENT_CONNECTING,
	CB_CLIENT_QUERYING,
	CB_CLIENT_ROLLING_BACK,		/* after a failed transaction */
	CB_CLIENT_BACKOFF,			/* until deadline_ns, then the next request */
	CB_CLIENT_FINISHED			/* the run is over for it */
} cb_client_state;

struct cb_worker;

typedef struct cb_client
{
	struct cb_worker *worker;
	cb_client_state state;
	cb_connect	connect;		/* .conn is the connection, once it is there */
	uint32_t	events;			/* what epoll watches for */
	cb_transaction transaction;
	cb_random	random;
	bool		in_request;
	bool		request_counts; /* it began inside the window */
	bool		connect_counts;
	uint64_t	request_start_ns;
	uint64_t	transaction_start_ns;
	uint64_t	deadline_ns;	/* of connecting or of the backoff; 0: none */
	uint64_t	backoff_ns;
	bool		command_failed; /* cause holds why */
	cb_cause	cause;
} cb_client;

/* A thread with its clients; everything but "live_..." is its own. */
typedef struct cb_worker
{
	cb_control *control;
	int			epoll_fd;
	int			wake_fd;		/* the main thread has changed the stage */
	int			nclients;
	cb_client  *client;
	int			unfinished;		/* clients */
	uint64_t	last_done_ns;	/* when the last counted request ended */

	int64_t		attempted;
	int64_t		succeeded;
	int64_t		failed;
	int64_t		abandoned;
	int64_t		warmup_requests;
	int64_t		connects_attempted;
	int64_t		connects_failed;
	cb_failures failures;
	cb_histogram measure[CB_MEASURE_COUNT];

	/* read by the main thread while the round goes on */
	_Atomic int64_t live_succeeded;
	_Atomic int64_t live_failed;
	atomic_int	live_unsettled; /* clients whose first connection is pending */
	atomic_bool live_finished;
} cb_worker;

/* Opens a client's first connection, in CB_STAGE_CONNECT. */
extern void cb_client_connect_first(cb_client *c);

/* Sets out for the next request, or finishes if the window is over. */
extern void cb_client_next_request(cb_client *c);

/* epoll reports these events for the client's socket. */
extern void cb_client_on_event(cb_client *c, uint32_t events);

/* Something may be due: a deadline, the end of a backoff or of the window. */
extern void cb_client_on_time(cb_client *c, uint64_t now_ns);

/* Gives up the request in flight, if there is one. */
extern void cb_client_abandon(cb_client *c);

extern void cb_client_close(cb_client *c);

#endif							/* CONNBENCH_CLIENT_H */
