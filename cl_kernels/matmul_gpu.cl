// matmul on GPUs: y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), accumulated in T, in a fixed order.
//
// The generator prepends what matmul.cl says: PARAMS, BEGIN, T, VW, M N K, X_M X_K W_K W_N, X_BATCH(b), W_BATCH(b), EPILOGUE; and the
// geometry of clnet/ops/matmul_gpu_geometry.py. Every element is stored exactly once.
//
// Grid (tiles * ITEMS, 1, batch), local size (ITEMS, 1, 1): one work-group for a BM x BN tile of y.
//   Tiles are counted in stripes of STRIPE tiles along m, so that groups that run together share operands in the cache.
//       for each block of BK along k
//           xs[BK][BM], ws[BK][BN] in local memory, twice: the next block travels through registers during the products
//           each item: TM x TN sums, in chunks of VW rows and VW columns that are BM / TM * VW (BN / TN * VW) apart
//   Lanes load along the contiguous dimension of each operand, so all transpositions coalesce; any stride is right.
//   Local memory 2 * BK * (BM + BN + 2 * VW) elements. Assumes VW divides TM and TN, LANES_N divides BN / TN,
//   LANES_M divides BM / TM, BK BM BN each divide ITEMS, ITEMS divides BK * BM and BK * BN. Stores are scalar.

#ifndef BM
#define BM 64                   // tile of a work-group
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 16                   // depth of a block
#endif
#ifndef TM
#define TM 4                    // tile of a work-item, multiples of VW
#endif
#ifndef TN
#define TN 4
#endif
#ifndef LANES_M
#define LANES_M 4               // items of a warp stand LANES_M x LANES_N in the tile: near-square shares local reads
#endif
#ifndef LANES_N
#define LANES_N 8
#endif
#ifndef STRIPE
#define STRIPE 16               // tiles along m that are walked before the next along n
#endif

#define ITEMS ((BM / TM) * (BN / TN))
#define XS_K (BM + VW)          // padded: a transposing store would hit one bank
#define WS_K (BN + VW)
#define X_LOADS (BK * BM / ITEMS)
#define W_LOADS (BK * BN / ITEMS)
#define MS ((M + BM - 1) / BM)
#define NS ((N + BN - 1) / BN)
// Item t loads elements t, t + ITEMS .. of a block, counted along the contiguous dimension: (m, k) of the first, steps of the rest.
#define X_M0 (X_K == 1 ? t / BK : t % BM)
#define X_K0 (X_K == 1 ? t % BK : t / BM)
#define X_DM(i) (X_K == 1 ? (i) * (ITEMS / BK) : 0)
#define X_DK(i) (X_K == 1 ? 0 : (i) * (ITEMS / BM))
#define W_N0 (W_K == 1 ? t / BK : t % BN)
#define W_K0 (W_K == 1 ? t % BK : t / BN)
#define W_DN(i) (W_K == 1 ? (i) * (ITEMS / BK) : 0)
#define W_DK(i) (W_K == 1 ? 0 : (i) * (ITEMS / BN))
#define INSIDE(i, size, block) (((size) > 0 && (size) % (block) == 0) || (i) < (size))

#define FETCH(k0)                                                                                          \
    UNROLL for (int i = 0; i < X_LOADS; i++)                                                               \
        x_next[i] = INSIDE(m0 + X_M0 + X_DM(i), M, BM) && INSIDE((k0) + X_K0 + X_DK(i), K, BK)             \
            ? x[(size_t)X_DM(i) * X_M + (size_t)X_DK(i) * X_K] : 0;                                        \
    UNROLL for (int i = 0; i < W_LOADS; i++)                                                               \
        w_next[i] = INSIDE(n0 + W_N0 + W_DN(i), N, BN) && INSIDE((k0) + W_K0 + W_DK(i), K, BK)             \
            ? w[(size_t)W_DN(i) * W_N + (size_t)W_DK(i) * W_K] : 0;                                        \
    x += (size_t)BK * X_K;                                                                                 \
    w += (size_t)BK * W_K;
#define DEPOSIT(now)                                                                                       \
    UNROLL for (int i = 0; i < X_LOADS; i++) xs[((now) * BK + X_K0 + X_DK(i)) * XS_K + X_M0 + X_DM(i)] = x_next[i]; \
    UNROLL for (int i = 0; i < W_LOADS; i++) ws[((now) * BK + W_K0 + W_DK(i)) * WS_K + W_N0 + W_DN(i)] = w_next[i];

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void matmul(PARAMS) {
    BEGIN
    __local T xs[2 * BK * XS_K] __attribute__((aligned(64)));
    __local T ws[2 * BK * WS_K] __attribute__((aligned(64)));
    const uint t = get_local_id(0), warp = t / (LANES_M * LANES_N), lane = t % (LANES_M * LANES_N);
    const uint across = BN / TN / LANES_N;
    const uint tm = (warp / across * LANES_M + lane / LANES_N) * VW, tn = (warp % across * LANES_N + lane % LANES_N) * VW;
    const size_t batch = get_global_id(2), g = get_group_id(0), first = g / (STRIPE * NS) * STRIPE;
    const size_t stripe = min((size_t)STRIPE, (size_t)MS - first), in_stripe = g % (STRIPE * NS);
    const size_t m0 = (first + in_stripe % stripe) * BM, n0 = in_stripe / stripe * BN;
    x += X_BATCH(batch) + (m0 + X_M0) * X_M + (size_t)X_K0 * X_K;
    w += W_BATCH(batch) + (n0 + W_N0) * W_N + (size_t)W_K0 * W_K;

    T sum[TM][TN];
    UNROLL for (int i = 0; i < TM; i++)
        UNROLL for (int j = 0; j < TN; j++) sum[i][j] = 0;
    T x_next[X_LOADS], w_next[W_LOADS];
    FETCH(0)
    DEPOSIT(0)
    barrier(CLK_LOCAL_MEM_FENCE);
    uint now = 0;
    for (size_t k0 = BK; ; k0 += BK, now ^= 1) {
        const bool more = k0 < K;
        if (more) { FETCH(k0) }
        __local const T* xh = xs + now * BK * XS_K + tm;
        __local const T* wh = ws + now * BK * WS_K + tn;
        UNROLL for (int k = 0; k < BK; k++) {
            T a[TM], b[TN];
            UNROLL for (int i = 0; i < TM; i += VW) VSTORE_P(VLOAD_L(xh + k * XS_K + i * (BM / TM)), a + i);
            UNROLL for (int j = 0; j < TN; j += VW) VSTORE_P(VLOAD_L(wh + k * WS_K + j * (BN / TN)), b + j);
            UNROLL for (int i = 0; i < TM; i++)
                UNROLL for (int j = 0; j < TN; j++) sum[i][j] = VFMA(a[i], b[j], sum[i][j]);
        }
        if (!more) break;
        DEPOSIT(now ^ 1)                               // its readers passed the last barrier
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    UNROLL for (int i = 0; i < TM; i++)
        UNROLL for (int j = 0; j < TN; j++) {
            const size_t m = m0 + tm + i / VW * VW * (BM / TM) + i % VW, n = n0 + tn + j / VW * VW * (BN / TN) + j % VW;
            if (INSIDE(m, M, BM) && INSIDE(n, N, BN)) { EPILOGUE(batch, m, n, sum[i][j]); }
        }
}
