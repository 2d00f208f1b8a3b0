// elements: an index of its own for every element (NumPy's take_along_axis), and the adjoint
//
//   GATHER   y(a, e, d) = x(a, index(a, e, d), d), MISSING where the index is outside
//   SCATTER  y(a, v, d) = sum of source(a, e, d) over e with index(a, e, d) = v, in the order of e: the same bits on every run
//
// A line of the scatter, (a, ., d), is summed by one work-item: nothing is sorted, no float atomics. On CPUs in scratch that its core caches; on
//   GPUs, which want neighbours side by side where they begin and end, in three launches: ZERO, ADD, OUT.
// Negative indices count from the end.
//
// Layout: x (BATCH, ROWS, WIDTH), in 16 bits where X_KIND says so, index and source (BATCH, EDGES, WIDTH), all contiguous.
// Grid, local size 1: GATHER (BATCH x EDGES / CHUNK), SCATTER (BATCH / LINES, WIDTH / CHUNK), sums ROWS x CHUNK of T for each of the items. On GPUs
//   an item for each element of the result, in ADD for each line, and sums the result's size. No local memory.
//   PARAMS, BEGIN, EPILOGUE(coordinates, value), EPILOGUE_V, T and VW as in matmul.cl, the coordinates of a gather and OUT being the element's number
//   alone, of SCATTER a and that in its lines; GPU 0 or 1.

#include "include/rows.h"

#define GATHER 1
#define SCATTER 2
#define ZERO 3
#define ADD 4
#define OUT 5
#ifndef STAGE
#define STAGE GATHER            // which of them
#endif
#ifndef X_KIND
#define X_KIND SAME             // how x is stored (vector.h), in a gather
#endif
#ifndef ITEM
#define ITEM size_t             // uint where every element's number fits
#endif

#if STAGE == GATHER

#define FOUND(a, i, d) ((i) < ROWS ? SCALAR_OF(X_KIND, x + ((a) * ROWS + (i)) * WIDTH + (d)) : (T)(MISSING))

__kernel void gather(PARAMS) {
    BEGIN
#if GPU
    const ITEM k = get_global_id(0), d = k % WIDTH, a = k / WIDTH / EDGES;
    if (k >= (ITEM)BATCH * EDGES * WIDTH) return;
    const ITEM i = row_of(index[k] SIZES_PASSED);
    EPILOGUE(k, FOUND(a, i, d));
#else
    const size_t last = min((get_global_id(0) + 1) * CHUNK, (size_t)BATCH * EDGES);
    for (size_t r = get_global_id(0) * CHUNK; r < last;) {
        const size_t a = r / EDGES, e0 = r % EDGES, e1 = min((size_t)EDGES, e0 + last - r);
        for (size_t e = e0; e < e1; e++)
            for (size_t d = 0; d < WIDTH; d++) {
                const size_t i = row_of(index[(a * EDGES + e) * WIDTH + d] SIZES_PASSED);
                EPILOGUE(((a * EDGES + e) * WIDTH + d), FOUND(a, i, d));
            }
        r += e1 - e0;
    }
#endif
}

#elif STAGE == SCATTER

#define ADD_TO(place, at) { const size_t v = target_row(index[at] SIZES_PASSED); if (v < ROWS) y[place] += source[at]; }

__kernel void scatter(PARAMS) {
    BEGIN
    const size_t a0 = get_global_id(0) * LINES, a1 = min(a0 + LINES, (size_t)BATCH);
    const size_t d0 = get_global_id(1) * CHUNK, d1 = min(d0 + CHUNK, (size_t)WIDTH), n = d1 > d0 ? d1 - d0 : 0;
    __global T* restrict y = (__global T*)sums + (get_global_id(0) * get_global_size(1) + get_global_id(1)) * ROWS * CHUNK;
    for (size_t a = a0; a < a1; a++) {
        for (size_t k = 0; k < ROWS * n; k++) y[k] = 0;
        const size_t from = a * EDGES * WIDTH + d0;
        if (n == 1)
            for (size_t e = 0; e < EDGES; e++) ADD_TO(v, from + e * WIDTH)
        else
            for (size_t e = 0; e < EDGES; e++)
                for (size_t d = 0; d < n; d++) ADD_TO(v * n + d, from + e * WIDTH + d)
        const size_t runs = n == WIDTH ? 1 : ROWS, length = n == WIDTH ? ROWS * WIDTH : n;
        for (size_t run = 0; run < runs; run++) {
            const size_t first = run * WIDTH + d0;
            size_t k = 0;
#if VW > 1
            for (; k + VW <= length; k += VW) { EPILOGUE_V(a, (first + k), VLOAD(y + run * n + k)); }
#endif
            for (; k < length; k++) { EPILOGUE(a, (first + k), y[run * n + k]); }
        }
    }
}

#else

__kernel void parallel_scatter(PARAMS) {
    BEGIN
    const ITEM k = get_global_id(0);
    __global T* restrict y = (__global T*)sums;
#if STAGE == ADD
    if (k >= (ITEM)BATCH * WIDTH) return;
    const ITEM a = k / WIDTH, d = k % WIDTH;
    for (ITEM e = 0; e < EDGES; e++) {
        const ITEM at = (a * EDGES + e) * WIDTH + d, v = row_of(index[at] SIZES_PASSED);
        if (v < ROWS) y[(a * ROWS + v) * WIDTH + d] += source[at];
    }
#else
    if (k >= (ITEM)BATCH * ROWS * WIDTH) return;
#if STAGE == ZERO
    y[k] = 0;
#else
    EPILOGUE(k, y[k]);
#endif
#endif
}

#endif
