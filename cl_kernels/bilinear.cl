// bilinear: images read between their pixels, and the way back
//
//   SAMPLE   y(n, c, p) = sum over the corners k of the cell around (px, py)(n, p) of w(k) * x(n, c, k)
//   IMAGE    dx(n, c, h, w) = sum over points and corners that are (h, w) of w(k) * g(n, c, p), in the order of the points: equal bits on every run
//   POINTS   (dpx, dpy)(n, p) = sum over c of g(n, c, p) * the slopes of SAMPLE by px and py
//   w(k) = (1 - fx or fx)(1 - fy or fy), px = floor(px) + fx. Corners outside count as zeros; a NaN among the coordinates gives NaN.
//
// A block of BLOCK points finds corners and weights once, for all channels: lanes follow the points.
//
// Layout: x (BATCH, CHANNELS, HEIGHT, WIDTH), px and py (BATCH, COUNT), g and y (BATCH, CHANNELS, COUNT), contiguous.
// Grid, local size 1: SAMPLE, POINTS (BATCH * ceil(COUNT / BLOCK) / CHUNK blocks), IMAGE (BATCH, CHANNELS / CHUNK), sums a copy of its images.
//   PARAMS, BEGIN, EPILOGUE(coordinates, value), EPILOGUE_V, T and VW as in matmul.cl: (n, c, p), IMAGE (n, element), POINTS (0 or 1, n, p).

#define SAMPLE 1
#define IMAGE 2
#define POINTS 3
#ifndef STAGE
#define STAGE SAMPLE            // which of them
#endif
#ifndef BLOCK
#define BLOCK 64                // points that share a search for corners, a multiple of VW
#endif

// Two places along an axis of n, -1 outside, and how near they are.
INLINE void cell(const T p, const long n, int* at, T* near) {
    const T low = floor(p), f = p - low;
    const int i = p >= -2 && p <= n + 1 ? (int)low : -2;
    at[0] = i >= 0 && i < n ? i : -1;
    at[1] = i >= -1 && i + 1 < n ? i + 1 : -1;
    near[0] = 1 - f;
    near[1] = f;
}

// Corners of `count` points: numbers in an image, -1 outside, and how near they are across and down.
INLINE void corners(__global const T* px, __global const T* py, const size_t count, int at[4][BLOCK], T across[2][BLOCK], T down[2][BLOCK] SIZES) {
    for (size_t p = 0; p < count; p++) {
        int i[2], j[2];
        T fx[2], fy[2];
        cell(px[p], WIDTH, i, fx);
        cell(py[p], HEIGHT, j, fy);
        UNROLL for (int k = 0; k < 4; k++) at[k][p] = i[k & 1] < 0 || j[k >> 1] < 0 ? -1 : j[k >> 1] * (int)WIDTH + i[k & 1];
        UNROLL for (int k = 0; k < 2; k++) { across[k][p] = fx[k]; down[k][p] = fy[k]; }
    }
}

#define CORNER(k) (at[k][p] < 0 ? (T)0 : from[at[k][p]])
#define NEAR(k) (across[(k) & 1][p] * down[(k) >> 1][p])

__kernel void bilinear(PARAMS) {
    BEGIN
    int at[4][BLOCK];
    T across[2][BLOCK], down[2][BLOCK];
#if STAGE == IMAGE
    const size_t n = get_global_id(0), c0 = get_global_id(1) * CHUNK, c1 = min(c0 + CHUNK, (size_t)CHANNELS), area = (size_t)HEIGHT * WIDTH;
    const size_t size = c1 > c0 ? (c1 - c0) * area : 0;
    __global T* restrict y = (__global T*)sums + (n * get_global_size(1) * CHUNK + c0) * area;
    for (size_t k = 0; k < size; k++) y[k] = 0;
    for (size_t first = 0; first < COUNT; first += BLOCK) {
        const size_t count = min((size_t)BLOCK, COUNT - first);
        corners(px + n * COUNT + first, py + n * COUNT + first, count, at, across, down SIZES_PASSED);
        for (size_t c = c0; c < c1; c++) {
            __global T* restrict to = y + (c - c0) * area;
            __global const T* restrict from = g + (n * CHANNELS + c) * COUNT + first;
            for (size_t p = 0; p < count; p++)
                UNROLL for (int k = 0; k < 4; k++)
                    if (at[k][p] >= 0) to[at[k][p]] += NEAR(k) * from[p];
        }
    }
    size_t k = 0;
#if VW > 1
    for (; k + VW <= size; k += VW) { EPILOGUE_V(n, (c0 * area + k), VLOAD(y + k)); }
#endif
    for (; k < size; k++) { EPILOGUE(n, (c0 * area + k), y[k]); }
#else
    const size_t blocks = (COUNT + BLOCK - 1) / BLOCK, last = min((get_global_id(0) + 1) * CHUNK, (size_t)BATCH * blocks);
    for (size_t r = get_global_id(0) * CHUNK; r < last; r++) {
        const size_t n = r / blocks, first = r % blocks * BLOCK, count = min((size_t)BLOCK, COUNT - first);
        corners(px + n * COUNT + first, py + n * COUNT + first, count, at, across, down SIZES_PASSED);
#if STAGE == SAMPLE
        for (size_t c = 0; c < CHANNELS; c++) {
            __global const T* restrict from = x + (n * CHANNELS + c) * HEIGHT * WIDTH;
            T value[BLOCK];
            for (size_t p = 0; p < count; p++)
                value[p] = CORNER(0) * NEAR(0) + CORNER(1) * NEAR(1) + CORNER(2) * NEAR(2) + CORNER(3) * NEAR(3);
            size_t p = 0;
#if VW > 1
            for (; p + VW <= count; p += VW) { EPILOGUE_V(n, c, (first + p), VLOAD_P(value + p)); }
#endif
            for (; p < count; p++) { EPILOGUE(n, c, (first + p), value[p]); }
        }
#else
        T slope[2][BLOCK];
        for (size_t p = 0; p < count; p++) slope[0][p] = slope[1][p] = 0;
        for (size_t c = 0; c < CHANNELS; c++) {
            __global const T* restrict from = x + (n * CHANNELS + c) * HEIGHT * WIDTH;
            __global const T* restrict flow = g + (n * CHANNELS + c) * COUNT + first;
            for (size_t p = 0; p < count; p++) {
                const T a = CORNER(0), b = CORNER(1), u = CORNER(2), v = CORNER(3);
                slope[0][p] += flow[p] * ((b - a) * down[0][p] + (v - u) * down[1][p]);
                slope[1][p] += flow[p] * ((u - a) * across[0][p] + (v - b) * across[1][p]);
            }
        }
        for (size_t k = 0; k < 2; k++) {
            size_t p = 0;
#if VW > 1
            for (; p + VW <= count; p += VW) { EPILOGUE_V(k, n, (first + p), VLOAD_P(slope[k] + p)); }
#endif
            for (; p < count; p++) { EPILOGUE(k, n, (first + p), slope[k][p]); }
        }
#endif
    }
#endif
}
