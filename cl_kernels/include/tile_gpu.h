// tile_gpu.h: a BM x BN tile of a sum of products by a work-group of a GPU; what to load is its user's. See matmul_gpu.cl for the scheme.
//
// Needs include/vector.h, the numbers BM BN BK TM TN LANES_M LANES_N ASYNC STAGES X_WIDE W_WIDE, and of the two operands x (rows) and w (columns):
//   X_LOADS           loads of an item a block, X_WIDE elements each
//   X_FROM(i)         where the i-th reads; X_IN(i, k0): whether it is inside (else zeros), X_WHOLE: 1 where all of them always are
//   XS(stage, i)      where it goes in local memory, X_STEP: the distance of its elements there
//   W_...             alike; ADVANCE(k0): statements after the loads of block k0
// include/tile_loop.h is the loop, as text inside the kernel: it leaves the item's sums in sum[TM][TN], of the rows tm + i % VW + i / VW * VW * STEP_M
// and the columns tn + j % VW + j / VW * VW * STEP_N of the tile.

#include "include/copies.h"

#ifndef X_KIND
#define X_KIND SAME             // how operands are stored (vector.h); other than SAME with ASYNC 0 alone
#endif
#ifndef W_KIND
#define W_KIND SAME
#endif

#define ITEMS ((BM / TM) * (BN / TN))
#define XS_K (BM + VW)          // padded: a transposing store would hit one bank
#define WS_K (BN + VW)
#define STEP_M (BM / TM)        // rows of the tile that the items hold in one chunk, in units of VW
#define STEP_N (BN / TN)

#if ASYNC
#if X_WHOLE
#define X_COPY(stage, i, k0) CAT(COPY_, X_WIDE)(xs_at + XS(stage, i) * 4, X_FROM(i))
#else
#define X_COPY(stage, i, k0) CAT(COPY_IF_, X_WIDE)(xs_at + XS(stage, i) * 4, X_FROM(i), X_IN(i, k0))
#endif
#if W_WHOLE
#define W_COPY(stage, i, k0) CAT(COPY_, W_WIDE)(ws_at + WS(stage, i) * 4, W_FROM(i))
#else
#define W_COPY(stage, i, k0) CAT(COPY_IF_, W_WIDE)(ws_at + WS(stage, i) * 4, W_FROM(i), W_IN(i, k0))
#endif
#define FETCH(stage, k0)                                                                                   \
    UNROLL for (int i = 0; i < X_LOADS; i++) X_COPY(stage, i, k0);                                         \
    UNROLL for (int i = 0; i < W_LOADS; i++) W_COPY(stage, i, k0);                                         \
    ADVANCE(k0)
#define ARRIVED COPY_WAIT(STAGES - 2)
#else
#define X_VECTOR CAT(VECTOR_, X_WIDE)
#define W_VECTOR CAT(VECTOR_, W_WIDE)
#define PUT_1(v, to, step) (to)[0] = (v);
#define PUT_4(v, to, step) { (to)[0] = (v).x; (to)[step] = (v).y; (to)[2 * (step)] = (v).z; (to)[3 * (step)] = (v).w; }
#define FETCH(stage, k0)                                                                                   \
    UNROLL for (int i = 0; i < X_LOADS; i++) x_next[i] = X_IN(i, k0) ? CAT(WIDE_, X_WIDE)(X_KIND, X_FROM(i)) : (X_VECTOR)(0); \
    UNROLL for (int i = 0; i < W_LOADS; i++) w_next[i] = W_IN(i, k0) ? CAT(WIDE_, W_WIDE)(W_KIND, W_FROM(i)) : (W_VECTOR)(0); \
    ADVANCE(k0)
#define DEPOSIT(stage)                                                                                     \
    UNROLL for (int i = 0; i < X_LOADS; i++) CAT(PUT_, X_WIDE)(x_next[i], xs + XS(stage, i), X_STEP)       \
    UNROLL for (int i = 0; i < W_LOADS; i++) CAT(PUT_, W_WIDE)(w_next[i], ws + WS(stage, i), W_STEP)
#endif

#define READ(to, stage, k)                                                                                 \
    UNROLL for (int i = 0; i < TM; i += VW) VSTORE_P(VLOAD_L(xs + (stage) * (BK * XS_K) + (k) * XS_K + tm + i * STEP_M), a[to] + i); \
    UNROLL for (int j = 0; j < TN; j += VW) VSTORE_P(VLOAD_L(ws + (stage) * (BK * WS_K) + (k) * WS_K + tn + j * STEP_N), b[to] + j);

// Local memory of a tile, the item's place in it: in front of everything else, inside the kernel.
#define TILE_BEGIN                                                                                         \
    __local T xs[STAGES * BK * XS_K + STAGES * BK * WS_K] __attribute__((aligned(64)));                    \
    __local T* const ws = xs + STAGES * BK * XS_K;                                                         \
    const uint t = get_local_id(0), warp = t / (LANES_M * LANES_N), lane = t % (LANES_M * LANES_N);        \
    const uint tm = (warp / (STEP_N / LANES_N) * LANES_M + lane / LANES_N) * VW, tn = (warp % (STEP_N / LANES_N) * LANES_N + lane % LANES_N) * VW;

// Calls ROW_V(m, n, v) for VW results of each item in row m, column n of the tile: a row of lanes writes whole lines, nothing passes local memory.
#define TILE_STORE(ROW_V)                                                                                  \
    UNROLL for (int i = 0; i < TM; i++)                                                                    \
        UNROLL for (int j = 0; j < TN; j += VW) { ROW_V((tm + i % VW + i / VW * VW * STEP_M), (tn + j * STEP_N), VLOAD_P(sum[i] + j)) }

// Calls ROW(m, e) for all rows and columns of the tile, lanes along columns: element xs[e], in row m; e % BN is its column.
#define TILE_END(ROW)                                                                                      \
    UNROLL for (int i = 0; i < TM; i++) {                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                      \
        UNROLL for (int j = 0; j < TN; j += VW) VSTORE_L(VLOAD_P(sum[i] + j), xs + tm / VW * BN + tn + j * STEP_N); \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                      \
        _Pragma("unroll 4") for (uint e = t; e < STEP_M * BN; e += ITEMS) { ROW((e / BN * VW + i / VW * VW * STEP_M + i % VW), e) } \
    }
