/*
 * statfile.h
 *		Keeps the ledger across a clean restart; see statfile.c.
 */
#ifndef CONNBENCH_STATFILE_H
#define CONNBENCH_STATFILE_H

#include "postgres.h"

/* setting: write the file at shutdown */
extern bool cb_save;

/* In the postmaster, right after the ledger was made, while no child exists:
 * loads the file, if there is one, and arranges for it to be written. */
extern void cb_statfile_startup(void);

#endif							/* CONNBENCH_STATFILE_H */
