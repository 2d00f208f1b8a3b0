// winograd_gpu.h: products of transformed 3x3 patches by a work-group of a GPU. Needs winograd.h, ASYNC, VARIANT, SIDE: lines of a transformed patch, and TILES:
// patches of a work-group, 32 or 64.
//
// PACK, kernel winograd_gpu_pack. Grid (OP, C to a multiple of BK, GROUPS), local size (32, 1, 1): weights transformed by spread(v0, v1, v2, to), lines and
//   columns, as packed[group][c][PRODUCTS][OP], OP = O to a multiple of 32, zeros beyond O and C.
// The others: 32 channels x TILES patches, blocks of BK = 8 channels at a time in local memory, weights us[BK][PRODUCTS][32] and patches
//   vs[BK][PRODUCTS][TILES]; 8 x 8 sums of one of the products an item. A warp reads two lines at once with 32 patches; one has its halves exchanged then,
//   because banks repeat.
//
//   U_LINE(product, i) V_LINE(product, i)   element i of a line of weights, of patches
//   SUMS_BEGIN                              t, product, sm, sn and sum = 0: rows sm + 16 (i / 4) + i % 4, columns sn + TILES / 2 (j / 4) + j % 4
//   CONV_BEGIN                              these, local memory, and the item's patch
//   MULTIPLY(us_at, u_step, vs_at, v_step)  adds BK products of lines that are so many elements apart
//   SUMS_TO_LOCAL                           sums to us[32][PRODUCTS][TILES]
//   ALL_CHANNELS                            the sums over C: FETCH_DATA(c) reads a block, DEPOSIT_DATA(stage) transforms it to vs; weights come to us + to
//                                           from `from` on

#define BK 8
#define PRODUCTS (SIDE * SIDE)
#define ITEMS (PRODUCTS * TILES / 2)
#define US (BK * PRODUCTS * 32)     // elements of a block
#define VS (BK * PRODUCTS * TILES)
#define SUMS (32 * PRODUCTS * TILES)
#define OP ((O + 31) / 32 * 32)
#define CP ((C + BK - 1) / BK * BK)
#define TY ((RY + SIDE - 3) / (SIDE - 2))
#define TX ((RX + SIDE - 3) / (SIDE - 2))

#if VARIANT == PACK

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void winograd_gpu_pack(PARAMS) {
    BEGIN
    const size_t o = get_global_id(0), c = get_global_id(1), group = get_global_id(2);
    __global T* to = (__global T*)packed + (group * CP + c) * (PRODUCTS * OP) + o;
    T v[9], s[3][SIDE], u[SIDE];
    UNROLL for (int k = 0; k < 9; k++) v[k] = o < O && c < C ? WEIGHT[group * W_G + o * W_O + c * W_C + source[k] * W_K] : 0;
    UNROLL for (int i = 0; i < 3; i++) spread(v[i], v[3 + i], v[6 + i], s[i]);
    UNROLL for (int i = 0; i < SIDE; i++) {
        spread(s[0][i], s[1][i], s[2][i], u);
        UNROLL for (int j = 0; j < SIDE; j++) to[(SIDE * i + j) * OP] = u[j];
    }
}

#else

#include "include/copies.h"

#define SWAP(product) (TILES == 32 ? (product) % 2 * 16 : 0)
#define U_LINE(product, i) ((product) * 32 + ((i) ^ SWAP(product)))
#define V_LINE(product, i) ((product) * TILES + ((i) ^ SWAP(product)))
#define SUMS_BEGIN                                                                                         \
    const uint t = get_local_id(0), product = t / (TILES / 2), sm = t % (TILES / 2) / (TILES / 8) * 4, sn = t % (TILES / 8) * 4; \
    T sum[8][8];                                                                                           \
    UNROLL for (int i = 0; i < 8; i++)                                                                     \
        UNROLL for (int j = 0; j < 8; j++) sum[i][j] = 0;
#define MULTIPLY(us_at, u_step, vs_at, v_step)                                                             \
    UNROLL for (int k = 0; k < BK; k++) {                                                                  \
        T a[8], b[8];                                                                                      \
        UNROLL for (int i = 0; i < 8; i += 4) {                                                            \
            VSTORE_P(VLOAD_L((us_at) + k * (u_step) + U_LINE(product, sm + i * 4)), a + i);                \
            VSTORE_P(VLOAD_L((vs_at) + k * (v_step) + V_LINE(product, sn + i * (TILES / 8))), b + i);      \
        }                                                                                                  \
        UNROLL for (int i = 0; i < 8; i++)                                                                 \
            UNROLL for (int j = 0; j < 8; j++) sum[i][j] = VFMA(a[i], b[j], sum[i][j]);                    \
    }
// Lanes follow patches, of which t % TILES is the item's, at (ty, tx) of the results of `image`, if it is real.
#define CONV_BEGIN                                                                                         \
    __local T us[2 * US + 2 * VS > SUMS ? 2 * US + 2 * VS : SUMS] __attribute__((aligned(64)));            \
    __local T* const vs = us + 2 * US;                                                                     \
    SUMS_BEGIN                                                                                             \
    const size_t group = get_group_id(2), m0 = get_group_id(0) % (OP / 32) * 32, tile = get_group_id(0) / (OP / 32) * TILES + t % TILES; \
    const bool real = tile < (size_t)N * TY * TX;                                                          \
    const size_t image = real ? tile / (TY * TX) : 0;                                                      \
    const uint ty = tile / TX % TY * (SIDE - 2), tx = tile % TX * (SIDE - 2);                              \
    __global const T* images = DATA + (image * GROUPS + group) * C * PLANE;
#define SUMS_TO_LOCAL                                                                                      \
    UNROLL for (int i = 0; i < 8; i++)                                                                     \
        UNROLL for (int j = 0; j < 8; j += 4)                                                              \
            VSTORE_L(VLOAD_P(sum[i] + j), us + (sm + i % 4 + i / 4 * 16) * (PRODUCTS * TILES) + V_LINE(product, sn + j * (TILES / 8))); \
    barrier(CLK_LOCAL_MEM_FENCE);

#define LOADS (US / 4 / ITEMS)
#define NEXT_WEIGHTS(c, i) (from + ((size_t)(c) * PRODUCTS + i * (ITEMS / 8)) * OP)
#if ASYNC
#define WEIGHTS_BEGIN const local_at at = LOCAL_AT(us + to);
#define FETCH_WEIGHTS(stage, c)                                                                            \
    UNROLL for (int i = 0; i < LOADS; i++) COPY_4(at + ((stage) * US + i * ITEMS * 4) * 4, NEXT_WEIGHTS(c, i)); \
    COMMIT
#define DEPOSIT_WEIGHTS(stage)
#define WEIGHTS_ARRIVED COPY_WAIT(0)
#else
#define WEIGHTS_BEGIN quad quads[LOADS];
#define FETCH_WEIGHTS(stage, c) UNROLL for (int i = 0; i < LOADS; i++) quads[i] = WIDE_4(SAME, NEXT_WEIGHTS(c, i));
#define DEPOSIT_WEIGHTS(stage) UNROLL for (int i = 0; i < LOADS; i++) VSTORE_L(quads[i], us + (stage) * US + i * ITEMS * 4 + to);
#define WEIGHTS_ARRIVED
#endif
// The readers of the other stage passed the last barrier.
#define ALL_CHANNELS                                                                                       \
    __global const T* from = (__global const T*)packed + (group * CP * PRODUCTS + t / 8) * OP + m0 + t % 8 * 4; \
    const uint to = t / 8 / PRODUCTS * (PRODUCTS * 32) + U_LINE(t / 8 % PRODUCTS, t % 8 * 4);              \
    WEIGHTS_BEGIN                                                                                          \
    FETCH_WEIGHTS(0, 0)                                                                                    \
    FETCH_DATA(0)                                                                                          \
    DEPOSIT_WEIGHTS(0)                                                                                     \
    DEPOSIT_DATA(0)                                                                                        \
    WEIGHTS_ARRIVED                                                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                          \
    uint now = 0;                                                                                          \
    for (uint c = 0; c < C; c += BK, now ^= 1) {                                                           \
        if (c + BK < C) {                                                                                  \
            FETCH_WEIGHTS(now ^ 1, c + BK)                                                                 \
            FETCH_DATA(c + BK)                                                                             \
        }                                                                                                  \
        MULTIPLY(us + now * US, PRODUCTS * 32, vs + now * VS, PRODUCTS * TILES)                            \
        if (c + BK < C) {                                                                                  \
            DEPOSIT_WEIGHTS(now ^ 1)                                                                       \
            DEPOSIT_DATA(now ^ 1)                                                                          \
        }                                                                                                  \
        WEIGHTS_ARRIVED                                                                                    \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                      \
    }

#endif
