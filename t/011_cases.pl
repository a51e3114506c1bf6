# Situations that people have reported, and the right answer to each: one
# SQLSTATE with five causes, memory per connection, a postmaster that hangs,
# the first connection after a start.
use strict;
use warnings FATAL => 'all';

use IO::Socket::UNIX;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
max_connections = 120
shared_buffers = 32MB
autovacuum = off
log_statement = none
password_encryption = 'scram-sha-256'
connbench.sample_interval = 200ms
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION connbench;
	CREATE ROLE alice LOGIN PASSWORD 'right';
	CREATE ROLE limited LOGIN CONNECTION LIMIT 1;
	CREATE ROLE plain LOGIN;
	CREATE ROLE favoured LOGIN;
	CREATE DATABASE small CONNECTION LIMIT 1;
	CREATE DATABASE large;
	CREATE DATABASE second});
my $hba = slurp_file($node->data_dir . '/pg_hba.conf');
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', "local all alice scram-sha-256\n$hba");
$node->reload;
my $version = $node->safe_psql('postgres', q{SELECT current_setting('server_version_num')});

# --- the first connection is an outlier -----------------------------------

$node->safe_psql('large', q{DO $$ BEGIN FOR i IN 1 .. 2000 LOOP EXECUTE format('CREATE TABLE t%s (a int, b text)', i); END LOOP; END $$});
$node->restart;
$node->safe_psql('postgres', 'SELECT connbench.reset()');
for my $database ('large', 'second')
{
	$node->safe_psql($database, 'SELECT 1') for 1 .. 20;
	is($node->safe_psql('postgres', qq{SELECT connections, cold_connections, connbench.count(l.total), s.cold_mean_ms > s.total_p50_ms
		FROM connbench.connection_stats s JOIN connbench.connection_ledger() l USING (database_oid, connections)
		WHERE s.database = '$database'}), '20|1|19|t', "$database: the first connection is cold, counted, and kept out of the times");
	is($node->safe_psql('postgres', qq{SELECT count(*), bool_and(init_ms > (SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY init_ms)
		FROM connbench.recent_connections WHERE database = '$database'))
		FROM connbench.recent_connections WHERE database = '$database' AND cold}), '1|t', 'its init phase carries it');
}
is($node->safe_psql('postgres', q{SELECT string_agg(phase || ' ' || count, ', ' ORDER BY phase) FROM connbench.phase_stats
	WHERE database = 'large' AND phase IN ('fork', 'startup', 'init', 'total', 'cold', 'session')}),
	'cold 1, fork 19, init 19, session 20, startup 19, total 19', 'in phase_stats as well');

# --- a postmaster that hangs ------------------------------------------------

my $postmaster = $node->safe_psql('postgres', q{SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)});
my @sessions = map { $node->background_psql('postgres') } 1 .. 5;
$sessions[0]->query_safe('SELECT connbench.reset()');
my $startup = pack('NZ*Z*Z*Z*C', 196608, 'user', 'alice', 'database', 'postgres', 0);
$startup = pack('N', 4 + length $startup) . $startup;

kill 'STOP', $postmaster;
my ($connected, $answered, $worked) = (0, 0, 0);
for my $turn (1 .. 20)
{
	my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or next;
	$connected++;
	$socket->send($startup);
	$worked++ if $sessions[ $turn % 5 ]->query_safe('SELECT 42') eq '42';
	my $ready = '';
	vec($ready, fileno($socket), 1) = 1;
	$answered++ if select($ready, undef, undef, 0.1);
	close $socket;
}
kill 'CONT', $postmaster;
is("$connected $answered $worked", '20 0 20',
	'the kernel accepts for a stopped postmaster, nobody answers, sessions that are in work on');
ok($node->poll_query_until('postgres', q{SELECT sum(count) = 20 AND max(count) FILTER (WHERE stage = 'authentication') = 20
	FROM connbench.early_leavers}), 'late accepts of clients that had left are early leavers');
is($sessions[0]->query_safe(q{SELECT count(*) FROM connbench.connection_stats WHERE role = 'alice'}), '0', 'and no connections');
$_->quit for @sessions;

# --- memory per connection --------------------------------------------------

# Opens so many sessions that run the script once and stay; returns sums over them.
sub memory_of
{
	my ($clients, $sql) = @_;
	my $script = $node->basedir . '/hold.sql';
	unlink $script;
	append_to_file($script, "$sql;\nSELECT pg_advisory_lock_shared(1);\n\\sleep 600 s\n");
	my $run = IPC::Run::start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-U', 'plain', '-c', $clients, '-t', '1',
			'-f', $script, 'postgres' ], '<', \undef, '&>', \my $output);
	$node->poll_query_until('postgres', "SELECT count(*) = $clients FROM pg_locks WHERE locktype = 'advisory'") or die $output;
	my $sums = $node->safe_psql('postgres', q{SELECT count(*), sum(private_bytes + page_table_bytes), sum(rss_bytes), sum(pss_bytes)
		FROM connbench.backend_memory WHERE role = 'plain'});
	$run->kill_kill;
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE usename = 'plain'}) or die;
	return $sums;
}

$node->safe_psql('postgres', q{
	CREATE TABLE big AS SELECT n, repeat('x', 500) AS filler FROM generate_series(1, 60000) AS n;
	GRANT SELECT ON big TO plain;
	CREATE TABLE memory (what text, backends int, own bigint, rss bigint, pss bigint)});
for my $what ([ fresh => 'SELECT 1' ], [ touched => 'SELECT count(filler) FROM big' ])
{
	for my $clients (1, 20, 60)
	{
		my $sums = join ', ', split /\|/, memory_of($clients, $what->[1]);
		$node->safe_psql('postgres', "INSERT INTO memory VALUES ('$what->[0]', $sums)");
	}
}
my %slope;
for (split /\n/, $node->safe_psql('postgres', q{SELECT what, round(regr_slope(own, backends) / 1024), round(regr_slope(rss, backends) / 1024),
	round(regr_r2(own, backends)::numeric, 3) FROM memory GROUP BY what}))
{
	my ($what, $own, $rss, $r2) = split /\|/;
	$slope{$what} = { own => $own, rss => $rss };
	note "measured: a $what backend costs $own kB of its own (r2 $r2); rss says $rss kB";
	cmp_ok($r2, '>=', 0.95, "$what: what N backends cost grows in a line");
}
cmp_ok($slope{fresh}{own}, '>', 500, 'a backend has memory of its own');
cmp_ok($slope{fresh}{own}, '<', $slope{fresh}{rss}, 'less than rss says');
cmp_ok($slope{touched}{rss} - $slope{fresh}{rss}, '>', 15000, 'rss grows by the shared buffers that were touched');
cmp_ok($slope{touched}{own} - $slope{fresh}{own}, '<', 5000, 'what a backend costs does not');
is($node->safe_psql('postgres', q{SELECT processes > 3 AND pss_bytes > 0 AND page_table_bytes > 0 AND private_bytes < pss_bytes
	FROM connbench.server_memory}), 't', 'the sum for the server');
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT * FROM connbench.backend_memory(1)');
is($out, '|||', 'a process that is not the server\'s has no memory to tell');
like($err, qr/WARNING:  PID 1 is not a PostgreSQL server process/, 'and a warning says so');

# --- one SQLSTATE, five causes ----------------------------------------------

$node->append_conf('postgresql.conf', "max_connections = 8\nsuperuser_reserved_connections = 1\nmax_wal_senders = 0\n"
	. ($version >= 160000 ? "reserved_connections = 1\n" : ''));
# another language, where this machine has one
my $german = first_line(`locale -a 2>/dev/null | grep -i '^de_.*utf'`);
$node->append_conf('postgresql.conf', "lc_messages = '$german'\n") if $german;
sub first_line { return (split /\n/, shift // '')[0] // ''; }
$node->safe_psql('postgres', 'GRANT pg_use_reserved_connections TO favoured') if $version >= 160000;
$node->restart;
my $watch = $node->background_psql('postgres');
$watch->query_safe('SELECT connbench.reset()');

sub rejected
{
	my ($connstr) = @_;
	my ($rc) = $node->psql('postgres', 'SELECT 1', connstr => $node->connstr('postgres') . " $connstr");
	die "connected with $connstr" if $rc == 0;
}

my @held = ($node->background_psql('postgres', extra_params => [ '-U', 'limited' ]));
rejected('user=limited');
push @held, $node->background_psql('small', extra_params => [ '-U', 'plain' ]);
rejected('user=plain dbname=small');
my $reserved = $version >= 160000 ? 2 : 1;
push @held, map { $node->background_psql('postgres', extra_params => [ '-U', 'plain' ]) } 1 .. 8 - 3 - $reserved;
rejected('user=plain');
if ($version >= 160000)
{
	push @held, $node->background_psql('postgres', extra_params => [ '-U', 'favoured' ]);
	rejected('user=favoured');
}
push @held, $node->background_psql('postgres');
rejected('');
is($watch->query_safe(q{SELECT string_agg(reason || ' ' || count, ', ' ORDER BY reason) FROM connbench.rejected_connections
	WHERE sqlstate = '53300'}), 'database 1, reserved ' . ($version >= 160000 ? 2 : 1) . ', role 1, slots 1',
	'the causes of 53300 are told apart' . ($german ? ", in $german" : ''));
is($watch->query_safe(q{SELECT count(*) FROM connbench.rejected_connections WHERE sqlstate <> '53300' OR reason IS NULL}), '0',
	'and there is nothing else');
$_->quit for @held, $watch;

done_testing();
