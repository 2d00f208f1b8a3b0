// sparse: y(v, d) = sum over the entries e with index(e) = v of values(e) * x(column(e), d)       STAGE PRODUCT
//         y(e)    = sum over d of g(index(e), d) * x(column(e), d)                                 STAGE PLACES
//
// The entries of a sparse matrix come in any order. For the product they are sorted by row first (the stages of index.cl:
// COUNT, SCAN, PLACE, BOUNDS), then each row is a walk over its entries in their order: the same bits on every run, without
// float atomics, and no array of entries times width. Negative numbers count from the end; an entry outside is dropped.
//
// Layout: values, index, column (EDGES), x (COLUMNS, WIDTH), g (ROWS, WIDTH), y (ROWS, WIDTH) or (EDGES), all contiguous.
// Grid: PRODUCT on CPUs (ITEMS, WIDTH / CHUNK), item t has the rows of its share of rows + entries; PLACES on CPUs (entries /
//   CHUNK); local size 1. On GPUs one item an element of the result, neighbours along d (PRODUCT) or e (PLACES). No local memory.
//   PARAMS, BEGIN, EPILOGUE(coordinates, value), EPILOGUE_V and T, VW as in matmul.cl; GPU 0 or 1.

#define PRODUCT 1
#define PLACES 2
#ifndef STAGE
#define STAGE PRODUCT           // which of them
#endif

INLINE size_t place_of(long i, const size_t n) {
    i += i < 0 ? (long)n : 0;
    return i >= 0 && i < (long)n ? (size_t)i : n;
}

#define ORDER(s) ((__global uint*)(s))

#if STAGE == PRODUCT

#include "include/share.h"

// sum += term for the entries e of row v, in columns c
#define ADD(sum, term)                                                                                     \
    for (size_t p = at[v]; p < at[v + 1]; p++) {                                                           \
        const size_t e = order[p], c = place_of(column[e], COLUMNS);                                       \
        if (c < COLUMNS) sum += term;                                                                      \
    }

__kernel void product(PARAMS) {
    BEGIN
    __global const uint* restrict order = ORDER(FROM);
    __global const uint* restrict at = ORDER(offsets);
#if GPU
    const size_t i = get_global_id(0), d = i % WIDTH, v = i / WIDTH;
    if (v >= ROWS) return;
    T sum = 0;
    ADD(sum, values[e] * x[c * WIDTH + d])
    EPILOGUE(v, d, sum);
#else
    const size_t work = at[ROWS] + (size_t)ROWS, t = get_global_id(0);
    const size_t v0 = row_at(at, work * t / ITEMS SIZES_PASSED), v1 = t + 1 == ITEMS ? ROWS : row_at(at, work * (t + 1) / ITEMS SIZES_PASSED);
    const size_t d0 = get_global_id(1) * CHUNK, d1 = min(d0 + CHUNK, (size_t)WIDTH);
    for (size_t v = v0; v < v1; v++) {
        size_t d = d0;
#if VW > 1
        for (; d + 4 * VW <= d1; d += 4 * VW) {
            VT sum[4] = {VSPLAT(0), VSPLAT(0), VSPLAT(0), VSPLAT(0)};
            for (size_t p = at[v]; p < at[v + 1]; p++) {
                const size_t e = order[p], c = place_of(column[e], COLUMNS);
                if (c == COLUMNS) continue;
                const VT w = VSPLAT(values[e]);
                UNROLL for (size_t n = 0; n < 4; n++) sum[n] += w * VLOAD(x + c * WIDTH + d + n * VW);
            }
            UNROLL for (size_t n = 0; n < 4; n++) { EPILOGUE_V(v, (d + n * VW), sum[n]); }
        }
        for (; d + VW <= d1; d += VW) {
            VT sum = VSPLAT(0);
            ADD(sum, VSPLAT(values[e]) * VLOAD(x + c * WIDTH + d))
            EPILOGUE_V(v, d, sum);
        }
#endif
        for (; d < d1; d++) {
            T sum = 0;
            ADD(sum, values[e] * x[c * WIDTH + d])
            EPILOGUE(v, d, sum);
        }
    }
#endif
}

#else

INLINE T dot_of(__global const T* restrict a, __global const T* restrict b SIZES) {
    size_t d = 0;
    T sum = 0;
#if VW > 1
    VT part = VSPLAT(0);
    for (; d + VW <= WIDTH; d += VW) part += VLOAD(a + d) * VLOAD(b + d);
    T lanes[VW];
    VSTORE_P(part, lanes);
    UNROLL for (size_t n = 0; n < VW; n++) sum += lanes[n];
#endif
    for (; d < WIDTH; d++) sum += a[d] * b[d];
    return sum;
}

__kernel void places(PARAMS) {
    BEGIN
    const size_t first = get_global_id(0) * CHUNK, last = min(first + CHUNK, (size_t)EDGES);
    for (size_t e = first; e < last; e++) {
        const size_t v = place_of(index[e], ROWS), c = place_of(column[e], COLUMNS);
        const T value = v < ROWS && c < COLUMNS ? dot_of(g + v * WIDTH, x + c * WIDTH SIZES_PASSED) : (T)0;
        EPILOGUE(e, value);
    }
}

#endif
