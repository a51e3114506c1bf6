/*
 * results.h
 *		What a run is made of and what came out of each round: the boundary
 *		between the engine, which fills these in, and their two readers, the
 *		table on the terminal (report.c) and the results database (store.c).
 *
 * Everything here is plain data of the main thread.  A number that was not
 * measured is CB_UNKNOWN and becomes NULL, never 0.
 */
#ifndef CONNBENCH_RESULTS_H
#define CONNBENCH_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/histogram.h"

#define CB_UNKNOWN	INT64_C(-1)

/*
 * What is measured of a request and of a connection, all as nanoseconds.
 * "connect" runs from PQconnectStart to the connection being usable and is
 * the sum of the phases from CB_MEASURE_TCP to CB_MEASURE_READY plus the CPU
 * of libpq's start; "latency" is the whole request (for per-transaction:
 * connect + transaction + close); "transaction" its first query sent to its
 * last result.
 */
typedef enum cb_measure
{
	CB_MEASURE_LATENCY,
	CB_MEASURE_LATENCY_FAILED,	/* requests that failed: start to failure */
	CB_MEASURE_CONNECT,
	CB_MEASURE_TRANSACTION,
	CB_MEASURE_CLOSE,
	CB_MEASURE_TCP,
	CB_MEASURE_NEGOTIATE,
	CB_MEASURE_TLS,
	CB_MEASURE_STARTUP,			/* startup packet sent to server's first byte */
	CB_MEASURE_AUTH,
	CB_MEASURE_READY,
	CB_MEASURE_COUNT
} cb_measure;

/* SQL name of a measure, for example "latency" */
extern const char *cb_measure_name(cb_measure m);

/* One kind of failure in one round. */
typedef struct cb_failure
{
	const char *failure_class;	/* "refused", "rejected", "timeout", ... */
	char		sqlstate[6];	/* "" when the server gave none */
	int			sys_errno;		/* 0 when there was none */
	const char *phase;			/* client phase it happened in */
	int64_t		count;
	char	   *first_message;	/* one line, no secrets */
} cb_failure;

#define CB_MAX_TARGETS	32

/* What the user asked to compare; facts are found out before any load. */
typedef struct cb_target
{
	char	   *name;
	char	   *conninfo;		/* as given; never printed */
	char	   *conninfo_shown; /* without secrets */
	const char *kind;			/* direct, proxy, pooler, or NULL: unknown */
	const char *transport;		/* unix, tcp, tls */
	const char *application_name;	/* of its sessions; NULL: shared with another
									 * target, so they cannot be told apart */
	char	   *auth_method;	/* trust, password, md5, scram-sha-256, ...;
								 * NULL when the client cannot know */
	char	   *server_version; /* server_version of the target, or NULL */
	uint64_t	system_identifier;	/* 0: unknown */
	char	   *not_comparable; /* NULL, or why it is unlike the first target */
} cb_target;

typedef enum cb_mode
{
	CB_MODE_PERSISTENT,
	CB_MODE_PER_TRANSACTION
} cb_mode;

extern const char *cb_mode_name(cb_mode mode);	/* "per-transaction" */

typedef struct cb_scenario
{
	int			target;			/* index into run->target */
	cb_mode		mode;
	int			clients;
	int64_t		db_id;			/* for store.c */
} cb_scenario;

typedef struct cb_run
{
	char		uuid[37];		/* made by the generator; import is idempotent */
	int64_t		started_at_us;	/* Unix epoch, microseconds */
	int64_t		finished_at_us; /* CB_UNKNOWN while running */
	uint64_t	seed;
	char	   *command_line;	/* without secrets */
	char	   *workload;		/* tpcb-like, simple-update, select-only */
	char	   *protocol;		/* simple, extended, prepared */
	int			threads;
	int			scale;			/* pgbench scale found */
	double		duration_s;
	double		warmup_s;
	int			rounds;
	bool		complete;		/* every planned round was done in full */
	bool		unlike_is_the_question; /* --compare-unlike */
	char	   *server_note;	/* why server-side columns are NULL, or NULL */
	char	   *server_version; /* of the server observed, or NULL */
	char	   *server_settings;	/* its non-default settings as JSON, or NULL */
	uint64_t	system_identifier;	/* of the server observed; 0: unknown */

	int			ntargets;
	cb_target  *target;
	int			nscenarios;
	cb_scenario *scenario;
	int64_t		db_id;			/* for store.c */
} cb_run;

/* One timed repetition of one scenario. */
typedef struct cb_round
{
	int			scenario;		/* index into run->scenario */
	int			round_no;		/* 1 .. rounds, within the scenario */
	int			order_no;		/* 1 .. over all rounds of the run */
	int64_t		started_at_us;
	uint64_t	window_ns;		/* measured time: tps = succeeded / window */
	int64_t		initial_connect_ns; /* until all clients were connected;
									 * CB_UNKNOWN for per-transaction */
	int64_t		attempted;
	int64_t		succeeded;
	int64_t		failed;
	int64_t		abandoned;		/* attempted = the other three added up */
	int64_t		warmup_requests;	/* begun before the window: not counted */
	int64_t		connects_attempted;
	int64_t		connects_failed;
	int64_t		cpu_user_us;	/* the generator's own, in the window */
	int64_t		cpu_system_us;

	/* seen on the server during the window; the observers' own sessions are
	 * not counted */
	int64_t		client_backends_max;	/* whosever */
	double		client_backends_avg;	/* < 0: unknown */
	int64_t		target_backends_max;	/* with the target's application_name */
	int64_t		processes_max;	/* all server processes, postmaster included */
	int64_t		samples;		/* how many looks these rest on */
	char	   *snapshot_before;	/* connbench.snapshot() as JSON, or NULL */
	char	   *snapshot_after;

	bool		partial;		/* interrupted: kept, but marked */
	bool		server_restarted;	/* postmaster start time changed meanwhile */

	int			nfailures;
	cb_failure *failure;
	cb_histogram measure[CB_MEASURE_COUNT];
} cb_round;

#endif							/* CONNBENCH_RESULTS_H */
