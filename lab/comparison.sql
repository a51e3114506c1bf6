-- What lab/demo prints of the last run.  psql shows NULL, a number that was
-- not measured, as "unknown".
\echo 'Each architecture by itself: view connbench.results'
SELECT mode, clients, target,
	round(tps::numeric, 1) AS tps,
	round(latency_mean_ms::numeric, 2) AS latency_mean_ms,
	round(latency_p95_ms::numeric, 2) AS latency_p95_ms,
	round(connect_mean_ms::numeric, 2) AS connect_mean_ms,
	round(connect_p95_ms::numeric, 2) AS connect_p95_ms,
	target_backends_max AS backends_max,
	processes_max,
	succeeded, failed, abandoned
FROM connbench.results
WHERE run_id = (SELECT max(run_id) FROM connbench.run)
ORDER BY mode, clients, target;

\echo 'One against the other, with 95 % intervals over rounds: view connbench.comparison'
SELECT mode, clients, target_b || ' / ' || target_a AS ratio_of, metric,
	round(value_a::numeric, 2) AS value_a,
	round(value_b::numeric, 2) AS value_b,
	round(ratio::numeric, 3) AS ratio,
	round(low::numeric, 3) AS low,
	round(high::numeric, 3) AS high,
	verdict
FROM connbench.comparison
WHERE run_id = (SELECT max(run_id) FROM connbench.run) AND metric IN ('tps', 'latency_mean_ms', 'connect_mean_ms', 'target_backends_max', 'processes_max')
ORDER BY mode, clients, target_a, target_b,
	array_position(ARRAY['tps', 'latency_mean_ms', 'connect_mean_ms', 'target_backends_max', 'processes_max'], metric);
