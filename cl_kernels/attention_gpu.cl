// attention_gpu: attention of attention.cl on GPUs, portable: work-groups and local memory, float32.
//
// Operands, results, macros and formulas as in attention.cl. A work-group of LA * LB items owns a tile of OWN = RI * LA queries (GRADIENTS 2: keys)
// and walks over tiles of WALK = 4 * LB keys (queries) that are copied into local memory. Item (a, b) has the RI x 4 scores of rows a, a + LA, ..
// and columns b, b + LB, .. in registers, and of each result the rows a + LA i and the features 4 (b + LB c) and three more.
//   forward    grid (tiles * LA * LB, N * H): maximum over the items of a row through local memory; sums are joined at the end
//   backward   GRADIENTS 1: owns queries (x: q, w: g), walks over keys (k, v): dq, grid (tiles * LA * LB, N * H). GRADIENTS 2: owns keys (k, v), walks
//              over the queries of all heads of the group (q, g), scores transposed: dk and dv, grid (tiles * LA * LB, N * HK)
// Everything is read in vectors of four along the features (of weights: along the walked rows). Rows in local memory are an odd number of vectors
// long, so that neighbours in a column are in different banks, and filled up with zeros: any D and E; registers grow with E (and D).
// PACKED: sequences of several lengths one after another (include/attention.h); there are SEQUENCES + 1 tiles more.
// Local memory in floats, with S(n) = 4 ((n + 3) / 4 | 1): forward OWN S(D) + max(WALK S(D), OWN S(WALK)) + WALK S(E) + OWN S(LB),
// backward (OWN + WALK) (S(D) + S(E)) + OWN S(WALK), and WALK S(D) more with ASYNC.

#ifndef RI
#define RI 8                    // rows of an item
#endif
#ifndef LA
#define LA 8                    // items along the own rows
#endif
#ifndef LB
#define LB 16                   // items along the walked rows, a multiple of 4
#endif
#ifndef GRADIENTS
#define GRADIENTS 1
#endif
#ifndef ASYNC
#define ASYNC 0                 // 1: backward, walked rows are copied by the memory system while those before are used (NVIDIA from compute capability 8.0)
#endif

#include "include/attention.h"
#if ASYNC
#include "include/ptx.h"
#endif

#define OWN (RI * LA)
#define WALK (4 * LB)
#define ITEMS (LA * LB)
#define VECTORS(n) (((n) + 3) / 4)
#define S(n) (4 * (VECTORS(n) | 1))             // floats from row to row in local memory
#define PER_ITEM(n) ((VECTORS(n) + LB - 1) / LB) // vectors of features of an item
#define ROW(i) (a + LA * (i))
#define COLUMN(j) (b + LB * (j))
#define AT4(p) (*(__local float4*)(p))
#define SYNC barrier(CLK_LOCAL_MEM_FENCE);
#define LOG2E 1.44269504088896340736f
#define LN2 0.69314718055994530942f
#define FACTOR ((float)(SCALE) * LOG2E)         // of scores, so that exp2 serves
#define GRID const uint item = get_local_id(0), a = item / LB, b = item % LB;

// to[rows][S(n)] = rows of from, zeros beyond `valid` rows and n features; `whole`: rows are vectors that lie at multiples of four.
// They are there after ARRIVED.
INLINE void fetch(__local float* to, __global const float* from, const uint rows, const uint valid, const uint n, const size_t stride, const size_t step,
                  const bool whole, const uint item) {
    for (uint i = item; i < rows * VECTORS(n); i += ITEMS) {
        const uint r = i / VECTORS(n), c = i % VECTORS(n) * 4;
        __global const float* p = from + r * stride + c * step;
#if ASYNC
        if (whole) {
            COPY_ASYNC(LOCAL_AT(to + r * S(n) + c), p, r < valid ? 16 : 0);
            continue;
        }
#endif
        float4 v = 0;
        if (r < valid) {
            if (whole) v = *(__global const float4*)p;
            else {
                v.x = *p;
                if (c + 1 < n) v.y = p[step];
                if (c + 2 < n) v.z = p[2 * step];
                if (c + 3 < n) v.w = p[3 * step];
            }
        }
        AT4(to + r * S(n) + c) = v;
    }
}
#define WHOLE(align, n, step, strides) ((step) == 1 && ((align) | (n) | (strides)) % 4 == 0)
#define FETCH_Q(to, rows, h, t0) \
    fetch(to, q + OF_QUERIES(Q_N, Q_T) + (h) * Q_H + (t0) * (size_t)Q_T, rows, min((uint)(rows), (uint)QUERIES - (t0)), D, Q_T, Q_D, WHOLE(Q_ALIGN, D, Q_D, Q_OF), item);
#define FETCH_G(to, rows, h, t0) \
    fetch(to, g + OF_QUERIES(G_N, G_T) + (h) * G_H + (t0) * (size_t)G_T, rows, min((uint)(rows), (uint)QUERIES - (t0)), E, G_T, G_E, WHOLE(G_ALIGN, E, G_E, G_OF), item);
#define FETCH_K(to, rows, hk, j0) \
    fetch(to, k + OF_KEYS(K_N, K_S) + (hk) * K_H + (j0) * (size_t)K_S, rows, min((uint)(rows), (uint)KEYS - (j0)), D, K_S, K_D, WHOLE(K_ALIGN, D, K_D, K_OF), item);
#define FETCH_V(to, rows, hk, j0) \
    fetch(to, v + OF_KEYS(V_N, V_S) + (hk) * V_H + (j0) * (size_t)V_S, rows, min((uint)(rows), (uint)KEYS - (j0)), E, V_S, V_E, WHOLE(V_ALIGN, E, V_E, V_OF), item);

// s[i][j] = x[row i] . w[column j], over n features
INLINE void dots(float s[RI][4], __local const float* x, __local const float* w, const uint n, const uint a, const uint b) {
    UNROLL for (int i = 0; i < RI; i++) UNROLL for (int j = 0; j < 4; j++) s[i][j] = 0;
    x += a * S(n);
    w += b * S(n);
    _Pragma("unroll 4") for (uint k = 0; k < VECTORS(n) * 4; k += 4) {
        float4 xs[RI], ws[4];
        UNROLL for (int i = 0; i < RI; i++) xs[i] = *(__local const float4*)(x + LA * i * S(n) + k);
        UNROLL for (int j = 0; j < 4; j++) ws[j] = *(__local const float4*)(w + LB * j * S(n) + k);
        UNROLL for (int i = 0; i < RI; i++) UNROLL for (int j = 0; j < 4; j++)
            s[i][j] = VFMA(xs[i].w, ws[j].w, VFMA(xs[i].z, ws[j].z, VFMA(xs[i].y, ws[j].y, VFMA(xs[i].x, ws[j].x, s[i][j]))));
    }
}

// y[i][c] += sum over the WALK rows k of p[row i][k] * x[k][vector b + LB c]; vectors behind the last read that, and are not stored
INLINE void gather(float4* y, __local const float* p, __local const float* x, const uint n, const uint a, const uint b) {
    p += a * S(WALK);
    _Pragma("unroll 4") for (uint k = 0; k < WALK; k += 4) {
        float4 ps[RI];
        UNROLL for (int i = 0; i < RI; i++) ps[i] = *(__local const float4*)(p + LA * i * S(WALK) + k);
        UNROLL for (int c = 0; c < PER_ITEM(n); c++) {
            __local const float* f = x + k * S(n) + 4 * min(b + LB * c, (uint)VECTORS(n) - 1);
            const float4 f0 = *(__local const float4*)f, f1 = *(__local const float4*)(f + S(n));
            const float4 f2 = *(__local const float4*)(f + 2 * S(n)), f3 = *(__local const float4*)(f + 3 * S(n));
            UNROLL for (int i = 0; i < RI; i++)
                y[i * PER_ITEM(n) + c] = VFMA((float4)(ps[i].w), f3, VFMA((float4)(ps[i].z), f2, VFMA((float4)(ps[i].y), f1, VFMA((float4)(ps[i].x), f0, y[i * PER_ITEM(n) + c]))));
        }
    }
}
#define CLEAR(y, n) UNROLL for (int i = 0; i < RI * PER_ITEM(n); i++) y[i] = 0;
#if VW == 4
#define WRITE(at, v) EPILOGUE_V(at, (v));
#else
#define WRITE(at, v) EPILOGUE(at, (v).x); if (f + 1 < n_) EPILOGUE((at) + 1, (v).y); if (f + 2 < n_) EPILOGUE((at) + 2, (v).z); if (f + 3 < n_) EPILOGUE((at) + 3, (v).w);
#endif
// Rows of results from element `start` on; row i of the item is row `row` (an expression of i) of all.
#define STORE(y, n, count, factor, start, row)                                                             \
    UNROLL for (int i = 0; i < RI; i++) UNROLL for (int c = 0; c < PER_ITEM(n); c++) {                     \
        const uint f = 4 * COLUMN(c), n_ = n;                                                              \
        const float4 v_ = y[i * PER_ITEM(n) + c] * (factor);                                               \
        if (ROW(i) < (count) && f < n_) { WRITE((start) + (row) * (n) + f, v_) }                           \
    }

// The score of query t and key j times log2(e) with scale and mask; -INFINITY where it may not attend.
#if MASKED == 1
#define SCORE(x, t, j) (*(MASK(t, j)) ? (x) * FACTOR : -INFINITY)
#elif MASKED == 2
#define SCORE(x, t, j) ((x) * FACTOR + *(MASK(t, j)) * LOG2E)
#else
#define SCORE(x, t, j) ((x) * FACTOR)
#endif
#define SCORES(s, crossed, QUERY, KEY)                                                                     \
    if (MASKED || (crossed)) {                                                                             \
        UNROLL for (int i = 0; i < RI; i++) UNROLL for (int j = 0; j < 4; j++) {                           \
            const uint t_ = QUERY, j_ = KEY;                                                               \
            s[i][j] = t_ < QUERIES && j_ < limit(t_ LENGTHS_PASSED) ? SCORE(s[i][j], t_, j_) : -INFINITY;    \
        }                                                                                                  \
    } else                                                                                                 \
        UNROLL for (int i = 0; i < RI; i++) UNROLL for (int j = 0; j < 4; j++) s[i][j] *= FACTOR;

#if !BACKWARD

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void forward(PARAMS) {
    BEGIN
    GRID
    __local float qs[OWN * S(D)] __attribute__((aligned(16))), vs[WALK * S(E)] __attribute__((aligned(16)));
    __local float ks[WALK * S(D) > OWN * S(WALK) ? WALK * S(D) : OWN * S(WALK)] __attribute__((aligned(16))), part[OWN * S(LB)] __attribute__((aligned(16)));
    const size_t h = get_group_id(1) % H;
    PART_OF_QUERIES(begin, get_num_groups(0) - 1 - get_group_id(0), OWN)
    const uint first = (uint)begin, rows = min((uint)OWN, (uint)QUERIES - first);
    const uint end = reach(first, OWN, 0, KEYS LENGTHS_PASSED), open = limit(first LENGTHS_PASSED);
    float4 y[RI * PER_ITEM(E)];
    float maximum[RI], sum[RI], s[RI][4];
    CLEAR(y, E)
    UNROLL for (int i = 0; i < RI; i++) { maximum[i] = -INFINITY; sum[i] = 0; }
    FETCH_Q(qs, OWN, h, first)
    for (uint j0 = 0; j0 < end; j0 += WALK) {
        FETCH_K(ks, WALK, h / SHARE, j0)
        FETCH_V(vs, WALK, h / SHARE, j0)
        SYNC
        dots(s, qs, ks, D, a, b);
        SCORES(s, j0 + WALK > open, first + ROW(i), j0 + COLUMN(j))
        UNROLL for (int i = 0; i < RI; i++) part[ROW(i) * S(LB) + b] = fmax(fmax(s[i][0], s[i][1]), fmax(s[i][2], s[i][3]));
        SYNC
        UNROLL for (int i = 0; i < RI; i++) {
            float4 tops = maximum[i];
            UNROLL for (int l = 0; l < LB; l += 4) tops = fmax(tops, AT4(part + ROW(i) * S(LB) + l));
            const float now = fmax(fmax(tops.x, tops.y), fmax(tops.z, tops.w)), base = isinf(now) ? 0 : now;
            const float less = now > maximum[i] ? exp2(maximum[i] - base) : 1;
            maximum[i] = now;
            float more = 0;
            UNROLL for (int j = 0; j < 4; j++) {
                const float p = exp2(s[i][j] - base);
                ks[ROW(i) * S(WALK) + COLUMN(j)] = p;
                more += p;
            }
            sum[i] = VFMA(sum[i], less, more);
            UNROLL for (int c = 0; c < PER_ITEM(E); c++) y[i * PER_ITEM(E) + c] *= less;
        }
        SYNC
        gather(y, ks, vs, E, a, b);
        SYNC
    }
    UNROLL for (int i = 0; i < RI; i++) part[ROW(i) * S(LB) + b] = sum[i];
    SYNC
    UNROLL for (int i = 0; i < RI; i++) {
        float total = 0;
        for (int l = 0; l < LB; l++) total += part[ROW(i) * S(LB) + l];
        const float lse = total == 0 ? 0 : (maximum[i] + log2(total)) * LN2;
        total = total == 0 ? 1 : total;
        UNROLL for (int c = 0; c < PER_ITEM(E); c++) y[i * PER_ITEM(E) + c] /= total;
        if (b == 0 && ROW(i) < rows) { EPILOGUE(LSE_AT + (QUERY_ROW + first + ROW(i)) * H + h, lse); }
    }
    STORE(y, E, rows, 1.0f, 0, (QUERY_ROW + first + ROW(i)) * H + h)
}

#else

// The next rows of xt and wt: ahead, of xt into the other half and of wt as soon as it is read, or behind all that is done with those before.
#if ASYNC
#define ARRIVED COPY_COMMIT COPY_WAIT(0) SYNC
#define AHEAD(fetch) if (more) { fetch }
#define BEHIND(fetch)
#define OTHER (WALK * S(D))
#else
#define ARRIVED SYNC
#define AHEAD(fetch)
#define BEHIND(fetch) if (more) { SYNC fetch }
#define OTHER 0
#endif

// p, in s, and its cotangent ds, in w, of the own rows and the walked ones, each item its RI x 4
#define SLOPE(crossed, QUERY, KEY, UP, LESS)                                                               \
    dots(s, xs, xt + turn, D, a, b);                                                                       \
    dots(w, ws, wt, E, a, b);                                                                              \
    SCORES(s, crossed, QUERY, KEY)                                                                         \
    UNROLL for (int i = 0; i < RI; i++) UNROLL for (int j = 0; j < 4; j++) {                               \
        /* fmin would lose NaN; where nothing may be attended, infinities of the others must not make one */ \
        const float x_ = s[i][j] - (UP), p_ = exp2(x_ > MOST * LOG2E ? MOST * LOG2E : x_);                 \
        w[i][j] = s[i][j] == -INFINITY ? 0 : p_ * (w[i][j] - (LESS));                                      \
        s[i][j] = s[i][j] == -INFINITY ? 0 : p_;                                                           \
    }
#define KEEP(s) UNROLL for (int i = 0; i < RI; i++) UNROLL for (int j = 0; j < 4; j++) ps[ROW(i) * S(WALK) + COLUMN(j)] = s[i][j];

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void backward(PARAMS) {
    BEGIN
    GRID
    __local float xs[OWN * S(D)] __attribute__((aligned(16))), ws[OWN * S(E)] __attribute__((aligned(16))), ps[OWN * S(WALK)] __attribute__((aligned(16)));
    __local float xt[OTHER + WALK * S(D)] __attribute__((aligned(16))), wt[WALK * S(E)] __attribute__((aligned(16)));
    uint turn = 0;              // of xt in use
    float4 dx[RI * PER_ITEM(D)];
    float s[RI][4], w[RI][4];
    CLEAR(dx, D)
#if GRADIENTS == 1
    const size_t h = get_group_id(1) % H;
    PART_OF_QUERIES(begin, get_num_groups(0) - 1 - get_group_id(0), OWN)
    const uint first = (uint)begin, rows = min((uint)OWN, (uint)QUERIES - first);
    const uint end = reach(first, OWN, 0, KEYS LENGTHS_PASSED), open = limit(first LENGTHS_PASSED);
    float up[RI], less[RI];
    UNROLL for (int i = 0; i < RI; i++) {
        const size_t t = first + min(ROW(i), max(rows, 1u) - 1);
        up[i] = lse[OF_QUERIES(L_N, L_T) + h * L_H + t * L_T] * LOG2E;
        less[i] = delta[OF_QUERIES(A_N, A_T) + h * A_H + t * A_T];
    }
    FETCH_Q(xs, OWN, h, first)
    FETCH_G(ws, OWN, h, first)
    FETCH_K(xt, WALK, h / SHARE, 0)
    FETCH_V(wt, WALK, h / SHARE, 0)
    for (uint j0 = 0; j0 < end; j0 += WALK) {
        const bool more = j0 + WALK < end;
        ARRIVED
        AHEAD(FETCH_K(xt + (OTHER - turn), WALK, h / SHARE, j0 + WALK))
        SLOPE(j0 + WALK > open, first + ROW(i), j0 + COLUMN(j), up[i], less[i])
        KEEP(w)
        SYNC
        AHEAD(FETCH_V(wt, WALK, h / SHARE, j0 + WALK))
        gather(dx, ps, xt + turn, D, a, b);
        BEHIND(FETCH_K(xt, WALK, h / SHARE, j0 + WALK) FETCH_V(wt, WALK, h / SHARE, j0 + WALK))
        turn = OTHER - turn;
    }
    STORE(dx, D, rows, (float)(SCALE), 0, (QUERY_ROW + first + ROW(i)) * H + h)
#else
    float4 dw[RI * PER_ITEM(E)];
    CLEAR(dw, E)
    const size_t hk = get_group_id(1) % HK;
    PART_OF_KEYS(own, get_group_id(0), OWN)
    const uint first = (uint)own, rows = min((uint)OWN, (uint)KEYS - first);
    const uint begin = first_tile(first, WALK LENGTHS_PASSED);
    FETCH_K(xs, OWN, hk, first)
    FETCH_V(ws, OWN, hk, first)
    FETCH_Q(xt, WALK, hk * SHARE, begin)
    FETCH_G(wt, WALK, hk * SHARE, begin)
    for (size_t h = hk * SHARE; h < (hk + 1) * SHARE; h++)
        for (uint t0 = begin; t0 < QUERIES; t0 += WALK) {
            const bool last = t0 + WALK >= QUERIES, more = !last || h + 1 < (hk + 1) * SHARE;
            const size_t h_next = last ? h + 1 : h;
            const uint t_next = last ? begin : t0 + WALK;
            float up[4], less[4];
            UNROLL for (int j = 0; j < 4; j++) {
                const size_t t = min(t0 + COLUMN(j), (uint)QUERIES - 1);
                up[j] = lse[OF_QUERIES(L_N, L_T) + h * L_H + t * L_T] * LOG2E;
                less[j] = delta[OF_QUERIES(A_N, A_T) + h * A_H + t * A_T];
            }
            ARRIVED
            AHEAD(FETCH_Q(xt + (OTHER - turn), WALK, h_next, t_next))
            SLOPE(t0 + WALK > QUERIES || limit(t0 LENGTHS_PASSED) < first + OWN, t0 + COLUMN(j), first + ROW(i), up[j], less[j])
            KEEP(s)
            SYNC
            gather(dw, ps, wt, E, a, b);
            SYNC
            AHEAD(FETCH_G(wt, WALK, h_next, t_next))
            KEEP(w)
            SYNC
            gather(dx, ps, xt + turn, D, a, b);
            BEHIND(FETCH_Q(xt, WALK, h_next, t_next) FETCH_G(wt, WALK, h_next, t_next))
            turn = OTHER - turn;
        }
    STORE(dx, D, rows, (float)(SCALE), DK_AT, (KEY_ROW + first + ROW(i)) * HK + hk)
    STORE(dw, E, rows, 1.0f, DV_AT, (KEY_ROW + first + ROW(i)) * HK + hk)
#endif
}

#endif
