// segment: sums over consecutive pieces of a vector, and back. offsets(k) is where piece k begins, offsets(S) = N the end.
//
//   DOT      y(k) = sum of x(i) y(i) over offsets(k) <= i < offsets(k + 1)     in two stages
//   SUM      y(k, d) = sum of x(i, d) over that piece, for rows of WIDTH
//   SPREAD   y(i) = v(k), k the piece of i
//
// DOT cuts every piece into shares of CHUNK elements. Share j of piece k has number offsets(k) / CHUNK + k + j (integer division):
// the numbers of different pieces never meet, N / CHUNK + S of them are enough, and a search in offsets finds the piece of a
// number, so no table is needed. Some shares are empty. All sums run in a fixed order.
//   PARTIAL  CPU (GROUP 1): grid (ceil(SHARES / PER)), local size 1, PER shares an item, in vectors of VW.
//            GPU: grid (SHARES * GROUP), local size GROUP: a work-group a share, tree in local memory (GROUP elements).
//   FINISH   y(k) = the sum of its shares. CPU: grid (ceil(S / PER)), local size 1. GPU: a work-group a piece, as PARTIAL.
// SPREAD     CPU: grid (ceil(N / CHUNK)), local size 1, CHUNK elements an item. GPU: an item an element, local size GROUP.
//
// SUM        CPU: grid (ITEMS, WIDTH / CHUNK), local size 1, equal shares of rows + pieces an item, CHUNK columns. GPU: an item (k, d).
//
// Layout: x, y (N), v (S), offsets (S + 1), contiguous. PARAMS, BEGIN, EPILOGUE(k or i, v), EPILOGUE_V and T, VW as in matmul.cl.

#define PARTIAL 1
#define FINISH 2
#define SPREAD 3
#define SUM 4
#ifndef STAGE
#define STAGE SPREAD            // which of them
#endif
#ifndef GROUP
#define GROUP 1                 // items of a work-group, a power of two
#endif
#ifndef CHUNK
#define CHUNK 16384             // elements a share (PARTIAL, FINISH) or an item (SPREAD)
#endif

// The number of the first share of piece k.
#define FIRST(k) ((size_t)offsets[k] / CHUNK + (k))

#if GROUP > 1
// Folds one value of each item of the group: the sum is with item 0.
#define TREE(sum)                                              \
    __local T sums[GROUP];                                     \
    const size_t l = get_local_id(0);                          \
    sums[l] = sum;                                             \
    barrier(CLK_LOCAL_MEM_FENCE);                              \
    for (size_t s = GROUP / 2; s; s /= 2) {                    \
        if (l < s) sums[l] += sums[l + s];                     \
        barrier(CLK_LOCAL_MEM_FENCE);                          \
    }
#endif

#if STAGE == PARTIAL

#define SCRATCH ((__global T*)partial)

// The piece whose shares are numbered from at most `share`: the last k with FIRST(k) <= share.
INLINE size_t piece_of(__global const int* restrict offsets, const size_t share SIZES) {
    size_t low = 0, high = S;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (FIRST(middle) <= share) low = middle; else high = middle;
    }
    return low;
}

__kernel void partial_sums(PARAMS) {
    BEGIN
#if GROUP > 1
    const size_t share = get_group_id(0), k = piece_of(offsets, share SIZES_PASSED);
    const size_t begin = (size_t)offsets[k] + (share - FIRST(k)) * CHUNK, end = min(begin + CHUNK, min((size_t)offsets[k + 1], (size_t)N));
    T sum = 0;
    for (size_t i = begin + get_local_id(0); i < end; i += GROUP) sum = VFMA(x[i], y[i], sum);
    TREE(sum)
    if (l == 0) SCRATCH[share] = sums[0];
#else
    const size_t first = get_global_id(0) * PER, last = min(first + PER, (size_t)SHARES);
    for (size_t share = first; share < last; share++) {
        const size_t k = piece_of(offsets, share SIZES_PASSED);
        const size_t begin = (size_t)offsets[k] + (share - FIRST(k)) * CHUNK, end = min(begin + CHUNK, min((size_t)offsets[k + 1], (size_t)N));
        T sum = 0;
        size_t i = begin;
#if VW > 1
        VT sums = VSPLAT(0);
        for (; i + VW <= end; i += VW) sums = VFMA(VLOAD(x + i), VLOAD(y + i), sums);
        T lanes[VW];
        VSTORE_P(sums, lanes);
        for (size_t n = 0; n < VW; n++) sum += lanes[n];
#endif
        for (; i < end; i++) sum = VFMA(x[i], y[i], sum);
        SCRATCH[share] = sum;
    }
#endif
}

#elif STAGE == FINISH

#define SCRATCH ((__global const T*)partial)
#define SHARES_OF(k) (((size_t)offsets[(k) + 1] - (size_t)offsets[k] + CHUNK - 1) / CHUNK)

__kernel void finish_sums(PARAMS) {
    BEGIN
#if GROUP > 1
    const size_t k = get_group_id(0), count = SHARES_OF(k);
    T sum = 0;
    for (size_t j = get_local_id(0); j < count; j += GROUP) sum += SCRATCH[FIRST(k) + j];
    TREE(sum)
    if (l == 0) { EPILOGUE(k, sums[0]); }
#else
    const size_t first = get_global_id(0) * PER, last = min(first + PER, (size_t)S);
    for (size_t k = first; k < last; k++) {
        const size_t count = SHARES_OF(k);
        T sum = 0;
        for (size_t j = 0; j < count; j++) sum += SCRATCH[FIRST(k) + j];
        EPILOGUE(k, sum);
    }
#endif
}

#elif STAGE == SUM

#include "include/share.h"

#define TOTAL(TYPE, LOAD, d)                                                   \
    TYPE sum = (TYPE)(0);                                                      \
    for (size_t i = offsets[k]; i < (size_t)offsets[k + 1]; i++) sum += LOAD(x + i * WIDTH + (d));

__kernel void sum_rows(PARAMS) {
    BEGIN
#if GROUP > 1
    const size_t item = get_global_id(0), k = item / WIDTH, d = item % WIDTH;
    if (k >= S) return;
    TOTAL(T, *, d)
    EPILOGUE(k, d, sum);
#else
    __global const uint* restrict at = (__global const uint*)offsets;
    const size_t work = at[S] + (size_t)S, t = get_global_id(0);
    const size_t k0 = row_at(at, work * t / ITEMS SIZES_PASSED), k1 = t + 1 == ITEMS ? S : row_at(at, work * (t + 1) / ITEMS SIZES_PASSED);
    const size_t d0 = get_global_id(1) * CHUNK, d1 = min(d0 + CHUNK, (size_t)WIDTH);
    for (size_t k = k0; k < k1; k++) {
        size_t d = d0;
#if VW > 1
        for (; d + VW <= d1; d += VW) { TOTAL(VT, VLOAD, d) EPILOGUE_V(k, d, sum); }
#endif
        for (; d < d1; d++) { TOTAL(T, *, d) EPILOGUE(k, d, sum); }
    }
#endif
}

#else

// The last piece that begins at or before i.
INLINE size_t piece_at(__global const int* restrict offsets, const size_t i SIZES) {
    size_t low = 0, high = S;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if ((size_t)offsets[middle] <= i) low = middle; else high = middle;
    }
    return low;
}

__kernel void spread(PARAMS) {
    BEGIN
#if GROUP > 1
    const size_t i = get_global_id(0);
    if (i >= N) return;
    const T value = v[piece_at(offsets, i SIZES_PASSED)];
    EPILOGUE(i, value);
#else
    size_t i = get_global_id(0) * CHUNK;
    const size_t last = min(i + CHUNK, (size_t)N);
    for (size_t k = piece_at(offsets, i SIZES_PASSED); i < last; k++) {
        const size_t end = k + 1 < S ? min((size_t)offsets[k + 1], last) : last;
        const T value = v[k];
#if VW > 1
        for (; i + VW <= end; i += VW) { EPILOGUE_V(i, VSPLAT(value)); }
#endif
        for (; i < end; i++) { EPILOGUE(i, value); }
    }
#endif
}

#endif
