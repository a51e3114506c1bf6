-- Live views.  Two expected files: with connbench in
-- shared_preload_libraries, and without (every live function says so).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS connbench;
RESET client_min_messages;

SELECT connbench.reset() IS NOT NULL AS reset;

-- a connection after the reset is counted, once, with its phases
\c -
SELECT connections, backend_kind,
	   total_mean_ms > 0 AS total, fork_mean_ms > 0 AS fork,
	   startup_mean_ms > 0 AS startup, init_mean_ms > 0 AS init
FROM connbench.connection_stats
WHERE database = current_database() AND role = current_user;

SELECT phase, count, mean_ms = max_ms AS single, connbench.count(histogram)
FROM connbench.phase_stats
WHERE database = current_database() AND role = current_user
  AND phase IN ('fork', 'startup', 'init', 'total')
ORDER BY phase;

-- fork + startup + init = total, exactly, and marks in order
SELECT count(*) > 0 AS rows,
	   count(*) FILTER (WHERE fork_ms + startup_ms + init_ms <> total_ms) AS wrong_sum,
	   count(*) FILTER (WHERE NOT (fork_start_ns <= child_start_ns AND
								   child_start_ns <= auth_end_ns AND
								   auth_end_ns <= init_end_ns)) AS wrong_order
FROM connbench.recent_connections;

SELECT r.ended IS NULL AS lasts, r.session_ms IS NULL AS no_session,
	   r.started_at BETWEEN a.backend_start - interval '1 min' AND a.backend_start AS started_before_backend_start
FROM connbench.recent_connections AS r JOIN pg_stat_activity AS a USING (pid)
WHERE r.pid = pg_backend_pid();

-- processes: this session is one active client backend, there is one
-- postmaster, and all of them are no fewer than those with a type
SELECT backend_type, state, count FROM connbench.process_counts
WHERE backend_type = 'postmaster';
SELECT count >= 1 AS active FROM connbench.process_counts
WHERE backend_type = 'client backend' AND state = 'active';
SELECT sum(count) > 3 AS several FROM connbench.process_counts;

SELECT forks > 0 AS forks, blocked_mean_ms > 0 AS blocked,
	   utilisation BETWEEN 0 AND 1 AS share,
	   saturation_connections_per_s > 0 AS saturation
FROM connbench.postmaster_stats;

SELECT version, keys_used <= keys_max AS keys, client_backends >= 1 AS connected,
	   client_backends_max >= client_backends AS peak, recent_skipped,
	   connections_beyond_max_keys, worker_pid > 0 AS worker
FROM connbench.info;

SELECT (connbench.snapshot() ->> 'connections')::bigint >= 1 AS snapshot;

-- rejections need a connection that fails: t/002_rejections.pl
SELECT count(*) FROM connbench.rejected_connections WHERE false;

-- who may see what
CREATE ROLE regress_connbench_nobody;
SET ROLE regress_connbench_nobody;
SELECT DISTINCT database, role, database_oid, role_oid
FROM connbench.connection_stats WHERE backend_kind = 'client';
SELECT count(*) FILTER (WHERE pid IS NOT NULL OR role <> '<insufficient privilege>') AS seen
FROM connbench.recent_connections;
SELECT connbench.reset();
RESET ROLE;
GRANT pg_read_all_stats TO regress_connbench_nobody;
SET ROLE regress_connbench_nobody;
SELECT count(*) FILTER (WHERE pid IS NULL OR role IS NULL) AS hidden
FROM connbench.recent_connections;
RESET ROLE;
DROP ROLE regress_connbench_nobody;
