-- Results tables and views: right answers worked out by hand.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS connbench;
RESET client_min_messages;
SET search_path = connbench, public;
BEGIN;

CREATE FUNCTION pg_temp.add_run(label text) RETURNS bigint LANGUAGE sql AS $$
	INSERT INTO run (run_uuid, started_at, command_line, workload, protocol, threads,
					 duration_s, warmup_s, rounds, seed, generator_version, libpq_version, host)
	VALUES (md5(label)::uuid, '2026-01-01', label, 'select-only', 'simple', 1, 10, 1, 3, 42, '1.0', 150000, '{}')
	RETURNING run_id
$$;
CREATE FUNCTION pg_temp.add_scenario(run bigint, no int, target text, unlike text = NULL) RETURNS bigint LANGUAGE sql AS $$
	INSERT INTO scenario (run_id, target_no, target, conninfo, transport, not_comparable, mode, clients)
	VALUES (run, no, target, 'host=x', 'tcp', unlike, 'persistent', 10) RETURNING scenario_id
$$;
-- succeeded requests of "each_ms", in 10 s; failed ones beside
CREATE FUNCTION pg_temp.add_round(scenario bigint, no int, succeeded int, each_ms int,
								  failed int = 0, partial boolean = false) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	round bigint;
BEGIN
	INSERT INTO round (scenario_id, round_no, order_no, started_at, window_s, attempted, succeeded, failed,
					   abandoned, connects_attempted, connects_failed, partial)
	VALUES (scenario, no, no, '2026-01-01', 10, succeeded + failed, succeeded, failed, 0, 10, 0, partial)
	RETURNING round_id INTO round;
	IF succeeded > 0 THEN
		INSERT INTO measurement VALUES (round, 'latency',
			histogram(array_fill(each_ms * 1000000::bigint, ARRAY[succeeded])));
	END IF;
END $$;

-- three rounds: tps 10, 11, 9 against 20, 24.2, 16.2, so ratios 2, 2.2, 1.8:
-- geometric mean 1.9933, t(2) = 4.303 gives 1.5534 .. 2.5579
SELECT pg_temp.add_run('three rounds') AS run \gset
SELECT pg_temp.add_scenario(:run, 1, 'direct') AS a, pg_temp.add_scenario(:run, 2, 'pooled') AS b \gset
SELECT pg_temp.add_round(:a, 1, 100, 8), pg_temp.add_round(:a, 2, 110, 8), pg_temp.add_round(:a, 3, 90, 8);
SELECT pg_temp.add_round(:b, 1, 200, 4), pg_temp.add_round(:b, 2, 242, 4), pg_temp.add_round(:b, 3, 162, 4);
SELECT target, rounds, window_s, round(tps::numeric, 6) AS tps, latency_mean_ms, latency_p50_ms, latency_max_ms, attempted, succeeded,
	   failed, abandoned, connect_mean_ms, client_backends_max, processes_max, client_cpu_ms_per_request,
	   backends_started_per_1000, bound_by
FROM results WHERE run_id = :run ORDER BY target;
SELECT target_a, target_b, metric, round(value_a::numeric, 4) AS value_a, round(value_b::numeric, 4) AS value_b,
	   round(ratio::numeric, 4) AS ratio, round(low::numeric, 4) AS low, round(high::numeric, 4) AS high,
	   verdict, rounds, reason
FROM comparison WHERE run_id = :run;

-- one round gives no interval; one scenario nothing to compare
SELECT pg_temp.add_run('one round') AS run \gset
SELECT pg_temp.add_scenario(:run, 1, 'direct') AS a, pg_temp.add_scenario(:run, 2, 'pooled') AS b \gset
SELECT pg_temp.add_round(:a, 1, 100, 8), pg_temp.add_round(:b, 1, 300, 8, failed => 100);
SELECT metric, round(ratio::numeric, 6) AS ratio, low, high, verdict, reason FROM comparison WHERE run_id = :run;
SELECT pg_temp.add_run('one scenario') AS run \gset
SELECT pg_temp.add_scenario(:run, 1, 'direct') AS a \gset
SELECT pg_temp.add_round(:a, 1, 100, 8);
SELECT count(*) FROM comparison WHERE run_id = :run;

-- nothing succeeded: no latency, and no comparison out of nothing
SELECT pg_temp.add_run('no success') AS run \gset
SELECT pg_temp.add_scenario(:run, 1, 'direct') AS a, pg_temp.add_scenario(:run, 2, 'pooled') AS b \gset
SELECT pg_temp.add_round(:a, 1, 100, 8), pg_temp.add_round(:b, 1, 0, 0, failed => 50);
SELECT target, tps, latency_mean_ms, latency_p99_ms, client_cpu_ms_per_request, attempted, failed
FROM results WHERE run_id = :run ORDER BY target;
SELECT count(*) FROM comparison WHERE run_id = :run;

-- unlike targets
SELECT pg_temp.add_run('unlike') AS run \gset
SELECT pg_temp.add_scenario(:run, 1, 'direct') AS a, pg_temp.add_scenario(:run, 2, 'pooled', 'transport tcp against tls') AS b \gset
SELECT pg_temp.add_round(:a, 1, 100, 8), pg_temp.add_round(:a, 2, 100, 8),
	   pg_temp.add_round(:b, 1, 200, 4), pg_temp.add_round(:b, 2, 200, 4);
SELECT metric, verdict, reason FROM comparison WHERE run_id = :run;

-- a partial round is in results, marked, and not in the comparison
SELECT pg_temp.add_run('partial') AS run \gset
SELECT pg_temp.add_scenario(:run, 1, 'direct') AS a, pg_temp.add_scenario(:run, 2, 'pooled') AS b \gset
SELECT pg_temp.add_round(:a, 1, 100, 8), pg_temp.add_round(:a, 2, 100, 8), pg_temp.add_round(:a, 3, 100, 8),
	   pg_temp.add_round(:b, 1, 100, 8), pg_temp.add_round(:b, 2, 100, 8), pg_temp.add_round(:b, 3, 5, 4, partial => true);
SELECT target, rounds, partial_rounds FROM results WHERE run_id = :run ORDER BY target;
SELECT metric, ratio, low, high, verdict, rounds, reason FROM comparison WHERE run_id = :run;

-- backends born, by the server's counters; none where they were reset
SELECT pg_temp.add_run('births') AS run \gset
SELECT pg_temp.add_scenario(:run, 1, 'direct') AS a \gset
SELECT pg_temp.add_round(:a, 1, 100, 8);
INSERT INTO server_snapshot
	SELECT round_id, moment, jsonb_build_object('stats_since', 't', 'connections', n, 'postmaster_forks', n + 5)
	FROM round, (VALUES ('before', 1000), ('after', 1050)) AS v (moment, n) WHERE scenario_id = :a;
SELECT backends_started, forks FROM round_births JOIN round USING (round_id) WHERE scenario_id = :a;
SELECT backends_started_per_1000 FROM results WHERE run_id = :run;
UPDATE server_snapshot SET snapshot = snapshot || '{"stats_since": "later"}' WHERE moment = 'after';
SELECT backends_started_per_1000 FROM results WHERE run_id = :run;

-- counts that do not add up are refused
\set VERBOSITY terse
SAVEPOINT s;
INSERT INTO round (scenario_id, round_no, order_no, started_at, window_s, attempted, succeeded, failed, abandoned,
				   connects_attempted, connects_failed)
VALUES (:a, 9, 9, '2026-01-01', 10, 1000, 170, 823, 0, 1000, 0);
ROLLBACK TO s;

SELECT student_t_95(1), student_t_95(2), student_t_95(1000), student_t_95(0);
ROLLBACK;
