# Connections that succeed: counted exactly, with marks in order, and in
# agreement with PostgreSQL's own statistics; gauges return to the truth.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
connbench.sample_interval = 100ms
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION connbench');
$node->safe_psql('postgres', 'CREATE DATABASE counted');

my $counted = q{SELECT coalesce(sum(connections), 0) FROM connbench.connection_stats
	WHERE database = 'counted'};
my $sessions = q{SELECT sessions FROM pg_stat_database WHERE datname = 'counted'};

like(slurp_file($node->logfile),
	qr/LOG:  connbench: \d+ kB of shared memory for 64 keys/,
	'the log tells how much shared memory is used');

# N one-shot calls raise the count by exactly N, and so do core's sessions
my $calls = 25;
my $before = $node->safe_psql('postgres', $counted);
my $sessions_before = $node->safe_psql('postgres', $sessions);
$node->safe_psql('counted', 'SELECT 1') for 1 .. $calls;
is($node->safe_psql('postgres', $counted) - $before,
	$calls, "$calls one-shot calls raise connections by $calls");
$node->poll_query_until('postgres',
	"SELECT sessions = $sessions_before + $calls FROM pg_stat_database WHERE datname = 'counted'");
is($node->safe_psql('postgres', $sessions) - $sessions_before,
	$calls, 'pg_stat_database.sessions agrees');

$node->poll_query_until('postgres',
	"SELECT sessions_ended = connections FROM connbench.connection_stats WHERE database = 'counted'");
is( $node->safe_psql('postgres', q{SELECT connections, sessions_ended, ended_normal,
		connbench.count(s.histogram), transport, auth_method
	FROM connbench.connection_stats c JOIN connbench.phase_stats s USING (database, role, transport, auth_method)
	WHERE database = 'counted' AND phase = 'session'}),
	"$calls|$calls|$calls|$calls|unix|trust",
	'all of these sessions have ended, normally, each with its duration');

is( $node->safe_psql('postgres', q{SELECT count(*) > 0,
		count(*) FILTER (WHERE fork_ms + startup_ms + init_ms <> total_ms),
		count(*) FILTER (WHERE NOT (fork_start_ns <= child_start_ns AND child_start_ns <= auth_end_ns
			AND auth_end_ns <= init_end_ns AND (exit_ns IS NULL OR init_end_ns <= exit_ns)))
	FROM connbench.recent_connections}),
	't|0|0', 'fork + startup + init = total and marks are monotone, in every row');

is( $node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE p.count <> c.connections - c.cold_connections)
	FROM connbench.phase_stats p JOIN connbench.connection_stats c
		USING (database, role, transport, auth_method, backend_kind)
	WHERE p.phase IN ('fork', 'startup', 'init', 'total')}),
	'0', 'the phases up to ready count as many as there were connections');

# the mark of the start is before core's own, in the same process
is( $node->safe_psql('postgres', q{SELECT r.started_at <= a.backend_start
	FROM connbench.recent_connections r JOIN pg_stat_activity a USING (pid)
	WHERE r.pid = pg_backend_pid()}),
	't', 'fork_start is before backend_start');

# gauge and high-water mark are exact
my @held = map { $node->background_psql('counted') } 1 .. 7;
is( $node->safe_psql('postgres', 'SELECT client_backends, client_backends_max FROM connbench.info'),
	'8|8', 'seven held sessions and this one are connected');
is( $node->safe_psql('postgres', q{SELECT
		(SELECT sum(count) FROM connbench.process_counts WHERE backend_type = 'client backend'),
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')}),
	'8|8', 'process_counts and pg_stat_activity agree');
$_->quit for @held;
ok( $node->poll_query_until('postgres', 'SELECT client_backends = 1 FROM connbench.info'),
	'the gauge returns to one');
is( $node->safe_psql('postgres', 'SELECT client_backends_max FROM connbench.info'),
	'8', 'and the high-water mark stays');
ok( $node->poll_query_until('postgres',
		'SELECT max(client_backends_max) = 8 FROM connbench.server_samples'),
	'a sample has the peak');

# every process that /proc knows has a type, while nothing starts or ends
ok( $node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM connbench.process_counts
		WHERE backend_type = 'not yet classified'}),
	'at rest, the typed counts add up to the number of processes');

# histograms travel in binary, too, and a damaged one is refused
my $file = PostgreSQL::Test::Utils::tempdir() . '/histogram';
$node->safe_psql('postgres', qq{
	CREATE TABLE sent AS SELECT histogram FROM connbench.phase_stats WHERE phase = 'total';
	CREATE TABLE received (LIKE sent);
	COPY sent TO '$file' (FORMAT binary);
	COPY received FROM '$file' (FORMAT binary)});
is($node->safe_psql('postgres', q{SELECT count(*) > 0 AND count(*) = count(*) FILTER (WHERE s.histogram OPERATOR(connbench.=) r.histogram)
	FROM sent s JOIN received r ON s.histogram::text = r.histogram::text}),
	't', 'binary output and input keep a histogram');
my $bytes = slurp_file($file);
for my $damage ([ 26, 'format' ], [ 27, 'number of buckets' ], [ 38, 'minimum' ])
{
	my ($offset, $what) = @$damage;
	my $damaged = $bytes;
	substr($damaged, $offset, 1) = chr(ord(substr($damaged, $offset, 1)) ^ 0x7f);
	open my $fh, '>:raw', $file or die $!;
	print $fh $damaged;
	close $fh;
	my ($rc, $out, $err) = $node->psql('postgres', "COPY received FROM '$file' (FORMAT binary)");
	isnt($rc, 0, "a damaged $what is refused");
}

# memory of processes
is( $node->safe_psql('postgres', q{SELECT count(*) = count(pss_bytes) AND count(*) = count(page_table_bytes),
		bool_and(private_bytes <= pss_bytes AND pss_bytes <= rss_bytes)
	FROM connbench.backend_memory}),
	't|t', 'memory of every process, private <= Pss <= Rss');
my ($mrc, $mout, $merr) = $node->psql('postgres', 'SELECT pss_bytes IS NULL FROM connbench.backend_memory(1)');
is($mout, 't', 'memory of a process that is not of this server is unknown');
like($merr, qr/WARNING:  PID 1 is not a PostgreSQL server process/, 'and a warning says so');

# how a session ended
my $victim = $node->background_psql('counted');
my $pid = $victim->query_safe('SELECT pg_backend_pid()');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok( $node->poll_query_until('postgres',
		q{SELECT ended_killed = 1 FROM connbench.connection_stats WHERE database = 'counted'}),
	'a terminated session counts as killed');
is( $node->safe_psql('postgres', "SELECT ended FROM connbench.recent_connections WHERE pid = $pid"),
	'killed', 'and its row says so');
eval { $victim->quit };

# the census worker: a new interval is taken up, 0 stops it
$node->safe_psql('postgres', 'ALTER SYSTEM SET connbench.sample_interval = 0');
$node->reload;
sleep 1;
my $samples = $node->safe_psql('postgres', 'SELECT samples FROM connbench.info');
ok($samples > 3, 'the worker has taken samples');
sleep 1;
is($node->safe_psql('postgres', 'SELECT samples FROM connbench.info'),
	$samples, 'an interval of 0 stops sampling');
$node->safe_psql('postgres', 'ALTER SYSTEM SET connbench.sample_interval = 50');
$node->reload;
ok( $node->poll_query_until('postgres', "SELECT samples > $samples + 2 FROM connbench.info"),
	'a new interval is taken up without a restart');
my ($rc, $out, $err) = $node->psql('postgres', 'ALTER SYSTEM SET connbench.sample_interval = 10');
like($err, qr/must be 0, which turns sampling off, or at least 50 ms/,
	'an interval that is too short is refused');

# the worker does not hold up DROP DATABASE
$node->safe_psql('postgres', 'DROP DATABASE counted');
is( $node->safe_psql('postgres', q{SELECT count(*) FROM connbench.connection_stats WHERE database = 'counted'}),
	'1', 'a dropped database keeps its row');

# reset
my $since = $node->safe_psql('postgres', 'SELECT connbench.reset()');
is( $node->safe_psql('postgres', q{SELECT count(*) FROM connbench.connection_stats WHERE database = 'counted'}),
	'0', 'reset clears what has gone');
is( $node->safe_psql('postgres', "SELECT stats_since = '$since', connections, client_backends FROM connbench.info"),
	't|2|1', 'and counts from the time that it returned');

done_testing();
