# Without preloading, across restarts and crashes, beside other modules.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nrestart_after_crash = on\n");
$node->start;

# not preloaded: the extension can be created, results can be stored, and each
# live function says what is missing
$node->safe_psql('postgres', 'CREATE EXTENSION connbench');
is($node->safe_psql('postgres', 'SELECT count(*) FROM connbench.results'), '0',
	'the results views work without preloading');
my @live = split /\n/, $node->safe_psql('postgres', q{
	SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
	WHERE nspname = 'connbench' AND probin IS NOT NULL AND prosrc IN ('connbench_connection_ledger', 'connbench_rejections', 'connbench_recent',
			'connbench_process_counts', 'connbench_process_samples', 'connbench_server_samples',
			'connbench_recent_rejections', 'connbench_leavers', 'connbench_postmaster', 'connbench_info', 'connbench_backend_memory', 'connbench_reset') ORDER BY 1});
is(scalar @live, 12, 'twelve live functions');
for my $function (@live)
{
	$function =~ s/integer/1/;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT * FROM $function");
	like($err, qr/ERROR:  55000: connbench is not loaded\nHINT:  Add "connbench" to "shared_preload_libraries"/,
		"$function says that connbench is not loaded");
}

# preloaded, with other modules around it, in both orders; the second start is
# after a clean shutdown, so it goes on from what the first one counted
my $rejected = 0;
for my $libraries ('connbench, auth_delay, pg_stat_statements', 'pg_stat_statements, auth_delay, connbench')
{
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'\n");
	$node->restart;
	my $before = $node->safe_psql('postgres', 'SELECT connections FROM connbench.info');
	$node->safe_psql('postgres', 'SELECT 1') for 1 .. 3;
	is($node->safe_psql('postgres', 'SELECT connections FROM connbench.info') - $before, 4,
		"connections are counted with $libraries");
	$node->psql('nowhere', 'SELECT 1');
	is($node->safe_psql('postgres', q{SELECT count FROM connbench.rejected_connections WHERE sqlstate = '3D000'}),
		++$rejected, 'and rejections');
}

# crash: the server restarts, the ledger starts anew, and counts on
my $since = $node->safe_psql('postgres', 'SELECT stats_since FROM connbench.info');
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
eval { $session->quit };
ok( $node->poll_query_until('postgres', "SELECT stats_since > '$since' FROM connbench.info"),
	'after a crash the ledger starts anew');
my $before = $node->safe_psql('postgres', 'SELECT connections FROM connbench.info');
$node->safe_psql('postgres', 'SELECT 1') for 1 .. 3;
is($node->safe_psql('postgres', 'SELECT connections FROM connbench.info') - $before, 4,
	'and counts exactly');
is($node->safe_psql('postgres', 'SELECT client_backends FROM connbench.info'), '1',
	'the gauge holds no dead sessions');
ok( $node->poll_query_until('postgres', 'SELECT samples > 0 AND worker_pid > 0 FROM connbench.info'),
	'the census worker is back');
is( $node->safe_psql('postgres', 'SELECT forks BETWEEN 1 AND 1000 FROM connbench.postmaster_stats'),
	't', 'the fork account started anew as well');

# a wrong setting is named in the log and the default used, as for any module
$node->append_conf('postgresql.conf', "connbench.sample_interval = 10ms\n");
$node->restart;
like(slurp_file($node->logfile),
	qr/invalid value for parameter "connbench.sample_interval": 10\n.*DETAIL:  "connbench.sample_interval" must be 0/,
	'a wrong setting is named');
is($node->safe_psql('postgres', 'SELECT sample_interval_ms FROM connbench.info'), '1000',
	'and the default is used');
$node->stop;

# modes without a postmaster
my $single = qx{echo 'SELECT 1' | postgres --single -D '@{[ $node->data_dir ]}' postgres 2>&1};
like($single, qr/\?column\?/, 'single-user mode works');

done_testing();
