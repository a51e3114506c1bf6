# Many at once, and badly behaved: the totals add up to the last one, no row
# mixes two connections, nothing is held or leaked.
use strict;
use warnings FATAL => 'all';

use IO::Socket::UNIX;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;

my $seconds = 30;
my @roles = map { "role$_" } 1 .. 8;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
max_connections = 10
superuser_reserved_connections = 0
max_wal_senders = 0
autovacuum = off
log_statement = none
connbench.max_recent = 32
connbench.max_keys = 5
connbench.sample_interval = 100ms
});
$node->start;
$node->safe_psql('postgres', join(';', 'CREATE EXTENSION connbench', "CREATE ROLE alice LOGIN PASSWORD 'right'",
	map { "CREATE ROLE $_ LOGIN" } @roles));
my $hba = slurp_file($node->data_dir . '/pg_hba.conf');
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', "local all alice scram-sha-256\n$hba");
$node->reload;
$node->poll_query_until('postgres',
	q{SELECT auth_method = 'scram-sha-256' FROM pg_hba_file_rules WHERE line_number = 1}) or die;
my $watch = $node->background_psql('postgres');

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

sub startup_packet
{
	my ($user) = @_;
	my $body = pack('NZ*Z*Z*Z*C', 196608, 'user', $user, 'database', 'postgres', 0);
	return pack('N', 4 + length $body) . $body;
}

# Runs "times" clients, a few at a time; the sub gets each socket.
sub clients
{
	my ($times, $behave) = @_;
	my @open;
	for (1 .. $times)
	{
		my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port)
			or die "could not connect: $!";
		push @open, $socket;
		next if @open < 8 && $_ < $times;	# there are 10 slots
		$behave->($_) for @open;
		@open = ();
	}
}

my $consistent = q{SELECT count(*) FROM connbench.recent_connections WHERE fork_ms + startup_ms + init_ms <> total_ms
	OR NOT (fork_start_ns <= child_start_ns AND child_start_ns <= auth_end_ns AND auth_end_ns <= init_end_ns)
	OR (exit_ns IS NOT NULL AND exit_ns < init_end_ns)
	OR (role LIKE 'role%' AND role <> application_name)};
my $gauge = q{SELECT client_backends - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
	FROM connbench.info};

# --- rejected, killed, garbage -------------------------------------------

my @held = map { $node->background_psql('postgres') } 1 .. 9;
$watch->query_safe('SELECT connbench.reset()');
clients(1000, sub { my $s = shift; $s->send(startup_packet('role1')); 1 while $s->sysread(my $rest, 1000); });
becomes(q{SELECT sqlstate, reason, count FROM connbench.rejected_connections}, '53300|slots|1000',
	'a thousand rejections without a slot');
becomes('SELECT client_forks, unseen FROM connbench.postmaster_stats', '1000|0', 'each was a fork');
is($watch->query_safe('SELECT count(*) FROM connbench.recent_rejections'), '128', 'the newest are kept');
$_->quit for @held;
becomes($gauge, '0', 'the gauge is right');

$watch->query_safe('SELECT connbench.reset()');
clients(200, sub {
	my $s = shift;
	$s->send(startup_packet('alice'));
	$s->sysread(my $request, 1000);
	setsockopt($s, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
	close $s;
});
becomes(q{SELECT sum(count) || ' ' || max(count) FILTER (WHERE stage = 'authentication') FROM connbench.early_leavers},
	'200 200', 'two hundred clients that vanished during authentication');
my $i = 0;
clients(200, sub { my $s = shift; $s->send("garbage, $i") if $i++ % 2; close $s; });
$node->safe_psql('postgres', 'SELECT 1');
becomes(q{SELECT string_agg(stage || ' ' || count, ', ' ORDER BY stage) FROM connbench.early_leavers WHERE count > 0},
	'authentication 200, sent nothing 100, startup packet 100', 'two hundred that sent garbage or nothing');
becomes('SELECT client_forks, unseen FROM connbench.postmaster_stats', '401|0', 'all accounted for');
is($watch->query_safe(q{SELECT connections, (SELECT count(*) FROM connbench.rejected_connections) FROM connbench.info}), '1|0',
	'and nothing else moved');
becomes(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}, '1', 'no backend is left');
becomes($gauge, '0', 'the gauge is right');
is($watch->query_safe(q{SELECT count(*) FROM pg_locks WHERE pid <> pg_backend_pid()}), '0', 'no lock is held');
$watch->quit;

# --- 64 parallel connectors ----------------------------------------------

$node->append_conf('postgresql.conf', "max_connections = 100\n");
$node->restart;
$watch = $node->background_psql('postgres');
my $select = $node->basedir . '/select.sql';
append_to_file($select, "SELECT 1;\n");
my $read = $node->basedir . '/read.sql';
append_to_file($read, join('', map { "SELECT count(*) FROM connbench.$_;\n" }
	qw(connection_stats phase_stats rejected_connections recent_rejections early_leavers recent_connections
	process_counts postmaster_stats info)));
my $reset = $node->basedir . '/reset.sql';
append_to_file($reset, "SELECT connbench.reset();\n\\sleep 20 ms\n");

# Starts pgbench; connections from several roles have that as application_name.
sub pgbench
{
	my ($user, @options) = @_;
	local $ENV{PGAPPNAME} = $user // 'watch';
	my $output = '';
	my $handle = IPC::Run::start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, $user ? ('-U', $user) : (),
		@options, 'postgres' ], '<', \undef, '&>', \$output);
	return { handle => $handle, output => \$output };
}

# Transactions of a pgbench that has ended well.
sub transactions
{
	my ($run) = @_;
	$run->{handle}->finish or die "pgbench failed: ${$run->{output}}";
	${$run->{output}} =~ /actually processed: (\d+)/ or die ${$run->{output}};
	return $1;
}

# pgbench makes one connection of its own before its clients'
sub storm
{
	my (@beside) = @_;
	my @runs = map { pgbench($_, '-C', '-c', 8, '-j', 8, '-T', $seconds, '-f', $select) } @roles;
	my @others = map { pgbench(undef, '-c', 1, '-T', $seconds, '-f', $_) } @beside;
	my $sum = 0;
	$sum += 1 + transactions($_) for @runs;
	transactions($_) for @others;
	return ($sum, 2 * @others);
}

sub begun
{
	return q{(SELECT connections FROM connbench.server_samples ORDER BY sampled_at DESC LIMIT 1)};
}

my $sessions_before = $watch->query_safe(q{SELECT sessions FROM pg_stat_database WHERE datname = 'postgres'});
$watch->query_safe('SELECT connbench.reset()');
my ($connected, $others) = storm($read);
becomes($gauge, '0', 'the gauge is right after the storm');
is($watch->query_safe(q{SELECT sum(connections) FROM connbench.connection_stats}), $connected + $others,
	'64 connectors: the ledger has them all');
is($watch->query_safe('SELECT connections FROM connbench.info'), $connected + $others, 'and so has the total');
is($watch->query_safe(q{SELECT sum(connbench.count(total) + connbench.count(cold)) || ' ' || sum(ended_normal + ended_client_lost + ended_fatal + ended_killed)
	FROM connbench.connection_ledger()}), ($connected + $others) . ' ' . ($connected + $others),
	'so have the histograms and the ended sessions');
becomes(qq{SELECT sessions - $sessions_before FROM pg_stat_database WHERE datname = 'postgres'}, $connected + $others,
	'PostgreSQL has counted as many');
becomes('SELECT client_forks - ' . ($connected + $others) . ', unseen FROM connbench.postmaster_stats', '0|0', 'each was a fork');
is($watch->query_safe(q{SELECT keys_used || ' ' || (connections_beyond_max_keys > 0) FROM connbench.info}), '5 true',
	'keys beyond max_keys are counted as other');
is($watch->query_safe($consistent), '0', 'no row mixes two connections');
is($watch->query_safe(q{SELECT count(*) <= 32 AND count(*) = count(DISTINCT pid) FROM connbench.recent_connections}), 't',
	'the ring has wrapped around, and holds each once');

# again, while the ledger is reset fifty times a second
select(undef, undef, undef, 0.5);		# for a sample that has them all
my $begun_before = $watch->query_safe('SELECT ' . begun());
($connected, $others) = storm($read, $reset);
becomes($gauge, '0', 'the gauge is right after a storm with resets');
becomes('SELECT ' . begun() . " - $begun_before", $connected + $others, 'no connection was lost to a reset');
is($watch->query_safe($consistent), '0', 'no row mixes two connections');
is($watch->query_safe(q{SELECT sum(connections) = (SELECT connections FROM connbench.info) FROM connbench.connection_stats}),
	't', 'keys and total agree');
$watch->query_safe('SELECT connbench.reset()');
$node->safe_psql('postgres', 'SELECT 1') for 1 .. 3;
is($watch->query_safe(q{SELECT sum(connections) FROM connbench.connection_stats}), '3', 'and it counts on');

$watch->quit;
done_testing();
