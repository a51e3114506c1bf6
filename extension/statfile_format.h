/*
 * statfile_format.h
 *		What the saved ledger looks like, and when it is fit to be loaded.
 *
 *	header | image | rows ... | CRC-32C of all that comes before it
 *
 * Records are written as they are in memory.  So the header says everything
 * that must be the same for them to mean the same: format, server version,
 * sizes, cluster.
 */
#ifndef CONNBENCH_STATFILE_FORMAT_H
#define CONNBENCH_STATFILE_FORMAT_H

#include "c.h"

#include "port/pg_crc32c.h"

#define CB_STATFILE_MAGIC	0x636f6e6e	/* "conn" */
#define CB_STATFILE_FORMAT	1

typedef struct cb_statfile_header
{
	uint32		magic;
	uint32		format;
	uint32		server_version; /* major */
	uint32		header_size;
	uint32		image_size;
	uint32		row_size;
	uint32		buckets;		/* of a histogram */
	uint32		rows;
	uint64		system_identifier;
} cb_statfile_header;

/* Bytes of a file with this many rows. */
extern Size cb_statfile_size(const cb_statfile_header *header, uint32 rows);

/*
 * Why this content, all of a file, must not be loaded, or NULL if it may.
 * "expected" is the header that this server would write, with the most rows
 * that there can be.
 */
extern const char *cb_statfile_objection(const char *content, Size size,
										 const cb_statfile_header *expected);

#endif							/* CONNBENCH_STATFILE_FORMAT_H */
