/*
 * random.h
 *		The pseudo-random numbers of one client: xoshiro256** (Blackman and
 *		Vigna), seeded by splitmix64.  No shared state.
 */
#ifndef CONNBENCH_RANDOM_H
#define CONNBENCH_RANDOM_H

#include <stdint.h>

typedef struct cb_random
{
	uint64_t	s[4];
} cb_random;

static inline uint64_t
cb_splitmix64(uint64_t *state)
{
	uint64_t	z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline void
cb_random_seed(cb_random *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = cb_splitmix64(&seed);
}

static inline uint64_t
cb_rotate_left(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static inline uint64_t
cb_random_next(cb_random *r)
{
	uint64_t   *s = r->s;
	uint64_t	result = cb_rotate_left(s[1] * 5, 7) * 9;
	uint64_t	t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = cb_rotate_left(s[3], 45);
	return result;
}

/*
 * Uniform in low .. high, both included.  The high half of the product with
 * the span: its bias is below span / 2^64.
 */
static inline int64_t
cb_random_range(cb_random *r, int64_t low, int64_t high)
{
	uint64_t	span = (uint64_t) (high - low) + 1;

	return low + (int64_t) (((unsigned __int128) cb_random_next(r) * span) >> 64);
}

#endif							/* CONNBENCH_RANDOM_H */
