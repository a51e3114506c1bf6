/*
 * Results of the load generator: tables that it fills, one transaction per
 * round, and the views over them.  None of this needs
 * shared_preload_libraries: results may be kept on another server than the
 * one under test.  A number that was not measured is NULL.
 */

CREATE TABLE run (
	run_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	run_uuid uuid NOT NULL UNIQUE,
	started_at timestamptz NOT NULL,
	finished_at timestamptz,
	complete boolean NOT NULL DEFAULT false,
	command_line text NOT NULL,
	workload text NOT NULL,
	protocol text NOT NULL,
	scale integer,
	threads integer NOT NULL,
	duration_s float8 NOT NULL,
	warmup_s float8 NOT NULL,
	rounds integer NOT NULL,
	seed numeric(20) NOT NULL,
	generator_version text NOT NULL,
	libpq_version integer NOT NULL,
	host jsonb NOT NULL,
	server_version text,
	system_identifier numeric(20),
	server_settings jsonb,
	server_note text,
	unlike_is_the_question boolean NOT NULL DEFAULT false
);

COMMENT ON TABLE run IS 'one call of connbench run, with what explains its results';
COMMENT ON COLUMN run.complete IS 'every planned round was measured in full and stored';
COMMENT ON COLUMN run.command_line IS 'as given, without secrets';
COMMENT ON COLUMN run.seed IS 'of the order of rounds and of the workload: the same seed repeats both';
COMMENT ON COLUMN run.server_version IS 'of the server that was observed directly; NULL if none was';
COMMENT ON COLUMN run.server_settings IS 'settings of that server that are not the default''s, without secrets';
COMMENT ON COLUMN run.server_note IS 'why the server''s side was not observed';
COMMENT ON COLUMN run.unlike_is_the_question IS 'the user asked to compare targets of unlike transport or authentication';

CREATE TABLE scenario (
	scenario_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	run_id bigint NOT NULL REFERENCES run ON DELETE CASCADE,
	target_no integer NOT NULL,
	target text NOT NULL,
	target_kind text,
	conninfo text NOT NULL,
	transport text,
	auth_method text,
	server_version text,
	system_identifier numeric(20),
	not_comparable text,
	mode text NOT NULL,
	clients integer NOT NULL CHECK (clients > 0),
	UNIQUE (run_id, target_no, mode, clients)
);

COMMENT ON TABLE scenario IS 'what was measured in a run: a target, a connection mode, a number of clients';
COMMENT ON COLUMN scenario.target_kind IS 'as observed: direct, proxy (the same backend, another peer address) or pooler (another backend)';
COMMENT ON COLUMN scenario.conninfo IS 'without secrets';
COMMENT ON COLUMN scenario.transport IS 'as used by the client: unix, tcp or tls';
COMMENT ON COLUMN scenario.auth_method IS 'as asked of the client; NULL if it cannot be told';
COMMENT ON COLUMN scenario.not_comparable IS 'why this target is unlike the first target of the run';

CREATE TABLE round (
	round_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	scenario_id bigint NOT NULL REFERENCES scenario ON DELETE CASCADE,
	round_no integer NOT NULL,
	order_no integer NOT NULL,
	started_at timestamptz NOT NULL,
	window_s float8 NOT NULL CHECK (window_s >= 0),
	initial_connect_ms float8,
	attempted bigint NOT NULL,
	succeeded bigint NOT NULL,
	failed bigint NOT NULL,
	abandoned bigint NOT NULL,
	warmup_requests bigint NOT NULL DEFAULT 0,
	connects_attempted bigint NOT NULL,
	connects_failed bigint NOT NULL,
	client_cpu_user_ms float8,
	client_cpu_system_ms float8,
	client_backends_max integer,
	client_backends_avg float8,
	target_backends_max integer,
	processes_max integer,
	samples integer NOT NULL DEFAULT 0,
	partial boolean NOT NULL DEFAULT false,
	server_restarted boolean NOT NULL DEFAULT false,
	UNIQUE (scenario_id, round_no),
	CHECK (attempted = succeeded + failed + abandoned),
	CHECK (connects_failed <= connects_attempted)
);

COMMENT ON TABLE round IS 'one timed repetition of a scenario';
COMMENT ON COLUMN round.order_no IS 'place among all rounds of the run, which are interleaved';
COMMENT ON COLUMN round.window_s IS 'from the start of measuring until the last request in flight had ended';
COMMENT ON COLUMN round.initial_connect_ms IS 'wall time until all clients were connected; NULL where they connect per transaction';
COMMENT ON COLUMN round.abandoned IS 'requests in flight that were given up: neither succeeded nor failed';
COMMENT ON COLUMN round.warmup_requests IS 'requests begun in the warm-up: not counted in any other column, but in the server''s snapshots';
COMMENT ON COLUMN round.client_cpu_user_ms IS 'CPU of the load generator itself in the window';
COMMENT ON COLUMN round.client_backends_max IS 'client backends seen on the server, the generator''s own observers left out; NULL if the server was not observed';
COMMENT ON COLUMN round.target_backends_max IS 'of these, the ones that carry the application_name of this target: idle server connections that another target''s pooler keeps are not in it; NULL if the name is not passed on to the server';
COMMENT ON COLUMN round.processes_max IS 'all server processes, the postmaster included; NULL without connbench in shared_preload_libraries there';
COMMENT ON COLUMN round.samples IS 'how many looks at the server these rest on';
COMMENT ON COLUMN round.partial IS 'interrupted: kept, but left out of comparisons';
COMMENT ON COLUMN round.server_restarted IS 'the postmaster''s start time changed during the round';

CREATE TABLE measurement (
	round_id bigint NOT NULL REFERENCES round ON DELETE CASCADE,
	measure text NOT NULL,
	histogram histogram NOT NULL,
	PRIMARY KEY (round_id, measure)
);

COMMENT ON TABLE measurement IS 'the distribution of one measure in one round: latency, connect, transaction, close and the phases of connecting';

CREATE TABLE failure (
	round_id bigint NOT NULL REFERENCES round ON DELETE CASCADE,
	failure_no integer NOT NULL,
	failure_class text NOT NULL,
	sqlstate text,
	errno integer,
	phase text NOT NULL,
	count bigint NOT NULL CHECK (count > 0),
	first_message text,
	PRIMARY KEY (round_id, failure_no)
);

COMMENT ON TABLE failure IS 'failures of one kind in one round, with the first message of the kind';

CREATE TABLE server_snapshot (
	round_id bigint NOT NULL REFERENCES round ON DELETE CASCADE,
	moment text NOT NULL CHECK (moment IN ('before', 'after')),
	snapshot jsonb NOT NULL,
	PRIMARY KEY (round_id, moment)
);

COMMENT ON TABLE server_snapshot IS 'connbench.snapshot() of the server observed, before and after the round';

/* Two-sided 95 % quantile of Student's t; beyond 30 degrees the last, which errs to the wide side. */
CREATE FUNCTION student_t_95(degrees_of_freedom bigint) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (ARRAY[12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
			  2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
			  2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]::float8[])
	[least(degrees_of_freedom, 30)];

COMMENT ON FUNCTION student_t_95(bigint) IS
	'quantile 0.975 of Student''s t distribution (the standard tables); NULL below 1 degree of freedom';

/* Backends that were born during a round, by the server's own count. */
CREATE VIEW round_births AS
	SELECT b.round_id,
		   (a.snapshot ->> 'connections')::bigint - (b.snapshot ->> 'connections')::bigint AS backends_started,
		   (a.snapshot ->> 'postmaster_forks')::bigint - (b.snapshot ->> 'postmaster_forks')::bigint AS forks
	FROM server_snapshot AS b
	JOIN server_snapshot AS a ON a.round_id = b.round_id AND a.moment = 'after'
	WHERE b.moment = 'before'
	  AND a.snapshot ->> 'stats_since' = b.snapshot ->> 'stats_since';

COMMENT ON VIEW round_births IS
	'backends that became ready and forks of the postmaster between the two snapshots of a round; no row if the counters were reset in between';

CREATE VIEW results AS
	SELECT s.run_id, s.scenario_id, s.target, s.target_kind, s.transport, s.auth_method,
		   s.mode, s.clients, u.workload, u.protocol,
		   r.rounds, r.window_s,
		   r.succeeded / nullif(r.window_s, 0) AS tps,
		   mean_ms(l.latency) AS latency_mean_ms,
		   quantile_ms(l.latency, 0.50) AS latency_p50_ms,
		   quantile_ms(l.latency, 0.95) AS latency_p95_ms,
		   quantile_ms(l.latency, 0.99) AS latency_p99_ms,
		   max_ms(l.latency) AS latency_max_ms,
		   mean_ms(l.connect) AS connect_mean_ms,
		   quantile_ms(l.connect, 0.50) AS connect_p50_ms,
		   quantile_ms(l.connect, 0.95) AS connect_p95_ms,
		   quantile_ms(l.connect, 0.99) AS connect_p99_ms,
		   max_ms(l.connect) AS connect_max_ms,
		   r.initial_connect_ms,
		   r.client_backends_max, r.client_backends_avg, r.target_backends_max, r.processes_max,
		   r.attempted, r.succeeded, r.failed, r.abandoned,
		   r.connects_attempted, r.connects_failed,
		   r.client_cpu_ms / nullif(r.succeeded, 0) AS client_cpu_ms_per_request,
		   1000.0::float8 * r.backends_started / nullif(r.attempted + r.warmup_requests, 0) AS backends_started_per_1000,
		   NULL::text AS bound_by,
		   s.not_comparable, r.partial_rounds, r.restarted_rounds
	FROM scenario AS s
	JOIN run AS u USING (run_id)
	JOIN LATERAL (
		SELECT count(*) AS rounds,
			   sum(window_s) AS window_s,
			   avg(initial_connect_ms) AS initial_connect_ms,
			   max(client_backends_max) AS client_backends_max,
			   sum(client_backends_avg * samples) / nullif(sum(samples) FILTER (WHERE client_backends_avg IS NOT NULL), 0) AS client_backends_avg,
			   max(target_backends_max) AS target_backends_max,
			   max(processes_max) AS processes_max,
			   sum(attempted)::bigint AS attempted,
			   sum(succeeded)::bigint AS succeeded,
			   sum(failed)::bigint AS failed,
			   sum(abandoned)::bigint AS abandoned,
			   sum(warmup_requests)::bigint AS warmup_requests,
			   sum(connects_attempted)::bigint AS connects_attempted,
			   sum(connects_failed)::bigint AS connects_failed,
			   sum(client_cpu_user_ms + client_cpu_system_ms) AS client_cpu_ms,
			   CASE WHEN count(*) = count(b.backends_started)
					THEN sum(b.backends_started)::bigint END AS backends_started,
			   count(*) FILTER (WHERE partial) AS partial_rounds,
			   count(*) FILTER (WHERE server_restarted) AS restarted_rounds
		FROM round LEFT JOIN round_births AS b USING (round_id)
		WHERE scenario_id = s.scenario_id) AS r ON r.rounds > 0
	LEFT JOIN LATERAL (
		SELECT merge(m.histogram) FILTER (WHERE m.measure = 'latency') AS latency,
			   merge(m.histogram) FILTER (WHERE m.measure = 'connect') AS connect
		FROM round JOIN measurement AS m USING (round_id)
		WHERE scenario_id = s.scenario_id) AS l ON true
	ORDER BY s.run_id, s.mode, s.clients, s.target_no;

COMMENT ON VIEW results IS
	'one row per run and scenario, over all its rounds; percentiles come from the merged histograms of all rounds';
COMMENT ON COLUMN results.tps IS 'requests that succeeded per second: their number over the time of all rounds, the tail of each round included, as pgbench counts';
COMMENT ON COLUMN results.latency_mean_ms IS 'of requests that succeeded: where clients connect per transaction, connecting and closing are in it';
COMMENT ON COLUMN results.connect_mean_ms IS 'from the first step of connecting to ready for query; in the persistent mode, of the connections made at the start of each round';
COMMENT ON COLUMN results.initial_connect_ms IS 'mean over rounds of the wall time until all clients were connected';
COMMENT ON COLUMN results.client_cpu_ms_per_request IS 'CPU of the load generator per request that succeeded';
COMMENT ON COLUMN results.backends_started_per_1000 IS 'server backends that became ready per 1,000 requests: near 1,000 without pooling, near 0 behind a warm transaction pool';
COMMENT ON COLUMN results.bound_by IS 'what limited the throughput; not determined yet';

/* The unit of a comparison is the round: its values, one row per metric. */
CREATE VIEW round_metrics AS
	SELECT s.run_id, s.scenario_id, s.target_no, s.mode, s.clients, r.round_no,
		   v.metric, v.higher_is_better, v.value
	FROM round AS r
	JOIN scenario AS s USING (scenario_id)
	LEFT JOIN measurement AS l ON l.round_id = r.round_id AND l.measure = 'latency'
	LEFT JOIN measurement AS c ON c.round_id = r.round_id AND c.measure = 'connect'
	CROSS JOIN LATERAL (VALUES
		('tps', true, r.succeeded / nullif(r.window_s, 0)),
		('latency_mean_ms', false, mean_ms(l.histogram)),
		('latency_p95_ms', false, quantile_ms(l.histogram, 0.95)),
		('connect_mean_ms', false, mean_ms(c.histogram)),
		('client_backends_max', false, r.client_backends_max::float8),
		('target_backends_max', false, r.target_backends_max::float8),
		('processes_max', false, r.processes_max::float8),
		('client_cpu_ms_per_request', false,
		 (r.client_cpu_user_ms + r.client_cpu_system_ms) / nullif(r.succeeded, 0))
		) AS v (metric, higher_is_better, value)
	WHERE NOT r.partial AND NOT r.server_restarted;

COMMENT ON VIEW round_metrics IS
	'metrics of each round that was measured in full, without a server restart in it';

/*
 * Target b against target a, in the order in which they were given, over
 * rounds of the same number.  ratio = geometric mean of b / a; low and high
 * are its 95 % interval by Student's t on the logarithms of the per-round
 * ratios (they, not single transactions, are independent).
 */
CREATE VIEW comparison AS
	WITH paired AS (
		SELECT a.run_id, a.mode, a.clients, a.metric, a.higher_is_better,
			   a.scenario_id AS scenario_a, b.scenario_id AS scenario_b,
			   count(*) AS rounds,
			   exp(avg(ln(a.value))) AS value_a,
			   exp(avg(ln(b.value))) AS value_b,
			   avg(ln(b.value) - ln(a.value)) AS log_ratio,
			   stddev_samp(ln(b.value) - ln(a.value)) AS log_sd
		FROM (SELECT * FROM round_metrics WHERE value > 0) AS a
		JOIN (SELECT * FROM round_metrics WHERE value > 0) AS b
			ON b.run_id = a.run_id AND b.mode = a.mode AND b.clients = a.clients AND
			   b.metric = a.metric AND b.round_no = a.round_no AND b.target_no > a.target_no
		GROUP BY 1, 2, 3, 4, 5, 6, 7
	), bounded AS (
		SELECT p.*,
			   exp(log_ratio) AS ratio,
			   exp(log_ratio - student_t_95(rounds - 1) * log_sd / sqrt(rounds)) AS low,
			   exp(log_ratio + student_t_95(rounds - 1) * log_sd / sqrt(rounds)) AS high
		FROM paired AS p
	)
	SELECT p.run_id, p.mode, p.clients, a.target AS target_a, b.target AS target_b,
		   p.metric, p.value_a, p.value_b, p.ratio, p.low, p.high,
		   CASE WHEN b.not_comparable IS NOT DISTINCT FROM a.not_comparable THEN
					CASE WHEN p.low > 1 THEN CASE WHEN p.higher_is_better THEN 'better' ELSE 'worse' END
						 WHEN p.high < 1 THEN CASE WHEN p.higher_is_better THEN 'worse' ELSE 'better' END
						 ELSE 'no difference shown' END
				ELSE 'not comparable' END AS verdict,
		   p.rounds,
		   nullif(concat_ws('; ',
			   CASE WHEN b.not_comparable IS DISTINCT FROM a.not_comparable
					THEN coalesce(b.not_comparable, a.not_comparable) END,
			   CASE WHEN p.rounds < 2 THEN 'an interval needs at least two rounds' END,
			   CASE WHEN 100 * (ra.failed + ra.abandoned) > ra.attempted
					THEN format('%s: %s of %s requests did not succeed', a.target, ra.failed + ra.abandoned, ra.attempted) END,
			   CASE WHEN 100 * (rb.failed + rb.abandoned) > rb.attempted
					THEN format('%s: %s of %s requests did not succeed', b.target, rb.failed + rb.abandoned, rb.attempted) END,
			   CASE WHEN ra.partial_rounds + rb.partial_rounds + ra.restarted_rounds + rb.restarted_rounds > 0
					THEN 'rounds cut short or with a server restart are left out' END), '') AS reason
	FROM bounded AS p
	JOIN scenario AS a ON a.scenario_id = p.scenario_a
	JOIN scenario AS b ON b.scenario_id = p.scenario_b
	JOIN results AS ra ON ra.scenario_id = p.scenario_a
	JOIN results AS rb ON rb.scenario_id = p.scenario_b
	ORDER BY p.run_id, p.mode, p.clients, a.target_no, b.target_no,
			 array_position(ARRAY['tps', 'latency_mean_ms', 'latency_p95_ms', 'connect_mean_ms',
								  'client_backends_max', 'target_backends_max', 'processes_max', 'client_cpu_ms_per_request'], p.metric);

COMMENT ON VIEW comparison IS
	'two targets of a run under the same load: ratio b / a with its 95 % interval over rounds, and what it means for b';
COMMENT ON COLUMN comparison.ratio IS 'geometric mean of the ratios b / a of rounds of the same number';
COMMENT ON COLUMN comparison.low IS 'lower end of the 95 % interval; NULL with fewer than two rounds';
COMMENT ON COLUMN comparison.verdict IS 'of b against a: better, worse, no difference shown, not comparable';

SELECT pg_extension_config_dump('run', '');
SELECT pg_extension_config_dump('run_run_id_seq', '');
SELECT pg_extension_config_dump('scenario', '');
SELECT pg_extension_config_dump('scenario_scenario_id_seq', '');
SELECT pg_extension_config_dump('round', '');
SELECT pg_extension_config_dump('round_round_id_seq', '');
SELECT pg_extension_config_dump('measurement', '');
SELECT pg_extension_config_dump('failure', '');
SELECT pg_extension_config_dump('server_snapshot', '');

/* Reading as for the live views; who is to write is granted that by the owner. */
GRANT SELECT ON run, scenario, round, measurement, failure, server_snapshot,
	round_births, results, round_metrics, comparison TO pg_read_all_stats;
