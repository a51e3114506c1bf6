/*
 * rejections.c
 *		The part of the ledger that counts connections which did not come
 *		about: rejected, by kind, with the newest one by one; and left early.
 *
 * Runs in client backends, mostly without a PGPROC (atomics only, inside the
 * ledger's gate), and in backends that read the views.
 */
#include "postgres.h"

#include "storage/shmem.h"

#include "ledger_internal.h"
#include "ring.h"

static cb_ring *newest = NULL;

Size
cb_rejections_shmem_size(void)
{
	return cb_ring_size(CB_MAX_REJECTION_DETAILS, sizeof(cb_rejection_detail));
}

/* In the postmaster; the caller holds AddinShmemInitLock. */
void
cb_rejections_shmem_init(void)
{
	bool		found;

	newest = ShmemInitStruct("connbench recent rejections",
							 cb_rejections_shmem_size(), &found);
	if (!found)
	{
		memset(newest, 0, cb_rejections_shmem_size());
		cb_ring_init(newest, CB_MAX_REJECTION_DETAILS, sizeof(cb_rejection_detail));
	}
	for (int i = 0; i < CB_MAX_REJECTIONS; i++)
	{
		pg_atomic_init_u64(&cb_ledger->rejection[i].kind, 0);
		pg_atomic_init_u64(&cb_ledger->rejection[i].count, 0);
		pg_atomic_init_u64(&cb_ledger->rejection[i].last_at, 0);
	}
	for (int i = 0; i < CB_LEFT_COUNT; i++)
	{
		pg_atomic_init_u64(&cb_ledger->left[i].count, 0);
		pg_atomic_init_u64(&cb_ledger->left[i].last_at, 0);
	}
}

/* SQLSTATE in the upper half, which is not 0 for a FATAL */
static uint64
rejection_kind(int sqlstate, cb_reject_phase phase, cb_reject_reason reason)
{
	return ((uint64) (uint32) sqlstate << 32) |
		((uint64) phase << 8) | (uint64) reason;
}

void
cb_ledger_rejected(const cb_rejection_detail *rejection)
{
	uint64		kind = rejection_kind(rejection->sqlstate, rejection->phase,
									  rejection->reason);
	RejectionSlot *slot = cb_ledger->rejection;

	cb_gate_enter();
	/* the last place is the overflow's: it takes what found no other */
	for (; slot < &cb_ledger->rejection[CB_MAX_REJECTIONS - 1]; slot++)
	{
		uint64		seen = 0;

		if (pg_atomic_compare_exchange_u64(&slot->kind, &seen, kind) ||
			seen == kind)
			break;
	}
	pg_atomic_fetch_add_u64(&slot->count, 1);
	pg_atomic_write_u64(&slot->last_at, (uint64) rejection->at);
	(void) cb_ring_add(newest, rejection);
	cb_gate_leave();
}

void
cb_ledger_left_early(cb_leave_stage stage, TimestampTz at)
{
	cb_gate_enter();
	pg_atomic_fetch_add_u64(&cb_ledger->left[stage].count, 1);
	pg_atomic_write_u64(&cb_ledger->left[stage].last_at, (uint64) at);
	cb_gate_leave();
}

/* Inside the closed gate. */
void
cb_rejections_clear(void)
{
	for (int i = 0; i < CB_MAX_REJECTIONS; i++)
	{
		pg_atomic_write_u64(&cb_ledger->rejection[i].kind, 0);
		pg_atomic_write_u64(&cb_ledger->rejection[i].count, 0);
		pg_atomic_write_u64(&cb_ledger->rejection[i].last_at, 0);
	}
	for (int i = 0; i < CB_LEFT_COUNT; i++)
	{
		pg_atomic_write_u64(&cb_ledger->left[i].count, 0);
		pg_atomic_write_u64(&cb_ledger->left[i].last_at, 0);
	}
	cb_ring_clear(newest);
}

/* ------------------------------------------------------------------------
 * Reading and restoring
 * ------------------------------------------------------------------------
 */

/* Fills at most CB_MAX_REJECTIONS entries; returns how many. */
int
cb_ledger_read_rejections(cb_rejection *rejections)
{
	int			n = 0;

	cb_gate_enter();
	for (int i = 0; i < CB_MAX_REJECTIONS; i++)
	{
		RejectionSlot *slot = &cb_ledger->rejection[i];
		uint64		kind = pg_atomic_read_u64(&slot->kind);
		cb_rejection *out = &rejections[n];

		out->count = pg_atomic_read_u64(&slot->count);
		if (out->count == 0)
			continue;
		out->sqlstate = (int) (kind >> 32);
		out->phase = (cb_reject_phase) ((kind >> 8) & 0xff);
		out->reason = (cb_reject_reason) (kind & 0xff);
		out->last_at = (TimestampTz) pg_atomic_read_u64(&slot->last_at);
		n++;
	}
	cb_gate_leave();
	return n;
}

/* False if there is none at this place, 0 .. CB_MAX_REJECTION_DETAILS - 1. */
bool
cb_ledger_read_rejection_detail(int place, cb_rejection_detail *detail)
{
	return cb_ring_read(newest, place, detail);
}

void
cb_ledger_read_leavers(cb_leavers *leavers)
{
	cb_gate_enter();
	for (int i = 0; i < CB_LEFT_COUNT; i++)
	{
		leavers->count[i] = pg_atomic_read_u64(&cb_ledger->left[i].count);
		leavers->last_at[i] = (TimestampTz)
			pg_atomic_read_u64(&cb_ledger->left[i].last_at);
	}
	cb_gate_leave();
}

void
cb_rejections_restore(const cb_ledger_image *image)
{
	for (int i = 0; i < image->nrejections && i < CB_MAX_REJECTIONS; i++)
	{
		const cb_rejection *r = &image->rejections[i];
		/* the overflow row has a place of its own, the last */
		RejectionSlot *slot = &cb_ledger->rejection[r->sqlstate == 0 ? CB_MAX_REJECTIONS - 1 : i];

		if (r->sqlstate != 0)
			pg_atomic_write_u64(&slot->kind,
								rejection_kind(r->sqlstate, r->phase, r->reason));
		pg_atomic_write_u64(&slot->count, r->count);
		pg_atomic_write_u64(&slot->last_at, (uint64) r->last_at);
	}
	for (int i = 0; i < CB_LEFT_COUNT; i++)
	{
		pg_atomic_write_u64(&cb_ledger->left[i].count, image->leavers.count[i]);
		pg_atomic_write_u64(&cb_ledger->left[i].last_at,
							(uint64) image->leavers.last_at[i]);
	}
}
