// rows.h: numbers of rows as users give them. Needs ROWS, SIZES and vector.h.

// The row that i names, a negative one from the end; ROWS for one outside.
INLINE size_t row_of(long i SIZES) {
    return min((size_t)(i + (i < 0 ? ROWS : 0)), (size_t)ROWS);  // what is negative still is large now
}
