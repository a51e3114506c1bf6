-- Type connbench.histogram.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS connbench;
RESET client_min_messages;
SET search_path = connbench, public;

-- text
SELECT histogram('{1000000,2000000,3000000}'::bigint[]);
SELECT histogram('{}'::bigint[]), histogram('{NULL}'::bigint[]);
SELECT 'sum_ns=6000000 min_ns=1000000 max_ns=3000000 clamped=0/0 buckets=318:1,350:1,366:1'::histogram;
SELECT h::text::histogram = h AS round_trip
FROM (SELECT histogram(array_agg((1.3 ^ i)::bigint)) FROM generate_series(0, 120) AS i) AS t (h);

-- binary
CREATE TEMP TABLE sent AS
	SELECT histogram(array_agg((1.3 ^ i)::bigint)) AS h FROM generate_series(0, 120) AS i;
SELECT length(histogram_send(h)) = 4 + 5 * 8 + 10 * (SELECT count(*) FROM buckets(h)) AS size FROM sent;
-- reading: nanoseconds, and milliseconds
SELECT count(h), min(h), max(h), mean(h), quantile(h, 0), quantile(h, 0.5), quantile(h, 1),
	   min_ms(h), max_ms(h), mean_ms(h), quantile_ms(h, 1), clamped(h)
FROM histogram('{1000000,2000000,3000000}'::bigint[]) AS h;
SELECT count(h), min(h), max(h), mean(h), quantile(h, 0.5), max_ms(h), quantile_ms(h, 0.5)
FROM histogram('{}'::bigint[]) AS h;

-- a reported value is off by at most 1/64 from 1 us to 1 h
SELECT count(*) AS values, count(*) FILTER (WHERE abs(quantile(h, 0.5) - v) > v / 64.0) AS too_far
FROM (SELECT (1000 * 1.07 ^ i)::bigint AS v FROM generate_series(0, 325) AS i) AS t,
	 LATERAL (SELECT histogram(ARRAY[v, v, v * 4])) AS l (h)
WHERE v <= 3600000000000 / 4;

-- ranks: the k-th smallest of 1 .. 1000 ms
SELECT q, abs(quantile_ms(h, q) - ceil(q * 1000)) <= ceil(q * 1000) / 64.0 AS near
FROM (SELECT histogram(array_agg(i * 1000000::bigint)) FROM generate_series(1, 1000) AS i) AS t (h),
	 unnest(ARRAY[0.001, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999]::float8[]) AS q;

-- out of range values are kept in the outermost buckets, exactly in min, max and mean
SELECT clamped(h), count(h), min(h), max(h), mean(h), quantile(h, 1)
FROM histogram('{0,999,1000,4294967296000,9000000000000}'::bigint[]) AS h;

-- arithmetic
SELECT histogram('{1000,5000}'::bigint[]) + histogram('{7000}'::bigint[]) = histogram('{7000,1000,5000}'::bigint[]) AS sum;
SELECT count(d), min(d) <= 7000 AS low, max(d) >= 7000 AS high, mean(d)
FROM (SELECT histogram('{7000,1000,5000}'::bigint[]) - histogram('{1000,5000}'::bigint[])) AS t (d);
SELECT histogram('{7000}'::bigint[]) - histogram('{}'::bigint[]) = histogram('{7000}'::bigint[]) AS nothing_subtracted;
SELECT histogram('{7000}'::bigint[]) - histogram('{7000}'::bigint[]) AS nothing_left;

-- merging: the same as recording all, NULLs passed over, NULL of none
SELECT merge(h) = (SELECT histogram(array_agg(i * 777::bigint)) FROM generate_series(1, 1000) AS i) AS same
FROM (SELECT histogram(array_agg(i * 777::bigint)) FROM generate_series(1, 1000) AS i GROUP BY i % 7
	  UNION ALL SELECT NULL) AS t (h);
SELECT merge(h) IS NULL AS none FROM (SELECT NULL::histogram WHERE false) AS t (h);
SELECT merge(NULL::histogram) IS NULL AS only_null;

-- merging in parallel
CREATE TABLE many AS
	SELECT histogram(ARRAY[i * 1000::bigint]) AS h FROM generate_series(1, 20000) AS i;
ANALYZE many;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS off) SELECT count(merge(h)) FROM many;
SELECT count(merge(h)), min(merge(h)), max(merge(h)) FROM many;
DROP TABLE many;

SELECT * FROM buckets(histogram('{1000000,1000001,3000000}'::bigint[]));

-- refused
SELECT ''::histogram;
SELECT 'full'::histogram;
SELECT 'sum_ns=1 min_ns=1 max_ns=1 clamped=0/0 buckets='::histogram;
SELECT 'sum_ns=-1 min_ns=1 max_ns=1 clamped=0/0 buckets=0:1'::histogram;
SELECT 'sum_ns=1 min_ns=1 max_ns=1 clamped=0/0 buckets=0:1 '::histogram;
SELECT 'sum_ns=1 min_ns=1 max_ns=1 clamped=0/0 buckets=5:1,4:1'::histogram;
SELECT 'sum_ns=1 min_ns=1 max_ns=1 clamped=0/0 buckets=1024:1'::histogram;
SELECT 'sum_ns=1 min_ns=1 max_ns=1 clamped=0/0 buckets=0:0'::histogram;
SELECT 'sum_ns=99999999999999999999 min_ns=1 max_ns=1 clamped=0/0 buckets=0:1'::histogram;
SELECT 'sum_ns=1 min_ns=2 max_ns=1 clamped=0/0 buckets=0:1'::histogram;
SELECT 'sum_ns=1 min_ns=1 max_ns=1 clamped=0/0 buckets=3:1'::histogram;
SELECT 'sum_ns=1 min_ns=1 max_ns=1 clamped=2/0 buckets=0:1'::histogram;
SELECT quantile(histogram('{1000}'::bigint[]), 1.5);
SELECT quantile(histogram('{1000}'::bigint[]), 'NaN');
SELECT histogram('{-1}'::bigint[]);
SELECT histogram('{1000}'::bigint[]) - histogram('{7000}'::bigint[]);
