/*
 * host_facts.h
 *		What explains a result on the generator's side; see host_facts.c.
 */
#ifndef CONNBENCH_HOST_FACTS_H
#define CONNBENCH_HOST_FACTS_H

/* A malloc'd JSON object; facts that cannot be read are left out. */
extern char *cb_host_facts(void);

#endif							/* CONNBENCH_HOST_FACTS_H */
