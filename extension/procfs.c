/*
 * procfs.c
 *		Reads what Linux tells of other processes under /proc.
 *
 * Runs in the census worker and in backends that read the views.  Where there
 * is no /proc, or it hides other processes, the answer is -1: unknown.
 */
#include "postgres.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "procfs.h"

/* Reads at most size - 1 bytes, as a string; false if it cannot be read. */
static bool
read_small_file(const char *path, char *buf, size_t size)
{
	int			fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t		len;

	if (fd < 0)
		return false;
	len = read(fd, buf, size - 1);
	close(fd);
	if (len < 0)
		return false;
	buf[len] = '\0';
	return true;
}

/* The fields of /proc/PID/stat after the command's name, which may contain
 * blanks and parentheses: so from the last parenthesis on. */
static const char *
stat_fields(int pid, char *buf, size_t size)
{
	char		path[64];
	const char *end_of_name;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!read_small_file(path, buf, size))
		return NULL;
	end_of_name = strrchr(buf, ')');
	return end_of_name == NULL ? NULL : end_of_name + 1;
}

int64
cb_proc_cpu_us(int pid)
{
	char		buf[1024];
	const char *fields = stat_fields(pid, buf, sizeof(buf));
	unsigned long user_ticks;
	unsigned long system_ticks;

	/* state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt */
	if (fields == NULL ||
		sscanf(fields, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			   &user_ticks, &system_ticks) != 2)
		return -1;
	return (int64) (user_ticks + system_ticks) * 1000000 / sysconf(_SC_CLK_TCK);
}

/* One file names all children where the kernel was built with it. */
static int
children_by_list(int pid)
{
	char		path[64];
	char		buf[8192];
	int			fd;
	ssize_t		len;
	int			n = 0;
	bool		in_number = false;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while ((len = read(fd, buf, sizeof(buf))) > 0)
	{
		for (ssize_t i = 0; i < len; i++)
		{
			bool		digit = isdigit((unsigned char) buf[i]) != 0;

			if (digit && !in_number)
				n++;
			in_number = digit;
		}
	}
	close(fd);
	return len < 0 ? -1 : n;
}

static int
children_by_scan(int pid)
{
	DIR		   *dir = opendir("/proc");
	struct dirent *entry;
	int			n = 0;

	if (dir == NULL)
		return -1;
	while ((entry = readdir(dir)) != NULL)
	{
		char		buf[1024];
		const char *fields;
		int			parent;

		if (!isdigit((unsigned char) entry->d_name[0]))
			continue;
		fields = stat_fields(atoi(entry->d_name), buf, sizeof(buf));
		if (fields != NULL && sscanf(fields, " %*c %d", &parent) == 1 &&
			parent == pid)
			n++;
	}
	closedir(dir);
	return n;
}

int
cb_proc_children(int pid)
{
	int			n = children_by_list(pid);

	if (n < 0)
		n = children_by_scan(pid);
	/* the caller is such a child: a /proc that hides it tells nothing */
	return n > 0 ? n : -1;
}

/*
 * Value in bytes of the line "Name:   123 kB"; -1 if there is none.  Names
 * are looked for at the start of a line only.
 */
static int64
kilobyte_line(const char *text, const char *name)
{
	size_t		len = strlen(name);

	for (const char *line = text; line != NULL && *line != '\0';)
	{
		long long	kb;

		if (strncmp(line, name, len) == 0 && line[len] == ':' &&
			sscanf(line + len + 1, "%lld kB", &kb) == 1)
			return (int64) kb * 1024;
		line = strchr(line, '\n');
		if (line != NULL)
			line++;
	}
	return -1;
}

static int64
sum_of_known(int64 a, int64 b)
{
	return (a < 0 || b < 0) ? -1 : a + b;
}

bool
cb_proc_memory(int pid, cb_memory *memory)
{
	char		path[64];
	char		text[8192];

	memory->rss = memory->pss = memory->unshared = memory->page_tables = -1;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	if (read_small_file(path, text, sizeof(text)))
	{
		memory->rss = kilobyte_line(text, "Rss");
		memory->pss = kilobyte_line(text, "Pss");
		memory->unshared = sum_of_known(kilobyte_line(text, "Private_Clean"),
										kilobyte_line(text, "Private_Dirty"));
	}
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (read_small_file(path, text, sizeof(text)))
		memory->page_tables = kilobyte_line(text, "VmPTE");

	return memory->pss >= 0 || memory->page_tables >= 0;
}
