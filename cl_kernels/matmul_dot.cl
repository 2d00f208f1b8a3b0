// matmul_dot: y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), accumulated in T, in a fixed order, for few m or few n (matrix times vector).
//
// For CPUs, x and w both contiguous along k: vectors run along k, DM x DN = VW sums at a time, nothing is packed; the VW vectors of sums fold into one
//   vector of VW sums. Grid (M / IC, N / JC, batch), local size 1.
// The generator prepends include/vector.h and what it does for matmul.cl; the geometry is that of clnet/kernels/matmul/matmul_dot.py.
// Every element is stored exactly once.

#ifndef GROUP_ATTR
#define GROUP_ATTR __attribute__((reqd_work_group_size(1, 1, 1)))
#endif

#include "include/operands.h"

#ifndef DM
#define DM 1                    // rows m of a tile of sums; DM * DN == VW
#endif
#ifndef DN
#define DN (VW / DM)            // columns n of it
#endif
#ifndef IC
#define IC DM                   // rows of a work-item
#endif
#ifndef JC
#define JC (DN * 4)             // columns of a work-item
#endif

__kernel GROUP_ATTR void matmul(PARAMS) {
    BEGIN
    const size_t batch = get_global_id(2), m0 = get_global_id(0) * (IC), n0 = get_global_id(1) * (JC);
    for (size_t n = n0; n < min(n0 + (JC), (size_t)N); n += DN)
        for (size_t m = m0; m < min(m0 + (IC), (size_t)M); m += DM) {
            __global const STORED_OF(X_KIND)* rows[DM];
            __global const STORED_OF(W_KIND)* cols[DN];
            // beyond the edge the last row is read again, and not stored
            UNROLL for (int i = 0; i < DM; i++) rows[i] = x + X_BATCH(batch) + min(m + i, (size_t)M - 1) * X_M;
            UNROLL for (int j = 0; j < DN; j++) cols[j] = w + W_BATCH(batch) + min(n + j, (size_t)N - 1) * W_N;
            VT sum[VW];
            UNROLL for (int i = 0; i < VW; i++) sum[i] = VSPLAT(0);
            size_t k = 0;
            for (; k + VW <= K; k += VW) {
                VT row[DM];
                UNROLL for (int i = 0; i < DM; i++) row[i] = VLOAD_OF(X_KIND, rows[i] + k);
                UNROLL for (int j = 0; j < DN; j++) {
                    const VT col = VLOAD_OF(W_KIND, cols[j] + k);
                    UNROLL for (int i = 0; i < DM; i++) sum[i * DN + j] = VFMA(row[i], col, sum[i * DN + j]);
                }
            }
#if VW > 1                                              // add neighbours, pack the halves: VW vectors become one
            UNROLL for (int left = VW / 2; left > 0; left /= 2)
                UNROLL for (int i = 0; i < left; i++)
                    sum[i] = VEVEN(sum[2 * i], sum[2 * i + 1]) + VODD(sum[2 * i], sum[2 * i + 1]);
#endif
            T out[VW] __attribute__((aligned(64)));
            VSTORE_P(sum[0], out);
            for (; k < K; k++)
                UNROLL for (int i = 0; i < VW; i++) out[i] += SCALAR_OF(X_KIND, rows[i / DN] + k) * SCALAR_OF(W_KIND, cols[i % DN] + k);
            if (DM == 1 && n + VW <= N) { EPILOGUE_V(batch, m, n, VLOAD_P(out)); }
            else
                for (int i = 0; i < VW; i++)
                    if (m + i / DN < M && n + i % DN < N) { EPILOGUE(batch, (m + i / DN), (n + i % DN), out[i]); }
        }
}
