// share.h: rows of very different lengths dealt out evenly: a work-item starts where its share of the work does. Needs ROWS, SIZES and vector.h.

// The first row whose share of the work (its entries and itself, all before it) reaches `target`.
INLINE size_t row_at(__global const uint* restrict at, const size_t target SIZES) {
    size_t v = 0, end = ROWS;
    while (v < end) {
        const size_t middle = (v + end) / 2;
        if (at[middle] + middle < target) v = middle + 1; else end = middle;
    }
    return v;
}
