# The ledger survives a clean restart, and nothing else: not a crash, not a
# damaged file, not a foreign one.  The server always starts.
use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
autovacuum = off
fsync = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION connbench; CREATE DATABASE kept');
$node->safe_psql('kept', 'SELECT 1');		# a cold one, then
$node->safe_psql('postgres', 'SELECT connbench.reset()');
$node->safe_psql('kept', 'SELECT 1') for 1 .. 5;
$node->psql('nowhere', 'SELECT 1') for 1 .. 3;

my $kept = q{SELECT i.stats_since, (SELECT connections || '/' || sessions_ended || '/' || connbench.count(p.histogram)
		FROM connbench.connection_stats c JOIN connbench.phase_stats p USING (database) WHERE database = 'kept' AND phase = 'total'),
	(SELECT count || sqlstate || phase FROM connbench.rejected_connections)
	FROM connbench.info i};
my $file = $node->data_dir . '/pg_stat/connbench.stat';
my $before = $node->safe_psql('postgres', $kept);
like($before, qr{\|5/5/5\|33D000init$}, 'something to keep');
my $forks = $node->safe_psql('postgres', 'SELECT forks FROM connbench.postmaster_stats');

$node->stop;
ok(-f $file, 'a clean shutdown writes the file');
my $good = slurp_file($file);
$node->start;
is($node->safe_psql('postgres', $kept), $before, 'a restart keeps the ledger');
cmp_ok($node->safe_psql('postgres', 'SELECT forks FROM connbench.postmaster_stats'), '>', $forks,
	'and the postmaster\'s account goes on');
ok(!-f $file, 'the file is removed once it is loaded');
is($node->safe_psql('postgres', 'SELECT client_backends FROM connbench.info'), '1', 'gauges start anew');

# fewer keys than the file has: what finds no room is counted as "other"
$node->safe_psql('postgres', 'ALTER SYSTEM SET connbench.max_keys = 1');
my $sum = q{SELECT sum(connections) FROM connbench.connection_stats};
my $connections = $node->safe_psql('postgres', $sum);
$node->restart;
is($node->safe_psql('postgres', $sum), $connections + 1, 'with a smaller max_keys nothing is lost');
is($node->safe_psql('postgres', q{SELECT count(*) FROM connbench.connection_stats WHERE database = 'other'}), '1',
	'but counted in the row "other"');
like(slurp_file($node->logfile), qr/connbench counts \d+ saved keys in the row "other"/, 'which the log says');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET connbench.max_keys');
$node->restart;

# save = off
$node->safe_psql('postgres', 'ALTER SYSTEM SET connbench.save = off');
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('connbench.save') = 'off'});
$node->restart;
is($node->safe_psql('postgres', 'SELECT connections FROM connbench.info'), '1', 'with save = off a restart starts anew');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET connbench.save');

# crash
$node->restart;
$node->stop('immediate');
ok(!-f $file, 'an immediate shutdown writes no file');
$node->start;
is($node->safe_psql('postgres', 'SELECT connections FROM connbench.info'), '1', 'after a crash the ledger starts anew');
$node->stop;
unlink $file;

# Starts with a file of this content and expects it to be refused, for this
# reason.  pg_ctl's own checks connect, too; what counts is that nothing of
# the file is there.
sub refused
{
	my ($name, $content, $reason) = @_;
	if (defined $content)
	{
		open my $fh, '>:raw', $file or die $!;
		print $fh $content;
		close $fh;
	}
	my $offset = -s $node->logfile;
	$node->start;
	my $rows = $node->safe_psql('postgres', q{SELECT count(*) FROM connbench.connection_stats WHERE database = 'kept'});
	my $log = slurp_file($node->logfile, $offset);
	my @lines = $log =~ /connbench ignored file "pg_stat\/connbench.stat" and counts anew: (.*)/g;
	$node->stop;
	unlink $file, "$file.bad";
	return $rows eq '0' && @lines == 1 && $lines[0] =~ $reason ? undef : "$name: rows $rows, log: @lines";
}

# $what is a list of [name, content, reason]; one test for all of them
sub all_refused
{
	my ($title, @cases) = @_;
	my @wrong = grep { defined } map { refused(@$_) } @cases;
	is(scalar @wrong, 0, "$title (" . @cases . ' files)') or diag(join "\n", @wrong);
}

sub flipped
{
	my ($offset) = @_;
	my $content = $good;
	substr($content, $offset, 1) = chr(ord(substr($content, $offset, 1)) ^ 0x10);
	return $content;
}

my $header = 40;
my $any = qr/./;
# t/unit/test_statfile.c damages each byte; here is that the server obeys
my @cuts = (1, $header, int(length($good) / 2));
all_refused('truncated', [ 'empty', '', qr/it is empty/ ],
	(map { [ "cut at $_", substr($good, 0, $_), qr/too short|length is wrong/ ] } @cuts, length($good) - 1),
	[ 'longer', $good . 'x', qr/length is wrong/ ]);
all_refused('header damaged', map { [ "header byte $_", flipped($_), $any ] } 0, 28, 39);
all_refused('payload damaged', map { [ "byte $_", flipped($_), qr/checksum is wrong/ ] }
	$header, length($good) - 1);
all_refused('not of connbench', [ 'text', 'x' x length($good), qr/not a file of connbench/ ]);

mkdir $file or die $!;
is(refused('directory', undef, qr/not a regular file|could not be opened/), undef, 'a directory in its place');
rmdir "$file.bad";
SKIP:
{
	skip 'root may read everything', 1 if $> == 0;
	open my $fh, '>:raw', $file or die $!;
	print $fh $good;
	close $fh;
	chmod 0, $file;
	is(refused('unreadable', undef, qr/it may not be read/), undef, 'a file that may not be read');
}

# another cluster's file
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init;
$other->append_conf('postgresql.conf', "shared_preload_libraries = 'connbench'\nfsync = off\n");
$other->start;
$other->stop;
is(refused('foreign', slurp_file($other->data_dir . '/pg_stat/connbench.stat'), qr/it is of another database cluster/),
	undef, 'a file of another cluster');

# and the good one is still good
open my $fh, '>:raw', $file or die $!;
print $fh $good;
close $fh;
$node->start;
like($node->safe_psql('postgres', $kept), qr{\|5/5/5\|33D000init$}, 'the undamaged file is loaded');

done_testing();
