/*
 * store.h
 *		The results database; see store.c.
 */
#ifndef CONNBENCH_STORE_H
#define CONNBENCH_STORE_H

#include "results.h"

typedef struct CbStore CbStore;

/*
 * Every function that takes "error" sets it to a malloc'd line when it fails
 * (returns NULL or false).
 */

/* Connects, within 10 s unless the conninfo says otherwise, and checks that
 * the extension is there. */
extern CbStore *cb_store_open(const char *conninfo, char **error);

/* Connects anew after a failure. */
extern bool cb_store_reconnect(CbStore *store, char **error);

/* system identifier of the results server; 0: not to be known */
extern uint64_t cb_store_system_identifier(CbStore *store);

/* process of this connection on the server, for observers to leave out */
extern int	cb_store_backend_pid(const CbStore *store);

/* Stores run and scenarios, in one transaction, and sets their db_id. */
extern bool cb_store_begin_run(CbStore *store, cb_run *run, char **error);

/* Stores one round with all that belongs to it, in one transaction; a round
 * that is there already is left as it is. */
extern bool cb_store_save_round(CbStore *store, const cb_run *run,
								const cb_round *round, char **error);

extern bool cb_store_finish_run(CbStore *store, const cb_run *run, char **error);

extern void cb_store_close(CbStore *store);

#endif							/* CONNBENCH_STORE_H */
