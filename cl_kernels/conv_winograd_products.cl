// conv_winograd_products: 3x3 convolution with stride 1, its data gradient and its weight gradient on GPUs, with 36 products where 144 are counted.
//
// With X the 6 x 6 patch of data of a 4 x 4 tile of results, W the weights of a pair of channels, G a 4 x 4 tile of gradients,
//     tile = Aᵀ [ Σ over channels (D W Dᵀ) ⊙ (Bᵀ X B) ] A          weight gradient = Fᵀ [ Σ over tiles (E G Eᵀ) ⊙ (Bᵀ X B) ] F
// by Cook and Toom at 0, 1, -1, 1/2, -2 and infinity, whose rounding errors are the least among small points: 2 to 3 times those of plain sums.
// Both sums are 36 products of matrices, which matmul_gpu.cl computes from temporary memory: worth it for many channels. Results that are not
// finite are computed again, from their definition. What is prepended as in conv.cl. PLACES: tiles of all images; PITCH: to a multiple of 4. VARIANTs:
//
// PACK, kernel winograd_spread_weights. Grid (O to a multiple of 32, C, 1), local size (32, 1, 1): D W Dᵀ as turned_x[36][c][OP], OP = O to a multiple of 4.
// SPREAD_DATA, kernel winograd_spread_data. Grid (PITCH, channels, 1), local size (64, 1, 1): Bᵀ X B as TO[36][c][PITCH]; 0 beyond PLACES.
// SPREAD_GRAD, kernel winograd_spread_grad. Alike: E G Eᵀ as TO[36][o][PITCH].
// RESULTS, kernel winograd_gather. Grid (PITCH, O, 1), local size (64, 1, 1): tiles of results from products[36][o][PITCH].
// WEIGHTS, kernel winograd_gather_weights. Grid (C to a multiple of 64, O, 1), local size (64, 1, 1): weights from partial[SPLIT][36][o][c].

#define PACK 1
#define SPREAD_DATA 2
#define SPREAD_GRAD 3
#define RESULTS 4
#define WEIGHTS 5
#ifndef VARIANT
#define VARIANT RESULTS         // which of them
#endif
#define PLANE ((size_t)SY * SX)
#define POINTS ((size_t)RY * RX)
#define TY ((RY + 3) / 4)
#define TX ((RX + 3) / 4)

__constant uint source[] = {SOURCE};

// Bᵀ d
INLINE void patch(const T d0, const T d1, const T d2, const T d3, const T d4, const T d5, T* r) {
    r[0] = d0 - 2 * d2 + d4 + (T)1.5 * (d3 - d1), r[1] = d4 - d1 + (T)0.5 * d2 + (T)2.5 * d3;
    r[2] = d1 + d4 + (T)0.5 * d3 - (T)2.5 * d2, r[3] = d4 - d2 + 2 * (d3 - d1);
    r[4] = d4 - d2 + (T)0.5 * (d1 - d3), r[5] = d1 - 2 * d3 + d5 + (T)1.5 * (d4 - d2);
}
// E g; D w is that of (w0, w1, w2, 0) but for the last
INLINE void spread(const T g0, const T g1, const T g2, const T g3, T* r) {
    const T even = g0 + g2, odd = g1 + g3;
    r[0] = g0, r[1] = (even + odd) * ((T)1 / 3), r[2] = (odd - even) * ((T)1 / 3), r[5] = g3;
    r[3] = -(16 * g0 + 8 * g1 + 4 * g2 + 2 * g3) * ((T)1 / 15), r[4] = (g0 - 2 * g1 + 4 * g2 - 8 * g3) * ((T)1 / 15);
}
// Aᵀ m; Fᵀ m is its first three, m5 with the third
INLINE void gather(const T m0, const T m1, const T m2, const T m3, const T m4, const T m5, T* r) {
    r[0] = m0 + (m1 + m2) + (m3 + m4), r[1] = m1 - m2 + (T)0.5 * m3 - 2 * m4;
    r[2] = m1 + m2 + (T)0.25 * m3 + 4 * m4, r[3] = m1 - m2 + (T)0.125 * m3 - 8 * m4 + m5;
}

#if VARIANT == PACK

#define OP ((O + 3) / 4 * 4)

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void winograd_spread_weights(PARAMS) {
    BEGIN
    const size_t o = get_global_id(0), c = get_global_id(1);
    if (o >= OP) return;
    T v[9], s[3][6], u[6];
    UNROLL for (int k = 0; k < 9; k++) v[k] = o < O ? WEIGHT[o * W_O + c * W_C + source[k] * W_K] : 0;
    UNROLL for (int i = 0; i < 3; i++) {
        spread(v[i], v[3 + i], v[6 + i], 0, s[i]);
        s[i][5] = v[6 + i];
    }
    UNROLL for (int i = 0; i < 6; i++) {
        spread(s[0][i], s[1][i], s[2][i], 0, u);
        u[5] = s[2][i];
        UNROLL for (int j = 0; j < 6; j++) ((__global T*)turned_x)[((size_t)(6 * i + j) * C + c) * OP + o] = u[j];
    }
}

#elif VARIANT == SPREAD_DATA || VARIANT == SPREAD_GRAD

#if VARIANT == SPREAD_DATA
#define CHANNELS C
#define SIDE 6
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void winograd_spread_data(PARAMS) {
    BEGIN
    __global const T* from = DATA;
    const long plane = PLANE, width = SX, least_y = MIN_Y, least_x = MIN_X;
    const uint sy = SY, sx = SX;
#else
#define CHANNELS O
#define SIDE 4
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void winograd_spread_grad(PARAMS) {
    BEGIN
    __global const T* from = GRAD;
    const long plane = POINTS, width = RX, least_y = 0, least_x = 0;
    const uint sy = RY, sx = RX;
#endif
    const size_t place = get_global_id(0), channel = get_global_id(1), image = place / (TY * TX);
    if (place >= PITCH) return;
    const long y0 = place / TX % TY * 4 + least_y, x0 = place % TX * 4 + least_x;
    from += (image * CHANNELS + channel) * plane + y0 * width + x0;
    T d[SIDE][SIDE], s[SIDE][6], r[6];
    UNROLL for (int i = 0; i < SIDE; i++)
        UNROLL for (int j = 0; j < SIDE; j++)
            d[i][j] = place < PLACES && (uint)(y0 + i) < sy && (uint)(x0 + j) < sx ? from[i * width + j] : 0;
    UNROLL for (int j = 0; j < SIDE; j++)
#if SIDE == 6
        patch(d[0][j], d[1][j], d[2][j], d[3][j], d[4][j], d[5][j], s[j]);
#else
        spread(d[0][j], d[1][j], d[2][j], d[3][j], s[j]);
#endif
    __global T* to = (__global T*)TO + channel * PITCH + place;
    UNROLL for (int i = 0; i < 6; i++) {
#if SIDE == 6
        patch(s[0][i], s[1][i], s[2][i], s[3][i], s[4][i], s[5][i], r);
#else
        spread(s[0][i], s[1][i], s[2][i], s[3][i], r);
#endif
        UNROLL for (int j = 0; j < 6; j++) to[(size_t)(6 * i + j) * CHANNELS * PITCH] = r[j];
    }
}

#elif VARIANT == RESULTS

// Result (y, x) of channel o from its definition
INLINE T direct(__global const T* data, __global const T* weight, const uint y, const uint x) {
    T sum = 0;
    for (uint c = 0; c < C; c++)
        for (uint k = 0; k < 9; k++) {
            const uint row = y + MIN_Y + k / 3, column = x + MIN_X + k % 3;
            if (row < SY && column < SX) sum = VFMA(weight[c * W_C + source[k] * W_K], data[c * PLANE + row * SX + column], sum);
        }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void winograd_gather(PARAMS) {
    BEGIN
    const size_t place = get_global_id(0), o = get_global_id(1), image = place / (TY * TX);
    if (place >= PLACES) return;
    const uint ty = place / TX % TY * 4, tx = place % TX * 4;
    __global const T* from = (__global const T*)products + o * PITCH + place;
    T m[6][6], s[6][4], y[4];
    UNROLL for (int i = 0; i < 36; i++) m[i / 6][i % 6] = from[(size_t)i * O * PITCH];
    UNROLL for (int j = 0; j < 6; j++) gather(m[0][j], m[1][j], m[2][j], m[3][j], m[4][j], m[5][j], s[j]);
    UNROLL for (int i = 0; i < 4; i++) {
        if (ty + i >= RY) break;
        gather(s[0][i], s[1][i], s[2][i], s[3][i], s[4][i], s[5][i], y);
        UNROLL for (int j = 0; j < 4; j++)
            if (!isfinite(y[j]) && tx + j < RX) y[j] = direct(DATA + image * C * PLANE, WEIGHT + o * W_O, ty + i, tx + j);
#if RX % 4 == 0
        EPILOGUE_V(image, o, ((size_t)(ty + i) * RX + tx), VLOAD_P(y));
#else
        UNROLL for (int j = 0; j < 4; j++)
            if (tx + j < RX) { EPILOGUE(image, o, ((size_t)(ty + i) * RX + tx + j), y[j]); }
#endif
    }
}

#else

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void winograd_gather_weights(PARAMS) {
    BEGIN
    const size_t c = get_global_id(0), o = get_global_id(1);
    if (c >= C) return;
    T m[36], s[6][4], y[4];
    UNROLL for (int i = 0; i < 36; i++) {
        m[i] = 0;
        for (uint part = 0; part < SPLIT; part++) m[i] += ((__global const T*)partial)[(((size_t)part * 36 + i) * O + o) * C + c];
    }
    UNROLL for (int j = 0; j < 6; j++) {
        gather(m[j], m[6 + j], m[12 + j], m[18 + j], m[24 + j], 0, s[j]);
        s[j][2] += m[30 + j];
    }
    UNROLL for (int i = 0; i < 3; i++) {
        gather(s[0][i], s[1][i], s[2][i], s[3][i], s[4][i], 0, y);
        y[2] += s[5][i];
        UNROLL for (int j = 0; j < 3; j++) { EPILOGUE((o * (C * 9) + c * 9 + source[3 * i + j]), y[j]); }
    }
}

#endif
