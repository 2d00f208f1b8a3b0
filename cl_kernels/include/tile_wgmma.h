// tile_wgmma.h: products of warpgroups with tiles in local memory by wgmma (compute capability 9.0); a warpgroup of 4 warps owns 64 rows (MI 1).
// After tile_tensor.h; needs BN. Rows of 64 (32) elements, their pieces swapped as they are, are what wgmma calls a swizzle of 128 (64) bytes; tiles
// begin at multiples of 1024 bytes. The instructions are comments until the program cache takes the marks off and assembles for sm_90a.

#define TILES_AT(memory) ((LOCAL_AT(memory) + 1023) & ~1023u)
#define TILES_SLACK 1024                        // bytes by which the memory has to be longer than the tiles
#define LAG (STAGES > 2 && GRADIENTS == 1)      // whether products of a tile are still under way while those of the next begin
#define ARRIVED(others) COPY_WAIT(others) asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); SYNC
#define DESCRIPTOR(at, F) (((F) == 64 ? 1UL << 62 | 64UL << 32 : 2UL << 62 | 32UL << 32) | 1UL << 16 | (ulong)(((at) & 0x3ffff) >> 4))
#define FENCE asm volatile("//@wgmma.fence.sync.aligned;" ::: "memory");
#define COMMIT asm volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory");
#define FINISHED(others) asm volatile("//@wgmma.wait_group.sync.aligned " #others ";" ::: "memory");
#if PRECISION == FP16
#define SHAPE "k16.f32.f16.f16"
#else
#define SHAPE "k16.f32.bf16.bf16"
#endif
#define SUM4(y, j) "+f"(y[0][j][0]), "+f"(y[0][j][1]), "+f"(y[0][j][2]), "+f"(y[0][j][3])
#define SUM16(y, j) SUM4(y, j), SUM4(y, j + 1), SUM4(y, j + 2), SUM4(y, j + 3)
#define SUMS_32(y) SUM16(y, 0)
#define SUMS_64(y) SUM16(y, 0), SUM16(y, 4)
#define SUMS_128(y) SUM16(y, 0), SUM16(y, 4), SUM16(y, 8), SUM16(y, 12)
#define LIST_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define LIST_64 LIST_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LIST_128 LIST_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
// y = (keep: y +) x tileT, 64 rows, n columns, 16 elements along the features; y += a tile, a in registers. Sums are the first operands: the
// numbers of the others follow from n.
#define PRODUCT(n, x, tile, keep, more) "//@{ .reg .pred p; setp.ne.b32 p, %" #keep ", 0; wgmma.mma_async.sync.aligned.m64n" #n SHAPE " {" LIST_##n "}, " x ", %" #tile ", p, 1, 1" more "; }"
#define FROM_LOCAL(n, x, tile, last, y, x_at, tile_at, keep) \
    asm volatile(PRODUCT(n, "%" #x, tile, last, ", 0, 0") : SUMS_##n(y) : "l"(x_at), "l"(tile_at), "r"((uint)(keep)));
#define FROM_REGISTERS(n, a0, a1, a2, a3, tile, last, y, a, tile_at) \
    asm volatile(PRODUCT(n, "{%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}", tile, last, ", 1") \
                 : SUMS_##n(y) : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(tile_at), "r"(1u));
#define FROM_LOCAL_32(y, x_at, tile_at, keep) FROM_LOCAL(32, 16, 17, 18, y, x_at, tile_at, keep)
#define FROM_LOCAL_64(y, x_at, tile_at, keep) FROM_LOCAL(64, 32, 33, 34, y, x_at, tile_at, keep)
#define FROM_LOCAL_128(y, x_at, tile_at, keep) FROM_LOCAL(128, 64, 65, 66, y, x_at, tile_at, keep)
#define FROM_REGISTERS_32(y, a, tile_at) FROM_REGISTERS(32, 16, 17, 18, 19, 20, 21, y, a, tile_at)
#define FROM_REGISTERS_64(y, a, tile_at) FROM_REGISTERS(64, 32, 33, 34, 35, 36, 37, y, a, tile_at)
#define FROM_REGISTERS_128(y, a, tile_at) FROM_REGISTERS(128, 64, 65, 66, 67, 68, 69, y, a, tile_at)
#define SETTLE(y, n) asm volatile("" : CAT(SUMS_, n)(y));    // what is done with sums stays on its side of what waits for them
#define PIN(a) asm volatile("" : "+r"((a)[0]), "+r"((a)[1]), "+r"((a)[2]), "+r"((a)[3]));

#define BEGIN_T(y, held, own, tile, F)                                                                     \
    {                                                                                                      \
        const ulong x_ = DESCRIPTOR((own) + warp / 4 * (128 * (F)), F), tile_ = DESCRIPTOR(tile, F);       \
        FENCE                                                                                              \
        UNROLL for (uint kk = 0; kk < (F) / 16; kk++) { CAT(FROM_LOCAL_, BN)(y, x_ + 2 * kk, tile_ + 2 * kk, kk != 0) } \
        COMMIT                                                                                             \
    }
#define END_T(y, held, own, tile, F, others) FINISHED(others) SETTLE(y, BN)
#define BEGIN_TILE(y, a, tile, F)                                                                          \
    {                                                                                                      \
        const ulong tile_ = DESCRIPTOR(tile, F);                                                           \
        UNROLL for (uint kk = 0; kk < BN / 16; kk++) PIN(a[0][kk])                                         \
        SETTLE(y, F)                                                                                       \
        FENCE                                                                                              \
        UNROLL for (uint kk = 0; kk < BN / 16; kk++) { CAT(FROM_REGISTERS_, F)(y, a[0][kk], tile_ + kk * (2 * (F))) } \
        COMMIT                                                                                             \
    }
#define END_TILE(y, F, others) FINISHED(others) SETTLE(y, F)
