# Every fork of the postmaster is accounted for: clients that came, were turned
# away or left early, workers by what they were for, forks that failed, and
# those of which nobody can tell.
use strict;
use warnings FATAL => 'all';

use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
listen_addresses = '127.0.0.1'
autovacuum = off
max_connections = 20
authentication_timeout = 2s
max_parallel_workers_per_gather = 2
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
connbench.sample_interval = 200ms
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION connbench;
	CREATE ROLE alice LOGIN PASSWORD 'right';
	CREATE TABLE numbers AS SELECT generate_series(1, 20000) AS n;
	ANALYZE numbers});
my $watch = $node->background_psql('postgres');

# Waits until the query gives the expected answer.
sub becomes
{
	my ($query, $expected, $title) = @_;
	my $answer;
	for (1 .. 200)
	{
		$answer = $watch->query_safe($query);
		last if $answer eq $expected;
		select(undef, undef, undef, 0.05);
	}
	is($answer, $expected, $title);
}

sub leavers
{
	return q{SELECT string_agg(stage || ' ' || count, ', ' ORDER BY stage)
		FROM connbench.early_leavers WHERE count > 0};
}

# Connects, sends, reads what may come, closes.
sub poke
{
	my ($bytes) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $node->port)
		or die "could not connect: $!";
	$socket->send($bytes) if length $bytes;
	$socket->shutdown(1);
	$socket->recv(my $answer, 100);
	close $socket;
}

# a quiet server has told of all its children, auxiliary processes included
$node->safe_psql('postgres', 'SELECT 1');
becomes('SELECT unseen FROM connbench.postmaster_stats', '0', 'nothing is unseen after start');
becomes(q{SELECT auxiliary_forks >= 3 AND background_worker_forks >= 2 FROM connbench.postmaster_stats},
	't', 'auxiliary processes and background workers are told apart');

$watch->query_safe('SELECT connbench.reset()');
my $accounted = q{SELECT forks - client_forks - parallel_worker_forks - autovacuum_forks
	- background_worker_forks - io_worker_forks - auxiliary_forks - failed_forks - unseen
	FROM connbench.postmaster_stats};

# who leaves before authentication
poke('') for 1 .. 5;
poke("\0\0") for 1 .. 4;
poke("GET / HTTP/1.0\r\n\r\n") for 1 .. 3;
poke(pack('NN', 8, 80877103)) for 1 .. 2;
poke(pack('NNNN', 16, 80877102, 1, 2)) for 1 .. 6;
$node->safe_psql('postgres', 'SELECT 1');
becomes(leavers(), 'cancel request 6, negotiation 2, sent nothing 5, startup packet 7',
	'clients that left early, by stage');
becomes('SELECT forks, client_forks, unseen FROM connbench.postmaster_stats', '21|21|0',
	'each was a fork for a client, and so was the psql that told of them');
becomes(q{SELECT count(*) FROM connbench.early_leavers WHERE count > 0
	AND last_at BETWEEN now() - interval '1 hour' AND clock_timestamp()}, '4', 'each stage has its last time');
is($watch->query_safe('SELECT count(*) FROM connbench.rejected_connections'), '0', 'none of them was rejected');

# a client that says nothing until its time is up ends without a word
my @silent = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $node->port) } 1 .. 3;
$_->recv(my $nothing, 1) for @silent;
$node->safe_psql('postgres', 'SELECT 1');
becomes('SELECT forks, client_forks, unseen FROM connbench.postmaster_stats', '25|22|3',
	'a startup packet that timed out is unseen');

# authentication that times out is a rejection with its own reason
my $hba = $node->data_dir . '/pg_hba.conf';
my $trust = slurp_file($hba);
unlink $hba;
$node->append_conf('pg_hba.conf', "host all alice 127.0.0.1/32 scram-sha-256\n$trust");
$node->reload;
my $startup = pack('NNZ*Z*Z*Z*Z*Z*C', 0, 196608, 'user', 'alice', 'database', 'nosuch', 'application_name', 'my app', 0);
substr($startup, 0, 4, pack('N', length $startup));
my $slow = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $node->port);
$slow->send($startup);
1 while $slow->sysread(my $rest, 1000);
becomes(q{SELECT sqlstate, phase, reason, count FROM connbench.rejected_connections},
	'57014|authentication|timeout|1', 'an authentication timeout');
is($watch->query_safe(q{SELECT sqlstate, phase, reason, database, role, application_name, client_address, pid > 0
	FROM connbench.recent_rejections}), '57014|authentication|timeout|nosuch|alice|my app|127.0.0.1|t',
	'who it was, and what was asked for');
is($node->safe_psql('postgres', q{SET ROLE alice; SELECT sqlstate, database, role, client_address, pid
	FROM connbench.recent_rejections}), '57014||||', 'but not for everyone to see');

# rejections that are not logged are seen all the same, if not why
$node->append_conf('postgresql.conf', "log_min_messages = panic\n");
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT current_setting('log_min_messages') = 'panic'}), 'errors are not logged');
$node->psql('nosuch', 'SELECT 1') for 1 .. 3;
$node->adjust_conf('postgresql.conf', 'log_min_messages', 'warning');
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT current_setting('log_min_messages') = 'warning'}), 'errors are logged again');
becomes(q{SELECT count FROM connbench.early_leavers WHERE stage = 'unlogged rejection'}, '3',
	'rejections that were not logged');
is($watch->query_safe('SELECT sum(count) FROM connbench.rejected_connections'), '1', 'and are not guessed at');

# parallel workers are forks, but no connections
$watch->query_safe('SELECT connbench.reset()');
my $workers = $node->safe_psql('postgres', q{EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off)
	SELECT count(*) FROM numbers}) =~ /Workers Launched: (\d)/ ? $1 : 0;
is($workers, '2', 'two parallel workers were launched');
$node->safe_psql('postgres', 'SELECT count(*) FROM numbers') for 1 .. 4;
$node->safe_psql('postgres', 'SELECT 1');
becomes('SELECT client_forks, parallel_worker_forks, unseen FROM connbench.postmaster_stats', '6|10|0',
	'parallel workers are told apart from clients');
is($watch->query_safe($accounted), '0', 'kinds of forks sum up to all');
is($watch->query_safe('SELECT sum(connections) FROM connbench.connection_stats'), '6', 'six connections');

# a fork that fails
SKIP:
{
	skip 'no prlimit, or this user has no limit', 3
		if $> == 0 || system('prlimit --version >/dev/null 2>&1') != 0;
	my $postmaster = $node->safe_psql('postgres', q{SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)});
	system("prlimit --pid $postmaster --nproc=1:") == 0 or die 'prlimit';
	$node->psql('postgres', 'SELECT 1') for 1 .. 3;
	system("prlimit --pid $postmaster --nproc=1000:") == 0 or die 'prlimit';
	$node->safe_psql('postgres', 'SELECT 1');
	becomes('SELECT failed_forks, unseen FROM connbench.postmaster_stats', '3|0', 'forks that failed');
	is($watch->query_safe($accounted), '0', 'kinds of forks sum up to all');
	is($watch->query_safe('SELECT sum(count) FROM connbench.rejected_connections'), '',
		'a fork that failed is no rejection');
}

# the last minute
becomes(q{SELECT connections_per_s > 0 AND disconnections_per_s > 0 AND utilisation_last_minute BETWEEN 0 AND 1
	AND postmaster_cpu_last_minute BETWEEN 0 AND 1.5 AND postmaster_cpu_ms > 0
	FROM connbench.postmaster_stats}, 't', 'rates of the last minute');
$watch->query_safe('SELECT pg_stat_force_next_flush()');
is($watch->query_safe(q{SELECT abs(backends_per_1000_transactions - (SELECT 1000.0 * sum(sessions) / sum(xact_commit + xact_rollback)
	FROM pg_stat_database)) < 50 FROM connbench.postmaster_stats}), 't', 'backends per 1,000 transactions');
becomes(q{SELECT count(*) FROM connbench.process_minutes WHERE NOT (min <= avg AND avg <= max AND p95 BETWEEN min AND max)
	OR samples > 300}, '0', 'process_minutes is consistent');
is($watch->query_safe(q{SELECT max(max) FROM connbench.process_minutes WHERE backend_type = 'postmaster'}), '1',
	'and has the postmaster once');

# keys by application and address, when asked for
$watch->query_safe('SELECT connbench.reset()');
my $from_app = $node->connstr('postgres') . " host=127.0.0.1 application_name";
$node->safe_psql('postgres', 'SELECT 1', connstr => "$from_app=one") for 1 .. 2;
is($watch->query_safe(q{SELECT count(*), sum(connections), max(application_name), max(host(client_address))
	FROM connbench.connection_stats WHERE transport = 'tcp'}), '1|2||', 'applications are not told apart by default');
is($watch->query_safe(q{SELECT count(*) FROM connbench.recent_connections
	WHERE application_name = 'one' AND client_address = '127.0.0.1'}), '2', 'but recent connections show them');
$node->append_conf('postgresql.conf', "connbench.track_application_name = on\nconnbench.track_client_address = on\n");
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT current_setting('connbench.track_client_address') = 'on'}), 'tracking is on');
$watch->query_safe('SELECT connbench.reset()');
for my $app ('one', 'one', 'two', 'one')
{
	$node->safe_psql('postgres', 'SELECT 1', connstr => "$from_app=$app");
}
is($watch->query_safe(q{SELECT string_agg(application_name || ' ' || host(client_address) || ' ' || connections, ', ' ORDER BY 1)
	FROM connbench.connection_stats WHERE transport = 'tcp'}), 'one 127.0.0.1 3, two 127.0.0.1 1',
	'now they are');
is($node->safe_psql('postgres', q{SET ROLE alice; SELECT count(application_name) + count(client_address)
	FROM connbench.connection_stats}), '0', 'and masked for those who may not see them');

$watch->quit;
done_testing();
