/*
 * connbench.c
 *		Module entry point of the connbench extension: settings, hooks, worker.
 *
 * The map of the module:
 *
 *	timeline.c		takes the marks of a connection (fork ... ready)
 *	session.c		takes those after that (first query ... exit)
 *	departures.c	what becomes of connections that end before they are ready
 *	connection.c	phases from marks
 *	ledger.c		totals per key and gauges in shared memory
 *	rejections.c	... rejections and early leavers
 *	forks.c			... the postmaster's forks and what became of them
 *	ring.c			ring of the newest records in shared memory
 *	statfile.c		keeps the ledger across a clean restart
 *	census.c		worker that counts processes by kind and state
 *	procfs.c		what /proc tells
 *	sql_functions.c what SQL calls to read all that
 *	histogram_type.c the SQL type over common/histogram
 *	compat.h		differences between server versions
 *
 * Runs in the postmaster at start.  In a session that loads the library by
 * itself (CREATE EXTENSION without shared_preload_libraries) only the
 * settings come about, and the functions that need shared memory say so.
 */
#include "postgres.h"

#include <limits.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"

#include "census.h"
#include "compat.h"
#include "ledger.h"
#include "statfile.h"
#include "timeline.h"

CB_MODULE_MAGIC("connbench", "1.0");

PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type prev_shmem_request = NULL;
static shmem_startup_hook_type prev_shmem_startup = NULL;

static void
on_shmem_request(void)
{
	if (prev_shmem_request)
		prev_shmem_request();
	RequestAddinShmemSpace(cb_ledger_shmem_size());
	RequestAddinShmemSpace(cb_census_shmem_size());
}

/* Runs again after a crash: nothing may be registered from here. */
static void
on_shmem_startup(void)
{
	if (prev_shmem_startup)
		prev_shmem_startup();
	cb_ledger_shmem_init();
	cb_census_shmem_init();
	if (!IsUnderPostmaster)
	{
		cb_timeline_reset_fork_account();
		cb_statfile_startup();
		ereport(LOG,
				(errmsg("connbench: %zu kB of shared memory for %d keys, %d recent connections and an hour of samples",
						(cb_ledger_shmem_size() + cb_census_shmem_size() + 1023) / 1024,
						cb_max_keys, cb_max_recent)));
	}
}

/* Worker times below 50 ms would cost more than they tell. */
static bool
check_sample_interval(int *newval, void **extra, GucSource source)
{
	if (*newval == 0 || *newval >= 50)
		return true;
	GUC_check_errdetail("\"connbench.sample_interval\" must be 0, which turns sampling off, or at least 50 ms.");
	return false;
}

static void
define_settings(void)
{
	DefineCustomIntVariable("connbench.max_keys",
							"Sets how many combinations of database, role, transport and authentication method are told apart.",
							"Connections beyond that are counted in one row named \"other\".",
							&cb_max_keys, 64, 1, CB_MAX_KEYS_LIMIT,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("connbench.max_recent",
							"Sets how many of the last connections are kept with all their marks.",
							NULL,
							&cb_max_recent, 1024, 1, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("connbench.sample_interval",
							"Sets the time between two counts of the server's processes.",
							"0 turns sampling off.",
							&cb_sample_interval, 1000, 0, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS,
							check_sample_interval, NULL, NULL);
	DefineCustomBoolVariable("connbench.track_application_name",
							 "Tells connections apart by their application_name, too.",
							 "Off by default, since clients choose it: connbench.max_keys bounds how many are told apart.",
							 &cb_track_application_name, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("connbench.track_client_address",
							 "Tells connections apart by the client's address, too.",
							 NULL,
							 &cb_track_client_address, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("connbench.save",
							 "Keeps the ledger across a clean restart of the server.",
							 NULL,
							 &cb_save, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("connbench");
}

void
_PG_init(void)
{
	/* without the postmaster there is no ledger, and no use for settings of it */
	if (!process_shared_preload_libraries_in_progress)
		return;

	define_settings();

	/* single-user mode and pg_upgrade: no children that would be measured */
	if (!IsPostmasterEnvironment || IsBinaryUpgrade)
		return;

	prev_shmem_request = shmem_request_hook;
	shmem_request_hook = on_shmem_request;
	prev_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = on_shmem_startup;
	cb_timeline_install();
	cb_census_register_worker();
}
