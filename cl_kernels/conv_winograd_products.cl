// conv_winograd_products: 3x3 convolution with stride 1 and its two gradients on GPUs as 36 matrix products, where 144 are counted a tile of 4 x 4 results.
//
// With X a 6 x 6 patch of data, W the weights of a pair of channels, G a 4 x 4 tile of gradients,
//     tile = Aᵀ [ Σ over channels (D W Dᵀ) ∘ (Bᵀ X B) ] A          weight gradient = Dᵀ [ Σ over tiles (E G Eᵀ) ∘ (Bᵀ X B) ] D
// Cook-Toom at 0, 3/4, -3/4, 3/2, -3/2 and infinity, chosen for small rounding errors: a few times those of plain sums.
// Paper: Lavin, Gray 2016, arXiv:1509.09308.
// What is transformed is stored, and multiplied by matmul_gpu.cl: `left` (turned_x) [group][36][depth][rows] by `right` (turned_w) [group][36][depth][columns]
// -> `partial` [part][group][36][rows][columns], parts of the depth. Rows are result channels; of a convolution, depth is channels of the data and
// columns are tiles; of a weight gradient, depth is tiles and columns are channels of the data. Tiles are those of COUNT images from FIRST on.
//
// The generator prepends what it does for conv.cl, with its names, those of clnet/kernels/conv/conv_winograd_products.py, and
//   PLACE(product, channel, tile)    where an operand is stored     PARTIAL(part, e)   element e of a part of the products
//   CHANNELS                         lanes that follow channels, where these are contiguous in what is stored; the others follow tiles
// VARIANTs, all with local size (ITEMS, 1, 1):
//
// WEIGHT    kernel transform_weight    Grid (O, C, GROUPS): D W Dᵀ to turned_x
// DATA      kernel transform_data      Grid (tiles, C, GROUPS), or as for GRADIENT where CHANNELS > 1: Bᵀ X B to turned_w
// GRADIENT  kernel transform_gradient  Grid (O / CHANNELS * ITEMS, tiles / (ITEMS / CHANNELS), GROUPS): E G Eᵀ to turned_x
// RESULT    kernel transform_result    Grid (tiles, O, GROUPS): adds the parts, transforms them to results. Tiles with one that is not finite
//           are computed from their definition.
// WEIGHTS   kernel transform_weights   Grid (C, O, GROUPS): adds the parts, transforms them to a weight gradient. An infinity may become NaN.

#define WEIGHT_ 1
#define DATA_ 2
#define GRADIENT_ 3
#define RESULT_ 4
#define WEIGHTS_ 5
#define ITEMS 128
#ifndef CHANNELS
#define CHANNELS 1              // lanes that follow channels
#endif
#ifndef SPLIT
#define SPLIT 1                 // parts
#endif
#define TY ((RY + 3) / 4)
#define TX ((RX + 3) / 4)
#define TILES (COUNT * TY * TX)
#define KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

#include "include/winograd.h"

// D w as spread(w0, w1, w2, 0, w2, r), E g as spread(g0, g1, g2, g3, g3, r)
INLINE void spread(const T v0, const T v1, const T v2, const T v3, const T last, T* r) {
    const T even = v0 * ((T)-128 / 243) - v2 * ((T)8 / 27), odd = v1 * ((T)-32 / 81) - v3 * ((T)2 / 9);
    const T far_even = v0 * ((T)32 / 243) + v2 * ((T)8 / 27), far_odd = v1 * ((T)16 / 81) + v3 * ((T)4 / 9);
    r[0] = v0 * ((T)64 / 81), r[1] = even + odd, r[2] = even - odd, r[3] = far_even + far_odd, r[4] = far_even - far_odd, r[5] = last;
}

// Bᵀ d
INLINE void patch(const T d0, const T d1, const T d2, const T d3, const T d4, const T d5, T* r) {
    const T even = d4 - (T)2.25 * d2, odd = (T)0.75 * d3 - (T)1.6875 * d1, far_even = d4 - (T)0.5625 * d2, far_odd = (T)1.5 * d3 - (T)0.84375 * d1;
    r[0] = (T)1.265625 * d0 - (T)2.8125 * d2 + d4, r[5] = (T)1.265625 * d1 - (T)2.8125 * d3 + d5;
    r[1] = even + odd, r[2] = even - odd, r[3] = far_even + far_odd, r[4] = far_even - far_odd;
}

// Aᵀ m, 4 values, and Dᵀ m, 3 values
INLINE void gather(const T m0, const T m1, const T m2, const T m3, const T m4, const T m5, const int values, T* r) {
    const T even = m1 + m2, odd = m1 - m2, far_even = m3 + m4, far_odd = m3 - m4;
    r[0] = m0 + even + far_even;
    r[1] = (T)0.75 * odd + (T)1.5 * far_odd;
    r[2] = (T)0.5625 * even + (T)2.25 * far_even + (values == 3 ? m5 : 0);
    if (values == 4) r[3] = (T)0.421875 * odd + (T)3.375 * far_odd + m5;
}

#if VARIANT == WEIGHT_

KERNEL void transform_weight(PARAMS) {
    BEGIN
    const size_t o = get_global_id(0), c = get_global_id(1), group = get_global_id(2);
    if (o >= O) return;
    __global T* to = (__global T*)turned_x;
    __global const T* from = WEIGHT + group * W_G + o * W_O + c * W_C;
    T v[9], s[3][6], u[6];
    UNROLL for (int k = 0; k < 9; k++) v[k] = from[source[k] * W_K];
    UNROLL for (int i = 0; i < 3; i++) spread(v[i], v[3 + i], v[6 + i], 0, v[6 + i], s[i]);
    UNROLL for (int i = 0; i < 6; i++) {
        spread(s[0][i], s[1][i], s[2][i], 0, s[2][i], u);
        UNROLL for (int j = 0; j < 6; j++) to[PLACE(group * 36 + 6 * i + j, o, c)] = u[j];
    }
}

#elif VARIANT == DATA_

KERNEL void transform_data(PARAMS) {
    BEGIN
    const uint t = get_local_id(0), c = get_group_id(CHANNELS == 1) * CHANNELS + t % CHANNELS;
    const uint tile = get_group_id(CHANNELS != 1) * (ITEMS / CHANNELS) + t / CHANNELS;
    if (tile >= TILES || c >= C) return;
    const size_t group = get_group_id(2), image = FIRST + tile / (TY * TX);
    const int y = (int)(tile / TX % TY * 4) + MIN_Y, x0 = (int)(tile % TX * 4) + MIN_X;
    __global const T* from = DATA + ((image * GROUPS + group) * C + c) * PLANE + (long)y * SX + x0;
    __global T* to = (__global T*)turned_w;
    T d[6][6], s[6][6], u[6];
    UNROLL for (int i = 0; i < 6; i++)
        UNROLL for (int j = 0; j < 6; j++) d[i][j] = (uint)(y + i) < SY && (uint)(x0 + j) < SX ? from[i * SX + j] : 0;
    UNROLL for (int j = 0; j < 6; j++) patch(d[0][j], d[1][j], d[2][j], d[3][j], d[4][j], d[5][j], s[j]);
    UNROLL for (int i = 0; i < 6; i++) {
        patch(s[0][i], s[1][i], s[2][i], s[3][i], s[4][i], s[5][i], u);
        UNROLL for (int j = 0; j < 6; j++) to[PLACE(group * 36 + 6 * i + j, c, tile)] = u[j];
    }
}

#elif VARIANT == GRADIENT_

KERNEL void transform_gradient(PARAMS) {
    BEGIN
    const uint t = get_local_id(0), o = get_group_id(0) * CHANNELS + t % CHANNELS, tile = get_group_id(1) * (ITEMS / CHANNELS) + t / CHANNELS;
    if (tile >= TILES || o >= O) return;
    const size_t group = get_group_id(2), image = FIRST + tile / (TY * TX);
    const uint y = tile / TX % TY * 4, x0 = tile % TX * 4;
    __global const T* from = GRAD + ((image * GROUPS + group) * O + o) * ((size_t)RY * RX) + y * RX + x0;
    __global T* to = (__global T*)turned_x;
    T e[4][4], s[4][6], u[6];
    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++) e[i][j] = y + i < RY && x0 + j < RX ? from[i * RX + j] : 0;
    UNROLL for (int j = 0; j < 4; j++) spread(e[0][j], e[1][j], e[2][j], e[3][j], e[3][j], s[j]);
    UNROLL for (int i = 0; i < 6; i++) {
        spread(s[0][i], s[1][i], s[2][i], s[3][i], s[3][i], u);
        UNROLL for (int j = 0; j < 6; j++) to[PLACE(group * 36 + 6 * i + j, o, tile)] = u[j];
    }
}

#else

// The sums of all parts, of 36 products that are `step` apart from element e on
#define SUMS(m, e, step)                                                                                   \
    UNROLL for (int k = 0; k < 36; k++) m[k / 6][k % 6] = PARTIAL(0, (e) + (size_t)k * (step));            \
    for (uint part = 1; part < SPLIT; part++)                                                              \
        UNROLL for (int k = 0; k < 36; k++) m[k / 6][k % 6] += PARTIAL(part, (e) + (size_t)k * (step));

#if VARIANT == RESULT_

#if VW == 1
#define STORE EPILOGUE
#else
#define STORE EPILOGUE_V
#endif

KERNEL void transform_result(PARAMS) {
    BEGIN
    const uint tile = get_global_id(0), o = get_global_id(1), ty = tile / TX % TY * 4, tx = tile % TX * 4;
    if (tile >= TILES) return;
    const size_t group = get_group_id(2), image = FIRST + tile / (TY * TX);
    T m[6][6], s[4][6];
    SUMS(m, (group * 36 * O + o) * COLUMNS + tile, O * COLUMNS)
    UNROLL for (int j = 0; j < 6; j++) {
        T r[4];
        gather(m[0][j], m[1][j], m[2][j], m[3][j], m[4][j], m[5][j], 4, r);
        UNROLL for (int i = 0; i < 4; i++) s[i][j] = r[i];
    }
    T y[4][4] __attribute__((aligned(16))), total = 0;
    UNROLL for (int i = 0; i < 4; i++) {
        gather(s[i][0], s[i][1], s[i][2], s[i][3], s[i][4], s[i][5], 4, y[i]);
        UNROLL for (int j = 0; j < 4; j++) total += y[i][j];
    }
    if (isfinite(total)) {
        UNROLL for (int i = 0; i < 4; i++)
            UNROLL for (int j = 0; j < 4; j += VW)
                if ((RY % 4 == 0 || ty + i < RY) && (RX % 4 == 0 || tx + j < RX)) {
                    STORE(image, (group * O + o), ((size_t)(ty + i) * RX + tx + j), VLOAD_P(y[i] + j));
                }
        return;
    }
    for (uint row = ty; row < min(ty + 4, (uint)RY); row++)
        for (uint column = tx; column < min(tx + 4, (uint)RX); column++) {
            const T v = direct(DATA + (image * GROUPS + group) * C * PLANE, WEIGHT + group * W_G + o * W_O, row, column);
            EPILOGUE(image, (group * O + o), ((size_t)row * RX + column), v);
        }
}

#else

KERNEL void transform_weights(PARAMS) {
    BEGIN
    const size_t c = get_global_id(0), o = get_global_id(1), group = get_group_id(2);
    if (c >= C) return;
    T m[6][6], s[3][6], y[3];
    SUMS(m, (group * 36 * O + o) * COLUMNS + c, O * COLUMNS)
    UNROLL for (int j = 0; j < 6; j++) {
        T r[3];
        gather(m[0][j], m[1][j], m[2][j], m[3][j], m[4][j], m[5][j], 3, r);
        UNROLL for (int i = 0; i < 3; i++) s[i][j] = r[i];
    }
    UNROLL for (int i = 0; i < 3; i++) {
        gather(s[i][0], s[i][1], s[i][2], s[i][3], s[i][4], s[i][5], 3, y);
        UNROLL for (int j = 0; j < 3; j++) { EPILOGUE(((group * O + o) * C + c) * 9 + source[3 * i + j], y[j]); }
    }
}

#endif

#endif
