// sort_gpu: sort.cl's rows on GPUs. A work-group of GROUP items puts a tile of TILE = GROUP EACH elements in order in its local memory,
// by digits of 4 bits, the lowest first: an item counts the digits of its own EACH elements in 16 fields of 4 bits, all counts are added
// up, digit by digit, and every element goes where its count says. What is equal keeps its order; no atomics, equal bits on every run.
//
//   WHOLE   a group sorts HELD whole rows, SHARED 1 (their numbers are digits above all others, ROW_DIGITS of them), or a share of TILE
//           elements of one row; the first K of each are kept: as the result or, CANDIDATES, in scratch for a next stage that reads them
//           there (SOURCE), until one tile holds all that are left
// Rows longer than a tile go by digits of WIDE bits, a pass three stages:
//   COUNT   how often each digit is in a tile      ADD  the counts of a digit become places among its own, and their sum
//   MOVE    a tile is put in order by the digit, so that neighbours go to neighbouring places: FROM x (SOURCE 0), `first` (1) or
//           `second` (2), to the other or, LAST, to the result
// or, where groups may wait for each other, in one:
//   CLEAR, TOTAL  once for all digits: how often each is in a row, by WALKERS groups a row
//   SWEEP         MOVE of the next tile when a group starts, so those before it are at work: it tells how often each digit is in its
//                 tile, looks back how often in those before, and tells how often up to its own
//
// Layout: x (ROWS, N), contiguous, or items of include/order.h. Scratch: first, second (items), counts, totals (uint; TOTAL: of each digit,
// ROWS BITS / WIDE 2^WIDE); kept chain: a word that counts the groups of all launches, then one for each digit of each tile.
// Groups: WHOLE, COUNT, MOVE, SWEEP a tile each, those of a row (or HELD rows) one after another; ADD ROWS 2^WIDE; local size GROUP. All of them
// lie along one axis, for of the others a GPU may have no more than 65535.
// Local memory: TILE items, or 32 bytes an item where that is more; PARTS_LENGTH + 2^WIDE words.
// PARAMS, BEGIN, EPILOGUE as in sort.cl; GROUP, EACH: include/group.h; GROUP is 2^WIDE at least, EACH 15 at most.

#define WHOLE 1
#define COUNT 2
#define ADD 3
#define MOVE 4
#define CLEAR 5
#define TOTAL 6
#define SWEEP 7
#ifndef STAGE
#define STAGE WHOLE             // which of them
#endif
#ifndef WIDE
#define WIDE 8                  // bits of a digit of COUNT, ADD and MOVE: 8 or 4
#endif
#define VALUES 1
#define INDEX 2
#define BOTH 3
#define DIGITS (1u << WIDE)

#define PART uint
#define NOTHING 0
#define JOINED(a, b) ((a) + (b))
#include "include/group.h"
#include "include/order.h"

#define TILE_NUMBER (get_group_id(0) % PARTS)       // of the row, or of HELD rows
#define ROW_NUMBER (get_group_id(0) / PARTS)
#define ITEMS_AT(scratch, at) ((__global ITEM*)(scratch) + (at))

#if STAGE == WHOLE && SHARED
#define ROW_OF(item) ((uint)NUMBER_OF(item) >> 16)
#define FIELD(item, shift) ((shift) < BITS ? (uint)(rank_of(BITS_OF(item)) >> (shift)) & 15 : (ROW_OF(item) >> ((shift) - BITS)) & 15)
#else
#define FIELD(item, shift) ((uint)(rank_of(BITS_OF(item)) >> (shift)) & 15)
#endif
#define FOUR 0x0001000100010001UL

// Puts the tile in order by the 4 bits from `shift` on: item l has elements l EACH .. in `mine`, before and after; all of them are in `room`.
INLINE void split(ITEM* mine, const uint shift, __local ulong* room, __local uint* sums) {
    const uint l = get_local_id(0);
    __local ushort* const counts = (__local ushort*)room;
    __local ITEM* const tile = (__local ITEM*)room;
    uint at[EACH], all;
    ulong seen = 0, part[4];
    UNROLL for (uint e = 0; e < EACH; e++) {
        const uint d = FIELD(mine[e], shift);
        at[e] = d | ((uint)(seen >> 4 * d) & 15) << 4;
        seen += 1UL << 4 * d;
    }
    UNROLL for (uint d = 0; d < 16; d++) counts[d * GROUP + l] = (ushort)(seen >> 4 * d & 15);
    WAIT
    uint own = 0;
    UNROLL for (uint k = 0; k < 4; k++) {
        part[k] = room[4 * l + k];
        own += (uint)(part[k] * FOUR >> 48);
    }
    uint sum = before_items(own, sums, &all);
    UNROLL for (uint k = 0; k < 4; k++) {
        const ulong up = part[k] * FOUR;
        room[4 * l + k] = up - part[k] + sum * FOUR;
        sum += (uint)(up >> 48);
    }
    WAIT
    UNROLL for (uint e = 0; e < EACH; e++) at[e] = counts[(at[e] & 15) * GROUP + l] + (at[e] >> 4);
    WAIT
    UNROLL for (uint e = 0; e < EACH; e++) tile[at[e]] = mine[e];
    WAIT
    UNROLL for (uint e = 0; e < EACH; e++) mine[e] = tile[l * EACH + e];
    WAIT
}

#define ROOM __local ulong room[(TILE * sizeof(ITEM) > 32 * GROUP ? TILE * sizeof(ITEM) : 32 * GROUP) / 8] __attribute__((aligned(16)));

#if STAGE != ADD && STAGE != CLEAR
#if SOURCE == 0
#define TAKEN(r, i, number) MADE(((__global const B*)x)[(size_t)(r) * N + (i)], number)
#elif SOURCE == 1
#define TAKEN(r, i, number) ITEMS_AT(first, (size_t)(r) * N)[i]
#else
#define TAKEN(r, i, number) ITEMS_AT(second, (size_t)(r) * N)[i]
#endif
#endif
#if SOURCE == 1
#define OTHER second
#else
#define OTHER first
#endif

#if KIND == VALUES
#define RESULT(r, i, item, number) EPILOGUE(r, i, FROM_BITS(BITS_OF(item)))
#elif KIND == INDEX
#define RESULT(r, i, item, number) EPILOGUE(r, i, (T)(number))
#else
#define RESULT(r, i, item, number) EPILOGUE(r, i, FROM_BITS(BITS_OF(item)), (long)(number))
#endif

#if STAGE == WHOLE

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void sort_tiles(PARAMS) {
    BEGIN
    ROOM
    __local uint sums[PARTS_LENGTH];
    __local ITEM* const tile = (__local ITEM*)room;
    const uint l = get_local_id(0);
    const size_t i0 = TILE_NUMBER * TILE, r0 = ROW_NUMBER * HELD;
    const uint width = min((size_t)N - i0, (size_t)(SHARED ? N : TILE));
    ITEM mine[EACH];
    EVERY(k) {
        const uint row = SHARED ? k / width : 0, i = SHARED ? k % width : k;
        const bool there = SHARED ? row < HELD && r0 + row < ROWS : k < width;
        const uint number = SHARED ? row << 16 | i : i0 + i;
        tile[k] = there ? TAKEN(r0 + row, i0 + i, number) : MADE(LAST_BITS, number);
    }
    WAIT
    UNROLL for (uint e = 0; e < EACH; e++) mine[e] = tile[l * EACH + e];
    WAIT
    for (uint shift = 0; shift < BITS + 4 * ROW_DIGITS; shift += 4) split(mine, shift, room, sums);
    EVERY(k) {
        const uint row = SHARED ? k / width : 0, i = SHARED ? k % width : k;
        const ITEM item = tile[k];
#if CANDIDATES
        if (i < K) ITEMS_AT(OTHER, (r0 * PARTS + TILE_NUMBER) * K)[i] = item;
#elif SHARED
        if (i < K && row < HELD && r0 + row < ROWS) { RESULT(r0 + row, i, item, NUMBER_OF(item) & 0xffff); }
#else
        if (i < K && i < width) { RESULT(r0, i, item, NUMBER_OF(item)); }
#endif
    }
}

#elif STAGE == COUNT

#define DIGIT(item) ((uint)(rank_of(BITS_OF(item)) >> SHIFT) & (DIGITS - 1))

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void count_digits(PARAMS) {
    BEGIN
    __local uint seen[DIGITS];
    const uint l = get_local_id(0);
    const size_t p = TILE_NUMBER, r = ROW_NUMBER, i0 = p * TILE;
    for (uint d = l; d < DIGITS; d += GROUP) seen[d] = 0;
    WAIT
    EVERY(k) if (i0 + k < N) atomic_inc(&seen[DIGIT(TAKEN(r, i0 + k, 0))]);
    WAIT
    for (uint d = l; d < DIGITS; d += GROUP) ((__global uint*)counts)[(r * DIGITS + d) * PARTS + p] = seen[d];
}

#elif STAGE == ADD

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void add_counts(PARAMS) {
    BEGIN
    __local uint sums[PARTS_LENGTH];
    const size_t l = get_local_id(0), q = get_group_id(0);
    __global uint* const c = (__global uint*)counts + q * PARTS;
    uint sum = 0, all;
    for (size_t k0 = 0; k0 < PARTS; k0 += GROUP) {      // not from l on: PoCL's compiler asks of a barrier's loop that its bounds are the group's
        const size_t k = k0 + l;
        const uint own = k < PARTS ? c[k] : 0, before = before_items(own, sums, &all);
        if (k < PARTS) c[k] = sum + before;
        sum += all;
    }
    if (l == 0) ((__global uint*)totals)[q] = sum;
}

#elif STAGE == CLEAR

__kernel void clear_totals(PARAMS) {
    BEGIN
    if (get_global_id(0) < ROWS * PASSES * DIGITS) ((__global uint*)totals)[get_global_id(0)] = 0;
}

#elif STAGE == TOTAL

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void count_all_digits(PARAMS) {
    BEGIN
    __local uint seen[PASSES * DIGITS];
    const uint l = get_local_id(0);
    const size_t r = get_group_id(0) / WALKERS;
    for (uint d = l; d < PASSES * DIGITS; d += GROUP) seen[d] = 0;
    WAIT
    for (size_t i0 = get_group_id(0) % WALKERS * TILE; i0 < N; i0 += (size_t)WALKERS * TILE) {
        const uint width = min((size_t)TILE, (size_t)N - i0);
        B mine[EACH];
        EVERY(k) mine[e] = k < width ? BITS_OF(TAKEN(r, i0 + k, 0)) : LAST_BITS;
        EVERY(k) {
            const B rank = rank_of(mine[e]);
            if (k < width) UNROLL for (uint d = 0; d < PASSES; d++) atomic_inc(&seen[d * DIGITS + ((uint)(rank >> d * WIDE) & (DIGITS - 1))]);
        }
    }
    WAIT
    for (uint d = l; d < PASSES * DIGITS; d += GROUP) if (seen[d]) atomic_add((__global uint*)totals + r * PASSES * DIGITS + d, seen[d]);
}

#else

#define DIGIT(item) ((uint)(rank_of(BITS_OF(item)) >> SHIFT) & (DIGITS - 1))
#if STAGE == SWEEP
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define UP_TO_HERE (1u << 31)
#define TOTALS (r * PASSES + SHIFT / WIDE) * DIGITS     // of the digit
#define WORD(told) ((ulong)(told) << 32 | launch)       // what is told, and in which launch
#else
#define TOTALS r * DIGITS
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void move_tiles(PARAMS) {
    BEGIN
    ROOM
    __local uint sums[PARTS_LENGTH], place[DIGITS];     // of a digit: where its first element would go if the tile began with it
    __local ITEM* const tile = (__local ITEM*)room;
    const uint l = get_local_id(0);
#if STAGE == SWEEP
    __local uint seen[DIGITS];
    __local ulong number;
    if (l == 0) number = atom_inc((__global volatile ulong*)chain);
    if (l < DIGITS) seen[l] = 0;
    WAIT
    const uint launch = (uint)(number / (ROWS * PARTS)) + 1, share = (uint)(number % (ROWS * PARTS));
    const size_t p = share % PARTS, r = share / PARTS, i0 = p * TILE;
    __global volatile ulong* const words = (__global volatile ulong*)chain + 1 + (size_t)share * DIGITS + l;
#else
    const size_t p = TILE_NUMBER, r = ROW_NUMBER, i0 = p * TILE;
#endif
    const uint width = min((size_t)TILE, (size_t)N - i0);
    ITEM mine[EACH];
    uint all;
    EVERY(k) tile[k] = k < width ? TAKEN(r, i0 + k, i0 + k) : MADE(LAST_BITS, 0);
    const uint before = before_items(l < DIGITS ? ((__global const uint*)totals)[TOTALS + l] : 0, sums, &all);
    UNROLL for (uint e = 0; e < EACH; e++) mine[e] = tile[l * EACH + e];
#if STAGE == SWEEP
    EVERY(k) if (k < width) atomic_inc(&seen[DIGIT(tile[k])]);
    WAIT
    if (l < DIGITS) words[0] = WORD(p ? seen[l] : seen[l] | UP_TO_HERE);
#else
    if (l < DIGITS) place[l] = before + ((__global const uint*)counts)[(r * DIGITS + l) * PARTS + p];
    WAIT
#endif
    for (uint shift = 0; shift < WIDE; shift += 4) split(mine, SHIFT + shift, room, sums);
#if STAGE == SWEEP
    if (l < DIGITS) {
        uint sum = 0, told = 0;
        for (size_t q = 1; q <= p && !(told & UP_TO_HERE); q++) {
            ulong word;
            do word = words[-(long)(q * DIGITS)]; while ((uint)word != launch);
            told = (uint)(word >> 32);
            sum += told & ~UP_TO_HERE;
        }
        if (p) words[0] = WORD(sum + seen[l] | UP_TO_HERE);
        place[l] = before + sum;
    }
    WAIT
#endif
    EVERY(k) {
        const uint d = DIGIT(tile[k]);
        if (k == 0 || DIGIT(tile[k - 1]) != d) place[d] -= k;
    }
    WAIT
    EVERY(k) {
        const ITEM item = tile[k];
        const size_t at = place[DIGIT(item)] + k;
        if (k >= width) continue;
#if LAST
        RESULT(r, at, item, NUMBER_OF(item));
#else
        ITEMS_AT(OTHER, r * N)[at] = item;
#endif
    }
}

#endif
