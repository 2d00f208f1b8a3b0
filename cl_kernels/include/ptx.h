// ptx.h: the NVIDIA instructions that kernels for tensor cores are made of (compute capability 8.0 and later), by name. After vector.h.
//
//   local_at                       place in local memory, in bytes; LOCAL_AT(p): that of a __local pointer
//   COPY_ASYNC(to, from, bytes)    16 bytes from global memory on their way into local memory; bytes 0: zeros, nothing is read. COPY_ASYNC_4: 4 bytes
//   PUT(at, v), WORD_AT(at)        16 bytes, a uint4, into local memory; 4 bytes, a uint, out of it
//   COPY_COMMIT, COPY_WAIT(n)      ends a group of copies; waits until all groups but the last n are there. A barrier makes others' copies visible
//   LDMATRIX(r, at)                four 8 x 8 matrices of 16-bit elements, matrix i's rows of 16 bytes at the places given by lanes 8i .. 8i + 7:
//                                  lane l has elements 2 (l % 4) and the next of row l / 4 in r[i]. LDMATRIX_T: each matrix transposed
//   MMA_BF16(c, a, b0, b1)         c (16 x 8, float) += a (16 x 16) b (16 x 8), MMA_FP16 alike; c[2i + j]: row l / 4 + 8i, column 2 (l % 4) + j;
//                                  a[i]: rows l / 4 + 8 (i % 2), columns 2 (l % 4) + 8 (i / 2) and the next; b0, b1: rows as a's columns, column l / 4
//   MMA_TF32(c, a, b0, b1)         with a (16 x 8), b (8 x 8) in TF32; a[i]: row l / 4 + 8 (i % 2), column l % 4 + 4 (i / 2); b0, b1: rows l % 4 and 4 more
//   PAIR_BF16(lo, hi) PAIR_FP16    two floats rounded to nearest, in one word; ROUND_TF32(x) one
//   SHUFFLE_XOR(x, mask)           the float of lane l ^ mask
//   WARP                           waits for the other lanes, whose writes to local memory are then seen
// All lanes of a warp take part in LDMATRIX, MMA, SHUFFLE_XOR and WARP.

typedef uint local_at;

INLINE local_at local_address(__local void* p) {
    uint a;
    asm("{ .reg .u64 g; cvta.to.shared.u64 g, %1; cvt.u32.u64 %0, g; }" : "=r"(a) : "l"((ulong)p));
    return a;
}
#define LOCAL_AT(p) local_address(p)

#define COPY_ASYNC(to, from, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"((ulong)(from)), "r"((uint)(bytes)) : "memory")
#define COPY_ASYNC_4(to, from, bytes) \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to), "l"((ulong)(from)), "r"((uint)(bytes)) : "memory")
// All of 4 or 16 bytes: no register holds their number.
#define COPY_1(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(from) : "memory")
#define COPY_4(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory")
#define PUT(at, v) put_16(at, v)
INLINE void put_16(const local_at at, const uint4 v) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
#define WORD_AT(at) word_at(at)
INLINE uint word_at(const local_at at) {
    uint v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}
#define COPY_COMMIT asm volatile("cp.async.commit_group;" ::: "memory");
#define COPY_WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory");

#define WARP asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");

#define LDMATRIX_(kind, r, at) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(at) : "memory")
#define LDMATRIX(r, at) LDMATRIX_("", r, at)
#define LDMATRIX_T(r, at) LDMATRIX_(".trans", r, at)

#define MMA_(shape, c, a, b0, b1) \
    asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))
#define MMA_BF16(c, a, b0, b1) MMA_("m16n8k16.row.col.f32.bf16.bf16.f32", c, a, b0, b1)
#define MMA_FP16(c, a, b0, b1) MMA_("m16n8k16.row.col.f32.f16.f16.f32", c, a, b0, b1)
#define MMA_TF32(c, a, b0, b1) MMA_("m16n8k8.row.col.f32.tf32.tf32.f32", c, a, b0, b1)

#define PAIR_(name, kind) \
    INLINE uint name(const float lo, const float hi) { uint w; asm("cvt.rn." kind ".f32 %0, %1, %2;" : "=r"(w) : "f"(hi), "f"(lo)); return w; }
PAIR_(PAIR_BF16, "bf16x2")
PAIR_(PAIR_FP16, "f16x2")
INLINE uint ROUND_TF32(const float x) { uint w; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(w) : "f"(x)); return w; }

INLINE float SHUFFLE_XOR(const float x, const uint mask) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(mask));
    return y;
}
