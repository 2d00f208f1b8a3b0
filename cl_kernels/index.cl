// index: gather   y(a, e, d) = x(a, index(e), d)                                          STAGE GATHER
//        scatter  y(a, v, d) = sum (SUM) or number of the first maximum (ARGMAX) over the edges e with index(e) = v
//
// The scatter is a stable sort of the edges by row and a walk over each row's edges in their order: the same bits on every
// run, without float atomics. Stages of the sort, once per digit of BITS bits (one digit where the counters fit a cache):
//   COUNT   item p counts the digits of its CHUNK edges: counts[digit][p], P items; on CPUs counts[p][digit], for items that write
//           the same cache line wait for each other
//   SCAN    one group of GROUP items makes the counts starts (exclusive sum in the order of digit, p); where the digit is the ONLY
//           one, a CPU's gives the offsets, too
//   PLACE   item p writes its edges where they belong; FIRST reads edges 0, 1, ..., else the previous digit's order
//   BOUNDS  offsets[v] = the first place of row v in the order, for v = 0 .. ROWS
// A CPU does without where rows are short or cores few: OWN walks over all edges in each item and adds those of the item's CHUNK rows.
// Few edges on a GPU need one stage: RANK counts, for each edge and each row, the keys row(e) EDGES + e (32 bits) before its own:
//   the edge's place in the order, the row's offset.
// Negative indices count from the end. An index outside is row ROWS: a gather gives MISSING there, a scatter drops the edge.
//
// Layout: x (BATCH, ROWS, WIDTH), in 16 bits where X_KIND says so, index (EDGES), source (BATCH, EDGES, WIDTH), all contiguous.
// Grid: COUNT, PLACE (P); SCAN (GROUP); RANK (EDGES + ROWS + 1, LINES), local size (32, LINES); BOUNDS (rows / CHUNK); on CPUs (per item
//   CHUNK rows, or ITEMS x WIDTH / CHUNK with equal shares of rows + edges), OWN (rows / CHUNK), local size 1; on GPUs one item VW neighbours of the result
//   along d (VW divides WIDTH), numbered by ITEMs. No local memory but SCAN's GROUP words and RANK's TILE + 32 LINES.
//   PARAMS, BEGIN, EPILOGUE(a, r, d, v), EPILOGUE_V and T, VW as in matmul.cl; GPU 0 or 1.

#define GATHER 1
#define COUNT 2
#define SCAN 3
#define PLACE 4
#define BOUNDS 5
#define SUM 6
#define ARGMAX 7
#define RANK 8
#define OWN 9
#ifndef STAGE
#define STAGE GATHER            // which of them
#endif
#ifndef LINES
#define LINES 8                 // RANK: items that share the count of one edge or row, a power of two
#endif
#ifndef TILE
#define TILE 1024               // RANK: keys in local memory at a time, a power of two of at least 4 LINES
#endif

#include "include/rows.h"

#define ORDER(s) ((__global uint*)(s))

#ifndef ITEM
#define ITEM size_t             // uint where every element's number fits
#endif
#ifndef X_ALIGN
#define X_ALIGN 1
#endif
#ifndef SOURCE_ALIGN
#define SOURCE_ALIGN 1
#endif
#ifndef X_KIND
#define X_KIND SAME             // how x is stored (vector.h), in a gather
#endif
#if VW == 1
#define TAKE(KIND, p, ALIGN) SCALAR_OF(KIND, p)
#else
#define TAKE(KIND, p, ALIGN) (ALIGN % VW ? ANYWHERE_OF(KIND, p) : VLOAD_OF(KIND, p))
#endif

#if STAGE == GATHER

__kernel void gather(PARAMS) {
    BEGIN
#if GPU
    const ITEM i = get_global_id(0), d = i % (WIDTH / VW) * VW, r = i / (WIDTH / VW), a = r / EDGES, e = r % EDGES;
    if (r >= (ITEM)BATCH * EDGES) return;
    const size_t v = row_of(index[e] SIZES_PASSED);
    VT value = VSPLAT((T)(MISSING));
    if (v < ROWS) value = TAKE(X_KIND, x + (a * ROWS + v) * WIDTH + d, X_ALIGN);
    EPILOGUE_V(a, e, d, value);
#else
    const size_t first = get_global_id(0) * CHUNK, last = min(first + CHUNK, (size_t)BATCH * EDGES);
    for (size_t r = first; r < last; r++) {
        const size_t a = r / EDGES, e = r % EDGES, v = row_of(index[e] SIZES_PASSED);
        size_t d = 0;
        if (v < ROWS) {
            __global const STORED_OF(X_KIND)* from = x + (a * ROWS + v) * WIDTH;
#if VW > 1
            for (; d + VW <= WIDTH; d += VW) { EPILOGUE_V(a, e, d, VLOAD_OF(X_KIND, from + d)); }
#endif
            for (; d < WIDTH; d++) { EPILOGUE(a, e, d, SCALAR_OF(X_KIND, from + d)); }
        } else
            for (; d < WIDTH; d++) { EPILOGUE(a, e, d, (T)(MISSING)); }
    }
#endif
}

#elif STAGE == COUNT || STAGE == PLACE || STAGE == SCAN

#if GPU
#define NEXT_DIGIT P
#define NEXT_ITEM 1
#else
#define NEXT_DIGIT 1
#define NEXT_ITEM (((size_t)1 << BITS) + APART)  // a line apart, and not by a power of two, which would share a set of a cache
#endif
#define PLACE_OF(digit, item) ((digit) * NEXT_DIGIT + (item) * NEXT_ITEM)

#if STAGE == SCAN

__kernel void scan(PARAMS) {
    BEGIN
    __global uint* restrict c = ORDER(counts);
    uint before = 0;
#if GPU
    __local uint sums[GROUP];
    const size_t l = get_local_id(0), total = ((size_t)1 << BITS) * P, share = (total + GROUP - 1) / GROUP;
    const size_t first = l * share, last = min(first + share, total);
    uint sum = 0;
    for (size_t i = first; i < last; i++) sum += c[i];
    sums[l] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t k = 0; k < l; k++) before += sums[k];
    for (size_t i = first; i < last; i++) {
        const uint n = c[i];
        c[i] = before;
        before += n;
    }
#else
    for (size_t k = 0; k < (size_t)1 << BITS; k++) {
#if ONLY
        if (k <= ROWS) ORDER(offsets)[k] = before;
#endif
        for (size_t p = 0; p < P; p++) {
            const uint n = c[PLACE_OF(k, p)];
            c[PLACE_OF(k, p)] = before;
            before += n;
        }
    }
#endif
}

#else

#define DIGIT(e) ((row_of(index[e] SIZES_PASSED) >> SHIFT) & (((size_t)1 << BITS) - 1))
#if FIRST
#define EDGE(i) (i)
#else
#define EDGE(i) ORDER(FROM)[i]
#endif

__kernel void sort(PARAMS) {
    BEGIN
    const size_t p = get_global_id(0), first = p * CHUNK, last = min(first + CHUNK, (size_t)EDGES);
    __global uint* restrict mine = ORDER(counts) + PLACE_OF(0, p);
    if (p >= P) return;
#if STAGE == COUNT
    for (size_t k = 0; k < (size_t)1 << BITS; k++) mine[k * NEXT_DIGIT] = 0;
    for (size_t i = first; i < last; i++) mine[DIGIT(EDGE(i)) * NEXT_DIGIT]++;
#else
    for (size_t i = first; i < last; i++) {
        const uint e = EDGE(i);
        ORDER(TO)[mine[DIGIT(e) * NEXT_DIGIT]++] = e;
    }
#endif
}

#endif

#elif STAGE == RANK

#define KEY(e) ((uint)row_of(index[e] SIZES_PASSED) * EDGES + (uint)(e))
#define QUERIES (EDGES + ROWS + 1)

__kernel __attribute__((reqd_work_group_size(32, LINES, 1)))
void ranks(PARAMS) {
    BEGIN
    __local uint4 keys[TILE / 4];
    __local uint counts[LINES][32];
    const uint l = get_local_id(0), line = get_local_id(1), q = get_global_id(0);
    const uint own = q < EDGES ? KEY(q) : (q - EDGES) * EDGES;
    uint count = 0;
    for (uint first = 0; first < EDGES; first += TILE) {
        for (uint i = line * 32 + l; i < TILE; i += 32 * LINES) ((__local uint*)keys)[i] = first + i < EDGES ? KEY(first + i) : UINT_MAX;
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (uint i = 0; i < TILE / 4 / LINES; i++) {
            const uint4 k = keys[i * LINES + line];
            count += (k.x < own) + (k.y < own) + (k.z < own) + (k.w < own);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    counts[line][l] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (line || q >= QUERIES) return;
    for (uint i = 1; i < LINES; i++) count += counts[i][l];
    if (q < EDGES) ORDER(TO)[count] = q; else ORDER(offsets)[q - EDGES] = count;
}

#elif STAGE == BOUNDS

#define BELOW(i, v) (row_of(index[ORDER(FROM)[i]] SIZES_PASSED) < (v))
#define PUT(v, i) ORDER(offsets)[v] = i;
#include "include/bounds.h"

#elif STAGE == OWN

__kernel void owned(PARAMS) {
    BEGIN
    const size_t v0 = get_global_id(0) * CHUNK, v1 = min(v0 + CHUNK, (size_t)ROWS), n = v1 > v0 ? v1 - v0 : 0;
    __global T* restrict y = (__global T*)sums + v0 * WIDTH;
    for (size_t a = 0; a < BATCH; a++) {
        for (size_t k = 0; k < n * WIDTH; k++) y[k] = 0;
        for (size_t e = 0; e < EDGES; e++) {
            const size_t v = row_of(index[e] SIZES_PASSED) - v0;
            if (v < n)
                for (size_t d = 0; d < WIDTH; d++) y[v * WIDTH + d] += source[(a * EDGES + e) * WIDTH + d];
        }
        size_t k = 0;
#if VW > 1
        for (; k + VW <= n * WIDTH; k += VW) { EPILOGUE_V(a, (v0 * WIDTH + k), VLOAD(y + k)); }
#endif
        for (; k < n * WIDTH; k++) { EPILOGUE(a, (v0 * WIDTH + k), y[k]); }
    }
}

#else

// The first maximum of element d over the edges order[p .. end), a NaN above all; -1 where there is none.
#if STAGE == ARGMAX
INLINE long first_maximum(__global const S* restrict from, __global const uint* restrict order, size_t p, const size_t end SIZES) {
    long best = -1;
    S top = 0;
    for (; p < end; p++) {
        const S s = from[(size_t)order[p] * WIDTH];
        if (best < 0 || s > top || (s != s && top == top)) { top = s; best = order[p]; }
    }
    return best;
}
#endif

INLINE T total_of(__global const S* restrict from, __global const uint* restrict order, size_t p, const size_t end SIZES) {
#if STAGE == ARGMAX
    return first_maximum(from, order, p, end SIZES_PASSED);
#else
    T sum = 0;
#pragma clang loop vectorize(disable) interleave(disable)  // one compiler sums every other edge apart
    for (; p < end; p++) sum += from[(size_t)order[p] * WIDTH];
    return sum;
#endif
}

#include "include/share.h"

// The sums of N vectors of the row's edges, as long as the row has so many.
#define SUM_ROWS(N) \
    for (; d + N * VW <= d1; d += N * VW) { \
        VT sum[N]; \
        UNROLL for (size_t n = 0; n < N; n++) sum[n] = VSPLAT(0); \
        for (size_t p = at[v]; p < at[v + 1]; p++) \
            UNROLL for (size_t n = 0; n < N; n++) sum[n] += VLOAD(from + (size_t)order[p] * WIDTH + d + n * VW); \
        UNROLL for (size_t n = 0; n < N; n++) { EPILOGUE_V(a, v, (d + n * VW), sum[n]); } \
    }

__kernel void segments(PARAMS) {
    BEGIN
    __global const uint* restrict order = ORDER(FROM);
    __global const uint* restrict at = ORDER(offsets);
#if GPU
    const ITEM i = get_global_id(0), d = i % (WIDTH / VW) * VW, v = i / (WIDTH / VW) % ROWS, a = i / (WIDTH / VW) / ROWS;
    if (a >= BATCH) return;
    __global const S* restrict from = source + (size_t)a * EDGES * WIDTH + d;
#if VW > 1
    VT value = VSPLAT(0);
    for (size_t p = at[v]; p < at[v + 1]; p++) value += TAKE(SAME, from + (size_t)order[p] * WIDTH, SOURCE_ALIGN);
#else
    const T value = total_of(from, order, at[v], at[v + 1] SIZES_PASSED);
#endif
    EPILOGUE_V(a, v, d, value);
#else
    const size_t work = at[ROWS] + (size_t)ROWS, t = get_global_id(0);
    const size_t v0 = row_at(at, work * t / ITEMS SIZES_PASSED), v1 = t + 1 == ITEMS ? ROWS : row_at(at, work * (t + 1) / ITEMS SIZES_PASSED);
    const size_t d0 = get_global_id(1) * CHUNK, d1 = min(d0 + CHUNK, (size_t)WIDTH);
    for (size_t a = 0; a < BATCH; a++)
        for (size_t v = v0; v < v1; v++) {
            __global const S* restrict from = source + a * EDGES * WIDTH;
            size_t d = d0;
#if VW > 1
            SUM_ROWS(4)
            SUM_ROWS(2)
            SUM_ROWS(1)
#endif
            for (; d < d1; d++) {
                const T value = total_of(from + d, order, at[v], at[v + 1] SIZES_PASSED);
                EPILOGUE(a, v, d, value);
            }
        }
#endif
}

#endif
