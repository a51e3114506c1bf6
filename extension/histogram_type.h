/*
 * histogram_type.h
 *		The SQL type connbench.histogram; see histogram_type.c.
 */
#ifndef CONNBENCH_HISTOGRAM_TYPE_H
#define CONNBENCH_HISTOGRAM_TYPE_H

#include "postgres.h"

#include "../common/histogram.h"

/*
 * A palloc'd value of the type.  The histogram may have been copied while
 * others wrote to it: extremes that lag behind the buckets are put right.
 */
extern Datum cb_histogram_to_datum(const cb_histogram *h);

extern void cb_histogram_from_datum(Datum datum, cb_histogram *h);

#endif							/* CONNBENCH_HISTOGRAM_TYPE_H */
