// conv_gpu: convolution, its data gradient and its weight gradient on GPUs: products of matrices that are read in place, no patches stored.
//
// Formula, names and what is prepended as in conv.cl; the tile of a work-group, its local memory and its loop as in matmul_gpu.cl, and the
// numbers of clnet/kernels/conv/conv_gpu.py. OFF_Z OFF_Y OFF_X list where taps read in the data. K may be cut into SPLIT parts, which go to
// the temporary memory `partial` (PARTIAL(e): element e of this group's part) and are added in order, so that every run gives the same bits.
// VARIANTs:
//
// PACK, kernel conv_pack. Grid (OP, C, GROUPS), local size (32, 1, 1): weights as packed[group][row][OP], OP = O to a multiple of BM, rows
//   (tap, channel) of one phase after the other, those of a phase, first at START, filled with zeros to a multiple of BK.
//
// TILE, kernel conv_tile. Grid (tiles * ITEMS, 1, GROUPS * phases * SPLIT), local size (ITEMS, 1, 1). BM channels x BN pixels of a phase, K is
//   (tap, channel). An item loads for one pixel of the tile, so neighbours load neighbours; where C is a multiple of BK, a block is within one
//   tap, and where that reads is worked out once a tap. Parts of PART blocks. Assumes BN divides ITEMS, ITEMS / BN divides BK.
//   RESULT(n, o, i, v) stores v, or its part.
//
// DIRECT, kernel conv_direct. Grid (pixels, channels / TM, GROUPS * phases), local size ITEMS: for few result channels a group (depthwise):
//   an item sums TM channels of a pixel.
//
// WEIGHTS, kernel conv_weights. Grid (tiles * ITEMS, 1, GROUPS * SPLIT). BM channels of GRAD x BN columns (tap, channel) of the data, K is the
//   pixels of all images, in parts of PART blocks. An item loads BM / (ITEMS / BK) channels and BN / (ITEMS / BK) columns of one pixel, which
//   it follows through the images. Columns are handled by SLOTS taps an item: as few as the tile has, where the numbers divide, else one each.
//
// SUM, kernel conv_sum. Grid (elements * SLICES, 1, 1), local size ITEMS: adds the parts, SLICES items those of an element, each some that follow each
//   other; SUM_EPILOGUE(e, v) stores element e of `partial`.

#define PACK 1
#define TILE 2
#define DIRECT 3
#define WEIGHTS 4
#define SUM 5
#ifndef VARIANT
#define VARIANT TILE            // which of them
#endif
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
#define TM 4                    // tile of a work-item
#endif
#ifndef TN
#define TN 4
#endif
#ifndef LANES_M
#define LANES_M 4               // items of a warp stand LANES_M x LANES_N in the tile
#endif
#ifndef LANES_N
#define LANES_N 8
#endif
#ifndef ASYNC
#define ASYNC 0                 // how blocks reach local memory
#endif
#ifndef STAGES
#define STAGES 2                // blocks in local memory
#endif
#ifndef X_WIDE
#define X_WIDE 1                // packed weights of a load
#endif
#ifndef SPLIT
#define SPLIT 1                 // parts of K
#endif
#ifndef PART
#define PART 1                  // blocks of a part
#endif
#define W_WIDE 1
#define W_STEP 1
#define PLANE ((size_t)SZ * SY * SX)

#if VARIANT == TILE || VARIANT == PACK || VARIANT == DIRECT
__constant uint first[] = {FIRST};
__constant uint source[] = {SOURCE};
#endif
#if VARIANT == TILE || VARIANT == PACK
__constant uint start[] = {START};
#endif
#if VARIANT != PACK && VARIANT != SUM
__constant int off_z[] = {OFF_Z}, off_y[] = {OFF_Y}, off_x[] = {OFF_X};
#define INSIDE(z, y, x) ((uint)(z) < SZ && (uint)(y) < SY && (uint)(x) < SX)
#define AT(z, y, x) (((long)(z) * SY + (y)) * SX + (x))
#endif
// Pixel p of a phase: its image, and where in the data its patch begins
#if VARIANT == TILE || VARIANT == DIRECT
#define PHASE(number)                                                                                      \
    const uint phase = (number), pz = phase / (OUT_Y * OUT_X), py = phase / OUT_X % OUT_Y, px = phase % OUT_X; \
    const uint jz = (RZ + OUT_Z - 1 - pz) / OUT_Z, jy = (RY + OUT_Y - 1 - py) / OUT_Y, jx = (RX + OUT_X - 1 - px) / OUT_X; \
    const size_t points = (size_t)jz * jy * jx, pixels = N * points;
#define PIXEL(p)                                                                                           \
    const bool real = (p) < pixels;                                                                        \
    const size_t image = real ? (p) / points : 0;                                                          \
    const uint point = real ? (p) % points : 0, lz = point / (jy * jx), ly = point / jx % jy, lx = point % jx; \
    const int z0 = lz * IN_Z, y0 = ly * IN_Y, x0 = lx * IN_X;                                              \
    const size_t element = ((size_t)(lz * OUT_Z + pz) * RY + (ly * OUT_Y + py)) * RX + (lx * OUT_X + px);
#endif

#if VARIANT == PACK

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void conv_pack(PARAMS) {
    BEGIN
    const size_t o = get_global_id(0), c = get_global_id(1), group = get_global_id(2);
    __global T* to = (__global T*)packed + group * ((size_t)ROWS_ALL * OP) + o;
    __global const T* from = WEIGHT + group * W_G + o * W_O + c * W_C;
    for (uint phase = 0; phase < OUT_Z * OUT_Y * OUT_X; phase++) {
        size_t row = start[phase] + c;
        for (uint t = first[phase]; t < first[phase + 1]; t++, row += C) to[row * OP] = o < O ? from[source[t] * W_K] : 0;
        if (c == 0)
            for (row = start[phase] + (first[phase + 1] - first[phase]) * C; row < start[phase + 1]; row++) to[row * OP] = 0;
    }
}

#elif VARIANT == TILE

#define X_LINE (BM / X_WIDE)
#define X_LOADS (BK * BM / X_WIDE / ITEMS)
#define X_WHOLE 1
#define X_IN(i, k0) 1
#define X_STEP 1
#define X_K(i) (t / X_LINE + (i) * ITEMS / X_LINE)
#define X_AT ((t % X_LINE) * X_WIDE)
#define X_FROM(i) (rows + (size_t)((i) * ITEMS / X_LINE) * OP)
#define XS(stage, i) ((stage) * (BK * XS_K) + X_K(i) * XS_K + X_AT)
#define LINES (ITEMS / BN)
#define W_LOADS (BK / LINES)
#define W_WHOLE 0
#define W_K0(i) (t / BN + (i) * LINES)
#define WS(stage, i) ((stage) * (BK * WS_K) + W_K0(i) * WS_K + t % BN)
#if C % BK == 0
// One tap a block: `at` is the first channel that this item reads, or stays in front of the data where the tap reads zeros.
#define AIM                                                                                                \
    {                                                                                                      \
        const int z = z0 + off_z[tap], y = y0 + off_y[tap], x = x0 + off_x[tap];                           \
        within = real && INSIDE(z, y, x);                                                                  \
        at = data + (within ? AT(z, y, x) : 0) + (c + t / BN) * PLANE;                                     \
    }
#define W_IN(i, k0) within
#define W_FROM(i) (at + (i) * LINES * PLANE)
#define ADVANCE(k0)                                                                                        \
    rows += BK * OP;                                                                                       \
    at += BK * PLANE;                                                                                      \
    c += BK;                                                                                               \
    if (c == C) {                                                                                          \
        c = 0;                                                                                             \
        tap = min(tap + 1, (uint)T_ALL - 1);                                                               \
        AIM                                                                                                \
    }
#else
INLINE bool reads(const uint k, const uint depth, const uint t0, const int z0, const int y0, const int x0) {
    if (k >= depth) return false;
    const uint tap = t0 + k / C;
    return INSIDE(z0 + off_z[tap], y0 + off_y[tap], x0 + off_x[tap]);
}
INLINE long where(const uint k, const uint depth, const uint t0, const int z0, const int y0, const int x0) {
    const uint tap = t0 + (k < depth ? k / C : 0);
    return (k % C) * PLANE + AT(z0 + off_z[tap], y0 + off_y[tap], x0 + off_x[tap]);
}
#define W_IN(i, k0) (real && reads((k0) + W_K0(i), depth, t0, z0, y0, x0))
#define W_FROM(i) (data + where(k_now + W_K0(i), depth, t0, z0, y0, x0))
#define ADVANCE(k0) rows += BK * OP; k_now += BK;
#endif
#include "include/tile_gpu.h"

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_tile(PARAMS) {
    BEGIN
    TILE_BEGIN
    const uint part = get_group_id(2) % SPLIT, unit = get_group_id(2) / SPLIT, group = unit / (OUT_Z * OUT_Y * OUT_X);
    PHASE(unit % (OUT_Z * OUT_Y * OUT_X))
    const size_t m0 = get_group_id(0) % (OP / BM) * BM, n0 = get_group_id(0) / (OP / BM) * BN;
    if (n0 >= pixels) return;
    PIXEL(n0 + t % BN)
    const uint t0 = first[phase], depth = (first[phase + 1] - t0) * C, from = part * (PART * BK);
    const uint blocks = from < depth ? min((uint)PART, (depth - from + BK - 1) / BK) : 0;
    __global const T* data = DATA + (image * GROUPS + group) * C * PLANE;
    __global const T* rows = (__global const T*)packed + ((size_t)group * ROWS_ALL + start[phase] + from + t / X_LINE) * OP + m0 + X_AT;
#if C % BK == 0
    uint tap = min(t0 + from / C, (uint)T_ALL - 1), c = from % C;
    bool within;
    __global const T* at;
    AIM
#else
    uint k_now = from;
#endif
#include "include/tile_loop.h"
#define ROW(r, e)                                                                                          \
    {                                                                                                      \
        const size_t o = m0 + (r);                                                                         \
        if (real && (OP == O || o < O)) { RESULT(image, (group * O + o), element, xs[e]); }                \
    }
    TILE_END(ROW)
}

#elif VARIANT == DIRECT

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_direct(PARAMS) {
    BEGIN
    const uint group = get_group_id(2) / (OUT_Z * OUT_Y * OUT_X), m0 = get_group_id(1) * TM;
    PHASE(get_group_id(2) % (OUT_Z * OUT_Y * OUT_X))
    PIXEL(get_global_id(0))
    if (!real) return;
    __global const T* data = DATA + (image * GROUPS + group) * C * PLANE;
    __global const T* weight = WEIGHT + group * W_G + (size_t)m0 * W_O;
    T sum[TM];
    UNROLL for (int i = 0; i < TM; i++) sum[i] = 0;
    for (uint c = 0; c < C; c++, data += PLANE, weight += W_C)
        for (uint t = first[phase]; t < first[phase + 1]; t++) {
            const int z = z0 + off_z[t], y = y0 + off_y[t], x = x0 + off_x[t];
            const T v = INSIDE(z, y, x) ? data[AT(z, y, x)] : 0;
            UNROLL for (int i = 0; i < TM; i++)
                if (O % TM == 0 || m0 + i < O) sum[i] = VFMA(weight[i * W_O + source[t] * W_K], v, sum[i]);
        }
    UNROLL for (int i = 0; i < TM; i++)
        if (O % TM == 0 || m0 + i < O) { EPILOGUE(image, (group * O + m0 + i), element, sum[i]); }
}

#elif VARIANT == WEIGHTS

#define COLUMNS (C * T_ALL)
#define POINTS ((size_t)RZ * RY * RX)
#define LINES (BM / TM * (BN / TN) / BK)
#define X_LOADS (BM / LINES)
#define W_LOADS (BN / LINES)
#define X_WHOLE 0
#define W_WHOLE 0
#define X_STEP 1
#define XS(stage, i) ((stage) * (BK * XS_K) + t % BK * XS_K + t / BK + (i) * LINES)
#define WS(stage, i) ((stage) * (BK * WS_K) + t % BK * WS_K + t / BK + (i) * LINES)
#define EVEN (C % BN == 0 || (BN % C == 0 && C % LINES == 0))
#if EVEN
#define SLOTS (C % BN == 0 ? 1 : BN / C)
#define SLOT(i) (C % BN == 0 ? 0 : (i) * LINES / C)
#define SLOT_COLUMN(s) (t / BK + (s) * C)
#define FROM_SLOT(i) ((i) * LINES % C)
#else
#define SLOTS W_LOADS
#define SLOT(i) (i)
#define SLOT_COLUMN(s) (t / BK + (s) * LINES)
#define FROM_SLOT(i) 0
#endif
#define X_IN(i, k0) (real && (O % BM == 0 || m0 + t / BK + (i) * LINES < O))
#define X_FROM(i) (grad + (i) * LINES * POINTS)
#define W_IN(i, k0) (within >> SLOT(i) & 1)
#define W_FROM(i) (data + where[SLOT(i)] + FROM_SLOT(i) * PLANE)
// What the item's pixel, number `point` of its image, reads through each slot
#define AIM                                                                                                \
    {                                                                                                      \
        const int z0 = point / (RY * RX) * IN_Z, y0 = point / RX % RY * IN_Y, x0 = point % RX * IN_X;      \
        within = 0;                                                                                        \
        UNROLL for (int s = 0; s < SLOTS; s++)                                                             \
            if (real && INSIDE(z0 + sz[s], y0 + sy[s], x0 + sx[s])) within |= 1u << s;                     \
        data = images + AT(z0, y0, x0);                                                                    \
    }
#define ADVANCE(k0)                                                                                        \
    {                                                                                                      \
        const uint next = point + BK, over = next / (uint)POINTS;                                          \
        point = next - over * (uint)POINTS;                                                                \
        grad += BK + (long)over * (long)((GROUPS * O - 1) * POINTS);                                       \
        images += over * (GROUPS * C * PLANE);                                                             \
        pixel += BK;                                                                                       \
        real = pixel < N * POINTS;                                                                         \
        AIM                                                                                                \
    }
#include "include/tile_gpu.h"

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_weights(PARAMS) {
    BEGIN
    TILE_BEGIN
    const uint part = get_group_id(2) % SPLIT, group = get_group_id(2) / SPLIT, ms = (O + BM - 1) / BM;
    const uint m0 = get_group_id(0) % ms * BM, n0 = get_group_id(0) / ms * BN;
    const size_t from = (size_t)part * PART * BK;
    const uint blocks = from < N * POINTS ? min((size_t)PART, (N * POINTS - from + BK - 1) / BK) : 0;
    size_t pixel = from + t % BK;
    uint point = pixel % POINTS, within;
    bool real = pixel < N * POINTS;
    __global const T* grad = GRAD + (pixel / POINTS * (GROUPS * O) + group * O + m0 + t / BK) * POINTS + point;
    __global const T* images = DATA + (pixel / POINTS * (GROUPS * C) + group * C) * PLANE;
    __global const T* data;
    int sz[SLOTS], sy[SLOTS], sx[SLOTS];
    long where[SLOTS];
    UNROLL for (int s = 0; s < SLOTS; s++) {
        const uint column = n0 + SLOT_COLUMN(s), tap = min(column / C, (uint)T_ALL - 1);
        sz[s] = column < COLUMNS ? off_z[tap] : SZ, sy[s] = off_y[tap], sx[s] = off_x[tap];
        where[s] = AT(off_z[tap], sy[s], sx[s]) + column % C * PLANE;
    }
    AIM
#include "include/tile_loop.h"
#define ROW(r, e)                                                                                          \
    {                                                                                                      \
        const uint o = m0 + (r), column = n0 + (e) % BN;                                                   \
        if (o < O && column < COLUMNS) PARTIAL((group * O + o) * (size_t)COLUMNS + column) = xs[e];        \
    }
    TILE_END(ROW)
}

#else

#ifndef ITEMS
#define ITEMS 128               // local size
#endif
#ifndef SLICES
#define SLICES 1                // items that share the parts of an element
#endif
#define COLUMNS (ITEMS / SLICES)
#define PER ((SPLIT + SLICES - 1) / SLICES)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_sum(PARAMS) {
    BEGIN
    const uint t = get_local_id(0), slice = t / COLUMNS;
    const size_t e = get_group_id(0) * (size_t)COLUMNS + t % COLUMNS;
    T sum = 0;
    if (e < SIZE)
        _Pragma("unroll 8") for (uint part = slice * PER; part < min((slice + 1) * PER, (uint)SPLIT); part++) sum += ((__global const T*)partial)[(size_t)part * SIZE + e];
#if SLICES > 1
    __local T sums[ITEMS];
    sums[t] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slice) return;
    UNROLL for (uint s = 1; s < SLICES; s++) sum += sums[s * COLUMNS + t];
#endif
    if (e < SIZE) { SUM_EPILOGUE(e, sum); }
}

#endif
