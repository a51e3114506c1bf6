# The extension where the server is not an ordinary primary: on a standby,
# through dump and restore, through pg_upgrade; and for those who may not see
# everything.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $settings = qq{
shared_preload_libraries = 'connbench'
autovacuum = off
connbench.sample_interval = 200ms
};
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', $settings);
$primary->start;
$primary->safe_psql('postgres', q{
	CREATE EXTENSION connbench;
	CREATE ROLE alice LOGIN;
	CREATE ROLE observer LOGIN IN ROLE pg_read_all_stats;
	CREATE ROLE operator LOGIN});

# --- privileges -----------------------------------------------------------

$primary->safe_psql('postgres', 'SELECT 1', extra_params => [ '-U', $_ ]) for qw(alice operator observer);

# The roles whose names this role sees in the view.
sub visible_roles
{
	my ($role, $view) = @_;
	return $primary->safe_psql('postgres', qq{SELECT string_agg(DISTINCT role, ' ' ORDER BY role) FROM connbench.$view
		WHERE role IN ('alice', 'operator', '<insufficient privilege>')}, extra_params => [ '-U', $role ]);
}

for my $view (qw(connection_stats phase_stats recent_connections))
{
	is(visible_roles('alice', $view), '<insufficient privilege> alice', "$view: alice sees her own name only");
	is(visible_roles('observer', $view), 'alice operator', "$view: pg_read_all_stats sees all");
}
is($primary->safe_psql('postgres', q{SELECT count(DISTINCT pid) FROM connbench.recent_connections},
		extra_params => [ '-U', 'alice' ]), $primary->safe_psql('postgres',
		q{SELECT count(DISTINCT pid) FROM connbench.recent_connections WHERE role = 'alice'}), 'and the pids of her own');
for my $denied ('SELECT connbench.reset()', 'SELECT * FROM connbench.run', 'INSERT INTO connbench.failure DEFAULT VALUES')
{
	my ($rc, $out, $err) = $primary->psql('postgres', "\\set VERBOSITY verbose\n$denied", extra_params => [ '-U', 'alice' ]);
	like($err, qr/ERROR:  42501: permission denied/, "alice may not: $denied");
}
$primary->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION connbench.reset() TO operator');
is($primary->safe_psql('postgres', q{SELECT connbench.reset() IS NOT NULL}, extra_params => [ '-U', 'operator' ]), 't',
	'whom it is granted to may reset');

# --- standby ----------------------------------------------------------------

$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery(), connections FROM connbench.info'), 't|1',
	'a standby counts its own connections only');
is($standby->safe_psql('postgres', q{SELECT bool_and(n >= 0) FROM (
		SELECT count(*) AS n FROM connbench.phase_stats UNION ALL SELECT count(*) FROM connbench.process_minutes
		UNION ALL SELECT count(*) FROM connbench.postmaster_stats UNION ALL SELECT count(*) FROM connbench.server_memory
		UNION ALL SELECT length(connbench.snapshot()::text)) AS s}), 't', 'every view works');
is($standby->safe_psql('postgres', q{SELECT count FROM connbench.process_counts WHERE backend_type = 'startup'}), '1',
	'the startup process is counted');
ok($standby->poll_query_until('postgres', 'SELECT count(*) > 2 FROM connbench.server_samples'), 'the census worker runs');
ok($primary->poll_query_until('postgres', q{SELECT connections >= 1 FROM connbench.connection_stats WHERE backend_kind = 'walsender'}),
	'the primary counts the walsender');
my $since = $standby->safe_psql('postgres', 'SELECT connbench.reset()');
ok($standby->safe_psql('postgres', "SELECT stats_since = '$since' FROM connbench.info") eq 't', 'reset works on a standby');
$standby->restart;
is($standby->safe_psql('postgres', "SELECT stats_since = '$since', connections FROM connbench.info"), 't|2',
	'and its ledger survives its restart');
$standby->promote;
is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery(), connections > 2 FROM connbench.info'), 'f|t', 'and its promotion');
$standby->stop;

# --- dump and restore -------------------------------------------------------

$primary->safe_psql('postgres', q{CREATE DATABASE results});
$primary->safe_psql('results', q{CREATE EXTENSION connbench});
$primary->command_ok([ 'pgbench', '-i', '-q', '-s', '1', $primary->connstr('results') ], 'pgbench tables');
my $target = $primary->connstr('results') . ' sslmode=disable gssencmode=disable';
command_ok([ $ENV{CONNBENCH}, 'run', '--target', "one=$target", '--target', "two=$target", '--clients', '1', '--duration', '1',
	'--warmup', '0', '--rounds', '2', '--results', $primary->connstr('results') ], 'a run to be dumped');
my $contents = q{SELECT md5(string_agg(r::text, ',' ORDER BY r::text)), count(*) FROM (
	SELECT to_jsonb(x) FROM connbench.results x UNION ALL SELECT to_jsonb(x) FROM connbench.comparison x
	UNION ALL SELECT to_jsonb(x) FROM connbench.measurement x UNION ALL SELECT to_jsonb(x) FROM connbench.server_snapshot x) AS r};
my $before = $primary->safe_psql('results', $contents);
unlike($before, qr/\|0$/, 'there are results');
my $dump = $primary->basedir . '/results.dump';
command_ok([ 'pg_dump', '-Fc', '-f', $dump, $primary->connstr('results') ], 'dump');
$primary->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'pg_restore', '--exit-on-error', '-d', $primary->connstr('restored'), $dump ], 'restore');
is($primary->safe_psql('restored', $contents), $before, 'results come back as they were');
command_ok([ $ENV{CONNBENCH}, 'run', '--target', "one=$target", '--clients', '1', '--duration', '1', '--warmup', '0', '--rounds', '1',
	'--results', $primary->connstr('restored') ], 'and new runs are stored beside them');
is($primary->safe_psql('restored', 'SELECT count(DISTINCT run_id) FROM connbench.results'), '2', 'under a number of their own');

# --- pg_upgrade -------------------------------------------------------------

$primary->stop;
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->append_conf('postgresql.conf', $settings);
chdir $new->basedir or die;
my $bin = $primary->config_data('--bindir');
chomp $bin;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $primary->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin, '-s', $new->host,
	'-p', $primary->port, '-P', $new->port ], 'pg_upgrade with connbench preloaded in both clusters');
$new->start;
is($new->safe_psql('results', $contents), $before, 'results are upgraded');
is($new->safe_psql('postgres', 'SELECT connections FROM connbench.info'), '2', 'the ledger is that of the new cluster');
unlike(slurp_file($new->logfile), qr/connbench ignored file|WARNING|FATAL/, 'and nothing is complained about');

done_testing();
