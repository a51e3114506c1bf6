# Health checks are connections, too: those of HAProxy, of each kind, are
# listed as what they are, and the workload beside them is counted as if they
# were not there.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub found { my ($program) = @_; return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH} }
plan skip_all => 'needs haproxy' unless found('haproxy');

my $every_ms = 200;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
listen_addresses = '127.0.0.1'
autovacuum = off
log_statement = none
connbench.sample_interval = 200ms
});
my $hba = slurp_file($node->data_dir . '/pg_hba.conf');
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', "host all alice 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n$hba");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION connbench;
	CREATE ROLE alice LOGIN PASSWORD 'right';
	CREATE ROLE worker LOGIN;
	CREATE ROLE probe LOGIN;
	CREATE DATABASE probe});

my $dir = PostgreSQL::Test::Utils::tempdir();
my $port = $node->port;
my $front = PostgreSQL::Test::Cluster::get_free_port();
my $check = "server pg 127.0.0.1:$port check inter $every_ms";
append_to_file("$dir/haproxy.cfg", <<"EOT");
global
	pidfile $dir/haproxy.pid
defaults
	mode tcp
	timeout connect 5s
	timeout client 1m
	timeout server 1m
listen plain
	bind 127.0.0.1:$front
	$check
backend with_password
	option pgsql-check user alice
	$check
backend tls_asked_for
	option tcp-check
	tcp-check connect
	tcp-check send-binary 0000000804d2162f
	tcp-check expect binary 4e
	$check
backend trusted
	option pgsql-check user probe
	$check
EOT
my $script = $node->basedir . '/select.sql';
append_to_file($script, "SELECT 1;\n");

# pgbench reconnects for each transaction and makes one connection before
sub workload
{
	$node->safe_psql('postgres', 'SELECT connbench.reset()');
	my ($out, $err);
	IPC::Run::run([ 'pgbench', '-n', '-C', '-c', '2', '-j', '2', '-T', '6', '-f', $script, $_[0] ], '>', \$out, '2>', \$err)
		or die $err;
	return 1 + ($out =~ /actually processed: (\d+)/)[0];
}

my $of_worker = q{SELECT sum(s.connections), sum(connbench.count(l.total)) + sum(cold_connections) FROM connbench.connection_stats s
	JOIN connbench.connection_ledger() l USING (database_oid, role_oid, transport) WHERE s.role = 'worker'};
my $direct = "host=127.0.0.1 port=$port dbname=postgres user=worker sslmode=disable gssencmode=disable";
my $alone = workload($direct);
is($node->safe_psql('postgres', $of_worker), "$alone|$alone", 'the workload alone');
is($node->safe_psql('postgres', 'SELECT sum(count) FROM connbench.early_leavers'), '0', 'leaves nobody early');

$node->command_ok([ 'haproxy', '-D', '-f', "$dir/haproxy.cfg" ], 'start HAProxy');
END
{
	my $status = $?;
	if (-f "$dir/haproxy.pid")
	{
		my ($pid) = slurp_file("$dir/haproxy.pid") =~ /^(\d+)/;
		kill 'TERM', $pid if $pid;
	}
	$? = $status;
}
my $beside = workload($direct =~ s/port=\d+/port=$front/r);
is($node->safe_psql('postgres', $of_worker), "$beside|$beside", 'with health checks: the workload is counted as before');

# 6 s at one per 200 ms make 30 of each kind, on a machine that keeps up
for my $kind ([ 'tcp-check that asks for TLS', q{SELECT count FROM connbench.early_leavers WHERE stage = 'negotiation'} ],
	[ 'pgsql-check that would need a password', q{SELECT count FROM connbench.early_leavers WHERE stage = 'authentication'} ],
	[ 'pgsql-check that is let in: a session of its own role', q{SELECT connections FROM connbench.connection_stats WHERE role = 'probe'} ])
{
	my $count = $node->safe_psql('postgres', $kind->[1]) || 0;
	cmp_ok($count, '>=', 5, $kind->[0]);
	cmp_ok($count, '<=', 60, '  as often as it was asked for');
}
# HAProxy breaks its plain check off before the handshake is complete
is($node->safe_psql('postgres', q{SELECT count(*) FROM connbench.early_leavers WHERE count > 0
	AND stage NOT IN ('negotiation', 'authentication', 'sent nothing')}), '0', 'no other kind');
is($node->safe_psql('postgres', q{SELECT count(*) FROM connbench.rejected_connections WHERE sqlstate <> '3D000'}), '0', 'nothing was rejected');
ok($node->poll_query_until('postgres', q{SELECT p.client_forks - i.connections
	- (SELECT sum(count) FROM connbench.early_leavers) - (SELECT coalesce(sum(count), 0) FROM connbench.rejected_connections) BETWEEN 0 AND 1
	FROM connbench.postmaster_stats p, connbench.info i}), 'forks for clients = connections + early leavers + rejections');

done_testing();
