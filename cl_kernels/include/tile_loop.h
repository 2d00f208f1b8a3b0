    // tile_loop.h: sums of `blocks` blocks of BK from `from` on (see tile_gpu.h)
    T sum[TM][TN], a[2][TM], b[2][TN];
    UNROLL for (int i = 0; i < TM; i++)
        UNROLL for (int j = 0; j < TN; j++) sum[i][j] = 0;
#if ASYNC
    const local_at xs_at = LOCAL_AT(xs), ws_at = LOCAL_AT(ws);
    UNROLL for (int s = 0; s < STAGES - 1; s++) {
        if (s < blocks) { FETCH(s, from + s * BK) }
        COMMIT
    }
    ARRIVED
    uint next = STAGES - 1;
#else
    X_VECTOR x_next[X_LOADS];
    W_VECTOR w_next[W_LOADS];
    if (blocks) { FETCH(0, from) DEPOSIT(0) }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    uint now = 0;
    READ(0, 0, 0)
    for (uint block = 0; block < blocks; block++) {
        UNROLL for (int k = 0; k < BK; k++) {
#if ASYNC
            if (k == 0) {                               // the readers of stage `next` passed the last barrier
                if (block + STAGES - 1 < blocks) { FETCH(next, from + (block + STAGES - 1) * BK) }
                COMMIT
                next = next == STAGES - 1 ? 0 : next + 1;
            }
            if (k == BK - 1) {
                ARRIVED
                barrier(CLK_LOCAL_MEM_FENCE);
                now = now == STAGES - 1 ? 0 : now + 1;
            }
#else
            if (k == 0 && block + 1 < blocks) { FETCH(0, from + (block + 1) * BK) }
            if (k == BK - 1) {
                now ^= 1;
                if (block + 1 < blocks) { DEPOSIT(now) } // its readers passed the last barrier
                barrier(CLK_LOCAL_MEM_FENCE);
            }
#endif
            READ((k + 1) % 2, now, (k + 1) % BK)        // after the last block: read, and not used
            UNROLL for (int i = 0; i < TM; i++)
                UNROLL for (int j = 0; j < TN; j++) sum[i][j] = VFMA(a[k % 2][i], b[k % 2][j], sum[i][j]);
        }
    }
