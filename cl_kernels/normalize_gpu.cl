// normalize_gpu: the row kernels of normalize.cl on GPUs; operands, results, macros and formulas as there.
//
// A row is read once, in vectors of VW (divides N), and stays in registers: item l of the GROUP that share it holds the vectors
// l, l + GROUP, ..; rows beyond HELD vectors an item are read again by each pass, from the cache. Partial results merge by
// shuffles within 32 items where there are any, then in local memory. Sums run in a fixed order.
//
// Work-groups are (GROUP, LINES): LINES rows at a time, so that short rows share one. An item past the last row works on that row
// again and stores nothing: shuffles and barriers want everyone.
//
// Kernel `rows`: grid (GROUP, ROWS rounded up to LINES).
// Kernels `partial_columns`, then `columns` (the PARAMETERS and GRADIENTS kinds)
//   partial_columns: grid (ITEMS * GROUP, LINES); group i sums its CHUNK rows into scratch partial[i][OUTPUTS][N], and stores their gradient.
//   LINES is 1 for rows too long for registers, of which only the PARAMETERS kinds are; local memory N * LINES elements.
//   columns: local size (32, SLICES), grid (N rounded up to 32, SLICES, OUTPUTS): an item adds every SLICES-th partial sum of a column.

#ifndef GROUP
#define GROUP 128               // work-items a row, a power of two
#endif
#ifndef LINES
#define LINES 1                 // rows a work-group has in hand; GROUP * LINES a multiple of 32 where there are shuffles
#endif
#ifndef HELD
#define HELD (32 / VW)          // vectors of each operand that an item holds in registers
#endif
#ifndef SLICES
#define SLICES 8
#endif

#include "include/normalize.h"

// --- loads: of whole vectors where every operand that there is begins at a multiple of one
#ifndef X_ALIGN
#define X_ALIGN VW
#endif
#ifndef G_ALIGN
#define G_ALIGN VW
#endif
#ifndef Y_ALIGN
#define Y_ALIGN VW
#endif
#ifndef Q_ALIGN
#define Q_ALIGN VW
#endif
#ifndef GAMMA_ALIGN
#define GAMMA_ALIGN VW
#endif
#ifndef BETA_ALIGN
#define BETA_ALIGN VW
#endif
#if X_ALIGN % VW || G_ALIGN % VW || Y_ALIGN % VW || Q_ALIGN % VW || GAMMA_ALIGN % VW || BETA_ALIGN % VW
#define TAKE_SAME(p) CAT(vload, VW)(0, (p))
#define TAKE_HALF VLOAD_HALF
#define TAKE_BF16(p) CAT(as_float, VW)(CAT(convert_uint, VW)(CAT(vload, VW)(0, (p))) << 16)
#define TAKE(KIND, p) CAT(TAKE_, KIND)(p)
#else
#define TAKE VLOAD_OF
#endif

// --- the merge of the items' values
#if defined(CAST_LOADS) && SINGLE_T
#define WARP 32
#define NEAR (GROUP < WARP ? GROUP / 2 : WARP / 2)
INLINE T neighbour(T v, const uint apart) {
    T w;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(w) : "f"(v), "r"(apart));
    return w;
}
#define WITHIN(a, MERGE) UNROLL for (uint s_ = NEAR; s_; s_ /= 2) { const T w_ = neighbour(a, s_); a = MERGE(a, w_); }
#define ACROSS(a, MERGE) \
    if (l % WARP == 0) tree[l / WARP] = a; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    a = tree[0]; UNROLL for (size_t w = 1; w < GROUP / WARP; ++w) a = MERGE(a, tree[w]); \
    barrier(CLK_LOCAL_MEM_FENCE);
#if GROUP > WARP
#define TREE (2 * (GROUP / WARP))
#define EVERYWHERE(a, MERGE) WITHIN(a, MERGE) ACROSS(a, MERGE)
#define EVERYWHERE2(a, b) \
    WITHIN(a, ADD) WITHIN(b, ADD) \
    if (l % WARP == 0) { tree[l / WARP] = a; tree[(GROUP + l) / WARP] = b; } \
    barrier(CLK_LOCAL_MEM_FENCE); \
    a = tree[0]; b = tree[GROUP / WARP]; \
    UNROLL for (size_t w = 1; w < GROUP / WARP; ++w) { a += tree[w]; b += tree[GROUP / WARP + w]; } \
    barrier(CLK_LOCAL_MEM_FENCE);
#else
#define TREE 1
#define EVERYWHERE WITHIN
#endif
#else
#define TREE GROUP
#define EVERYWHERE(a, MERGE) \
    tree[l] = a; barrier(CLK_LOCAL_MEM_FENCE); \
    for (size_t s = GROUP / 2; s; s /= 2) { if (l < s) tree[l] = MERGE(tree[l], tree[l + s]); barrier(CLK_LOCAL_MEM_FENCE); } \
    a = tree[0]; barrier(CLK_LOCAL_MEM_FENCE);
#endif
#ifndef EVERYWHERE2
#define EVERYWHERE2(a, b) EVERYWHERE(a, ADD) EVERYWHERE(b, ADD)
#endif
#define LANES(a, v, MERGE) T a = LANE(v, 0); UNROLL for (int w_ = 1; w_ < VW; ++w_) { const T o_ = LANE(v, w_); a = MERGE(a, o_); }
#define LANE(v, i) (((const T*)&(v))[i])

// --- passes
#ifndef PER
#define PER ((N + GROUP * VW - 1) / (GROUP * VW))       // vectors of a row an item, at most
#endif
#if PER <= HELD
#define HOLD(TYPE, name, value) VT name##_held[PER];
#define FILL(TYPE, name, value) name##_held[u] = value;
#define AGAIN(TYPE, name, value) const VT name = name##_held[u];
#define EACH(BODY) UNROLL for (int u = 0; u < PER; ++u) { const size_t j = (l + u * GROUP) * VW; if ((u + 1) * GROUP * VW <= N || j < N) { BODY } }
#define ENTER READS(HOLD, VT, TAKE) EACH(READS(FILL, VT, TAKE))
#define LOADS READS(AGAIN, VT, TAKE) DERIVED(VT, TAKE)
#define SUM_KEPT(a, TERM) VT kept[PER]; VT a##_v = VSPLAT(0); EACH(LOADS kept[u] = (TERM); a##_v += kept[u];) LANES(a, a##_v, ADD) EVERYWHERE(a, ADD)
#define OUT_KEPT(TERM, VALUE) { if (mine) EACH(const VT e_ = kept[u]; STORE_V(r, j, (VALUE));) }
#else
#define EACH(BODY) for (size_t j = l * VW; j < N; j += GROUP * VW) { BODY }
#define ENTER
#define LOADS READS(DECLARE, VT, TAKE)
#define SUM_KEPT(a, TERM) SUM(a, acc_ + (TERM))
#define OUT_KEPT(TERM, VALUE) { if (mine) EACH(LOADS const VT e_ = (TERM); STORE_V(r, j, (VALUE));) }
#endif
#define GROW(v, NEXT) { const VT acc_ = v; v = (NEXT); }
#define FOLD(a, INIT, MERGE, NEXT) VT a##_v = VSPLAT((T)(INIT)); EACH(LOADS GROW(a##_v, NEXT)) LANES(a, a##_v, MERGE) EVERYWHERE(a, MERGE)
#define SUM(a, NEXT) FOLD(a, 0, ADD, NEXT)
#define SUM2(a, NEXT, b, OTHER) \
    VT a##_v = VSPLAT(0), b##_v = VSPLAT(0); EACH(LOADS GROW(a##_v, NEXT) GROW(b##_v, OTHER)) \
    LANES(a, a##_v, ADD) LANES(b, b##_v, ADD) EVERYWHERE2(a, b)
#define OUT(VALUE) { if (mine) EACH(LOADS LATE(DECLARE, VT, TAKE) const VT o_ = (VALUE); EPILOGUE_V(r, j, o_);) }
#define ONCE if (mine && l == 0)
#define SKIP(c) 0

#if WITH_SLOPE
INLINE VT less_target(VT v, const size_t j, const size_t at SIZES) {
    v -= LOW;
    UNROLL for (int i = 0; i < VW; ++i) ((T*)&v)[i] -= j + i == at ? HIGH : (T)(0);
    return v;
}
#endif

#if PART == 1
__kernel __attribute__((reqd_work_group_size(GROUP, LINES, 1)))
void rows(PARAMS) {
    BEGIN;
    __local T trees[LINES][TREE];
    __local T* tree = trees[get_local_id(1)];
    const bool mine = get_global_id(1) < ROWS;
    const size_t r = mine ? get_global_id(1) : ROWS - 1, l = get_local_id(0);
    ENTER
    ROW
}
#endif

// An item holds the sums of its own columns: no two write the same one.
#if PART == 2
// to[j] = sum of v over the lines
#if LINES == 1
#define GATHER(v, to) EACH(VSTORE(v[u], (to) + j);)
#else
#define GATHER(v, to) \
    EACH(UNROLL for (int w = 0; w < VW; ++w) sums[line * N + j + w] = LANE(v[u], w);) \
    barrier(CLK_LOCAL_MEM_FENCE); \
    for (size_t j = line * GROUP + l; j < N; j += GROUP * LINES) { T sum = 0; for (int i = 0; i < LINES; ++i) sum += sums[i * N + j]; (to)[j] = sum; } \
    barrier(CLK_LOCAL_MEM_FENCE);
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, LINES, 1)))
void partial_columns(PARAMS) {
    BEGIN;
    __local T trees[LINES][TREE];
    const size_t l = get_local_id(0), line = get_local_id(1), r0 = get_group_id(0) * CHUNK, r1 = min(r0 + CHUNK, (size_t)(ROWS));
    __local T* tree = trees[line];
    __global T* to = (__global T*)partial + get_group_id(0) * OUTPUTS * N;
#if PER <= HELD
#if LINES > 1
    __local T sums[LINES * N];
#endif
    VT normal[PER], all[PER];
    UNROLL for (int u = 0; u < PER; ++u) normal[u] = all[u] = VSPLAT(0);
    for (size_t first = r0; first < r1; first += LINES) {
        const bool mine = LINES == 1 || first + line < r1;
        const size_t r = mine ? first + line : r1 - 1;
        ENTER
        MOMENTS
#if WITH_ROWS
        OUT(SLOPE)
#endif
        // What is added is chosen, not whether, and after the stores: PoCL 3.0 loses lanes of sums that a branch adds to or
        // follows, and adds the last row again where it chooses between two sums and 2, 4, 8, .. lines are at work.
        EACH(LOADS const VT flow_ = mine ? FLOW : VSPLAT(0); normal[u] = VFMA(flow_, mine ? NORMAL : VSPLAT(0), normal[u]); all[u] += flow_;)
    }
    GATHER(normal, to)
#if OUTPUTS == 2
    GATHER(all, to + N)
#endif
#else
    for (size_t j = l; j < OUTPUTS * N; j += GROUP) to[j] = 0;
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (size_t r = r0; r < r1; ++r) {
        MOMENTS
        EACH(LOADS VSTORE(VFMA(gv, NORMAL, VLOAD(to + j)), to + j);)
#if OUTPUTS == 2
        EACH(LOADS VSTORE(VLOAD(to + N + j) + gv, to + N + j);)
#endif
    }
#endif
}
#endif

#if PART == 3
__kernel __attribute__((reqd_work_group_size(32, SLICES, 1)))
void columns(PARAMS) {
    BEGIN;
    __local T part[SLICES][32];
    const size_t j = get_global_id(0), k = get_global_id(2), a = get_local_id(0), b = get_local_id(1);
    __global const T* from = (__global const T*)partial + k * N;
    T sum = 0;
    if (j < N)
        for (size_t i = b; i < ITEMS; i += SLICES) sum += from[i * OUTPUTS * N + j];
    part[b][a] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (b == 0 && j < N) {
        for (size_t i = 1; i < SLICES; ++i) sum += part[i][a];
        EPILOGUE(k, j, sum);
    }
}
#endif
