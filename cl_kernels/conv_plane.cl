// conv_plane: convolution, its data gradient and its weight gradient with few result channels a group (depthwise, one channel out), on CPUs.
//
// Formulas, layouts and the generator's names are those of conv.cl: result points r = phase + OUT * j read data at j * IN + offset(tap).
// There are too few channels for vector lanes: lanes follow the pixels of a row, weights are broadcast and read where they lie.
// IN_X <= 2. Private memory: the data of JB rows j, zero-padded, [C][ZP][ROWS][PITCH], sized to stay in L2. Besides the sizes of conv.cl:
// K (kernel) and DIL (dilation) along Z, Y, X; FLIP: taps in the order of their offsets are the weight's from the last to the first.
// VARIANTs, local size 1:
//
// ROWS_OUT  Grid (RZ * blocks of rows, GROUPS / GB, N / IMAGES). TH rows x a vector of sums in registers over all channels and taps; results through
//           a private tile. Unaligned loads bind, two for a load that crosses a line, so a vector of pixels is loaded once for all the rows
//           that read it, against the weights of KB rows of taps in registers: KB * TH products for KB + TH - 1 loads.
//           Rows that half a register holds: two images share a register tile, one in each half of its WIDE lanes.
//           Where OUT is not 1, taps differ by phase: a load a product, and the pixels of a phase are put between the others' one by one.
// WEIGHTS   Grid (PARTS, GROUPS). For each block of rows of the part: copy data and grad; TB taps x a vector of sums in registers over
//           its pixels. Stores partial[part][group][o][c][k], which SUM of conv.cl adds,
//           or the result where there is one part. Pixels past the end of a row meet grad 0.

#define ROWS_OUT 1
#define WEIGHTS 2
#ifndef VARIANT
#define VARIANT ROWS_OUT        // which of them
#endif
#ifndef JB
#define JB 8                    // rows j of a block
#endif
#define RB (JB * OUT_Y)         // result rows of a block
#define BLOCKS ((RY + RB - 1) / RB)
#define SLACK (2 * VW * IN_X)   // past the last row: read with it
#ifndef WIDE
#define WIDE VW                 // lanes of the register tile of ROWS_OUT: VW, or twice as many
#endif
#define IMAGES (WIDE / VW)
#define SERIAL __attribute__((reqd_work_group_size(1, 1, 1)))
#if IN_X == 1
#define PIXELS_AT(p) VLOAD_P(p)
#else
#define PIXELS_AT(p) VEVEN(VLOAD_P(p), VLOAD_P((p) + VW))
#endif

__constant int taps[] = {TAPS};

#include "include/copy_block.h"

#ifndef GB
#define GB 1                    // groups of a work-item
#endif
#define TOP (MIN_Y < 0 ? -(MIN_Y) : 0)
#define WHOLE (ZP == 1 && SZ == 1 && RZ == 1 && BLOCKS == 1) // each plane is copied whole, so that its border is zero once for all

// xs = the data that a block of a group of an image reads, `at` those in order of all of `count` groups. Of whole planes, the border is zero
// already, and a vector that reaches over the end of a row puts zeros behind it.
INLINE void copy_data(T* restrict xs, __global const T* restrict data, const size_t at, const size_t count, const int z0, const int y0) {
    const size_t size = C * ((size_t)SZ * SY * SX), end = count * size;
#if ZP == 1 && SZ == 1 && RZ == 1 && RY <= RB
    const int left = max(0, -(MIN_X)), top = TOP, skip = max(0, MIN_X), above = max(0, MIN_Y);
    const int width = max(0, min(SX - skip, PITCH - left)), height = max(0, min(SY - above, ROWS - top));
    T inside[VW];
    for (int l = 0; l < VW; l++) inside[l] = l < width % VW;
    const VT last = VLOAD_P(inside);
    for (size_t c = 0; c < C; c++)
        for (int y = 0; y < height; y++) {
            size_t i = at * size + (c * SY + above + y) * SX + skip;
            T* restrict to = xs + c * PLANE + (top + y) * PITCH + left;
            for (int x = 0; x + VW <= width; x += VW, i += VW, to += VW) VSTORE_P(VLOAD(data + i), to);
            if (width % VW == 0) continue;
            if (i + VW <= end) VSTORE_P(last != (T)0 ? VLOAD(data + i) : VSPLAT(0), to);
            else for (int x = 0; x < width % VW; x++) to[x] = data[i + x];
        }
#else
    copy_block(xs, data + at * size, C, z0, y0);
#endif
}

#if VARIANT == ROWS_OUT
#define COPIED (C * PLANE + SLACK)  // elements of an image's copy, and of its results
#define TILE (RB * RX + VW)

#ifndef TH
#define TH 8                    // rows of the register tile, a divisor of JB
#endif

__constant uint source[] = {SOURCE};
__constant uint first[] = {FIRST};

#if OUT_X == 1 && OUT_Y == 1 && OUT_Z == 1
#ifndef KB
#define KB KY                   // rows of taps whose weights are in registers at once
#endif
#define TAP(t) (FLIP ? KZ * KY * KX - 1 - (t) : (t))
#define THERE(k) (KY % KB == 0 || k < KY) // whether there is a row k of taps
#if IMAGES == 1
#define WT VT
#define WIDE_PIXELS_AT(p) PIXELS_AT(p)
#define STORE_SUM(sum, r) VSTORE_P(sum, tile + (r) * RX)
#else
#define WT CAT(T, WIDE)
#define WIDE_PIXELS_AT(p) ((WT)(PIXELS_AT(p), PIXELS_AT((p) + COPIED)))
#define STORE_SUM(sum, r) do { VSTORE_P((sum).lo, tile + (r) * RX); VSTORE_P((sum).hi, tile + TILE + (r) * RX); } while (0)
#endif
// Row q of the copy of a plane that one tile covers: of the border above or below.
#define BORDER(q) (WHOLE && JB == TH && KB == KY && (q < TOP || q >= TOP + SY))

// The TH vectors of results at x in the private copy. A vector of pixels is loaded once for all rows of results that read it.
INLINE void micro(const T* restrict x, __global const T* restrict weight, T* restrict tile) {
    WT sum[TH];
    UNROLL for (int r = 0; r < TH; r++) sum[r] = (WT)(0);
    for (size_t c = 0; c < C; c++, x += PLANE, weight += W_C)
        for (int z = 0; z < KZ; z++)
            UNROLL for (int k0 = 0; k0 < KY; k0 += KB)
                for (int i = 0; i < KX; i++) {
                    const T* restrict from = x + (z * DIL_Z * ROWS + k0 * DIL_Y) * PITCH + i * DIL_X;
                    WT tap[KB];
                    UNROLL for (int k = 0; k < KB; k++)
                        if (THERE(k0 + k)) tap[k] = (WT)(weight[TAP((z * KY + k0 + k) * KX + i)]);
                    UNROLL for (int q = 0; q <= (TH - 1) * IN_Y + (KB - 1) * DIL_Y; q++) {
                        const WT pixels = WIDE_PIXELS_AT(from + q * PITCH);
                        UNROLL for (int k = 0; k < KB; k++) {
                            const int r = q - k * DIL_Y;
                            if (!BORDER(q) && THERE(k0 + k) && r >= 0 && r % IN_Y == 0 && r / IN_Y < TH)
                                sum[r / IN_Y] = VFMA(tap[k], pixels, sum[r / IN_Y]);
                        }
                    }
                }
    UNROLL for (int r = 0; r < TH; r++) STORE_SUM(sum[r], r);
}

#else

// The TH vectors of results of one phase, at x in the private copy; count: pixels of a vector that there are.
INLINE void micro(const T* restrict x, __global const T* restrict weight, const size_t t0, const size_t t1, T* restrict tile, const size_t count) {
    VT sum[TH];
    UNROLL for (int r = 0; r < TH; r++) sum[r] = VSPLAT(0);
    for (size_t c = 0; c < C; c++, x += PLANE, weight += W_C)
        for (size_t t = t0; t < t1; t++) {
            const VT tap = VSPLAT(weight[source[t] * W_K]);
            UNROLL for (int r = 0; r < TH; r++) sum[r] = VFMA(tap, PIXELS_AT(x + taps[t] + r * (IN_Y * PITCH)), sum[r]);
        }
    T lanes[TH * VW] __attribute__((aligned(64)));
    UNROLL for (int r = 0; r < TH; r++) VSTORE_P(sum[r], lanes + r * VW);
    for (size_t r = 0; r < TH; r++)
        for (size_t l = 0; l < count; l++) tile[r * (OUT_Y * RX) + l * OUT_X] = lanes[r * VW + l];
}
#endif

__kernel SERIAL void conv_plane(PARAMS) {
    BEGIN
    const size_t rz = get_global_id(0) / BLOCKS, j0 = get_global_id(0) % BLOCKS * JB, n0 = get_global_id(2) * IMAGES;
    T xs[IMAGES * COPIED] __attribute__((aligned(64)));
    T tile[IMAGES * TILE] __attribute__((aligned(64)));
    for (size_t m = 0; m < IMAGES; m++)
        for (size_t i = WHOLE ? 0 : C * PLANE; i < COPIED; i++) xs[m * COPIED + i] = 0;
    const size_t count = min((size_t)RB, RY - j0 * OUT_Y) * RX, start = (rz * RY + j0 * OUT_Y) * RX;
    for (size_t group = get_global_id(1) * GB; group < min((get_global_id(1) + 1) * GB, (size_t)GROUPS); group++) {
        for (size_t m = 0; m < IMAGES; m++)             // where images are an odd number, the last one twice, of which one is stored
            copy_data(xs + m * COPIED, DATA, min(n0 + m, (size_t)N - 1) * GROUPS + group, (size_t)N * GROUPS,
                      (int)(rz / OUT_Z * IN_Z) + MIN_Z, (int)(j0 * IN_Y) + MIN_Y);
        for (size_t o = group * O; o < (group + 1) * O; o++) {
            __global const T* weight = WEIGHT + group * W_G + (o - group * O) * W_O;
            for (size_t j = 0; j < JB; j += TH) {
#if OUT_X == 1 && OUT_Y == 1 && OUT_Z == 1
                for (size_t k = (RX + VW - 1) / VW; k-- > 0;)           // backwards: what spills over the end of a row is overwritten
                    micro(xs + j * (IN_Y * PITCH) + k * (VW * IN_X), weight, tile + j * RX + k * VW);
#else
                for (size_t p = 0; p < OUT_Y * OUT_X; p++) {
                    const size_t py = p / OUT_X, px = p % OUT_X, phase = (rz % OUT_Z * OUT_Y + py) * OUT_X + px;
                    const size_t across = px < RX ? (RX - px + OUT_X - 1) / OUT_X : 0;
                    for (size_t k = (across + VW - 1) / VW; k-- > 0;)   // backwards, as above
                        micro(xs + j * (IN_Y * PITCH) + k * (VW * IN_X), weight, first[phase], first[phase + 1],
                              tile + (j * OUT_Y + py) * RX + k * (VW * OUT_X) + px, min((size_t)VW, across - k * VW));
                }
#endif
            }
            for (size_t m = 0; m < min((size_t)IMAGES, N - n0); m++) {
                const size_t n = n0 + m;
                const T* restrict results = tile + m * TILE;
                size_t i = 0;
                for (; i + VW <= count; i += VW) { EPILOGUE_V(n, o, (start + i), VLOAD_P(results + i)); }
                for (; i < count; i++) { EPILOGUE(n, o, (start + i), results[i]); }
            }
        }
    }
}

#else

#ifndef TB
#define TB T_ALL                // taps of a register tile
#endif
#define UNITS (N * RZ * BLOCKS)

// sums[tap][VW] += products over `rows` rows of pixels, for `count` taps from tap0 on.
INLINE void micro(const T* restrict x, const T* restrict grad, const size_t rows, const int tap0, const int count, T* restrict sums) {
    VT sum[TB];
    UNROLL for (int t = 0; t < TB; t++) sum[t] = t < count ? VLOAD_P(sums + (tap0 + t) * VW) : VSPLAT(0);
#if RX % VW
    T inside[VW];
    for (int l = 0; l < VW; l++) inside[l] = l < RX % VW;
    const VT last = VLOAD_P(inside);
#endif
    for (size_t y = 0; y < rows; y++, x += IN_Y * PITCH, grad += RX) {
        for (size_t i = 0; i + VW <= RX; i += VW) {
            const VT g = VLOAD_P(grad + i);
            UNROLL for (int t = 0; t < TB; t++)
                if (t < count) sum[t] = VFMA(g, PIXELS_AT(x + i * IN_X + taps[tap0 + t]), sum[t]);
        }
#if RX % VW
        const VT g = last != (T)0 ? VLOAD_P(grad + RX / VW * VW) : VSPLAT(0);
        UNROLL for (int t = 0; t < TB; t++)
            if (t < count) sum[t] = VFMA(g, PIXELS_AT(x + RX / VW * VW * IN_X + taps[tap0 + t]), sum[t]);
#endif
    }
    UNROLL for (int t = 0; t < TB; t++)
        if (t < count) VSTORE_P(sum[t], sums + (tap0 + t) * VW);
}

#include "include/part.h"

__kernel SERIAL void conv_plane_weights(PARAMS) {
    BEGIN
    const size_t part = get_global_id(0), group = get_global_id(1), points = (size_t)RZ * RY * RX;
    T xs[C * PLANE + SLACK] __attribute__((aligned(64)));
    T gs[JB * RX + VW] __attribute__((aligned(64)));
    T sums[O * C * T_ALL * VW] __attribute__((aligned(64)));
    for (size_t i = 0; i < O * C * T_ALL * VW; i++) sums[i] = 0;
    for (size_t i = WHOLE ? 0 : C * PLANE; i < C * PLANE + SLACK; i++) xs[i] = 0;
    for (size_t i = 0; i < JB * RX + VW; i++) gs[i] = 0;
    for (size_t unit = part * UNITS / PARTS; unit < (part + 1) * UNITS / PARTS; unit++) {
        const size_t n = unit / (RZ * BLOCKS), rz = unit / BLOCKS % RZ, j0 = unit % BLOCKS * JB, rows = min((size_t)JB, RY - j0);
        copy_data(xs, DATA, n * GROUPS + group, (size_t)N * GROUPS, (int)(rz * IN_Z) + MIN_Z, (int)(j0 * IN_Y) + MIN_Y);
        for (size_t o = 0; o < O; o++) {
            __global const T* from = GRAD + ((n * GROUPS + group) * O + o) * points + (rz * RY + j0) * RX;
            size_t i = 0;
            for (; i + VW <= rows * RX; i += VW) VSTORE_P(VLOAD(from + i), gs + i);
            for (; i < rows * RX; i++) gs[i] = from[i];
            for (size_t c = 0; c < C; c++)
                UNROLL for (int t = 0; t < T_ALL; t += TB) micro(xs + c * PLANE, gs, rows, t, min(TB, T_ALL - t), sums + (o * C + c) * T_ALL * VW);
        }
    }
    for (size_t i = 0; i < O * C * T_ALL; i++) {
        T sum = 0;
        for (size_t l = 0; l < VW; l++) sum += sums[i * VW + l];
        PUT(group * O * C * T_ALL + i, sum);
    }
}

#endif
