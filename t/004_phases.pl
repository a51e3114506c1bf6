# Phases that depend on how one connects and on the server's version: TLS,
# core's own timing (18+), login event triggers (17+), first query.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
listen_addresses = '127.0.0.1'
autovacuum = off
});
$node->append_conf('pg_hba.conf', "host all all 127.0.0.1/32 trust\n");

my $pgdata = $node->data_dir;
my $with_tls = check_pg_config('#define USE_OPENSSL 1')
	&& system_log('openssl', 'req', '-new', '-x509', '-nodes', '-newkey', 'ec',
	'-pkeyopt', 'ec_paramgen_curve:prime256v1', '-subj', '/CN=127.0.0.1', '-days', '2',
	'-keyout', "$pgdata/server.key", '-out', "$pgdata/server.crt") == 0;
if ($with_tls)
{
	chmod 0600, "$pgdata/server.key";
	$node->append_conf('postgresql.conf', "ssl = on\n");
}
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION connbench');
my $version = $node->safe_psql('postgres', 'SHOW server_version_num');
my $port = $node->port;

# Connects with these settings and returns the session's row of
# recent_connections as a hash, read by another session.
sub connection_row
{
	my ($connstr, $sql) = @_;
	my ($rc, $pid) = $node->psql('postgres', $sql || 'SELECT pg_backend_pid()', connstr => $connstr);
	die "could not connect with $connstr" if $rc != 0;
	$node->poll_query_until('postgres',
		"SELECT ended IS NOT NULL FROM connbench.recent_connections WHERE pid = $pid");
	my $json = $node->safe_psql('postgres',
		"SELECT json_object_agg(key, value) FROM connbench.recent_connections AS r, json_each_text(row_to_json(r)) WHERE pid = $pid");
	my %row = $json =~ /"(\w+)" : "([^"]*)"/g;
	return \%row;
}

my $tcp = "host=127.0.0.1 port=$port dbname=postgres sslmode=disable";
my $row = connection_row($tcp);
is($row->{transport}, 'tcp', 'transport without TLS');
ok(!defined $row->{tls_ms}, 'no TLS phase without TLS');
ok($row->{first_query_ms} > 0 && $row->{first_query_ms} <= $row->{session_ms},
	'the first query lies inside the session');

SKIP:
{
	skip 'no OpenSSL', 6 unless $with_tls;
	skip 'TLS has no mark of its own from 19 on', 6 if $version >= 190000;
	for my $turn ('at first', 'after a reload')
	{
		$row = connection_row("host=127.0.0.1 port=$port dbname=postgres sslmode=require");
		is($row->{transport}, 'tls', "transport with TLS $turn");
		ok(defined $row->{tls_ms} && $row->{tls_ms} > 0, "the handshake is a phase $turn");
		ok($row->{tls_ms} < $row->{startup_ms}, "and lies inside startup $turn");
		$node->reload;
		sleep 1;
	}
}

SKIP:
{
	skip 'core keeps no timing before 18', 3 if $version < 180000;
	$row = connection_row($tcp);
	ok(defined $row->{$_}, "$_ comes from core's timing") for qw(accept_wait_ms negotiation_ms auth_ms);
}
SKIP:
{
	skip 'core keeps timing from 18 on', 1 if $version >= 180000;
	ok(!defined $row->{negotiation_ms} && !defined $row->{auth_ms},
		'without core\'s timing these phases are unknown, not 0');
}

# a first statement that is a utility or fails is not the first query
$row = connection_row($tcp, "SET work_mem = '1MB'; SELECT pg_backend_pid()");
ok($row->{first_query_ms} > 0, 'a utility statement is passed over');
my ($rc, $out, $err) = $node->psql('postgres',
	'SELECT 1 / (random() * 0)::int; SELECT pg_sleep(0.3); SELECT pg_backend_pid()', on_error_stop => 0);
my ($pid) = $out =~ /(\d+)\s*$/;
is($node->safe_psql('postgres',
		"SELECT first_query_ms BETWEEN 300 AND session_ms FROM connbench.recent_connections WHERE pid = $pid"),
	't', 'the first query is the first that succeeds');

SKIP:
{
	skip 'login event triggers came with 17', 7 if $version < 170000;
	$node->safe_psql('postgres', q{
		CREATE DATABASE guarded;
		CREATE ROLE unwanted LOGIN});
	$node->safe_psql('guarded', q{
		CREATE FUNCTION at_login() RETURNS event_trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF session_user = 'unwanted' THEN RAISE 'not you'; END IF;
			PERFORM pg_sleep(0.05);
		END $$;
		CREATE EVENT TRIGGER slow_login ON login EXECUTE FUNCTION at_login()});

	(my $guarded = $tcp) =~ s/dbname=postgres/dbname=guarded/;
	$row = connection_row($guarded);
	ok($row->{login_trigger_ms} >= 50, 'the login trigger is a phase');
	ok($row->{fork_ms} + $row->{startup_ms} + $row->{init_ms} - $row->{total_ms} < 1e-6,
		'and outside total');
	ok($row->{first_query_ms} < $row->{session_ms} - 49,
		'its own query is not taken for the first');

	my ($rc) = $node->psql('guarded', 'SELECT 1', connstr => "$guarded user=unwanted");
	isnt($rc, 0, 'a login trigger can refuse');
	is($node->safe_psql('postgres', q{SELECT sqlstate, phase, count FROM connbench.rejected_connections}),
		'P0001|login_trigger|1', 'with its own SQLSTATE, after authentication');
	ok($node->poll_query_until('postgres', q{SELECT ended_fatal = 1 AND connections = 1
		FROM connbench.connection_stats WHERE role = 'unwanted'}),
		'a session that core counts too, ended by a FATAL error');
	my ($dead) = $node->safe_psql('postgres', q{SELECT login_trigger_ms IS NULL AND first_query_ms IS NULL
		FROM connbench.recent_connections WHERE role = 'unwanted'});
	is($dead, 't', 'and with neither trigger nor query measured');
}

done_testing();
