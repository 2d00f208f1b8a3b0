// cumulative_gpu: cumulative.cl's running values along the last axis on GPUs. A work-group of GROUP items walks over its SHARE of a row
// tile by tile: TILE = GROUP EACH elements go to local memory, an item folds its EACH, what all items before it come to is combined
// across the group, and the item walks over its elements from there.
//
// Long rows are cut into PARTS shares:
//   FOLD, RUN   two launches: FOLD leaves what each share comes to, RUN combines those before its own first
//   CHAIN       one launch, not for MAXIMUM: a share is a tile, and groups wait for what those before them come to. A group takes the next
//               share when it starts, so those it waits for are at work. GROUP shares are a span: a group combines the shares before its
//               own in its span, and the last of a span tells what the row comes to up to there
// The order in which values are combined depends on the shape and the device alone.
//
// Layout: x (A, N), contiguous; scratch partial, places (A, PARTS) of ACC and, MAXIMUM, of long; kept chain: a word that counts the groups
// of all launches, then two for each share and two for each span of a row.
// Groups: PARTS a row, all along one axis (of the others a GPU may have no more than 65535), local size GROUP; SHARE is a multiple of
// TILE, CHAIN: TILE. Local memory: TILE of S or T, MAXIMUM of S or PLACE, PARTS_LENGTH of ACC, with a PLACE.
// PARAMS, BEGIN, EPILOGUE(a, i, d, v), d being 0, T, ACC and S as in cumulative.cl; GROUP, EACH: include/group.h.

#include "include/cumulative.h"

#define FOLD 1
#define RUN 2
#define CHAIN 3
#ifndef STAGE
#define STAGE RUN               // which of them
#endif
#ifndef PLACE
#define PLACE long              // MAXIMUM: what holds a place in a row
#endif

#if HOW == MAXIMUM
typedef struct { ACC v; PLACE p; } Part;
INLINE Part part_of(const ACC v, const PLACE p) { const Part made = {v, p}; return made; }
INLINE Part joined(Part a, const Part b) {
    if (b.p >= 0) { STEP(a.v, a.p, b.v, b.p) }
    return a;
}
#define VALUE(part) (part).v
#define OUT PLACE
#define RESULT(part) (part).p
#define WALK(part, e, i, width) if (l * EACH + e < width) { STEP(part.v, part.p, (ACC)mine[e], AT((long)(i + l * EACH + e))) }
#define WHERE(...) __VA_ARGS__
#else
#define Part ACC
#define part_of(v, p) (v)
INLINE ACC joined(ACC a, const ACC b) { STEP(a, 0, b, 0) return a; }
#define VALUE(part) (part)
#define OUT T
#define RESULT(part) (T)(part)
#define WALK(part, e, i, width) STEP(part, 0, (ACC)mine[e], 0)
#define WHERE(...)
#endif

#define PART Part
#define NOTHING part_of(START, -1)
#define JOINED joined
#include "include/group.h"

#define LARGER(a, b) (sizeof(a) > sizeof(b) ? sizeof(a) : sizeof(b))
#define ROOM __local ulong room[(TILE * LARGER(S, OUT) + 7) / 8]; __local S* const tile = (__local S*)room; __local OUT* const out = (__local OUT*)room;

// `mine`, the item's elements of the tile that starts at i, and `own`, what they come to.
#define TAKE(i, width) \
    EVERY(k) tile[k] = k < width ? from[AT(i + k)] : (S)START; \
    WAIT \
    S mine[EACH]; \
    Part own = NOTHING; \
    UNROLL for (uint e = 0; e < EACH; e++) { \
        mine[e] = tile[l * EACH + e]; \
        WALK(own, e, i, width) \
    }

// The running values of the tile behind what comes before the item's own.
#define GIVE(before, i, width) { \
    Part run = before; \
    UNROLL for (uint e = 0; e < EACH; e++) { \
        WALK(run, e, i, width) \
        out[l * EACH + e] = RESULT(run); \
    } \
    WAIT \
    EVERY(k) if (k < width) { EPILOGUE(a, AT(i + k), 0, (T)out[k]); } \
    WAIT \
}

#if STAGE == CHAIN

#define SPANS ((PARTS + GROUP - 1) / GROUP)
#define SHARE_WORDS(a, part) ((__global volatile ulong*)chain + 1 + 2 * ((size_t)(a) * PARTS + (part)))
#define SPAN_WORDS(a, span) ((__global volatile ulong*)chain + 1 + 2 * ((size_t)A * PARTS + (size_t)(a) * SPANS + (span)))

// A value is told in two words, a half and the number of the launch in each: either may come first.
INLINE void tell(__global volatile ulong* words, const ACC value, const uint launch) {
    union { ACC value; ulong bits; } told;
    told.bits = 0;
    told.value = value;
    words[0] = told.bits << 32 | launch;
    words[1] = told.bits >> 32 << 32 | launch;
}

INLINE ACC told_by(__global volatile ulong* words, const uint launch) {
    union { ACC value; ulong bits; } told;
    ulong low, high;
    do {
        low = words[0];
        high = words[1];
    } while ((uint)low != launch || (uint)high != launch);
    told.bits = low >> 32 | high >> 32 << 32;
    return told.value;
}

#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void cumulative_chain(PARAMS) {
    BEGIN
    ROOM
    __local Part parts[PARTS_LENGTH], base;
    __local ulong number;
    const uint l = get_local_id(0);
    if (l == 0) number = atom_inc((__global volatile ulong*)chain);
    WAIT
    const uint launch = (uint)(number / (A * PARTS)) + 1, share = (uint)(number % (A * PARTS)), part = share % PARTS, start = part / GROUP * GROUP;
    const size_t a = share / PARTS, i = (size_t)part * TILE;
    const uint width = min((size_t)TILE, (size_t)N - i);
    __global const S* restrict from = x + a * N;
    Part all, whole;
    TAKE(i, width)
    const Part items = before_items(own, parts, &all);
    if (l == 0) tell(SHARE_WORDS(a, part), all, launch);
    own = start + l < part ? told_by(SHARE_WORDS(a, start + l), launch) : NOTHING;
    before_items(own, parts, &whole);
    if (l == 0) {
        base = start ? joined(told_by(SPAN_WORDS(a, start / GROUP - 1), launch), whole) : whole;
        if (part == start + GROUP - 1) tell(SPAN_WORDS(a, start / GROUP), joined(base, all), launch);
    }
    WAIT
    GIVE(joined(base, items), i, width)
}

#else

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void cumulative_tiles(PARAMS) {
    BEGIN
    ROOM
    __local Part parts[PARTS_LENGTH];
    const uint l = get_local_id(0);
    const size_t part = get_group_id(0) % PARTS, a = get_group_id(0) / PARTS, i0 = min(part * SHARE, (size_t)N), i1 = min(i0 + SHARE, (size_t)N);
    __global const S* restrict from = x + a * N;
    Part sum = NOTHING, all;
#if STAGE == RUN && PARTS > 1
    Part some = NOTHING;
    const size_t each = (part + GROUP - 1) / GROUP;
    for (size_t k = l * each; k < min((l + 1) * each, part); k++) {
        const size_t at = a * PARTS + k;
        some = joined(some, part_of(((__global const ACC*)partial)[at], ((__global const long*)places)[at]));
    }
    before_items(some, parts, &sum);
#endif
    for (size_t i = i0; i < i1; i += TILE) {
        const uint width = min((size_t)TILE, i1 - i);
        TAKE(i, width)
        const Part items = before_items(own, parts, &all);
#if STAGE == RUN
        GIVE(joined(sum, items), i, width)
#endif
        sum = joined(sum, all);
    }
#if STAGE == FOLD
    if (l == 0) {
        ((__global ACC*)partial)[a * PARTS + part] = VALUE(sum);
        WHERE(((__global long*)places)[a * PARTS + part] = sum.p;)
    }
#endif
}

#endif
