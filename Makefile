# connbench: the extension by PGXS, and the load generator beside it
#
#   make                builds connbench.so and loadgen/connbench
#   make install        installs both into the PostgreSQL that pg_config names
#   make installcheck   regression tests on a running server
#
# PG_CONFIG=... chooses the PostgreSQL; COPT=-Werror makes warnings errors.

MODULE_big = connbench
OBJS = \
	$(WIN32RES) \
	common/histogram.o \
	extension/census.o \
	extension/connbench.o \
	extension/connection.o \
	extension/departures.o \
	extension/forks.o \
	extension/histogram_type.o \
	extension/ledger.o \
	extension/procfs.o \
	extension/rejections.o \
	extension/ring.o \
	extension/session.o \
	extension/sql_functions.o \
	extension/statfile.o \
	extension/statfile_format.o \
	extension/timeline.o
PGFILEDESC = "connbench - what connections cost"

EXTENSION = connbench
DATA_built = extension/connbench--1.0.sql
SQL_PARTS = extension/sql/histogram.sql extension/sql/live.sql \
	extension/sql/results.sql

REGRESS = histogram results live

PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare
SHLIB_LINK = -lm
EXTRA_CLEAN = extension/connbench--1.0.sql

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(wildcard extension/*.h common/*.h)

extension/connbench--1.0.sql: $(SQL_PARTS)
	{ printf '%s\n' '\echo Use "CREATE EXTENSION connbench" to load this file. \quit'; cat $(SQL_PARTS); } > $@

LOADGEN = $(MAKE) -C loadgen PG_CONFIG='$(PG_CONFIG)' COPT='$(COPT)'

all: loadgen-all
install: loadgen-install
clean: loadgen-clean

# a static pattern: make looks for no implicit rule for a phony target
loadgen-all loadgen-install loadgen-clean: loadgen-%:
	$(LOADGEN) $*

.PHONY: loadgen-all loadgen-install loadgen-clean
