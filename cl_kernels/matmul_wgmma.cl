// matmul on Hopper's tensor cores: y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), rounded operands, sums in float32.
//
// For NVIDIA devices of compute capability 9.0, where the user asks for a PRECISION below IEEE float32, or for float32 made of three products:
//   TF32 BF16 FP16   operands rounded to nearest in that format (8, 8 and 5 bits of exponent; 10, 7 and 10 of mantissa); the tensor core's sums
//   FP32X3           x = hi + lo, each in TF32: hi hi + hi lo + lo hi; every PROMOTE steps the sums move to IEEE float32 registers, because the
//                    tensor core truncates when it adds. Error as float32's, except: an infinite operand gives NaN, |x| > 3.4e38 is infinite
// The generator prepends what matmul.cl says (sizes, strides, X_BATCH, W_BATCH, EPILOGUE), X_ALIGN and W_ALIGN, and the numbers of
// clnet/ops/matmul_tensor_geometry.py. VARIANT says which kernel:
//
// PACK, kernel matmul_pack. Grid (tiles of x and of w * 256, 1, 1), local size 256: one work-group writes one tile of 128 rows x 128 bytes along
//   k (KT elements) of an operand, rounded, padded with zeros, rows in order, the 16-byte pieces c of row r swapped to c ^ (r % 8) as the
//   tensor core wants them: packed_x [copies][row tiles][k tiles][TERMS][16 KB]. Whatever the strides; operands may be 16-bit already (NARROW).
// MULTIPLY, kernel matmul. Grid (GROUPS * 288, 1, 1), local size 288: work-groups walk the 128 x BN tiles of y. Warp 8 keeps STAGES blocks of KT
//   on their way into local memory (bulk copies; barriers full and empty); warps 0 to 3 and 4 to 7 multiply 64 rows each (wgmma), and while
//   they store a tile, through local memory, 32 columns at a time, the first blocks of the next one arrive.
//   Local memory STAGES * (128 + BN) * 128 * TERMS + 18 KB.
//
// The OpenCL compiler knows sm_90 but not sm_90a, to which wgmma belongs. Such instructions are written as PTX comments, //@wgmma...: the
// program cache takes the marks off the compiled PTX, and has it assembled for sm_90a.

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
                 const size_t stride_k, const bool aligned, __global uint4* restrict to, __local uint* lines) {
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
#define ALIGNED(align, rows, stride_r, stride_k, batch_even)                                               \
    (batch_even && (stride_k == 1 ? align % WHOLE == 0 && K % PIECE == 0 && stride_r % WHOLE == 0          \
                                  : align % PER_WORD == 0 && rows % PER_WORD == 0 && stride_k % PER_WORD == 0))

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void matmul_pack(PARAMS) {
    BEGIN
    __local uint lines[KT * (128 * sizeof(element) / 4 + 1)];
    size_t tile = get_group_id(0);
    const size_t of_x = (size_t)X_COPIES * X_TILES * K_TILES;
    if (tile < of_x) {
        const size_t b = tile / (X_TILES * K_TILES), r = tile / K_TILES % X_TILES, k = tile % K_TILES;
        pack((__global const element*)x + X_BATCH(b), M, r * 128, k * KT, X_M, X_K, ALIGNED(X_ALIGN, M, X_M, X_K, X_BATCH_EVEN),
             (__global uint4*)packed_x + tile * (TILE_BYTES / 16), lines);
    } else {
        tile -= of_x;
        const size_t b = tile / (W_TILES * K_TILES), r = tile / K_TILES % W_TILES, k = tile % K_TILES;
        pack((__global const element*)w + W_BATCH(b), N, r * 128, k * KT, W_N, W_K, ALIGNED(W_ALIGN, N, W_N, W_K, W_BATCH_EVEN),
             (__global uint4*)packed_w + tile * (TILE_BYTES / 16), lines);
    }
}

#else

#define STAGE_BYTES (TILE_BYTES * (1 + BN / 128))
#define SUMS (BN / 2)                                   // of a thread: 64 x BN / 128
#if TERMS == 2
#define RESULTS total
#else
#define RESULTS c
#endif
#define NS ((N + BN - 1) / BN)
#define TILES ((size_t)BATCH * X_TILES * NS)

INLINE uint local_address(__local void* p) {
    uint a;
    asm("{ .reg .u64 g; cvta.to.shared.u64 g, %1; cvt.u32.u64 %0, g; }" : "=r"(a) : "l"((ulong)p));
    return a;
}

INLINE void wait(const uint barrier_at, const uint parity) {
    uint done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier_at), "r"(parity) : "memory");
    while (!done);
}

#define ARRIVE(at) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory")
#define EXPECT(at, bytes) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(bytes) : "memory")
#define COPY(to, from, bytes, at)                                                                          \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
                 :: "r"(to), "l"(from), "r"(bytes), "r"(at) : "memory")
#define FENCE asm volatile("//@wgmma.fence.sync.aligned;" ::: "memory");
#define COMMIT asm volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory");
#define FINISHED(but) asm volatile("//@wgmma.wait_group.sync.aligned " #but ";" ::: "memory");
#define WARP asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
// Rows of 128 bytes, their pieces swapped in groups of 8 rows, 1024 bytes apart.
#define DESCRIPTOR(at) (1UL << 62 | 64UL << 32 | 1UL << 16 | ((at) & 0x3ffff) >> 4)

#if PRECISION == BF16
#define SHAPE "k16.f32.bf16.bf16"
#define MAJOR ", 0, 0"
#elif PRECISION == FP16
#define SHAPE "k16.f32.f16.f16"
#define MAJOR ", 0, 0"
#else
#define SHAPE "k8.f32.tf32.tf32"
#define MAJOR ""
#endif
#define REGISTERS_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SUM4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SUM16(i) SUM4(i), SUM4(i + 4), SUM4(i + 8), SUM4(i + 12)
#define SUM64(i) SUM16(i), SUM16(i + 16), SUM16(i + 32), SUM16(i + 48)
#if BN == 256
#define ALL_SUMS SUM64(0), SUM64(64)
#define MMA_TEXT "//@{ .reg .pred p; setp.ne.b32 p, %130, 0; " \
    "wgmma.mma_async.sync.aligned.m64n256" SHAPE " {" REGISTERS_0 REGISTERS_64 "}, %128, %129, p, 1, 1" MAJOR "; }"
#else
#define ALL_SUMS SUM64(0)
#define MMA_TEXT "//@{ .reg .pred p; setp.ne.b32 p, %66, 0; " \
    "wgmma.mma_async.sync.aligned.m64n128" SHAPE " {" REGISTERS_0 "}, %64, %65, p, 1, 1" MAJOR "; }"
#endif
// c = x wT, added to c unless `keep` is 0: 64 rows, BN columns, 32 bytes along k
#define MMA(x_at, w_at, keep) asm volatile(MMA_TEXT : ALL_SUMS : "l"(x_at), "l"(w_at), "r"(keep));
#define SETTLE asm volatile("" : ALL_SUMS);             // what comes after reads the sums after it

// Tile number -> batch, row tile, column tile: stripes of STRIPE row tiles, so that groups that run together share operands in the cache.
#define LOCATE(tile)                                                                                       \
    const size_t batch = (tile) / ((size_t)X_TILES * NS), g = (tile) % ((size_t)X_TILES * NS), first = g / (STRIPE * NS) * STRIPE; \
    const size_t stripe = min((size_t)STRIPE, (size_t)X_TILES - first), row = first + g % (STRIPE * NS) % stripe, col = g % (STRIPE * NS) / stripe;

__kernel __attribute__((reqd_work_group_size(288, 1, 1))) void matmul(PARAMS) {
    BEGIN
    __local uchar blocks[STAGES * STAGE_BYTES + 1024] __attribute__((aligned(128)));
    __local float lines[8][16 * 32] __attribute__((aligned(16)));
    __local ulong barriers[2 * STAGES];
    const uint base = (local_address(blocks) + 1023) & ~1023u, full = local_address(barriers), empty = full + 8 * STAGES;
    const uint t = get_local_id(0), warp = t / 32, lane = t % 32;
    if (t == 0) {
        for (uint s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full + s * 8) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" :: "r"(empty + s * 8) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint stage = 0, phase = 0;
    if (warp == 8) {
        if (lane == 0)
            for (size_t tile = get_group_id(0); tile < TILES; tile += GROUPS) {
                LOCATE(tile)
                __global const uchar* a = (__global const uchar*)packed_x + ((X_COPIES > 1 ? batch : 0) * X_TILES + row) * K_TILES * TILE_BYTES;
                __global const uchar* b = (__global const uchar*)packed_w + ((W_COPIES > 1 ? batch : 0) * W_TILES + col * (BN / 128)) * K_TILES * TILE_BYTES;
                for (uint k = 0; k < K_TILES; k++) {
                    const uint to = base + stage * STAGE_BYTES, at = full + stage * 8;
                    wait(empty + stage * 8, phase ^ 1);
                    EXPECT(at, STAGE_BYTES);
                    COPY(to, a + (size_t)k * TILE_BYTES, TILE_BYTES, at);
                    UNROLL for (uint half_ = 0; half_ < BN / 128; half_++)
                        COPY(to + (1 + half_) * TILE_BYTES, b + ((size_t)half_ * K_TILES + k) * TILE_BYTES, TILE_BYTES, at);
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
        for (uint k = 0; k < K_TILES; k++) {
            wait(full + stage * 8, phase);
            const ulong xd = DESCRIPTOR((ulong)(base + stage * STAGE_BYTES + warp / 4 * 8192)), wd = DESCRIPTOR((ulong)(base + stage * STAGE_BYTES + TILE_BYTES));
            FENCE
#if TERMS == 2
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + 2 * i, wd + 2 * i + 1024, (k % PROMOTE | i) != 0) }
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + 2 * i + 1024, wd + 2 * i, 1) }
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + 2 * i, wd + 2 * i, 1) }
#else
            UNROLL for (uint i = 0; i < 4; i++) { MMA(xd + 2 * i, wd + 2 * i, (k | i) != 0) }
#endif
            COMMIT
            FINISHED(1)
            if (lane == 0 && held < STAGES) ARRIVE(empty + held * 8);
            held = stage;
            if (++stage == STAGES) { stage = 0; phase ^= 1; }
#if TERMS == 2
            if (k % PROMOTE == PROMOTE - 1 || k == K_TILES - 1) {
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
            const size_t m0 = row * 128 + warp * 16, n = col * BN + p * 32 + lane;
            _Pragma("unroll 4") for (uint r = 0; r < 16; r++)
                if ((M % 128 == 0 || m0 + r < M) && (N % BN == 0 || n < N)) { EPILOGUE(batch, (m0 + r), n, lines[warp][r * 32 + (lane ^ (r % 4 * 8))]); }
        }
    }
}

#endif
