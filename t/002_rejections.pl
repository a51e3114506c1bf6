# Connections that the server turns away: each kind is counted exactly, in its
# phase and with its reason, and nothing else moves.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
max_connections = 12
superuser_reserved_connections = 2
max_wal_senders = 0
autovacuum = off
password_encryption = 'scram-sha-256'
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION connbench;
	CREATE ROLE alice LOGIN PASSWORD 'right';
	CREATE ROLE limited LOGIN CONNECTION LIMIT 1;
	CREATE ROLE plain LOGIN;
	CREATE DATABASE small CONNECTION LIMIT 1;
});
# alice needs her password, all others are trusted
my $hba = $node->data_dir . '/pg_hba.conf';
my $rest = slurp_file($hba);
unlink $hba;
$node->append_conf('pg_hba.conf', "local all alice scram-sha-256\n$rest");
$node->reload;

# psql keeps the reload honest: wait until the rule holds
$node->poll_query_until('postgres',
	q{SELECT auth_method = 'scram-sha-256' FROM pg_hba_file_rules WHERE line_number = 1});

my $watch = $node->background_psql('postgres');

sub rejections
{
	return $watch->query_safe(q{SELECT string_agg(concat_ws('/', sqlstate, phase, reason, count), ' '
		ORDER BY sqlstate, phase, reason) FROM connbench.rejected_connections});
}

sub connections
{
	return $watch->query_safe(q{SELECT sum(connections) FROM connbench.connection_stats});
}

# Connects "times" times, expecting failure each time.
sub fail_to_connect
{
	my ($times, $connstr) = @_;
	local $ENV{PGPASSWORD} = 'wrong';
	for (1 .. $times)
	{
		my ($rc) = $node->psql('postgres', 'SELECT 1',
			connstr => $node->connstr('postgres') . " $connstr", on_error_die => 0);
		die "connected with $connstr" if $rc == 0;
	}
}

is(rejections(), '', 'nothing rejected so far');
my $connections = connections();

fail_to_connect(4, 'user=alice');
is(rejections(), '28P01/authentication/4', 'wrong password');

fail_to_connect(3, 'dbname=nowhere');
is(rejections(), '28P01/authentication/4 3D000/init/3', 'unknown database');

fail_to_connect(2, 'user=nobody');
is(rejections(), '28000/init/2 28P01/authentication/4 3D000/init/3', 'unknown role');

my $one = $node->background_psql('postgres', extra_params => [ '-U', 'limited' ]);
fail_to_connect(2, 'user=limited');
my $other = $node->background_psql('small', extra_params => [ '-U', 'plain' ]);
fail_to_connect(3, 'dbname=small user=plain');
is(rejections(),
	'28000/init/2 28P01/authentication/4 3D000/init/3 53300/init/database/3 53300/init/role/2',
	'limits of a role and of a database are told apart');

# the ordinary slots are used up: 12 - 2 reserved, of which 3 are taken
my @held = map { $node->background_psql('postgres', extra_params => [ '-U', 'plain' ]) } 1 .. 7;
fail_to_connect(5, 'user=plain');
like(rejections(), qr{53300/init/reserved/5}, 'reserved slots');

# all slots: from here on children have no PGPROC
push @held, map { $node->background_psql('postgres') } 1 .. 2;
fail_to_connect(6, 'user=plain');
is(rejections(),
	'28000/init/2 28P01/authentication/4 3D000/init/3 '
	. '53300/init/database/3 53300/init/reserved/5 53300/init/role/2 53300/startup/slots/6',
	'no slot at all, from children without a PGPROC');

is(connections() - $connections, 11, 'only the sessions that were held count as connections');
is($watch->query_safe('SELECT client_backends FROM connbench.info'), '12',
	'all slots are connected');
is($watch->query_safe(q{SELECT bool_and(last_at BETWEEN now() - interval '1 hour' AND clock_timestamp())
	FROM connbench.rejected_connections}), 't', 'each kind has the time of its last');

# forks: at least one for each connection and each rejection
is($watch->query_safe(q{SELECT p.forks >= i.connections + (SELECT sum(count) FROM connbench.rejected_connections)
	FROM connbench.postmaster_stats p, connbench.info i}), 't', 'a rejection is a fork, too');

$_->quit for @held, $one, $other;
ok($node->poll_query_until('postgres', 'SELECT client_backends = 2 FROM connbench.info'),
	'the gauge returns to the two that are left');

# a client that gives up at the password prompt is not a rejection
my $before = rejections();
$node->psql('postgres', 'SELECT 1',
	connstr => $node->connstr('postgres') . ' user=alice', extra_params => ['-w'], on_error_die => 0);
ok($node->poll_query_until('postgres', 'SELECT abandoned_authentications = 1 FROM connbench.info'),
	'who leaves at the password prompt is counted apart');
is(rejections(), $before, 'and not as rejected');

$watch->query_safe('SELECT connbench.reset()');
is(rejections(), '', 'reset clears rejections');
$watch->quit;

done_testing();
