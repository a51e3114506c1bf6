/*
 * Live views: what the ledger and the census in shared memory say.
 *
 * The functions need shared_preload_libraries = 'connbench' and raise 55000
 * without; the views are what people use.  Units stand in the names; a number
 * that was not measured is NULL.
 */

CREATE FUNCTION connection_ledger(
	OUT database_oid oid,
	OUT database text,
	OUT role_oid oid,
	OUT role text,
	OUT transport text,
	OUT auth_method text,
	OUT backend_kind text,
	OUT application_name text,
	OUT client_address text,
	OUT connections bigint,
	OUT ended_normal bigint,
	OUT ended_client_lost bigint,
	OUT ended_fatal bigint,
	OUT ended_killed bigint,
	OUT cpu_user_us bigint,
	OUT cpu_system_us bigint,
	OUT minor_faults bigint,
	OUT context_switches bigint,
	OUT accept_wait histogram,
	OUT fork histogram,
	OUT startup histogram,
	OUT tls histogram,
	OUT negotiation histogram,
	OUT auth histogram,
	OUT init histogram,
	OUT total histogram,
	OUT ready histogram,
	OUT login_trigger histogram,
	OUT first_query histogram,
	OUT session histogram,
	OUT cold histogram
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_connection_ledger'
LANGUAGE C VOLATILE PARALLEL SAFE;

COMMENT ON FUNCTION connection_ledger() IS
	'totals and histograms per key, as they stand in shared memory';

CREATE FUNCTION rejections(
	OUT sqlstate text,
	OUT phase text,
	OUT reason text,
	OUT count bigint,
	OUT last_at timestamptz
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_rejections'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE FUNCTION recent_rejected(
	OUT at timestamptz,
	OUT pid integer,
	OUT sqlstate text,
	OUT phase text,
	OUT reason text,
	OUT database text,
	OUT role text,
	OUT application_name text,
	OUT client_address text
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_recent_rejections'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE FUNCTION leavers(
	OUT stage text,
	OUT count bigint,
	OUT last_at timestamptz
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_leavers'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE FUNCTION recent(
	OUT pid integer,
	OUT started_at timestamptz,
	OUT database_oid oid,
	OUT database text,
	OUT role_oid oid,
	OUT role text,
	OUT transport text,
	OUT auth_method text,
	OUT backend_kind text,
	OUT application_name text,
	OUT client_address text,
	OUT fork_start_ns bigint,
	OUT child_start_ns bigint,
	OUT auth_end_ns bigint,
	OUT init_end_ns bigint,
	OUT exit_ns bigint,
	OUT accept_wait_ns bigint,
	OUT fork_ns bigint,
	OUT startup_ns bigint,
	OUT tls_ns bigint,
	OUT negotiation_ns bigint,
	OUT auth_ns bigint,
	OUT init_ns bigint,
	OUT total_ns bigint,
	OUT ready_ns bigint,
	OUT login_trigger_ns bigint,
	OUT first_query_ns bigint,
	OUT session_ns bigint,
	OUT cold_ns bigint,
	OUT cpu_user_us bigint,
	OUT cpu_system_us bigint,
	OUT minor_faults bigint,
	OUT context_switches bigint,
	OUT ended text,
	OUT cold boolean
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_recent'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE FUNCTION process_counts(
	OUT backend_type text,
	OUT state text,
	OUT count integer
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_process_counts'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION process_samples(
	OUT sampled_at timestamptz,
	OUT backend_type text,
	OUT state text,
	OUT count integer
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_process_samples'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE FUNCTION server_samples(
	OUT sampled_at timestamptz,
	OUT processes bigint,
	OUT client_backends bigint,
	OUT client_backends_max bigint,
	OUT postmaster_cpu_us bigint,
	OUT connections bigint,
	OUT sessions_ended bigint,
	OUT forks bigint,
	OUT blocked_ns bigint
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_server_samples'
LANGUAGE C VOLATILE PARALLEL SAFE;

CREATE FUNCTION backend_memory(
	pid integer,
	OUT pss_bytes bigint,
	OUT private_bytes bigint,
	OUT page_table_bytes bigint,
	OUT rss_bytes bigint
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_backend_memory'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 1;

COMMENT ON FUNCTION backend_memory(integer) IS
	'memory of one server process; NULL, with a notice, where it is not known';

CREATE FUNCTION postmaster(
	OUT stats_since timestamptz,
	OUT forks bigint,
	OUT client_forks bigint,
	OUT parallel_worker_forks bigint,
	OUT autovacuum_forks bigint,
	OUT background_worker_forks bigint,
	OUT io_worker_forks bigint,
	OUT auxiliary_forks bigint,
	OUT failed_forks bigint,
	OUT unseen bigint,
	OUT blocked histogram,
	OUT postmaster_cpu_us bigint
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_postmaster'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1;

CREATE FUNCTION module_info(
	OUT stats_since timestamptz,
	OUT connections bigint,
	OUT client_backends bigint,
	OUT walsenders bigint,
	OUT client_backends_max bigint,
	OUT client_backends_max_at timestamptz,
	OUT keys_used bigint,
	OUT keys_max bigint,
	OUT recent_max bigint,
	OUT recent_skipped bigint,
	OUT shared_memory_bytes bigint,
	OUT worker_pid integer,
	OUT sample_interval_ms integer,
	OUT samples bigint,
	OUT last_sample_at timestamptz,
	OUT worker_cpu_us bigint
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_info'
LANGUAGE C VOLATILE PARALLEL SAFE ROWS 1;

CREATE FUNCTION reset() RETURNS timestamptz
AS 'MODULE_PATHNAME', 'connbench_reset'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION reset() IS
	'clears the ledger, rejections, recent connections and the postmaster''s fork account; connected now and the samples stay; returns the time from which on it counts';

REVOKE ALL ON FUNCTION reset() FROM PUBLIC;

/*
 * One row per key and phase that was measured.  fork + startup + init = total;
 * inside startup are tls and, on 18 and later, negotiation and auth; before
 * total comes accept_wait (18 and later), after it ready (18 and later, where
 * log_connections includes setup_durations), login_trigger (17 and
 * later, where there are any), first_query and session, which is ready to
 * exit, of sessions that have ended.  A cold connection is in none of those up
 * to total; its total stands as phase cold.
 */
CREATE VIEW phase_stats AS
	SELECT l.database, l.role, l.transport, l.auth_method, l.backend_kind,
		   p.phase,
		   count(p.histogram) AS count,
		   mean_ms(p.histogram) AS mean_ms,
		   quantile_ms(p.histogram, 0.50) AS p50_ms,
		   quantile_ms(p.histogram, 0.95) AS p95_ms,
		   quantile_ms(p.histogram, 0.99) AS p99_ms,
		   max_ms(p.histogram) AS max_ms,
		   p.histogram,
		   l.database_oid, l.role_oid,
		   l.application_name, l.client_address::inet AS client_address
	FROM connection_ledger() AS l
	CROSS JOIN LATERAL (VALUES ('accept_wait', l.accept_wait),
							   ('fork', l.fork),
							   ('startup', l.startup),
							   ('tls', l.tls),
							   ('negotiation', l.negotiation),
							   ('auth', l.auth),
							   ('init', l.init),
							   ('total', l.total),
							   ('ready', l.ready),
							   ('login_trigger', l.login_trigger),
							   ('first_query', l.first_query),
							   ('session', l.session),
							   ('cold', l.cold)) AS p (phase, histogram)
	WHERE count(p.histogram) > 0;

COMMENT ON VIEW phase_stats IS
	'how long each phase of a connection took, per key; percentiles come from the histogram, which may be merged and subtracted';

/* One row per key: the same, wide. */
CREATE VIEW connection_stats AS
	SELECT l.database, l.role, l.transport, l.auth_method, l.backend_kind,
		   l.connections,
		   l.ended_normal + l.ended_client_lost + l.ended_fatal + l.ended_killed
			   AS sessions_ended,
		   l.ended_normal, l.ended_client_lost, l.ended_fatal, l.ended_killed,
		   mean_ms(l.total) AS total_mean_ms,
		   quantile_ms(l.total, 0.50) AS total_p50_ms,
		   quantile_ms(l.total, 0.95) AS total_p95_ms,
		   quantile_ms(l.total, 0.99) AS total_p99_ms,
		   max_ms(l.total) AS total_max_ms,
		   mean_ms(l.accept_wait) AS accept_wait_mean_ms,
		   quantile_ms(l.accept_wait, 0.50) AS accept_wait_p50_ms,
		   quantile_ms(l.accept_wait, 0.95) AS accept_wait_p95_ms,
		   quantile_ms(l.accept_wait, 0.99) AS accept_wait_p99_ms,
		   max_ms(l.accept_wait) AS accept_wait_max_ms,
		   mean_ms(l.fork) AS fork_mean_ms,
		   quantile_ms(l.fork, 0.50) AS fork_p50_ms,
		   quantile_ms(l.fork, 0.95) AS fork_p95_ms,
		   quantile_ms(l.fork, 0.99) AS fork_p99_ms,
		   max_ms(l.fork) AS fork_max_ms,
		   mean_ms(l.startup) AS startup_mean_ms,
		   quantile_ms(l.startup, 0.50) AS startup_p50_ms,
		   quantile_ms(l.startup, 0.95) AS startup_p95_ms,
		   quantile_ms(l.startup, 0.99) AS startup_p99_ms,
		   max_ms(l.startup) AS startup_max_ms,
		   mean_ms(l.tls) AS tls_mean_ms,
		   quantile_ms(l.tls, 0.50) AS tls_p50_ms,
		   quantile_ms(l.tls, 0.95) AS tls_p95_ms,
		   quantile_ms(l.tls, 0.99) AS tls_p99_ms,
		   max_ms(l.tls) AS tls_max_ms,
		   mean_ms(l.negotiation) AS negotiation_mean_ms,
		   quantile_ms(l.negotiation, 0.50) AS negotiation_p50_ms,
		   quantile_ms(l.negotiation, 0.95) AS negotiation_p95_ms,
		   quantile_ms(l.negotiation, 0.99) AS negotiation_p99_ms,
		   max_ms(l.negotiation) AS negotiation_max_ms,
		   mean_ms(l.auth) AS auth_mean_ms,
		   quantile_ms(l.auth, 0.50) AS auth_p50_ms,
		   quantile_ms(l.auth, 0.95) AS auth_p95_ms,
		   quantile_ms(l.auth, 0.99) AS auth_p99_ms,
		   max_ms(l.auth) AS auth_max_ms,
		   mean_ms(l.init) AS init_mean_ms,
		   quantile_ms(l.init, 0.50) AS init_p50_ms,
		   quantile_ms(l.init, 0.95) AS init_p95_ms,
		   quantile_ms(l.init, 0.99) AS init_p99_ms,
		   max_ms(l.init) AS init_max_ms,
		   mean_ms(l.ready) AS ready_mean_ms,
		   quantile_ms(l.ready, 0.50) AS ready_p50_ms,
		   quantile_ms(l.ready, 0.95) AS ready_p95_ms,
		   quantile_ms(l.ready, 0.99) AS ready_p99_ms,
		   max_ms(l.ready) AS ready_max_ms,
		   mean_ms(l.login_trigger) AS login_trigger_mean_ms,
		   quantile_ms(l.login_trigger, 0.50) AS login_trigger_p50_ms,
		   quantile_ms(l.login_trigger, 0.95) AS login_trigger_p95_ms,
		   quantile_ms(l.login_trigger, 0.99) AS login_trigger_p99_ms,
		   max_ms(l.login_trigger) AS login_trigger_max_ms,
		   mean_ms(l.first_query) AS first_query_mean_ms,
		   quantile_ms(l.first_query, 0.50) AS first_query_p50_ms,
		   quantile_ms(l.first_query, 0.95) AS first_query_p95_ms,
		   quantile_ms(l.first_query, 0.99) AS first_query_p99_ms,
		   max_ms(l.first_query) AS first_query_max_ms,
		   mean_ms(l.session) AS session_mean_ms,
		   quantile_ms(l.session, 0.50) AS session_p50_ms,
		   quantile_ms(l.session, 0.95) AS session_p95_ms,
		   quantile_ms(l.session, 0.99) AS session_p99_ms,
		   max_ms(l.session) AS session_max_ms,
		   count(l.cold) AS cold_connections,
		   mean_ms(l.cold) AS cold_mean_ms,
		   max_ms(l.cold) AS cold_max_ms,
		   l.cpu_user_us / 1000.0 AS cpu_user_ms,
		   l.cpu_system_us / 1000.0 AS cpu_system_ms,
		   l.minor_faults, l.context_switches,
		   l.database_oid, l.role_oid,
		   l.application_name, l.client_address::inet AS client_address
	FROM connection_ledger() AS l;

COMMENT ON VIEW connection_stats IS
	'connections that became ready since the last reset, per database, role, transport, authentication method and kind, and where connbench.track_application_name and track_client_address are on, by these';
COMMENT ON COLUMN connection_stats.connections IS
	'connections that became ready for their first query';
COMMENT ON COLUMN connection_stats.cold_connections IS
	'connections that had to rebuild the relation cache file of their database, as the first after a start of the server does: among connections, but kept out of the times from accept_wait to total';
COMMENT ON COLUMN connection_stats.sessions_ended IS
	'sessions that ended since the reset, whenever they began';
COMMENT ON COLUMN connection_stats.cpu_user_ms IS
	'user CPU of the backends from fork to ready, summed over all connections';

CREATE VIEW rejected_connections AS
	SELECT sqlstate, phase, reason, count, last_at FROM rejections();

COMMENT ON VIEW rejected_connections IS
	'connections that ended in a FATAL error before they were ready, by SQLSTATE, phase reached and, where one SQLSTATE has several causes, the cause';

CREATE VIEW recent_rejections AS
	SELECT at, sqlstate, phase, reason, pid, database, role, application_name,
		   client_address::inet AS client_address
	FROM recent_rejected()
	ORDER BY at DESC;

COMMENT ON VIEW recent_rejections IS
	'the newest rejections one by one, newest first: the names asked for, whether or not they exist, and the address; what the client had not told yet is NULL.  Needs pg_read_all_stats';

/*
 * A client may end before it is authenticated without any error: no session,
 * no rejection, but a fork.
 */
CREATE VIEW early_leavers AS
	SELECT stage, count, last_at FROM leavers();

COMMENT ON VIEW early_leavers IS
	'clients that left before they were authenticated, by how far they had come';
COMMENT ON COLUMN early_leavers.stage IS
	'sent nothing: closed at once, as a TCP health check does; startup packet: broken off or not of this protocol; negotiation: asked for TLS or GSS encryption and got no further; cancel request: no client, but a request to cancel a query; authentication: gave up, mostly at the password prompt; unlogged rejection: turned away by an error that log_min_messages kept out of the log';

/* numeric, so that fork + startup + init = total holds to the last digit */
CREATE VIEW recent_connections AS
	SELECT pid, started_at, database, role, transport, auth_method, backend_kind,
		   accept_wait_ns * 0.000001 AS accept_wait_ms,
		   fork_ns * 0.000001 AS fork_ms,
		   startup_ns * 0.000001 AS startup_ms,
		   tls_ns * 0.000001 AS tls_ms,
		   negotiation_ns * 0.000001 AS negotiation_ms,
		   auth_ns * 0.000001 AS auth_ms,
		   init_ns * 0.000001 AS init_ms,
		   total_ns * 0.000001 AS total_ms,
		   ready_ns * 0.000001 AS ready_ms,
		   login_trigger_ns * 0.000001 AS login_trigger_ms,
		   first_query_ns * 0.000001 AS first_query_ms,
		   session_ns * 0.000001 AS session_ms,
		   ended, cold,
		   cpu_user_us * 0.001 AS cpu_user_ms,
		   cpu_system_us * 0.001 AS cpu_system_ms,
		   minor_faults, context_switches,
		   fork_start_ns, child_start_ns, auth_end_ns, init_end_ns, exit_ns,
		   database_oid, role_oid, application_name,
		   client_address::inet AS client_address
	FROM recent()
	ORDER BY init_end_ns DESC;

COMMENT ON VIEW recent_connections IS
	'the last connections with all their marks, newest first; marks are CLOCK_MONOTONIC of this host';
COMMENT ON COLUMN recent_connections.session_ms IS
	'from ready to exit; NULL while the session lasts.  log_disconnections counts from the start of the process instead';

CREATE VIEW process_counts AS
	SELECT backend_type, state, count FROM process_counts();

COMMENT ON VIEW process_counts IS
	'server processes at this moment; the sum of all rows is the number of processes, the postmaster included';

CREATE VIEW process_samples AS
	SELECT sampled_at, backend_type, state, count FROM process_samples();

COMMENT ON VIEW process_samples IS
	'server processes at each sample of the census worker; a type and state that had none at a sample has no row there';

CREATE VIEW server_samples AS
	SELECT sampled_at, processes, client_backends, client_backends_max,
		   postmaster_cpu_us / 1000.0 AS postmaster_cpu_ms,
		   connections, sessions_ended, forks,
		   blocked_ns * 0.000001 AS blocked_ms
	FROM server_samples();

COMMENT ON VIEW server_samples IS
	'one row per sample of the census worker: number of processes, client backends by the exact gauge and their peak since the sample before; and, counted since the server started whatever was reset, connections, ended sessions, forks, the time these blocked the postmaster, and its CPU time';

/*
 * A kind that had no process at some samples of a minute had 0 there, so the
 * statistics are over all samples of the minute.
 */
CREATE VIEW process_minutes AS
	WITH counts AS MATERIALIZED (
		SELECT sampled_at, date_trunc('minute', sampled_at) AS minute,
			   backend_type, state, count
		FROM process_samples()
	), samples AS (
		SELECT DISTINCT minute, sampled_at FROM counts
	), kinds AS (
		SELECT DISTINCT minute, backend_type, state FROM counts
	)
	SELECT k.minute, k.backend_type, k.state,
		   count(*) AS samples,
		   min(coalesce(c.count, 0)) AS min,
		   round(avg(coalesce(c.count, 0)), 2) AS avg,
		   max(coalesce(c.count, 0)) AS max,
		   percentile_disc(0.95) WITHIN GROUP (ORDER BY coalesce(c.count, 0)) AS p95
	FROM kinds AS k
	JOIN samples AS s ON s.minute = k.minute
	LEFT JOIN counts AS c ON c.sampled_at = s.sampled_at
						 AND c.backend_type = k.backend_type
						 AND coalesce(c.state, '') = coalesce(k.state, '')
	GROUP BY k.minute, k.backend_type, k.state
	ORDER BY k.minute, k.backend_type, k.state;

COMMENT ON VIEW process_minutes IS
	'server processes per minute, over the samples that the census worker took in it: by default the last hour';

/* What a connection costs is private + page tables; rss is not. */
CREATE VIEW backend_memory AS
	SELECT a.pid, a.backend_type, a.datname AS database, a.usename AS role,
		   a.state, m.pss_bytes, m.private_bytes, m.page_table_bytes, m.rss_bytes
	FROM pg_stat_activity AS a
	CROSS JOIN LATERAL backend_memory(a.pid) AS m;

COMMENT ON VIEW backend_memory IS
	'memory of each server process; reading it costs about a millisecond per process';
COMMENT ON COLUMN backend_memory.private_bytes IS
	'resident pages that no other process has: with page_table_bytes, what this process costs';
COMMENT ON COLUMN backend_memory.rss_bytes IS
	'misleading: it counts every shared buffer that the process has touched';

CREATE VIEW server_memory AS
	SELECT count(*) AS processes,
		   sum(pss_bytes)::bigint AS pss_bytes,
		   sum(private_bytes)::bigint AS private_bytes,
		   sum(page_table_bytes)::bigint AS page_table_bytes
	FROM backend_memory
	WHERE pss_bytes IS NOT NULL;

COMMENT ON VIEW server_memory IS
	'memory of all server processes that backend_memory tells of; reading it costs about a millisecond per process, so the census worker does not';

/*
 * While the postmaster forks it can do nothing else, so the mean time of a
 * fork bounds the rate at which it can start backends, and the share of time
 * that it spent forking says how near it is to that.
 */
CREATE VIEW postmaster_stats AS
	WITH minute AS (
		SELECT max(connections) - min(connections) AS connections,
			   max(sessions_ended) - min(sessions_ended) AS sessions_ended,
			   (max(blocked_ns) - min(blocked_ns)) / 1e9::float8 AS blocked_s,
			   (max(postmaster_cpu_us) - min(postmaster_cpu_us)) / 1e6::float8 AS cpu_s,
			   nullif(extract(epoch FROM max(sampled_at) - min(sampled_at)), 0)::float8 AS s
		FROM server_samples()
		WHERE sampled_at > clock_timestamp() - interval '1 minute'
	)
	SELECT p.stats_since,
		   p.forks, p.client_forks, p.parallel_worker_forks, p.autovacuum_forks,
		   p.background_worker_forks, p.io_worker_forks, p.auxiliary_forks,
		   p.failed_forks, p.unseen,
		   mean_ms(p.blocked) AS blocked_mean_ms,
		   quantile_ms(p.blocked, 0.50) AS blocked_p50_ms,
		   quantile_ms(p.blocked, 0.95) AS blocked_p95_ms,
		   quantile_ms(p.blocked, 0.99) AS blocked_p99_ms,
		   max_ms(p.blocked) AS blocked_max_ms,
		   mean_ms(p.blocked) * count(p.blocked) AS blocked_total_ms,
		   mean_ms(p.blocked) * count(p.blocked) /
			   nullif(1000 * extract(epoch FROM clock_timestamp() - p.stats_since)::float8, 0)
			   AS utilisation,
		   m.blocked_s / m.s AS utilisation_last_minute,
		   1000 / nullif(mean_ms(p.blocked), 0) AS saturation_connections_per_s,
		   p.postmaster_cpu_us / 1000.0 AS postmaster_cpu_ms,
		   m.cpu_s / m.s AS postmaster_cpu_last_minute,
		   m.connections / m.s AS connections_per_s,
		   m.sessions_ended / m.s AS disconnections_per_s,
		   (SELECT 1000.0 * sum(d.sessions) / nullif(sum(d.xact_commit + d.xact_rollback), 0)
			FROM pg_stat_database AS d) AS backends_per_1000_transactions,
		   p.blocked
	FROM postmaster() AS p, minute AS m;

COMMENT ON VIEW postmaster_stats IS
	'forks since the reset, by what for, as of the last one that a child told of; how long they blocked the postmaster; and, over the samples of the last minute, rates';
COMMENT ON COLUMN postmaster_stats.client_forks IS
	'for clients, whatever became of them: connections, rejections, early leavers';
COMMENT ON COLUMN postmaster_stats.unseen IS
	'forks that no child has told of: it ended without a word (startup packet timed out), or is still starting';
COMMENT ON COLUMN postmaster_stats.postmaster_cpu_ms IS
	'CPU time of the postmaster since it started';
COMMENT ON COLUMN postmaster_stats.postmaster_cpu_last_minute IS
	'share of one core';
COMMENT ON COLUMN postmaster_stats.backends_per_1000_transactions IS
	'how well pooling works: sessions begun per 1,000 transactions ended, both since pg_stat_database was reset; a server that is pooled well is near 0, one connection per transaction is near 1,000';
COMMENT ON COLUMN postmaster_stats.utilisation_last_minute IS
	'the same over the samples of the last minute; NULL while there are not two';
COMMENT ON COLUMN postmaster_stats.utilisation IS
	'share of the time since stats_since, 0 to 1, that the postmaster was blocked in fork()';
COMMENT ON COLUMN postmaster_stats.saturation_connections_per_s IS
	'an estimate: 1 / mean blocked time, the rate at which forking alone would fill the postmaster''s time';

CREATE VIEW info AS
	SELECT '1.0'::text AS version,
		   i.*,
		   (SELECT l.count FROM leavers() AS l
			WHERE l.stage = 'authentication') AS abandoned_authentications,
		   coalesce((SELECT l.connections FROM connection_ledger() AS l
					 WHERE l.backend_kind IS NULL), 0) AS connections_beyond_max_keys,
		   ARRAY(SELECT limits.what FROM (VALUES
			   (true, 'a client whose startup packet times out ends without a word: it is one of the forks in postmaster_stats.unseen'),
			   (true, 'a FATAL error that log_min_messages keeps out of the server log is not counted as a rejection, but as an early leaver where it came before authentication'),
			   (true, 'waiting in the kernel''s listen queue comes before anything that the server sees'),
			   (current_setting('server_version_num')::int >= 190000, 'the TLS handshake has no mark of its own from 19 on; it is a part of negotiation'),
			   (current_setting('server_version_num')::int < 180000, 'accept_wait, negotiation and auth need the server''s own timing, which came with 18'),
			   (current_setting('debug_exec_backend', true) = 'on', 'fork marks cannot be taken in an EXEC_BACKEND build')
			   ) AS limits (holds, what) WHERE holds) AS not_observable
	FROM module_info() AS i;

COMMENT ON VIEW info IS
	'the state of the module: since when it counts, room used, the worker and its cost, and what cannot be observed';

/* What the load generator stores before and after each round. */
CREATE FUNCTION snapshot() RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL RESTRICTED
BEGIN ATOMIC
	SELECT jsonb_build_object(
		'at', clock_timestamp(),
		'stats_since', i.stats_since,
		'postmaster_started_at', pg_postmaster_start_time(),
		'connections', i.connections,
		'sessions_ended', (SELECT coalesce(sum(s.sessions_ended), 0) FROM connection_stats AS s),
		'rejected', (SELECT coalesce(sum(r.count), 0) FROM rejected_connections AS r),
		'abandoned_authentications', (SELECT l.count FROM leavers() AS l WHERE l.stage = 'authentication'),
		'left_early', (SELECT sum(l.count) FROM leavers() AS l),
		'transactions', (SELECT sum(d.xact_commit + d.xact_rollback) FROM pg_stat_database AS d),
		'client_backends', i.client_backends,
		'client_backends_max', i.client_backends_max,
		'postmaster_forks', p.forks,
		'client_forks', p.client_forks,
		'unseen', p.unseen,
		'postmaster_blocked_ms', p.blocked_total_ms,
		'phases', (SELECT coalesce(jsonb_object_agg(s.phase, s.histogram), '{}')
				   FROM (SELECT phase, merge(histogram)::text AS histogram
						 FROM phase_stats GROUP BY phase) AS s))
	FROM module_info() AS i, postmaster_stats AS p;
END;

COMMENT ON FUNCTION snapshot() IS
	'the ledger''s totals and merged histograms at this moment, to be subtracted from a later one';

GRANT SELECT ON phase_stats, connection_stats, rejected_connections,
	recent_rejections, early_leavers, recent_connections, process_counts,
	process_samples, process_minutes, server_samples, backend_memory,
	server_memory, postmaster_stats, info TO PUBLIC;
