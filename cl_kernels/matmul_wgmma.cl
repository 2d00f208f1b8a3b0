// matmul on Hopper's tensor cores: y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), rounded operands, sums in float32.
//
// For NVIDIA devices of compute capability 9.0, where the user asks for a PRECISION below IEEE float32, or for float32 made of three products:
//   TF32 BF16 FP16   operands rounded to nearest in that format (8, 8 and 5 bits of exponent; 10, 7 and 10 of mantissa); the tensor core's sums
//   FP32X3           x = hi + lo, each in TF32: hi hi + hi lo + lo hi; every PROMOTE steps the sums move to IEEE float32 registers, because the
//                    tensor core truncates when it adds. Error as float32's, except: an infinite operand gives NaN, |x| > 3.4e38 is infinite
// The generator prepends what matmul.cl says (sizes, strides, X_BATCH, W_BATCH, EPILOGUE), X_ALIGN and W_ALIGN, and the numbers of
// clnet/kernels/matmul/matmul_wgmma.py; sizes, strides and K_PART may be arguments of the kernel (include/multiples.h). VARIANT says which kernel:
//
// PACK, kernel matmul_pack. Grid (tiles of x and of w * 256, 1, 1), local size 256: one work-group writes one tile of 128 rows x 128 bytes along
//   k (KT elements) of an operand, rounded, padded with zeros, rows in order, the 16-byte pieces c of row r swapped to c ^ (r % 8) as the
//   tensor core wants them: packed_x [copies][row tiles][k tiles][TERMS][16 KB]. Whatever the strides; operands may be 16-bit already (NARROW).
// MULTIPLY, kernel matmul. Grid (GROUPS * 288, 1, 1), local size 288: work-groups walk the 128 x BN tiles of y. Warp 8 keeps STAGES blocks of KT
//   on their way into local memory (bulk copies; barriers full and empty); warps 0 to 3 and 4 to 7 multiply 64 rows each (wgmma), and while
//   they store a tile, through local memory, 32 columns at a time, the first blocks of the next one arrive. K may be cut into SPLIT parts of
//   K_PART blocks, which matmul_gpu.cl adds (SUM). Local memory STAGES * (128 + BN) * 128 * TERMS + 17 KB.
//   X_DIRECT, W_DIRECT: the operand is 16-bit and read where it lies, by the unit that copies boxes of tensors, which swaps the pieces on the way
//   and puts zeros beyond the edges. It wants to know the tensor: a map of 128 bytes, made by each group in `maps`. An operand that begins at an
//   odd place is gathered by warp 8 instead, slowly.

#define PACK 1
#define MULTIPLY 2
#define TF32 1
#define BF16 2
#define FP16 3
#define FP32X3 4
#ifndef VARIANT
#define VARIANT MULTIPLY        // which of them
#endif
#ifndef PRECISION
#define PRECISION TF32          // arithmetic
#endif
#ifndef NARROW
#define NARROW 0                // 1: the operands are 16-bit already
#endif
#ifndef BN
#define BN 256                  // columns of a tile, 128 or 256
#endif
#ifndef STAGES
#define STAGES 4                // blocks in local memory
#endif
#ifndef PROMOTE
#define PROMOTE 4               // blocks between promotions (FP32X3)
#endif
#ifndef STRIPE
#define STRIPE 16               // tiles along m that are walked before the next along n
#endif

#ifndef SPLIT
#define SPLIT 1                 // parts of K
#endif
#ifndef K_PART
#define K_PART K_TILES          // blocks of a part
#endif
#ifndef X_DIRECT
#define X_DIRECT 0              // 1: x is read where it lies
#endif
#ifndef W_DIRECT
#define W_DIRECT 0
#endif

#include "include/multiples.h"

#if PRECISION == FP32X3
#define TERMS 2                 // hi and lo
#else
#define TERMS 1
#endif
#define WORD_ELEMENTS (PRECISION == BF16 || PRECISION == FP16 ? 2 : 1)
#define PIECE (4 * WORD_ELEMENTS)               // elements of 16 bytes
#define KT (8 * PIECE)                          // elements of 128 bytes
#define K_TILES ((K + KT - 1) / KT)
#define X_TILES ((M + 127) / 128)
#define W_TILES ((N + BN - 1) / BN * (BN / 128))
#define TILE_BYTES (16384 * TERMS)

#if VARIANT == PACK

#if NARROW
typedef ushort element;
#else
typedef float element;
#endif

// Two words (one, for 32-bit formats) of rounded elements; the rest that rounding leaves, where it is wanted.
INLINE uint rounded(const float* v) {
    uint word;
#if PRECISION == BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[1]), "f"(v[0]));
#elif PRECISION == FP16
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[1]), "f"(v[0]));
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(v[0]));
#endif
    return word;
}

INLINE void put(const element* v, __global uint4* to) {
    uint words[4];
#if NARROW
    UNROLL for (int i = 0; i < 4; i++) words[i] = v[2 * i] | (uint)v[2 * i + 1] << 16;
#else
    UNROLL for (int i = 0; i < 4; i++) words[i] = rounded(v + i * WORD_ELEMENTS);
#endif
    to[0] = (uint4)(words[0], words[1], words[2], words[3]);
#if TERMS == 2
    UNROLL for (int i = 0; i < 4; i++) {
        const float hi = as_float(words[i]), lo = (words[i] & 0x7f800000) != 0x7f800000 ? v[i] - hi : 0;
        words[i] = rounded(&lo);
    }
    to[1024] = (uint4)(words[0], words[1], words[2], words[3]);
#endif
}

// The tile of rows r0 .. and steps k0 .. of an operand. The strides are constants, so only one way is compiled for each.
INLINE void pack(__global const element* restrict from, const size_t rows, const size_t r0, const size_t k0, const size_t stride_r,
                 const size_t stride_k, const bool aligned, __global uint4* restrict to, __local uint* lines SIZES) {
    const uint t = get_local_id(0), c = t % 8;
    from += r0 * stride_r + k0 * stride_k;
    if (stride_r == 1 && stride_k != 1 && aligned) {    // lanes along rows: turned in local memory, a word a lane
        const uint words = 128 * sizeof(element) / 4;
        UNROLL for (uint i = 0; i < KT * words / 256; i++) {
            const uint e = t + i * 256, k = e / words, r = e % words * (4 / sizeof(element));
            lines[k * (words + 1) + e % words] = r0 + r < rows && k0 + k < K ? *(__global const uint*)(from + k * stride_k + r) : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (uint i = 0; i < 4; i++) {
            const uint r = t / 8 + i * 32;
            element v[PIECE];
            UNROLL for (uint j = 0; j < PIECE; j++) {
#if NARROW
                v[j] = lines[(c * PIECE + j) * (words + 1) + r / 2] >> (r % 2 * 16);
#else
                v[j] = as_float(lines[(c * PIECE + j) * (words + 1) + r]);
#endif
            }
            put(v, to + r * 8 + (c ^ (r % 8)));
        }
        return;
    }
    UNROLL for (uint i = 0; i < 4; i++) {
        const uint r = t / 8 + i * 32;
        element v[PIECE];
        if (stride_k == 1 && aligned) {                 // whole pieces: inside, or not
            const bool in = r0 + r < rows && k0 + c * PIECE < K;
            __global const uint4* piece = (__global const uint4*)(from + r * stride_r + c * PIECE);
            UNROLL for (uint j = 0; j < sizeof(v) / 16; j++) ((uint4*)v)[j] = in ? piece[j] : (uint4)(0);
        } else
            UNROLL for (uint j = 0; j < PIECE; j++)
                v[j] = r0 + r < rows && k0 + c * PIECE + j < K ? from[r * stride_r + (c * PIECE + j) * stride_k] : 0;
        put(v, to + r * 8 + (c ^ (r % 8)));
    }
}

#define WHOLE (16 / sizeof(element))                    // elements to which a piece in memory is aligned, at least
#define PER_WORD (4 / sizeof(element))
#define ALIGNED(x, rows, stride_r, stride_k)                                                               \
    (x##_BATCH_EVEN && (x##_ALONG_K ? x##_ALIGN % WHOLE == 0 && K_OF % PIECE == 0 && stride_r##_OF % WHOLE == 0 \
                                    : x##_ACROSS_K && x##_ALIGN % PER_WORD == 0 && rows##_OF % PER_WORD == 0 && stride_k##_OF % PER_WORD == 0))

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void matmul_pack(PARAMS) {
    BEGIN
    __local uint lines[KT * (128 * sizeof(element) / 4 + 1)];
    size_t tile = get_group_id(0);
    const size_t of_x = X_DIRECT ? 0 : (size_t)X_COPIES * X_TILES * K_TILES;
#if !X_DIRECT
    if (tile < of_x) {
        const size_t b = tile / (X_TILES * K_TILES), r = tile / K_TILES % X_TILES, k = tile % K_TILES;
        pack((__global const element*)x + X_BATCH(b), M, r * 128, k * KT, X_M, X_K, ALIGNED(X, M, X_M, X_K),
             (__global uint4*)packed_x + tile * (TILE_BYTES / 16), lines SIZES_PASSED);
        return;
    }
#endif
#if !W_DIRECT
    {
        tile -= of_x;
        const size_t b = tile / (W_TILES * K_TILES), r = tile / K_TILES % W_TILES, k = tile % K_TILES;
        pack((__global const element*)w + W_BATCH(b), N, r * 128, k * KT, W_N, W_K, ALIGNED(W, N, W_N, W_K),
             (__global uint4*)packed_w + tile * (TILE_BYTES / 16), lines SIZES_PASSED);
    }
#endif
}

#else

#define WG_COLUMNS BN
#if PRECISION == BF16
#define WG_KIND WG_BF16
#elif PRECISION == FP16
#define WG_KIND WG_FP16
#else
#define WG_KIND WG_TF32
#endif
#define X_ACROSS (X_DIRECT && X_ACROSS_K)
#define W_ACROSS (W_DIRECT && W_ACROSS_K)
#include "include/wgmma.h"

#define STAGE_BYTES (TILE_BYTES * (1 + BN / 128))
#define SUMS (BN / 2)                                   // of a thread: 64 x BN / 128
#if TERMS == 2
#define RESULTS total
#else
#define RESULTS c
#endif
#define NS ((N + BN - 1) / BN)
#define TILES ((size_t)BATCH * SPLIT * X_TILES * NS)
#define X_STEP (X_ACROSS ? 128 : 2)                     // of a descriptor, 32 bytes along k further
#define W_STEP (W_ACROSS ? 128 : 2)
#define X_MAPPED (X_DIRECT && X_ALIGN % 8 == 0)
#define W_MAPPED (W_DIRECT && W_ALIGN % 8 == 0)

// Tile number -> batch, part of K, row tile, column tile: stripes of STRIPE row tiles, so that groups that run together share operands in the cache.
#define LOCATE(tile)                                                                                       \
    const size_t batch = (tile) / ((size_t)X_TILES * NS * SPLIT), part = (tile) / ((size_t)X_TILES * NS) % SPLIT, g = (tile) % ((size_t)X_TILES * NS); \
    const size_t first = g / (STRIPE * NS) * STRIPE, stripe = min((size_t)STRIPE, (size_t)X_TILES - first);     \
    const size_t row = first + g % (STRIPE * NS) % stripe, col = g % (STRIPE * NS) / stripe;                \
    const uint k_first = part * K_PART, k_end = min(k_first + (uint)(K_PART), (uint)K_TILES);

// One operand's part of a block, `count` tiles of 128 rows: packed ones, boxes of the tensor, or pieces that lanes gather.
#define FETCH_PACKED(to, from, tile, count)                                                                \
    UNROLL for (uint h = 0; h < (count); h++) COPY_BULK((to) + h * TILE_BYTES, (__global const uchar*)(from) + ((tile) + h * K_TILES) * TILE_BYTES, TILE_BYTES, at);
#define FETCH_BOXES(to, map, across, r, k, b, count)                                                       \
    if (across) {                                                                                          \
        UNROLL for (uint h = 0; h < 2 * (count); h++) COPY_BOX((to) + h * 8192, map, (r) + h * 64, k, b, at); \
    } else {                                                                                               \
        UNROLL for (uint h = 0; h < (count); h++) COPY_BOX((to) + h * 16384, map, k, (r) + h * 128, b, at); \
    }

#if (X_DIRECT && !X_MAPPED) || (W_DIRECT && !W_MAPPED)
INLINE void gather(const uint to, __global const ushort* from, const size_t rows, const size_t r0, const size_t k0, const size_t stride_r, const size_t stride_k,
                   const bool across, const uint count SIZES) {
    for (uint i = get_local_id(0) % 32; i < count * 1024; i += 32) {
        const uint line = i / 8, piece = i % 8, r = across ? line / 64 * 64 + piece * 8 : line, k = across ? line % 64 : piece * 8;
        uint words[4];
        UNROLL for (uint j = 0; j < 8; j++) {
            const size_t rj = r0 + r + (across ? j : 0), kj = k0 + k + (across ? 0 : j);
            const uint v = rj < rows && kj < K ? from[rj * stride_r + kj * stride_k] : 0;
            words[j / 2] = j % 2 ? words[j / 2] | v << 16 : v;
        }
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(to + SWAPPED(i * 16, 128)), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(288, 1, 1))) void matmul(PARAMS) {
    BEGIN
    __local uchar blocks[STAGES * STAGE_BYTES] __attribute__((aligned(1024)));
    __local float lines[8][16 * 32] __attribute__((aligned(128)));
    __local ulong barriers[2 * STAGES];
#if X_MAPPED || W_MAPPED
    __local uint map_words[64] __attribute__((aligned(128)));
#endif
    const uint base = local_address(blocks), full = local_address(barriers), empty = full + 8 * STAGES;
    const uint t = get_local_id(0), warp = t / 32, lane = t % 32;
    if (t == 0) {
        for (uint s = 0; s < STAGES; s++) {
            BARRIER_INIT(full + s * 8, 1);
            BARRIER_INIT(empty + s * 8, 8);
        }
        BARRIERS_READY
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint stage = 0, phase = 0;
    if (warp == 8) {
#if X_MAPPED
        __global uchar* x_map = (__global uchar*)maps + get_group_id(0) * 256;
        if (X_ACROSS) { MAP_TENSOR(x_map, map_words, x, M, K, X_COPIES, X_K, X_COPY_STRIDE, 64) } else { MAP_TENSOR(x_map, map_words, x, K, M, X_COPIES, X_M, X_COPY_STRIDE, 128) }
#endif
#if W_MAPPED
        __global uchar* w_map = (__global uchar*)maps + get_group_id(0) * 256 + 128;
        if (W_ACROSS) { MAP_TENSOR(w_map, map_words + 32, w, N, K, W_COPIES, W_K, W_COPY_STRIDE, 64) } else { MAP_TENSOR(w_map, map_words + 32, w, K, N, W_COPIES, W_N, W_COPY_STRIDE, 128) }
#endif
        for (size_t tile = get_group_id(0); tile < TILES; tile += GROUPS) {
            LOCATE(tile)
            const size_t xb = X_COPIES > 1 ? batch : 0, wb = W_COPIES > 1 ? batch : 0;
            for (uint k = k_first; k < k_end; k++) {
                const uint to = base + stage * STAGE_BYTES, at = full + stage * 8;
                WAIT(empty + stage * 8, phase ^ 1);
#if X_DIRECT && !X_MAPPED
                gather(to, (__global const ushort*)x + X_BATCH(batch), M, row * 128, k * KT, X_M, X_K, X_ACROSS, 1 SIZES_PASSED);
#endif
#if W_DIRECT && !W_MAPPED
                gather(to + TILE_BYTES, (__global const ushort*)w + W_BATCH(batch), N, col * BN, k * KT, W_N, W_K, W_ACROSS, BN / 128 SIZES_PASSED);
#endif
#if (X_DIRECT && !X_MAPPED) || (W_DIRECT && !W_MAPPED)
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                WARP
#endif
                if (lane == 0) {
                    EXPECT(at, (X_DIRECT && !X_MAPPED ? 0 : TILE_BYTES) + (W_DIRECT && !W_MAPPED ? 0 : BN / 128 * TILE_BYTES));
#if X_MAPPED
                    FETCH_BOXES(to, x_map, X_ACROSS, row * 128, k * KT, xb, 1)
#elif !X_DIRECT
                    FETCH_PACKED(to, packed_x, (xb * X_TILES + row) * K_TILES + k, 1)
#endif
#if W_MAPPED
                    FETCH_BOXES(to + TILE_BYTES, w_map, W_ACROSS, col * BN, k * KT, wb, BN / 128)
#elif !W_DIRECT
                    FETCH_PACKED(to + TILE_BYTES, packed_w, (wb * W_TILES + col * (BN / 128)) * K_TILES + k, BN / 128)
#endif
                }
                if (++stage == STAGES) { stage = 0; phase ^= 1; }
            }
        }
        return;
    }
    for (size_t tile = get_group_id(0); tile < TILES; tile += GROUPS) {
        LOCATE(tile)
        float c[SUMS];
        UNROLL for (int i = 0; i < SUMS; i++) c[i] = 0;
#if TERMS == 2
        float total[SUMS];
        UNROLL for (int i = 0; i < SUMS; i++) total[i] = 0;
#endif
        uint held = STAGES;                             // the stage that is still being read
        for (uint k = k_first; k < k_end; k++) {
            WAIT(full + stage * 8, phase);
            const uint to = base + stage * STAGE_BYTES;
            const ulong xd = DESCRIPTOR(to + warp / 4 * 8192, 128, 8192), wd = DESCRIPTOR(to + TILE_BYTES, 128, 8192);
            FENCE
#if TERMS == 2
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + 2 * i, wd + 2 * i + 1024, (k - k_first) % PROMOTE | i) }
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + 2 * i + 1024, wd + 2 * i, 1) }
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + 2 * i, wd + 2 * i, 1) }
#else
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + X_STEP * i, wd + W_STEP * i, (k - k_first) | i) }
#endif
            COMMIT
            FINISHED(1)
            if (lane == 0 && held < STAGES) ARRIVE(empty + held * 8);
            held = stage;
            if (++stage == STAGES) { stage = 0; phase ^= 1; }
#if TERMS == 2
            if ((k - k_first) % PROMOTE == PROMOTE - 1 || k == k_end - 1) {
                FINISHED(0)
                SETTLE
                UNROLL for (int i = 0; i < SUMS; i++) total[i] += c[i];
            }
#endif
        }
        FINISHED(0)
        SETTLE
        if (lane == 0 && held < STAGES) ARRIVE(empty + held * 8);
        UNROLL for (uint p = 0; p < BN / 32; p++) {     // sums 4j .. 4j+3: rows lane / 4 and 8 more, columns 8j + lane % 4 * 2 and the next
            WARP
            UNROLL for (uint j = 0; j < 4; j++) {
                __local float* to = lines[warp] + lane / 4 * 32 + ((j * 8 + lane % 4 * 2) ^ (lane / 4 % 4 * 8));
                *(__local float2*)to = (float2)(RESULTS[16 * p + 4 * j], RESULTS[16 * p + 4 * j + 1]);
                *(__local float2*)(to + 256) = (float2)(RESULTS[16 * p + 4 * j + 2], RESULTS[16 * p + 4 * j + 3]);
            }
            WARP
#if VW == 4                                             // N is a multiple of it: four columns of four rows at a time
            const size_t m0 = row * 128 + warp * 16 + lane / 8, n = col * BN + p * 32 + lane % 8 * 4;
            UNROLL for (uint r = 0; r < 16; r += 4)
                if ((M_OF % 128 == 0 || m0 + r < M) && (N_OF % BN == 0 || n < N)) {
                    const float4 v = *(__local float4*)(lines[warp] + (r + lane / 8) * 32 + (lane % 8 * 4 ^ (lane / 8 * 8)));
                    RESULT_V(batch, (m0 + r), n, v);
                }
#else
            const size_t m0 = row * 128 + warp * 16, n = col * BN + p * 32 + lane;
            _Pragma("unroll 4") for (uint r = 0; r < 16; r++)
                if ((M_OF % 128 == 0 || m0 + r < M) && (N_OF % BN == 0 || n < N)) { RESULT(batch, (m0 + r), n, lines[warp][r * 32 + (lane ^ (r % 4 * 8))]); }
#endif
        }
    }
}

#endif
