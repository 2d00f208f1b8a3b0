// conv: convolution, its data gradient and its weight gradient, without storing patches; sums in T, in a fixed order.
//
// All spatial sizes are (Z, Y, X); missing axes have size 1. `data` (N, GROUPS * C, SZ, SY, SX) is what patches are taken from,
// result points r = phase + OUT * j read, for tap t of their phase, data at j * IN + offset(t), zero outside:
//     convolution     OUT = 1, one phase, IN = stride, offset = k * dilation - low
//     data gradient   OUT = stride, IN = 1, offset = (phase + low - k * dilation) / stride for the k for which that is whole
// so both are the kernel `conv` and differ in tables only; no product with an inserted zero is computed.
// The generator prepends include/vector.h and
//   PARAMS, BEGIN, T, VW     as for matmul.cl; DATA, WEIGHT and GRAD name the operands, `packed` and `partial` are scratch
//   EPILOGUE(n, o, i, v)     stores element i of channel o of image n; EPILOGUE_V(...) VW of them from i on
//   sizes                    N GROUPS C (channels a group of data) O (channels a group of result) T_ALL (taps of all phases)
//                            SZ SY SX (data) RZ RY RX (result) OUT_Z OUT_Y OUT_X IN_Z IN_Y IN_X MIN_Z MIN_Y MIN_X (least offset)
//   TAPS, FIRST, SOURCE      lists: where a tap reads relative to its pixel in the private copy; first tap of each phase and
//                            the end; which k of the weight it is
// and the geometry of clnet/kernels/conv/conv.py. VARIANTs:
//
// PACK, first stage of the convolution. Grid (C, 1, GROUPS), local size 1: weights as packed[group][panel][c][tap][NR],
//   NR = NV * VW result channels; W_G W_O W_C are strides of the weight in elements, W_K that of k. Where IN_ORDER, taps are all those of
//   the weight and lie as they are packed, so that CHUNK values of each channel at a time are transposed: grid (chunks, panels, GROUPS).
//
// CONV, for CPUs. Grid (RZ * blocks of rows, blocks of panels * GROUPS, N), local size 1. Vector lanes follow result channels, pixels
//   are broadcast, so that any stride and width is read without gathering:
//       copy the data of JB rows j, zero-padded, to private memory               [C][ZP][ROWS][PITCH], sized to stay in L2
//       for each panel of NR channels, phase, tile of TH x TW = MR pixels
//           MR x NV vectors of sums stay in registers over all channels and taps
//           transpose in registers, store to a private tile [NR][rows * RX]      lanes past the tile are overwritten later
//       the tile goes through the epilogue in whole vectors
//   The last tile of a row is moved back to end with it: what overlaps is computed twice, to the same bits. Where FLAT, tiles are TW
//   pixels of a phase that follow one another beyond the ends of rows, and the last one of the block is moved back.
//   Assumes TH == 1 or (TW == RX and OUT == 1), FLAT only with TH == 1, and OUT == 1 or OUT_X > 1 or rows of one pixel, and TW pixels in a block.
//
// WEIGHTS, for CPUs. Grid (PARTS, blocks of channels, blocks of panels * GROUPS), local size 1. Lanes follow the channels of `grad`
//   (N, GROUPS * O, RZ, RY, RX), taps are broadcast, the sum runs over pixels:
//       for each block of rows of the part: copy data as above; for each panel: transpose grad to [pixel][NR]
//           for each CM channels: CM * T_ALL (or a share of the taps) x NV sums in registers over all pixels of the block
//   Stores partial[part][group][o][c][k], or the result where there is one part.
//
// SUM, second stage of WEIGHTS: y = sum of the parts in order. Grid (chunks of CHUNK), local size 1.
//
// conv_plane.cl is for few result channels a group.

#define PACK 1
#define CONV 2
#define WEIGHTS 3
#define SUM 4
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef NV
#define NV 2                    // vectors of channels in the register tile
#endif
#define NR (NV * VW)
#define PANELS ((O + NR - 1) / NR)
#define SERIAL __attribute__((reqd_work_group_size(1, 1, 1)))

#if VARIANT == PACK

#ifndef IN_ORDER
#define IN_ORDER 0              // taps lie as they are packed
#endif
#if IN_ORDER

#ifndef CHUNK
#define CHUNK 256               // values of a channel that a work-item packs
#endif

#define PACK pack_weights
#define KIND SAME
#define INTO __global
#include "include/pack_lines.h"

__kernel SERIAL void conv_pack(PARAMS) {
    BEGIN
    const size_t at = get_global_id(0) * (CHUNK), panel = get_global_id(1), group = get_global_id(2), depth = C * T_ALL;
    pack_weights((__global T*)packed + ((group * PANELS + panel) * depth + at) * NR, WEIGHT + group * W_G + panel * NR * W_O + at, NR,
                 min((size_t)NR, (size_t)O - panel * NR), min((size_t)(CHUNK), depth - at), W_O, 1);
}

#else

__constant uint source[] = {SOURCE};

__kernel SERIAL void conv_pack(PARAMS) {
    BEGIN
    const size_t c = get_global_id(0), group = get_global_id(2);
    __global const T* from = WEIGHT + group * W_G + c * W_C;
    for (size_t panel = 0; panel < PANELS; panel++, from += NR * W_O) {     // in the order in which they lie
        __global T* to = (__global T*)packed + ((group * PANELS + panel) * C + c) * T_ALL * NR;
        const size_t valid = min((size_t)NR, (size_t)O - panel * NR);
        for (size_t t = 0; t < T_ALL; t++, to += NR)
            for (size_t o = 0; o < NR; o++) to[o] = o < valid ? from[o * W_O + source[t] * W_K] : 0;
    }
}

#endif

#elif VARIANT == SUM

#ifndef CHUNK
#define CHUNK 4096              // elements of a work-item
#endif

#define SUM_PARTS conv_sum
#include "include/sum_parts.h"

#else

#ifndef JB
#define JB 8                    // rows j of a block
#endif
#define BLOCKS ((RY + JB * OUT_Y - 1) / (JB * OUT_Y))

__constant int taps[] = {TAPS};

#include "include/copy_block.h"

#if VARIANT == CONV

#ifndef TW
#define TW 14                   // pixels of the register tile: TH rows of TW
#endif
#ifndef TH
#define TH 1
#endif
#ifndef FLAT
#define FLAT 0                  // tiles go on beyond the ends of rows
#endif
#ifndef OB
#define OB PANELS               // panels of a work-item
#endif
#define MR (TH * TW)
#define RB (JB * OUT_Y)         // result rows of a block
#define PITCH_OUT (RB * RX + 2 * VW) // pitch of the private tile, with room for the lanes past the last pixel
// Pixels of a row of a phase, and where pixel r of rows of `width` is, in the data and in the result: what varies between the
// pixels of a flat tile is one summand, which stays in a register.
#define ACROSS(px) ((px) < RX ? (RX - (px) + OUT_X - 1) / OUT_X : 0)
#define PIXEL(r, width) ((r) * IN_X + (r) / (width) * (IN_Y * PITCH - (width) * IN_X))
#define RESULT(r, width) ((r) * OUT_X + (r) / (width) * (OUT_Y * RX - (width) * OUT_X))
#define OUT_BLOCKS ((PANELS + OB - 1) / OB)
#ifndef UNROLLED
#define UNROLLED 0              // a phase and a tap at a time are compiled: of one to four taps the loop takes longer than the products
#endif
#if UNROLLED
#define EACH UNROLL
#else
#define EACH
#endif

__constant uint first[] = {FIRST};

// tile[NR][...] = sums over channels and taps [t0, t1) for the MR pixels that start at x, or where FLAT at pixel `pixel` of the
// rows of `width` that start there.
INLINE void micro(const T* restrict x, const size_t pixel, const size_t width, __global const T* restrict w, const size_t t0,
                  const size_t t1, T* restrict tile) {
    size_t at[MR];                                      // constants, or a register each
    UNROLL for (int r = 0; r < MR; r++) at[r] = FLAT ? PIXEL(pixel + r, width) : PIXEL(r, TW);
    VT sum[MR][NV];
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VSPLAT(0);
    w += t0 * NR;
    for (size_t c = 0; c < C; c++, x += PLANE, w += (T_ALL - t1 + t0) * NR)
        EACH for (size_t t = t0; t < t1; t++, w += NR) {
            const T* restrict a = x + taps[t];
            VT b[NV];
            UNROLL for (int v = 0; v < NV; v++) b[v] = VLOAD(w + v * VW);
            UNROLL for (int r = 0; r < MR; r++) {
                const VT value = VSPLAT(a[at[r]]);
                UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VFMA(value, b[v], sum[r][v]);
            }
        }
    // through memory: an array of sums that a later loop indexes would be kept there during the products, too
    T sums[MR * NR] __attribute__((aligned(64)));
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) VSTORE_P(sum[r][v], sums + r * NR + v * VW);
    for (int v = 0; v < NV; v++)
        for (int r = 0; r < MR; r += VW) {
            VT t[VW];
            UNROLL for (int l = 0; l < VW; l++) t[l] = VLOAD_P(sums + min(r + l, MR - 1) * NR + v * VW);
            transpose(t);
#if OUT_X == 1 && !(FLAT && OUT_Y > 1)
            UNROLL for (int l = 0; l < VW; l++) VSTORE_P(t[l], tile + (v * VW + l) * PITCH_OUT + pixel + r);
#elif OUT_X == 2 && !FLAT && VW > 1                     // every other pixel: between those of the other phase, which stay
            UNROLL for (int l = 0; l < VW; l++) {
                T* to = tile + (v * VW + l) * PITCH_OUT + 2 * r;
                VT a = VLOAD_P(to), b = VLOAD_P(to + VW);
                a.even = t[l].lo;
                b.even = t[l].hi;
                VSTORE_P(a, to);
                VSTORE_P(b, to + VW);
            }
#else
            T lanes[VW * VW] __attribute__((aligned(64)));
            UNROLL for (int l = 0; l < VW; l++) VSTORE_P(t[l], lanes + l * VW);
            size_t to[VW];
            for (int i = 0; i < VW && FLAT; i++) to[i] = RESULT(pixel + r + i, width);
            for (int l = 0; l < VW; l++)
                for (int i = 0; i < VW && r + i < MR; i++)
                    tile[(v * VW + l) * PITCH_OUT + (FLAT ? to[i] : (r + i) * OUT_X)] = lanes[l * VW + i];
#endif
        }
}

__kernel SERIAL void conv(PARAMS) {
    BEGIN
    const size_t rz = get_global_id(0) / BLOCKS, j0 = get_global_id(0) % BLOCKS * JB, n = get_global_id(2);
    const size_t group = get_global_id(1) / OUT_BLOCKS, panel0 = get_global_id(1) % OUT_BLOCKS * (OB);
    T xs[C * PLANE] __attribute__((aligned(64)));
    T tile[NR * PITCH_OUT] __attribute__((aligned(64)));
    copy_block(xs, DATA + (n * GROUPS + group) * C * ((size_t)SZ * SY * SX), C, (int)(rz / OUT_Z * IN_Z) + MIN_Z, (int)(j0 * IN_Y) + MIN_Y);
    const size_t count = min((size_t)RB, RY - j0 * OUT_Y) * RX, start = (rz * RY + j0 * OUT_Y) * RX;
    for (size_t panel = panel0; panel < min(panel0 + (OB), (size_t)PANELS); panel++) {
        __global const T* w = (__global const T*)packed + (group * PANELS + panel) * C * T_ALL * NR;
#if FLAT
        EACH for (size_t py = 0; py < OUT_Y; py++)
            EACH for (size_t px = 0; px < OUT_X && j0 * OUT_Y + py < RY; px++) {
                const size_t phase = (rz % OUT_Z * OUT_Y + py) * OUT_X + px, t0 = first[phase], t1 = first[phase + 1];
                const size_t pixels = min((size_t)JB, (RY - py + OUT_Y - 1) / OUT_Y - j0) * ACROSS(px);
                for (size_t i = 0; i < pixels; i += MR)  // those beyond the result are computed, not stored
                    micro(xs, min(i, (size_t)(JB * ACROSS(px) - MR)), ACROSS(px), w, t0, t1, tile + py * RX + px);
            }
#else
        for (size_t j = 0; j < JB; j += TH)             // rows in order: what spills over the end of one is overwritten by the next
            EACH for (size_t py = 0; py < OUT_Y; py++)
                EACH for (size_t px = 0; px < OUT_X && (j0 + j) * OUT_Y + py < RY; px++) {
                    const size_t phase = (rz % OUT_Z * OUT_Y + py) * OUT_X + px, t0 = first[phase], t1 = first[phase + 1];
                    const size_t across = ACROSS(px);
                    for (size_t i = 0; i < across; i += TW) {
                        const size_t at = across > TW ? min(i, across - TW) : 0;
                        micro(xs + j * (IN_Y * PITCH) + at * IN_X, 0, 0, w, t0, t1, tile + (j * OUT_Y + py) * RX + at * OUT_X + px);
                    }
                }
#endif
        for (size_t l = 0; l < NR && panel * NR + l < O; l++) {
            const size_t o = group * O + panel * NR + l;
            size_t i = 0;
            for (; i + VW <= count; i += VW) { EPILOGUE_V(n, o, (start + i), VLOAD_P(tile + l * PITCH_OUT + i)); }
            for (; i < count; i++) { EPILOGUE(n, o, (start + i), tile[l * PITCH_OUT + i]); }
        }
    }
}

#elif VARIANT == WEIGHTS

#ifndef CM
#define CM 1                    // channels whose taps share a register tile
#endif
#ifndef TB
#define TB T_ALL                // taps of a register tile (all of them if CM > 1)
#endif
#ifndef CB
#define CB C                    // channels of a work-item, a multiple of CM
#endif
#ifndef OB
#define OB PANELS               // panels of a work-item
#endif
#define MR (CM * TB)
#define CHANNEL_BLOCKS ((C + CB - 1) / CB)
#define OUT_BLOCKS ((PANELS + OB - 1) / OB)
#define UNITS (N * RZ * BLOCKS)
#define PIXELS (JB * RX)

#define PACK pack_grad
#define KIND SAME
#include "include/pack_lines.h"

// sums[c][tap][NR] += products over `rows` rows of pixels, for CM channels from x on and `count` taps from tap0 on.
INLINE void micro(const T* restrict x, const T* restrict grad, const size_t rows, const int tap0, const int count, T* restrict sums) {
    VT sum[MR][NV];
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VSPLAT(0);
    for (size_t y = 0; y < rows; y++, x += IN_Y * PITCH)
        for (size_t i = 0; i < RX; i++, grad += NR) {
            VT b[NV];
            UNROLL for (int v = 0; v < NV; v++) b[v] = VLOAD_P(grad + v * VW);
            UNROLL for (int r = 0; r < MR; r++)
                if (r % TB < count) {
                    const VT pixel = VSPLAT(x[i * IN_X + r / TB * PLANE + taps[tap0 + r % TB]]);
                    UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VFMA(pixel, b[v], sum[r][v]);
                }
        }
    UNROLL for (int r = 0; r < MR; r++)
        if (r % TB < count)
            UNROLL for (int v = 0; v < NV; v++) {
                T* at = sums + (r / TB * T_ALL + tap0 + r % TB) * NR + v * VW;
                VSTORE_P(VLOAD_P(at) + sum[r][v], at);
            }
}

#include "include/part.h"

__kernel SERIAL void conv_weights(PARAMS) {
    BEGIN
    const size_t part = get_global_id(0), c0 = get_global_id(1) * (CB), channels = min((size_t)(CB), C - c0);
    const size_t group = get_global_id(2) / OUT_BLOCKS, panel0 = get_global_id(2) % OUT_BLOCKS * (OB);
    const size_t panels = min((size_t)(OB), PANELS - panel0);
    T xs[CB * PLANE] __attribute__((aligned(64)));
    T gs[PIXELS * NR] __attribute__((aligned(64)));
    T sums[OB * CB * T_ALL * NR] __attribute__((aligned(64)));
    for (size_t i = 0; i < panels * (CB) * T_ALL * NR; i++) sums[i] = 0;
    for (size_t i = channels * PLANE; i < (CB) * PLANE; i++) xs[i] = 0;      // a last, partial CM reads them
    for (size_t unit = part * UNITS / PARTS; unit < (part + 1) * UNITS / PARTS; unit++) {
        const size_t n = unit / (RZ * BLOCKS), rz = unit / BLOCKS % RZ, j0 = unit % BLOCKS * JB, rows = min((size_t)JB, RY - j0);
        copy_block(xs, DATA + ((n * GROUPS + group) * C + c0) * ((size_t)SZ * SY * SX), channels, (int)(rz * IN_Z) + MIN_Z, (int)(j0 * IN_Y) + MIN_Y);
        for (size_t panel = 0; panel < panels; panel++) {
            const size_t o = (panel0 + panel) * NR;
            pack_grad(gs, GRAD + ((n * GROUPS + group) * O + o) * ((size_t)RZ * RY * RX) + (rz * RY + j0) * RX, NR,
                      min((size_t)NR, O - o), rows * RX, (size_t)RZ * RY * RX, 1);
            for (size_t c = 0; c < channels; c += CM)
                UNROLL for (int t = 0; t < T_ALL; t += TB)
                    micro(xs + c * PLANE, gs, rows, t, min(TB, T_ALL - t), sums + (panel * (CB) + c) * T_ALL * NR);
        }
    }
    for (size_t v = 0; v < panels * NV && panel0 * NR + v * VW < O; v++) {
        const size_t o = panel0 * NR + v * VW, to = ((group * O + o) * C + c0) * T_ALL, valid = min((size_t)VW, O - o);
        SPREAD(to, C * T_ALL, sums + v / NV * (CB) * T_ALL * NR + v % NV * VW, NR, channels * T_ALL, valid)
    }
}

#endif
#endif
