// matmul on GPUs, few rows times a matrix: y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), in a fixed order.
//
// Limited by memory: every element of the matrix is read once, several loads of each item are on their way at a time.
// The generator prepends what matmul_gpu.cl says.
//
// Grid (column groups * ITEMS, 1, BATCH * SPLIT), local size (ITEMS, 1, 1), ITEMS = LANES_K * LANES_J: few rows times a matrix,
//   limited by memory. The matrix is w (SWAP 0: rows are m, columns n) or x (SWAP 1: rows are n, columns m). Each item keeps the sums of all
//   ROWS for VJ columns and walks down k in steps of LANES_K * VK; LANES_K partial sums are then added through local memory, in order.
//   VK > 1 where the matrix is contiguous along k, else VJ is 4 where it is along its columns and aligned. Local memory LANES_K * LANES_J * VJ elements.

#ifndef SPLIT
#define SPLIT 1                 // parts of K
#endif
#ifndef K_PART
#define K_PART K                // their size, a multiple of VK
#endif
#ifndef LANES_K
#define LANES_K 8
#endif
#ifndef LANES_J
#define LANES_J 32
#endif
#ifndef VJ
#define VJ 1                    // columns of an item; 4 aligned ones are loaded at once where the matrix is contiguous along them
#endif
#ifndef VK
#define VK 1                    // steps along k of an item: 4 aligned ones are loaded at once where it is contiguous along k
#endif
#ifndef ROWS_WIDE
#define ROWS_WIDE 0             // 1: all lines of the other operand begin as its first
#endif
#include "include/operands.h"

#if SWAP
#define COL_ALIGN X_ALIGN
#define COL_KIND X_KIND
#define ROW_KIND W_KIND
#define ROW_ALIGN W_ALIGN
#define RESULT_IJ(i, j, v) RESULT(batch, (j), (i), v);
#else
#define COL_ALIGN W_ALIGN
#define COL_KIND W_KIND
#define ROW_KIND X_KIND
#define ROW_ALIGN X_ALIGN
#define RESULT_IJ(i, j, v) RESULT(batch, (i), (j), v);
#endif
// VK steps along k: at once where they are neighbours and aligned; an operand whose lines are no multiple of VK has VK 1.
#define LOAD_STEPS(to, kind, from, step, align)                                                                  \
    if (VK == VW && step == 1 && align % VW == 0) VSTORE_P(VLOAD_OF(kind, from), to);                      \
    else UNROLL for (int d = 0; d < VK; d++) to[d] = SCALAR_OF(kind, (from) + d * step);
#define ITEMS (LANES_K * LANES_J)
#define GROUP_J (LANES_J * VJ)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void matmul(PARAMS) {
    BEGIN
    __local T sums[LANES_K * GROUP_J];
    // Neighbours stand along the contiguous dimension of the matrix.
    const uint t = get_local_id(0), lk = COL_K == 1 ? t % LANES_K : t / LANES_J, lj = COL_K == 1 ? t / LANES_K : t % LANES_J;
    const size_t batch = get_group_id(2) / SPLIT, part = get_group_id(2) % SPLIT, j0 = get_group_id(0) * GROUP_J, j = j0 + lj * VJ;
    const size_t end = min((size_t)K, (part + 1) * (K_PART));
    __global const STORED_OF(ROW_KIND)* restrict row = ROW_OPERAND;
    __global const STORED_OF(COL_KIND)* restrict col = COL_OPERAND + min(j, (size_t)COLS - 1) * COL_J;
    T sum[ROWS][VJ];
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int c = 0; c < VJ; c++) sum[i][c] = 0;
    _Pragma("unroll 4") for (size_t k = part * (K_PART) + lk * VK; k < end; k += LANES_K * VK) {
        T v[VJ][VK], r[VK];
#if VJ == VW && VK == 1 && COL_J == 1 && COL_ALIGN % VW == 0
        if (j < COLS) VSTORE_P(VLOAD_OF(COL_KIND, col + k * COL_K), v[0]);
#else
        UNROLL for (int c = 0; c < VJ; c++)             // beyond the edge the last column is read again, and not stored
            LOAD_STEPS(v[c], COL_KIND, col + min((size_t)c, (size_t)COLS - 1 - min(j, (size_t)COLS - 1)) * COL_J + k * COL_K, COL_K, COL_ALIGN)
#endif
        UNROLL for (int i = 0; i < ROWS; i++) {
            LOAD_STEPS(r, ROW_KIND, row + i * ROW_I + k * ROW_K, ROW_K, (ROWS_WIDE ? ROW_ALIGN : 1))
            UNROLL for (int d = 0; d < VK; d++)
                UNROLL for (int c = 0; c < VJ; c++) sum[i][c] = VFMA(r[d], v[c][d], sum[i][c]);
        }
    }
    UNROLL for (int i = 0; i < ROWS; i++) {
        UNROLL for (int c = 0; c < VJ; c++) sums[lk * GROUP_J + lj * VJ + c] = sum[i][c];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint c = t; c < GROUP_J; c += ITEMS)
            if (j0 + c < COLS) {
                T total = sums[c];
                UNROLL for (uint s = 1; s < LANES_K; s++) total += sums[s * GROUP_J + c];
                RESULT_IJ((size_t)i, j0 + c, total)
            }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
