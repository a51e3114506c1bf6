# stack.sh
#	The servers of the lab: a throwaway PostgreSQL cluster, and HAProxy and
#	PgBouncer in front of it.  All of them listen on 127.0.0.1 and in the work
#	directory only, run as the unprivileged user, and keep a pid file.
#
# Sourced after lib.sh; needs work, bin and the port range.  Starting is in
# order of dependence, and every start ends with a check through the real
# path: a pooler that accepts connections need not be one that works.

# The passwords never stand on a command line: everyone on the machine can
# read those.
make_passwords()
{
	( umask 077
	  superuser_password=$(random_password)
	  printf '%s' "$superuser_password" >"$work/superuser-password"
	  bench_password=$(random_password)
	  printf '*:*:*:postgres:%s\n*:*:*:bench:%s\n' "$superuser_password" "$bench_password" >"$work/pgpass"
	  printf "CREATE ROLE bench LOGIN PASSWORD '%s';\n" "$bench_password" >"$work/bench.sql"
	)
	if [ -n "$lab_user" ]; then
		chown "$lab_user:" "$work/superuser-password" "$work/pgpass" "$work/bench.sql"
	fi
	export PGPASSFILE=$work/pgpass
}

# as the superuser, over the cluster's own socket
admin_psql()
{
	as_user "$bin/psql" -X -q -v ON_ERROR_STOP=1 -h "$work" -p "$server_port" -U postgres "$@"
}

# answers PORT DATABASE: until a query of the load's role comes back, 10 s
answers()
{
	local tries=50

	until as_user env PGCONNECT_TIMEOUT=2 "$bin/psql" -X -q -A -t -w -c 'SELECT 1' \
		"host=127.0.0.1 port=$1 user=bench dbname=$2 sslmode=disable gssencmode=disable" >"$work/answer" 2>&1; do
		tries=$((tries - 1))
		if [ "$tries" -eq 0 ]; then
			return 1
		fi
		sleep 0.2
	done
}

# start_cluster [SETTING...]: sets server_port
start_cluster()
{
	make_passwords
	as_user "$bin/initdb" -D "$work/data" -U postgres -A scram-sha-256 \
		--pwfile="$work/superuser-password" -E UTF8 --locale=C.UTF-8 >"$work/initdb.log" 2>&1 || {
		show_log "$work/initdb.log"
		die 'could not make a cluster'
	}
	free_port
	server_port=$last_port
	printf '%s\n' \
		"listen_addresses = '127.0.0.1'" \
		"port = $server_port" \
		"unix_socket_directories = '$work'" \
		"shared_preload_libraries = 'connbench'" \
		"$@" >>"$work/data/postgresql.conf"
	as_user "$bin/pg_ctl" -w -s -D "$work/data" -l "$work/postgresql.log" start >"$work/pg_ctl.log" 2>&1 || {
		cat "$work/pg_ctl.log" >&2
		show_log "$work/postgresql.log"
		die 'the cluster did not start'
	}
}

make_bench_database()
{
	admin_psql -d postgres -f "$work/bench.sql" -c 'CREATE DATABASE bench OWNER bench' &&
		admin_psql -d bench -c 'CREATE EXTENSION connbench' ||
		die 'could not prepare the database'
}

# HAProxy makes no health checks: each of them would be a fork of the server
# that no client asked for, and there is only one server to choose from.
start_haproxy()
{
	free_port
	haproxy_port=$last_port
	cat >"$work/haproxy.cfg" <<-EOT
	global
		maxconn 2000
		pidfile $work/haproxy.pid
		stats socket $work/haproxy.sock mode 600 level admin
	defaults
		mode tcp
		timeout connect 5s
		timeout client 10m
		timeout server 10m
	frontend clients
		bind 127.0.0.1:$haproxy_port
		default_backend postgresql
	backend postgresql
		balance leastconn
		server pg 127.0.0.1:$server_port
	EOT
	as_user haproxy -D -f "$work/haproxy.cfg" >"$work/haproxy.log" 2>&1 && answers "$haproxy_port" bench || {
		show_log "$work/haproxy.log"
		cat "$work/answer" >&2
		die 'HAProxy does not lead to the server'
	}
}

# PgBouncer logs in to the server with the SCRAM keys that it learns from the
# client, so that it needs the secret as pg_authid has it and no password.
start_pgbouncer()
{
	free_port
	pgbouncer_port=$last_port
	( umask 077
	  admin_psql -d postgres -A -t -c \
		"SELECT format('\"%s\" \"%s\"', rolname, rolpassword) FROM pg_authid WHERE rolname IN ('bench', 'postgres')" \
		>"$work/pgbouncer-users" ) || die 'could not read the SCRAM secret of role "bench"'
	cat >"$work/pgbouncer.ini" <<-EOT
	[databases]
	bench = host=127.0.0.1 port=$server_port dbname=bench
	[pgbouncer]
	listen_addr = 127.0.0.1
	listen_port = $pgbouncer_port
	unix_socket_dir =
	auth_type = scram-sha-256
	auth_file = $work/pgbouncer-users
	pool_mode = transaction
	default_pool_size = 20
	max_client_conn = 1000
	server_tls_sslmode = disable
	admin_users = postgres
	stats_users = bench
	logfile = $work/pgbouncer.log
	pidfile = $work/pgbouncer.pid
	EOT
	if [ -n "$lab_user" ]; then
		chown "$lab_user:" "$work/pgbouncer-users"
	fi
	as_user pgbouncer -q -d "$work/pgbouncer.ini" >"$work/pgbouncer.out" 2>&1 && answers "$pgbouncer_port" bench || {
		show_log "$work/pgbouncer.log"
		cat "$work/pgbouncer.out" "$work/answer" >&2
		die 'PgBouncer does not lead to the server'
	}
}

# The pid files lie in a directory that only we write to, but the process may
# be gone and its number another's: the command line must name our directory.
stop_by_pid_file()
{
	local pid

	[ -s "$1" ] || return 0
	pid=$(tr -dc '0-9\n' <"$1" | head -n 1)
	if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$work/"; then
		stop_process "$pid" TERM
	fi
}

# Clients first, so that nobody complains about a server that is gone.
stop_stack()
{
	stop_by_pid_file "$work/pgbouncer.pid"
	stop_by_pid_file "$work/haproxy.pid"
	stop_clusters
}
