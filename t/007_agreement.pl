# Our times against PostgreSQL's own, connection by connection.
#
# From 18 on, log_connections = setup_durations logs what the server measured
# itself.  It starts its clocks earlier and stops them later than we can, so
# ours must never be longer; what lies between is known for the most part, and
# what is not must be small.  On every version, log_disconnections and
# pg_stat_activity know when the process began.
use strict;
use warnings FATAL => 'all';

use List::Util qw(max sum);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $connections = 200;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
listen_addresses = '127.0.0.1'
autovacuum = off
log_statement = none
log_disconnections = on
connbench.sample_interval = 0
});
system_log('openssl', 'req', '-new', '-x509', '-nodes', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
	'-subj', '/CN=localhost', '-days', '2', '-keyout', $node->data_dir . '/server.key', '-out', $node->data_dir . '/server.crt') == 0
	or die 'openssl';
chmod 0600, $node->data_dir . '/server.key';
$node->append_conf('postgresql.conf', "ssl = on\n");
$node->start;
my $version = $node->safe_psql('postgres', q{SELECT current_setting('server_version_num')});
if ($version >= 180000)
{
	$node->append_conf('postgresql.conf', "log_connections = 'setup_durations'\n");
	$node->reload;
	$node->poll_query_until('postgres', q{SELECT current_setting('log_connections') = 'setup_durations'}) or die;
}
$node->safe_psql('postgres', 'CREATE EXTENSION connbench');

my $script = $node->basedir . '/script.sql';
append_to_file($script, "SELECT 1;\n");

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return $sorted[ @sorted / 2 ];
}

# pid => row of recent_connections
sub connect_many
{
	my ($connstr) = @_;
	$node->safe_psql('postgres', 'SELECT connbench.reset()');
	my $from = -s $node->logfile;
	command_ok([ 'pgbench', '-n', '-C', '-c', '1', '-t', $connections, '-f', $script, $connstr ], "connections with $connstr");
	$node->poll_query_until('postgres', "SELECT count(ended) >= $connections FROM connbench.recent_connections") or die;

	my @columns = qw(pid accept_wait_ms fork_ms startup_ms auth_ms init_ms total_ms ready_ms session_ms);
	my %ours;
	for (split /\n/, $node->safe_psql('postgres',
			'SELECT ' . join(', ', @columns) . ' FROM connbench.recent_connections WHERE ended IS NOT NULL'))
	{
		my %row;
		@row{@columns} = split /\|/;
		$ours{ $row{pid} } = \%row;
	}
	return (\%ours, slurp_file($node->logfile, $from));
}

for my $transport ([ unix => 'host=' . $node->host ], [ tcp => 'host=127.0.0.1 sslmode=disable' ], [ tls => 'host=127.0.0.1 sslmode=require' ])
{
	my ($name, $connstr) = @$transport;
	my ($ours, $log) = connect_many("$connstr gssencmode=disable port=" . $node->port . ' dbname=postgres');

	# the session time of log_disconnections, in ms, begins in the child
	my ($sessions, $too_long, @share) = (0, 0);
	while ($log =~ /\[(\d+)\].*disconnection: session time: (\d+):(\d+):([\d.]+)/g)
	{
		my $row = $ours->{$1} or next;
		my $theirs = (($2 * 60 + $3) * 60 + $4) * 1000;
		my $mine = $row->{startup_ms} + $row->{init_ms} + $row->{session_ms};

		# it is written in ms, before the process is quite done
		$too_long++ if $theirs > $mine + 2;
		push @share, $theirs / $mine;
		$sessions++;
	}
	cmp_ok($sessions, '>=', $connections, "$name: sessions in the log are found by pid");
	cmp_ok($too_long, '<=', $sessions / 100, "$name: the logged session is not longer than from child start to exit");
	cmp_ok(median(@share), '>=', 0.7, "$name: nor, at the median, much shorter");
	note "measured: " . sprintf('%s: the logged session time is %.1f %% of ours at the median', $name, 100 * median(@share));

	SKIP:
	{
		skip 'PostgreSQL measures its own set-up from 18 on', 5 if $version < 180000;
		my (@total, @before_ready, @auth, @auth_limit, %longer);
		while ($log =~ /\[(\d+)\].*connection ready: setup total=([\d.]+) ms, fork=([\d.]+) ms, authentication=([\d.]+) ms/g)
		{
			my $row = $ours->{$1} or next;
			my ($total, $fork, $auth) = ($2, $3, $4);
			$longer{fork}++ if $row->{fork_ms} > $fork + 0.002;
			$longer{total}++ if $row->{total_ms} > $total + 0.002;
			# one connection in $connections may have run no statement
			next unless length $row->{ready_ms};
			push @before_ready, ($total - $row->{total_ms} - $row->{accept_wait_ms}) / $total;
			push @total, ($total - $row->{accept_wait_ms} - $row->{total_ms} - $row->{ready_ms}) / $total;
			push @auth, abs($auth - $row->{auth_ms});
			push @auth_limit, max(0.03 * $auth, 0.05);
		}
		cmp_ok(scalar @total, '>=', $connections, "$name: set-up durations are found by pid");
		is($longer{fork} // 0, 0, "$name: our fork is never longer than PostgreSQL's");
		is($longer{total} // 0, 0, "$name: nor is our total");
		cmp_ok(median(@total), '<=', 0.05, "$name: totals differ by at most 5 % at the median");
		cmp_ok(median(@auth), '<=', median(@auth_limit), "$name: authentication by at most 3 % or 50 us");
		note "measured: " . sprintf('%s: %d connections, median difference of total %.2f %% (%.2f %% without "ready"), of authentication %.1f us (limit %.1f us)',
			$name, scalar @total, 100 * median(@total), 100 * median(@before_ready), 1000 * median(@auth), 1000 * median(@auth_limit));
	}
}

# a process that has begun has its start time after ours
is($node->safe_psql('postgres', q{SELECT r.started_at + r.fork_ms * interval '1 ms' <= a.backend_start + interval '2 ms'
		AND a.backend_start <= r.started_at + r.total_ms * interval '1 ms' + interval '2 ms'
	FROM connbench.recent_connections r JOIN pg_stat_activity a USING (pid) WHERE pid = pg_backend_pid()}), 't',
	'backend_start lies between child start and ready');

done_testing();
