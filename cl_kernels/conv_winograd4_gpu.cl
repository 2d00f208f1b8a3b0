// conv_winograd4_gpu: 3x3 convolution with stride 1 and its data gradient on GPUs, with 36 products where 144 are counted: tiles of 4 x 4 results.
//
// Y = Aᵀ [ Σ over channels of (G W Gᵀ) ⊙ (Bᵀ X B) ] A for each tile of 4 x 4 results and its 6 x 6 patch X; Cook-Toom at 0, 1, -1, 1/2, -2 and infinity,
// whose rounding errors are a few times those of plain sums (tests hold them to those of the other kernels). Results that are not finite are corrected as in
// conv_winograd.cl; what is prepended as in conv.cl, ASYNC as in matmul_gpu.cl. VARIANTs:
//
// PACK, kernel winograd_gpu_pack: G W Gᵀ (include/winograd_gpu.h).
//
// CONV, kernel winograd4_gpu. Grid (OP / 32 * tiles / 32 * ITEMS, 1, GROUPS), local size ITEMS = 576: 32 channels x 32 tiles, blocks of BK channels of data
//   at a time. Local memory: two blocks of weights and patches, then sums[32][36][32]: 144 KiB. While a block is multiplied, the next one's data is on
//   its way into registers, three columns of a patch an item; then columns are transformed, and, in place in local memory, rows.
//
// WEIGHTS, kernel winograd4_gpu_weights. Grid (tiles * 576, 1, GROUPS * SPLIT), local size 576: the weight gradient Dᵀ [ Σ over tiles (E g Eᵀ) ⊙ (Bᵀ X B) ] D
//   of 4 x 4 tiles g of GRAD, by the same points: 32 channels of GRAD x 32 of the data, blocks of BK = 8 tiles at a time, in parts of PART blocks, which
//   conv_gpu.cl adds (SUM). Local memory as above; lines of a tile are 4 words further than they must, because lanes follow tiles, then channels.

#define PACK 1
#define CONV 2
#define WEIGHTS 3
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef ASYNC
#define ASYNC 0                 // how packed weights reach local memory
#endif
#define TILES 32
#define SIDE 6

INLINE void spread(const T v0, const T v1, const T v2, T* s) {
    const T third = (T)1 / 3, fifteenth = (T)1 / 15;
    s[0] = v0;
    s[1] = (v0 + v1 + v2) * third;
    s[2] = (v1 - v0 - v2) * third;
    s[3] = -(16 * v0 + 8 * v1 + 4 * v2) * fifteenth;
    s[4] = (v0 - 2 * v1 + 4 * v2) * fifteenth;
    s[5] = v2;
}

#include "include/winograd.h"
#include "include/winograd_gpu.h"

#if VARIANT != PACK

// Bᵀ d
#define PATCH(d0, d1, d2, d3, d4, d5, r)                                                                   \
    { r[0] = d0 - 2 * d2 + d4 + (T)1.5 * (d3 - d1), r[1] = d4 - d1 + (T)0.5 * d2 + (T)2.5 * d3;            \
    r[2] = d1 + d4 + (T)0.5 * d3 - (T)2.5 * d2, r[3] = d4 - d2 + 2 * (d3 - d1);                            \
    r[4] = d4 - d2 + (T)0.5 * (d1 - d3), r[5] = d1 - 2 * d3 + d5 + (T)1.5 * (d4 - d2); }
// Aᵀ m
#define GATHER(m0, m1, m2, m3, m4, m5, r)                                                                  \
    { r[0] = m0 + (m1 + m2) + (m3 + m4), r[1] = m1 - m2 + (T)0.5 * m3 - 2 * m4;                            \
    r[2] = m1 + m2 + (T)0.25 * m3 + 4 * m4, r[3] = m1 - m2 + (T)0.125 * m3 - 8 * m4 + m5; }

#if VARIANT == CONV

// Items below 512 have three columns of a patch, then three of its rows.
#define FETCH_DATA(c)                                                                                      \
    UNROLL for (int i = 0; i < 18; i++)                                                                    \
        d[i] = rows >> i / 3 & columns >> i % 3 & 1 && (C % BK == 0 || (c) + channel < C) ? data[(c) * PLANE + i / 3 * SX + i % 3] : 0;
#define DEPOSIT_DATA(stage)                                                                                \
    {                                                                                                      \
        __local T* block = vs + (stage) * VS + channel * (36 * 32);                                        \
        if (t < 512) {                                                                                     \
            UNROLL for (int j = 0; j < 3; j++) {                                                           \
                T r[6];                                                                                    \
                PATCH(d[j], d[3 + j], d[6 + j], d[9 + j], d[12 + j], d[15 + j], r)                         \
                UNROLL for (int i = 0; i < 6; i++) block[V_LINE(6 * i + j + part, t % 32)] = r[i];         \
            }                                                                                              \
        }                                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                      \
        if (t < 512) {                                                                                     \
            UNROLL for (int i = 0; i < 3; i++) {                                                           \
                T v[6], r[6];                                                                              \
                UNROLL for (int j = 0; j < 6; j++) v[j] = block[V_LINE(6 * (i + part) + j, t % 32)];       \
                PATCH(v[0], v[1], v[2], v[3], v[4], v[5], r)                                               \
                UNROLL for (int j = 0; j < 6; j++) block[V_LINE(6 * (i + part) + j, t % 32)] = r[j];       \
            }                                                                                              \
        }                                                                                                  \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winograd4_gpu(PARAMS) {
    BEGIN
    CONV_BEGIN
    const uint channel = t / 32 % 8, part = t / 256 * 3;
    __global const T* data = images + (long)((int)ty + MIN_Y) * SX + ((int)tx + MIN_X + (int)part) + channel * PLANE;
    uint rows = 0, columns = 0;
    UNROLL for (int i = 0; i < 6; i++) rows |= (real && t < 512 && ty + MIN_Y + i < SY) << i;
    UNROLL for (int i = 0; i < 3; i++) columns |= (tx + MIN_X + part + i < SX) << i;
    T d[18];
    ALL_CHANNELS
    SUMS_TO_LOCAL
    if (!real) return;
    for (uint o = t / 32; o < 32; o += ITEMS / 32) {
        if (m0 + o >= O) return;
        T s[6][4], y[4];
        const __local T* line = us + o * (36 * 32);
        UNROLL for (int j = 0; j < 6; j++)
            GATHER(line[V_LINE(j, t % 32)], line[V_LINE(6 + j, t % 32)], line[V_LINE(12 + j, t % 32)], line[V_LINE(18 + j, t % 32)],
                   line[V_LINE(24 + j, t % 32)], line[V_LINE(30 + j, t % 32)], s[j])
        UNROLL for (int i = 0; i < 4; i++) {
            if (ty + i >= RY) break;
            GATHER(s[0][i], s[1][i], s[2][i], s[3][i], s[4][i], s[5][i], y)
            UNROLL for (int j = 0; j < 4; j++)
                if (!isfinite(y[j]) && (RX % 4 == 0 || tx + j < RX)) y[j] = direct(images, WEIGHT + group * W_G + (m0 + o) * W_O, ty + i, tx + j);
#if RX % 4 == 0
            EPILOGUE_V(image, (group * O + m0 + o), ((size_t)(ty + i) * RX + tx), VLOAD_P(y));
#else
            UNROLL for (int j = 0; j < 4; j++)
                if (tx + j < RX) { EPILOGUE(image, (group * O + m0 + o), ((size_t)(ty + i) * RX + tx + j), y[j]); }
#endif
        }
    }
}

#else

#define LINES (36 * 32 + 4)                             // elements of a tile
#define BLOCK_LINES (BK * LINES)
#define COLUMNS (C * 9)
#define POINTS ((size_t)RY * RX)
// E g, and Dᵀ m
#define SPREAD(g0, g1, g2, g3, r)                                                                          \
    {                                                                                                      \
        const T even = g0 + g2, odd = g1 + g3;                                                             \
        r[0] = g0, r[1] = (even + odd) * ((T)1 / 3), r[2] = (odd - even) * ((T)1 / 3), r[5] = g3;          \
        r[3] = -(16 * g0 + 8 * g1 + 4 * g2 + 2 * g3) * ((T)1 / 15), r[4] = (g0 - 2 * g1 + 4 * g2 - 8 * g3) * ((T)1 / 15); \
    }
#define GATHER_3(m0, m1, m2, m3, m4, m5, r)                                                                \
    { r[0] = m0 + (m1 + m2) + (m3 + m4), r[1] = m1 - m2 + (T)0.5 * m3 - 2 * m4, r[2] = m1 + m2 + (T)0.25 * m3 + 4 * m4 + m5; }
// Items below 512 have three columns of a patch and two of a tile of GRAD, then three rows of both.
#define FETCH(number)                                                                                      \
    {                                                                                                      \
        const size_t place = (number) + t % 8, image = place / (TY * TX);                                  \
        const uint ty = place / TX % TY * 4, tx = place % TX * 4;                                          \
        const bool real = place < (size_t)N * TY * TX && t < 512;                                          \
        __global const T* x_at = DATA + ((image * GROUPS + group) * C + c0 + channel) * PLANE + (long)((int)ty + MIN_Y) * SX + ((int)tx + MIN_X + (int)part * 3); \
        __global const T* g_at = GRAD + ((image * GROUPS + group) * O + o0 + channel) * POINTS + (size_t)ty * RX + tx + part * 2; \
        uint rows = 0;                                                                                     \
        UNROLL for (int i = 0; i < 6; i++) rows |= (real && (C % 32 == 0 || c0 + channel < C) && ty + MIN_Y + i < SY) << i; \
        UNROLL for (int i = 0; i < 18; i++) d[i] = rows >> i / 3 & 1 && tx + MIN_X + part * 3 + i % 3 < SX ? x_at[i / 3 * SX + i % 3] : 0; \
        UNROLL for (int i = 0; i < 8; i++)                                                                 \
            e[i] = real && (O % 32 == 0 || o0 + channel < O) && ty + i / 2 < RY && tx + part * 2 + i % 2 < RX ? g_at[i / 2 * RX + i % 2] : 0; \
    }
#define DEPOSIT(stage)                                                                                     \
    {                                                                                                      \
        __local T *u = us + (stage) * BLOCK_LINES + t % 8 * LINES, *v = vs + (stage) * BLOCK_LINES + t % 8 * LINES; \
        T r[6];                                                                                            \
        if (t < 512) {                                                                                     \
            UNROLL for (uint j = 0; j < 3; j++) {                                                          \
                PATCH(d[j], d[3 + j], d[6 + j], d[9 + j], d[12 + j], d[15 + j], r)                         \
                UNROLL for (uint i = 0; i < 6; i++) v[V_LINE(6 * i + j + part * 3, channel)] = r[i];       \
            }                                                                                              \
            UNROLL for (uint j = 0; j < 2; j++) {                                                          \
                SPREAD(e[j], e[2 + j], e[4 + j], e[6 + j], r)                                              \
                UNROLL for (uint i = 0; i < 6; i++) u[V_LINE(6 * i + j + part * 2, channel)] = r[i];       \
            }                                                                                              \
        }                                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                      \
        if (t < 512) {                                                                                     \
            UNROLL for (uint i = part * 3; i < part * 3 + 3; i++) {                                        \
                T m[6];                                                                                    \
                UNROLL for (uint j = 0; j < 6; j++) m[j] = v[V_LINE(6 * i + j, channel)];                  \
                PATCH(m[0], m[1], m[2], m[3], m[4], m[5], r)                                               \
                UNROLL for (uint j = 0; j < 6; j++) v[V_LINE(6 * i + j, channel)] = r[j];                  \
                UNROLL for (uint j = 0; j < 4; j++) m[j] = u[V_LINE(6 * i + j, channel)];                  \
                SPREAD(m[0], m[1], m[2], m[3], r)                                                          \
                UNROLL for (uint j = 0; j < 6; j++) u[V_LINE(6 * i + j, channel)] = r[j];                  \
            }                                                                                              \
        }                                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                      \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winograd4_gpu_weights(PARAMS) {
    BEGIN
    __local T us[4 * BLOCK_LINES] __attribute__((aligned(64)));
    __local T* const vs = us + 2 * BLOCK_LINES;
    SUMS_BEGIN
    const uint channel = t / 8 % 32, part = t / 256;
    const size_t piece = get_group_id(2) % SPLIT, group = get_group_id(2) / SPLIT;
    const size_t o0 = get_group_id(0) % ((O + 31) / 32) * 32, c0 = get_group_id(0) / ((O + 31) / 32) * 32;
    const size_t first = piece * PART * BK, end = min(first + (size_t)PART * BK, (size_t)N * TY * TX);
    T d[18], e[8];
    FETCH(first)
    DEPOSIT(0)
    uint now = 0;
    for (size_t tile = first; tile < end; tile += BK, now ^= 1) {
        if (tile + BK < end) FETCH(tile + BK)
        MULTIPLY(us + now * BLOCK_LINES, LINES, vs + now * BLOCK_LINES, LINES)
        if (tile + BK < end) DEPOSIT(now ^ 1)           // its readers passed the last barrier
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    SUMS_TO_LOCAL
    const uint c = t % 32;
    for (uint o = t / 32; o < 32; o += ITEMS / 32) {
        if (o0 + o >= O || c0 + c >= C) return;
        T s[6][3], y[3];
        const __local T* line = us + o * (36 * 32);
        UNROLL for (int j = 0; j < 6; j++)
            GATHER_3(line[V_LINE(j, c)], line[V_LINE(6 + j, c)], line[V_LINE(12 + j, c)], line[V_LINE(18 + j, c)], line[V_LINE(24 + j, c)],
                     line[V_LINE(30 + j, c)], s[j])
        UNROLL for (int i = 0; i < 3; i++) {
            GATHER_3(s[0][i], s[1][i], s[2][i], s[3][i], s[4][i], s[5][i], y)
            UNROLL for (int j = 0; j < 3; j++) {
                const size_t at = (group * O + o0 + o) * COLUMNS + source[3 * i + j] * C + c0 + c;
                ((__global T*)partial)[piece * SIZE + at] = y[j];
            }
        }
    }
}

#endif

#endif
