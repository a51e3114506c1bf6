/*
 * procfs.h
 *		What /proc tells about the postmaster; see procfs.c.
 */
#ifndef CONNBENCH_PROCFS_H
#define CONNBENCH_PROCFS_H

#include "postgres.h"

/* Number of child processes of "pid"; -1 where /proc does not tell. */
extern int	cb_proc_children(int pid);

/* CPU time that a process itself has used, in us; -1: unknown. */
extern int64 cb_proc_cpu_us(int pid);

/* Memory of one process, in bytes; a field is -1 where it is unknown. */
typedef struct cb_memory
{
	int64		rss;			/* resident, shared buffers it touched included */
	int64		pss;			/* resident, shared pages by share */
	int64		unshared;		/* resident and in no other process */
	int64		page_tables;
} cb_memory;

/*
 * Costs milliseconds for a large process: the kernel walks its page tables.
 * Returns false if nothing at all could be read.
 */
extern bool cb_proc_memory(int pid, cb_memory *memory);

#endif							/* CONNBENCH_PROCFS_H */
