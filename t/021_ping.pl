# connbench ping: one line per connection, failures included.
use strict;
use warnings FATAL => 'all';

use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $connbench = $ENV{CONNBENCH} || 'loadgen/connbench';
plan skip_all => "no load generator at $connbench" unless -x $connbench;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
listen_addresses = '127.0.0.1'
autovacuum = off
password_encryption = 'scram-sha-256'
});
my $hba = slurp_file($node->data_dir . '/pg_hba.conf');
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', "host all alice 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n$hba");
$node->start;
$node->safe_psql('postgres', q{CREATE ROLE alice LOGIN PASSWORD 'right'; CREATE DATABASE bare; CREATE EXTENSION connbench});

my $tcp = 'host=127.0.0.1 port=' . $node->port . ' sslmode=disable gssencmode=disable';

sub ping
{
	my ($out, $err);
	IPC::Run::run([ $connbench, 'ping', @_ ], '>', \$out, '2>', \$err);
	return ($? >> 8, $out, $err);
}

# what stands in a column of the numbered lines; "-" is undef
sub column
{
	my ($out, $name, $nth) = @_;
	my ($heading) = $out =~ /^( +ms .*)$/m;
	my @names = split /\s{2,}/, $heading =~ s/^ +ms +|\| //gr =~ s/first query/first_query/r =~ s/ (?=\S)/  /gr;
	my @at = grep { $names[$_] eq $name } 0 .. $#names;
	return map { my @f = split ' ', s/\|//r; my $v = $f[ 1 + $at[ $nth // 0 ] ]; $v eq '-' ? undef : $v } $out =~ /^ +(\d+ .*)$/mg;
}

my ($rc, $out, $err) = ping('-c', 3, '-i', 0, "$tcp dbname=postgres user=alice password=right");
is($rc, 0, 'all connections succeeded');
is($err, '', 'no complaints');
my @total = column($out, 'total');
is(scalar @total, 3, 'a line for each connection');
for my $i (0 .. 2)
{
	my $sum = 0;
	$sum += (column($out, $_))[$i] // 0 for qw(resolve tcp negotiate tls startup auth ready first_query close);
	cmp_ok(abs($total[$i] - $sum), '<=', 0.1 * $total[$i] + 1, 'the parts make up the whole');
	cmp_ok((column($out, 'total', 1))[$i], '<=', $total[$i], 'the server spent less than the client waited');
}
ok(!(grep { !defined } column($out, 'auth')), 'SCRAM has an auth phase');
ok(!(grep { defined } column($out, 'tls')), 'and no TLS');
like($out, qr/^3 connections attempted, 3 succeeded, 0 failed$/m, 'the summary counts them');
like($out, qr/^The largest part is (startup|auth|ready), \d+ % of the time: /m, 'and names the largest part');

($rc, $out) = ping('-c', 2, '-i', 0, "$tcp dbname=bare user=alice password=right");
is($rc, 0, 'without the extension in the database');
unlike($out, qr/\| server/, 'the server says nothing');

($rc, $out) = ping('-c', 2, '-i', 0, "$tcp dbname=postgres user=alice password=wrong");
is($rc, 2, 'a failure has its exit status');
is(() = $out =~ /failed in phase ready, class authentication 28P01:/g, 2, 'each failure is a line with phase, class and SQLSTATE');
unlike($out, qr/password=|wrong/, 'secrets are not shown');
like($out, qr/^2 connections attempted, 0 succeeded, 2 failed$/m, 'and is counted');

my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die;
for my $case (
	[ 'host=127.0.0.1 port=1', 'phase tcp, class refused' ],
	[ 'host=no.such.host.invalid', 'phase resolve, class unresolved' ],
	[ 'host=127.0.0.1 sslmode=disable gssencmode=disable port=' . $silent->sockport, 'phase startup, class timeout' ])
{
	($rc, $out) = ping('-c', 1, '-W', 1, $case->[0]);
	is($rc, 2, "$case->[0] fails");
	like($out, qr/failed in $case->[1]/, "in $case->[1]");
}

for my $case ([ [ '-c', '0' ], qr/--count must be a number from 1 to/ ], [ [ '-c', '1.5' ], qr/whole number/ ],
	[ [ 'a', 'b' ], qr/unexpected argument "b"/ ], [ ['nonsense=1'], qr/invalid connection option "nonsense"/ ],
	[ ['--no-such'], qr/unrecognized option/ ])
{
	($rc, $out, $err) = ping(@{ $case->[0] });
	is("$rc $out", '1 ', "ping @{$case->[0]}: exit status 1");
	like($err, $case->[1], 'says why');
}
($rc, $out) = ping('--help');
is($rc, 0, '--help');
like($out, qr/Usage:\n  connbench ping/, 'shows usage');

done_testing();
