/*
 * histogram_type.c
 *		The SQL type connbench.histogram over common/histogram.
 *
 * Runs in ordinary backends; needs no shared memory, so it works without
 * shared_preload_libraries.
 *
 * A value holds only the buckets that are not empty: their counts, then their
 * numbers in ascending order.  Text looks like
 *
 *		sum_ns=6000000 min_ns=1000000 max_ns=3000000 clamped=0/0 buckets=319:1,367:2
 *
 * and "empty".  Everything that comes from outside is checked, so a value
 * never contradicts itself.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "histogram_type.h"

#define FORMAT_VERSION	1

typedef struct StoredHistogram
{
	int32		vl_len_;		/* varlena header */
	uint16		version;
	uint16		nbuckets;
	uint64		sum_ns;
	uint64		min_ns;			/* 0 when empty */
	uint64		max_ns;
	uint64		clamped_low;
	uint64		clamped_high;
	uint64		count[FLEXIBLE_ARRAY_MEMBER];	/* nbuckets of these, ... */
	/* ... then nbuckets of uint16: which bucket each is */
} StoredHistogram;

PG_FUNCTION_INFO_V1(connbench_histogram_in);
PG_FUNCTION_INFO_V1(connbench_histogram_out);
PG_FUNCTION_INFO_V1(connbench_histogram_recv);
PG_FUNCTION_INFO_V1(connbench_histogram_send);
PG_FUNCTION_INFO_V1(connbench_histogram_from_array);
PG_FUNCTION_INFO_V1(connbench_histogram_count);
PG_FUNCTION_INFO_V1(connbench_histogram_clamped);
PG_FUNCTION_INFO_V1(connbench_histogram_min);
PG_FUNCTION_INFO_V1(connbench_histogram_max);
PG_FUNCTION_INFO_V1(connbench_histogram_mean);
PG_FUNCTION_INFO_V1(connbench_histogram_quantile);
PG_FUNCTION_INFO_V1(connbench_histogram_eq);
PG_FUNCTION_INFO_V1(connbench_histogram_add);
PG_FUNCTION_INFO_V1(connbench_histogram_subtract);
PG_FUNCTION_INFO_V1(connbench_histogram_buckets);
PG_FUNCTION_INFO_V1(connbench_histogram_merge_step);
PG_FUNCTION_INFO_V1(connbench_histogram_merge_combine);
PG_FUNCTION_INFO_V1(connbench_histogram_merge_serialize);
PG_FUNCTION_INFO_V1(connbench_histogram_merge_deserialize);
PG_FUNCTION_INFO_V1(connbench_histogram_merge_final);

/* ------------------------------------------------------------------------
 * Stored form
 * ------------------------------------------------------------------------
 */

static uint16 *
bucket_numbers(StoredHistogram *stored)
{
	return (uint16 *) &stored->count[stored->nbuckets];
}

static int
first_bucket(const cb_histogram *h)
{
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
	{
		if (h->bucket[i] > 0)
			return i;
	}
	return -1;
}

static int
last_bucket(const cb_histogram *h)
{
	for (int i = CB_HISTOGRAM_BUCKETS - 1; i >= 0; i--)
	{
		if (h->bucket[i] > 0)
			return i;
	}
	return -1;
}

Datum
cb_histogram_to_datum(const cb_histogram *h)
{
	int			first = first_bucket(h);
	int			last = last_bucket(h);
	int			nbuckets = 0;
	Size		size;
	StoredHistogram *stored;
	uint16	   *numbers;

	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
		nbuckets += (h->bucket[i] > 0);

	size = offsetof(StoredHistogram, count) + nbuckets * (sizeof(uint64) + sizeof(uint16));
	stored = palloc0(size);
	SET_VARSIZE(stored, size);
	stored->version = FORMAT_VERSION;
	stored->nbuckets = nbuckets;
	if (nbuckets == 0)
		PG_RETURN_POINTER(stored);

	stored->sum_ns = h->sum_ns;
	stored->min_ns = cb_histogram_bucket_of(h->min_ns) == first ?
		h->min_ns : cb_histogram_bucket_low(first);
	stored->max_ns = cb_histogram_bucket_of(h->max_ns) == last ?
		h->max_ns : cb_histogram_bucket_low(last + 1) - 1;
	stored->clamped_low = Min(h->clamped_low, h->bucket[0]);
	stored->clamped_high = Min(h->clamped_high, h->bucket[CB_HISTOGRAM_BUCKETS - 1]);

	numbers = bucket_numbers(stored);
	nbuckets = 0;
	for (int i = first; i <= last; i++)
	{
		if (h->bucket[i] == 0)
			continue;
		stored->count[nbuckets] = h->bucket[i];
		numbers[nbuckets] = i;
		nbuckets++;
	}
	PG_RETURN_POINTER(stored);
}

void
cb_histogram_from_datum(Datum datum, cb_histogram *h)
{
	StoredHistogram *stored = (StoredHistogram *) PG_DETOAST_DATUM(datum);
	uint16	   *numbers = bucket_numbers(stored);

	if (stored->version != FORMAT_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("histogram has format %d where %d is known",
						stored->version, FORMAT_VERSION)));

	cb_histogram_init(h);
	if (stored->nbuckets == 0)
		return;
	h->sum_ns = stored->sum_ns;
	h->min_ns = stored->min_ns;
	h->max_ns = stored->max_ns;
	h->clamped_low = stored->clamped_low;
	h->clamped_high = stored->clamped_high;
	for (int i = 0; i < stored->nbuckets; i++)
		h->bucket[numbers[i]] = stored->count[i];
}

static cb_histogram *
get_arg(Datum datum)
{
	cb_histogram *h = palloc(sizeof(cb_histogram));

	cb_histogram_from_datum(datum, h);
	return h;
}

#define PG_GETARG_HISTOGRAM(n)	get_arg(PG_GETARG_DATUM(n))

/*
 * What is wrong with a histogram that came from outside, or NULL.  Extremes
 * must lie in the outermost buckets; clamped values are in those, too.
 */
static const char *
contradiction(const cb_histogram *h)
{
	int			first = first_bucket(h);

	if (first < 0)
		return "It has no values.";
	if (h->min_ns > h->max_ns)
		return "The minimum is larger than the maximum.";
	if (cb_histogram_bucket_of(h->min_ns) != first)
		return "The minimum is not in the first bucket.";
	if (cb_histogram_bucket_of(h->max_ns) != last_bucket(h))
		return "The maximum is not in the last bucket.";
	if (h->clamped_low > h->bucket[0] ||
		h->clamped_high > h->bucket[CB_HISTOGRAM_BUCKETS - 1])
		return "More values are clamped than are in the outermost buckets.";
	return NULL;
}

/* ------------------------------------------------------------------------
 * Text
 * ------------------------------------------------------------------------
 */

static bool
take_literal(const char **p, const char *literal)
{
	size_t		len = strlen(literal);

	if (strncmp(*p, literal, len) != 0)
		return false;
	*p += len;
	return true;
}

/* Digits only: no sign, no blank; false also when it does not fit. */
static bool
take_uint64(const char **p, uint64 *value)
{
	const char *start = *p;

	*value = 0;
	for (; **p >= '0' && **p <= '9'; (*p)++)
	{
		uint64		digit = **p - '0';

		if (*value > (PG_UINT64_MAX - digit) / 10)
			return false;
		*value = *value * 10 + digit;
	}
	return *p > start;
}

static bool
take_buckets(const char **p, cb_histogram *h)
{
	uint64		previous = 0;
	uint64		number;
	uint64		count;
	bool		any = false;

	do
	{
		if (!take_uint64(p, &number) || !take_literal(p, ":") ||
			!take_uint64(p, &count))
			return false;
		if (number >= CB_HISTOGRAM_BUCKETS || count == 0 || count > PG_INT64_MAX / CB_HISTOGRAM_BUCKETS ||
			(any && number <= previous))
			return false;
		h->bucket[number] = count;
		previous = number;
		any = true;
	} while (take_literal(p, ","));
	return true;
}

static bool
parse_text(const char *text, cb_histogram *h)
{
	const char *p = text;

	cb_histogram_init(h);
	if (strcmp(text, "empty") == 0)
		return true;
	return take_literal(&p, "sum_ns=") && take_uint64(&p, &h->sum_ns) &&
		take_literal(&p, " min_ns=") && take_uint64(&p, &h->min_ns) &&
		take_literal(&p, " max_ns=") && take_uint64(&p, &h->max_ns) &&
		take_literal(&p, " clamped=") && take_uint64(&p, &h->clamped_low) &&
		take_literal(&p, "/") && take_uint64(&p, &h->clamped_high) &&
		take_literal(&p, " buckets=") && take_buckets(&p, h) && *p == '\0';
}

Datum
connbench_histogram_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);
	cb_histogram *h = palloc(sizeof(cb_histogram));
	const char *wrong;

	if (!parse_text(text, h))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s: \"%s\"", "histogram", text),
				 errdetail("Expected \"empty\" or \"sum_ns=N min_ns=N max_ns=N clamped=N/N buckets=NUMBER:COUNT,...\", with bucket numbers ascending.")));
	wrong = first_bucket(h) < 0 ? NULL : contradiction(h);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("histogram contradicts itself"),
				 errdetail("%s", wrong)));
	return cb_histogram_to_datum(h);
}

Datum
connbench_histogram_out(PG_FUNCTION_ARGS)
{
	cb_histogram *h = PG_GETARG_HISTOGRAM(0);
	StringInfoData buf;
	const char *separator = "";

	initStringInfo(&buf);
	if (first_bucket(h) < 0)
		appendStringInfoString(&buf, "empty");
	else
	{
		appendStringInfo(&buf, "sum_ns=" UINT64_FORMAT " min_ns=" UINT64_FORMAT
						 " max_ns=" UINT64_FORMAT " clamped=" UINT64_FORMAT "/" UINT64_FORMAT
						 " buckets=",
						 h->sum_ns, h->min_ns, h->max_ns, h->clamped_low, h->clamped_high);
		for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
		{
			if (h->bucket[i] == 0)
				continue;
			appendStringInfo(&buf, "%s%d:" UINT64_FORMAT, separator, i, h->bucket[i]);
			separator = ",";
		}
	}
	PG_RETURN_CSTRING(buf.data);
}

/* ------------------------------------------------------------------------
 * Binary: version, number of buckets, sum, min, max, clamped low and high,
 * then number (2 bytes) and count (8 bytes) of each bucket
 * ------------------------------------------------------------------------
 */

static void
refuse_binary(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
			 errmsg("invalid binary representation of a histogram"),
			 errdetail("%s", detail)));
}

Datum
connbench_histogram_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	cb_histogram *h = palloc(sizeof(cb_histogram));
	int			nbuckets;
	int			previous = -1;
	const char *wrong;

	cb_histogram_init(h);
	if (pq_getmsgint(buf, 2) != FORMAT_VERSION)
		refuse_binary("The format is not known.");
	nbuckets = pq_getmsgint(buf, 2);
	if (nbuckets > CB_HISTOGRAM_BUCKETS)
		refuse_binary("There are too many buckets.");
	h->sum_ns = pq_getmsgint64(buf);
	h->min_ns = pq_getmsgint64(buf);
	h->max_ns = pq_getmsgint64(buf);
	h->clamped_low = pq_getmsgint64(buf);
	h->clamped_high = pq_getmsgint64(buf);
	for (int i = 0; i < nbuckets; i++)
	{
		int			number = pq_getmsgint(buf, 2);
		int64		count = pq_getmsgint64(buf);

		if (number <= previous || number >= CB_HISTOGRAM_BUCKETS)
			refuse_binary("Bucket numbers are not ascending.");
		if (count <= 0 || count > PG_INT64_MAX / CB_HISTOGRAM_BUCKETS)
			refuse_binary("The count of a bucket is out of range.");
		h->bucket[number] = count;
		previous = number;
	}
	wrong = nbuckets == 0 ? NULL : contradiction(h);
	if (wrong != NULL)
		refuse_binary(wrong);
	return cb_histogram_to_datum(h);
}

Datum
connbench_histogram_send(PG_FUNCTION_ARGS)
{
	StoredHistogram *stored = (StoredHistogram *) PG_DETOAST_DATUM(PG_GETARG_DATUM(0));
	uint16	   *numbers = bucket_numbers(stored);
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint16(&buf, stored->version);
	pq_sendint16(&buf, stored->nbuckets);
	pq_sendint64(&buf, stored->sum_ns);
	pq_sendint64(&buf, stored->min_ns);
	pq_sendint64(&buf, stored->max_ns);
	pq_sendint64(&buf, stored->clamped_low);
	pq_sendint64(&buf, stored->clamped_high);
	for (int i = 0; i < stored->nbuckets; i++)
	{
		pq_sendint16(&buf, numbers[i]);
		pq_sendint64(&buf, stored->count[i]);
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

/* ------------------------------------------------------------------------
 * Making and reading
 * ------------------------------------------------------------------------
 */

/* histogram(bigint[]): of durations in nanoseconds; NULLs are passed over */
Datum
connbench_histogram_from_array(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	cb_histogram *h = palloc(sizeof(cb_histogram));
	ArrayIterator iterator = array_create_iterator(array, 0, NULL);
	Datum		value;
	bool		isnull;

	cb_histogram_init(h);
	while (array_iterate(iterator, &value, &isnull))
	{
		if (isnull)
			continue;
		if (DatumGetInt64(value) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("a duration cannot be negative")));
		cb_histogram_record(h, (uint64) DatumGetInt64(value));
	}
	return cb_histogram_to_datum(h);
}

Datum
connbench_histogram_count(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(cb_histogram_count(PG_GETARG_HISTOGRAM(0)));
}

Datum
connbench_histogram_clamped(PG_FUNCTION_ARGS)
{
	cb_histogram *h = PG_GETARG_HISTOGRAM(0);

	PG_RETURN_INT64(h->clamped_low + h->clamped_high);
}

Datum
connbench_histogram_min(PG_FUNCTION_ARGS)
{
	cb_histogram *h = PG_GETARG_HISTOGRAM(0);

	if (first_bucket(h) < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(h->min_ns);
}

Datum
connbench_histogram_max(PG_FUNCTION_ARGS)
{
	cb_histogram *h = PG_GETARG_HISTOGRAM(0);

	if (first_bucket(h) < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(h->max_ns);
}

Datum
connbench_histogram_mean(PG_FUNCTION_ARGS)
{
	cb_histogram *h = PG_GETARG_HISTOGRAM(0);

	if (first_bucket(h) < 0)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(cb_histogram_mean(h));
}

Datum
connbench_histogram_quantile(PG_FUNCTION_ARGS)
{
	cb_histogram *h = PG_GETARG_HISTOGRAM(0);
	float8		q = PG_GETARG_FLOAT8(1);

	/* written so that a NaN is refused */
	if (!(q >= 0.0 && q <= 1.0))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("quantile %g is not between 0 and 1", q)));
	if (first_bucket(h) < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(cb_histogram_quantile(h, q));
}

Datum
connbench_histogram_buckets(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	cb_histogram *h = PG_GETARG_HISTOGRAM(0);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, false};

		if (h->bucket[i] == 0)
			continue;
		values[0] = Int64GetDatum(cb_histogram_bucket_low(i));
		values[1] = Int64GetDatum(cb_histogram_bucket_low(i + 1));
		values[2] = Int64GetDatum(h->bucket[i]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Arithmetic
 * ------------------------------------------------------------------------
 */

Datum
connbench_histogram_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(memcmp(PG_GETARG_HISTOGRAM(0), PG_GETARG_HISTOGRAM(1),
						  sizeof(cb_histogram)) == 0);
}

Datum
connbench_histogram_add(PG_FUNCTION_ARGS)
{
	cb_histogram *sum = PG_GETARG_HISTOGRAM(0);

	cb_histogram_add(sum, PG_GETARG_HISTOGRAM(1));
	return cb_histogram_to_datum(sum);
}

/* Of two snapshots of one histogram that grows: what came in between. */
Datum
connbench_histogram_subtract(PG_FUNCTION_ARGS)
{
	cb_histogram *later = PG_GETARG_HISTOGRAM(0);
	cb_histogram *earlier = PG_GETARG_HISTOGRAM(1);

	if (first_bucket(earlier) < 0)
		return cb_histogram_to_datum(later);
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
	{
		if (earlier->bucket[i] > later->bucket[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("cannot subtract a histogram that is not contained in the other"),
					 errdetail("The right one has more values in a bucket than the left one."),
					 errhint("Subtract the earlier of two snapshots from the later, with no reset between them.")));
		later->bucket[i] -= earlier->bucket[i];
	}
	later->sum_ns -= Min(earlier->sum_ns, later->sum_ns);
	later->clamped_low -= Min(earlier->clamped_low, later->clamped_low);
	later->clamped_high -= Min(earlier->clamped_high, later->clamped_high);
	cb_histogram_bound_extremes(later);
	return cb_histogram_to_datum(later);
}

/* ------------------------------------------------------------------------
 * The aggregate merge(histogram): NULL of nothing
 * ------------------------------------------------------------------------
 */

static cb_histogram *
new_state(FunctionCallInfo fcinfo)
{
	MemoryContext context;
	cb_histogram *state;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "aggregate function called in non-aggregate context");
	state = MemoryContextAlloc(context, sizeof(cb_histogram));
	cb_histogram_init(state);
	return state;
}

Datum
connbench_histogram_merge_step(PG_FUNCTION_ARGS)
{
	cb_histogram *state = PG_ARGISNULL(0) ? NULL : (cb_histogram *) PG_GETARG_POINTER(0);
	cb_histogram *value;

	if (PG_ARGISNULL(1))
	{
		if (state == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(state);
	}
	if (state == NULL)
		state = new_state(fcinfo);
	value = PG_GETARG_HISTOGRAM(1);
	cb_histogram_add(state, value);
	pfree(value);
	PG_RETURN_POINTER(state);
}

Datum
connbench_histogram_merge_combine(PG_FUNCTION_ARGS)
{
	cb_histogram *state = PG_ARGISNULL(0) ? NULL : (cb_histogram *) PG_GETARG_POINTER(0);

	if (PG_ARGISNULL(1))
	{
		if (state == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(state);
	}
	if (state == NULL)
		state = new_state(fcinfo);
	cb_histogram_add(state, (cb_histogram *) PG_GETARG_POINTER(1));
	PG_RETURN_POINTER(state);
}

/* The stored form travels between the workers of one server. */
Datum
connbench_histogram_merge_serialize(PG_FUNCTION_ARGS)
{
	return cb_histogram_to_datum((cb_histogram *) PG_GETARG_POINTER(0));
}

Datum
connbench_histogram_merge_deserialize(PG_FUNCTION_ARGS)
{
	cb_histogram *state = palloc(sizeof(cb_histogram));

	/* a copy, since a bytea may lie at an address that is not ours to use */
	cb_histogram_from_datum(PointerGetDatum(PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(0))),
							state);
	PG_RETURN_POINTER(state);
}

Datum
connbench_histogram_merge_final(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	return cb_histogram_to_datum((cb_histogram *) PG_GETARG_POINTER(0));
}
