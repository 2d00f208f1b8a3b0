// conv_mma: convolution, its data gradient and its weight gradient of few channels in 16 bits on tensor cores (mma.sync: compute capability 8.0 and
// later); sums in float32.
//
// Formula, names and what is prepended as in conv.cl (one group, one or two dimensions), with the numbers of clnet/kernels/conv/conv_mma.py. Nothing is
// packed in memory: a work-group copies what a tile reads, JB rows of IMAGES images with their border, to local memory as lines: a pixel with CP
// channels, C to a multiple of 16 filled with zeros. A tap is then a shift by lines, and all taps multiply what was copied once. A line is an odd number
// of pieces of 16 bytes, so that rows of 8 x 8 matrices lie in different banks. VARIANTs:
//
// CONV, kernel conv_mma. Grid (groups * ITEMS, tiles of OT channels, 1), local size ITEMS = 32 * WM * WN. Weights of OT result channels are copied
//   too, [tap][channel] lines; then the work-group walks over tiles. A warp multiplies 16 * MT channels of 8 * NT pixels at a time. Local memory
//   (IMAGES * ROWS * PITCH + T_ALL * OT) lines and 2048 bytes a warp, through which sums reach EPILOGUE in runs of pixels.
//
// SUMS, kernel conv_mma_sums: the weight gradient. Grid (tiles * ITEMS, SPLIT, 1), local size ITEMS = 32 * WM * WT * WK. 16 * WM channels of GRAD x CP of
//   the data, all taps; K is the pixels, in parts of PART tiles, added afterwards in order (conv_gpu.cl, SUM). WT warps share the taps, PW pairs of
//   a tap and 16 channels each, WK the pixels; their sums are added in order. Local memory IMAGES * ROWS * PITCH lines, 16 * WM rows of GRAD.

#define CONV 1
#define SUMS 2
#define BF16 2
#define FP16 3
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef PRECISION
#define PRECISION BF16          // what the operands are
#endif
#ifndef IMAGES
#define IMAGES 1                // of a tile; more than one only where JB is all rows
#endif
#ifndef MT
#define MT 1                    // 16 channels each of a warp
#endif
#ifndef NT
#define NT 4                    // 8 pixels each of a warp, a multiple of 4
#endif
#ifndef WM
#define WM 1                    // warps along the result's channels
#endif
#ifndef WN
#define WN 8                    // warps along pixels
#endif
#ifndef WT
#define WT 1                    // warps along taps
#endif
#ifndef WK
#define WK 1                    // warps along K
#endif
#ifndef WIDE
#define WIDE 0                  // 1: rows of the data are whole vectors of 8 pixels (X_ALIGN, G_ALIGN)
#endif
#ifndef W_WIDE
#define W_WIDE 0                // 1: weights are read in vectors of 8 (W_ALIGN)
#endif
#include "include/ptx.h"

#if PRECISION == FP16
#define MMA MMA_FP16
#else
#define MMA MMA_BF16
#endif
#define LINE (CP * 2 + 16)                              // bytes
#define PIECES (CP / 8)
#define ACROSS ((RX + OUT_X - 1) / OUT_X)               // results of a phase
#define DOWN ((RY + OUT_Y - 1) / OUT_Y)
#define BLOCKS ((DOWN + JB - 1) / JB)
#define RUN (JB * ACROSS)
#define PIXELS (IMAGES * RUN)
#define COPY (IMAGES * ROWS * PITCH)                    // lines
#define TILES ((N + IMAGES - 1) / IMAGES * BLOCKS)

__constant uint taps[] = {TAPS}, first[] = {FIRST}, tap_of[] = {TAP_OF};

// The line that pixel q of a tile reads through a tap at line 0.
INLINE uint line_of(const uint q) {
    return q < PIXELS ? (q / RUN * ROWS + q / ACROSS % JB * IN_Y) * PITCH + q % ACROSS * IN_X : 0;
}

// Eight channels of a pixel, `step` elements apart, of which `count` exist.
INLINE uint4 gathered(__global const ushort* from, const size_t step, const uint count) {
    uint v[8];
    UNROLL for (uint i = 0; i < 8; i++) v[i] = i < count ? from[i * step] : 0;
    return (uint4)(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
}

#if WIDE
// Rows of these many neighbours are copied by neighbouring items, whose pieces then lie in different banks.
#define LOW (PIECES >= 8 ? 1 : 8 / PIECES)
#define HIGH ((ROWS + LOW - 1) / LOW)
#define VECTORS (SX / 8)

// Eight pixels of eight channels, the latter inside.
INLINE void copy_block(const local_at to, __global const ushort* from, const int column, const uint count) {
    uint v[8][4];
    UNROLL for (uint i = 0; i < 8; i++) {
        const uint4 r = i < count ? *(__global const uint4*)(from + i * ((size_t)SY * SX)) : (uint4)(0);
        v[i][0] = r.x, v[i][1] = r.y, v[i][2] = r.z, v[i][3] = r.w;
    }
    UNROLL for (uint p = 0; p < 8; p++) {
        uint w[4];
        UNROLL for (uint i = 0; i < 4; i++)
            w[i] = p % 2 ? v[2 * i][p / 2] >> 16 | (v[2 * i + 1][p / 2] & 0xffff0000) : (v[2 * i][p / 2] & 0xffff) | v[2 * i + 1][p / 2] << 16;
        if ((uint)(column + (int)p) < PITCH) PUT(to + (column + (int)p) * LINE, (uint4)(w[0], w[1], w[2], w[3]));
    }
}
#endif

// Channels c0 to c0 + CP of what results in rows from y0 on of images from n0 on read; zeros outside.
INLINE void copy_data(const local_at to, __global const ushort* data, const size_t n0, const int y0, const uint c0, const uint item SIZES) {
    const uint channels = C - c0;
    for (uint u = item; u < COPY * PIECES; u += ITEMS) {
        const uint l = u / PIECES, piece = u % PIECES;
        const size_t n = n0 + l / (ROWS * PITCH);
        const int y = y0 * IN_Y + MIN_Y + (int)(l / PITCH % ROWS), x = MIN_X + (int)(l % PITCH);
        const bool in = n < N && (uint)y < SY && (uint)x < SX;
        if (WIDE && in) continue;
        const uint count = in && piece * 8 < channels ? channels - piece * 8 : 0;
        PUT(to + l * LINE + piece * 16, gathered(data + (in ? ((n * C + c0 + piece * 8) * SY + y) * SX + x : 0), (size_t)SY * SX, count));
    }
#if WIDE
    for (uint u = item; u < IMAGES * HIGH * VECTORS * LOW * PIECES; u += ITEMS) {
        const uint piece = u % PIECES, v = u / (PIECES * LOW) % VECTORS, rest = u / (PIECES * LOW * VECTORS), row = rest % HIGH * LOW + u / PIECES % LOW;
        const size_t n = n0 + rest / HIGH;
        const int y = y0 * IN_Y + MIN_Y + (int)row;
        if (row >= ROWS || (uint)y >= SY || n >= N) continue;
        const uint count = piece * 8 < channels ? channels - piece * 8 : 0;
        copy_block(to + (rest / HIGH * ROWS + row) * (PITCH * LINE) + piece * 16, data + ((n * C + c0 + piece * 8) * SY + y) * SX + v * 8,
                   (int)(v * 8) - MIN_X, count);
    }
#endif
}

#if VARIANT == CONV

#define CHUNKS ((PIXELS + 8 * NT * WN - 1) / (8 * NT * WN))

// Weights of the result channels from o0 on, as lines [tap][channel]; W_K is 1, and taps of one pair of channels lie together.
INLINE void copy_weights(__local ushort* to, __global const ushort* weight, const uint o0, const uint item) {
#if W_WIDE
    // As they lie in memory, 8 at a time: (outer, inner, tap)
    for (uint e = item * 8; e < OT * CP * T_ALL; e += ITEMS * 8) {
#if W_C < W_O
        const uint4 v = *(__global const uint4*)(weight + o0 * W_O + e);
#else
        const uint4 v = *(__global const uint4*)(weight + e / (OT * T_ALL) * W_C + o0 * W_O + e % (OT * T_ALL));
#endif
        const uint words[4] = {v.x, v.y, v.z, v.w};
        UNROLL for (uint i = 0; i < 8; i++) {
            const uint tap = tap_of[(e + i) % T_ALL], pair = (e + i) / T_ALL;
            const uint o = W_C < W_O ? pair / CP : pair % OT, c = W_C < W_O ? pair % CP : pair / OT;
            to[(tap * OT + o) * (LINE / 2) + c] = words[i / 2] >> (i % 2 * 16);
        }
    }
#else
    for (uint e = item; e < OT * CP * T_ALL; e += ITEMS) {
        const uint pair = e / T_ALL, o = W_C < W_O ? pair / CP : pair % OT, c = W_C < W_O ? pair % CP : pair / OT;
        to[(tap_of[e % T_ALL] * OT + o) * (LINE / 2) + c] = o0 + o < O && c < C ? weight[(o0 + o) * W_O + c * W_C + e % T_ALL] : 0;
    }
#endif
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_mma(PARAMS) {
    BEGIN
    __local uchar blocks[(COPY + T_ALL * OT) * LINE] __attribute__((aligned(16)));
    __local float sums[WM * WN][16 * 32] __attribute__((aligned(16)));
    const uint item = get_local_id(0), warp = item / 32, lane = item % 32, m0 = warp % WM * (16 * MT), o0 = get_group_id(1) * OT;
    const local_at lines = LOCAL_AT(blocks), weights = lines + (COPY + m0 + lane % 16) * LINE + lane / 16 * 16;
    copy_weights((__local ushort*)(blocks + COPY * LINE), (__global const ushort*)WEIGHT, o0, item);
    for (size_t tile = get_group_id(0); tile < TILES; tile += get_num_groups(0)) {
        const size_t n0 = tile / BLOCKS * IMAGES;
        const uint y0 = tile % BLOCKS * JB;
        copy_data(lines, (__global const ushort*)DATA, n0, y0, 0, item SIZES_PASSED);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint chunk = 0; chunk < CHUNKS * OUT_Y * OUT_X; chunk++) {
            const uint q0 = (chunk % CHUNKS * WN + warp / WM) * (8 * NT), phase = chunk / CHUNKS;
            local_at at[NT / 2];
            UNROLL for (uint j = 0; j < NT / 2; j++) at[j] = lines + line_of(q0 + j * 16 + lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 16;
            float c[MT][NT][4];
            UNROLL for (uint i = 0; i < MT * NT * 4; i++) c[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
            _Pragma("unroll 3") for (uint t = first[phase]; t < first[phase + 1]; t++) {
                UNROLL for (uint k = 0; k < CP / 16; k++) {
                    uint a[MT][4], b[NT / 2][4];
                    UNROLL for (uint i = 0; i < MT; i++) LDMATRIX(a[i], weights + (t * OT + i * 16) * LINE + k * 32);
                    UNROLL for (uint j = 0; j < NT / 2; j++) LDMATRIX(b[j], at[j] + taps[t] * LINE + k * 32);
                    UNROLL for (uint i = 0; i < MT; i++)
                        UNROLL for (uint j = 0; j < NT; j++) MMA(c[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
                }
            }
            UNROLL for (uint i = 0; i < MT; i++) UNROLL for (uint s = 0; s < NT / 4; s++) {
                WARP
                UNROLL for (uint j = 0; j < 4; j++) {
                    __local float* to = sums[warp] + lane / 4 * 32 + ((j * 8 + lane % 4 * 2) ^ (lane / 4 % 4 * 8));
                    *(__local float2*)to = (float2)(c[i][s * 4 + j][0], c[i][s * 4 + j][1]);
                    *(__local float2*)(to + 256) = (float2)(c[i][s * 4 + j][2], c[i][s * 4 + j][3]);
                }
                WARP
                const uint per = VW == 4 ? 8 : 32, q = q0 + s * 32 + lane % per * VW, y = (y0 + q / ACROSS % JB) * OUT_Y + phase / OUT_X;
                const uint x = q % ACROSS * OUT_X + phase % OUT_X;
                const size_t n = n0 + q / RUN;
                UNROLL for (uint j = 0; j < (VW == 4 ? 4 : 16); j++) {
                    const uint r = VW == 4 ? j * 4 + lane / 8 : j, o = o0 + m0 + i * 16 + r;
                    __local const float* v = sums[warp] + r * 32 + (lane % per * VW ^ (r % 4 * 8));
                    if (q < PIXELS && n < N && y < RY && x < RX && o < O) {
#if VW == 4
                        EPILOGUE_V(n, o, ((size_t)y * RX + x), *(__local const float4*)v);
#else
                        EPILOGUE(n, o, ((size_t)y * RX + x), *v);
#endif
                    }
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#else

#define OT (16 * WM)
#define QP ((PIXELS + 16 * WK - 1) / (16 * WK) * (16 * WK))     // pixels of a tile, in whole steps of the warps
#define ROW (QP * 2 + 16)                                       // bytes
#define PAIRS (T_ALL * (CP / 16))

// GRAD of the pixels of a tile, channels from o0 on, zeros beyond. WIDE_G: in vectors of 8
INLINE void copy_gradient(const local_at to, __local ushort* one, __global const ushort* grad, const size_t n0, const uint y0, const uint o0, const uint item SIZES) {
#if WIDE_G
    for (uint u = item; u < OT * (QP / 8); u += ITEMS) {
        const uint o = u / (QP / 8), q = u % (QP / 8) * 8, p = y0 * RX + q % RUN;
        const bool in = q < PIXELS && n0 + q / RUN < N && p < RY * RX && o0 + o < O;
        PUT(to + o * ROW + q * 2, in ? *(__global const uint4*)(grad + ((n0 + q / RUN) * O + o0 + o) * ((size_t)RY * RX) + p) : (uint4)(0));
    }
#else
    for (uint u = item; u < OT * QP; u += ITEMS) {
        const uint o = u / QP, q = u % QP, p = y0 * RX + q % RUN;
        const bool in = q < PIXELS && n0 + q / RUN < N && p < RY * RX && o0 + o < O;
        one[o * (ROW / 2) + q] = in ? grad[((n0 + q / RUN) * O + o0 + o) * ((size_t)RY * RX) + p] : 0;
    }
#endif
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_mma_sums(PARAMS) {
    BEGIN
    __local uchar blocks[COPY * LINE + OT * ROW > WM * WT * PW * 1024 ? COPY * LINE + OT * ROW : WM * WT * PW * 1024] __attribute__((aligned(16)));
    const uint item = get_local_id(0), warp = item / 32, lane = item % 32, wm = warp % WM, wt = warp / WM % WT, wk = warp / (WM * WT);
    const uint row_tiles = (O + OT - 1) / OT, o0 = get_group_id(0) % row_tiles * OT, c0 = get_group_id(0) / row_tiles * CP, part = get_group_id(1);
    const local_at lines = LOCAL_AT(blocks), grads = lines + COPY * LINE;
    uint shift[PW];
    UNROLL for (uint p = 0; p < PW; p++) {
        const uint pair = min(wt * PW + p, (uint)PAIRS - 1);
        shift[p] = taps[pair / (CP / 16)] * LINE + pair % (CP / 16) * 32;
    }
    float c[PW][8];
    UNROLL for (uint i = 0; i < PW * 8; i++) c[i / 8][i % 8] = 0;
    for (size_t tile = (size_t)part * PART; tile < (size_t)(part + 1) * PART && tile < TILES; tile++) {
        const size_t n0 = tile / BLOCKS * IMAGES;
        const uint y0 = tile % BLOCKS * JB;
        barrier(CLK_LOCAL_MEM_FENCE);
        copy_data(lines, (__global const ushort*)DATA, n0, y0, c0, item SIZES_PASSED);
        copy_gradient(grads, (__local ushort*)(blocks + COPY * LINE), (__global const ushort*)GRAD, n0, y0, o0, item SIZES_PASSED);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = wk; k < QP / 16; k += WK) {
            uint a[4];
            LDMATRIX(a, grads + (wm * 16 + lane % 16) * ROW + lane / 16 * 16 + k * 32);
            const local_at at = lines + line_of(k * 16 + lane % 16) * LINE + lane / 16 * 16;
            UNROLL for (uint p = 0; p < PW; p++) {
                uint b[4];
                LDMATRIX_T(b, at + shift[p]);
                MMA(c[p], a, b[0], b[1]);
                MMA((c[p] + 4), a, b[2], b[3]);
            }
        }
    }
    __local float* others = (__local float*)blocks + warp % (WM * WT) * (PW * 256) + lane;
    for (uint k = 1; k < WK; k++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (wk == k) UNROLL for (uint i = 0; i < PW * 8; i++) others[i * 32] = c[i / 8][i % 8];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (wk == 0) UNROLL for (uint i = 0; i < PW * 8; i++) c[i / 8][i % 8] += others[i * 32];
    }
    if (wk) return;
    UNROLL for (uint p = 0; p < PW; p++) {
        const uint pair = wt * PW + p, tap = pair / (CP / 16);
        UNROLL for (uint i = 0; i < 8; i++) {
            const uint o = o0 + wm * 16 + lane / 4 + i / 2 % 2 * 8, cc = c0 + pair % (CP / 16) * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (pair < PAIRS && o < O && cc < C) PARTIAL((size_t)o * (C * T_ALL) + tap * C + cc) = c[p][i];
        }
    }
}

#endif
