// attention_tiles.h: the kernels of attention_tensor.cl and attention_wgmma.cl. After tile_mma.h or tile_wgmma.h.

#define THREADS                                                                                            \
    const uint item = get_local_id(0), warp = item / 32, lane = item % 32, own_row = warp * (16 * MI);

#if !BACKWARD

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void forward(PARAMS) {
    BEGIN
    THREADS
    __local uchar memory[2 * (ROWS * D + STAGES * BN * (D + E)) + TILES_SLACK] __attribute__((aligned(128)));
    const local_at qs = TILES_AT(memory), ks = qs + 2 * ROWS * D, vs = ks + 2 * STAGES * BN * D;
    const size_t n = get_global_id(1) / H, h = get_global_id(1) % H;
    const uint first = (uint)(get_num_groups(0) - 1 - get_group_id(0)) * ROWS, rows = min((uint)ROWS, (uint)QUERIES - first);
    const uint end = reach(first, ROWS, 0, KEYS SIZES_PASSED), open = limit(first SIZES_PASSED);
    __global const ushort* from_k = FROM_K + n * K_N + h / SHARE * K_H;
    __global const ushort* from_v = FROM_V + n * V_N + h / SHARE * V_H;
#define K_TILE(stage) (ks + (stage) * (2 * BN * D))
#define V_TILE(stage) (vs + (stage) * (2 * BN * E))
#define FETCH_K(j, stage) \
    if ((j) < end) { FETCH(K_TILE(stage), from_k + (j) * (size_t)K_S, K_S, BN, D, KEYS - (j), KEYS_OF % BN == 0, WHOLE_K) }
#define FETCH_V(j, stage) \
    if ((j) < end) { FETCH(V_TILE(stage), from_v + (j) * (size_t)V_S, V_S, BN, E, KEYS - (j), KEYS_OF % BN == 0, WHOLE_V) }
    float y[MI][E / 8][4], s[MI][BN / 8][4], most[MI][2], sum[MI][2], less[MI][2];
    CLEAR(y, E / 8)
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint r = 0; r < 2; r++) { most[i][r] = -INFINITY; sum[i][r] = 0; }
    // Scores of the keys from j on become weights; `less` is what earlier ones have to be multiplied with, since the maximum has moved.
#define WEIGHTS(j_)                                                                                        \
    if ((j_) + BN > open)                                                                                  \
        UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint e = 0; e < 4; e++) {                         \
            const uint last = limit(first + ROW(i, e) SIZES_PASSED);                                       \
            UNROLL for (uint j = 0; j < BN / 8; j++) s[i][j][e] = (j_) + COLUMN(j, e) < last ? s[i][j][e] : -INFINITY; \
        }                                                                                                  \
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint r = 0; r < 2; r++) {                             \
        float top = most[i][r];                                                                            \
        UNROLL for (uint j = 0; j < BN / 8; j++) top = fmax(top, fmax(s[i][j][2 * r], s[i][j][2 * r + 1])); \
        top = fmax(top, SHUFFLE_XOR(top, 1));                                                              \
        top = fmax(top, SHUFFLE_XOR(top, 2));                                                              \
        const float base = top == -INFINITY ? 0 : top * FACTOR;                                            \
        less[i][r] = native_exp2(most[i][r] * FACTOR - base);                                              \
        most[i][r] = top;                                                                                  \
        float more = 0;                                                                                    \
        UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint e = 2 * r; e < 2 * r + 2; e++) {         \
            s[i][j][e] = native_exp2(fma(s[i][j][e], FACTOR, -base));                                      \
            more += s[i][j][e];                                                                            \
        }                                                                                                  \
        sum[i][r] = fma(sum[i][r], less[i][r], more);                                                      \
    }
    if (end) {
        // Keys run a tile ahead of values: while weights are computed, the product of the tile before with its values is under way.
        FETCH(qs, FROM_Q + n * Q_N + h * Q_H + first * (size_t)Q_T, Q_T, ROWS, D, rows, QUERIES_OF % ROWS == 0, WHOLE_Q)
        FETCH_K(0, 0)
        UNROLL for (uint i = 0; i < STAGES - 1; i++) {
            FETCH_K((i + 1) * BN, i + 1)
            FETCH_V(i * BN, i)
            COPY_COMMIT
        }
        ARRIVED(STAGES - 2)
        HELD(held_q, qs, D)
        uint stage = 0, before = STAGES - 1;
        BEGIN_T(s, held_q, qs, K_TILE(0), D)
        END_T(s, held_q, qs, K_TILE(0), D, 0)
        WEIGHTS(0)
        uint a[MI][BN / 16][4];
        for (uint j0 = 0; j0 + BN < end; j0 += BN) {
            ARRIVED(STAGES - 2)
            FETCH_K(j0 + STAGES * BN, stage)
            FETCH_V(j0 + (STAGES - 1) * BN, before)
            COPY_COMMIT
            before = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            ROUND(a, s)
            BEGIN_T(s, held_q, qs, K_TILE(stage), D)
            BEGIN_TILE(y, a, V_TILE(before), E)
            END_T(s, held_q, qs, K_TILE(stage), D, 1)
            WEIGHTS(j0 + BN)
            END_TILE(y, E, 0)
            UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint f = 0; f < E / 8; f++) UNROLL for (uint e = 0; e < 4; e++) y[i][f][e] *= less[i][e / 2];
        }
        ARRIVED(0)
        ROUND(a, s)
        BEGIN_TILE(y, a, V_TILE(stage), E)
        END_TILE(y, E, 0)
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
    __local uchar memory[2 * (ROWS + STAGES * BN) * (D + E) + TILES_SLACK] __attribute__((aligned(128)));
    const local_at xs = TILES_AT(memory), ws = xs + 2 * ROWS * D, xt = ws + 2 * ROWS * E, wt = xt + 2 * STAGES * BN * D;
    float s[MI][BN / 8][4], w[MI][BN / 8][4], dx[MI][D / 8][4];
    CLEAR(dx, D / 8)
#if GRADIENTS == 1
    const size_t n = get_global_id(1) / H, h = get_global_id(1) % H;
    const uint first = (uint)(get_num_groups(0) - 1 - get_group_id(0)) * ROWS, rows = min((uint)ROWS, (uint)QUERIES - first);
    const uint end = reach(first, ROWS, 0, KEYS SIZES_PASSED), open = limit(first SIZES_PASSED);
    __global const ushort* from_k = FROM_K + n * K_N + h / SHARE * K_H;
    __global const ushort* from_v = FROM_V + n * V_N + h / SHARE * V_H;
#define FETCH_OTHER(j0, stage)                                                                             \
    FETCH(xt + (stage) * (2 * BN * D), from_k + (j0) * (size_t)K_S, K_S, BN, D, KEYS - (j0), KEYS_OF % BN == 0, WHOLE_K) \
    FETCH(wt + (stage) * (2 * BN * E), from_v + (j0) * (size_t)V_S, V_S, BN, E, KEYS - (j0), KEYS_OF % BN == 0, WHOLE_V)
    FETCH(xs, FROM_Q + n * Q_N + h * Q_H + first * (size_t)Q_T, Q_T, ROWS, D, rows, QUERIES_OF % ROWS == 0, WHOLE_Q)
    FETCH(ws, FROM_G + n * G_N + h * G_H + first * (size_t)G_T, G_T, ROWS, E, rows, QUERIES_OF % ROWS == 0, WHOLE_G)
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
    const uint begin = first_tile(first, BN SIZES_PASSED);
    const uint heads = SHARE;
#define FETCH_OTHER(t0, stage)                                                                             \
    {                                                                                                      \
        const size_t h = hk * SHARE + head_next, valid_ = QUERIES - (t0);                                  \
        FETCH(xt + (stage) * (2 * BN * D), FROM_Q + n * Q_N + h * Q_H + (t0) * (size_t)Q_T, Q_T, BN, D, valid_, QUERIES_OF % BN == 0, WHOLE_Q) \
        FETCH(wt + (stage) * (2 * BN * E), FROM_G + n * G_N + h * G_H + (t0) * (size_t)G_T, G_T, BN, E, valid_, QUERIES_OF % BN == 0, WHOLE_G) \
        for (uint i_ = item; i_ < BN; i_ += ITEMS) {                                                       \
            const bool in_ = i_ < valid_;                                                                  \
            const size_t t_ = (t0) + (in_ ? i_ : 0);                                                       \
            COPY_ASYNC_4(ups + ((stage) * BN + i_) * 4, lse + n * L_N + h * L_H + t_ * L_T, in_ ? 4 : 0);  \
            COPY_ASYNC_4(ups + ((STAGES + (stage)) * BN + i_) * 4, delta + n * A_N + h * A_H + t_ * A_T, in_ ? 4 : 0); \
        }                                                                                                  \
    }
    FETCH(xs, FROM_K + n * K_N + hk * K_H + first * (size_t)K_S, K_S, ROWS, D, rows, KEYS_OF % ROWS == 0, WHOLE_K)
    FETCH(ws, FROM_V + n * V_N + hk * V_H + first * (size_t)V_S, V_S, ROWS, E, rows, KEYS_OF % ROWS == 0, WHOLE_V)
#define UP(i, j, e) (lines[stage * BN + COLUMN(j, e)] * LOG2E)
#define LESS(i, j, e) lines[(STAGES + stage) * BN + COLUMN(j, e)]
#endif
    // What is fetched next, STAGES - 1 tiles ahead, or with LAG one less, since a tile is then read until the scores of the next are there.
    uint head_next = 0, at_next = begin, stage = 0, next = 0;
#define FETCH_NEXT                                                                                         \
    if (head_next < heads && at_next < end) {                                                              \
        FETCH_OTHER(at_next, next)                                                                         \
        at_next += BN;                                                                                     \
        if (at_next >= end) { at_next = begin; head_next++; }                                              \
        next = next + 1 == STAGES ? 0 : next + 1;                                                          \
    }                                                                                                      \
    COPY_COMMIT
    UNROLL for (uint i = 0; i < STAGES - 1 - LAG; i++) { FETCH_NEXT }
    ARRIVED(STAGES - 2 - LAG)
    HELD(held_x, xs, D)
    HELD(held_w, ws, E)
    for (uint head = 0; head < heads; head++)
        for (uint at = begin; at < end; at += BN) {
            ARRIVED(STAGES - 2 - LAG)
            FETCH_NEXT
            const local_at x_tile = xt + stage * (2 * BN * D), w_tile = wt + stage * (2 * BN * E);
            BEGIN_T(s, held_x, xs, x_tile, D)
            BEGIN_T(w, held_w, ws, w_tile, E)
            END_T(s, held_x, xs, x_tile, D, 1)
#if GRADIENTS == 1
            const bool crossed = at + BN > open;
#define ALLOWED(i, j, e) (at + COLUMN(j, e) < limit(first + ROW(i, e) SIZES_PASSED))
#else
            const bool crossed = CAUSAL && limit(at SIZES_PASSED) < first + ROWS;
#define ALLOWED(i, j, e) (first + ROW(i, e) < limit(at + COLUMN(j, e) SIZES_PASSED))
#endif
            if (crossed)
                UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint e = 0; e < 4; e++)
                    s[i][j][e] = ALLOWED(i, j, e) ? s[i][j][e] : -INFINITY;
            UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint e = 0; e < 4; e++)
                s[i][j][e] = native_exp2(fmin(fma(s[i][j][e], FACTOR, -UP(i, j, e)), MOST * LOG2E));
#if GRADIENTS == 2
            uint a[MI][BN / 16][4];
            ROUND(a, s)
            BEGIN_TILE(dw, a, w_tile, E)
            END_T(w, held_w, ws, w_tile, E, 1)
#else
            END_T(w, held_w, ws, w_tile, E, 0)
#endif
            UNROLL for (uint j = 0; j < BN / 8; j++) UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint e = 0; e < 4; e++)
                s[i][j][e] *= w[i][j][e] - LESS(i, j, e);
            uint b[MI][BN / 16][4];
            ROUND(b, s)
            BEGIN_TILE(dx, b, x_tile, D)
            if (!LAG) { END_TILE(dx, D, 0) }
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
    END_TILE(dx, D, 0)
#if GRADIENTS == 1
    STORE(dx, D, rows, (float)(SCALE), 0, (n * QUERIES + first + r) * H + h)
#else
    END_TILE(dw, E, 0)
    STORE(dx, D, rows, (float)(SCALE), DK_AT, (n * KEYS + first + r) * HK + hk)
    STORE(dw, E, rows, 1.0f, DV_AT, (n * KEYS + first + r) * HK + hk)
#endif
}

#endif
