/*
 * Type histogram: durations in nanoseconds, log-linear, relative error of a
 * reported value at most 1/64 from 1 us to 4295 s.  Percentiles of any slice
 * come from merged histograms, never from averaged percentiles.
 */

GRANT USAGE ON SCHEMA @extschema@ TO PUBLIC;

CREATE TYPE histogram;

CREATE FUNCTION histogram_in(cstring) RETURNS histogram
AS 'MODULE_PATHNAME', 'connbench_histogram_in'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION histogram_out(histogram) RETURNS cstring
AS 'MODULE_PATHNAME', 'connbench_histogram_out'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION histogram_recv(internal) RETURNS histogram
AS 'MODULE_PATHNAME', 'connbench_histogram_recv'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION histogram_send(histogram) RETURNS bytea
AS 'MODULE_PATHNAME', 'connbench_histogram_send'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE histogram (
	INPUT = histogram_in,
	OUTPUT = histogram_out,
	RECEIVE = histogram_recv,
	SEND = histogram_send,
	ALIGNMENT = double,
	STORAGE = extended
);

COMMENT ON TYPE histogram IS 'log-linear histogram of durations in nanoseconds';

CREATE FUNCTION histogram(durations_ns bigint[]) RETURNS histogram
AS 'MODULE_PATHNAME', 'connbench_histogram_from_array'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION histogram(bigint[]) IS 'histogram of these durations in nanoseconds; NULLs are passed over';

CREATE FUNCTION count(histogram) RETURNS bigint
AS 'MODULE_PATHNAME', 'connbench_histogram_count'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION clamped(histogram) RETURNS bigint
AS 'MODULE_PATHNAME', 'connbench_histogram_clamped'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION clamped(histogram) IS 'values below 1 us or from 4295 s on, which are counted in the outermost buckets';

/* nanoseconds; NULL for an empty histogram */
CREATE FUNCTION min(histogram) RETURNS bigint
AS 'MODULE_PATHNAME', 'connbench_histogram_min'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION max(histogram) RETURNS bigint
AS 'MODULE_PATHNAME', 'connbench_histogram_max'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION mean(histogram) RETURNS float8
AS 'MODULE_PATHNAME', 'connbench_histogram_mean'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION quantile(histogram, q float8) RETURNS bigint
AS 'MODULE_PATHNAME', 'connbench_histogram_quantile'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION quantile(histogram, float8) IS 'value in nanoseconds at quantile q, 0 to 1; NULL for an empty histogram';

/* the same in milliseconds; pg_dump cannot write a body that names some of
 * its function's arguments only: so all have names */
CREATE FUNCTION min_ms(h histogram) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN min(h) / 1e6::float8;

CREATE FUNCTION max_ms(h histogram) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN max(h) / 1e6::float8;

CREATE FUNCTION mean_ms(h histogram) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN mean(h) / 1e6::float8;

CREATE FUNCTION quantile_ms(h histogram, q float8) RETURNS float8
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN quantile(h, q) / 1e6::float8;

CREATE FUNCTION buckets(histogram, OUT low_ns bigint, OUT high_ns bigint, OUT count bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'connbench_histogram_buckets'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 50;

COMMENT ON FUNCTION buckets(histogram) IS 'buckets that are not empty: low_ns <= value < high_ns';

CREATE FUNCTION histogram_eq(histogram, histogram) RETURNS boolean
AS 'MODULE_PATHNAME', 'connbench_histogram_eq'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR = (LEFTARG = histogram, RIGHTARG = histogram,
	FUNCTION = histogram_eq, COMMUTATOR = =);

CREATE FUNCTION histogram_add(histogram, histogram) RETURNS histogram
AS 'MODULE_PATHNAME', 'connbench_histogram_add'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE OPERATOR + (LEFTARG = histogram, RIGHTARG = histogram,
	FUNCTION = histogram_add, COMMUTATOR = +);

CREATE FUNCTION histogram_subtract(histogram, histogram) RETURNS histogram
AS 'MODULE_PATHNAME', 'connbench_histogram_subtract'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION histogram_subtract(histogram, histogram) IS
	'what came between two snapshots of one histogram; its min and max are bounds from the buckets';

CREATE OPERATOR - (LEFTARG = histogram, RIGHTARG = histogram,
	FUNCTION = histogram_subtract);

CREATE FUNCTION histogram_merge_step(internal, histogram) RETURNS internal
AS 'MODULE_PATHNAME', 'connbench_histogram_merge_step'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION histogram_merge_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'connbench_histogram_merge_combine'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION histogram_merge_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'connbench_histogram_merge_serialize'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION histogram_merge_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'connbench_histogram_merge_deserialize'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

CREATE FUNCTION histogram_merge_final(internal) RETURNS histogram
AS 'MODULE_PATHNAME', 'connbench_histogram_merge_final'
LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE merge(histogram) (
	SFUNC = histogram_merge_step,
	STYPE = internal,
	COMBINEFUNC = histogram_merge_combine,
	SERIALFUNC = histogram_merge_serialize,
	DESERIALFUNC = histogram_merge_deserialize,
	FINALFUNC = histogram_merge_final,
	PARALLEL = SAFE
);

COMMENT ON AGGREGATE merge(histogram) IS 'the histogram of all values of several histograms; NULL of none';

