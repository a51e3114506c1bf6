# The load generator against a real server: what it refuses before any load,
# and that its counts add up, also when the server goes away.
use strict;
use warnings FATAL => 'all';

use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $connbench = $ENV{CONNBENCH} || 'loadgen/connbench';
plan skip_all => "no load generator at $connbench" unless -x $connbench;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'connbench'
connbench.sample_interval = 100ms
listen_addresses = '127.0.0.1'
max_connections = 30
restart_after_crash = on
autovacuum = off
});
$node->append_conf('pg_hba.conf', "host all all 127.0.0.1/32 trust\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION connbench');
$node->safe_psql('postgres', $_) for ('CREATE DATABASE bare', 'CREATE DATABASE bench',
	q{CREATE ROLE alice LOGIN PASSWORD 'right'});
# alice needs her password
my $hba = $node->data_dir . '/pg_hba.conf';
my $rules = slurp_file($hba);
unlink $hba;
$node->append_conf('pg_hba.conf', "host all alice 127.0.0.1/32 scram-sha-256\n$rules");
$node->reload;
$node->command_ok([ 'pgbench', '-i', '-q', '-s', '2', $node->connstr('bench') ], 'fill pgbench tables');

my $port = $node->port;
my $tcp = "host=127.0.0.1 port=$port dbname=bench sslmode=disable gssencmode=disable";
my $results = $node->connstr('postgres');

# Runs "connbench run" and returns its status, stdout and stderr.
sub connbench
{
	my @arguments = @_;
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ $connbench, 'run', @arguments ], '<', \undef, '>', \$out, '2>', \$err);
	$run->finish;
	return ($run->result(0), $out, $err);
}

# It must end with status 1, one error line, and no load.
sub refused
{
	my ($name, $pattern, @arguments) = @_;
	my ($status, $out, $err) = connbench(@arguments);
	is($status, 1, "$name: exit status 1");
	like($err, $pattern, "$name: says so");
	my @errors = $err =~ /^connbench: error: /mg;
	is(scalar @errors, 1, "$name: in one line");
	is($out, '', "$name: nothing was measured");
}

my @target = ('--target', "direct=$tcp");

refused('no target', qr/no target was given/);
refused('no clients', qr/--clients must be numbers from 1 on/, @target, '--clients', '0');
refused('bad list', qr/--clients must be numbers from 1 on/, @target, '--clients', '10,,20');
refused('negative duration', qr/--duration must be a number of seconds greater than 0, not "-1"/,
	@target, '--duration', '-1');
refused('no duration', qr/--duration must be/, @target, '--duration', 'nan');
refused('no rounds', qr/--rounds must be a whole number/, @target, '--rounds', '0');
refused('unknown workload', qr/unknown workload "tpcc"\n.*hint: Workloads are: tpcb-like/,
	@target, '--workload', 'tpcc');
refused('unknown mode', qr/unknown mode "pooled"\n.*hint: Modes are:/, @target, '--mode', 'pooled');
refused('unknown protocol', qr/unknown protocol "fast"/, @target, '--protocol', 'fast');
refused('nameless target', qr/given as NAME=CONNINFO/, '--target', "host: $tcp");
refused('bad conninfo', qr/target "x": .*/, '--target', 'x=nonsense');
refused('two of a name', qr/two targets named "direct"/, @target, @target);
refused('stray argument', qr/unexpected argument "stray"/, @target, 'stray');
refused('pgbench tables missing',
	qr/target "direct": pgbench's tables are missing or empty\n.*hint: Fill them with: pgbench -i -s 10 ".*host=127.0.0.1/,
	'--target', "direct=host=127.0.0.1 port=$port dbname=bare");
refused('unknown database', qr/target "direct": could not connect: .*3D000.*database "nowhere" does not exist/,
	'--target', "direct=host=127.0.0.1 port=$port dbname=nowhere");
refused('no such host', qr/could not resolve host name "no-such-host.invalid"/,
	'--target', 'x=host=no-such-host.invalid');
refused('results without the extension', qr/run CREATE EXTENSION connbench there/,
	@target, '--results', $node->connstr('bare'));

my ($wrong_status, $wrong_out, $wrong_err) = connbench('--target',
	"direct=host=127.0.0.1 port=$port dbname=bench user=alice password=wrong-secret");
is($wrong_status, 1, 'wrong password: exit status 1');
like($wrong_err, qr/could not connect: .*28P01.*password authentication failed/, 'wrong password: says so');
like($wrong_err, qr/phase "ready", class "authentication"/, 'wrong password: with phase and class');
unlike($wrong_err . $wrong_out, qr/wrong-secret/, 'wrong password: not shown');

# a port where nobody listens, and one where nobody answers
my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die $!;
refused('silent server', qr/no answer within 1 s, in phase "startup"/,
	'--target', 'x=host=127.0.0.1 sslmode=disable gssencmode=disable port=' . $silent->sockport, '--connect-timeout', '1');
my $free = $silent->sockport;
close $silent;
refused('nobody listens', qr/Connection refused/, '--target', "x=host=127.0.0.1 port=$free");

# ------------------------------------------------------------------------
# Counts add up, and the server agrees
# ------------------------------------------------------------------------

# The last run's rounds, one line each: mode, clients, attempted, succeeded, ...
sub last_run
{
	my ($columns, $where) = @_;
	return $node->safe_psql('postgres',
		"SELECT $columns FROM connbench.results WHERE run_id = (SELECT max(run_id) FROM connbench.run) " . ($where || ''));
}

my ($status, $out, $err) = connbench(@target, '--results', $results, '--clients', '1,7', '--threads', '3',
	'--mode', 'persistent', '--mode', 'per-transaction', '--workload', 'simple-update',
	'--duration', '1', '--warmup', '0', '--rounds', '2', '--seed', '42', '--progress', '0');
is($status, 0, 'a run: exit status 0');
like($out, qr/^target +mode +clients +tps/m, 'prints a table');
like($out, qr/seed 42/, 'and the seed');
is(last_run('count(*), min(rounds), bool_and(attempted = succeeded), sum(failed + abandoned)'),
	'4|2|t|0', 'four scenarios of two rounds, every request succeeded');
my $history = $node->safe_psql('bench', 'SELECT count(*), sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts) FROM pgbench_history');
is($history, last_run('sum(succeeded)') . '|t', 'each success is one row of history, and the balances agree');
is(last_run('bool_and(connects_attempted = succeeded)', q{AND mode = 'per-transaction'}), 't',
	'per transaction: one connection a request');
is(last_run('sum(connects_attempted)', q{AND mode = 'persistent'}), 2 * (1 + 7),
	'persistent: one connection a client and round');
is(last_run(q{bool_and(client_backends_max BETWEEN 1 AND clients AND processes_max > client_backends_max)}), 't',
	'the server had as many client backends as clients, or fewer');
is(last_run('client_backends_max, target_backends_max', q{AND mode = 'persistent' AND clients = 7}), '7|7',
	'exactly as many where they stay');
is(last_run('bool_and(backends_started_per_1000 = 1000)', q{AND mode = 'per-transaction'}), 't',
	'the server counts one backend for each request');
is($node->safe_psql('postgres', q{SELECT bool_and(connbench.count(m.histogram) = r.succeeded)
	FROM connbench.measurement m JOIN connbench.round r USING (round_id) WHERE measure = 'latency'}), 't',
	'each success has its latency');
is($node->safe_psql('postgres', q{SELECT count(*) FROM connbench.round r
	CROSS JOIN LATERAL (SELECT connbench.merge(histogram) FILTER (WHERE measure = 'connect') AS whole,
		sum(connbench.mean(histogram) * connbench.count(histogram)) FILTER
			(WHERE measure IN ('tcp', 'negotiate', 'tls', 'startup', 'auth', 'ready')) AS parts
		FROM connbench.measurement WHERE round_id = r.round_id) m
	WHERE abs(connbench.mean(whole) * connbench.count(whole) - parts) > parts * 1e-9}), '0',
	'the phases of connecting add up to the whole');
is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT concat_ws('|', target_kind, transport, auth_method), ' ') FROM connbench.scenario}),
	'direct|tcp|trust', 'the target was recognised');
is($node->safe_psql('postgres', q{SELECT complete, finished_at > started_at, seed, host ? 'kernel', server_settings ->> 'max_connections',
	command_line ~ 'simple-update' FROM connbench.run}), 't|t|42|t|30|t', 'the run explains itself');

# every protocol and workload does what it says
for my $protocol (qw(simple extended prepared))
{
	$node->safe_psql('bench', 'TRUNCATE pgbench_history');
	($status) = connbench(@target, '--results', $results, '--clients', '2', '--workload', 'tpcb-like',
		'--protocol', $protocol, '--duration', '0.5', '--warmup', '0', '--rounds', '1', '-q');
	is($status, 0, "$protocol: exit status 0");
	is($node->safe_psql('bench', q{SELECT count(*) FROM pgbench_history}), last_run('sum(succeeded)'),
		"$protocol: one row of history a success");
}
is($node->safe_psql('bench', q{SELECT (SELECT sum(abalance) FROM pgbench_accounts) =
	(SELECT sum(tbalance) FROM pgbench_tellers) + (SELECT coalesce(sum(delta), 0) FROM pgbench_history WHERE false)
	OR (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)}),
	't', 'tellers and branches were changed by the same sums');

# more clients than slots: failures are data
($status, $out) = connbench(@target, '--results', $results, '--clients', '40', '--mode', 'persistent',
	'--workload', 'select-only', '--duration', '1', '--warmup', '0', '--rounds', '1', '-q');
is($status, 0, 'too many clients: the run is complete');
is(last_run('attempted = succeeded + failed + abandoned, failed > 0, succeeded > 0, connects_failed > 0'), 't|t|t|t',
	'too many clients: counted, and the others go on');
is($node->safe_psql('postgres', q{SELECT DISTINCT failure_class, sqlstate, first_message ~ 'too many clients|reserved'
	FROM connbench.failure}), 'too_many_connections|53300|t', 'with class, SQLSTATE and message');
like($out, qr/^failed: direct, persistent, 40 clients: \d+ x too_many_connections 53300/m, 'the table tells it, too');
my $connects_failed = last_run('connects_failed');
is($node->safe_psql('postgres', q{SELECT sum(count) FROM connbench.rejected_connections WHERE sqlstate = '53300'}),
	$connects_failed, 'and the server has rejected exactly as many');

# two targets of unlike transport
($status, $out, $err) = connbench(@target, '--target', 'socket=' . $node->connstr('bench'), '--results', $results,
	'--clients', '2', '--duration', '0.2', '--warmup', '0', '--rounds', '2', '-q', '-S');
is($status, 0, 'unlike targets: exit status 0');
like($err, qr/warning: targets "direct" and "socket" are not comparable: transport tcp against unix/, 'unlike targets: a warning');
is($node->safe_psql('postgres', q{SELECT DISTINCT verdict, reason FROM connbench.comparison
	WHERE run_id = (SELECT max(run_id) FROM connbench.run)}),
	'not comparable|transport tcp against unix', 'unlike targets: no verdict');
($status, $out, $err) = connbench(@target, '--target', 'socket=' . $node->connstr('bench'), '--results', $results,
	'--clients', '2', '--duration', '0.2', '--warmup', '0', '--rounds', '2', '-q', '-S', '--compare-unlike');
unlike($err, qr/not comparable/, 'unlike targets are compared where that is the question');

# without a server to observe, its columns are unknown
($status, $out) = connbench(@target, '--clients', '2', '--duration', '0.2', '--warmup', '0', '--rounds', '1', '-S');
is($status, 0, 'only printed: exit status 0');
like($out, qr/^direct +persistent +2 .* - +- +\d+ +\d+ +0 +0$/m, 'unknown columns are dashes');
like($out, qr/note: the server was not observed: give --server/, 'and a note says why');

my @named = ('--target', "direct=$tcp application_name=clients");

# a backend is killed in mid-run: the server restarts, clients come back
my ($run_out, $run_err) = ('', '');
my $run = IPC::Run::start([ $connbench, 'run', @named, '--server', $results, '--clients', '5', '--duration', '6',
	'--warmup', '0', '--rounds', '1', '--workload', 'select-only', '--progress', '0' ],
	'<', \undef, '>', \$run_out, '2>', \$run_err);
$node->poll_query_until('postgres', q{SELECT count(*) = 5 FROM pg_stat_activity WHERE application_name = 'clients'});
usleep(500_000);
my $victim = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'clients' LIMIT 1});
kill 'KILL', $victim;
$run->finish;
is($run->result(0), 0, 'killed backend: the run goes on to its end');
my ($attempted, $succeeded, $failed, $abandoned) = $run_out =~ /^direct .* (\d+) +(\d+) +(\d+) +(\d+)$/m;
is($attempted, $succeeded + $failed + $abandoned, 'killed backend: counts add up');
cmp_ok($failed, '>=', 5, 'killed backend: each client had a failure');
my $sum = 0;
$sum += $1 while $run_out =~ /^failed: direct, persistent, 5 clients: (\d+) x/mg;
is($sum, $failed, 'killed backend: every failure has its class');
$node->poll_query_until('postgres', 'SELECT true');
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM connbench.connection_stats}), 't',
	'killed backend: the extension works after the restart');

# Ctrl-C ends the round in good order and keeps what was measured
$run = IPC::Run::start([ $connbench, 'run', @named, '--results', $results, '--clients', '5', '--duration', '60',
	'--warmup', '0', '--rounds', '3', '--workload', 'select-only', '--progress', '0' ],
	'<', \undef, '>', \$run_out, '2>', \$run_err);
$node->poll_query_until('postgres', q{SELECT count(*) = 5 FROM pg_stat_activity WHERE application_name = 'clients'});
usleep(500_000);
$run->signal('INT');
$run->finish;
is($run->result(0), 2, 'Ctrl-C: exit status 2');
is($node->safe_psql('postgres', q{SELECT complete, count(*), bool_and(partial), bool_and(attempted = succeeded + failed + abandoned),
	sum(succeeded) > 0, bool_and(window_s < 50) FROM connbench.run JOIN connbench.scenario USING (run_id)
	JOIN connbench.round USING (scenario_id) WHERE run_id = (SELECT max(run_id) FROM connbench.run) GROUP BY 1}),
	'f|1|t|t|t|t', 'Ctrl-C: the round is kept, marked partial');

done_testing();
