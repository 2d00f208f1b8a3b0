// attention_tensor: attention of attention.cl on tensor cores, for NVIDIA devices of compute capability 8.0 and later (mma.sync, ldmatrix, cp.async).
//
// Operands, results and formulas as in attention.cl, without a mask, SCALE > 0, D and E in 32, 64, 128. Products of operands in 16 bits
// (PRECISION: BF16 or FP16), p and ds rounded to that for theirs; sums, softmax, lse and delta in float32. With NARROW the operands are 16-bit
// already. With SPLIT lse stands as two elements of 16 bits, the first digits and the rest, N * T * H elements apart.
// Operands of other types, strides or alignments are first packed by attention_pack.cl (PACK_Q, ...: which of them).
// Grid (tiles * ITEMS, heads), local size ITEMS = 32 * WARPS. A work-group owns ROWS = 16 * WARPS * MI rows of a head, a warp 16 * MI of
// them, and walks over tiles of BN rows of the other side, STAGES of which are in local memory or on their way there.
//   forward     owns queries, walks over keys: scores, maximum and sum in registers, which then are the left operand of the product with v
//   backward    GRADIENTS 1: owns queries (q, g), walks over keys (k, v): dq. GRADIENTS 2: owns keys (k, v), walks over the queries of all
//               heads of the group (q, g): dk, dv, from transposed scores. Nothing is added by two work-groups: every sum has a fixed order.
// Tiles behind the causal limit are skipped, only those that it crosses are masked; the longest rows of tiles begin first.
// Local memory: 2 (ROWS (D + E) + STAGES BN (D + E)) + 8 STAGES BN bytes at most.

#ifndef WARPS
#define WARPS 4                 // of a work-group
#endif
#ifndef MI
#define MI 2                    // 16 rows each of a warp
#endif
#ifndef BN
#define BN 64                   // rows of a tile of the other side, a multiple of 16
#endif
#ifndef STAGES
#define STAGES 2                // of these tiles
#endif
#ifndef HOLD
#define HOLD 1                  // 1: the own operands stay in registers; 0: they are read from local memory for each tile
#endif
#ifndef GRADIENTS
#define GRADIENTS 1
#endif

#include "include/attention.h"
#include "include/ptx.h"
#include "include/attention_tensor.h"
#include "include/tile_tensor.h"

#define THREADS                                                                                            \
    const uint item = get_local_id(0), warp = item / 32, lane = item % 32, own_row = warp * (16 * MI);

#if !BACKWARD

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void forward(PARAMS) {
    BEGIN
    THREADS
    __local uchar memory[2 * (ROWS * D + STAGES * BN * (D + E))] __attribute__((aligned(128)));
    const local_at qs = LOCAL_AT(memory), ks = qs + 2 * ROWS * D, vs = ks + 2 * STAGES * BN * D;
    const size_t n = get_global_id(1) / H, h = get_global_id(1) % H;
    const uint first = (uint)(get_num_groups(0) - 1 - get_group_id(0)) * ROWS, rows = min((uint)ROWS, (uint)QUERIES - first);
    const uint end = reach(first, ROWS, 0, KEYS), open = limit(first);
    __global const ushort* from_k = FROM_K + n * K_N + h / SHARE * K_H;
    __global const ushort* from_v = FROM_V + n * V_N + h / SHARE * V_H;
#define FETCH_KEYS(j0, stage)                                                                              \
    FETCH(ks + (stage) * (2 * BN * D), from_k + (j0) * (size_t)K_S, K_S, BN, D, KEYS - (j0), WHOLE_K)            \
    FETCH(vs + (stage) * (2 * BN * E), from_v + (j0) * (size_t)V_S, V_S, BN, E, KEYS - (j0), WHOLE_V)
    FETCH(qs, FROM_Q + n * Q_N + h * Q_H + first * (size_t)Q_T, Q_T, ROWS, D, rows, WHOLE_Q)
    UNROLL for (uint s = 0; s < STAGES - 1; s++) {
        if (s * BN < end) { FETCH_KEYS(s * BN, s) }
        COPY_COMMIT
    }
    float y[MI][E / 8][4], most[MI][2], sum[MI][2];
    CLEAR(y, E / 8)
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint r = 0; r < 2; r++) { most[i][r] = -INFINITY; sum[i][r] = 0; }
    COPY_WAIT(STAGES - 2)
    SYNC
    HELD(held_q, qs, D)
    uint stage = 0, next = STAGES - 1;
    for (uint j0 = 0; j0 < end; j0 += BN) {
        COPY_WAIT(STAGES - 2)
        SYNC
        if (j0 + (STAGES - 1) * BN < end) { FETCH_KEYS(j0 + (STAGES - 1) * BN, next) }
        COPY_COMMIT
        float s[MI][BN / 8][4];
        CLEAR(s, BN / 8)
#define OWN_Q(to, i, kk) TAKE(to, held_q, qs, i, kk, D)
        TIMES_TILE_T(s, OWN_Q, ks + stage * (2 * BN * D), D)
        if (j0 + BN > open)
            UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint e = 0; e < 4; e++) {
                const uint last = limit(first + ROW(i, e));
                UNROLL for (uint j = 0; j < BN / 8; j++) s[i][j][e] = j0 + COLUMN(j, e) < last ? s[i][j][e] : -INFINITY;
            }
        UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint r = 0; r < 2; r++) {
            float top = most[i][r];
            UNROLL for (uint j = 0; j < BN / 8; j++) top = fmax(top, fmax(s[i][j][2 * r], s[i][j][2 * r + 1]));
            top = fmax(top, SHUFFLE_XOR(top, 1));
            top = fmax(top, SHUFFLE_XOR(top, 2));
            const float base = top == -INFINITY ? 0 : top * FACTOR, less = native_exp2(most[i][r] * FACTOR - base);
            most[i][r] = top;
            float more = 0;
            UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint e = 2 * r; e < 2 * r + 2; e++) {
                s[i][j][e] = native_exp2(fma(s[i][j][e], FACTOR, -base));
                more += s[i][j][e];
            }
            sum[i][r] = fma(sum[i][r], less, more);
            UNROLL for (uint f = 0; f < E / 8; f++) { y[i][f][2 * r] *= less; y[i][f][2 * r + 1] *= less; }
        }
        TIMES_TILE(y, s, vs + stage * (2 * BN * E), E)
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint r = 0; r < 2; r++) {
        float total = sum[i][r];
        total += SHUFFLE_XOR(total, 1);
        total += SHUFFLE_XOR(total, 2);
        const float share = total == 0 ? 1 : 1 / total;
        UNROLL for (uint f = 0; f < E / 8; f++) { y[i][f][2 * r] *= share; y[i][f][2 * r + 1] *= share; }
        const uint row = ROW(i, 2 * r);
        if (lane % 4 == 0 && row < rows) {
            const float lse = total == 0 ? 0 : most[i][r] * (float)(SCALE) + log(total);
            const size_t at = LSE_AT + (n * QUERIES + first + row) * H + h;
#if SPLIT
            const float lead = as_float(as_uint(lse) & (PRECISION == FP16 ? 0xffffe000 : 0xffff0000));
            EPILOGUE(at, lead);
            EPILOGUE(at + (size_t)BATCH * QUERIES * H, (lse - lead));
#else
            EPILOGUE(at, lse);
#endif
        }
    }
    STORE(y, E, rows, 1.0f, 0, (n * QUERIES + first + r) * H + h)
}

#else

// The own rows x (D features) and w (E features), and the tiles xt and wt of the other side: q and g with k and v, or k and v with q and g.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void backward(PARAMS) {
    BEGIN
    THREADS
    __local uchar memory[2 * (ROWS + STAGES * BN) * (D + E)] __attribute__((aligned(128)));
    const local_at xs = LOCAL_AT(memory), ws = xs + 2 * ROWS * D, xt = ws + 2 * ROWS * E, wt = xt + 2 * STAGES * BN * D;
    float s[MI][BN / 8][4], w[MI][BN / 8][4], dx[MI][D / 8][4];
    CLEAR(dx, D / 8)
#define OWN_X(to, i, kk) TAKE(to, held_x, xs, i, kk, D)
#define OWN_W(to, i, kk) TAKE(to, held_w, ws, i, kk, E)
#if GRADIENTS == 1
    const size_t n = get_global_id(1) / H, h = get_global_id(1) % H;
    const uint first = (uint)(get_num_groups(0) - 1 - get_group_id(0)) * ROWS, rows = min((uint)ROWS, (uint)QUERIES - first);
    const uint end = reach(first, ROWS, 0, KEYS), open = limit(first);
    __global const ushort* from_k = FROM_K + n * K_N + h / SHARE * K_H;
    __global const ushort* from_v = FROM_V + n * V_N + h / SHARE * V_H;
#define FETCH_OTHER(j0, stage)                                                                             \
    FETCH(xt + (stage) * (2 * BN * D), from_k + (j0) * (size_t)K_S, K_S, BN, D, KEYS - (j0), WHOLE_K)            \
    FETCH(wt + (stage) * (2 * BN * E), from_v + (j0) * (size_t)V_S, V_S, BN, E, KEYS - (j0), WHOLE_V)
    FETCH(xs, FROM_Q + n * Q_N + h * Q_H + first * (size_t)Q_T, Q_T, ROWS, D, rows, WHOLE_Q)
    FETCH(ws, FROM_G + n * G_N + h * G_H + first * (size_t)G_T, G_T, ROWS, E, rows, WHOLE_G)
    float up[MI][2], less[MI][2];
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint r = 0; r < 2; r++) {
        const uint row = ROW(i, 2 * r);
        up[i][r] = row < rows ? lse[n * L_N + h * L_H + (first + row) * (size_t)L_T] * LOG2E : 0;
        less[i][r] = row < rows ? delta[n * A_N + h * A_H + (first + row) * (size_t)A_T] : 0;
    }
#define UP(i, j, e) up[i][(e) / 2]
#define LESS(i, j, e) less[i][(e) / 2]
    const uint begin = 0, heads = 1;
#else
    __local float lines[2 * STAGES * BN] __attribute__((aligned(16)));
    const local_at ups = LOCAL_AT(lines);
    float dw[MI][E / 8][4];
    CLEAR(dw, E / 8)
    const size_t n = get_global_id(1) / HK, hk = get_global_id(1) % HK;
    const uint first = (uint)get_group_id(0) * ROWS, rows = min((uint)ROWS, (uint)KEYS - first), end = QUERIES;
#if CAUSAL
    const long least = (long)first + QUERIES - KEYS;    // the first query that reaches the first key
    const uint begin = least <= 0 ? 0 : (uint)least / BN * BN;
#else
    const uint begin = 0;
#endif
    const uint heads = SHARE;
#define FETCH_OTHER(t0, stage)                                                                             \
    {                                                                                                      \
        const size_t h = hk * SHARE + head_next, valid_ = QUERIES - (t0);                                  \
        FETCH(xt + (stage) * (2 * BN * D), FROM_Q + n * Q_N + h * Q_H + (t0) * (size_t)Q_T, Q_T, BN, D, valid_, WHOLE_Q) \
        FETCH(wt + (stage) * (2 * BN * E), FROM_G + n * G_N + h * G_H + (t0) * (size_t)G_T, G_T, BN, E, valid_, WHOLE_G) \
        for (uint i_ = item; i_ < BN; i_ += ITEMS) {                                                       \
            const bool in_ = i_ < valid_;                                                                  \
            const size_t t_ = (t0) + (in_ ? i_ : 0);                                                       \
            COPY_ASYNC_4(ups + ((stage) * BN + i_) * 4, lse + n * L_N + h * L_H + t_ * L_T, in_ ? 4 : 0);  \
            COPY_ASYNC_4(ups + ((STAGES + (stage)) * BN + i_) * 4, delta + n * A_N + h * A_H + t_ * A_T, in_ ? 4 : 0); \
        }                                                                                                  \
    }
    FETCH(xs, FROM_K + n * K_N + hk * K_H + first * (size_t)K_S, K_S, ROWS, D, rows, WHOLE_K)
    FETCH(ws, FROM_V + n * V_N + hk * V_H + first * (size_t)V_S, V_S, ROWS, E, rows, WHOLE_V)
#define UP(i, j, e) (lines[stage * BN + COLUMN(j, e)] * LOG2E)
#define LESS(i, j, e) lines[(STAGES + stage) * BN + COLUMN(j, e)]
#endif
    // What is fetched next, STAGES - 1 tiles ahead.
    uint head_next = 0, at_next = begin, stage = 0, next = 0;
#define FETCH_NEXT                                                                                         \
    if (head_next < heads && at_next < end) {                                                              \
        FETCH_OTHER(at_next, next)                                                                         \
        at_next += BN;                                                                                     \
        if (at_next >= end) { at_next = begin; head_next++; }                                              \
        next = next + 1 == STAGES ? 0 : next + 1;                                                          \
    }                                                                                                      \
    COPY_COMMIT
    UNROLL for (uint i_ahead = 0; i_ahead < STAGES - 1; i_ahead++) { FETCH_NEXT }
    COPY_WAIT(STAGES - 2)
    SYNC
    HELD(held_x, xs, D)
    HELD(held_w, ws, E)
    for (uint head = 0; head < heads; head++)
        for (uint at = begin; at < end; at += BN) {
            COPY_WAIT(STAGES - 2)
            SYNC
            FETCH_NEXT
            CLEAR(s, BN / 8)
            CLEAR(w, BN / 8)
            TIMES_TILE_T(s, OWN_X, xt + stage * (2 * BN * D), D)
#if GRADIENTS == 1
            const bool crossed = at + BN > open;
#define ALLOWED(i, j, e) (at + COLUMN(j, e) < limit(first + ROW(i, e)))
#else
            const bool crossed = CAUSAL && limit(at) < first + ROWS;
#define ALLOWED(i, j, e) (first + ROW(i, e) < limit(at + COLUMN(j, e)))
#endif
            if (crossed)
                UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint e = 0; e < 4; e++)
                    s[i][j][e] = ALLOWED(i, j, e) ? s[i][j][e] : -INFINITY;
            UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint e = 0; e < 4; e++)
                s[i][j][e] = native_exp2(fmin(fma(s[i][j][e], FACTOR, -UP(i, j, e)), MOST * LOG2E));
#if GRADIENTS == 2
            TIMES_TILE(dw, s, wt + stage * (2 * BN * E), E)
#endif
            TIMES_TILE_T(w, OWN_W, wt + stage * (2 * BN * E), E)
            UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint e = 0; e < 4; e++)
                s[i][j][e] *= w[i][j][e] - LESS(i, j, e);
            TIMES_TILE(dx, s, xt + stage * (2 * BN * D), D)
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
#if GRADIENTS == 1
    STORE(dx, D, rows, (float)(SCALE), 0, (n * QUERIES + first + r) * H + h)
#else
    STORE(dx, D, rows, (float)(SCALE), DK_AT, (n * KEYS + first + r) * HK + hk)
    STORE(dw, E, rows, 1.0f, DV_AT, (n * KEYS + first + r) * HK + hk)
#endif
}

#endif
