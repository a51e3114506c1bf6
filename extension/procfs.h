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

#endif							/* CONNBENCH_PROCFS_H */
