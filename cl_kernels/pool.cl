// pool: maxima and sums over windows, where the maximum was, and both ways back, on CPUs.
//
//     MAX    y[p] = max over offsets k of x[p * S + k * D - LOW], NaN wins           INDEX  the first k that has it, row-major
//     SUM    y[p] = sum over k                                                        (padding: -inf for MAX and INDEX, 0 for SUM)
//     MAX_AND_INDEX  both of one search
//     MAX_BACK   x[h] = sum over the windows p whose index points at h of g[p]
//     SUM_BACK   x[h] = sum over the windows p that contain h of g[p]
//
// The generator prepends include/vector.h and PARAMS, BEGIN, T (element type of the result), VW;
//   EPILOGUE(c, i, v)  stores element i of plane c, EPILOGUE(c, i, v, n) with its index; EPILOGUE_V VW of them
//   DATA (pointer), E (its element type), CHANNELS (planes: N * C), Z Y X (data), RZ RY RX (results), S_* (stride), LOW_* (padding)
//   PZ PY PX           padded sizes;  TAPS lists where each of the T_ALL offsets reads in the padded plane, row-major
// Grid (ITEMS), local size 1: a work-item takes whole planes, one after another:
//   forward: copy the plane, padded, to private memory; lanes follow results along x; the results are gathered in private memory,
//     where lanes past a row are overwritten by the next one, and stored in whole vectors
//   back: add into a padded private plane, windows in order, so that no two writers meet; drop the padding; store in whole vectors
// Private memory PZ * PY * PX + RZ * RY * RX elements. Tunable: ITEMS.

#include "include/pool.h"

#ifndef ITEMS
#define ITEMS 8                 // work-items that share the planes
#endif
#if VW == 1
#define EV E
#define BYTES(v) ((uchar)(v))
#define STORE_BYTES(v, p) (*(p) = (v))
#define LOAD_BYTES(p) (*(p))
#else
#define EV CAT(E, VW)
#define BYTES(v) CAT(convert_uchar, VW)(v)
#define STORE_BYTES(v, p) CAT(vstore, VW)((v), 0, (p))
#define LOAD_BYTES(p) CAT(vload, VW)(0, (p))
#endif
#define PADDED (PZ * PY * PX)
#define RESULTS (RZ * RY * RX)

__constant uint taps[] = {TAPS};

// VW values that are S_X apart.
INLINE EV strided(const E* restrict p) {
#if VW == 1 || S_X == 1
    return VLOAD_P(p);
#elif S_X == 2
    return (EV)(VLOAD_P(p).even, VLOAD_P(p + VW).even);
#else
    E lanes[VW];
    UNROLL for (int l = 0; l < VW; l++) lanes[l] = p[l * S_X];
    return VLOAD_P(lanes);
#endif
}

// The two may overlap (to before from): no restrict.
INLINE void copy_row(E* to, const E* from, const size_t n) {
    size_t i = 0;
    for (; i + VW <= n; i += VW) VSTORE_P(VLOAD_P(from + i), to + i);
    for (; i < n; i++) to[i] = from[i];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pool(PARAMS) {
    BEGIN
    // lanes past the last result of a row read past it: the slack makes that memory
    E plane[PADDED + (S_X + 1) * VW] __attribute__((aligned(64)));
#if FORWARD
    E out[RESULTS + VW] __attribute__((aligned(64)));
#if WITH_INDEX
    uchar numbers[RESULTS + VW] __attribute__((aligned(64)));
#endif
    const E outside = VARIANT == SUM ? 0 : -INFINITY;
    for (size_t i = 0; i < PADDED + (S_X + 1) * VW; i++) plane[i] = outside;
#endif
    const size_t item = get_global_id(0);
    for (size_t c = item * CHANNELS / ITEMS; c < (item + 1) * CHANNELS / ITEMS; c++) {
#if FORWARD
        __global const E* restrict from = DATA + c * ((size_t)Z * Y * X);
        for (size_t z = 0; z < Z; z++)
            for (size_t y = 0; y < Y; y++, from += X) {
                E* restrict to = plane + ((z + LOW_Z) * PY + y + LOW_Y) * PX + LOW_X;
                size_t i = 0;
                for (; i + VW <= X; i += VW) VSTORE_P(VLOAD(from + i), to + i);
                for (; i < X; i++) to[i] = from[i];
            }
        for (size_t z = 0; z < RZ; z++)
            for (size_t y = 0; y < RY; y++)
                for (size_t x = 0; x < RX; x += VW) {
                    const E* restrict window = plane + (z * S_Z * PY + y * S_Y) * PX + x * S_X;
                    EV best = (EV)(outside), number = (EV)(0);
                    for (size_t t = 0; t < T_ALL; t++) {
                        const EV v = strided(window + taps[t]);
#if VARIANT == SUM
                        best += v;
#elif VARIANT == MAX
                        best = v > best || v != v ? v : best;
#else
                        number = (v > best || v != v) && best == best ? (EV)((E)t) : number;
                        best = (v > best || v != v) && best == best ? v : best;
#endif
                    }
                    const size_t at = (z * RY + y) * RX + x;
                    VSTORE_P(best, out + at);
#if WITH_INDEX
                    STORE_BYTES(BYTES(number), numbers + at);
#endif
                }
        size_t i = 0;
        for (; i + VW <= RESULTS; i += VW) { LEAVE(EPILOGUE_V, c, i, VLOAD_P(out + i), LOAD_BYTES(numbers + i)); }
        for (; i < RESULTS; i++) { LEAVE(EPILOGUE, c, i, out[i], numbers[i]); }
#else
        __global const E* restrict from = DATA + c * (size_t)RESULTS;
        for (size_t i = 0; i < PADDED; i++) plane[i] = 0;
        for (size_t z = 0, r = 0; z < RZ; z++)
            for (size_t y = 0; y < RY; y++)
                for (size_t x = 0; x < RX; x++, r++) {
                    E* restrict window = plane + (z * S_Z * PY + y * S_Y) * PX + x * S_X;
#if VARIANT == MAX_BACK
                    window[taps[index[c * RESULTS + r]]] += from[r];
#else
                    const E g = from[r];
                    for (size_t t = 0; t < T_ALL; t++) window[taps[t]] += g;
#endif
                }
        for (size_t z = 0; z < Z; z++)                  // in place: rows only move towards the front
            for (size_t y = 0; y < Y; y++) copy_row(plane + (z * Y + y) * X, plane + ((z + LOW_Z) * PY + y + LOW_Y) * PX + LOW_X, X);
        size_t i = 0;
        for (; i + VW <= Z * Y * X; i += VW) { EPILOGUE_V(c, i, VLOAD_P(plane + i)); }
        for (; i < Z * Y * X; i++) { EPILOGUE(c, i, plane[i]); }
#endif
    }
}
