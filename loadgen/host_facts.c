/*
 * host_facts.c
 *		Facts of the generator's host as JSON, stored with each run.
 *
 * Runs in the main thread before any load.  Reads /proc and /sys; what is not
 * there is left out, never guessed.
 */
#include "host_facts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* First line of a file, blanks and tabs squeezed; false if it is not there. */
static bool
first_line(const char *path, char *line, size_t size)
{
	FILE	   *f = fopen(path, "r");
	bool		ok = f != NULL && fgets(line, (int) size, f) != NULL;

	if (f != NULL)
		fclose(f);
	if (!ok)
		return false;
	line[strcspn(line, "\n")] = '\0';
	for (char *p = line; *p != '\0'; p++)
	{
		if (*p == '\t')
			*p = ' ';
	}
	return true;
}

/* Value of the first "name : value" line of a file such as /proc/cpuinfo. */
static bool
named_value(const char *path, const char *name, char *value, size_t size)
{
	FILE	   *f = fopen(path, "r");
	char		line[512];
	bool		found = false;

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
	{
		char	   *colon = strchr(line, ':');

		if (colon == NULL || strncmp(line, name, strlen(name)) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(value, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
		found = true;
	}
	if (f != NULL)
		fclose(f);
	return found;
}

static void
put_string(FILE *out, const char *key, const char *value)
{
	/* only the opening brace is there before the first member */
	fprintf(out, "%s\"%s\": \"", ftell(out) == 1 ? "" : ", ", key);
	for (const char *p = value; *p != '\0'; p++)
	{
		if (*p == '"' || *p == '\\')
			fputc('\\', out);
		/* control characters have no place in these facts */
		if ((unsigned char) *p >= 0x20)
			fputc(*p, out);
	}
	fputc('"', out);
}

char *
cb_host_facts(void)
{
	static const struct
	{
		const char *key;
		const char *path;
	}			files[] = {
		{"clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
		{"governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
		{"load_average_before", "/proc/loadavg"},
		{"ip_local_port_range", "/proc/sys/net/ipv4/ip_local_port_range"},
		{"tcp_tw_reuse", "/proc/sys/net/ipv4/tcp_tw_reuse"},
		{"tcp_max_tw_buckets", "/proc/sys/net/ipv4/tcp_max_tw_buckets"},
		{"tcp_syncookies", "/proc/sys/net/ipv4/tcp_syncookies"},
		{"somaxconn", "/proc/sys/net/core/somaxconn"},
		{"transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"},
	};
	char	   *json = NULL;
	size_t		size = 0;
	FILE	   *out = open_memstream(&json, &size);
	struct utsname uts;
	char		value[512];

	if (out == NULL)
		return NULL;
	fputc('{', out);
	if (uname(&uts) == 0)
	{
		put_string(out, "system", uts.sysname);
		put_string(out, "kernel", uts.release);
		put_string(out, "machine", uts.machine);
	}
	snprintf(value, sizeof(value), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	put_string(out, "cpus", value);
	if (named_value("/proc/cpuinfo", "model name", value, sizeof(value)))
		put_string(out, "cpu_model", value);
	if (named_value("/proc/meminfo", "MemTotal", value, sizeof(value)))
		put_string(out, "memory", value);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
	{
		if (first_line(files[i].path, value, sizeof(value)))
			put_string(out, files[i].key, value);
	}
	fputc('}', out);
	fclose(out);
	return json;
}
