// top_gpu: the numbers of the first K elements of long rows on GPUs, in order: stable, NaN last; equal bits on every run.
//
// An element's key is its rank (include/order.h) and behind it its number in the row, so no two are equal. Digits of WIDE bits of keys, the
// highest first, find bounds below which K elements are and not many more:
//   CLEAR    counts become 0
//   COUNT    LEVEL: how many of a row's keys that are within the bounds so far have which digit. The bounds close around the digit with
//            which the K-th key begins. Once all that are not above them fit in ROOM, nothing is left to count
//   COLLECT  those that are not above the bounds go to scratch, in any order
//   PLACE    the place of each is how many of them are less; the first K are the result. LANES items look for a place together
// Levels 0 .. RANKS - 1 take digits of ranks, those up to LEVELS - 1 of numbers, of elements of one rank; after the last one all fit.
//
// Layout: x (ROWS, N), contiguous. Scratch: counts (ROWS, LEVELS, 2^WIDE) of uint and behind them (ROWS), how many were collected; bounds
// (ROWS, LEVELS + 1) of Bounds; keys (ROWS, ROOM).
// Groups, of local size GROUP: CLEAR any number of them; COUNT, COLLECT PARTS a row, SHARE elements each; PLACE ROOM LANES / GROUP a row. All
// lie along one axis, for of the others a GPU may have no more than 65535.
// Local memory: 2^WIDE + PARTS_LENGTH words. PARAMS, BEGIN, EPILOGUE(r, i, number) as in sort.cl; GROUP, EACH: include/group.h.

#define CLEAR 1
#define COUNT 2
#define COLLECT 3
#define PLACE 4
#ifndef STAGE
#define STAGE COUNT             // which of them
#endif
#ifndef WIDE
#define WIDE 12                 // bits of a digit; a group has at most 2^WIDE items
#endif
#ifndef LANES
#define LANES 16
#endif

#define PART uint
#define NOTHING 0
#define JOINED(a, b) ((a) + (b))
#include "include/group.h"
#include "include/order.h"

#define DIGITS (1 << WIDE)
#define LEFT(bits, levels) ((bits) > WIDE * (levels) ? (bits) - WIDE * (levels) : 0)
#define SHIFT_OF(level) ((level) < RANKS ? LEFT(BITS, (level) + 1) : LEFT(NUMBER_BITS, (level) - RANKS + 1))
#define COUNTS(r, level) ((__global uint*)counts + ((size_t)(r) * LEVELS + (level)) * DIGITS)
#define COLLECTED(r) ((__global uint*)counts + (size_t)ROWS * LEVELS * DIGITS + (r))

#if BITS == 64
#define KEY ulong2
#define KEY_OF(rank, number) (ulong2)((rank), (number))
#define NUMBER_OF_KEY(key) (key).y
#define LESS(a, b) ((a).x < (b).x || (a).x == (b).x && (a).y < (b).y)
#else
#define KEY ulong
#define KEY_OF(rank, number) ((ulong)(rank) << 32 | (number))
#define NUMBER_OF_KEY(key) (uint)(key)
#define LESS(a, b) ((a) < (b))
#endif
#define KEYS(r) ((__global KEY*)keys + (size_t)(r) * ROOM)

typedef struct {
    ulong low, high;            // ranks within the bounds: from low to high
    uint first, last;           // of those numbers from first to last
    uint below;                 // keys that are below them
    uint settled;               // all that are not above them fit
} Bounds;

#if STAGE == CLEAR

__kernel void clear_counts(PARAMS) {
    BEGIN
    for (size_t k = get_global_id(0); k < (size_t)ROWS * LEVELS * DIGITS + ROWS; k += get_global_size(0)) ((__global uint*)counts)[k] = 0;
}

#elif STAGE == PLACE

#define TOGETHER (GROUP / LANES)                    // keys of a group
#define GROUPS ((ROOM + TOGETHER - 1) / TOGETHER)   // of a row

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void place_keys(PARAMS) {
    BEGIN
    __local uint less[GROUP];
    const uint l = get_local_id(0), total = *COLLECTED(get_group_id(0) / GROUPS);
    const size_t r = get_group_id(0) / GROUPS, first = get_group_id(0) % GROUPS * TOGETHER, at = first + l / LANES;
    const uint walked = first < total ? total : 0;      // no return before a barrier: PoCL's compiler does not keep to what all items agree on
    __global const KEY* restrict all = KEYS(r);
    const KEY mine = all[min(at, (size_t)total - 1)];
    uint found = 0;
    for (uint k = l % LANES; k < walked; k += LANES) found += LESS(all[k], mine);
    less[l] = found;
    WAIT
    if (l % LANES == 0 && at < total) {
        uint place = 0;
        for (uint k = 0; k < LANES; k++) place += less[l + k];
        if (place < K) { EPILOGUE(r, place, (T)NUMBER_OF_KEY(mine)); }
    }
}

#else

#define ROW_NUMBER (get_group_id(0) / PARTS)
#define WITHIN(b, rank, number) ((rank) >= (b).low && (rank) <= (b).high && (number) >= (b).first && (number) <= (b).last)
#define NOT_ABOVE(b, rank, number) ((rank) < (b).low || (rank) <= (b).high && (number) <= (b).last)

// The bounds b, closer: around the digit of the level's, of which there are so many each, with which the K-th key begins.
INLINE void close_in(Bounds* b, const uint level, __global const uint* counts, __local Bounds* closer, __local uint* parts) {
    const uint l = get_local_id(0), own = DIGITS / GROUP, wanted = K - b->below, shift = SHIFT_OF(level);
    uint sum = 0, all;
    for (uint k = 0; k < own; k++) sum += counts[l * own + k];
    uint before = before_items(sum, parts, &all);
    if (before < wanted && wanted <= before + sum) {
        uint d = l * own;
        while (before + counts[d] < wanted) before += counts[d++];
        Bounds c = *b;
        if (level < RANKS) {
            c.low = b->low + ((ulong)d << shift);
            c.high = c.low + ((1UL << shift) - 1);
        } else {
            c.first = b->first + (d << shift);
            c.last = c.first + ((1u << shift) - 1);
        }
        c.below = b->below + before;
        c.settled = c.below + counts[d] <= ROOM;
        *closer = c;
    }
    WAIT
    *b = *closer;
}

// The bounds that the levels before LEVEL leave; a row's first group leaves them for the next.
INLINE Bounds bounds_before(const size_t r, const bool first, __global Bounds* bounds, __global const uint* counts, __local Bounds* closer, __local uint* parts) {
#if LEVEL == 0
    const Bounds whole = {0, ALL_BITS, 0, ~0u, 0, 0};
    Bounds b = whole;
#else
    Bounds b = bounds[r * (LEVELS + 1) + LEVEL - 1];
    if (!b.settled) close_in(&b, LEVEL - 1, counts, closer, parts);
#endif
    if (first && get_local_id(0) == 0) bounds[r * (LEVELS + 1) + LEVEL] = b;
    return b;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void top_keys(PARAMS) {
    BEGIN
    __local uint parts[PARTS_LENGTH];
    __local Bounds closer;
#if STAGE == COUNT
    __local uint seen[DIGITS];
#endif
    const uint l = get_local_id(0);
    const size_t r = ROW_NUMBER, part = get_group_id(0) % PARTS, i0 = min(part * SHARE, (size_t)N), i1 = min(i0 + SHARE, (size_t)N);
    __global const B* restrict from = (__global const B*)x + r * N;
    const Bounds b = bounds_before(r, part == 0, (__global Bounds*)bounds, COUNTS(r, LEVEL > 0 ? LEVEL - 1 : 0), &closer, parts);
#if STAGE == COUNT
    if (b.settled) return;
    for (uint d = l; d < DIGITS; d += GROUP) seen[d] = 0;
    WAIT
#endif
    for (size_t i = i0; i < i1; i += TILE) {
        const uint width = min((size_t)TILE, i1 - i);
        B mine[EACH];
        EVERY(k) mine[e] = k < width ? from[i + k] : LAST_BITS;
        EVERY(k) {
            const B rank = rank_of(mine[e]);
            const uint number = i + k;
#if STAGE == COUNT
            const uint digit = LEVEL < RANKS ? (uint)((rank - b.low) >> SHIFT_OF(LEVEL)) : (number - b.first) >> SHIFT_OF(LEVEL);
            if (k < width && WITHIN(b, rank, number)) atomic_inc(&seen[digit]);
#else
            if (k < width && NOT_ABOVE(b, rank, number)) KEYS(r)[atomic_inc(COLLECTED(r))] = KEY_OF(rank, number);
#endif
        }
    }
#if STAGE == COUNT
    WAIT
    for (uint d = l; d < DIGITS; d += GROUP) if (seen[d]) atomic_add(COUNTS(r, LEVEL) + d, seen[d]);
#endif
}

#endif
