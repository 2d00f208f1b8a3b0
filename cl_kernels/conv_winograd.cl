// conv_winograd: 3x3 convolution with stride 1, its data gradient and its weight gradient, with 16 products where 36 are counted.
//
// Results in tiles of 2 x 2. With X a 4 x 4 patch of data, W the 3 x 3 weights of a pair of channels, G a 2 x 2 tile of gradients,
//     tile = Aᵀ [ Σ over channels (D W Dᵀ) ∘ (Bᵀ X B) ] A          weight gradient = Dᵀ [ Σ over tiles (A G Aᵀ) ∘ (Bᵀ X B) ] D
//     Bᵀ = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]    D = [1 0 0; ½ ½ ½; ½ -½ ½; 0 0 1]    Aᵀ = [1 1 1 0; 0 1 -1 -1]
// Both sums are 16 matrix products. A data gradient is a convolution with flipped weights: only SOURCE and the strides differ.
// Paper: Lavin, Gray 2016, arXiv:1509.09308.
// Sums are in T, in a fixed order. Rounding errors are about twice those of the direct sum.
//
// The generator prepends what it does for conv.cl, with its names: DATA WEIGHT GRAD N GROUPS C O SY SX RY RX MIN_Y MIN_X W_G W_O W_C
//   SOURCE                   where in the weight the 9 offsets from (MIN_Y, MIN_X) on are
// and the geometry of clnet/kernels/conv/conv_winograd.py. Assumes MIN_X <= 0 and that a row of tiles reaches to the end of the data.
// Lanes follow channels throughout: data are transposed, VW channels at a time, on their way into private memory.
// Rows of tiles are counted through all images: a work-item takes RT of them, with TX tiles each. VARIANTs, all with local size 1:
//
// PACK     Grid (panels, C / CHUNK, GROUPS): D W Dᵀ as packed[group][panel][16][c][NR], NR = NV * VW result channels.
// CONV     Grid (rows of tiles / RT, blocks of OB panels * GROUPS):
//              transform the data of all channels to private memory                       [16][TILES][C], sized to stay in L2
//              for each panel: 16 products, MR tiles x NV vectors in registers            [16][TILES][NR]
//                  transform, transpose, and out through the epilogue row by row
//          Patches carry a NaN, an infinity or an overflow to results that do not depend on it: results that are not finite
//          are computed again, one by one, from their definition.
// WEIGHTS  Grid (PARTS, blocks of CB channels, blocks of OB panels * GROUPS):
//              for each RT rows of the part: transform data [16][TILES][CB] and gradients [16][TILES][OB * NR]
//                  add 16 products to the private sums [16][CB][OB * NR], MR channels x NV vectors in registers
//              transform, transpose, and store partial[part][group][o][c][k], which SUM of conv.cl adds, or the result where there is one part
//          An infinity may become NaN, as inf - inf does.

#define PACK 1
#define CONV 2
#define WEIGHTS 3
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef NV
#define NV 2                    // vectors of result channels in the register tile
#endif
#ifndef MR
#define MR 14                   // tiles (CONV) or channels (WEIGHTS) of the register tile
#endif
#ifndef RT
#define RT 1                    // rows of tiles of a block
#endif
#ifndef OB
#define OB PANELS               // panels of a work-item
#endif
#define NR (NV * VW)
#define PANELS ((O + NR - 1) / NR)
#define OUT_BLOCKS ((PANELS + OB - 1) / OB)
#define UP(n, m) (((n) + (m) - 1) / (m) * (m))
#define TY ((RY + 1) / 2)
#define TX ((RX + 1) / 2)
#define ROWS_ALL ((size_t)N * TY)
#define SERIAL __attribute__((reqd_work_group_size(1, 1, 1)))

#include "include/plain_loads.h"

#if VARIANT != WEIGHTS
__constant uint source[] = {SOURCE};
#endif

#if VARIANT == PACK

#ifndef CHUNK
#define CHUNK 16                // channels that a work-item packs
#endif
#define TOGETHER (W_C == 9 ? CHUNK : 1) // channels whose taps lie in one line of the weight

#define KIND SAME
#undef PACK
#define PACK pack_taps
#include "include/pack_lines.h"

// Lines of the weight are read whole: a channel's nine taps are half of one, and its results lie pages apart.
__kernel SERIAL void winograd_pack(PARAMS) {
    BEGIN
    const size_t panel = get_global_id(0), c0 = get_global_id(1) * CHUNK, group = get_global_id(2), valid = min((size_t)NR, (size_t)O - panel * NR);
    const size_t channels = min((size_t)CHUNK, (size_t)C - c0);
    __global const T* from = WEIGHT + group * W_G + c0 * W_C + panel * NR * W_O;
    __global T* to = (__global T*)packed + ((group * PANELS + panel) * 16 * C + c0) * NR;
    T lines[CHUNK * 9 * NR] __attribute__((aligned(64)));
    for (size_t c = 0; c < channels; c += TOGETHER)
        pack_taps(lines + c * 9 * NR, from + c * W_C, NR, valid, min((size_t)TOGETHER, channels - c) * 9, W_O, 1);
    for (size_t c = 0; c < channels; c++)
        for (size_t v = 0; v < NR; v += VW) {
            const T* taps = lines + c * 9 * NR + v;
            __global T* at = to + c * NR + v;
            VT t[4][3];
            UNROLL for (int j = 0; j < 3; j++) {
                const VT a = VLOAD_P(taps + source[j] * NR), b = VLOAD_P(taps + source[3 + j] * NR), d = VLOAD_P(taps + source[6 + j] * NR);
                t[0][j] = a;
                t[1][j] = (a + b + d) * (T)0.5;
                t[2][j] = (a - b + d) * (T)0.5;
                t[3][j] = d;
            }
            UNROLL for (int i = 0; i < 4; i++) {
                VSTORE(t[i][0], at + (size_t)(4 * i) * C * NR);
                VSTORE((t[i][0] + t[i][1] + t[i][2]) * (T)0.5, at + (size_t)(4 * i + 1) * C * NR);
                VSTORE((t[i][0] - t[i][1] + t[i][2]) * (T)0.5, at + (size_t)(4 * i + 2) * C * NR);
                VSTORE(t[i][2], at + (size_t)(4 * i + 3) * C * NR);
            }
        }
}

#else

#define TILES (RT * TX)
#define PITCH (2 * TX + 2)      // of the private copy: columns from MIN_X on

// to[row][column][VW] = from[channel][y0 + row][column - left] for VW channels; what lies outside of them is left as it is.
INLINE void gather(T* restrict to, __global const T* restrict from, const int valid, const int height, const int width,
                   const int y0, const int rows, const int left) {
    const int first = max(0, -y0), last = min(rows, height - y0), count = (last - first) * width;
    if (last <= first) return;
    const size_t channel = (size_t)height * width;
    from += (y0 + first) * width;
    to += (first * PITCH + left) * VW;
    if (count < VW) {
        for (int i = 0; i < count; i++)
            for (int l = 0; l < VW; l++) to[(i / width * PITCH + i % width) * VW + l] = l < valid ? from[l * channel + i] : 0;
        return;
    }
    T* restrict at = to;
    for (int i = 0, column = 0; i < count; i += VW) {
        if (i + VW > count) {                           // the last block is moved back to end with the rows
            i = count - VW, column = i % width;
            at = to + (i / width * PITCH + column) * VW;
        }
        VT t[VW];
        UNROLL for (int l = 0; l < VW; l++) t[l] = l < valid ? VLOAD(from + l * channel + i) : VSPLAT(0);
        transpose(t);
        UNROLL for (int l = 0; l < VW; l++) {
            VSTORE_P(t[l], at);
            at += VW;
            if (++column == width) column = 0, at += (PITCH - width) * VW;
        }
    }
}

// to[16] = Bᵀ X B, `step` apart, of the patch at x.
INLINE void transform_data(T* restrict to, const size_t step, const T* restrict x) {
    VT t[4][4];
    UNROLL for (int j = 0; j < 4; j++) {
        const VT a = VLOAD_P(x + j * VW), b = VLOAD_P(x + (PITCH + j) * VW);
        const VT c = VLOAD_P(x + (2 * PITCH + j) * VW), d = VLOAD_P(x + (3 * PITCH + j) * VW);
        t[0][j] = a - c, t[1][j] = b + c, t[2][j] = c - b, t[3][j] = b - d;
    }
    UNROLL for (int i = 0; i < 4; i++) {
        VSTORE_P(t[i][0] - t[i][2], to + (4 * i) * step);
        VSTORE_P(t[i][1] + t[i][2], to + (4 * i + 1) * step);
        VSTORE_P(t[i][2] - t[i][1], to + (4 * i + 2) * step);
        VSTORE_P(t[i][1] - t[i][3], to + (4 * i + 3) * step);
    }
}

// to[16][TILES][stride] = transformed data of `channels` channels from `from` on, for `rows` rows of tiles of an image from ty on.
INLINE void transform_rows(T* restrict to, const size_t step, const size_t stride, __global const T* restrict from, const size_t channels,
                           const size_t ty, const size_t rows, T* restrict copy) {
    for (size_t i = 0; i < (2 * rows + 2) * PITCH * VW; i += VW) VSTORE_P(VSPLAT(0), copy + i);
    for (size_t c = 0; c < channels; c += VW) {
        gather(copy, from + c * (SY * SX), channels % VW ? (int)min((size_t)VW, channels - c) : VW, SY, SX, (int)(2 * ty) + MIN_Y,
               (int)(2 * rows) + 2, -(MIN_X));
        for (size_t i = 0; i < rows; i++)
            ROLLED for (size_t j = 0; j < TX; j++) transform_data(to + (i * TX + j) * stride + c, step, copy + (2 * i * PITCH + 2 * j) * VW);
    }
}

// to[row][...] at row, pitch apart = from[...][row] for VW rows: blocks of VW x VW are transposed. Writes whole blocks.
INLINE void transpose_rows(T* restrict to, const size_t pitch, const T* restrict from, const size_t stride, const size_t count) {
    for (size_t p = 0; p < count; p += VW) {
        VT t[VW];
        UNROLL for (int l = 0; l < VW; l++) t[l] = VLOAD_P(from + (p + l) * stride);
        transpose(t);
        UNROLL for (int l = 0; l < VW; l++) VSTORE_P(t[l], to + l * pitch + p);
    }
}

#if VARIANT == CONV

#define TILES_UP UP(TILES, MR)
#define C_UP UP(C, VW)
#define STEP_X (TILES_UP * C_UP + VW)   // not a power of two: 16 such streams would share a set of the cache
#define STEP_Y (TILES_UP * NR + VW)
#define PIXELS (2 * RT * RX + RX + VW)

// y[MR][NR] = products of MR tiles and a panel of weights over all channels.
INLINE void micro(T* restrict y, const T* restrict x, __global const T* restrict w) {
    VT sum[MR][NV];
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VSPLAT(0);
    for (size_t c = 0; c < C; c++, x++, w += NR) {
        VT b[NV];
        UNROLL for (int v = 0; v < NV; v++) b[v] = VLOAD(w + v * VW);
        UNROLL for (int r = 0; r < MR; r++) {
            const VT a = VSPLAT(x[r * C_UP]);
            UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VFMA(a, b[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) VSTORE_P(sum[r][v], y + r * NR + v * VW);
}

// The pixels of a tile, VW channels each: to[p] = Aᵀ Y A, p in rows of RX. `both`: whether the right column exists.
INLINE void transform_tile(T* restrict to, const T* restrict y, const bool both) {
    VT t[2][4];
    UNROLL for (int j = 0; j < 4; j++) {
        const VT a = VLOAD_P(y + j * STEP_Y), b = VLOAD_P(y + (4 + j) * STEP_Y);
        const VT c = VLOAD_P(y + (8 + j) * STEP_Y), d = VLOAD_P(y + (12 + j) * STEP_Y);
        t[0][j] = a + b + c, t[1][j] = b - c - d;
    }
    UNROLL for (int i = 0; i < 2; i++) {
        VSTORE_P(t[i][0] + t[i][1] + t[i][2], to + i * RX * NR);
        if (both) VSTORE_P(t[i][1] - t[i][2] - t[i][3], to + (i * RX + 1) * NR);
    }
}

// y[count] with those that are not finite computed from the definition; x, w of the image, group and channel; pixels from `start` on.
INLINE void repair(T* restrict y, const size_t count, const size_t start, __global const T* restrict x, __global const T* restrict w) {
    VT zeros = VSPLAT(0);
    for (size_t i = 0; i + VW <= count; i += VW) zeros += VLOAD_P(y + i) * (T)0;
    T lanes[VW] __attribute__((aligned(64))), zero = 0;
    VSTORE_P(zeros, lanes);
    for (size_t l = 0; l < VW; l++) zero += lanes[l];
    for (size_t i = count / VW * VW; i < count; i++) zero += y[i] * (T)0;
    if (zero == 0) return;
    for (size_t i = 0; i < count; i++) {
        if (y[i] * (T)0 == 0) continue;
        const int row = (int)((start + i) / RX) + MIN_Y, column = (int)((start + i) % RX) + MIN_X;
        T sum = 0;
        for (size_t c = 0; c < C; c++)
            for (int k = 0; k < 9; k++) {
                const int yy = row + k / 3, xx = column + k % 3;
                if (yy >= 0 && yy < SY && xx >= 0 && xx < SX) sum += x[(c * SY + yy) * SX + xx] * w[c * W_C + source[k]];
            }
        y[i] = sum;
    }
}

__kernel SERIAL void winograd(PARAMS) {
    BEGIN
    const size_t r0 = get_global_id(0) * RT, r1 = min(r0 + RT, ROWS_ALL);
    const size_t group = get_global_id(1) / OUT_BLOCKS, panel0 = get_global_id(1) % OUT_BLOCKS * (OB);
    T copy[(2 * RT + 2) * PITCH * VW] __attribute__((aligned(64)));
    T xs[16 * STEP_X] __attribute__((aligned(64)));
    T ys[16 * STEP_Y] __attribute__((aligned(64)));
    T pixels[PIXELS * NR] __attribute__((aligned(64)));
    T rows[NR * PIXELS] __attribute__((aligned(64)));
    for (size_t r = r0, next; r < r1; r = next) {
        const size_t n = r / TY, ty = r % TY;
        next = min(r1, r + TY - ty);
        transform_rows(xs + (r - r0) * TX * C_UP, STEP_X, C_UP, DATA + (n * GROUPS + group) * C * (SY * SX), C, ty, next - r, copy);
    }
    for (size_t t = (r1 - r0) * TX; t < TILES_UP; t++)  // tiles that are not there are computed, too: nothing slow may be in them
        ROLLED for (size_t k = 0; k < 16; k++)
            for (size_t c = 0; c < C_UP; c += VW) VSTORE_P(VSPLAT(0), xs + k * STEP_X + t * C_UP + c);
    for (size_t panel = panel0; panel < min(panel0 + (OB), (size_t)PANELS); panel++) {
        __global const T* weights = (__global const T*)packed + (group * PANELS + panel) * 16 * C * NR;
        ROLLED for (size_t k = 0; k < 16; k++)
            for (size_t t = 0; t < TILES_UP; t += MR) micro(ys + k * STEP_Y + t * NR, xs + k * STEP_X + t * C_UP, weights + k * C * NR);
        for (size_t r = r0, next; r < r1; r = next) {
            const size_t n = r / TY, ty = r % TY, start = 2 * ty * RX;
            next = min(r1, r + TY - ty);
            const size_t count = min(2 * (next - r), RY - 2 * ty) * RX;
            for (size_t i = 0; i < next - r; i++)
                ROLLED for (size_t j = 0; j < TX; j++)
                    UNROLL for (int v = 0; v < NV; v++)
                        transform_tile(pixels + (2 * i * RX + 2 * j) * NR + v * VW, ys + ((r - r0 + i) * TX + j) * NR + v * VW, 2 * j + 1 < RX);
            for (size_t v = 0; v < NV; v++) transpose_rows(rows + v * VW * PIXELS, PIXELS, pixels + v * VW, NR, count);
            for (size_t l = 0; l < NR && panel * NR + l < O; l++) {
                const size_t o = panel * NR + l, co = group * O + o;
                T* row = rows + l * PIXELS;
                repair(row, count, start, DATA + (n * GROUPS + group) * C * (SY * SX), WEIGHT + group * W_G + o * W_O);
                size_t i = 0;
                for (; i + VW <= count; i += VW) { EPILOGUE_V(n, co, (start + i), VLOAD_P(row + i)); }
                for (; i < count; i++) { EPILOGUE(n, co, (start + i), row[i]); }
            }
        }
    }
}

#else

#ifndef CB
#define CB C                    // channels of a work-item
#endif
#define CHANNELS_UP UP(UP(CB, MR), VW)
#define OUTS ((OB) * NR)
#define STEP_X (TILES * CHANNELS_UP + VW)
#define STEP_G (TILES * OUTS + VW)
#define STEP_S (CHANNELS_UP * OUTS + VW)

#include "include/part.h"

// sums[MR][...] at c and o += products of MR channels and NR outputs over `tiles` tiles.
INLINE void micro(T* restrict sums, const T* restrict x, const T* restrict g, const size_t tiles) {
    VT sum[MR][NV];
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VLOAD_P(sums + r * OUTS + v * VW);
    for (size_t t = 0; t < tiles; t++, x += CHANNELS_UP, g += OUTS) {
        VT b[NV];
        UNROLL for (int v = 0; v < NV; v++) b[v] = VLOAD_P(g + v * VW);
        UNROLL for (int r = 0; r < MR; r++) {
            const VT a = VSPLAT(x[r]);
            UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VFMA(a, b[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) VSTORE_P(sum[r][v], sums + r * OUTS + v * VW);
}

// to[16] = A G Aᵀ, STEP_G apart, of the tile at g.
INLINE void transform_grad(T* restrict to, const T* restrict g) {
    VT t[4][2];
    UNROLL for (int j = 0; j < 2; j++) {
        const VT a = VLOAD_P(g + j * VW), b = VLOAD_P(g + (PITCH + j) * VW);
        t[0][j] = a, t[1][j] = a + b, t[2][j] = a - b, t[3][j] = -b;
    }
    UNROLL for (int i = 0; i < 4; i++) {
        VSTORE_P(t[i][0], to + (4 * i) * STEP_G);
        VSTORE_P(t[i][0] + t[i][1], to + (4 * i + 1) * STEP_G);
        VSTORE_P(t[i][0] - t[i][1], to + (4 * i + 2) * STEP_G);
        VSTORE_P(-t[i][1], to + (4 * i + 3) * STEP_G);
    }
}

// to[9][VW] = Dᵀ S D of the 16 sums, STEP_S apart, at s.
INLINE void transform_sums(T* restrict to, const T* restrict s) {
    VT t[3][4];
    UNROLL for (int j = 0; j < 4; j++) {
        const VT a = VLOAD_P(s + j * STEP_S), d = VLOAD_P(s + (12 + j) * STEP_S);
        const VT b = VLOAD_P(s + (4 + j) * STEP_S) * (T)0.5, c = VLOAD_P(s + (8 + j) * STEP_S) * (T)0.5;
        t[0][j] = a + b + c, t[1][j] = b - c, t[2][j] = b + c + d;
    }
    UNROLL for (int i = 0; i < 3; i++) {
        const VT b = t[i][1] * (T)0.5, c = t[i][2] * (T)0.5;
        VSTORE_P(t[i][0] + b + c, to + (3 * i) * VW);
        VSTORE_P(b - c, to + (3 * i + 1) * VW);
        VSTORE_P(b + c + t[i][3], to + (3 * i + 2) * VW);
    }
}

__kernel SERIAL void winograd_weights(PARAMS) {
    BEGIN
    const size_t part = get_global_id(0), c0 = get_global_id(1) * (CB), channels = min((size_t)(CB), C - c0);
    const size_t group = get_global_id(2) / OUT_BLOCKS, o0 = get_global_id(2) % OUT_BLOCKS * OUTS, outs = min((size_t)OUTS, O - o0);
    T copy[(2 * RT + 2) * PITCH * VW] __attribute__((aligned(64)));
    T xs[16 * STEP_X] __attribute__((aligned(64)));
    T gs[16 * STEP_G] __attribute__((aligned(64)));
    T sums[16 * STEP_S] __attribute__((aligned(64)));
    for (size_t i = 0; i < 16 * STEP_S; i += VW) VSTORE_P(VSPLAT(0), sums + i);
    for (size_t i = 0; i < 16 * STEP_X; i += VW) VSTORE_P(VSPLAT(0), xs + i);      // channels that are not there
    for (size_t i = 0; i < 16 * STEP_G; i += VW) VSTORE_P(VSPLAT(0), gs + i);
    const size_t end = (part + 1) * ROWS_ALL / PARTS;
    for (size_t r = part * ROWS_ALL / PARTS, stop; r < end; r = stop) {
        stop = min(end, r + RT);
        for (size_t s = r, next; s < stop; s = next) {
            const size_t n = s / TY, ty = s % TY, rows = min(stop - s, TY - ty), at = (s - r) * TX;
            next = s + rows;
            transform_rows(xs + at * CHANNELS_UP, STEP_X, CHANNELS_UP, DATA + ((n * GROUPS + group) * C + c0) * (SY * SX), channels, ty, rows, copy);
            for (size_t i = 0; i < 2 * rows * PITCH * VW; i += VW) VSTORE_P(VSPLAT(0), copy + i);
            for (size_t o = 0; o < outs; o += VW) {
                gather(copy, GRAD + ((n * GROUPS + group) * O + o0 + o) * (RY * RX), O % VW ? (int)min((size_t)VW, outs - o) : VW, RY, RX,
                       (int)(2 * ty), (int)(2 * rows), 0);
                for (size_t i = 0; i < rows; i++)
                    ROLLED for (size_t j = 0; j < TX; j++) transform_grad(gs + (at + i * TX + j) * OUTS + o, copy + (2 * i * PITCH + 2 * j) * VW);
            }
        }
        ROLLED for (size_t k = 0; k < 16; k++)
            for (size_t o = 0; o < OUTS; o += NR)
                ROLLED for (size_t c = 0; c < CB; c += MR)
                    micro(sums + k * STEP_S + c * OUTS + o, xs + k * STEP_X + c, gs + k * STEP_G + o, (stop - r) * TX);
    }
    T values[(CB) * 9 * VW] __attribute__((aligned(64)));
    for (size_t o = 0; o < outs; o += VW) {
        for (size_t c = 0; c < channels; c++) transform_sums(values + c * 9 * VW, sums + c * OUTS + o);
        const size_t to = ((group * O + o0 + o) * C + c0) * 9, valid = min((size_t)VW, outs - o);
        SPREAD(to, C * 9, values, VW, channels * 9, valid)
    }
}

#endif
#endif
