// sort: every row of x put in order. Stable; NaN last; equal bits on every run.
//
//   VALUES  y(r, i) = the element of row r that is i-th          INDEX  its number in the row          BOTH  value and number
//   TOP     y(r, j) = the number of the element that is j-th, j < K, of rows of which few elements are wanted
//   PLACED  y(r, index(r, i)) = v(r, i), the indices of a row being all of 0 .. N - 1: the adjoint of a sort
//
// Many rows: a work-item sorts whole rows in its own ROOM of scratch.
//   MERGE   runs of 16 by insertion, then merges of two; for short rows
//   RADIX   one pass over the row counts all its digits of 8 bits, a pass moves it by each digit, the lowest first; digits that are the
//           same in all elements are left out
// Few long rows: all items move a row together by digits of WIDE bits, a pass three stages:
//   COUNT   item p counts the digits of its CHUNK elements     ADD  the counts become places, sums of all before: an item a row
//   MOVE    item p moves its elements there: FROM x (SOURCE 0), `first` (1) or `second` (2), to the other or, LAST, to the result
// TOP: a work-item walks over its share of a row and keeps what ranks before the K-th best so far: in order where K is small, else in a
//   list of LIST items, which is sorted and cut to K where it is full. PARTS shares of a row leave K candidates each, which a last stage merges (FINISH).
//
// Layout: x, v, index (ROWS, N), contiguous. Scratch: first, second (items of include/order.h), counts (uint).
// Grid: MERGE, RADIX, TOP with PARTS 1 (ITEMS); COUNT, MOVE, TOP (PARTS, ROWS); ADD, FINISH (ROWS);
//   PLACED (ITEMS, CHUNK elements each), on GPUs, which sort by sort_gpu.cl, of any local size; local size 1 elsewhere. No local memory.
// PARAMS, BEGIN, EPILOGUE(r, i, v), with the number after v in BOTH, and T, VW as in matmul.cl; E is what x is stored as.

#define MERGE 1
#define RADIX 2
#define COUNT 3
#define ADD 4
#define MOVE 5
#define TOP 6
#define FINISH 7
#define PLACED 8
#define VALUES 1
#define INDEX 2
#define BOTH 3
#ifndef STAGE
#define STAGE MERGE             // which of them
#endif
#ifndef WIDE
#define WIDE 8                  // bits of a digit of COUNT, ADD and MOVE
#endif
#ifndef RUN
#define RUN 16                  // elements that are sorted by insertion
#endif

#if STAGE == PLACED

__kernel void placed(PARAMS) {
    BEGIN
    const size_t first = get_global_id(0) * CHUNK, last = min(first + CHUNK, (size_t)ROWS * N);
    for (size_t i = first; i < last; i++) { const size_t r = i / N; EPILOGUE(r, (size_t)index[i], v[i]); }
}

#else

#include "include/order.h"

#define ITEMS_AT(scratch, at) ((__global ITEM*)(scratch) + (at))
#define STORED(r) ((__global const B*)x + (size_t)(r) * N)
#if KIND == VALUES
#define RESULT(r, i, item) EPILOGUE(r, i, FROM_BITS(BITS_OF(item)))
#elif KIND == INDEX
#define RESULT(r, i, item) EPILOGUE(r, i, (T)NUMBER_OF(item))
#else
#define RESULT(r, i, item) EPILOGUE(r, i, FROM_BITS(BITS_OF(item)), (long)NUMBER_OF(item))
#endif

#if STAGE == MERGE || STAGE == TOP || STAGE == FINISH

// Sorts a[0 .. n) with room in b; gives the one that holds the result.
INLINE __global ITEM* merged(__global ITEM* a, __global ITEM* b, const size_t n) {
    for (size_t start = 0; start < n; start += RUN) {
        const size_t end = min(start + RUN, n);
        for (size_t i = start + 1; i < end; i++) {
            const ITEM item = a[i];
            size_t j = i;
            for (; j > start && before(a[j - 1], item); j--) a[j] = a[j - 1];
            a[j] = item;
        }
    }
    for (size_t width = RUN; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            const size_t middle = min(start + width, n), end = min(start + 2 * width, n);
            size_t l = start, r = middle, i = start;
            while (l < middle && r < end) {
                const ITEM left = a[l], right = a[r];
                const bool takes_right = before(left, right);
                b[i++] = takes_right ? right : left;
                r += takes_right;
                l += !takes_right;
            }
            while (l < middle) b[i++] = a[l++];
            while (r < end) b[i++] = a[r++];
        }
        __global ITEM* const t = a;
        a = b;
        b = t;
    }
    return a;
}

#endif

#if STAGE == MERGE

__kernel void sort_rows(PARAMS) {
    BEGIN
    const size_t t = get_global_id(0), r0 = t * CHUNK, r1 = min(r0 + CHUNK, (size_t)ROWS);
    __global ITEM* const a = ITEMS_AT(first, t * N);
    __global ITEM* const b = ITEMS_AT(second, t * N);
    for (size_t r = r0; r < r1; r++) {
        __global const B* restrict from = STORED(r);
        for (size_t i = 0; i < N; i++) a[i] = MADE(from[i], i);
        __global const ITEM* const y = merged(a, b, N);
        for (size_t i = 0; i < N; i++) { RESULT(r, i, y[i]); }
    }
}

#elif STAGE == RADIX

#define DIGITS (BITS / 8)

__kernel void sort_rows(PARAMS) {
    BEGIN
    const size_t t = get_global_id(0), r0 = t * CHUNK, r1 = min(r0 + CHUNK, (size_t)ROWS);
    uint places[DIGITS][256];
    for (size_t r = r0; r < r1; r++) {
        __global const B* restrict from = STORED(r);
        __global ITEM* a = ITEMS_AT(first, t * N);
        __global ITEM* b = ITEMS_AT(second, t * N);
        for (size_t d = 0; d < DIGITS; d++) for (size_t k = 0; k < 256; k++) places[d][k] = 0;
        for (size_t i = 0; i < N; i++) {
            const B bits = from[i], rank = rank_of(bits);
            a[i] = MADE(bits, i);
            UNROLL for (size_t d = 0; d < DIGITS; d++) places[d][(rank >> 8 * d) & 255]++;
        }
        const B some = rank_of(from[0]);
        for (size_t d = 0; d < DIGITS; d++) {
            if (places[d][(some >> 8 * d) & 255] == N) continue;
            uint sum = 0;
            for (size_t k = 0; k < 256; k++) { const uint n = places[d][k]; places[d][k] = sum; sum += n; }
            for (size_t i = 0; i < N; i++) {
                const ITEM item = a[i];
                b[places[d][(rank_of(BITS_OF(item)) >> 8 * d) & 255]++] = item;
            }
            __global ITEM* const swap = a;
            a = b;
            b = swap;
        }
        for (size_t i = 0; i < N; i++) { RESULT(r, i, a[i]); }
    }
}

#elif STAGE == COUNT || STAGE == MOVE

#define MASK (((size_t)1 << WIDE) - 1)
#define DIGIT(bits) (((size_t)rank_of(bits) >> SHIFT) & MASK)
#if SOURCE == 0
#define TAKEN(i) MADE(STORED(r)[i], i)
#define TAKEN_BITS(i) STORED(r)[i]
#elif SOURCE == 1
#define TAKEN(i) ITEMS_AT(first, r * N)[i]
#define TAKEN_BITS(i) BITS_OF(TAKEN(i))
#else
#define TAKEN(i) ITEMS_AT(second, r * N)[i]
#define TAKEN_BITS(i) BITS_OF(TAKEN(i))
#endif

__kernel void sort_digit(PARAMS) {
    BEGIN
    const size_t p = get_global_id(0), r = get_global_id(1), i0 = min(p * CHUNK, (size_t)N), i1 = min(i0 + CHUNK, (size_t)N);
    __global uint* restrict mine = (__global uint*)counts + (r << WIDE) * PARTS + p;
    uint places[MASK + 1];
#if STAGE == COUNT
    for (size_t k = 0; k <= MASK; k++) places[k] = 0;
    for (size_t i = i0; i < i1; i++) places[DIGIT(TAKEN_BITS(i))]++;
    for (size_t k = 0; k <= MASK; k++) mine[k * PARTS] = places[k];
#else
    for (size_t k = 0; k <= MASK; k++) places[k] = mine[k * PARTS];
    for (size_t i = i0; i < i1; i++) {
        const ITEM item = TAKEN(i);
        const size_t at = places[DIGIT(BITS_OF(item))]++;
#if LAST
        RESULT(r, at, item);
#elif SOURCE == 1
        ITEMS_AT(second, r * N)[at] = item;
#else
        ITEMS_AT(first, r * N)[at] = item;
#endif
    }
#endif
}

#elif STAGE == ADD

__kernel void sort_places(PARAMS) {
    BEGIN
    const size_t total = ((size_t)1 << WIDE) * PARTS;
    __global uint* restrict c = (__global uint*)counts + get_global_id(0) * total;
    uint sum = 0;
    for (size_t i = 0; i < total; i++) { const uint n = c[i]; c[i] = sum; sum += n; }
}

#elif STAGE == TOP

#define STEP 64                 // elements that are looked at together
#define FEW 64                  // so many wanted at most are kept in order, each new one put in its place

// The K best of elements i0 .. i1 of a row in a[0 .. count) or b, sorted, with their numbers.
INLINE __global ITEM* best_of(__global const B* restrict from, const size_t i0, const size_t i1, __global ITEM* a, __global ITEM* b, size_t* count) {
    size_t n = 0;
    B worst = ALL_BITS;
    bool full = false;
    for (size_t i = i0; i < i1; i += STEP) {
        const size_t end = min(i + STEP, i1);
        if (full) {
            bool some = false;
            for (size_t j = i; j < end; j++) some |= rank_of(from[j]) < worst;
            if (!some) continue;
        }
#if K <= FEW
        for (size_t j = i; j < end; j++) {
            if (full && rank_of(from[j]) >= worst) continue;
            const ITEM item = MADE(from[j], j);
            size_t at = full ? K - 1 : n++;
            for (; at > 0 && before(a[at - 1], item); at--) a[at] = a[at - 1];
            a[at] = item;
            full = n == K;
            if (full) worst = rank_of(BITS_OF(a[K - 1]));
        }
    }
    *count = n;
    return a;
#else
        for (size_t j = i; j < end; j++)
            if (!full || rank_of(from[j]) < worst) a[n++] = MADE(from[j], j);
        if (n + STEP > LIST) {
            __global ITEM* const y = merged(a, b, n);
            b = y == a ? b : a;
            a = y;
            n = min(n, (size_t)K);
            full = n == K;
            worst = rank_of(BITS_OF(a[n - 1]));
        }
    }
    __global ITEM* const y = merged(a, b, n);
    *count = min(n, (size_t)K);
    return y;
#endif
}

__kernel void top(PARAMS) {
    BEGIN
    size_t count;
#if PARTS == 1
    const size_t t = get_global_id(0), r0 = t * CHUNK, r1 = min(r0 + CHUNK, (size_t)ROWS);
    for (size_t r = r0; r < r1; r++) {
        __global const ITEM* const y = best_of(STORED(r), 0, N, ITEMS_AT(first, t * LIST), ITEMS_AT(second, t * LIST), &count);
        for (size_t j = 0; j < K; j++) { RESULT(r, j, y[j]); }
    }
#else
    const size_t p = get_global_id(0), r = get_global_id(1), i0 = min(p * CHUNK, (size_t)N), i1 = min(i0 + CHUNK, (size_t)N), at = r * PARTS + p;
    __global const ITEM* const y = best_of(STORED(r), i0, i1, ITEMS_AT(first, at * LIST), ITEMS_AT(second, at * LIST), &count);
    for (size_t j = 0; j < count; j++) ITEMS_AT(candidates, at * K)[j] = y[j];
    ((__global uint*)counts)[at] = count;
#endif
}

#else

__kernel void top_of_parts(PARAMS) {
    BEGIN
    const size_t r = get_global_id(0);
    size_t n = 0;
    __global ITEM* const a = ITEMS_AT(first, r * PARTS * LIST);
    for (size_t p = 0; p < PARTS; p++)
        for (size_t j = 0; j < ((__global uint*)counts)[r * PARTS + p]; j++) a[n++] = ITEMS_AT(candidates, (r * PARTS + p) * K)[j];
    __global const ITEM* const y = merged(a, ITEMS_AT(second, r * PARTS * LIST), n);
    for (size_t j = 0; j < K; j++) { RESULT(r, j, y[j]); }
}

#endif
#endif
