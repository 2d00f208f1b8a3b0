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
//   CROSS_ENTROPY              ln sum e^(x - max x) - sum q (x - max x)                           x labels     one value a row
//   CROSS_ENTROPY_SLOPE        softmax(x) - q                                 x labels
//   SOFT_CROSS_ENTROPY         sum q (ln sum e^x - x)                         x q          one value a row
//   q = (1 - SMOOTHING) onehot(label) + SMOOTHING / N; 0 where label == IGNORE, NaN where the label is no class.
//
// A row of -INFINITY gives softmax 0 and log-softmax -INFINITY: the maximum is only subtracted where it is finite.
// Every row is read from memory once: later passes over it find it in the cache. Sums run in a fixed order.
//
// The generator prepends include/vector.h and PARAMS, BEGIN (pointers of the operands' names), T, VW, ROWS, N and
//   EPILOGUE(r, j, v), EPILOGUE_V(r, j, v)   store one element or VW of them (CROSS_ENTROPY: EPILOGUE(r, v))
//
// Kernel `rows`
//   CPU (GROUP 1): grid (ceil(ROWS / CHUNK)), local size 1: a work-item owns CHUNK rows and walks each in vectors of VW;
//     exponentials are kept in private memory where a row fits KEEP elements, else computed again.
//   GPU (GROUP > 1): grid (ROWS * GROUP), local size GROUP: a work-group a row, items GROUP apart, trees in local memory
//     (GROUP elements).
// Kernels `partial_columns`, then `columns` (the PARAMETERS kinds)
//   partial_columns: grid as rows with ITEMS work-items (work-groups) of CHUNK rows each; item i sums its rows into
//     scratch partial[i][OUTPUTS][N].
//   columns: grid (ceil(N / COLUMNS), OUTPUTS), local size 1 on a CPU: sums partial over items. EPILOGUE(output, j, v).

#if defined(GROUP) && GROUP > 1
// A contracted g * w - mean(g * w) would keep the rounding error of one product and not of the other, and the root of a small
// variance multiplies it by hundreds.
#pragma OPENCL FP_CONTRACT OFF
#endif

#define SOFTMAX 1
#define SOFTMAX_GRADIENT 2
#define LOG_SOFTMAX 3
#define LOG_SOFTMAX_GRADIENT 4
#define STANDARDIZE 5
#define LAYER_NORM 6
#define STANDARDIZE_GRADIENT 7
#define LAYER_NORM_GRADIENT 8
#define LAYER_NORM_PARAMETERS 9
#define RMS_NORM 10
#define RMS_NORM_GRADIENT 11
#define RMS_NORM_PARAMETERS 12
#define CROSS_ENTROPY 13
#define CROSS_ENTROPY_SLOPE 14
#define SOFT_CROSS_ENTROPY 15

#ifndef KIND
#define KIND SOFTMAX
#endif
#ifndef PART
#define PART 1                  // 1: rows, 2: partial_columns, 3: columns
#endif
#ifndef GROUP
#define GROUP 1                 // work-items a row; 1 is the CPU variant
#endif
#ifndef CHUNK
#define CHUNK 1                 // rows a work-item (CPU) or a work-group (partial_columns)
#endif
#ifndef COLUMNS
#define COLUMNS VW              // columns a work-item of `columns`, a multiple of VW
#endif
#ifndef ITEMS
#define ITEMS 1                 // partial sums that `columns` adds
#endif
#ifndef KEEP
#define KEEP 8192               // [elements] longest row whose exponentials are kept in private memory
#endif
#ifndef FOLDS
#define FOLDS 2                 // vectors of partial results side by side on a CPU
#endif
#ifndef EPS
#define EPS 1e-5f
#endif
#ifndef SMOOTHING
#define SMOOTHING 0
#endif
#ifndef SMOOTHED
#define SMOOTHED 0              // whether SMOOTHING is not 0
#endif
#ifndef IGNORE
#define IGNORE (-100)
#endif

#if VW == 1
#define EPILOGUE_V EPILOGUE
#endif

// --- what a kind reads at column j of row r; loads that a pass does not use are dropped by the compiler
#if KIND == SOFTMAX || KIND == LOG_SOFTMAX || KIND == STANDARDIZE || KIND == CROSS_ENTROPY || KIND == CROSS_ENTROPY_SLOPE
#define LOADS(TYPE, LOAD) const TYPE xv = LOAD(x + r * N + j)
#elif KIND == SOFTMAX_GRADIENT || KIND == LOG_SOFTMAX_GRADIENT
#define LOADS(TYPE, LOAD) const TYPE gv = LOAD(g + r * N + j), yv = LOAD(y + r * N + j)
#elif KIND == SOFT_CROSS_ENTROPY
#define LOADS(TYPE, LOAD) const TYPE xv = LOAD(x + r * N + j), qv = LOAD(q + r * N + j)
#elif KIND == LAYER_NORM
#define LOADS(TYPE, LOAD) const TYPE xv = LOAD(x + r * N + j), wv = LOAD(gamma + j), bv = LOAD(beta + j)
#elif KIND == RMS_NORM
#define LOADS(TYPE, LOAD) const TYPE xv = LOAD(x + r * N + j), wv = LOAD(gamma + j)
#elif KIND == LAYER_NORM_GRADIENT || KIND == RMS_NORM_GRADIENT
#define LOADS(TYPE, LOAD) const TYPE xv = LOAD(x + r * N + j), gv = LOAD(g + r * N + j) * LOAD(gamma + j)
#else
#define LOADS(TYPE, LOAD) const TYPE xv = LOAD(x + r * N + j), gv = LOAD(g + r * N + j)
#endif

#define SCALAR_LOAD(p) (*(p))
#define ADD(a, b) ((a) + (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

// --- passes over a row: FOLD(a, …) declares a = merge over j of TERM, OUT stores; TERM and VALUE work on scalars and vectors
#if GROUP == 1
// FOLDS vectors run side by side: one alone would wait for each addition to finish.
#define FOLD_(a, INIT, MERGE, TERM, KEEP_V, KEEP_S) \
    T a; { VT v_[FOLDS]; UNROLL for (size_t u = 0; u < FOLDS; ++u) v_[u] = VSPLAT((T)(INIT)); size_t i_ = 0; \
        for (; i_ + FOLDS * VW <= N; i_ += FOLDS * VW) \
            UNROLL for (size_t u = 0; u < FOLDS; ++u) { const size_t j = i_ + u * VW; LOADS(VT, VLOAD); const VT t_ = (TERM); KEEP_V; v_[u] = MERGE(v_[u], t_); } \
        for (; i_ + VW <= N; i_ += VW) { const size_t j = i_; LOADS(VT, VLOAD); const VT t_ = (TERM); KEEP_V; v_[0] = MERGE(v_[0], t_); } \
        UNROLL for (size_t u = 1; u < FOLDS; ++u) v_[0] = MERGE(v_[0], v_[u]); \
        T l_[VW]; VSTORE_P(v_[0], l_); \
        UNROLL for (size_t w = VW / 2; w; w /= 2) UNROLL for (size_t i = 0; i < w; ++i) l_[i] = MERGE(l_[i], l_[i + w]); \
        a = l_[0]; for (size_t j = i_; j < N; ++j) { LOADS(T, SCALAR_LOAD); const T t_ = (TERM); KEEP_S; a = MERGE(a, t_); } }
#define FOLD(a, INIT, MERGE, TERM) FOLD_(a, INIT, MERGE, TERM, , )
#define OUT(VALUE) { size_t j = 0; \
        for (; j + VW <= N; j += VW) { LOADS(VT, VLOAD); const VT o_ = (VALUE); EPILOGUE_V(r, j, o_); } \
        for (; j < N; ++j) { LOADS(T, SCALAR_LOAD); EPILOGUE(r, j, (VALUE)); } }
#define ONCE
#else
#define FOLD(a, INIT, MERGE, TERM) \
    T a = (INIT); for (size_t j = l; j < N; j += GROUP) { LOADS(T, SCALAR_LOAD); const T t_ = (TERM); a = MERGE(a, t_); } \
    tree[l] = a; barrier(CLK_LOCAL_MEM_FENCE); \
    for (size_t s = GROUP / 2; s; s /= 2) { if (l < s) tree[l] = MERGE(tree[l], tree[l + s]); barrier(CLK_LOCAL_MEM_FENCE); } \
    a = tree[0]; barrier(CLK_LOCAL_MEM_FENCE);
#define OUT(VALUE) for (size_t j = l; j < N; j += GROUP) { LOADS(T, SCALAR_LOAD); EPILOGUE(r, j, (VALUE)); }
#define ONCE if (l == 0)
#endif

// FOLD and OUT for exponentials: e_ stands for them in OUT_KEPT.
#if GROUP == 1 && N <= KEEP
#define FOLD_KEPT(a, TERM) T kept[N]; FOLD_(a, 0, ADD, TERM, VSTORE_P(t_, kept + j), kept[j] = t_)
#define OUT_KEPT(TERM, VALUE) { size_t j = 0; \
        for (; j + VW <= N; j += VW) { const VT e_ = VLOAD_P(kept + j); STORE_V(r, j, (VALUE)); } \
        for (; j < N; ++j) { const T e_ = kept[j]; STORE(r, j, (VALUE)); } }
#elif GROUP == 1
#define FOLD_KEPT(a, TERM) FOLD(a, 0, ADD, TERM)
#define OUT_KEPT(TERM, VALUE) { size_t j = 0; \
        for (; j + VW <= N; j += VW) { LOADS(VT, VLOAD); const VT e_ = (TERM); STORE_V(r, j, (VALUE)); } \
        for (; j < N; ++j) { LOADS(T, SCALAR_LOAD); const T e_ = (TERM); STORE(r, j, (VALUE)); } }
#else
#define FOLD_KEPT(a, TERM) FOLD(a, 0, ADD, TERM)
#define OUT_KEPT(TERM, VALUE) for (size_t j = l; j < N; j += GROUP) { LOADS(T, SCALAR_LOAD); const T e_ = (TERM); STORE(r, j, (VALUE)); }
#endif

// mean and rs = 1 / sqrt(variance + EPS) of the row, in two passes
#define STATISTICS \
    FOLD(sum_, 0, ADD, xv) const T mean_ = sum_ / N; \
    FOLD(square_, 0, ADD, (xv - mean_) * (xv - mean_)) const T rs = 1 / sqrt(square_ / N + (T)(EPS));
#define RMS FOLD(square_, 0, ADD, xv * xv) const T rs = 1 / sqrt(square_ / N + (T)(EPS));
// the row's maximum where it is finite, else 0; ln sum e^x, 0 for a row of -INFINITY
#define TOP FOLD(max_, -INFINITY, MAX, xv) const T top = max_ - max_ == 0 ? max_ : (T)(0);
#define LSE log(total == 0 ? (T)(1) : total)                 // of the row below its maximum
// the row's label, whether it is a class, and a column that may be read
#define LABEL const long label = labels[r]; const bool known = label >= 0 && label < N; const size_t at = known ? label : 0;

// STORE takes the target off an exponential on its way out: one branch a vector, taken once a row.
#if KIND == CROSS_ENTROPY_SLOPE
#define LOW ((T)(SMOOTHING) / N)
#define HIGH (1 - (T)(SMOOTHING))
INLINE VT less_target(VT v, const size_t j, const size_t at) {
    v -= LOW;
    if (at - j < VW) {
        T t[VW];
        VSTORE_P(v, t);
        t[at - j] -= HIGH;
        v = VLOAD_P(t);
    }
    return v;
}
#define STORE_V(r, j, v) EPILOGUE_V(r, j, less_target(v, j, at))
#define STORE(r, j, v) EPILOGUE(r, j, v - LOW - (j == at ? HIGH : (T)(0)))
#else
#define STORE_V EPILOGUE_V
#define STORE EPILOGUE
#endif

#if KIND == SOFTMAX
#define ROW TOP FOLD_KEPT(total, exp(xv - top)) const T scale = total == 0 ? (T)(1) : 1 / total; \
    OUT_KEPT(exp(xv - top), e_ * scale)
#elif KIND == SOFTMAX_GRADIENT
#define ROW FOLD(s, 0, ADD, gv * yv) OUT(yv * (gv - s))
#elif KIND == LOG_SOFTMAX
#define ROW TOP FOLD(total, 0, ADD, exp(xv - top)) const T lse = LSE; OUT((xv - top) - lse)
#elif KIND == LOG_SOFTMAX_GRADIENT
#define ROW FOLD(s, 0, ADD, gv) OUT(gv - exp(yv) * s)
#elif KIND == STANDARDIZE
#define ROW STATISTICS OUT((xv - mean_) * rs)
#elif KIND == LAYER_NORM
#define ROW STATISTICS OUT((xv - mean_) * rs * wv + bv)
#elif KIND == STANDARDIZE_GRADIENT || KIND == LAYER_NORM_GRADIENT
#define ROW STATISTICS FOLD(s, 0, ADD, gv) FOLD(sx, 0, ADD, gv * (xv - mean_)) const T a = s / N, b = sx / N * rs * rs; \
    OUT(rs * (gv - a - (xv - mean_) * b))
#elif KIND == RMS_NORM
#define ROW RMS OUT(xv * rs * wv)
#elif KIND == RMS_NORM_GRADIENT && N == 1
#define ROW RMS OUT(gv * ((T)(EPS) * rs * rs * rs))          // 1 - xh^2 = EPS r^2, without the difference
#elif KIND == RMS_NORM_GRADIENT
#define ROW RMS FOLD(sx, 0, ADD, gv * xv) const T b = sx / N * rs * rs; OUT(rs * (gv - xv * b))
#elif KIND == CROSS_ENTROPY
#if SMOOTHED
#define PICKED FOLD(all, 0, ADD, xv - top) const T picked = (1 - (T)(SMOOTHING)) * (x[r * N + at] - top) + (T)(SMOOTHING) / N * all;
#else
#define PICKED const T picked = x[r * N + at] - top;
#endif
#define ROW LABEL TOP FOLD(total, 0, ADD, exp(xv - top)) PICKED \
    const T value = label == IGNORE ? (T)(0) : known ? LSE - picked : (T)(NAN); ONCE { EPILOGUE(r, value); }
#elif KIND == CROSS_ENTROPY_SLOPE
#define ROW LABEL if (label == IGNORE) OUT(0) else { TOP FOLD_KEPT(total, exp(xv - top)) \
    const T scale = !known ? (T)(NAN) : total == 0 ? (T)(1) : 1 / total; OUT_KEPT(exp(xv - top), e_ * scale) }
#elif KIND == SOFT_CROSS_ENTROPY
#define ROW TOP FOLD(total, 0, ADD, exp(xv - top)) const T lse = LSE; \
    FOLD(value, 0, ADD, qv == 0 ? qv : qv * (lse - (xv - top))) ONCE { EPILOGUE(r, value); }
#endif

#if PART == 1
#if GROUP == 1
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rows(PARAMS) {
    BEGIN;
    const size_t r0 = get_global_id(0) * CHUNK, r1 = min(r0 + CHUNK, (size_t)(ROWS));
    for (size_t r = r0; r < r1; ++r) { ROW }
}
#else
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void rows(PARAMS) {
    BEGIN;
    __local T tree[GROUP];
    const size_t r = get_group_id(0), l = get_local_id(0);
    ROW
}
#endif
#endif

#if KIND == LAYER_NORM_PARAMETERS
#define OUTPUTS 2
#define MOMENTS STATISTICS
#define NORMAL (xv - mean_) * rs
#else
#define OUTPUTS 1
#define MOMENTS RMS
#define NORMAL xv * rs
#endif

#if PART == 2
#if GROUP == 1
// Sums grow in private memory where they fit (PoCL 3.0 loses lanes of sums that it reads and writes in global memory).
#if N <= KEEP
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
#if N <= KEEP
    T to[OUTPUTS * N];
#else
    __global T* to = out;
#endif
    for (size_t j = 0; j < OUTPUTS * N; ++j) to[j] = 0;
    for (size_t r = r0; r < r1; ++r) {
        MOMENTS
        size_t j = 0;
        for (; j + VW <= N; j += VW) {
            LOADS(VT, VLOAD);
            TO_STORE(TO_LOAD(to + j) + gv * NORMAL, to + j);
#if OUTPUTS == 2
            TO_STORE(TO_LOAD(to + N + j) + gv, to + N + j);
#endif
        }
        for (; j < N; ++j) {
            LOADS(T, SCALAR_LOAD);
            to[j] += gv * NORMAL;
#if OUTPUTS == 2
            to[N + j] += gv;
#endif
        }
    }
#if N <= KEEP
    for (size_t j = 0; j < OUTPUTS * N; ++j) out[j] = to[j];
#endif
}
#else
// Items own columns j = l, l + GROUP, … of the group's sums: no two write the same one.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void partial_columns(PARAMS) {
    BEGIN;
    __local T tree[GROUP];
    const size_t l = get_local_id(0), r0 = get_group_id(0) * CHUNK, r1 = min(r0 + CHUNK, (size_t)(ROWS));
    __global T* to = (__global T*)partial + get_group_id(0) * OUTPUTS * N;
    for (size_t k = 0; k < OUTPUTS; ++k)
        for (size_t j = l; j < N; j += GROUP) to[k * N + j] = 0;
    for (size_t r = r0; r < r1; ++r) {
        MOMENTS
        for (size_t j = l; j < N; j += GROUP) {
            LOADS(T, SCALAR_LOAD);
            to[j] += gv * NORMAL;
#if OUTPUTS == 2
            to[N + j] += gv;
#endif
        }
    }
}
#endif
#endif

#if PART == 3
__kernel void columns(PARAMS) {
    BEGIN;
    __global const T* from = (__global const T*)partial + get_global_id(1) * N;
    const size_t k = get_global_id(1), j1 = min((get_global_id(0) + 1) * COLUMNS, (size_t)N);
    size_t j = get_global_id(0) * COLUMNS;
    for (; j + VW <= j1; j += VW) {
        VT sum = VSPLAT(0);
        for (size_t i = 0; i < ITEMS; ++i) sum += VLOAD(from + i * OUTPUTS * N + j);
        EPILOGUE_V(k, j, sum);
    }
    for (; j < j1; ++j) {
        T sum = 0;
        for (size_t i = 0; i < ITEMS; ++i) sum += from[i * OUTPUTS * N + j];
        EPILOGUE(k, j, sum);
    }
}
#endif
