/*
 * forks.c
 *		The part of the ledger that accounts for the postmaster's forks: how
 *		many, how long each blocked it, and what became of the children.
 *
 * Runs in children of the postmaster of every kind (atomics only, inside the
 * ledger's gate) and in backends that read the views.
 *
 * A child inherits the postmaster's absolute account as of its own fork.  Of
 * the children that publish it, in whatever order, each brings every number
 * up to its own if that is higher, and whoever raised it adds the difference
 * to what the views show.  So nothing is counted twice, a child that dies
 * silently loses nothing, and a reset is just zeroing the sums.
 *
 * A client tells of its fork once, as soon as it is known what became of it;
 * by the number of the fork it is known to belong before or after the last
 * reset.  Other children tell when they end: those born since the reset are
 * those that ended, and those alive now, less those alive at the reset.
 */
#include "postgres.h"

#include "ledger_internal.h"

/* In the postmaster, over zeroed memory. */
void
cb_forks_init(void)
{
	cb_histogram_init(&cb_ledger->published.blocked);
	cb_histogram_init(&cb_ledger->forks.blocked);
	pg_atomic_init_u64(&cb_ledger->client_forks, 0);
	for (int i = 0; i < CB_CHILD_KINDS; i++)
		pg_atomic_init_u64(&cb_ledger->children_ended[i], 0);
}

/* Raises *published to "value"; returns by how much. */
static uint64
raise_to(uint64_t *published, uint64 value)
{
	uint64_t	seen = __atomic_load_n(published, __ATOMIC_RELAXED);

	while (seen < value)
	{
		if (__atomic_compare_exchange_n(published, &seen, value, false,
										__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return value - seen;
	}
	return 0;
}

static void
lift(uint64_t *published, uint64_t *sum, uint64 value)
{
	uint64		more;

	/* most buckets are empty: spare their pages of shared memory a fault */
	if (value == 0)
		return;
	more = raise_to(published, value);
	if (more > 0)
		__atomic_fetch_add(sum, more, __ATOMIC_RELAXED);
}

static void
publish(const cb_fork_account *account)
{
	cb_histogram *published = &cb_ledger->published.blocked;
	cb_histogram *sum = &cb_ledger->forks.blocked;

	lift(&cb_ledger->published.forks, &cb_ledger->forks.forks, account->forks);
	lift(&cb_ledger->published.failed, &cb_ledger->forks.failed, account->failed);
	lift(&published->sum_ns, &sum->sum_ns, account->blocked.sum_ns);
	lift(&published->clamped_low, &sum->clamped_low, account->blocked.clamped_low);
	lift(&published->clamped_high, &sum->clamped_high, account->blocked.clamped_high);
	for (int i = 0; i < CB_HISTOGRAM_BUCKETS; i++)
		lift(&published->bucket[i], &sum->bucket[i], account->blocked.bucket[i]);
}

/* Once for each client, whatever became of it. */
void
cb_ledger_client_forked(const cb_fork_account *account)
{
	cb_gate_enter();
	publish(account);
	if (account->forks > cb_ledger->forks_at_reset)
		pg_atomic_fetch_add_u64(&cb_ledger->client_forks, 1);
	cb_gate_leave();
}

/* Any other child, on its way out. */
void
cb_ledger_child_ended(cb_child_kind kind, const cb_fork_account *account)
{
	cb_gate_enter();
	publish(account);
	pg_atomic_fetch_add_u64(&cb_ledger->children_ended[kind], 1);
	cb_gate_leave();
}

/* Inside the closed gate; children_alive has one number for each kind. */
void
cb_forks_clear(const uint64 *children_alive)
{
	cb_ledger->forks.forks = 0;
	cb_ledger->forks.failed = 0;
	cb_histogram_init(&cb_ledger->forks.blocked);
	cb_ledger->forks_at_reset = cb_ledger->published.forks;
	pg_atomic_write_u64(&cb_ledger->client_forks, 0);
	for (int i = 0; i < CB_CHILD_KINDS; i++)
	{
		pg_atomic_write_u64(&cb_ledger->children_ended[i], 0);
		cb_ledger->children_at_reset[i] = children_alive[i];
	}
}

/* The extremes since a reset are known as well as the buckets tell them. */
void
cb_ledger_read_forks(cb_fork_account *account, cb_children *children)
{
	cb_gate_enter();
	account->forks = __atomic_load_n(&cb_ledger->forks.forks, __ATOMIC_RELAXED);
	account->failed = __atomic_load_n(&cb_ledger->forks.failed, __ATOMIC_RELAXED);
	cb_histogram_copy_atomic(&account->blocked, &cb_ledger->forks.blocked);
	children->clients = pg_atomic_read_u64(&cb_ledger->client_forks);
	for (int i = 0; i < CB_CHILD_KINDS; i++)
	{
		children->ended[i] = pg_atomic_read_u64(&cb_ledger->children_ended[i]);
		children->alive_at_reset[i] = cb_ledger->children_at_reset[i];
	}
	cb_gate_leave();

	cb_histogram_bound_extremes(&account->blocked);
}

/* The server was shut down: all children had ended then, and none is alive. */
void
cb_forks_restore(const cb_ledger_image *image)
{
	const cb_children *children = &image->children;

	cb_ledger->forks = image->forks;
	pg_atomic_write_u64(&cb_ledger->client_forks, children->clients);
	for (int i = 0; i < CB_CHILD_KINDS; i++)
	{
		uint64		ended = children->ended[i];

		pg_atomic_write_u64(&cb_ledger->children_ended[i],
							ended - Min(ended, children->alive_at_reset[i]));
		cb_ledger->children_at_reset[i] = 0;
	}
}
