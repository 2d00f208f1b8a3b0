// normalize: softmax, layer and RMS normalisation, cross entropy and their gradients, along rows of N contiguous elements.
//
//   KIND                       out                                            operands
//   SOFTMAX                    e^(x - max x) / sum e^(x - max x)              x
//   SOFTMAX_GRADIENT           y * (g - sum g y)                              g y
//   LOG_SOFTMAX                x - max x - ln sum e^(x - max x)               x
//   LOG_SOFTMAX_GRADIENT       g - e^y * sum g                                g y
//   STANDARDIZE                xh = (x - mean x) * r, r = 1 / sqrt(var x + EPS)                        x
//   LAYER_NORM                 xh * gamma + beta                              x gamma beta
//   STANDARDIZE_GRADIENT       r * (g - mean g - xh * mean(g xh))             g x
//   LAYER_NORM_GRADIENT        the same with g gamma for g                    g x gamma
//   LAYER_NORM_PARAMETERS      (sum over rows g xh, sum over rows g)          g x          in two stages
//   RMS_NORM                   xh * gamma, xh = x r, r = 1 / sqrt(mean x^2 + EPS)                      x gamma
//   RMS_NORM_GRADIENT          r * (g gamma - xh * mean(g gamma xh))          g x gamma
//   RMS_NORM_PARAMETERS        sum over rows g xh                             g x          in two stages
//   LAYER_NORM_GRADIENTS       LAYER_NORM_GRADIENT, and LAYER_NORM_PARAMETERS g x gamma    in two stages; RMS_NORM_GRADIENTS likewise
//   CROSS_ENTROPY              ln sum e^(x - max x) - sum q (x - max x)                           x labels     one value a row
//   CROSS_ENTROPY_SLOPE        softmax(x) - q                                 x labels
//   CROSS_ENTROPY_AND_SLOPE    the slope, and also the value a row            x labels
//   SOFT_CROSS_ENTROPY         sum q (ln sum e^x - x)                         x q          one value a row
//   q = (1 - SMOOTHING) onehot(label) + SMOOTHING / N; 0 where label == IGNORE, NaN where the label is no class.
//
// A row of -INFINITY gives softmax 0 and log-softmax -INFINITY: the maximum is only subtracted where it is finite.
// Every row is read from memory once: later passes over it find it in the cache. Sums run in a fixed order, long ones in
// blocks.
//
// The generator prepends include/vector.h and PARAMS, BEGIN (pointers of the operands' names), T, VW, ROWS, N and
//   EPILOGUE(r, j, v), EPILOGUE_V(r, j, v)   store one element or VW of them (CROSS_ENTROPY: EPILOGUE(r, v))
//   EPILOGUE_ALSO(r, v)                      stores the value beside the slope
//
// Kernel `rows`: grid (ceil(ROWS / CHUNK)), local size 1: a work-item owns CHUNK rows and walks each in vectors of VW;
//   exponentials are kept in private memory where a row fits KEEP elements, else computed again.
// Kernels `partial_columns`, then `columns` (the PARAMETERS and GRADIENTS kinds)
//   partial_columns: ITEMS work-items of CHUNK rows each; item i sums its rows into scratch partial[i][OUTPUTS][N], and stores their gradient.
//   columns: grid (ceil(N / COLUMNS), OUTPUTS), local size 1: sums partial over items. EPILOGUE(output, j, v).
// GPUs have normalize_gpu.cl.

#ifndef COLUMNS
#define COLUMNS VW              // columns a work-item of `columns`, a multiple of VW
#endif
#ifndef KEEP
#define KEEP 8192               // [elements] longest row whose exponentials are kept in private memory
#endif
#ifndef BLOCK
#define BLOCK 256               // additions in a row to one of the FOLDS * VW numbers that then are added with the digits that this loses (include/sums.h)
#endif
#ifndef N_MOST
#define N_MOST N                // a number that N is not above, where N is an argument
#endif
#ifndef FOLDS
#define FOLDS (N_MOST < 96 * VW ? 2 : 4)  // vectors of partial results side by side: fewer would wait for each addition to finish
#endif

#include "include/normalize.h"

#define LOADS(TYPE, LOAD) READS(DECLARE, TYPE, LOAD) DERIVED(TYPE, LOAD)
#define EVERY(TYPE, LOAD) LOADS(TYPE, LOAD) LATE(DECLARE, TYPE, LOAD)
#define START(v, INIT) VT v[FOLDS]; UNROLL for (size_t u = 0; u < FOLDS; ++u) v[u] = VSPLAT((T)(INIT));
#define JOIN(a, v, MERGE) { \
        UNROLL for (size_t u = 1; u < FOLDS; ++u) v[0] = MERGE(v[0], v[u]); \
        ACROSS_LANES(a, MERGE, v[0]) }

#define SIDE_BY_SIDE(BODY) UNROLL for (size_t u = 0; u < FOLDS; ++u) { const size_t j = i_ + u * VW; LOADS(VT, VLOAD_OF) BODY }
#define VECTORS(BODY) \
    for (; i_ + FOLDS * VW <= N; i_ += FOLDS * VW) SIDE_BY_SIDE(BODY) \
    for (; i_ + VW <= N; i_ += VW) { const size_t j = i_, u = 0; LOADS(VT, VLOAD_OF) BODY }
#define LAST(BODY) for (size_t j = i_; j < N; ++j) { LOADS(T, SCALAR_OF) BODY }
#define GROW(v, NEXT) { const VT acc_ = v[u]; v[u] = (NEXT); }
#define GROW_LAST(a, NEXT) { const T acc_ = a; a = (NEXT); }

// Long rows are summed in blocks, short ones are one.
#if N_MOST > BLOCK * FOLDS * VW
#define START_SUM(v) START(v, 0) START(v##s, 0) START(v##r, 0)
#define BLOCKS(BODY, ENDS) \
    for (size_t b_ = 0; b_ < N / (BLOCK * FOLDS * VW); ++b_) { for (size_t k_ = 0; k_ < BLOCK; ++k_, i_ += FOLDS * VW) SIDE_BY_SIDE(BODY) ENDS } \
    VECTORS(BODY) ENDS
#define END_BLOCK(v) UNROLL for (size_t u = 0; u < FOLDS; ++u) { TWO_SUM(VT, v##s[u], v##r[u], v[u]) v[u] = VSPLAT(0); }
#define JOIN_SUM(a, v) UNROLL for (size_t u = 0; u < FOLDS; ++u) v[u] = WHOLE(v##s[u], v##r[u]); JOIN(a, v, ADD)
#else
#define START_SUM(v) START(v, 0)
#define BLOCKS(BODY, ENDS) VECTORS(BODY)
#define END_BLOCK(v)
#define JOIN_SUM(a, v) JOIN(a, v, ADD)
#endif

#define FOLD(a, INIT, MERGE, NEXT) \
    T a; { START(v_, INIT) size_t i_ = 0; VECTORS(GROW(v_, NEXT)) JOIN(a, v_, MERGE) LAST(GROW_LAST(a, NEXT)) }
#define SUM(a, NEXT) \
    T a; { START_SUM(v_) size_t i_ = 0; BLOCKS(GROW(v_, NEXT), END_BLOCK(v_)) JOIN_SUM(a, v_) LAST(GROW_LAST(a, NEXT)) }
#define SUM2(a, NEXT, b, OTHER) \
    T a, b; { START_SUM(v_) START_SUM(w_) size_t i_ = 0; \
        BLOCKS(GROW(v_, NEXT) GROW(w_, OTHER), END_BLOCK(v_) END_BLOCK(w_)) JOIN_SUM(a, v_) JOIN_SUM(b, w_) \
        LAST(GROW_LAST(a, NEXT) GROW_LAST(b, OTHER)) }
#define SUM_AND_KEEP(a, TERM) \
    T a; { START_SUM(v_) size_t i_ = 0; \
        BLOCKS(const VT e_ = (TERM); VSTORE_P(e_, kept + j); GROW(v_, acc_ + e_), END_BLOCK(v_)) JOIN_SUM(a, v_) \
        LAST(const T e_ = (TERM); kept[j] = e_; a += e_;) }

#define OUT(VALUE) { size_t j = 0; \
        for (; j + VW <= N; j += VW) { EVERY(VT, VLOAD_OF) const VT o_ = (VALUE); EPILOGUE_V(r, j, o_); } \
        for (; j < N; ++j) { EVERY(T, SCALAR_OF) EPILOGUE(r, j, (VALUE)); } }
#define ONCE
#define SKIP(c) (c)           // rows to ignore cost no pass

// SUM and OUT for exponentials: e_ stands for them in OUT_KEPT.
#if N_MOST <= KEEP
#define SUM_KEPT(a, TERM) T kept[N_MOST]; SUM_AND_KEEP(a, TERM)
#define OUT_KEPT(TERM, VALUE) { size_t j = 0; \
        for (; j + VW <= N; j += VW) { const VT e_ = VLOAD_P(kept + j); STORE_V(r, j, (VALUE)); } \
        for (; j < N; ++j) { const T e_ = kept[j]; STORE(r, j, (VALUE)); } }
#else
#define SUM_KEPT(a, TERM) SUM(a, acc_ + (TERM))
#define OUT_KEPT(TERM, VALUE) { size_t j = 0; \
        for (; j + VW <= N; j += VW) { LOADS(VT, VLOAD_OF) const VT e_ = (TERM); STORE_V(r, j, (VALUE)); } \
        for (; j < N; ++j) { LOADS(T, SCALAR_OF) const T e_ = (TERM); STORE(r, j, (VALUE)); } }
#endif

#if WITH_SLOPE
// One branch a vector, taken once a row.
INLINE VT less_target(VT v, const size_t j, const size_t at SIZES) {
    v -= LOW;
    if (at - j < VW) {
        T t[VW];
        VSTORE_P(v, t);
        t[at - j] -= HIGH;
        v = VLOAD_P(t);
    }
    return v;
}
#endif

#if PART == 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rows(PARAMS) {
    BEGIN;
    const size_t r0 = get_global_id(0) * CHUNK, r1 = min(r0 + CHUNK, (size_t)(ROWS));
    for (size_t r = r0; r < r1; ++r) { ROW }
}
#endif

#if PART == 2
// Sums grow in private memory where they fit (PoCL 3.0 loses lanes of sums that it reads and writes in global memory).
#if N_MOST <= KEEP
#define TO_LOAD VLOAD_P
#define TO_STORE VSTORE_P
#else
#define TO_LOAD VLOAD
#define TO_STORE VSTORE
#endif
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void partial_columns(PARAMS) {
    BEGIN;
    const size_t r0 = get_global_id(0) * CHUNK, r1 = min(r0 + CHUNK, (size_t)(ROWS));
    __global T* out = (__global T*)partial + get_global_id(0) * OUTPUTS * N;
#if N_MOST <= KEEP
    T to[OUTPUTS * N_MOST];
#else
    __global T* to = out;
#endif
    for (size_t j = 0; j < OUTPUTS * N; ++j) to[j] = 0;
    for (size_t r = r0; r < r1; ++r) {
        MOMENTS
        size_t j = 0;
        for (; j + VW <= N; j += VW) {
            LOADS(VT, VLOAD_OF)
            TO_STORE(VFMA(FLOW, NORMAL, TO_LOAD(to + j)), to + j);
#if OUTPUTS == 2
            TO_STORE(TO_LOAD(to + N + j) + FLOW, to + N + j);
#endif
#if WITH_ROWS
            EPILOGUE_V(r, j, SLOPE);
#endif
        }
        for (; j < N; ++j) {
            LOADS(T, SCALAR_OF)
            to[j] = VFMA(FLOW, NORMAL, to[j]);
#if OUTPUTS == 2
            to[N + j] += FLOW;
#endif
#if WITH_ROWS
            EPILOGUE(r, j, SLOPE);
#endif
        }
    }
#if N_MOST <= KEEP
    for (size_t j = 0; j < OUTPUTS * N; ++j) out[j] = to[j];
#endif
}
#endif

#if PART == 3
__kernel void columns(PARAMS) {
    BEGIN;
    __global const T* from = (__global const T*)partial + get_global_id(1) * N;
    const size_t k = get_global_id(1), j1 = min((get_global_id(0) + 1) * COLUMNS, (size_t)N);
    size_t j = get_global_id(0) * COLUMNS;
    for (; j + VW <= j1; j += VW) {
        VT sum = VSPLAT(0), rest = VSPLAT(0);
        for (size_t i = 0; i < ITEMS; ++i) TWO_SUM(VT, sum, rest, VLOAD(from + i * OUTPUTS * N + j))
        EPILOGUE_V(k, j, WHOLE(sum, rest));
    }
    for (; j < j1; ++j) {
        T sum = 0, rest = 0;
        for (size_t i = 0; i < ITEMS; ++i) TWO_SUM(T, sum, rest, from[i * OUTPUTS * N + j])
        EPILOGUE(k, j, WHOLE(sum, rest));
    }
}
#endif
