// rows.h: numbers of rows as users give them. Needs ROWS, SIZES and vector.h.

// The row that i names, a negative one from the end; ROWS for one outside. With branches: of what has none compilers make gathers of the
// processor, which take twice as long on a Xeon as one load after another.
INLINE size_t row_of(long i SIZES) {
    i += i < 0 ? ROWS : 0;
    return i >= 0 && i < ROWS ? (size_t)i : ROWS;
}

// The same without branches, for what is added one after another.
INLINE size_t target_row(const long i SIZES) {
    return min((size_t)(i + (i < 0 ? ROWS : 0)), (size_t)ROWS);  // what is negative still is large now
}
