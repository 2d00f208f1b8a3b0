// matmul on tensor cores before Hopper's (compute capability 8.0 and later): y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), sums in float32.
//
//   BF16 FP16   16-bit operands, as they are
//   TF32        float32 operands, rounded to nearest TF32 on their way from local memory to the multipliers
// The generator prepends what matmul.cl says (sizes, strides, X_BATCH, W_BATCH, EPILOGUE), X_ALIGN and W_ALIGN, and the numbers of
// clnet/kernels/matmul/matmul_mma.py; sizes, strides and K_PART may be arguments of the kernel (include/multiples.h). VARIANT says which kernel:
//
// MULTIPLY, kernel matmul. Grid (tiles * BM * BN / 128, 1, BATCH * SPLIT), local size BM * BN / 128: one work-group for a BM x BN tile of y, a warp
//   for 64 x 64 of it. Tiles in stripes, parts of K and `partial` as in matmul_gpu.cl, which adds them (SUM). Local memory holds STAGES blocks of
//   128 bytes along k, copied by the memory system STAGES - 1 blocks ahead, as lines of 128 bytes along the contiguous dimension of each operand:
//   BM (BN) lines along k, or KT lines across it for each of BM * ELEMENT / 128 panels. The 16-byte pieces c of a line l are swapped to c ^ (l % 8), so
//   that rows of 8 x 8 matrices fall into different banks; matrices that lie across k are transposed as they are read (16 bits), or read
//   word by word (TF32: pieces swapped to c ^ (2 l % 8)). Operands that begin at an odd place, or whose lines do, are gathered element by element.
//   Local memory STAGES * (BM + BN) * 128 bytes. Assumes BM and BN multiples of 64.
//
// ROUND, kernel matmul_round. Grid (lines * 64, 1, copies), local size 64: a float32 operand as 16-bit elements in rounded_x or rounded_w, lines along
//   its contiguous dimension, padded to multiples of 8.

#define MULTIPLY 1
#define ROUND 2
#define TF32 1
#define BF16 2
#define FP16 3
#ifndef VARIANT
#define VARIANT MULTIPLY        // which of them
#endif
#ifndef PRECISION
#define PRECISION BF16          // arithmetic
#endif
#ifndef BM
#define BM 128                  // tile of a work-group
#endif
#ifndef BN
#define BN 128
#endif
#ifndef STAGES
#define STAGES 3                // blocks in local memory
#endif
#ifndef STRIPE
#define STRIPE 8                // tiles along m that are walked before the next along n
#endif
#ifndef SPLIT
#define SPLIT 1                 // parts of K
#endif
#ifndef K_PART
#define K_PART ((K + KT - 1) / KT)
#endif
#include "include/multiples.h"
#include "include/ptx.h"

#if VARIANT == ROUND

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void matmul_round(PARAMS) {
    BEGIN
    const size_t line = get_group_id(0), copy = get_group_id(2);
#if ROUND_W
    __global const float* from = w + W_BATCH(copy) + line * LINE_STRIDE;
    __global ushort* to = (__global ushort*)rounded_w + (copy * get_num_groups(0) + line) * PADDED;
#else
    __global const float* from = x + X_BATCH(copy) + line * LINE_STRIDE;
    __global ushort* to = (__global ushort*)rounded_x + (copy * get_num_groups(0) + line) * PADDED;
#endif
    for (size_t i = get_local_id(0) * 2; i < PADDED; i += 128) {
        const float lo = i < LENGTH ? from[i * ELEMENT_STRIDE] : 0, hi = i + 1 < LENGTH ? from[(i + 1) * ELEMENT_STRIDE] : 0;
#if PRECISION == BF16
        *(__global uint*)(to + i) = PAIR_BF16(lo, hi);
#else
        *(__global uint*)(to + i) = PAIR_FP16(lo, hi);
#endif
    }
}

#else

#if PRECISION == TF32
#define ELEMENT 4
typedef uint element;
#define MMA MMA_TF32
#elif PRECISION == BF16
#define ELEMENT 2
typedef ushort element;
#define MMA MMA_BF16
#else
#define ELEMENT 2
typedef ushort element;
#define MMA MMA_FP16
#endif
#define KT (128 / ELEMENT)                              // steps along k of a block
#define PIECE (16 / ELEMENT)                            // elements of 16 bytes
#define ITEMS (BM * BN / 128)
#define MS ((M + BM - 1) / BM)
#define NS ((N + BN - 1) / BN)
#define STAGE_BYTES ((BM + BN) * 128)
#define SWAP(line, piece, words) ((line) * 128 + (((piece) ^ ((words) ? 2 * (line) % 8 : (line) % 8)) * 16))
#define BY_WORD(across) ((across) && ELEMENT == 4)
#ifndef X_EVEN
#define X_EVEN EVEN(X_ALIGN, X_ALONG_K, X_ACROSS_K, X_M, X_K)   // whole pieces can be copied
#endif
#ifndef W_EVEN
#define W_EVEN EVEN(W_ALIGN, W_ALONG_K, W_ACROSS_K, W_N, W_K)
#endif
#define EVEN(align, along, across, stride_r, stride_k) ((align) % PIECE == 0 && ((across) ? stride_k##_OF : stride_r##_OF) % PIECE == 0 && ((along) || (across)))

// A block of `lines` lines of an operand whose rows begin at r0: whole pieces by the memory system, zeros outside; or element by element.
#define FETCH(from, stride_r, stride_k, across, even, rows, r0, k0, lines, to)                             \
    for (uint i = item; i < (lines) * 8; i += ITEMS) {                                                     \
        const uint line = i / 8, piece = i % 8;                                                            \
        const size_t r = (r0) + ((across) ? line / KT * KT + piece * PIECE : line), k = (k0) + ((across) ? line % KT : piece * PIECE); \
        const local_at at = (to) + SWAP(line, piece, BY_WORD(across));                                     \
        if (even) {                                                                                        \
            const bool in = r < (rows) && k < K;                                                           \
            const size_t left = (across) ? (rows) - r : K - k;                                             \
            COPY_ASYNC(at, (from) + (in ? r * (stride_r) + k * (stride_k) : 0), in ? min(left * ELEMENT, (size_t)16) : 0); \
        } else {                                                                                           \
            uint words[4];                                                                                 \
            UNROLL for (uint j = 0; j < PIECE; j++) {                                                      \
                const size_t rj = r + ((across) ? j : 0), kj = k + ((across) ? 0 : j);                     \
                const uint v = rj < (rows) && kj < K ? (from)[rj * (stride_r) + kj * (stride_k)] : 0;      \
                if (ELEMENT == 4) words[j] = v; else words[j / 2] = j % 2 ? words[j / 2] | v << 16 : v;    \
            }                                                                                              \
            PUT(at, (uint4)(words[0], words[1], words[2], words[3]));                                      \
        }                                                                                                  \
    }

// 16 rows from r on, 32 bytes along k (number kk of the block): matrix i is rows 8 (i % 2), pieces i / 2 of x; rows 8 (i / 2), pieces i % 2 of w.
#define READ(v, base, r, kk, across, row_bit, k_bit)                                                       \
    if (BY_WORD(across)) {                                                                                 \
        UNROLL for (uint i = 0; i < 4; i++) {                                                              \
            const uint rr = (r) + lane / 4 + (row_bit(i)) * 8, line = rr / KT * KT + (kk) * 8 + lane % 4 + (k_bit(i)) * 4; \
            (v)[i] = WORD_AT((base) + SWAP(line, rr % KT / 4, 1) + rr % 4 * 4);                               \
        }                                                                                                  \
    } else if (across) {                                                                                   \
        const uint rr = (r) + (row_bit(lane / 8)) * 8, line = rr / KT * KT + (kk) * 16 + (k_bit(lane / 8)) * 8 + lane % 8; \
        LDMATRIX_T(v, (base) + SWAP(line, rr % KT / 8, 0));                                                \
    } else {                                                                                               \
        const uint line = (r) + (row_bit(lane / 8)) * 8 + lane % 8;                                        \
        LDMATRIX(v, (base) + SWAP(line, (kk) * 2 + (k_bit(lane / 8)), 0));                                 \
    }                                                                                                      \
    if (ELEMENT == 4) { UNROLL for (uint i = 0; i < 4; i++) (v)[i] = ROUND_TF32(as_float((v)[i])); }
#define LOW(i) ((i) % 2)
#define HIGH(i) ((i) / 2)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void matmul(PARAMS) {
    BEGIN
    __local uchar blocks[STAGES * STAGE_BYTES] __attribute__((aligned(128)));
    const local_at base = LOCAL_AT(blocks);
    const uint item = get_local_id(0), warp = item / 32, lane = item % 32;
    const size_t batch = get_group_id(2) / SPLIT, part = get_group_id(2) % SPLIT, g = get_group_id(0), first = g / (STRIPE * NS) * STRIPE;
    const size_t stripe = min((size_t)STRIPE, (size_t)MS - first), in_stripe = g % (STRIPE * NS);
    const size_t m0 = (first + in_stripe % stripe) * BM, n0 = in_stripe / stripe * BN;
    const uint wm = warp % (BM / 64) * 64, wn = warp / (BM / 64) * 64, all = (K + KT - 1) / KT, block0 = min((uint)part * K_PART, all), count = min((uint)(K_PART), all - block0);
    __global const element* from_x = (__global const element*)X_FROM;
    __global const element* from_w = (__global const element*)W_FROM;
    float c[4][8][4];
    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 8; j++)
            UNROLL for (int e = 0; e < 4; e++) c[i][j][e] = 0;
#define FETCH_BLOCK(block, stage)                                                                          \
    {                                                                                                      \
        const size_t k_at = (size_t)(block0 + (block)) * KT;                                               \
        FETCH(from_x, X_M, X_K, X_ACROSS_K, X_EVEN, (size_t)M, m0, k_at, BM, base + (stage) * STAGE_BYTES) \
        FETCH(from_w, W_N, W_K, W_ACROSS_K, W_EVEN, (size_t)N, n0, k_at, BN, base + (stage) * STAGE_BYTES + BM * 128) \
    }
    UNROLL for (uint s = 0; s < STAGES - 1; s++) {
        if (s < count) FETCH_BLOCK(s, s)
        COPY_COMMIT
    }
    uint stage = 0, next = STAGES - 1;
    for (uint block = 0; block < count; block++) {
        COPY_WAIT(STAGES - 2)
        barrier(CLK_LOCAL_MEM_FENCE);                   // everybody's copies are there, and nobody reads stage `next` any more
        if (block + STAGES - 1 < count) FETCH_BLOCK(block + STAGES - 1, next)
        COPY_COMMIT
        const local_at xs = base + stage * STAGE_BYTES, ws = xs + BM * 128;
        UNROLL for (uint kk = 0; kk < 4; kk++) {
            uint a[4][4], b[4][4];
            UNROLL for (uint q = 0; q < 4; q++) { READ(a[q], xs, wm + q * 16, kk, X_ACROSS_K, LOW, HIGH) }
            UNROLL for (uint q = 0; q < 4; q++) { READ(b[q], ws, wn + q * 16, kk, W_ACROSS_K, HIGH, LOW) }
            UNROLL for (uint q = 0; q < 4; q++)
                UNROLL for (uint j = 0; j < 8; j++) MMA(c[q][j], a[q], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        next = next == STAGES - 1 ? 0 : next + 1;
    }
    COPY_WAIT(0)
    barrier(CLK_LOCAL_MEM_FENCE);
    __local float* const lines = (__local float*)blocks + warp * 512;
    UNROLL for (uint q = 0; q < 4; q++)
        UNROLL for (uint p = 0; p < 2; p++) {           // 16 rows, 32 columns, their groups of 8 swapped by row
            WARP
            UNROLL for (uint j = 0; j < 4; j++) {
                __local float* to = lines + lane / 4 * 32 + ((j * 8 + lane % 4 * 2) ^ (lane / 4 % 4 * 8));
                *(__local float2*)to = (float2)(c[q][4 * p + j][0], c[q][4 * p + j][1]);
                *(__local float2*)(to + 256) = (float2)(c[q][4 * p + j][2], c[q][4 * p + j][3]);
            }
            WARP
            const size_t m1 = m0 + wm + q * 16 + lane / 8, n = n0 + wn + p * 32 + lane % 8 * 4;
#if VW == 4                                             // N is a multiple of it
            UNROLL for (uint r = 0; r < 16; r += 4)
                if ((M_OF % BM == 0 || m1 + r < M) && (N_OF % BN == 0 || n < N)) {
                    const float4 v = *(__local float4*)(lines + (r + lane / 8) * 32 + (lane % 8 * 4 ^ (lane / 8 * 8)));
                    RESULT_V(batch, (m1 + r), n, v);
                }
#else
            UNROLL for (uint r = 0; r < 16; r += 4)
                UNROLL for (uint e = 0; e < 4; e++)
                    if ((M_OF % BM == 0 || m1 + r < M) && n + e < N) {
                        RESULT(batch, (m1 + r), (n + e), lines[(r + lane / 8) * 32 + (lane % 8 * 4 ^ (lane / 8 * 8)) + e]);
                    }
#endif
        }
}

#endif
