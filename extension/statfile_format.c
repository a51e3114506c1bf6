/*
 * statfile_format.c
 *		Checks the content of a saved ledger.
 *
 * Runs in the postmaster, through statfile.c, and in t/unit, where it is given
 * thousands of damaged files.  So there is nothing of the backend in it: no
 * memory contexts, no ereport.
 */
#include "c.h"

#include "statfile_format.h"

Size
cb_statfile_size(const cb_statfile_header *header, uint32 rows)
{
	return (Size) header->header_size + header->image_size +
		(Size) rows * header->row_size + sizeof(pg_crc32c);
}

static bool
crc_is_right(const char *content, Size size)
{
	pg_crc32c	crc;
	pg_crc32c	stored;

	memcpy(&stored, content + size - sizeof(stored), sizeof(stored));
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, content, size - sizeof(stored));
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, stored);
}

const char *
cb_statfile_objection(const char *content, Size size, const cb_statfile_header *expected)
{
	cb_statfile_header header;

	if (size == 0)
		return "it is empty";
	if (size < sizeof(header))
		return "it is too short";
	memcpy(&header, content, sizeof(header));
	if (header.magic != expected->magic)
		return "it is not a file of connbench";
	if (header.format != expected->format ||
		header.header_size != expected->header_size ||
		header.image_size != expected->image_size ||
		header.row_size != expected->row_size || header.buckets != expected->buckets)
		return "it was written by another version of connbench";
	if (header.server_version != expected->server_version)
		return "it was written by another major version of PostgreSQL";
	if (header.system_identifier != expected->system_identifier)
		return "it is of another database cluster";
	if (header.rows > expected->rows || cb_statfile_size(expected, header.rows) != size)
		return "its length is wrong";
	if (!crc_is_right(content, size))
		return "its checksum is wrong";
	return NULL;
}
