// edges: sums over the edges of a graph at each node, and what belongs to them. Edges lie in the order of their targets: those into node v
//   are at[v] .. at[v + 1]; `back` is their order by sources, those out of node v at out[v] .. out[v + 1] of it.
//
//   SUM      y(v, h, d) = sum over the edges e into v of w(e, h) x(source(e), h, d)                                     STAGE SUM
//   TOTAL    y(v, 0, d) = sum over the edges e into v of x(e, 0, d)
//   ARGMAX   y(v, 0, d) = number of the first edge e into v whose x(e, 0, d) is largest, a NaN above all; -1 where there is none
//   DOT      y(e, h)    = sum over d of g(target(e), h, d) x(source(e), h, d)
//   ORDER    y(i)       = the i-th edge in the order by index: the stages of index.cl sort, this one copies
//   OFFSETS  y(v)       = how many of the sorted index(e) are below v
//
// REVERSE walks the edges out of v in place of those into it, and reads targets for sources: the adjoint, with the same sums. Every
//   sum is in the order of the edges: equal bits on every run, no float atomics. A node outside is dropped, its products are 0.
//
// Layout: x (COLUMNS, HEADS, WIDTH) or (EDGES, 1, WIDTH), w (EDGES, HEADS), g (ROWS, HEADS, WIDTH), target, source, back (EDGES),
//   at, out (ROWS + 1), all contiguous.
// Grid: CPUs (ITEMS), local size 1: item t has the rows of its share of rows + edges; DOT and OFFSETS CHUNK results an item. GPUs: an item
//   VW neighbours of the result along d (VW divides WIDTH). No local memory.
//   PARAMS, BEGIN, EPILOGUE(coordinates, value), EPILOGUE_V and T, VW as in matmul.cl; GPU 0 or 1.

#define SUM 1
#define TOTAL 2
#define ARGMAX 3
#define DOT 4
#define ORDER 5
#define OFFSETS 6
#ifndef STAGE
#define STAGE SUM               // which of them
#endif
#ifndef REVERSE
#define REVERSE 0               // 1: of the edges out of a node
#endif

#ifndef X_ALIGN
#define X_ALIGN 1               // elements to which x is aligned
#endif
#if VW == 1
#define TAKE(p) (*(p))
#else
#define TAKE(p) (X_ALIGN % VW ? CAT(vload, VW)(0, (p)) : VLOAD(p))
#endif

#if STAGE == ORDER

__kernel void order(PARAMS) {
    BEGIN
    const size_t first = get_global_id(0) * CHUNK, last = min(first + CHUNK, (size_t)EDGES);
    for (size_t i = first; i < last; i++) {
        const int value = ((__global uint*)FROM)[i];
        EPILOGUE(i, value);
    }
}

#elif STAGE == OFFSETS

#define BELOW(i, v) (index[i] < (long)(v))
#define PUT(v, i) const int value = i; EPILOGUE(v, value);
#include "include/bounds.h"

#elif STAGE == DOT

INLINE T dot_of(__global const T* restrict a, __global const T* restrict b SIZES) {
    size_t d = 0;
    T sum = 0;
#if VW > 1
    VT part = VSPLAT(0);
    for (; d + VW <= WIDTH; d += VW) part = VFMA(VLOAD(a + d), VLOAD(b + d), part);
    T lanes[VW];
    VSTORE_P(part, lanes);
    UNROLL for (size_t n = 0; n < VW; n++) sum += lanes[n];
#endif
    for (; d < WIDTH; d++) sum = VFMA(a[d], b[d], sum);
    return sum;
}

__kernel void dots(PARAMS) {
    BEGIN
    const size_t first = get_global_id(0) * CHUNK, last = min(first + CHUNK, (size_t)EDGES * (GPU ? HEADS : 1));
    for (size_t i = first; i < last; i++) {
        const size_t e = GPU ? i / HEADS : i, v = (size_t)target[e], c = (size_t)source[e];
        const bool inside = v < ROWS && c < COLUMNS;
        for (size_t h = GPU ? i % HEADS : 0; h < HEADS; h += GPU ? HEADS : 1) {
            const T value = inside ? dot_of(g + (v * HEADS + h) * WIDTH, x + (c * HEADS + h) * WIDTH SIZES_PASSED) : (T)0;
            EPILOGUE(e, h, value);
        }
    }
}

#else

#include "include/share.h"

#if REVERSE
#define AT out
#define EDGE(p) ((size_t)back[p])
#define OTHER(e) ((size_t)target[e])
#else
#define AT at
#define EDGE(p) (p)
#define OTHER(e) ((size_t)source[e])
#endif

// `body` for each edge of row v whose other end is there: e its number, c the row of x
#if STAGE == SUM
#define EACH(body)                                                     \
    for (size_t p = begin; p < end; p++) {                             \
        const size_t e = EDGE(p), c = OTHER(e);                        \
        if (e < EDGES && c < COLUMNS) { body }                         \
    }
#define WEIGHT(e) w[e * HEADS + h]
#else
#define EACH(body) for (size_t p = begin; p < end; p++) { const size_t c = EDGE(p); if (c < EDGES) { body } }
#endif

#if STAGE == SUM
#define TERM(sum, splat, load) sum = VFMA(splat(WEIGHT(e)), load, sum);
#else
#define TERM(sum, splat, load) sum += load;
#endif
#define ROW (from + c * HEADS * WIDTH + d)

__kernel void segments(PARAMS) {
    BEGIN
    __global const uint* restrict rows = (__global const uint*)AT;
#if GPU
    const size_t i = get_global_id(0), d = i % (WIDTH / VW) * VW, h = i / (WIDTH / VW) % HEADS, v = i / (WIDTH / VW) / HEADS;
    if (v >= ROWS) return;
    const size_t begin = rows[v], end = rows[v + 1];
#if STAGE == ARGMAX
    long best = -1;
    S top = 0;
    EACH(const S s = x[c * WIDTH + d]; if (best < 0 || s > top || (s != s && top == top)) { top = s; best = c; })
    const int value = best;
    EPILOGUE(v, h, d, value);
#else
    VT sum = VSPLAT(0);
    __global const T* restrict from = x + h * WIDTH;
    EACH(TERM(sum, VSPLAT, TAKE(ROW)))
    EPILOGUE_V(v, h, d, sum);
#endif
#else
    const size_t work = rows[ROWS] + (size_t)ROWS, t = get_global_id(0);
    const size_t v0 = row_at(rows, work * t / ITEMS SIZES_PASSED), v1 = t + 1 == ITEMS ? ROWS : row_at(rows, work * (t + 1) / ITEMS SIZES_PASSED);
    for (size_t v = v0; v < v1; v++) {
        const size_t begin = rows[v], end = rows[v + 1];
        for (size_t h = 0; h < HEADS; h++) {
            size_t d = 0;
#if STAGE == ARGMAX
            for (; d < WIDTH; d += LINE) {
                const size_t many = min((size_t)LINE, WIDTH - d);
                S top[LINE];
                int best[LINE];
                for (size_t n = 0; n < LINE; n++) { top[n] = 0; best[n] = -1; }
                EACH(
                    __global const S* restrict from = x + c * WIDTH + d;
                    for (size_t n = 0; n < many; n++) {
                        const S s = from[n];
                        const bool better = (best[n] < 0) | (s > top[n]) | ((s != s) & (top[n] == top[n]));
                        top[n] = better ? s : top[n];
                        best[n] = better ? (int)c : best[n];
                    }
                )
                for (size_t n = 0; n < many; n++) { EPILOGUE(v, h, (d + n), best[n]); }
            }
#else
            __global const T* restrict from = x + h * WIDTH;
#if VW > 1
            for (; d + 8 * VW <= WIDTH; d += 8 * VW) {
                VT sum[8] = {VSPLAT(0), VSPLAT(0), VSPLAT(0), VSPLAT(0), VSPLAT(0), VSPLAT(0), VSPLAT(0), VSPLAT(0)};
                EACH(UNROLL for (size_t n = 0; n < 8; n++) { TERM(sum[n], VSPLAT, VLOAD(ROW + n * VW)) })
                UNROLL for (size_t n = 0; n < 8; n++) { EPILOGUE_V(v, h, (d + n * VW), sum[n]); }
            }
            for (; d + VW <= WIDTH; d += VW) {
                VT sum = VSPLAT(0);
                EACH(TERM(sum, VSPLAT, VLOAD(ROW)))
                EPILOGUE_V(v, h, d, sum);
            }
#endif
            for (; d < WIDTH; d++) {
                T sum = 0;
                EACH(TERM(sum, , *ROW))
                EPILOGUE(v, h, d, sum);
            }
#endif
        }
    }
#endif
}

#endif
