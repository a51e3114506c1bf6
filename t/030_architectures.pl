# The question itself, on real parts: 100 clients through HAProxy and through
# PgBouncer.  Process counts must match what pg_stat_activity shows to a
# session that is not ours.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $connbench = $ENV{CONNBENCH} || 'loadgen/connbench';
sub found { my ($program) = @_; return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH} }
plan skip_all => "no load generator at $connbench" unless -x $connbench;
plan skip_all => 'needs haproxy and pgbouncer' unless found('haproxy') && found('pgbouncer');

my $clients = 100;
my $pool = 20;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
connbench.sample_interval = 100ms
listen_addresses = '127.0.0.1'
max_connections = 150
autovacuum = off
});
$node->append_conf('pg_hba.conf', "host all all 127.0.0.1/32 trust\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION connbench');
$node->safe_psql('postgres', 'CREATE DATABASE bench');
$node->command_ok([ 'pgbench', '-i', '-q', '-s', '1', $node->connstr('bench') ], 'fill pgbench tables');

my $dir = PostgreSQL::Test::Utils::tempdir();
my $port = $node->port;
my ($haproxy_port, $pgbouncer_port) = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 2;
my $user = $node->safe_psql('postgres', 'SELECT current_user');

append_to_file("$dir/haproxy.cfg", <<"EOT");
global
	maxconn 500
	pidfile $dir/haproxy.pid
defaults
	mode tcp
	timeout connect 5s
	timeout client 1m
	timeout server 1m
listen postgres
	bind 127.0.0.1:$haproxy_port
	server pg1 127.0.0.1:$port
EOT
append_to_file("$dir/users", qq{"$user" ""\n});
append_to_file("$dir/pgbouncer.ini", <<"EOT");
[databases]
bench = host=127.0.0.1 port=$port dbname=bench
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $pgbouncer_port
unix_socket_dir =
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
default_pool_size = $pool
max_client_conn = 500
logfile = $dir/pgbouncer.log
pidfile = $dir/pgbouncer.pid
EOT
$node->command_ok([ 'haproxy', '-D', '-f', "$dir/haproxy.cfg" ], 'start HAProxy');
$node->command_ok([ 'pgbouncer', '-q', '-d', "$dir/pgbouncer.ini" ], 'start PgBouncer');

END
{
	my $status = $?;
	for my $pidfile (grep { -f } "$dir/haproxy.pid", "$dir/pgbouncer.pid")
	{
		my ($pid) = slurp_file($pidfile) =~ /^(\d+)/;
		kill 'TERM', $pid if $pid;
	}
	$? = $status;
}

my $plain = "host=127.0.0.1 dbname=bench user=$user sslmode=disable gssencmode=disable";
my %path = (haproxy => $haproxy_port, pgbouncer => $pgbouncer_port);
my $outside = $node->background_psql('postgres');

# Loads these paths in one run; returns the most backends of the load's
# database that an outside session has seen meanwhile.
sub load
{
	my ($rounds, @names) = @_;
	my ($out, $err) = ('', '');
	my $most = 0;
	my $run = IPC::Run::start([ $connbench, 'run',
			(map { ('--target', "$_=$plain port=$path{$_}") } @names),
			'--results', $node->connstr('postgres'), '--clients', $clients, '--threads', '4',
			'--workload', 'select-only', '--duration', '3', '--warmup', '1', '--rounds', $rounds,
			'--progress', '0' ], '<', \undef, '>', \$out, '2>', \$err);
	while ($run->pumpable)
	{
		my $seen = $outside->query_safe(q{SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND datname = 'bench'});
		$most = $seen if $seen > $most;
		$run->pump_nb;
		select(undef, undef, undef, 0.02);
	}
	$run->finish;
	is($run->result(0), 0, "load through @names") or diag($out, $err);
	return $most;
}

sub last_result
{
	my ($columns) = @_;
	return $outside->query_safe("SELECT $columns FROM connbench.results
		WHERE run_id = (SELECT max(run_id) FROM connbench.run)");
}

# the tool counts the outside session, too, which the outside session does not
my $most = load(1, 'haproxy');
is(last_result('target_kind'), 'proxy', 'HAProxy is recognised as a proxy');
cmp_ok($most, '>=', $clients, 'through HAProxy each client has a backend');
is(last_result('client_backends_max - 1'), $most, 'as many as pg_stat_activity shows from outside');

# backends of the run before must be gone
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'bench'});
$most = load(1, 'pgbouncer');
is(last_result('target_kind'), 'pooler', 'PgBouncer is recognised as a pooler');
cmp_ok($most, '<=', $pool, 'through PgBouncer there are no more backends than its pool');
is(last_result('client_backends_max - 1'), $most, 'as many as pg_stat_activity shows from outside');
is(last_result('backends_started_per_1000 < 10'), 't', 'hardly a backend is born per 1,000 requests');

# together: connections that the pool keeps are not counted for the other path
load(2, 'pgbouncer', 'haproxy');
is($outside->query_safe(q{SELECT string_agg(concat_ws(' ', target, target_backends_max), ', ' ORDER BY target)
	FROM connbench.results WHERE run_id = (SELECT max(run_id) FROM connbench.run)}),
	"haproxy $clients, pgbouncer $pool", 'each path has its own backends');
is($outside->query_safe(q{SELECT verdict FROM connbench.comparison WHERE metric = 'target_backends_max'}),
	'worse', 'the comparison of both says so');
is($outside->query_safe(q{SELECT bool_and(attempted = succeeded AND connects_attempted = 100 * rounds) FROM connbench.results}),
	't', 'no request was lost on either path');
$outside->quit;
done_testing();
