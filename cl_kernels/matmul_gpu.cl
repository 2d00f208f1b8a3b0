// matmul on GPUs: y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), accumulated in T, in a fixed order.
//
// The generator prepends what matmul.cl says (PARAMS, BEGIN, T, VW, M N K, X_M X_K W_K W_N, X_BATCH(b), W_BATCH(b), EPILOGUE), BATCH,
// X_ALIGN and W_ALIGN: the elements to which an operand's first is aligned, and the numbers of clnet/kernels/matmul/matmul_gpu.py, which says
// when to use what. Sizes, strides and K_PART may be arguments of the kernel (include/multiples.h).
// K may be cut into SPLIT parts of K_PART (for few tiles and long K), of which the last may be empty: the parts go to the temporary memory `partial`, and
//   PARTIAL(part, e)         element e = (batch M + m) N + n of a part
//   RESULT(batch, m, n, v)   stores v there, or through EPILOGUE where K is whole; RESULT_V: VW columns
// matmul_thin.cl is for few rows. VARIANTs:
//
// TILE. Grid (tiles * ITEMS, 1, BATCH * SPLIT), local size (ITEMS, 1, 1): one work-group for a BM x BN tile of y.
//   Tiles are counted in stripes of STRIPE tiles along m, so that groups that run together share operands in the cache.
//   Local memory holds STAGES blocks xs[BK][BM], ws[BK][BN]; while one is multiplied, later ones are on their way:
//       ASYNC 0: through registers into the second of two (any device)
//       ASYNC 1: copied by the memory system, STAGES - 1 blocks ahead (NVIDIA from compute capability 8.0: cp.async)
//   Each item keeps TM x TN sums, in chunks of VW rows and VW columns that are BM / TM * VW (BN / TN * VW) apart; its next row and column of
//   local memory are read before the current ones are multiplied, across the barrier too.
//   Lanes load along the contiguous dimension of each operand, X_WIDE (W_WIDE) elements at once, so all transpositions coalesce.
//   Results: items store VW columns at once, whole lines a row of lanes (DIRECT, where N is a multiple of VW); else they pass through local memory,
//   one row of each item at a time, so that EPILOGUE loads and stores whole lines, whatever is fused.
//   Local memory STAGES * BK * (BM + BN + 2 * VW) elements. Assumes VW divides TM and TN, LANES_N divides BN / TN, LANES_M divides BM / TM,
//   BK even, WIDE 1 or 16 bytes (then aligned, and sizes and strides multiples of it), lines of a block divide ITEMS or the other way round.
//
// SUM, kernel matmul_sum. Grid (elements / 1024 * 256, 1, 1), local size 256: adds the SPLIT parts, in order.
// TURN, kernel matmul_turn. Grid (rows / 32 * 256, K / 32, copies), local size 256: an operand that is contiguous along k is copied transposed,
//   to turned_x or turned_w [copies][K][rows to a multiple of 4], where the product is long enough to repay it.

#define TILE 1
#define SUM 2
#define TURN 3
#ifndef VARIANT
#define VARIANT TILE            // which of them
#endif
#ifndef SPLIT
#define SPLIT 1                 // parts of K
#endif
#ifndef K_PART
#define K_PART K                // their size, a multiple of BK
#endif
#ifndef STRIPE
#define STRIPE 16               // tiles along m that are walked before the next along n
#endif

#include "include/multiples.h"
#define INSIDE(i, size, block) ((size##_OF > 0 && size##_OF % (block) == 0) || (i) < (size))

#if VARIANT == TILE

#ifndef BM
#define BM 64                   // tile of a work-group
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 8                    // depth of a block
#endif
#ifndef TM
#define TM 4                    // tile of a work-item, multiples of VW
#endif
#ifndef TN
#define TN 4
#endif
#ifndef LANES_M
#define LANES_M 4               // items of a warp stand LANES_M x LANES_N in the tile: near-square shares local reads
#endif
#ifndef LANES_N
#define LANES_N 8
#endif
#ifndef ASYNC
#define ASYNC 0                 // how blocks reach local memory
#endif
#ifndef STAGES
#define STAGES 2                // blocks in local memory; 2 where ASYNC is 0
#endif
#ifndef DIRECT
#define DIRECT 0                // 1: items store their results themselves
#endif
#ifndef X_WIDE
#define X_WIDE 1                // elements of a load
#endif
#ifndef W_WIDE
#define W_WIDE 1
#endif
#ifndef X_TURNED
#define X_TURNED 0              // 1: x is read from turned_x
#endif
#ifndef W_TURNED
#define W_TURNED 0
#endif
#if X_TURNED
#undef X_ALIGN
#define X_ALIGN 4
#define LEFT ((__global const T*)turned_x)
#else
#define LEFT x
#endif
#if W_TURNED
#undef W_ALIGN
#define W_ALIGN 4
#define RIGHT ((__global const T*)turned_w)
#else
#define RIGHT w
#endif
#if X_ALIGN % X_WIDE            // where an operand begins is known late: after the geometry
#undef X_WIDE
#define X_WIDE 1
#endif
#if W_ALIGN % W_WIDE
#undef W_WIDE
#define W_WIDE 1
#endif

#define MS ((M + BM - 1) / BM)
#define NS ((N + BN - 1) / BN)
// A block is loaded in lines along the contiguous dimension; item t takes loads t, t + ITEMS ..: (m, k) of the first, constant steps of the rest.
#define X_LINE ((X_ALONG_K ? BK : BM) / X_WIDE)
#define X_LOADS (BK * BM / X_WIDE / ITEMS)
#define X_AT (t % X_LINE * X_WIDE)
#define X_NEXT(i) ((i) * ITEMS / X_LINE)
#define X_M0 (X_ALONG_K ? t / X_LINE : X_AT)
#define X_K0 (X_ALONG_K ? X_AT : t / X_LINE)
#define X_DM(i) (X_ALONG_K ? X_NEXT(i) : (i) * ITEMS % X_LINE * X_WIDE)
#define X_DK(i) (X_ALONG_K ? 0 : X_NEXT(i))
#define W_LINE ((W_ALONG_K ? BK : BN) / W_WIDE)
#define W_LOADS (BK * BN / W_WIDE / ITEMS)
#define W_AT (t % W_LINE * W_WIDE)
#define W_NEXT(i) ((i) * ITEMS / W_LINE)
#define W_N0 (W_ALONG_K ? t / W_LINE : W_AT)
#define W_K0 (W_ALONG_K ? W_AT : t / W_LINE)
#define W_DN(i) (W_ALONG_K ? W_NEXT(i) : (i) * ITEMS % W_LINE * W_WIDE)
#define W_DK(i) (W_ALONG_K ? 0 : W_NEXT(i))
#define X_IN(i, k0) (INSIDE(m0 + X_M0 + X_DM(i), M, BM) && INSIDE((k0) + X_K0 + X_DK(i), K, BK))
#define W_IN(i, k0) (INSIDE(n0 + W_N0 + W_DN(i), N, BN) && INSIDE((k0) + W_K0 + W_DK(i), K, BK))
#define X_FROM(i) (left + (size_t)X_DM(i) * X_M + (size_t)X_DK(i) * X_K)
#define W_FROM(i) (right + (size_t)W_DN(i) * W_N + (size_t)W_DK(i) * W_K)
#define XS(stage, i) ((stage) * (BK * XS_K) + (X_K0 + X_DK(i)) * XS_K + X_M0 + X_DM(i))
#define WS(stage, i) ((stage) * (BK * WS_K) + (W_K0 + W_DK(i)) * WS_K + W_N0 + W_DN(i))

#define X_STEP (X_ALONG_K ? XS_K : 1)
#define W_STEP (W_ALONG_K ? WS_K : 1)
#define X_WHOLE (M_OF % BM == 0 && K_OF % BK == 0)
#define W_WHOLE (N_OF % BN == 0 && K_OF % BK == 0)
#define ADVANCE(k0)                                                                                        \
    left += (size_t)BK * X_K;                                                                              \
    right += (size_t)BK * W_K;
#include "include/tile_gpu.h"

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void matmul(PARAMS) {
    BEGIN
    TILE_BEGIN
    const size_t batch = get_group_id(2) / SPLIT, part = get_group_id(2) % SPLIT, number = get_group_id(0);
    const size_t first = number / (STRIPE * NS) * STRIPE, stripe = min((size_t)STRIPE, (size_t)MS - first), in_stripe = number % (STRIPE * NS);
    const size_t m0 = (first + in_stripe % stripe) * BM, n0 = in_stripe / stripe * BN, from = min((size_t)part * (K_PART), (size_t)(K));
    const uint blocks = (min((size_t)(K_PART), (size_t)(K) - from) + BK - 1) / BK;
    __global const STORED_OF(X_KIND)* left = LEFT + X_BATCH(batch) + (m0 + X_M0) * X_M + (from + X_K0) * X_K;
    __global const STORED_OF(W_KIND)* right = RIGHT + W_BATCH(batch) + (n0 + W_N0) * W_N + (from + W_K0) * W_K;
#include "include/tile_loop.h"
#if DIRECT
#define ROW_V(r, c, v)                                                                                     \
    {                                                                                                      \
        const size_t m = m0 + (r), n = n0 + (c);                                                           \
        if (INSIDE(m, M, BM) && INSIDE(n, N, BN)) { RESULT_V(batch, m, n, v); }                            \
    }
    TILE_STORE(ROW_V)
#else
#define ROW(r, e)                                                                                          \
    {                                                                                                      \
        const size_t m = m0 + (r), n = n0 + (e) % BN;                                                      \
        if (INSIDE(m, M, BM) && INSIDE(n, N, BN)) { RESULT(batch, m, n, xs[e]); }                          \
    }
    TILE_END(ROW)
#endif
}

#elif VARIANT == TURN

#define LINES (TURN_W ? N : M)
#define LINES_OF (TURN_W ? N_OF : M_OF)
#define OF_TURN ((LINES + 3) / 4 * 4)

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void matmul_turn(PARAMS) {
    BEGIN
    __local T tile[32][33];
    const uint t = get_local_id(0), across = t % 32, down = t / 32;
    const size_t copy = get_group_id(2), i0 = get_group_id(0) * 32, k0 = get_group_id(1) * 32;
#if TURN_W
    __global const T* restrict from = w + W_BATCH(copy);
    __global T* restrict to = (__global T*)turned_w + copy * K * OF_TURN;
    const size_t stride_i = W_N, stride_k = W_K;
#else
    __global const T* restrict from = x + X_BATCH(copy);
    __global T* restrict to = (__global T*)turned_x + copy * K * OF_TURN;
    const size_t stride_i = X_M, stride_k = X_K;
#endif
    UNROLL for (uint d = down; d < 32; d += 8)
        tile[d][across] = INSIDE(i0 + d, LINES, 32) && INSIDE(k0 + across, K, 32) ? from[(i0 + d) * stride_i + (k0 + across) * stride_k] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (uint d = down; d < 32; d += 8)
        if (INSIDE(k0 + d, K, 32) && i0 + across < OF_TURN) to[(k0 + d) * OF_TURN + i0 + across] = tile[across][d];
}

#else

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void matmul_sum(PARAMS) {
    BEGIN
    const size_t e0 = get_group_id(0) * 1024 + get_local_id(0), size = (size_t)BATCH * M * N;
    T total[4];
    UNROLL for (uint i = 0; i < 4; i++) total[i] = e0 + i * 256 < size ? PARTIAL(0, e0 + i * 256) : 0;
    for (uint part = 1; part < SPLIT; part++)
        UNROLL for (uint i = 0; i < 4; i++) total[i] += e0 + i * 256 < size ? PARTIAL(part, e0 + i * 256) : 0;
    UNROLL for (uint i = 0; i < 4; i++) {
        const size_t e = e0 + i * 256;
        if (e < size) { EPILOGUE(e / ((size_t)M * N), e / N % M, e % N, total[i]); }
    }
}

#endif
