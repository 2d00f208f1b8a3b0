// rows.h: numbers of rows as users give them. Needs ROWS, SIZES and vector.h.

// The row that i names, a negative one from the end; ROWS for one outside.
INLINE size_t row_of(long i SIZES) {
    i += i < 0 ? ROWS : 0;
    return i >= 0 && i < ROWS ? (size_t)i : ROWS;
}
