/*
 * report.c
 *		Progress on stderr and the final table on stdout.
 *
 * Runs in the main thread.  A number that was not measured is "-", never 0.
 */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failure.h"

/* ------------------------------------------------------------------------
 * Adding up
 * ------------------------------------------------------------------------
 */

void
cb_summary_init(cb_summary *s)
{
	memset(s, 0, sizeof(*s));
	s->target_backends_max = CB_UNKNOWN;
	s->processes_max = CB_UNKNOWN;
	cb_histogram_init(&s->latency);
	cb_histogram_init(&s->connect);
}

static int64_t
max_known(int64_t a, int64_t b)
{
	return a > b ? a : b;		/* CB_UNKNOWN is less than any number */
}

void
cb_summary_add(cb_summary *s, const cb_round *r)
{
	s->rounds++;
	s->window_ns += r->window_ns;
	s->attempted += r->attempted;
	s->succeeded += r->succeeded;
	s->failed += r->failed;
	s->abandoned += r->abandoned;
	s->target_backends_max = max_known(s->target_backends_max, r->target_backends_max);
	s->processes_max = max_known(s->processes_max, r->processes_max);
	cb_histogram_add(&s->latency, &r->measure[CB_MEASURE_LATENCY]);
	cb_histogram_add(&s->connect, &r->measure[CB_MEASURE_CONNECT]);
}

/* ------------------------------------------------------------------------
 * Progress
 * ------------------------------------------------------------------------
 */

void
cb_report_progress(const char *line)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s", line);
	else if (line[0] != '\0')
		fprintf(stderr, "%s\n", line);
	fflush(stderr);
}

/* ------------------------------------------------------------------------
 * The table
 * ------------------------------------------------------------------------
 */

#define COLUMNS	16

typedef struct Cell
{
	char		text[48];
} Cell;

static const char *const headings[2][COLUMNS] = {
	{"target", "mode", "clients", "tps", "latency", "latency", "latency", "latency",
	"connect", "connect", "backends", "processes", "attempted", "succeeded", "failed", "abandoned"},
	{"", "", "", "", "mean ms", "p50 ms", "p95 ms", "p99 ms",
	"mean ms", "p95 ms", "max", "max", "", "", "", ""},
};

static void
put_ms(Cell *cell, const cb_histogram *h, double ns)
{
	if (cb_histogram_count(h) == 0)
		snprintf(cell->text, sizeof(cell->text), "-");
	else
		snprintf(cell->text, sizeof(cell->text), "%.*f", ns < 1e8 ? 3 : 1, ns / 1e6);
}

static void
put_quantile(Cell *cell, const cb_histogram *h, double q)
{
	put_ms(cell, h, (double) cb_histogram_quantile(h, q));
}

static void
put_count(Cell *cell, int64_t n)
{
	if (n == CB_UNKNOWN)
		snprintf(cell->text, sizeof(cell->text), "-");
	else
		snprintf(cell->text, sizeof(cell->text), "%" PRId64, n);
}

static void
fill_row(Cell *row, const cb_run *run, const cb_scenario *scenario, const cb_summary *s)
{
	const cb_target *target = &run->target[scenario->target];

	snprintf(row[0].text, sizeof(row[0].text), "%s%s", target->name,
			 target->not_comparable != NULL ? " (!)" : "");
	snprintf(row[1].text, sizeof(row[1].text), "%s", cb_mode_name(scenario->mode));
	put_count(&row[2], scenario->clients);
	if (s->window_ns == 0)
		snprintf(row[3].text, sizeof(row[3].text), "-");
	else
		snprintf(row[3].text, sizeof(row[3].text), "%.1f",
				 (double) s->succeeded / ((double) s->window_ns / 1e9));
	put_ms(&row[4], &s->latency, cb_histogram_mean(&s->latency));
	put_quantile(&row[5], &s->latency, 0.50);
	put_quantile(&row[6], &s->latency, 0.95);
	put_quantile(&row[7], &s->latency, 0.99);
	put_ms(&row[8], &s->connect, cb_histogram_mean(&s->connect));
	put_quantile(&row[9], &s->connect, 0.95);
	put_count(&row[10], s->target_backends_max);
	put_count(&row[11], s->processes_max);
	put_count(&row[12], s->attempted);
	put_count(&row[13], s->succeeded);
	put_count(&row[14], s->failed);
	put_count(&row[15], s->abandoned);
}

static void
print_row(const Cell *row, const int *width)
{
	for (int c = 0; c < COLUMNS; c++)
	{
		if (c < 2)
			printf("%-*s", width[c], row[c].text);
		else
			printf("  %*s", width[c], row[c].text);
		if (c == 0)
			printf("  ");
	}
	putchar('\n');
}

void
cb_report_table(const cb_run *run, const cb_summary *summary)
{
	int			nrows = run->nscenarios + 2;
	Cell	  (*rows)[COLUMNS] = calloc((size_t) nrows, sizeof(*rows));
	int			width[COLUMNS] = {0};

	if (rows == NULL)
		return;
	for (int h = 0; h < 2; h++)
	{
		for (int c = 0; c < COLUMNS; c++)
			snprintf(rows[h][c].text, sizeof(rows[h][c].text), "%s", headings[h][c]);
	}
	for (int i = 0; i < run->nscenarios; i++)
		fill_row(rows[i + 2], run, &run->scenario[i], &summary[i]);
	for (int r = 0; r < nrows; r++)
	{
		for (int c = 0; c < COLUMNS; c++)
		{
			int			len = (int) strlen(rows[r][c].text);

			if (len > width[c])
				width[c] = len;
		}
	}
	for (int r = 0; r < nrows; r++)
		print_row(rows[r], width);
	free(rows);
}

void
cb_report_failures(const cb_run *run, const cb_round *round, int nrounds)
{
	for (int s = 0; s < run->nscenarios; s++)
	{
		cb_failures all = {0};

		for (int r = 0; r < nrounds; r++)
		{
			if (round[r].scenario != s)
				continue;
			for (int f = 0; f < round[r].nfailures; f++)
			{
				const cb_failure *failure = &round[r].failure[f];
				cb_cause	cause = {.failure_class = failure->failure_class,.sys_errno = failure->sys_errno};

				memcpy(cause.sqlstate, failure->sqlstate, sizeof(cause.sqlstate));
				snprintf(cause.message, sizeof(cause.message), "%s", failure->first_message);
				cb_failures_count(&all, &cause, failure->phase, failure->count);
			}
		}
		for (int f = 0; f < all.n; f++)
		{
			const cb_failure *failure = &all.failure[f];

			printf("failed: %s, %s, %d clients: %" PRId64 " x %s%s%s in phase %s: %s\n",
				   run->target[run->scenario[s].target].name,
				   cb_mode_name(run->scenario[s].mode), run->scenario[s].clients,
				   failure->count, failure->failure_class,
				   failure->sqlstate[0] != '\0' ? " " : "", failure->sqlstate,
				   failure->phase, failure->first_message);
		}
	}
}
