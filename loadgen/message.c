/*
 * message.c
 *		Messages to the user, and memory that is always there.
 *
 * Runs in the main thread.  The engine's threads allocate nothing once a
 * round has begun, and say nothing.
 */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
put_line(const char *kind, const char *format, va_list args)
{
	fprintf(stderr, "connbench: %s: ", kind);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

#define DEFINE_MESSAGE(function, kind) \
	void \
	function(const char *format, ...) \
	{ \
		va_list		args; \
		va_start(args, format); \
		put_line(kind, format, args); \
		va_end(args); \
	}

DEFINE_MESSAGE(cb_error, "error")
DEFINE_MESSAGE(cb_warning, "warning")
DEFINE_MESSAGE(cb_detail, "detail")
DEFINE_MESSAGE(cb_hint, "hint")

static void
out_of_memory(void)
{
	fputs("connbench: error: out of memory\n", stderr);
	exit(1);
}

char *
cb_format(const char *format, ...)
{
	va_list		args;
	char	   *text = NULL;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	va_end(args);
	return text;
}

void *
cb_alloc(unsigned long size)
{
	void	   *p = calloc(1, size);

	if (p == NULL)
		out_of_memory();
	return p;
}

char *
cb_strdup(const char *string)
{
	char	   *copy = strdup(string);

	if (copy == NULL)
		out_of_memory();
	return copy;
}
