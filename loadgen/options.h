/*
 * options.h
 *		What the user asked `connbench run` to do; see options.c.
 */
#ifndef CONNBENCH_OPTIONS_H
#define CONNBENCH_OPTIONS_H

#include "results.h"
#include "workload.h"

#define CB_MAX_COUNTS	64

typedef struct cb_options
{
	int			ntargets;
	cb_target	target[CB_MAX_TARGETS];
	int			ncounts;
	int			clients[CB_MAX_COUNTS];
	int			nmodes;
	cb_mode		mode[2];
	const cb_workload *workload;
	cb_protocol protocol;
	int			threads;
	int			rounds;
	double		duration_s;
	double		warmup_s;
	double		connect_timeout_s;
	uint64_t	seed;
	const char *results;		/* conninfo, or NULL */
	const char *server;			/* conninfo, or NULL */
	bool		compare_unlike;
	bool		quiet;
	double		progress_s;		/* 0: none */
} cb_options;

extern const char *cb_protocol_name(cb_protocol protocol);

/* Parses a list such as "10,50,100" of whole numbers from 1 on; returns how
 * many, or -1 if it is not such a list or longer than "max". */
extern int	cb_parse_counts(const char *list, int *counts, int max);

/* Says what is wrong and returns false; --help prints and ends the program. */
extern bool cb_options_parse(int argc, char **argv, cb_options *options);

extern void cb_run_usage(void);

#endif							/* CONNBENCH_OPTIONS_H */
