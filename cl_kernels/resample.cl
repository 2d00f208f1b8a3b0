// resample: y(a, o, d) = sum over k < TAPS of w(o, h) * x(a, h, d),   h = floor((A o + B) / C) + k inside [0, FROM)
//
// One axis of an image resized from N to M, or the way back (BACK): there x is the gradient, o counts the N and h the M. How much
// of element h there is in result i (for BACK: of element o in result h), t = (PA i + PB) / PC being the place that i reads:
//   NEAREST  1 for h = floor(t)       LINEAR  max(0, 1 - |t - h|), t clipped to [0, N - 1]
//   AREA     1 / (z - s) for s <= h < z, s = floor(i N / M), z = ceil((i + 1) N / M)
// Places and weights are whole numbers until the last division. Elements without weight are not read: an infinity stays where it is.
//
// Layout: x (BATCH, FROM, WIDTH), y (BATCH, COUNT, WIDTH), contiguous. No local memory.
// Grid: on CPUs ITEMS, local size 1. Wide rows (WIDTH >= VW, VW > 1): equal shares of the BATCH * COUNT rows, lanes along d. Narrow
//   ones: equal shares of the batches, BLOCK at a time, so that places and weights are found once for a block. On GPUs (GPU 1)
//   one item an element. PARAMS, BEGIN, EPILOGUE(a, o, d, v), EPILOGUE_V and T, VW as in matmul.cl; X is the operand.

#define NEAREST 1
#define LINEAR 2
#define AREA 3
#ifndef RULE
#define RULE LINEAR             // whose weights
#endif
#ifndef BLOCK
#define BLOCK 32                // batches that share places and weights
#endif
#ifndef MOST_TAPS
#define MOST_TAPS TAPS          // weights that an item keeps, at least TAPS
#endif

INLINE long below(const long p, const long q) { return p / q - (p % q < 0); }

INLINE T share(const long i, const long h SIZES) {
#if RULE == AREA
    const long s = i * N / M, z = (i * N + N + M - 1) / M;
    return h >= s && h < z ? (T)1 / (T)(z - s) : (T)0;
#elif RULE == NEAREST
    const long away = i * PA + PB - h * PC;
    return away >= 0 && away < PC ? (T)1 : (T)0;
#else
    const long away = abs(clamp(i * PA + PB, (long)0, (long)PC * (N - 1)) - h * PC);
    return away < PC ? (T)(PC - away) / (T)(PC) : (T)0;
#endif
}

// Weights of the taps of result o, 0 outside; returns the first place.
INLINE long taps_of(const long o, T* w SIZES) {
    const long first = below(A * o + B, C);
    for (int k = 0; k < TAPS; k++) {
        const long h = first + k;
        w[k] = h < 0 || h >= FROM ? (T)0 : BACK ? share(h, o SIZES_PASSED) : share(o, h SIZES_PASSED);
    }
    return first;
}

INLINE T total(__global const T* restrict p, const T* w SIZES) {
    T sum = 0;
    for (int k = 0; k < TAPS; k++)
        if (w[k] != 0) sum += w[k] * p[(long)k * WIDTH];
    return sum;
}

__kernel void resample(PARAMS) {
    BEGIN
    T w[MOST_TAPS];
#if GPU
    const size_t e = get_global_id(0), d = e % WIDTH, r = e / WIDTH;
    if (r >= (size_t)BATCH * COUNT) return;
    const size_t a = r / COUNT, o = r % COUNT;
    const long first = taps_of(o, w SIZES_PASSED);
    const T v = total(X + ((long)(a * FROM) + first) * WIDTH + (long)d, w SIZES_PASSED);
    EPILOGUE(a, o, d, v);
#elif VW > 1
    const size_t start = get_global_id(0) * CHUNK, stop = min(start + CHUNK, (size_t)BATCH * COUNT);
    for (size_t r = start; r < stop; r++) {
        const size_t a = r / COUNT, o = r % COUNT;
        __global const T* restrict p = X + ((long)(a * FROM) + taps_of(o, w SIZES_PASSED)) * WIDTH;
        size_t d = 0;
        for (; d + VW <= WIDTH; d += VW) {
            VT sum = 0;
            for (int k = 0; k < TAPS; k++)
                if (w[k] != 0) sum += w[k] * VLOAD(p + (long)k * WIDTH + (long)d);
            EPILOGUE_V(a, o, d, sum);
        }
        for (; d < WIDTH; d++) { const T v = total(p + d, w SIZES_PASSED); EPILOGUE(a, o, d, v); }
    }
#else
    const size_t start = get_global_id(0) * CHUNK, stop = min(start + CHUNK, (size_t)BATCH);
    for (size_t low = start; low < stop; low += BLOCK) {
        const size_t high = min(low + BLOCK, stop);
        for (size_t o = 0; o < COUNT; o++) {
            const long first = taps_of(o, w SIZES_PASSED);
            for (size_t a = low; a < high; a++)
                for (size_t d = 0; d < WIDTH; d++) {
                    const T v = total(X + ((long)(a * FROM) + first) * WIDTH + (long)d, w SIZES_PASSED);
                    EPILOGUE(a, o, d, v);
                }
        }
    }
#endif
}
