/*
 * main.c
 *		The command connbench: finds the subcommand and calls it.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "message.h"
#include "ping.h"
#include "run.h"
#include "version.h"

static const struct
{
	const char *name;
	int			(*main) (int argc, char **argv);
}			commands[] = {
	{"ping", cb_ping_main},
	{"run", cb_run_main},
};

static void
usage(void)
{
	puts("connbench measures what PostgreSQL connections cost, and what a pooler would change.\n"
		 "\n"
		 "Usage:\n"
		 "  connbench ping [CONNINFO]                          connect a few times, show where the time goes\n"
		 "  connbench run --target NAME=CONNINFO [OPTION]...   generate load and compare targets\n"
		 "  connbench run --help                               all options, with an example\n"
		 "  connbench --version");
}

int
main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
	{
		if (strcmp(command, commands[i].name) == 0)
		{
			argv[1] = argv[0];	/* getopt's messages begin with it */
			return commands[i].main(argc - 1, argv + 1);
		}
	}
	if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 || strcmp(command, "-?") == 0)
	{
		usage();
		return 0;
	}
	if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0)
	{
		printf("connbench %s (libpq %d)\n", CONNBENCH_VERSION, PQlibVersion());
		return 0;
	}
	if (command[0] == '\0')
		cb_error("no command was given");
	else
		cb_error("unknown command \"%s\"", command);
	cb_hint("Try \"connbench --help\".");
	return 1;
}
