// attention: y = softmax(SCALE q kT + mask) v per head, and its gradient, on CPUs. No matrix of scores is ever in memory.
//
// Operands, read where they lie (strides in elements, 0 where broadcast): q(N, H, T, D), k(N, HK, S, D), v(N, HK, S, E),
// mask(N, H, T, S), g(N, H, T, E), lse and delta(N, T, H), T = QUERIES, S = KEYS. Query head h reads key head h / (H / HK).
// With CAUSAL query t attends to keys up to t + S - T. A row with nothing to attend to gives y = 0 and lse = 0.
// Results are flat: rows stand as (N, T, H, features), which is what a layer makes of them.
//   forward    y(N, T, H, E), then lse(N, T, H) = ln sum over keys of e^score
//   backward   dq(N, T, H, D), dk(N, S, HK, D), dv(N, S, HK, E) from the cotangent g and delta = sum g y - (cotangent of lse):
//              p = e^min(score - lse, MOST), ds = p (g vT - delta), dv = pT g, dk = SCALE dsT q, dq = SCALE ds k
//
// The generator prepends include/vector.h and PARAMS, BEGIN, T, VW, MASKED (0, 1: bool, 2: float), BACKWARD,
// the sizes and strides of clnet/kernels/attention/attention.py, and EPILOGUE(i, v), EPILOGUE_V(i, v) for element i of the result.
//
// Kernel `forward`: grid (ceil(T / ROWS), N * H), local size 1. A work-item owns ROWS queries of a head, packed and scaled.
//   For each block of BC keys: kT and v are packed; for each MR queries: their scores against the block (a strip), maximum and
//   sum so far, e^(score - maximum), and its product with v added to y (rescaled when a maximum moves).
// Kernel `backward`: grid (parts, N * HK), local size 1. A work-item owns a range of queries or keys for all heads of a group.
//   For each block of BC keys: kT, vT, k packed; for each block of BR queries: q and g packed; scores again, p, g vT, ds; then
//   dv += pT g, dk += dsT q, dq += ds k, each a product of blocks.
//   GRADIENTS 3: all in one pass, a head's dq stays in private memory; 1: only dq, a part is ROWS queries; 2: only dk and dv,
//   a part is ROWS keys. Every element is written by one work-item, and sums have a fixed order.
//   QUERIES, KEYS, ROWS and strides may be arguments.
// PACKED: sequences of several lengths one after another (include/attention.h). Grids are (ALL_QUERIES / ROWS + SEQUENCES + 1, heads), with
//   ALL_KEYS where GRADIENTS is 2; 3 is none of theirs.
// Blocks, tiles and vectors of keys behind the causal limit are skipped. All blocks are in private memory: `_private` says how much.

#ifndef EXP
#define EXP exp
#endif
#ifndef MR
#define MR 8                    // rows of the register tile, at most VW
#endif
#ifndef NV
#define NV 2                    // vectors of the register tile
#endif
#ifndef BC
#define BC 64                   // keys of a block, a multiple of NV * VW (backward: and of MR)
#endif
#ifndef BR
#define BR 64                   // queries of a block (backward), a multiple of MR
#endif
#ifndef ROWS
#define ROWS 64                 // queries of a work-item, a multiple of BR (of MR forward), or its keys, a multiple of BC
#endif
#ifndef MOST_ROWS
#define MOST_ROWS ROWS          // a number that ROWS is not above, where it is an argument
#endif
#ifndef GRADIENTS
#define GRADIENTS 3
#endif

#include "include/tile.h"
#include "include/attention.h"

#define DP ((D + VW - 1) / VW * VW)             // features padded to whole vectors
#define EP ((E + VW - 1) / VW * VW)
#define LINE __attribute__((aligned(64)))

// Applies the mask m to the scores of a query with `valid` keys; those up to n (whole vectors) become -INFINITY.
INLINE void mask_scores(T* restrict s, const size_t valid, const size_t n, MASK_POINTER m) {
    size_t i = 0;
#if MASKED == 1
    for (; i < valid; i++) s[i] = m[i * MASK_S] ? s[i] : -INFINITY;
#elif MASKED == 2
    for (; MASK_S == 1 && i + VW <= valid; i += VW) VSTORE_P(VLOAD_P(s + i) + VLOAD(m + i), s + i);
    for (; i < valid; i++) s[i] += m[i * MASK_S];
#endif
    for (i = valid; i % VW && i < n; i++) s[i] = -INFINITY;
    for (; i < n; i += VW) VSTORE_P(VSPLAT(-INFINITY), s + i);
}

INLINE void clear(T* restrict to, const size_t n) {
    for (size_t i = 0; i < n; i += VW) VSTORE_P(VSPLAT(0), to + i);
}

#define ADD(a, b) ((a) + (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define STORE_ROW(at, from, n) { size_t j_ = 0; \
    for (; j_ + VW <= (n); j_ += VW) { EPILOGUE_V((at) + j_, VLOAD_P((from) + j_)); } \
    for (; j_ < (n); j_++) { EPILOGUE((at) + j_, (from)[j_]); } }

#if !BACKWARD

// A row of n scores (whole vectors) becomes e^(score - maximum); y, sum and maximum of the row are brought up to date.
INLINE void absorb(T* restrict s, const size_t n, T* restrict y, T* restrict maximum, T* restrict sum) {
    VT top = VLOAD_P(s);
    for (size_t j = VW; j < n; j += VW) {
        const VT v = VLOAD_P(s + j);
        top = MAX(v, top);
    }
    T row, grown;
    ACROSS_LANES(row, MAX, top)
    const T before = *maximum, now = MAX(row, before), base = finite_or_0(now);
    if (now > before && before != -INFINITY) {
        const T less = exp(finite_or_0(before) - base);
        *sum *= less;
        for (size_t j = 0; j < EP; j += VW) VSTORE_P(VLOAD_P(y + j) * less, y + j);
    }
    VT total = VSPLAT(0);
    for (size_t j = 0; j < n; j += VW) {
        const VT p = EXP(VLOAD_P(s + j) - base);
        VSTORE_P(p, s + j);
        total += p;
    }
    ACROSS_LANES(grown, ADD, total)
    *maximum = now;
    *sum += grown;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void forward(PARAMS) {
    BEGIN
    const size_t h = get_global_id(1) % H;
    PART_OF_QUERIES(t0, get_global_id(0), ROWS)
    if (t0 >= QUERIES) return;
    const size_t rows = min((size_t)ROWS, QUERIES - t0), end = reach(t0, rows, 0, KEYS LENGTHS_PASSED);
    T queries[MOST_ROWS * DP] LINE, y[MOST_ROWS * EP] LINE, keys[BC * D] LINE, values[BC * EP] LINE, s[MR * BC] LINE;
    T maximum[MOST_ROWS], sum[MOST_ROWS];
    const size_t tiles = (rows + MR - 1) / MR * MR;
    pack_rows(queries, DP, tiles, q + OF_QUERIES(Q_N, Q_T) + h * Q_H + t0 * Q_T, rows, D, Q_T, Q_D, (T)(SCALE));
    clear(y, tiles * EP);
    for (size_t i = 0; i < tiles; i++) { maximum[i] = -INFINITY; sum[i] = 0; }
    for (size_t j0 = 0; j0 < end; j0 += BC) {
        const size_t block = min((size_t)BC, end - j0);
        pack_columns(keys, (block + NR - 1) / NR * NR, k + OF_KEYS(K_N, K_S) + h / SHARE * K_H + j0 * K_S, block, D, K_S, K_D);
        pack_rows(values, EP, block, v + OF_KEYS(V_N, V_S) + h / SHARE * V_H + j0 * V_S, block, E, V_S, V_E, 1);
        for (size_t i = 0; i < rows; i += MR) {
            const size_t most = reach(t0 + i, MR, j0, block LENGTHS_PASSED), whole = (most + VW - 1) / VW * VW;
            if (!most) continue;
            product_of_panels(whole, D, queries + i * DP, DP, 1, keys, s, BC);
            for (size_t r = 0; r < MR; r++) {
                const size_t t = min(t0 + i + r, (size_t)QUERIES - 1);
                mask_scores(s + r * BC, reach(t, 1, j0, block LENGTHS_PASSED), whole, MASK(t, j0));
                absorb(s + r * BC, whole, y + (i + r) * EP, maximum + i + r, sum + i + r);
            }
            product_of_rows(EP, most, s, BC, 1, values, EP, y + i * EP, EP);
        }
    }
    for (size_t i = 0; i < rows; i++) {
        const T total = sum[i] == 0 ? (T)(1) : sum[i];
        for (size_t j = 0; j < EP; j += VW) VSTORE_P(VLOAD_P(y + i * EP + j) / total, y + i * EP + j);
        STORE_ROW(((QUERY_ROW + t0 + i) * H + h) * E, y + i * EP, E)
        EPILOGUE(LSE_AT + (QUERY_ROW + t0 + i) * H + h, finite_or_0(maximum[i]) + log(total));
    }
}

#else

#if PACKED && GRADIENTS != 2
#define PART PART_OF_QUERIES
#else
#define PART PART_OF_KEYS       // where nothing is packed, n is that of all heads of a group, for queries too
#endif
#define OWNED (GRADIENTS == 2 ? KEYS : QUERIES)
#if GRADIENTS == 1
#define QUERY_END min(first + ROWS, (size_t)QUERIES)
#define KEY_END reach(first, ROWS, 0, KEYS LENGTHS_PASSED)
#elif GRADIENTS == 2
#define QUERY_END QUERIES
#define KEY_END min(first + ROWS, (size_t)KEYS)
#else
#define QUERY_END QUERIES
#define KEY_END KEYS
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void backward(PARAMS) {
    BEGIN
    const size_t hk = get_global_id(1) % HK;
    PART(first, get_global_id(0), ROWS)
    if (first >= OWNED) return;
    const size_t q0 = GRADIENTS == 1 ? first : 0, q1 = QUERY_END, k0 = GRADIENTS == 2 ? first : 0, k1 = KEY_END;
    T queries[BR * DP] LINE, cotangents[BR * EP] LINE, p[BR * BC] LINE, ds[BR * BC] LINE, keys_t[BC * D] LINE, values_t[BC * E] LINE;
#if GRADIENTS & 1
    T keys[BC * DP] LINE, dq[SHARE * MOST_ROWS * DP] LINE;
    clear(dq, SHARE * MOST_ROWS * DP);
#endif
#if GRADIENTS & 2
    T dk[BC * DP] LINE, dv[BC * EP] LINE;
#endif
    for (size_t j0 = k0; j0 < k1; j0 += BC) {
        const size_t block = min((size_t)BC, k1 - j0), panels = (block + NR - 1) / NR * NR;
        __global const T* restrict k_at = k + OF_KEYS(K_N, K_S) + hk * K_H + j0 * K_S;
        pack_columns(keys_t, panels, k_at, block, D, K_S, K_D);
        pack_columns(values_t, panels, v + OF_KEYS(V_N, V_S) + hk * V_H + j0 * V_S, block, E, V_S, V_E);
#if GRADIENTS & 1
        pack_rows(keys, DP, block, k_at, block, D, K_S, K_D, 1);
#endif
#if GRADIENTS & 2
        clear(dk, BC * DP);
        clear(dv, BC * EP);
#endif
        for (size_t share = 0; share < SHARE; share++)
            for (size_t t0 = q0; t0 < q1; t0 += BR) {
                const size_t h = hk * SHARE + share, rows = min((size_t)BR, q1 - t0), tiles = (rows + MR - 1) / MR * MR;
                if (!reach(t0, rows, j0, block LENGTHS_PASSED)) continue;
                pack_rows(queries, DP, tiles, q + OF_QUERIES(Q_N, Q_T) + h * Q_H + t0 * Q_T, rows, D, Q_T, Q_D, (T)(SCALE));
                pack_rows(cotangents, EP, tiles, g + OF_QUERIES(G_N, G_T) + h * G_H + t0 * G_T, rows, E, G_T, G_E, 1);
                for (size_t i = 0; i < tiles; i += MR) {
                    const size_t most = reach(t0 + i, MR, j0, block LENGTHS_PASSED), whole = (most + VW - 1) / VW * VW;
                    if (!most) continue;
                    const size_t end = VW % MR ? min(whole + VW, (size_t)BC) : whole;   // of the last tile of MR keys: they weigh nothing
                    product_of_panels(whole, D, queries + i * DP, DP, 1, keys_t, p + i * BC, BC);
                    product_of_panels(whole, E, cotangents + i * EP, EP, 1, values_t, ds + i * BC, BC);
                    for (size_t r = i; r < i + MR; r++) {
                        const size_t t = t0 + r;
                        if (t >= QUERIES) {                 // fills the tile: as if it attended to nothing
                            clear(p + r * BC, end);
                            clear(ds + r * BC, end);
                            continue;
                        }
                        mask_scores(p + r * BC, reach(t, 1, j0, block LENGTHS_PASSED), whole, MASK(t, j0));
                        const T a = lse[OF_QUERIES(L_N, L_T) + h * L_H + t * L_T], b = delta[OF_QUERIES(A_N, A_T) + h * A_H + t * A_T];
                        for (size_t j = r * BC; j < r * BC + whole; j += VW) {
                            const VT x = VLOAD_P(p + j) - a, w = EXP(x > MOST ? MOST : x);
                            VSTORE_P(w, p + j);
                            VSTORE_P(w * (VLOAD_P(ds + j) - b), ds + j);
                        }
                        clear(p + r * BC + whole, end - whole);
                        clear(ds + r * BC + whole, end - whole);
                    }
#if GRADIENTS & 1
                    product_of_rows(DP, most, ds + i * BC, BC, 1, keys, DP, dq + (share * MOST_ROWS + t0 - q0 + i) * DP, DP);
#endif
                }
#if GRADIENTS & 2
                for (size_t j = 0; j < block; j += MR) {        // queries that reach keys j .. : those from the tile of the first one on
                    size_t i = 0;
                    while (i < tiles && reach(t0 + i, MR, j0, block LENGTHS_PASSED) <= j) i += MR;
                    product_of_rows(EP, tiles - i, p + i * BC + j, 1, BC, cotangents + i * EP, EP, dv + j * EP, EP);
                    product_of_rows(DP, tiles - i, ds + i * BC + j, 1, BC, queries + i * DP, DP, dk + j * DP, DP);
                }
#endif
            }
#if GRADIENTS & 2
        for (size_t j = 0; j < block; j++) {
            STORE_ROW(DK_AT + ((KEY_ROW + j0 + j) * HK + hk) * D, dk + j * DP, D)
            STORE_ROW(DV_AT + ((KEY_ROW + j0 + j) * HK + hk) * E, dv + j * EP, E)
        }
#endif
    }
#if GRADIENTS & 1
    for (size_t r = 0; r < SHARE * MOST_ROWS; r++)
        if (q0 + r % MOST_ROWS < q1) {
            for (size_t j = r * DP; j < r * DP + DP; j += VW) VSTORE_P(VLOAD_P(dq + j) * (T)(SCALE), dq + j);
            STORE_ROW(((QUERY_ROW + q0 + r % MOST_ROWS) * H + hk * SHARE + r / MOST_ROWS) * D, dq + r * DP, D)
        }
#endif
}

#endif
