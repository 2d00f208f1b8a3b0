// cumulative: y(a, i, d) = x(a, 0, d) o x(a, 1, d) o .. o x(a, i, d) along the middle axis, o being HOW:
//   SUM   PRODUCT   LOGADDEXP   MAXIMUM (the number of the first): include/cumulative.h. REVERSE 1 walks from the end.
//
// Long axes are cut into PARTS shares of SHARE steps: FOLD leaves what each share comes to, RUN combines those before its own and walks.
// A work-item takes CHUNK neighbours along d, whose running values stay in private memory. The order depends on the shape alone.
//
// Layout: x (A, N, D), contiguous; scratch partial, places: (A, PARTS, D) of ACC and, MAXIMUM, of long.
// Grid: (A * ceil(D / CHUNK), PARTS): neighbouring items of a GPU read neighbours; local size 1 on CPUs, any on GPUs. No local memory.
// PARAMS, BEGIN, EPILOGUE(a, i, d, v) and T as in matmul.cl; ACC is what values are accumulated in, S what x is stored as.

#include "include/cumulative.h"

#define FOLD 1
#define RUN 2
#ifndef STAGE
#define STAGE RUN               // which of them
#endif
#ifndef CHUNK
#define CHUNK 1                 // neighbours along d that a work-item walks over together
#endif

__kernel void cumulative(PARAMS) {
    BEGIN
    const size_t part = get_global_id(1), columns = (D + CHUNK - 1) / CHUNK, a = get_global_id(0) / columns;
    const size_t d0 = get_global_id(0) % columns * CHUNK, width = min((size_t)CHUNK, (size_t)D - d0);
    const size_t i0 = min(part * SHARE, (size_t)N), i1 = min(i0 + SHARE, (size_t)N);
    __global const S* restrict from = x + a * N * D + d0;
    ACC v[CHUNK];
    long p[CHUNK];
    for (size_t d = 0; d < CHUNK; d++) { v[d] = START; p[d] = -1; }
#if STAGE == FOLD
    for (size_t i = i0; i < i1; i++)
        for (size_t d = 0; d < width; d++) { const ACC w = from[AT(i) * D + d]; STEP(v[d], p[d], w, AT(i)) }
    for (size_t d = 0; d < width; d++) {
        ((__global ACC*)partial)[(a * PARTS + part) * D + d0 + d] = v[d];
#if HOW == MAXIMUM
        ((__global long*)places)[(a * PARTS + part) * D + d0 + d] = p[d];
#endif
    }
#else
#if PARTS > 1
    for (size_t k = 0; k < part; k++)
        for (size_t d = 0; d < width; d++) {
            const size_t at = (a * PARTS + k) * D + d0 + d;
            const ACC w = ((__global const ACC*)partial)[at];
#if HOW == MAXIMUM
            const long q = ((__global const long*)places)[at];
            if (q < 0) continue;
#endif
            STEP(v[d], p[d], w, q)
        }
#endif
    for (size_t i = i0; i < i1; i++)
        for (size_t d = 0; d < width; d++) {
            const ACC w = from[AT(i) * D + d];
            STEP(v[d], p[d], w, AT(i))
#if HOW == MAXIMUM
            EPILOGUE(a, AT(i), d0 + d, p[d]);
#else
            EPILOGUE(a, AT(i), d0 + d, (T)v[d]);
#endif
        }
#endif
}
