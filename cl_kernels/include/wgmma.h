// wgmma.h: Hopper's asynchronous instructions by name: products of four warps, copies in bulk, barriers that count bytes. After vector.h.
//
// The OpenCL compiler knows sm_90 but not sm_90a, to which wgmma belongs. Such instructions are written as PTX comments, //@wgmma...: the
// program cache takes the marks off the compiled PTX, and has it assembled for sm_90a. (Why ptx.h, which older cards use, has none of them.)
//
// Numbers to define before: WG_COLUMNS (64 128 192 256), WG_KIND (WG_BF16 WG_FP16 WG_TF32), and, 16-bit only, X_ACROSS and W_ACROSS: 1 where an
// operand's lines in local memory lie across k (64 rows or columns a line, a line a step along k), 0 where they lie along k.
//
//   MMA(x_at, w_at, keep)      c[WG_COLUMNS / 2] = x wT, added to c unless `keep` is 0: 64 rows, WG_COLUMNS columns, 32 bytes along k. Sums 4j .. 4j + 3
//                              of a thread: rows lane / 4 and 8 more of its warp's 16, columns 8j + lane % 4 * 2 and the next
//   DESCRIPTOR(at, line, next) an operand at `at`: lines of 128, 64 or 32 bytes, their pieces of 16 bytes swapped by SWAPPED(byte, line); groups of 8
//                              lines follow each other; next: bytes from 64 rows (columns) to the next 64, where lines lie across k
//   FENCE COMMIT FINISHED(n)   around MMAs: before, after a group of them, until all but the last n groups are done; SETTLE: reads of c stay behind it
//   MAP_TENSOR(map, words, from, n0, n1, n2, stride1, stride2, box)   a warp describes the tensor of 16-bit elements of these sizes, the first contiguous,
//                              strides in elements, read in boxes of 64 x box x 1, their lines swapped; map: 128 bytes of memory; words: 128 local bytes for it alone
//   COPY_BOX(to, map, i0, i1, i2, at)   copies a box; what is outside the tensor is zero
//   BARRIER_INIT(at, n) ARRIVE(at) EXPECT(at, bytes) WAIT(at, parity), COPY_BULK(to, from, bytes, at)   mbarriers, and copies that report to one

#include "include/ptx.h"

#define WG_BF16 1
#define WG_FP16 2
#define WG_TF32 3

INLINE void wait_for(const uint barrier_at, const uint parity) {
    uint done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier_at), "r"(parity) : "memory");
    while (!done);
}

#define WAIT(at, parity) wait_for(at, parity)
#define BARRIER_INIT(at, n) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at), "r"((uint)(n)) : "memory")
#define BARRIERS_READY                                                                                     \
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");                                     \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#define ARRIVE(at) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory")
#define EXPECT(at, bytes) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"((uint)(bytes)) : "memory")
#define COPY_BULK(to, from, bytes, at)                                                                     \
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" \
                 :: "r"(to), "l"((ulong)(from)), "r"((uint)(bytes)), "r"(at) : "memory")
#define COPY_BOX(to, map, i0, i1, i2, at)                                                                  \
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" \
                 :: "r"(to), "l"((ulong)(map)), "r"(at), "r"((int)(i0)), "r"((int)(i1)), "r"((int)(i2)) : "memory")
#define MAP_SET(field, value) asm volatile("//@tensormap.replace.tile." field ".shared::cta.b1024.b32 [%0], " value ";" :: "r"(map_at) : "memory");
#define MAP_LONG(field, value) asm volatile("//@tensormap.replace.tile." field ".shared::cta.b1024.b64 [%0], %1;" :: "r"(map_at), "l"((ulong)(value)) : "memory");
#define MAP_FIELD_OF(field, dim, value) asm volatile("//@tensormap.replace.tile." field ".shared::cta.b1024.b32 [%0], " #dim ", %1;" :: "r"(map_at), "r"((uint)(value)) : "memory");
#define MAP_LONG_OF(field, dim, value) asm volatile("//@tensormap.replace.tile." field ".shared::cta.b1024.b64 [%0], " #dim ", %1;" :: "r"(map_at), "l"((ulong)(value)) : "memory");
#define MAP_TENSOR(map, words, from, n0, n1, n2, stride1, stride2, box)                                  \
    {                                                                                                      \
        const uint map_at = local_address(words);                                                          \
        (words)[get_local_id(0) % 32] = 0;                                                                 \
        WARP                                                                                               \
        if (get_local_id(0) % 32 == 0) {                                                                   \
            MAP_LONG("global_address", (ulong)(from))                                                      \
            MAP_SET("rank", "2")                                                                           \
            MAP_FIELD_OF("box_dim", 0, 64) MAP_FIELD_OF("box_dim", 1, box) MAP_FIELD_OF("box_dim", 2, 1)   \
            MAP_FIELD_OF("global_dim", 0, n0) MAP_FIELD_OF("global_dim", 1, n1) MAP_FIELD_OF("global_dim", 2, n2) \
            MAP_LONG_OF("global_stride", 0, (ulong)(stride1) * 2) MAP_LONG_OF("global_stride", 1, (ulong)(stride2) * 2) \
            MAP_FIELD_OF("element_stride", 0, 1) MAP_FIELD_OF("element_stride", 1, 1) MAP_FIELD_OF("element_stride", 2, 1) \
            MAP_SET("elemtype", "1") MAP_SET("interleave_layout", "0") MAP_SET("swizzle_mode", "3") MAP_SET("fill_mode", "0") \
        }                                                                                                  \
        WARP                                                                                               \
        asm volatile("//@tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" :: "l"((ulong)(map)), "r"(map_at) : "memory"); \
        asm volatile("//@fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"((ulong)(map)) : "memory"); \
    }

#define FENCE asm volatile("//@wgmma.fence.sync.aligned;" ::: "memory");
#define COMMIT asm volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory");
#define FINISHED(but) asm volatile("//@wgmma.wait_group.sync.aligned " #but ";" ::: "memory");
#define SWAPPED(byte, line) ((byte) ^ (((byte) >> 3) & ((line) - 16)))
#define DESCRIPTOR(at, line, next)                                                                         \
    ((ulong)((line) == 128 ? 1 : (line) == 64 ? 2 : 3) << 62 | (ulong)((line) / 2) << 32 | (ulong)((next) / 16) << 16 | ((ulong)(at) & 0x3ffff) >> 4)

#if WG_KIND == WG_TF32
#define WG_SHAPE "k8.f32.tf32.tf32"
#define WG_MAJOR ""
#else
#if WG_KIND == WG_BF16
#define WG_SHAPE "k16.f32.bf16.bf16"
#else
#define WG_SHAPE "k16.f32.f16.f16"
#endif
#if X_ACROSS && W_ACROSS
#define WG_MAJOR ", 1, 1"
#elif X_ACROSS
#define WG_MAJOR ", 1, 0"
#elif W_ACROSS
#define WG_MAJOR ", 0, 1"
#else
#define WG_MAJOR ", 0, 0"
#endif
#endif
#define WG_REGISTERS_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WG_REGISTERS_1 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WG_REGISTERS_2 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WG_REGISTERS_3 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define SUM4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SUM16(i) SUM4(i), SUM4(i + 4), SUM4(i + 8), SUM4(i + 12)
#define SUM32(i) SUM16(i), SUM16(i + 16)
#if WG_COLUMNS == 64
#define ALL_SUMS SUM32(0)
#define WG_TEXT "//@{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64" WG_SHAPE " {" WG_REGISTERS_0 "}, %32, %33, p, 1, 1" WG_MAJOR "; }"
#elif WG_COLUMNS == 128
#define ALL_SUMS SUM32(0), SUM32(32)
#define WG_TEXT "//@{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128" WG_SHAPE " {" WG_REGISTERS_0 WG_REGISTERS_1 "}, %64, %65, p, 1, 1" WG_MAJOR "; }"
#elif WG_COLUMNS == 192
#define ALL_SUMS SUM32(0), SUM32(32), SUM32(64)
#define WG_TEXT "//@{ .reg .pred p; setp.ne.b32 p, %98, 0; wgmma.mma_async.sync.aligned.m64n192" WG_SHAPE " {" WG_REGISTERS_0 WG_REGISTERS_1 WG_REGISTERS_2 "}, %96, %97, p, 1, 1" WG_MAJOR "; }"
#elif WG_COLUMNS == 256
#define ALL_SUMS SUM32(0), SUM32(32), SUM32(64), SUM32(96)
#define WG_TEXT "//@{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256" WG_SHAPE " {" WG_REGISTERS_0 WG_REGISTERS_1 WG_REGISTERS_2 WG_REGISTERS_3 "}, %128, %129, p, 1, 1" WG_MAJOR "; }"
#endif
#define MMA(x_at, w_at, keep) asm volatile(WG_TEXT : ALL_SUMS : "l"((ulong)(x_at)), "l"((ulong)(w_at)), "r"((uint)(keep)));
#define SETTLE asm volatile("" : ALL_SUMS);
