// attention.h: what the attention kernels of all devices share: who attends to whom. After vector.h; the macros of attention.cl.

#define SHARE (H / HK)          // query heads of a key head
#define MOST 10.0f              // score - lse is at most 0 but for rounding; an lse of other scores shall not overflow

#ifndef QUERIES_OF
#define QUERIES_OF QUERIES      // what QUERIES is a multiple of: itself, or less where it is an argument of the kernel
#endif
#ifndef KEYS_OF
#define KEYS_OF KEYS
#endif
#ifndef Q_OF
#define Q_OF (Q_N | Q_H | Q_T)  // alike of the strides of rows, as far as powers of two go
#endif
#ifndef K_OF
#define K_OF (K_N | K_H | K_S)
#endif
#ifndef V_OF
#define V_OF (V_N | V_H | V_S)
#endif
#ifndef G_OF
#define G_OF (G_N | G_H | G_T)
#endif

// Keys that query t may attend to: the first so many.
INLINE size_t limit(const size_t t SIZES) {
#if CAUSAL
    const long n = (long)t + 1 + KEYS - QUERIES;
    return n < 0 ? 0 : min((size_t)n, (size_t)KEYS);
#else
    return KEYS;
#endif
}

// The largest limit of `rows` queries from t on, counted from key j0, at most `most`.
INLINE size_t reach(const size_t t, const size_t rows, const size_t j0, const size_t most SIZES) {
    const size_t n = limit(min(t + rows, (size_t)QUERIES) - 1 SIZES_PASSED);
    return n <= j0 ? 0 : min(n - j0, most);
}

// The first tile of `tile` queries in which one may attend to key j.
INLINE uint first_tile(const uint j, const uint tile SIZES) {
    const long least = CAUSAL ? (long)j + QUERIES - KEYS : 0;
    return least <= 0 ? 0 : (uint)least / tile * tile;
}

#if MASKED
#define MASK(t, j) mask + n * MASK_N + h * MASK_H + (t) * MASK_T + (j) * MASK_S
#else
#define MASK(t, j) 0
#endif
#if MASKED == 1
#define MASK_POINTER __global const uchar* restrict
#elif MASKED == 2
#define MASK_POINTER __global const T* restrict
#else
#define MASK_POINTER const T*
#endif

INLINE T finite_or_0(const T x) { return x - x == 0 ? x : 0; }
