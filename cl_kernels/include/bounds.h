// bounds.h: how many of EDGES sorted row numbers are below v, for v = 0 .. ROWS, CHUNK of them an item: a search, and a walk from there.
// BELOW(i, v) is whether the i-th number is below v, PUT(v, i) keeps the i found for v. Needs ROWS, EDGES, CHUNK and vector.h.

__kernel void bounds(PARAMS) {
    BEGIN
    const size_t first = get_global_id(0) * CHUNK, last = min(first + CHUNK, (size_t)ROWS + 1);
    if (first >= last) return;
    size_t i = 0, end = EDGES;
    while (i < end) {
        const size_t middle = (i + end) / 2;
        if (BELOW(middle, first)) i = middle + 1; else end = middle;
    }
    for (size_t v = first; v < last; v++) {
        while (i < EDGES && BELOW(i, v)) i++;
        PUT(v, i)
    }
}
