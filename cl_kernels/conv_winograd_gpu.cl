// conv_winograd_gpu: 3x3 convolution with stride 1 and its data gradient on GPUs, with 16 products where 36 are counted.
//
// Formulas, and how results that are not finite are corrected, as in conv_winograd.cl; what is prepended as in conv.cl, ASYNC as in matmul_gpu.cl.
// Nothing transformed but the weights is stored. VARIANTs:
//
// PACK, kernel winograd_gpu_pack. Grid (OP, C to a multiple of BK, GROUPS), local size (32, 1, 1): D W Dᵀ as packed[group][c][16][OP], OP = O to a
//   multiple of 32, zeros beyond O and C.
//
// CONV, kernel winograd_gpu. Grid (OP / 32 * tiles / TILES * ITEMS, 1, GROUPS), local size ITEMS: 32 channels x TILES tiles of 2 x 2 results, blocks
//   of BK = 8 channels of data at a time. Local memory: two blocks us[BK][16][32], vs[BK][16][TILES], then sums[32][16][TILES]: 2 KiB of floats a
//   tile. An item loads and transforms the patch of one tile and channel a block, while the last block is multiplied: 8 x 8 sums of one of the
//   16 products an item. With 32 tiles a warp reads two lines at once, of which one has its halves exchanged, because banks repeat.

#define PACK 1
#define CONV 2
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef ASYNC
#define ASYNC 0                 // how packed weights reach local memory
#endif
#define BK 8
#ifndef TILES
#define TILES 64                // tiles of a work-group, 32 or 64; 64 leaves an item of a large GPU 128 registers
#endif
#define ITEMS (8 * TILES)
#define US (BK * 16 * 32)       // elements of a block
#define VS (BK * 16 * TILES)
#define SUMS (16 * 32 * TILES)
#define OP ((O + 31) / 32 * 32)
#define CP ((C + BK - 1) / BK * BK)

#include "include/winograd.h"

#if VARIANT == PACK

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void winograd_gpu_pack(PARAMS) {
    BEGIN
    const size_t o = get_global_id(0), c = get_global_id(1), group = get_global_id(2);
    __global T* to = (__global T*)packed + (group * CP + c) * (16 * OP) + o;
    T v[9], s[12];
    UNROLL for (int k = 0; k < 9; k++) v[k] = o < O && c < C ? WEIGHT[group * W_G + o * W_O + c * W_C + source[k] * W_K] : 0;
    UNROLL for (int i = 0; i < 3; i++) {
        s[i] = v[i];
        s[3 + i] = (v[i] + v[3 + i] + v[6 + i]) * (T)0.5;
        s[6 + i] = (v[i] - v[3 + i] + v[6 + i]) * (T)0.5;
        s[9 + i] = v[6 + i];
    }
    UNROLL for (int i = 0; i < 4; i++) {
        to[(4 * i) * OP] = s[3 * i];
        to[(4 * i + 1) * OP] = (s[3 * i] + s[3 * i + 1] + s[3 * i + 2]) * (T)0.5;
        to[(4 * i + 2) * OP] = (s[3 * i] - s[3 * i + 1] + s[3 * i + 2]) * (T)0.5;
        to[(4 * i + 3) * OP] = s[3 * i + 2];
    }
}

#else

#include "include/copies.h"

#define TY ((RY + 1) / 2)
#define TX ((RX + 1) / 2)
#define SWAP(product) (TILES == 32 ? (product) % 2 * 16 : 0)
#define U_LINE(product, i) ((product) * 32 + ((i) ^ SWAP(product)))
#define V_LINE(product, i) ((product) * TILES + ((i) ^ SWAP(product)))
#define LOADS (1024 / ITEMS)
#if ASYNC
#define FETCH_WEIGHTS(stage, c)                                                                            \
    UNROLL for (int i = 0; i < LOADS; i++) COPY_4(at + ((stage) * US + i * ITEMS * 4) * 4, from + ((size_t)(c) * 16 + i * (ITEMS / 8)) * OP); \
    COMMIT
#define DEPOSIT_WEIGHTS(stage)
#define WEIGHTS_ARRIVED asm volatile("cp.async.wait_all;" ::: "memory");
#else
#define FETCH_WEIGHTS(stage, c) UNROLL for (int i = 0; i < LOADS; i++) quads[i] = WIDE_4(SAME, from + ((size_t)(c) * 16 + i * (ITEMS / 8)) * OP);
#define DEPOSIT_WEIGHTS(stage) UNROLL for (int i = 0; i < LOADS; i++) VSTORE_L(quads[i], us + (stage) * US + i * ITEMS * 4 + to);
#define WEIGHTS_ARRIVED
#endif
#define FETCH_DATA(c)                                                                                      \
    UNROLL for (int i = 0; i < 16; i++)                                                                    \
        d[i] = inside >> i & 1 && (C % BK == 0 || (c) + t / TILES < C) ? data[(c) * PLANE + i / 4 * SX + i % 4] : 0;
#define DEPOSIT_DATA(stage)                                                                                \
    UNROLL for (int i = 0; i < 4; i++) {                                                                   \
        const T d0 = d[i], d1 = d[4 + i], d2 = d[8 + i], d3 = d[12 + i];                                   \
        d[i] = d0 - d2, d[4 + i] = d1 + d2, d[8 + i] = d2 - d1, d[12 + i] = d1 - d3;                       \
    }                                                                                                      \
    UNROLL for (int i = 0; i < 4; i++) {                                                                   \
        __local T* line = vs + (stage) * VS + t / TILES * (16 * TILES);                                             \
        line[V_LINE(4 * i, t % TILES)] = d[4 * i] - d[4 * i + 2];                                               \
        line[V_LINE(4 * i + 1, t % TILES)] = d[4 * i + 1] + d[4 * i + 2];                                       \
        line[V_LINE(4 * i + 2, t % TILES)] = d[4 * i + 2] - d[4 * i + 1];                                       \
        line[V_LINE(4 * i + 3, t % TILES)] = d[4 * i + 1] - d[4 * i + 3];                                       \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winograd_gpu(PARAMS) {
    BEGIN
    __local T us[2 * US + 2 * VS > SUMS ? 2 * US + 2 * VS : SUMS] __attribute__((aligned(64)));
    __local T* const vs = us + 2 * US;
    const uint t = get_local_id(0), product = t / (TILES / 2), sm = t % (TILES / 2) / (TILES / 8) * 4, sn = t % (TILES / 8) * 4;
    const size_t group = get_group_id(2), m0 = get_group_id(0) % (OP / 32) * 32, tile = get_group_id(0) / (OP / 32) * TILES + t % TILES;
    const bool real = tile < (size_t)N * TY * TX;
    const size_t image = real ? tile / (TY * TX) : 0;
    const uint ty = tile / TX % TY * 2, tx = tile % TX * 2;
    __global const T* images = DATA + (image * GROUPS + group) * C * PLANE;
    __global const T* data = images + (long)((int)ty + MIN_Y) * SX + ((int)tx + MIN_X) + t / TILES * PLANE;
    uint inside = 0;
    UNROLL for (int i = 0; i < 16; i++)
        if (real && ty + MIN_Y + i / 4 < SY && tx + MIN_X + i % 4 < SX) inside |= 1u << i;
    __global const T* from = (__global const T*)packed + (group * CP * 16 + t / 8) * OP + m0 + t % 8 * 4;
    const uint to = t / 8 / 16 * 512 + U_LINE(t / 8 % 16, t % 8 * 4);
#if ASYNC
    const uint at = local_address(us + to);
#else
    quad quads[LOADS];
#endif
    T sum[8][8], d[16];
    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int j = 0; j < 8; j++) sum[i][j] = 0;
    FETCH_WEIGHTS(0, 0)
    FETCH_DATA(0)
    DEPOSIT_WEIGHTS(0)
    DEPOSIT_DATA(0)
    WEIGHTS_ARRIVED
    barrier(CLK_LOCAL_MEM_FENCE);
    uint now = 0;
    for (uint c = 0; c < C; c += BK, now ^= 1) {
        if (c + BK < C) {                               // the readers of the other stage passed the last barrier
            FETCH_WEIGHTS(now ^ 1, c + BK)
            FETCH_DATA(c + BK)
        }
        UNROLL for (int k = 0; k < BK; k++) {
            T a[8], b[8];
            UNROLL for (int i = 0; i < 8; i += 4) {
                VSTORE_P(VLOAD_L(us + now * US + k * 512 + U_LINE(product, sm + i * 4)), a + i);
                VSTORE_P(VLOAD_L(vs + now * VS + k * (16 * TILES) + V_LINE(product, sn + i * (TILES / 8))), b + i);
            }
            UNROLL for (int i = 0; i < 8; i++)
                UNROLL for (int j = 0; j < 8; j++) sum[i][j] = VFMA(a[i], b[j], sum[i][j]);
        }
        if (c + BK < C) {
            DEPOSIT_WEIGHTS(now ^ 1)
            DEPOSIT_DATA(now ^ 1)
        }
        WEIGHTS_ARRIVED
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int j = 0; j < 8; j += 4)
            VSTORE_L(VLOAD_P(sum[i] + j), us + (sm + i % 4 + i / 4 * 16) * (16 * TILES) + V_LINE(product, sn + j * (TILES / 8)));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!real) return;
    for (uint o = t / TILES; o < 32; o += 8) {
        if (m0 + o >= O) return;
        T s[8];
        UNROLL for (int i = 0; i < 4; i++) {
            const __local T* line = us + o * (16 * TILES);
            const T v0 = line[V_LINE(i, t % TILES)], v1 = line[V_LINE(4 + i, t % TILES)], v2 = line[V_LINE(8 + i, t % TILES)], v3 = line[V_LINE(12 + i, t % TILES)];
            s[i] = v0 + v1 + v2, s[4 + i] = v1 - v2 - v3;
        }
        UNROLL for (int i = 0; i < 4; i++) {
            const uint y = ty + i / 2, x = tx + i % 2, r = i / 2 * 4;
            if (y >= RY || x >= RX) continue;
            T v = i % 2 ? s[r + 1] - s[r + 2] - s[r + 3] : s[r] + s[r + 1] + s[r + 2];
            if (!isfinite(v)) v = direct(images, WEIGHT + group * W_G + (m0 + o) * W_O, y, x);
            EPILOGUE(image, (group * O + m0 + o), ((size_t)y * RX + x), v);
        }
    }
}

#endif
