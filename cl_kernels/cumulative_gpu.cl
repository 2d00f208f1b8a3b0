// cumulative_gpu: cumulative.cl's running values along the last axis on GPUs. A work-group of GROUP items walks over its SHARE of a row
// tile by tile: TILE = GROUP EACH elements go to local memory, an item folds its EACH, what all items before it come to is added up
// across the group, and the item walks over its elements from there.
//
// Long rows are cut into PARTS shares: FOLD leaves what each share comes to, RUN combines those before its own first. The order in which
// values are combined depends on the shape and the device alone.
//
// Layout: x (A, N), contiguous; scratch partial, places (A, PARTS) of ACC and, MAXIMUM, of long.
// Groups: PARTS a row, all along one axis (of the others a GPU may have no more than 65535), local size GROUP; SHARE is a multiple of
// TILE. Local memory: TILE numbers of 8 bytes, GROUP of 8 or 16.
// PARAMS, BEGIN, EPILOGUE(a, i, d, v), d being 0, T, ACC and S as in cumulative.cl; GROUP a power of two; EACH odd: no two items meet in a bank.

#include "include/cumulative.h"

#define FOLD 1
#define RUN 2
#ifndef STAGE
#define STAGE RUN               // which of them
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef EACH
#define EACH 15                 // elements an item
#endif
#define TILE (GROUP * EACH)
#define WAIT barrier(CLK_LOCAL_MEM_FENCE);
#define EVERY(k) UNROLL for (uint e = 0, k = l; e < EACH; e++, k += GROUP)

#if HOW == MAXIMUM
#define NEXT(v, p, w, q) if ((q) >= 0) { STEP(v, p, w, q) }
#define WHERE(...) __VA_ARGS__
#else
#define NEXT STEP
#define WHERE(...)
#endif

// (v, p) of every item becomes what all items before it come to, in their order; (all, all_at) is what all of them do.
INLINE void before(ACC* v, long* p, ACC* all, long* all_at, __local ACC* values, __local long* numbers) {
    const uint l = get_local_id(0);
    values[l] = *v;
    WHERE(numbers[l] = *p;)
    WAIT
    for (uint step = 1; step < GROUP; step *= 2) {
        ACC w = START;
        long q = -1;
        if (l >= step) { w = values[l - step]; WHERE(q = numbers[l - step];) }
        WAIT
        if (l >= step) {
            const ACC own = *v;
            WHERE(const long own_at = *p;)
            NEXT(w, q, own, own_at)
            *v = w;
            *p = q;
            values[l] = w;
            WHERE(numbers[l] = q;)
        }
        WAIT
    }
    *all = values[GROUP - 1];
    *v = l ? values[l - 1] : START;
    WHERE(*all_at = numbers[GROUP - 1]; *p = l ? numbers[l - 1] : -1;)
    WAIT
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void cumulative_tiles(PARAMS) {
    BEGIN
    __local ulong room[TILE];
    __local ACC values[GROUP];
    __local long numbers[HOW == MAXIMUM ? GROUP : 1];
    const uint l = get_local_id(0);
    const size_t part = get_group_id(0) % PARTS, a = get_group_id(0) / PARTS, i0 = min(part * SHARE, (size_t)N), i1 = min(i0 + SHARE, (size_t)N);
    __global const S* restrict from = x + a * N;
    ACC sum = START, v, w;
    long at = -1, p = -1, q = -1;
#if STAGE == RUN && PARTS > 1
    v = START;
    const size_t each = (part + GROUP - 1) / GROUP;
    for (size_t k = l * each; k < min((l + 1) * each, part); k++) {
        w = ((__global const ACC*)partial)[a * PARTS + k];
        WHERE(q = ((__global const long*)places)[a * PARTS + k];)
        NEXT(v, p, w, q)
    }
    before(&v, &p, &sum, &at, values, numbers);
#endif
    for (size_t i = i0; i < i1; i += TILE) {
        const uint width = min((size_t)TILE, i1 - i);
        __local ACC* const tile = (__local ACC*)room;
        EVERY(k) tile[k] = k < width ? (ACC)from[AT(i + k)] : START;
        WAIT
        ACC mine[EACH];
        UNROLL for (uint e = 0; e < EACH; e++) mine[e] = tile[l * EACH + e];
        const size_t first = i + l * EACH;
        v = START;
        p = -1;
        UNROLL for (uint e = 0; e < EACH; e++) if (HOW != MAXIMUM || l * EACH + e < width) { STEP(v, p, mine[e], AT((long)first + e)) }
        ACC all;
        long all_at = -1;
        before(&v, &p, &all, &all_at, values, numbers);
#if STAGE == RUN
        ACC run = sum;
        long run_at = at;
        NEXT(run, run_at, v, p)
#if HOW == MAXIMUM
        __local long* const out = (__local long*)room;
        UNROLL for (uint e = 0; e < EACH; e++) {
            if (l * EACH + e < width) { STEP(run, run_at, mine[e], AT((long)first + e)) }
            out[l * EACH + e] = run_at;
        }
#else
        __local ACC* const out = tile;
        UNROLL for (uint e = 0; e < EACH; e++) {
            STEP(run, run_at, mine[e], 0)
            out[l * EACH + e] = run;
        }
#endif
        WAIT
        EVERY(k) if (k < width) { EPILOGUE(a, AT(i + k), 0, (T)out[k]); }
        WAIT
#endif
        NEXT(sum, at, all, all_at)
    }
#if STAGE == FOLD
    if (l == 0) {
        ((__global ACC*)partial)[a * PARTS + part] = sum;
        WHERE(((__global long*)places)[a * PARTS + part] = at;)
    }
#endif
}
