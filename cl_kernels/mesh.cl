// mesh: edges of triangle meshes that collapse, the shortest first, and sums of their features along the way.
//
//   COLLAPSE  which edges collapse, and what is left: a walk in the order of norms, by one work-item. An edge (u, v) between the triangles
//             (e, a, b) and (e, c, d) goes if all four are there and differ and u and v have two common neighbours: b becomes a, d becomes c,
//             v becomes u. Result, numbers one after another: COUNT times e, a, b, c, d; the ROWS edges that are left; the neighbours (4) of each
//             of those, by their new numbers; its two vertices. Where too few edges could go, all but the first part is -1.
//   MERGE     y = x with, collapse after collapse, y(a) += y(e) + y(b), y(c) += y(e) + y(d); REVERSE: its adjoint. A work-item a channel.
//
// Layout: norms (EDGES), table (EDGES, 4), vertices (EDGES, 2), x (EDGES, CHANNELS), plan as COLLAPSE gives it. COLLAPSE needs ROWS =
//   EDGES - 3 COUNT. Its time grows with EDGES times the edges looked at. No local memory; scratch as the names below say.
//   PARAMS, BEGIN, EPILOGUE(coordinates, value) and T as in matmul.cl; S the type of norms.

#define COLLAPSE 1
#define MERGE 2
#ifndef STAGE
#define STAGE MERGE             // which of them
#endif
#ifndef REVERSE
#define REVERSE 0               // 1: the adjoint
#endif

#if STAGE == COLLAPSE

#define INTS(s) ((__global int*)(s))

INLINE bool before(__global const S* restrict norms, const int a, const int b) {
    return norms[a] < norms[b] || (norms[a] == norms[b] && a < b);
}

// Puts the edge at place i of the heap where it belongs among those below.
INLINE void sink(__global const S* restrict norms, __global int* heap, size_t i, const size_t size) {
    const int e = heap[i];
    for (size_t k = 2 * i + 1; k < size; k = 2 * i + 1) {
        if (k + 1 < size && before(norms, heap[k + 1], heap[k])) k++;
        if (!before(norms, heap[k], e)) break;
        heap[i] = heap[k];
        i = k;
    }
    heap[i] = e;
}

// How many vertices other than u and v have an edge to both.
INLINE size_t common_neighbours(__global const int* ends, __global const int* alive, __global int* around, const int u, const int v SIZES) {
    size_t many = 0, found = 0;
    for (size_t f = 0; f < EDGES; f++)
        if (alive[f] && (ends[2 * f] == u || ends[2 * f + 1] == u)) around[many++] = ends[2 * f] == u ? ends[2 * f + 1] : ends[2 * f];
    for (size_t f = 0; f < EDGES; f++)
        if (alive[f] && (ends[2 * f] == v || ends[2 * f + 1] == v)) {
            const int w = ends[2 * f] == v ? ends[2 * f + 1] : ends[2 * f];
            for (size_t k = 0; k < many; k++) found += w != u && around[k] == w;
        }
    return found;
}

// Edge `keep` takes the place of `drop`: its triangles are the other ones of both.
INLINE void join(__global int* near, __global int* alive, const int e, const int keep, const int drop) {
    const size_t k = near[4 * keep] == e || near[4 * keep + 1] == e ? 2 : 0, d = near[4 * drop] == e || near[4 * drop + 1] == e ? 2 : 0;
    const int row[4] = {near[4 * keep + k], near[4 * keep + k + 1], near[4 * drop + d], near[4 * drop + d + 1]};
    for (size_t j = 0; j < 4; j++) near[4 * keep + j] = row[j];
    for (size_t q = 2; q < 4; q++)
        for (size_t j = 0; row[q] >= 0 && j < 4; j++)
            if (near[4 * row[q] + j] == drop) near[4 * row[q] + j] = keep;
    alive[drop] = 0;
}

__kernel void collapse(PARAMS) {
    BEGIN
    if (get_global_id(0)) return;
    __global int *heap = INTS(order), *near = INTS(nearby), *ends = INTS(corners), *alive = INTS(left), *around = INTS(others);
    size_t size = EDGES, done = 0;
    for (size_t i = 0; i < EDGES; i++) {
        heap[i] = i;
        alive[i] = 1;
        for (size_t j = 0; j < 4; j++) near[4 * i + j] = table[4 * i + j] < EDGES ? table[4 * i + j] : -1;
        for (size_t j = 0; j < 2; j++) ends[2 * i + j] = vertices[2 * i + j];
    }
    for (size_t i = EDGES / 2; i-- > 0;) sink(norms, heap, i, size);
    while (done < COUNT && size) {
        const int e = heap[0];
        heap[0] = heap[--size];
        if (size) sink(norms, heap, 0, size);
        if (!alive[e]) continue;
        const int a = near[4 * e], b = near[4 * e + 1], c = near[4 * e + 2], d = near[4 * e + 3], u = ends[2 * e], v = ends[2 * e + 1];
        if (a < 0 || b < 0 || c < 0 || d < 0 || a == b || a == c || a == d || b == c || b == d || c == d) continue;
        if (common_neighbours(ends, alive, around, u, v SIZES_PASSED) != 2) continue;
        join(near, alive, e, a, b);
        join(near, alive, e, c, d);
        alive[e] = 0;
        for (size_t i = 0; i < 2 * (size_t)EDGES; i++) if (ends[i] == v) ends[i] = u;
        const int gone[5] = {e, a, b, c, d};
        for (size_t j = 0; j < 5; j++) { EPILOGUE((5 * done + j), gone[j]); }
        done++;
    }
    const bool whole = done == COUNT;
    const int none = -1;
    for (size_t i = 5 * done; i < 5 * (size_t)COUNT; i++) { EPILOGUE(i, none); }
    size_t row = 0, at = 5 * COUNT;
    for (size_t i = 0; i < EDGES; i++) heap[i] = alive[i] ? (int)row++ : -1;   // from here on, the new numbers
    row = 0;
    for (size_t i = 0; i < EDGES && row < ROWS; i++) {
        if (!alive[i]) continue;
        const int number = whole ? (int)i : -1;
        EPILOGUE((at + row), number);
        for (size_t j = 0; j < 4; j++) {
            const int next = whole && near[4 * i + j] >= 0 ? heap[near[4 * i + j]] : -1;
            EPILOGUE((at + ROWS + 4 * row + j), next);
        }
        for (size_t j = 0; j < 2; j++) {
            const int corner = whole ? ends[2 * i + j] : -1;
            EPILOGUE((at + 5 * ROWS + 2 * row + j), corner);
        }
        row++;
    }
}

#else

#define SUMS ((__global T*)sums)
#define AT(e) SUMS[(size_t)(e) * CHANNELS + c]

__kernel void merge(PARAMS) {
    BEGIN
    const size_t c = get_global_id(0);
    if (c >= CHANNELS) return;
    for (size_t e = 0; e < EDGES; e++) AT(e) = x[e * CHANNELS + c];
    for (size_t i = 0; i < COUNT; i++) {
        __global const int* restrict p = plan + 5 * (REVERSE ? COUNT - 1 - i : i);
        if (p[0] < 0) continue;
#if REVERSE
        AT(p[0]) += AT(p[1]) + AT(p[3]);
        AT(p[2]) += AT(p[1]);
        AT(p[4]) += AT(p[3]);
#else
        AT(p[1]) += AT(p[0]) + AT(p[2]);
        AT(p[3]) += AT(p[0]) + AT(p[4]);
#endif
    }
    for (size_t e = 0; e < EDGES; e++) {
        const T value = AT(e);
        EPILOGUE(e, c, value);
    }
}

#endif
