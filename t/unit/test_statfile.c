/*
 * test_statfile.c
 *		extension/statfile_format against damaged files: none may be loaded.
 */
#include "c.h"

#include "unit.h"

#include "../../extension/statfile_format.h"

#define IMAGE_SIZE	10000
#define ROW_SIZE	20000
#define MAX_ROWS	5

static const cb_statfile_header ours = {
	.magic = CB_STATFILE_MAGIC,
	.format = CB_STATFILE_FORMAT,
	.server_version = 17,
	.header_size = sizeof(cb_statfile_header),
	.image_size = IMAGE_SIZE,
	.row_size = ROW_SIZE,
	.buckets = 1000,
	.rows = MAX_ROWS,
	.system_identifier = UINT64CONST(0x1122334455667788),
};

static char file[sizeof(cb_statfile_header) + IMAGE_SIZE + MAX_ROWS * ROW_SIZE + sizeof(pg_crc32c) + 1];

/* Puts the checksum where it belongs in a file of this size. */
static void
seal(Size size)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, file, size - sizeof(crc));
	FIN_CRC32C(crc);
	memcpy(file + size - sizeof(crc), &crc, sizeof(crc));
}

/* Makes a good file with this header and returns its size. */
static Size
make_file(cb_statfile_header header, uint32 rows)
{
	Size		size = cb_statfile_size(&ours, rows);

	header.rows = rows;
	for (Size i = 0; i < sizeof(file); i++)
		file[i] = (char) (i * 2654435761U >> 24);
	memcpy(file, &header, sizeof(header));
	seal(size);
	return size;
}

static const char *
objection(Size size)
{
	return cb_statfile_objection(file, size, &ours);
}

static void
a_good_file_is_loaded(void **state)
{
	(void) state;
	for (uint32 rows = 0; rows <= MAX_ROWS; rows++)
		assert_null(objection(make_file(ours, rows)));
}

static void
truncated_at_every_64th_byte(void **state)
{
	Size		size = make_file(ours, 3);

	(void) state;
	assert_string_equal(objection(0), "it is empty");
	for (Size cut = 64; cut < size; cut += 64)
		assert_string_equal(objection(cut), "its length is wrong");
	for (Size cut = 1; cut < sizeof(ours); cut++)
		assert_string_equal(objection(cut), "it is too short");
	assert_string_equal(objection(size - 1), "its length is wrong");
	assert_string_equal(objection(size + 1), "its length is wrong");
}

/* A file that ends early and has a checksum that fits is no better. */
static void
truncated_and_sealed(void **state)
{
	(void) state;
	make_file(ours, 3);
	seal(4096);
	assert_string_equal(objection(4096), "its length is wrong");
}

static void
each_bit_of_the_header_flipped(void **state)
{
	Size		size = make_file(ours, 2);

	(void) state;
	for (Size bit = 0; bit < 8 * sizeof(ours); bit++)
	{
		file[bit / 8] ^= 1 << (bit % 8);
		assert_non_null(objection(size));
		file[bit / 8] ^= 1 << (bit % 8);
	}
	assert_null(objection(size));
}

/* Every 37th bit, so that each of the eight of a byte has its turn. */
static void
bits_of_the_payload_and_the_checksum_flipped(void **state)
{
	Size		size = make_file(ours, 2);

	(void) state;
	for (Size bit = 8 * sizeof(ours); bit < 8 * size; bit += bit < 8 * (size - 64) ? 37 : 1)
	{
		file[bit / 8] ^= 1 << (bit % 8);
		assert_string_equal(objection(size), "its checksum is wrong");
		file[bit / 8] ^= 1 << (bit % 8);
	}
	assert_null(objection(size));
}

/* Files that are whole, but not for this server: the checksum is right. */
static void
whole_but_not_ours(void **state)
{
	cb_statfile_header header = ours;

	(void) state;
	header.magic++;
	assert_string_equal(objection(make_file(header, 1)), "it is not a file of connbench");
	header = ours;
	header.format++;
	assert_string_equal(objection(make_file(header, 1)), "it was written by another version of connbench");
	header = ours;
	header.row_size += 8;
	assert_string_equal(objection(make_file(header, 1)), "it was written by another version of connbench");
	header = ours;
	header.buckets++;
	assert_string_equal(objection(make_file(header, 1)), "it was written by another version of connbench");
	header = ours;
	header.server_version++;
	assert_string_equal(objection(make_file(header, 1)), "it was written by another major version of PostgreSQL");
	header = ours;
	header.system_identifier++;
	assert_string_equal(objection(make_file(header, 1)), "it is of another database cluster");
}

/* Only the number of rows is out of range; it must not be multiplied. */
static void
more_rows_than_there_can_be(void **state)
{
	cb_statfile_header header = ours;
	Size		size = make_file(ours, MAX_ROWS);

	(void) state;
	header.rows = MAX_ROWS + 1;
	memcpy(file, &header, sizeof(header));
	seal(size);
	assert_string_equal(objection(size), "its length is wrong");
	header.rows = PG_UINT32_MAX;
	memcpy(file, &header, sizeof(header));
	seal(size);
	assert_string_equal(objection(size), "its length is wrong");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_file_is_loaded),
		cmocka_unit_test(truncated_at_every_64th_byte),
		cmocka_unit_test(truncated_and_sealed),
		cmocka_unit_test(each_bit_of_the_header_flipped),
		cmocka_unit_test(bits_of_the_payload_and_the_checksum_flipped),
		cmocka_unit_test(whole_but_not_ours),
		cmocka_unit_test(more_rows_than_there_can_be),
	};

	return cmocka_run_group_tests_name("statfile", tests, NULL, NULL);
}
