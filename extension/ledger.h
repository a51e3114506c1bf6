/*
 * ledger.h
 *		What connbench keeps in shared memory; see ledger.c for the protocol.
 */
#ifndef CONNBENCH_LEDGER_H
#define CONNBENCH_LEDGER_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "storage/proc.h"

#include "../common/histogram.h"

/* a duration or mark that was not, or cannot be, taken */
#define CB_NOT_MEASURED		UINT64_MAX

/*
 * Phases of a connection.  FORK + STARTUP + INIT = TOTAL.  TLS, NEGOTIATION
 * and AUTH lie inside STARTUP; ACCEPT_WAIT before TOTAL, those from READY on
 * after.  A connection that had to rebuild its database's relation cache file
 * is cold: in the histograms it counts as COLD, and in no phase up to TOTAL, so
 * that these tell of the ordinary connection.
 */
typedef enum cb_phase
{
	CB_PHASE_ACCEPT_WAIT,		/* accepted to fork (18 and later) */
	CB_PHASE_FORK,				/* fork_start to child_start */
	CB_PHASE_STARTUP,			/* child_start to auth_end */
	CB_PHASE_TLS,				/* first to last message of the handshake */
	CB_PHASE_NEGOTIATION,		/* forked to auth_start (18 and later) */
	CB_PHASE_AUTH,				/* auth_start to auth_end (18 and later) */
	CB_PHASE_INIT,				/* auth_end to init_end */
	CB_PHASE_TOTAL,				/* fork_start to init_end */
	CB_PHASE_READY,				/* init_end to ready for query (18+, if logged) */
	CB_PHASE_LOGIN_TRIGGER,		/* init_end to the triggers' commit (17+) */
	CB_PHASE_FIRST_QUERY,		/* its message read to its last row sent */
	CB_PHASE_SESSION,			/* init_end to exit */
	CB_PHASE_COLD,				/* TOTAL of a cold connection */
	CB_PHASE_COUNT
} cb_phase;

typedef enum cb_transport
{
	CB_TRANSPORT_UNIX,
	CB_TRANSPORT_TCP,
	CB_TRANSPORT_TLS,
	CB_TRANSPORT_GSS
} cb_transport;

typedef enum cb_backend_kind
{
	CB_KIND_CLIENT,
	CB_KIND_WALSENDER,
	CB_KIND_COUNT
} cb_backend_kind;

/* How a session ended, as pg_stat_database tells it apart. */
typedef enum cb_session_end
{
	CB_END_NORMAL,
	CB_END_CLIENT_LOST,
	CB_END_FATAL,
	CB_END_KILLED,
	CB_END_COUNT
} cb_session_end;

/* How far a connection had come when it was rejected. */
typedef enum cb_reject_phase
{
	CB_REJECT_STARTUP,			/* startup packet, TLS, no slot */
	CB_REJECT_AUTHENTICATION,
	CB_REJECT_INIT,				/* after authentication */
	CB_REJECT_LOGIN_TRIGGER		/* after it was ready, by a login trigger */
} cb_reject_phase;

/* Tells apart what PostgreSQL reports under one SQLSTATE. */
typedef enum cb_reject_reason
{
	CB_REASON_OTHER,
	CB_REASON_SLOTS,
	CB_REASON_RESERVED_SLOTS,
	CB_REASON_ROLE_LIMIT,
	CB_REASON_DATABASE_LIMIT,
	CB_REASON_WALSENDER_LIMIT,
	CB_REASON_TIMEOUT			/* authentication_timeout */
} cb_reject_reason;

/*
 * Where a client was that left early: before it was authenticated, and without
 * a FATAL error.
 */
typedef enum cb_leave_stage
{
	CB_LEFT_SILENTLY,			/* sent nothing: a port scan, a TCP health check */
	CB_LEFT_STARTUP_PACKET,		/* broken off, or not of this protocol */
	CB_LEFT_NEGOTIATION,		/* asked for TLS or GSS and got no further */
	CB_LEFT_CANCEL,				/* no client at all: a cancel request */
	CB_LEFT_AUTHENTICATION,		/* gave up, mostly at the password prompt, or gone */
	CB_LEFT_UNLOGGED,			/* turned away by an error that was not logged */
	CB_LEFT_COUNT
} cb_leave_stage;

/* What the postmaster forks children for. */
typedef enum cb_child_kind
{
	CB_CHILD_CLIENT,			/* whatever became of it; walsenders, too */
	CB_CHILD_PARALLEL_WORKER,
	CB_CHILD_AUTOVACUUM,
	CB_CHILD_BACKGROUND_WORKER,
	CB_CHILD_IO_WORKER,
	CB_CHILD_AUXILIARY,
	CB_CHILD_KINDS
} cb_child_kind;

#define CB_ADDRESS_LEN	48		/* INET6_ADDRSTRLEN, rounded up */

/* Compared as bytes: no padding, unused bytes zero. */
typedef struct cb_key
{
	Oid			database;		/* InvalidOid for a physical walsender */
	Oid			role;
	uint8		transport;		/* cb_transport */
	uint8		kind;			/* cb_backend_kind */
	uint8		auth_method;	/* UserAuth of this server version */
	uint8		unused;
	/* empty unless connbench.track_application_name, track_client_address */
	char		application_name[NAMEDATALEN];
	char		client_address[CB_ADDRESS_LEN];
} cb_key;

/* All that is known of one connection; filled in by timeline.c. */
typedef struct cb_connection
{
	cb_key		key;
	NameData	database_name;
	NameData	role_name;
	char		application_name[NAMEDATALEN];
	char		client_address[CB_ADDRESS_LEN]; /* empty on a Unix socket */
	int			pid;
	TimestampTz started_at;		/* wall clock of fork_start (or child_start) */
	uint64		fork_start_ns;	/* marks, CLOCK_MONOTONIC; CB_NOT_MEASURED */
	uint64		child_start_ns;
	uint64		tls_start_ns;
	uint64		tls_end_ns;
	uint64		auth_end_ns;
	uint64		init_end_ns;
	uint64		login_trigger_end_ns;
	uint64		first_query_start_ns;
	uint64		first_query_end_ns;
	uint64		exit_ns;
	uint64		accept_wait_ns; /* durations by core's own wall clock marks */
	uint64		negotiation_ns;
	uint64		auth_start_ns;	/* core's marks, on our clock */
	uint64		ready_ns;
	uint64		cpu_user_us;	/* of the backend, up to init_end */
	uint64		cpu_system_us;
	uint64		minor_faults;
	uint64		context_switches;
	bool		cold;
	int			session_end;	/* cb_session_end, valid with exit_ns */
} cb_connection;

/*
 * The postmaster's own account of its forks, of every kind of child.  Kept in
 * its local memory, published by children; absolute since server start.
 */
typedef struct cb_fork_account
{
	uint64		forks;			/* begun, whatever became of them */
	uint64		failed;			/* that made no child */
	cb_histogram blocked;		/* how long each kept the postmaster busy */
} cb_fork_account;

/* What became of the forks since the reset. */
typedef struct cb_children
{
	uint64		clients;		/* that told of themselves */
	uint64		ended[CB_CHILD_KINDS];	/* of the other kinds */
	uint64		alive_at_reset[CB_CHILD_KINDS];
} cb_children;

/* One key of the ledger, as read by the SQL functions. */
typedef struct cb_ledger_row
{
	bool		in_use;
	bool		is_other;		/* all keys beyond connbench.max_keys */
	cb_key		key;
	NameData	database_name;
	NameData	role_name;
	uint64		connections;
	uint64		sessions_ended[CB_END_COUNT];
	uint64		cpu_user_us;
	uint64		cpu_system_us;
	uint64		minor_faults;
	uint64		context_switches;
	cb_histogram phase[CB_PHASE_COUNT];
} cb_ledger_row;

typedef struct cb_rejection
{
	int			sqlstate;		/* as errcode(); 0: the overflow row */
	cb_reject_phase phase;
	cb_reject_reason reason;
	uint64		count;
	TimestampTz last_at;
} cb_rejection;

#define CB_MAX_REJECTIONS	64	/* kinds told apart, the overflow row included */

/* One of the newest rejections; what was not known yet is empty. */
typedef struct cb_rejection_detail
{
	TimestampTz at;
	int			pid;
	int			sqlstate;
	cb_reject_phase phase;
	cb_reject_reason reason;
	char		database_name[NAMEDATALEN]; /* as asked for */
	char		role_name[NAMEDATALEN];
	char		application_name[NAMEDATALEN];
	char		client_address[CB_ADDRESS_LEN];
} cb_rejection_detail;

#define CB_MAX_REJECTION_DETAILS	128

typedef struct cb_leavers
{
	uint64		count[CB_LEFT_COUNT];
	TimestampTz last_at[CB_LEFT_COUNT];
} cb_leavers;

/* What statfile.c keeps besides the rows: everything that a reset clears. */
typedef struct cb_ledger_image
{
	TimestampTz stats_since;
	uint64		connections;
	uint64		connected_max;
	TimestampTz connected_max_at;
	cb_fork_account forks;
	cb_children children;
	cb_leavers	leavers;
	int			nrejections;
	cb_rejection rejections[CB_MAX_REJECTIONS];
} cb_ledger_image;

typedef struct cb_totals
{
	TimestampTz stats_since;
	uint64		connections;
	uint64		connected[CB_KIND_COUNT];
	uint64		connected_max;	/* client backends */
	TimestampTz connected_max_at;
	uint64		keys_used;
	uint64		keys_max;
	uint64		recent_skipped;
	uint64		recent_max;
	uint64		shared_memory_bytes;
} cb_totals;

/* Counters that no reset clears, for differences over time. */
typedef struct cb_counters
{
	uint64		connected;		/* client backends now */
	uint64		connected_max;	/* the most since the last such call */
	uint64		begun;			/* connections that became ready, since start */
	uint64		ended;
	uint64		forks;
	uint64		blocked_ns;
} cb_counters;

/* settings, fixed at server start */
#define CB_MAX_KEYS_LIMIT	4096
extern int	cb_max_keys;
extern int	cb_max_recent;

/* shared memory, in the postmaster */
extern Size cb_ledger_shmem_size(void);
extern void cb_ledger_shmem_init(void);
extern bool cb_ledger_is_attached(void);

/* in the postmaster while no child exists; for statfile.c */
extern void cb_ledger_read_image(cb_ledger_image *image);
extern void cb_ledger_restore_image(const cb_ledger_image *image);
extern bool cb_ledger_restore_row(const cb_ledger_row *row);

/* writers: atomics only, no error, no allocation, no LWLock */
extern void cb_ledger_connected(const cb_connection *connection);
extern void cb_ledger_add_phase(const cb_connection *connection, cb_phase phase);
extern void cb_ledger_disconnected(const cb_connection *connection);
extern void cb_ledger_rejected(const cb_rejection_detail *rejection);
extern void cb_ledger_left_early(cb_leave_stage stage, TimestampTz at);
extern void cb_ledger_client_forked(const cb_fork_account *account);
extern void cb_ledger_child_ended(cb_child_kind kind, const cb_fork_account *account);

/* the census worker: starts a new count of connected_max */
extern void cb_ledger_take_counters(cb_counters *counters);

/* readers and reset, in an ordinary backend */
extern TimestampTz cb_ledger_reset(const uint64 *children_alive);
extern void cb_ledger_read_totals(cb_totals *totals);
extern int	cb_ledger_slots(void);
extern void cb_ledger_read_slot(int slot, cb_ledger_row *row);
extern bool cb_ledger_read_recent(int place, cb_connection *connection);
extern int	cb_ledger_read_rejections(cb_rejection *rejections);
extern bool cb_ledger_read_rejection_detail(int place, cb_rejection_detail *detail);
extern void cb_ledger_read_leavers(cb_leavers *leavers);
extern void cb_ledger_read_forks(cb_fork_account *account, cb_children *children);

/* duration of a phase in nanoseconds, or CB_NOT_MEASURED */
extern uint64 cb_connection_phase(const cb_connection *connection, cb_phase phase);
extern const char *cb_phase_name(cb_phase phase);

#endif							/* CONNBENCH_LEDGER_H */
