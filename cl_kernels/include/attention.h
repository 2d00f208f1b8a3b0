// attention.h: what the attention kernels of all devices share: who attends to whom. After vector.h; the macros of attention.cl.

#define SHARE (H / HK)          // query heads of a key head
#define MOST 10.0f              // score - lse is at most 0 but for rounding; an lse of other scores shall not overflow

// Keys that query t may attend to: the first so many.
INLINE size_t limit(const size_t t) {
#if CAUSAL
    const long n = (long)t + 1 + KEYS - QUERIES;
    return n < 0 ? 0 : min((size_t)n, (size_t)KEYS);
#else
    return KEYS;
#endif
}

// The largest limit of `rows` queries from t on, counted from key j0, at most `most`.
INLINE size_t reach(const size_t t, const size_t rows, const size_t j0, const size_t most) {
    const size_t n = limit(min(t + rows, (size_t)QUERIES) - 1);
    return n <= j0 ? 0 : min(n - j0, most);
}

// The first tile of `tile` queries in which one may attend to key j.
INLINE uint first_tile(const uint j, const uint tile) {
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
