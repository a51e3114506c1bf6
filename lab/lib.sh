# lib.sh
#	What lab/demo and lab/check share: messages, the unprivileged user, the
#	work directory, clean-up, the choice of PostgreSQL, the private build.
#
# Sourced by bash scripts that have set "top" (the checkout) and use
# `set -u`.  Nothing here starts a server or installs a package; nothing here
# writes outside the work directory.

say()
{
	printf '%s\n' "$*"
}

# die MESSAGE [HINT]: one clear line (and one that helps), status 1
die()
{
	printf '%s: error: %s\n' "${0##*/}" "$1" >&2
	if [ $# -gt 1 ]; then
		printf '%s: hint: %s\n' "${0##*/}" "$2" >&2
	fi
	exit 1
}

# show_log FILE: the end of a log that explains a failure
show_log()
{
	printf -- '--- last lines of %s\n' "$1" >&2
	tail -n "${2:-40}" "$1" >&2
	printf -- '---\n' >&2
}

#
# Processes
#
# PostgreSQL refuses to run as root, so root's work is done by the user that
# the server package made.  setpriv replaces itself by the command: the pid
# that we know is the pid of the command.
#

choose_lab_user()
{
	if [ "$(id -u)" -ne 0 ]; then
		lab_user=
		return
	fi
	id postgres >/dev/null 2>&1 ||
		die 'PostgreSQL does not run as root, and there is no user "postgres" to run it as' \
			'start this command as an ordinary user'
	lab_user=postgres
}

# Replaces this (sub)shell by the command, run by the unprivileged user.
exec_as_user()
{
	cd "$work" || exit 1
	if [ -n "$lab_user" ]; then
		exec setpriv --reuid="$lab_user" --regid="$lab_user" --init-groups -- \
			env HOME="$work" USER="$lab_user" LOGNAME="$lab_user" "$@"
	fi
	exec "$@"
}

as_user()
{
	( exec_as_user "$@" )
}

# attended COMMAND...: as_user for what takes long.  bash runs a trap only
# when the foreground command has ended, so the command gets a process group
# of its own and is waited for; end_attended ends it with all its children.
attended=

attended()
{
	local status

	set -m
	( exec_as_user "$@" ) </dev/null &
	attended=$!
	set +m
	wait "$attended"
	status=$?
	attended=
	return "$status"
}

end_attended()
{
	local tries=100

	[ -n "$attended" ] || return 0
	kill -TERM -- "-$attended" 2>/dev/null
	while kill -0 -- "-$attended" 2>/dev/null && [ "$tries" -gt 0 ]; do
		sleep 0.1
		tries=$((tries - 1))
	done
	kill -KILL -- "-$attended" 2>/dev/null
	attended=
}

# is_running PID: alive, and not merely waiting to be reaped by a parent that
# does not (the first process of a container, often)
is_running()
{
	local state

	state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
	[ -n "$state" ] && [ "$state" != Z ]
}

# stop_process PID SIGNAL: sends it, waits, and in the end insists
stop_process()
{
	local tries=100

	kill "-$2" "$1" 2>/dev/null || return 0
	while is_running "$1"; do
		if [ "$tries" -eq 0 ]; then
			kill -KILL "$1" 2>/dev/null
			return 0
		fi
		sleep 0.1
		tries=$((tries - 1))
	done
}

# Stops every server whose data directory lies in the work directory, also
# those that an interrupted test left behind.
stop_clusters()
{
	local pid_file pid

	find "$work" -name postmaster.pid 2>/dev/null |
	while read -r pid_file; do
		pid=$(sed -n 1p "$pid_file")
		case $(readlink "/proc/$pid/cwd" 2>/dev/null) in
			"$work"/*) stop_process "$pid" INT ;;
		esac
	done
}

#
# Clean-up: the script defines on_exit, which runs once, whatever ends it.
#
arm_cleanup()
{
	trap 'status=$?; trap - EXIT; trap "" INT TERM HUP; end_attended; on_exit; exit "$status"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap 'exit 129' HUP
}

#
# The work directory: on disk rather than in a /tmp that may be memory, since
# a cluster in memory would make the comparison a different one.
#
make_work_directory()
{
	local parent=${TMPDIR:-/var/tmp}

	work=$(mktemp -d "$parent/connbench-lab.XXXXXX") ||
		die "could not make a work directory in $parent" 'set TMPDIR to a writable directory'
	if [ -n "$lab_user" ]; then
		chown "$lab_user:" "$work"
	fi
	as_user true 2>/dev/null ||
		die "user \"$lab_user\" cannot reach $work" 'set TMPDIR to a directory that every user can reach, such as /tmp'
}

# random_password: 32 hexadecimal digits
random_password()
{
	od -An -tx1 -N16 /dev/urandom | tr -d ' \n'
}

# free_port: a TCP port that nobody uses and that lies below the range the
# kernel takes ports of outgoing connections from.
# CONNBENCH_LAB_PORTS=FROM-TO narrows the choice.
port_from=20000
port_to=32000
last_port=

choose_port_range()
{
	if [ -n "${CONNBENCH_LAB_PORTS:-}" ]; then
		[[ $CONNBENCH_LAB_PORTS =~ ^[0-9]{4,5}-[0-9]{4,5}$ ]] ||
			die "invalid CONNBENCH_LAB_PORTS \"$CONNBENCH_LAB_PORTS\"" 'it looks like 20000-20099'
		port_from=${CONNBENCH_LAB_PORTS%-*}
		port_to=${CONNBENCH_LAB_PORTS#*-}
		[ "$port_from" -lt "$port_to" ] ||
			die "invalid CONNBENCH_LAB_PORTS \"$CONNBENCH_LAB_PORTS\"" 'the first port must be below the second'
	fi
}

# Sets last_port; each call finds another port.
free_port()
{
	local span=$((port_to - port_from)) tries

	if [ -z "$last_port" ]; then
		last_port=$((port_from + RANDOM % span))
	fi
	for ((tries = 0; tries <= span; tries++)); do
		last_port=$((last_port + 1))
		if [ "$last_port" -gt "$port_to" ]; then
			last_port=$port_from
		fi
		grep -qsi ":$(printf '%04X' "$last_port") " /proc/net/tcp /proc/net/tcp6 || return 0
	done
	die "no free TCP port between $port_from and $port_to"
}

#
# PostgreSQL
#

# The newest installed PostgreSQL that extensions can be built against, or
# what PG_CONFIG names.  Sets pg_config, or leaves it empty.
find_postgres()
{
	local candidate

	if [ -n "${PG_CONFIG:-}" ]; then
		pg_config=$(command -v "$PG_CONFIG") || die "PG_CONFIG \"$PG_CONFIG\" is not a command"
		[ -f "$("$pg_config" --pgxs)" ] && [ -x "$("$pg_config" --bindir)/postgres" ] ||
			die "$pg_config belongs to no complete installation" \
				'it needs the server and the files to build extensions (PGXS)'
		return
	fi
	pg_config=
	while read -r candidate; do
		if [ -x "${candidate%pg_config}postgres" ] && [ -f "$("$candidate" --pgxs)" ] &&
			[ -f "$("$candidate" --includedir-server)/postgres.h" ]; then
			pg_config=$candidate
		fi
	done < <(printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -V)
	if [ -z "$pg_config" ] && [ ! -f /etc/debian_version ]; then
		candidate=$(command -v pg_config) && [ -f "$("$candidate" --pgxs)" ] && pg_config=$candidate
	fi
	return 0
}

# copy_sources DIRECTORY: the checkout as it is, without what was built in it.
# The original may be out of the unprivileged user's reach, and stays clean.
copy_sources()
{
	mkdir -p "$1"
	tar -C "$top" -cf - --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.bc' \
		--exclude=./loadgen/connbench --exclude=./t/unit/build --exclude=./tmp_check \
		--exclude=./results . |
		tar -C "$1" -xf - --no-same-owner || die "could not copy $top"
	if [ -n "$lab_user" ]; then
		chown -R "$lab_user:" "$1"
	fi
}

# build DIRECTORY LOG [MAKE ARGUMENTS...]: the extension and the load generator
build()
{
	local directory=$1 log=$2

	shift 2
	attended make -s -C "$directory" -j 2 with_llvm=no PG_CONFIG="$pg_config" "$@" all >>"$log" 2>&1 ||
		return 1
	if [ ! -x "$directory/loadgen/connbench" ]; then
		echo 'make succeeded without making loadgen/connbench' >>"$log"
		return 1
	fi
}

# install_privately SOURCES LOG: an installation of PostgreSQL in the work
# directory that has connbench in it, so that the machine's own stays as it
# is.  The server finds its library and share directories from where its
# program lies: programs are copied, everything else is linked to.
# The headers are there for tests that ask how the server was built.  Sets bin.
install_privately()
{
	local sources=$1 log=$2 tree=$work/tree bindir pkglibdir sharedir includedir

	bindir=$("$pg_config" --bindir)
	pkglibdir=$("$pg_config" --pkglibdir)
	sharedir=$("$pg_config" --sharedir)
	includedir=$("$pg_config" --includedir)
	as_user mkdir -p "$tree$bindir" "$tree$pkglibdir" "$tree$sharedir" "$tree${includedir%/*}"
	as_user cp -RL "$bindir/." "$tree$bindir" 2>>"$log" &&
		link_tree "$pkglibdir" "$tree$pkglibdir" 2>>"$log" &&
		link_tree "$sharedir" "$tree$sharedir" 2>>"$log" &&
		as_user ln -s "$includedir" "$tree$includedir" &&
		find "$tree" -name 'connbench*' -delete &&
		as_user make -s -C "$sources" with_llvm=no PG_CONFIG="$pg_config" DESTDIR="$tree" install >>"$log" 2>&1 &&
		[ "$("$tree$bindir/pg_config" --pkglibdir)" = "$tree$pkglibdir" ] || {
		show_log "$log"
		die 'could not make a private installation of PostgreSQL'
	}
	bin=$tree$bindir
}

# Building files and bitcode are no use to a running server.
link_tree()
{
	local entry

	for entry in "$1"/*; do
		case ${entry##*/} in
			pgxs | bitcode | man) ;;
			*) as_user cp -RsT "$entry" "$2/${entry##*/}" || return 1 ;;
		esac
	done
}
