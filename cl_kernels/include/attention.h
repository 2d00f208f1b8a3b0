// attention.h: what the attention kernels of all devices share: who attends to whom. After vector.h; the macros of attention.cl.
//
// PACKED: sequences lie one after another in q(1, H, ALL_QUERIES, D), k and v(1, HK, ALL_KEYS, ..); that of number s has the queries from
// offsets(s) up to offsets(s + 1) and the keys from key_offsets(s) on, s < SEQUENCES. QUERIES and KEYS are then those of the sequence
// that a work-item is at, and PART_OF_QUERIES or PART_OF_KEYS finds it: a part is up to `rows` of them. Part j of sequence s has number
// offsets(s) / rows + s + j (integer division): the numbers of different sequences never meet, ALL_QUERIES / rows + SEQUENCES + 1 of them
// are enough, and a search in offsets finds the sequence of a number. Some parts are empty: QUERIES and KEYS are 0 there (none returns
// before a barrier: PoCL computes something else then). What lies behind the last sequence is one more, in which nothing attends.
// Offsets are kept within the rows, whatever they are.

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

#if PACKED

// Where sequence s begins among `count` rows; the one behind the last, and its end, count as well.
INLINE size_t edge(__global const int* restrict offsets, const size_t step, const size_t s, const size_t sequences, const size_t count) {
    return s == 0 ? 0 : s > sequences ? count : min((size_t)max(offsets[s * step], 0), count);
}

// The last sequence whose parts are numbered from at most `part`.
INLINE size_t sequence_of(__global const int* restrict offsets, const size_t step, const size_t sequences, const size_t count, const size_t rows,
                          const size_t part) {
    size_t low = 0, high = sequences + 1;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (edge(offsets, step, middle, sequences, count) / rows + middle <= part) low = middle; else high = middle;
    }
    return low;
}

#define EDGE_Q(s) edge(offsets, QO_N, s, SEQUENCES, ALL_QUERIES)
#define EDGE_K(s) edge(key_offsets, KO_N, s, SEQUENCES, ALL_KEYS)
#define PART_OF_QUERIES(first, part, rows)                                                                 \
    const size_t n = 0, sequence_ = sequence_of(offsets, QO_N, SEQUENCES, ALL_QUERIES, rows, part);        \
    const size_t from_ = EDGE_Q(sequence_), own_ = max(EDGE_Q(sequence_ + 1), from_) - from_;              \
    const size_t first_ = ((part) - (from_ / (rows) + sequence_)) * (rows), first = first_ < own_ ? first_ : 0; \
    const size_t QUERIES = first_ < own_ ? own_ : 0, query_at = first_ < own_ ? from_ : 0;                 \
    const bool seeing_ = first_ < own_ && sequence_ < SEQUENCES;                                           \
    const size_t key_at = seeing_ ? EDGE_K(sequence_) : 0, KEYS = seeing_ ? max(EDGE_K(sequence_ + 1), key_at) - key_at : 0;
#define PART_OF_KEYS(first, part, rows)                                                                    \
    const size_t n = 0, sequence_ = sequence_of(key_offsets, KO_N, SEQUENCES, ALL_KEYS, rows, part);       \
    const size_t from_ = EDGE_K(sequence_), own_ = max(EDGE_K(sequence_ + 1), from_) - from_;              \
    const size_t first_ = ((part) - (from_ / (rows) + sequence_)) * (rows), first = first_ < own_ ? first_ : 0; \
    const size_t KEYS = first_ < own_ ? own_ : 0, key_at = first_ < own_ ? from_ : 0;                      \
    const bool seeing_ = first_ < own_ && sequence_ < SEQUENCES;                                           \
    const size_t query_at = seeing_ ? EDGE_Q(sequence_) : 0, QUERIES = seeing_ ? max(EDGE_Q(sequence_ + 1), query_at) - query_at : 0;
#define LENGTHS SIZES, const size_t QUERIES, const size_t KEYS
#define LENGTHS_PASSED SIZES_PASSED, QUERIES, KEYS
#define QUERY_ROW query_at          // of results: the first of this batch
#define KEY_ROW key_at
#define OF_QUERIES(step, along) (query_at * (along))   // the first element of an operand
#define OF_KEYS(step, along) (key_at * (along))

#else

#define PART_OF_QUERIES(first, part, rows) const size_t n = get_global_id(1) / H, first = (part) * (rows);
#define PART_OF_KEYS(first, part, rows) const size_t n = get_global_id(1) / HK, first = (part) * (rows);
#define LENGTHS SIZES
#define LENGTHS_PASSED SIZES_PASSED
#define QUERY_ROW (n * QUERIES)
#define KEY_ROW (n * KEYS)
#define OF_QUERIES(step, along) (n * (step))
#define OF_KEYS(step, along) (n * (step))

#endif

// Keys that query t may attend to: the first so many.
INLINE size_t limit(const size_t t LENGTHS) {
#if CAUSAL
    const long n = (long)t + 1 + KEYS - QUERIES;
    return n < 0 ? 0 : min((size_t)n, (size_t)KEYS);
#else
    return KEYS;
#endif
}

// The largest limit of `rows` queries from t on, counted from key j0, at most `most`.
INLINE size_t reach(const size_t t, const size_t rows, const size_t j0, const size_t most LENGTHS) {
    const size_t n = limit(min(t + rows, (size_t)QUERIES) - 1 LENGTHS_PASSED);
    return n <= j0 ? 0 : min(n - j0, most);
}

// The first tile of `tile` queries in which one may attend to key j.
INLINE uint first_tile(const uint j, const uint tile LENGTHS) {
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
