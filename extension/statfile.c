/*
 * statfile.c
 *		Saves the ledger when the server shuts down in good order, and loads it
 *		when it starts.
 *
 * Runs in the postmaster only: at start before any child exists, and at exit
 * after the last one has gone.  An error here would keep the server from
 * starting, so there is none: what is wrong with a file goes to the log in one
 * line, the file is set aside under another name, and counting starts anew.
 *
 * The file is read whole and checked whole before anything of it is used:
 * identity (this format, server version, cluster, sizes of records), length,
 * and a CRC over all of it.  It is removed once it is loaded, so that neither
 * a crash nor a base backup can bring old figures back.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

#include "compat.h"
#include "ledger.h"
#include "statfile.h"
#include "statfile_format.h"

#define STAT_FILE		PGSTAT_STAT_PERMANENT_DIRECTORY "/connbench.stat"
#define TEMPORARY_FILE	STAT_FILE ".tmp"
#define BAD_FILE		STAT_FILE ".bad"

bool		cb_save = true;

static cb_statfile_header
make_header(uint32 rows)
{
	cb_statfile_header header = {
		.magic = CB_STATFILE_MAGIC,
		.format = CB_STATFILE_FORMAT,
		.server_version = cb_server_major(),
		.header_size = sizeof(cb_statfile_header),
		.image_size = sizeof(cb_ledger_image),
		.row_size = sizeof(cb_ledger_row),
		.buckets = CB_HISTOGRAM_BUCKETS,
		.rows = rows,
		.system_identifier = GetSystemIdentifier(),
	};

	return header;
}

/* ------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------
 */

static void
restore(const char *content)
{
	const char *p = content + sizeof(cb_statfile_header);
	cb_ledger_image *image = palloc(sizeof(cb_ledger_image));
	cb_ledger_row *row = palloc(sizeof(cb_ledger_row));
	uint32		rows = ((const cb_statfile_header *) content)->rows;
	uint32		without_room = 0;

	memcpy(image, p, sizeof(*image));
	cb_ledger_restore_image(image);
	p += sizeof(*image);
	for (uint32 i = 0; i < rows; i++)
	{
		memcpy(row, p, sizeof(*row));
		if (!cb_ledger_restore_row(row))
			without_room++;
		p += sizeof(*row);
	}
	if (without_room > 0)
		ereport(LOG,
				(errmsg("connbench counts %u saved keys in the row \"other\"", without_room),
				 errhint("\"connbench.max_keys\" is smaller than it was.")));
	pfree(row);
	pfree(image);
}

/* Returns NULL when the file was loaded, or the reason why it was not. */
static const char *
load(FILE *file)
{
	cb_statfile_header expected = make_header(CB_MAX_KEYS_LIMIT + 1);
	struct stat st;
	const char *reason;
	char	   *content;

	if (fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode))
		return "it is not a regular file";
	if (st.st_size > (off_t) cb_statfile_size(&expected, expected.rows))
		return "it is too long";
	content = MemoryContextAllocExtended(CurrentMemoryContext, st.st_size + 1,
										 MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (content == NULL)
		return "there is no memory to read it";
	if (fread(content, 1, st.st_size, file) != (size_t) st.st_size)
		reason = "it could not be read";
	else
		reason = cb_statfile_objection(content, st.st_size, &expected);
	if (reason == NULL)
		restore(content);
	pfree(content);
	return reason;
}

static void
set_aside(const char *reason)
{
	(void) rename(STAT_FILE, BAD_FILE);
	ereport(LOG,
			(errmsg("connbench ignored file \"%s\" and counts anew: %s", STAT_FILE, reason),
			 errdetail("The file was set aside as \"%s\".", BAD_FILE)));
}

static void
load_saved(void)
{
	FILE	   *file = AllocateFile(STAT_FILE, PG_BINARY_R);
	const char *reason;

	if (file == NULL)
	{
		if (errno != ENOENT)
			set_aside(errno == EACCES ? "it may not be read" : "it could not be opened");
		return;
	}
	reason = load(file);
	FreeFile(file);
	if (reason != NULL)
		set_aside(reason);
	else if (unlink(STAT_FILE) != 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not remove file \"%s\": %m", STAT_FILE)));
}

/* ------------------------------------------------------------------------
 * Saving
 * ------------------------------------------------------------------------
 */

typedef struct Writer
{
	FILE	   *file;
	pg_crc32c	crc;
	bool		ok;
} Writer;

static void
put(Writer *w, const void *data, Size size)
{
	COMP_CRC32C(w->crc, data, size);
	w->ok = w->ok && fwrite(data, 1, size, w->file) == size;
}

static uint32
count_rows(cb_ledger_row *row)
{
	uint32		rows = 0;

	for (int i = 0; i < cb_ledger_slots(); i++)
	{
		cb_ledger_read_slot(i, row);
		rows += row->in_use;
	}
	return rows;
}

static bool
write_content(FILE *file)
{
	Writer		w = {.file = file,.ok = true};
	cb_ledger_image *image = palloc0(sizeof(cb_ledger_image));
	cb_ledger_row *row = palloc0(sizeof(cb_ledger_row));
	cb_statfile_header header = make_header(count_rows(row));

	INIT_CRC32C(w.crc);
	put(&w, &header, sizeof(header));
	cb_ledger_read_image(image);
	put(&w, image, sizeof(*image));
	for (int i = 0; i < cb_ledger_slots(); i++)
	{
		cb_ledger_read_slot(i, row);
		if (row->in_use)
			put(&w, row, sizeof(*row));
	}
	FIN_CRC32C(w.crc);
	w.ok = w.ok && fwrite(&w.crc, 1, sizeof(w.crc), file) == sizeof(w.crc);
	pfree(row);
	pfree(image);
	return w.ok;
}

/*
 * Did the server end with a shutdown checkpoint?  The exit code does not tell:
 * it is 0 after an immediate shutdown, too, whose backends may have stopped
 * anywhere.
 */
static bool
shutdown_was_clean(void)
{
	ControlFileData control;
	FILE	   *file = AllocateFile(XLOG_CONTROL_FILE, PG_BINARY_R);
	bool		ok;

	if (file == NULL)
		return false;
	ok = fread(&control, 1, sizeof(control), file) == sizeof(control);
	FreeFile(file);
	return ok && (control.state == DB_SHUTDOWNED ||
				  control.state == DB_SHUTDOWNED_IN_RECOVERY);
}

static void
save_file(int code, Datum arg)
{
	FILE	   *file;
	bool		ok;

	if (code != 0 || !cb_save || !cb_ledger_is_attached() || !shutdown_was_clean())
		return;
	file = AllocateFile(TEMPORARY_FILE, PG_BINARY_W);
	ok = file != NULL && write_content(file);
	if (file != NULL && FreeFile(file) != 0)
		ok = false;
	if (ok)
		(void) durable_rename(TEMPORARY_FILE, STAT_FILE, LOG);
	else
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", TEMPORARY_FILE)));
		(void) unlink(TEMPORARY_FILE);
	}
}

void
cb_statfile_startup(void)
{
	on_shmem_exit(save_file, (Datum) 0);
	load_saved();
}
