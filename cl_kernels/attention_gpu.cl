// attention_gpu: attention of attention.cl on GPUs, portable: work-groups and local memory, one element a load.
//
// Operands, results, macros and formulas as in attention.cl. A work-group of L * L items, L = B / 4, owns a tile of B queries
// (GRADIENTS 2: of B keys) and walks over tiles of B keys (queries) that are copied into local memory. Item (a, b) has the
// 4 x 4 scores of rows a, a + L, .. and columns b, b + L, .. in registers, and of each result the rows a + L i and features b + L c.
//   forward    grid (tiles * L * L, N * H): maximum over the items of a row through local memory; sums are joined at the end
//   backward   GRADIENTS 1: dq, grid (tiles * L * L, N * H); 2: dk and dv, grid (tiles * L * L, N * HK), all heads of a group
// Local memory: features are rows of D + 1 (E + 1) elements, so that neighbours in a column are in different banks;
// forward B * (D + max(D, E) + B + L + 3), backward B * (2 D + 2 E + 2 B + 6) elements. Any D and E; registers grow with them.

#ifndef B
#define B 32                    // queries and keys of a tile, a multiple of 4
#endif
#ifndef GRADIENTS
#define GRADIENTS 1
#endif

#include "include/attention.h"

#define L (B / 4)
#define ROW(i) (a + L * (i))
#define COLUMN(j) (b + L * (j))
#define CD ((D + L - 1) / L)    // features of an item
#define CE ((E + L - 1) / L)
#define GRID const size_t item = get_local_id(0), a = item / L, b = item % L, first = get_group_id(0) * B;
#define SYNC barrier(CLK_LOCAL_MEM_FENCE);

// to[B][n + 1] = B rows of from, 0 beyond `valid`
INLINE void fetch(__local T* to, __global const T* from, const size_t valid, const size_t n, const size_t stride, const size_t step, const size_t item) {
    for (size_t i = item; i < B * n; i += L * L) to[i / n * (n + 1) + i % n] = i / n < valid ? from[i / n * stride + i % n * step] : 0;
}

// s[i][j] = x[row i] . w[column j]
INLINE void dots(T s[4][4], __local const T* x, __local const T* w, const size_t n, const size_t a, const size_t b) {
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) s[i][j] = 0;
    for (size_t k = 0; k < n; k++) {
        T xs[4], ws[4];
        UNROLL for (int i = 0; i < 4; i++) xs[i] = x[ROW(i) * (n + 1) + k];
        UNROLL for (int j = 0; j < 4; j++) ws[j] = w[COLUMN(j) * (n + 1) + k];
        UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) s[i][j] = VFMA(xs[i], ws[j], s[i][j]);
    }
}

// sum[i][c] += weight(row i, k) * x[k][feature c], k < count; a weight is w[row * w_row + k * w_k]
#define GATHER(sum, C, n, w, w_row, w_k, x, count) \
    for (size_t k = 0; k < (count); k++) { \
        T ws[4]; \
        UNROLL for (int i = 0; i < 4; i++) ws[i] = (w)[ROW(i) * (w_row) + k * (w_k)]; \
        UNROLL for (int c = 0; c < (C); c++) { \
            const T f = COLUMN(c) < (n) ? (x)[k * ((n) + 1) + COLUMN(c)] : 0; \
            UNROLL for (int i = 0; i < 4; i++) sum[i][c] = VFMA(ws[i], f, sum[i][c]); \
        } \
    }
#define CLEAR(sum, C) UNROLL for (int i = 0; i < 4; i++) UNROLL for (int c = 0; c < (C); c++) sum[i][c] = 0;
#define STORE(sum, C, n, count, factor, start, row) \
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int c = 0; c < (C); c++) \
        if (ROW(i) < (count) && COLUMN(c) < (n)) { EPILOGUE((start) + (row) * (n) + COLUMN(c), sum[i][c] * (factor)); }

// The score of query t and key j with scale and mask; -INFINITY where it may not attend.
#if MASKED == 1
#define SCORE(x, t, j) (*(MASK(t, j)) ? (x) * (T)(SCALE) : -INFINITY)
#elif MASKED == 2
#define SCORE(x, t, j) ((x) * (T)(SCALE) + *(MASK(t, j)))
#else
#define SCORE(x, t, j) ((x) * (T)(SCALE))
#endif
#define MASK_SCORES(s, t0, j0) \
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) { \
        const size_t t_ = (t0) + ROW(i), j_ = (j0) + COLUMN(j); \
        s[i][j] = t_ < QUERIES && j_ < limit(t_) ? SCORE(s[i][j], t_, j_) : -INFINITY; \
    }

#if !BACKWARD

__kernel __attribute__((reqd_work_group_size(L * L, 1, 1))) void forward(PARAMS) {
    BEGIN
    GRID
    __local T qs[B * (D + 1)], xs[B * ((D > E ? D : E) + 1)], ps[B * (B + 1)], part[B * (L + 1)];
    const size_t n = get_global_id(1) / H, h = get_global_id(1) % H, rows = min((size_t)B, QUERIES - first), end = reach(first, B, 0, KEYS);
    T y[4][CE], maximum[4], sum[4], s[4][4];
    CLEAR(y, CE)
    UNROLL for (int i = 0; i < 4; i++) { maximum[i] = -INFINITY; sum[i] = 0; }
    fetch(qs, q + n * Q_N + h * Q_H + first * Q_T, rows, D, Q_T, Q_D, item);
    for (size_t j0 = 0; j0 < end; j0 += B) {
        const size_t block = min((size_t)B, end - j0);
        fetch(xs, k + n * K_N + h / SHARE * K_H + j0 * K_S, block, D, K_S, K_D, item);
        SYNC
        dots(s, qs, xs, D, a, b);
        MASK_SCORES(s, first, j0)
        UNROLL for (int i = 0; i < 4; i++) part[ROW(i) * (L + 1) + b] = fmax(fmax(s[i][0], s[i][1]), fmax(s[i][2], s[i][3]));
        SYNC
        fetch(xs, v + n * V_N + h / SHARE * V_H + j0 * V_S, block, E, V_S, V_E, item);
        UNROLL for (int i = 0; i < 4; i++) {
            T now = maximum[i];
            for (int l = 0; l < L; l++) now = fmax(now, part[ROW(i) * (L + 1) + l]);
            const T base = finite_or_0(now), less = now > maximum[i] && maximum[i] != -INFINITY ? exp(finite_or_0(maximum[i]) - base) : 1;
            maximum[i] = now;
            sum[i] *= less;
            UNROLL for (int c = 0; c < CE; c++) y[i][c] *= less;
            UNROLL for (int j = 0; j < 4; j++) {
                const T p = exp(s[i][j] - base);
                ps[ROW(i) * (B + 1) + COLUMN(j)] = p;
                sum[i] += p;
            }
        }
        SYNC
        GATHER(y, CE, E, ps, B + 1, 1, xs, block)
        SYNC
    }
    UNROLL for (int i = 0; i < 4; i++) part[ROW(i) * (L + 1) + b] = sum[i];
    SYNC
    UNROLL for (int i = 0; i < 4; i++) {
        T total = 0;
        for (int l = 0; l < L; l++) total += part[ROW(i) * (L + 1) + l];
        total = total == 0 ? 1 : total;
        UNROLL for (int c = 0; c < CE; c++) y[i][c] /= total;
        if (b == 0 && ROW(i) < rows) { EPILOGUE(LSE_AT + (n * QUERIES + first + ROW(i)) * H + h, finite_or_0(maximum[i]) + log(total)); }
    }
    STORE(y, CE, E, rows, 1, 0, (n * QUERIES + first + ROW(i)) * H + h)
}

#else

#if GRADIENTS == 2
#define KEEP_P(at, p) ps[at] = p;
#else
#define KEEP_P(at, p)
#endif
// p and ds of B queries from t0 and B keys from j0, each item its 4 x 4
#define SLOPE(t0, j0) \
    T s[4][4], w[4][4]; \
    dots(s, qs, ks, D, a, b); \
    dots(w, gs, vs, E, a, b); \
    MASK_SCORES(s, t0, j0) \
    UNROLL for (int i = 0; i < 4; i++) { \
        const bool there = (t0) + ROW(i) < QUERIES; \
        const size_t t = there ? (t0) + ROW(i) : 0; \
        const T up = lse[n * L_N + h * L_H + t * L_T], less = delta[n * A_N + h * A_H + t * A_T]; \
        UNROLL for (int j = 0; j < 4; j++) { \
            const T x = s[i][j] - up, p = there ? exp(x > MOST ? MOST : x) : 0; \
            KEEP_P(ROW(i) * (B + 1) + COLUMN(j), p) \
            ds[ROW(i) * (B + 1) + COLUMN(j)] = there ? p * (w[i][j] - less) : 0; \
        } \
    }
#define FETCH_QUERIES(t0) \
    fetch(qs, q + n * Q_N + h * Q_H + (t0) * Q_T, QUERIES - (t0), D, Q_T, Q_D, item); \
    fetch(gs, g + n * G_N + h * G_H + (t0) * G_T, QUERIES - (t0), E, G_T, G_E, item);
#define FETCH_KEYS(j0, hk) \
    fetch(ks, k + n * K_N + (hk) * K_H + (j0) * K_S, KEYS - (j0), D, K_S, K_D, item); \
    fetch(vs, v + n * V_N + (hk) * V_H + (j0) * V_S, KEYS - (j0), E, V_S, V_E, item);

__kernel __attribute__((reqd_work_group_size(L * L, 1, 1))) void backward(PARAMS) {
    BEGIN
    GRID
    __local T qs[B * (D + 1)], gs[B * (E + 1)], ks[B * (D + 1)], vs[B * (E + 1)], ds[B * (B + 1)];
#if GRADIENTS == 1
    const size_t n = get_global_id(1) / H, h = get_global_id(1) % H, end = reach(first, B, 0, KEYS);
    T dq[4][CD];
    CLEAR(dq, CD)
    FETCH_QUERIES(first)
    for (size_t j0 = 0; j0 < end; j0 += B) {
        FETCH_KEYS(j0, h / SHARE)
        SYNC
        SLOPE(first, j0)
        SYNC
        GATHER(dq, CD, D, ds, B + 1, 1, ks, min((size_t)B, KEYS - j0))
        SYNC
    }
    STORE(dq, CD, D, QUERIES - first, (T)(SCALE), 0, (n * QUERIES + first + ROW(i)) * H + h)
#else
    __local T ps[B * (B + 1)];
    const size_t n = get_global_id(1) / HK, hk = get_global_id(1) % HK;
    T dk[4][CD], dv[4][CE];
    CLEAR(dk, CD)
    CLEAR(dv, CE)
    FETCH_KEYS(first, hk)
    for (size_t h = hk * SHARE; h < (hk + 1) * SHARE; h++)
        for (size_t t0 = 0; t0 < QUERIES; t0 += B) {
            if (!reach(t0, B, first, B)) continue;
            FETCH_QUERIES(t0)
            SYNC
            SLOPE(t0, first)
            SYNC
            GATHER(dv, CE, E, ps, 1, B + 1, gs, min((size_t)B, QUERIES - t0))
            GATHER(dk, CD, D, ds, 1, B + 1, qs, min((size_t)B, QUERIES - t0))
            SYNC
        }
    STORE(dk, CD, D, KEYS - first, (T)(SCALE), DK_AT, (n * KEYS + first + ROW(i)) * HK + hk)
    STORE(dv, CE, E, KEYS - first, 1, DV_AT, (n * KEYS + first + ROW(i)) * HK + hk)
#endif
}

#endif
