/*
 * connection.h
 *		One asynchronous connection attempt, with a clock on each phase.
 */
#ifndef CONNBENCH_CONNECTION_H
#define CONNBENCH_CONNECTION_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "failure.h"
#include "results.h"

/* Parameters for libpq: names resolved, ready to be used again and again. */
typedef struct cb_conn_params
{
	const char **keyword;
	const char **value;
} cb_conn_params;

typedef enum cb_connect_status
{
	CB_CONNECT_READING,			/* wait until the socket can be read */
	CB_CONNECT_WRITING,			/* ... or written */
	CB_CONNECT_DONE,
	CB_CONNECT_FAILED			/* see cause; call cb_connect_close() */
} cb_connect_status;

typedef struct cb_connect
{
	PGconn	   *conn;
	uint64_t	start_ns;
	uint64_t	end_ns;			/* set when done or failed */
	uint64_t	phase_start_ns;
	cb_measure	phase;			/* CB_MEASURE_TCP .. CB_MEASURE_READY */
	int			answers;		/* server messages seen after the startup packet */
	uint64_t	phase_ns[CB_MEASURE_COUNT];	/* 0: phase did not happen */
	bool		look_at_auth;	/* find out auth_method; costs a system call */
	const char *auth_method;	/* what the server asked for; NULL: not seen */
	cb_cause	cause;
} cb_connect;

/* Name of the phase an attempt is in, for failures. */
extern const char *cb_connect_phase_name(const cb_connect *c);

/* Begins; the clock starts before libpq does anything. */
extern cb_connect_status cb_connect_start(cb_connect *c, const cb_conn_params *params);

/* The socket, which may be another one after each step, is ready. */
extern cb_connect_status cb_connect_step(cb_connect *c);

/* Closes the connection, if there is one; returns how long that took, in ns. */
extern uint64_t cb_connect_close(cb_connect *c);

/* Connects and waits, for what is done outside of rounds: false and a cause
 * if that fails or takes longer. */
extern bool cb_connect_and_wait(cb_connect *c, const cb_conn_params *params,
								double timeout_s);

#endif							/* CONNBENCH_CONNECTION_H */
