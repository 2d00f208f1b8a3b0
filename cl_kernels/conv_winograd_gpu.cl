// conv_winograd_gpu: 3x3 convolution with stride 1 and its data gradient on GPUs, with 16 products where 36 are counted.
//
// Formulas, and how results that are not finite are corrected, as in conv_winograd.cl; what is prepended as in conv.cl, ASYNC as in matmul_gpu.cl.
// Nothing transformed but the weights is stored. VARIANTs:
//
// PACK, kernel winograd_gpu_pack: D W Dᵀ (include/winograd_gpu.h).
//
// CONV, kernel winograd_gpu. Grid (OP / 32 * tiles / TILES * ITEMS, 1, GROUPS), local size ITEMS: 32 channels x TILES tiles of 2 x 2 results, blocks
//   of BK channels of data at a time. Local memory: two blocks of weights and patches, then sums[32][16][TILES]: 2 KiB of floats a tile. An item loads
//   and transforms the patch of one tile and channel a block, while the last block is multiplied.

#define PACK 1
#define CONV 2
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef ASYNC
#define ASYNC 0                 // how packed weights reach local memory
#endif
#ifndef TILES
#define TILES 64                // tiles of a work-group, 32 or 64; 64 leaves an item of a large GPU 128 registers
#endif
#define SIDE 4

INLINE void spread(const T v0, const T v1, const T v2, T* s) {
    s[0] = v0;
    s[1] = (v0 + v1 + v2) * (T)0.5;
    s[2] = (v0 - v1 + v2) * (T)0.5;
    s[3] = v2;
}

#include "include/winograd.h"
#include "include/winograd_gpu.h"

#if VARIANT == CONV

#define FETCH_DATA(c)                                                                                      \
    UNROLL for (int i = 0; i < 16; i++)                                                                    \
        d[i] = inside >> i & 1 && (C % BK == 0 || (c) + t / TILES < C) ? data[(c) * PLANE + i / 4 * SX + i % 4] : 0;
#define DEPOSIT_DATA(stage)                                                                                \
    UNROLL for (int i = 0; i < 4; i++) {                                                                   \
        const T d0 = d[i], d1 = d[4 + i], d2 = d[8 + i], d3 = d[12 + i];                                   \
        d[i] = d0 - d2, d[4 + i] = d1 + d2, d[8 + i] = d2 - d1, d[12 + i] = d1 - d3;                       \
    }                                                                                                      \
    UNROLL for (int i = 0; i < 4; i++) {                                                                   \
        __local T* line = vs + (stage) * VS + t / TILES * (16 * TILES);                                    \
        line[V_LINE(4 * i, t % TILES)] = d[4 * i] - d[4 * i + 2];                                          \
        line[V_LINE(4 * i + 1, t % TILES)] = d[4 * i + 1] + d[4 * i + 2];                                  \
        line[V_LINE(4 * i + 2, t % TILES)] = d[4 * i + 2] - d[4 * i + 1];                                  \
        line[V_LINE(4 * i + 3, t % TILES)] = d[4 * i + 1] - d[4 * i + 3];                                  \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winograd_gpu(PARAMS) {
    BEGIN
    CONV_BEGIN
    __global const T* data = images + (long)((int)ty + MIN_Y) * SX + ((int)tx + MIN_X) + t / TILES * PLANE;
    uint inside = 0;
    UNROLL for (int i = 0; i < 16; i++)
        if (real && ty + MIN_Y + i / 4 < SY && tx + MIN_X + i % 4 < SX) inside |= 1u << i;
    T d[16];
    ALL_CHANNELS
    SUMS_TO_LOCAL
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
