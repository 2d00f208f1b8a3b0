// The names of include/ptx.h without the instructions: lanes meet in local memory. Slow; every lane of a work-group has to come along.
typedef __local uchar* local_at;
#define LOCAL_AT(p) ((__local uchar*)(p))
#define EMULATE __local uint meet[ITEMS * 6]; __local local_at met[ITEMS];
#define MEET barrier(CLK_LOCAL_MEM_FENCE);
#define WARP MEET
#define COPY_ASYNC(to, from, bytes) *(__local uint4*)(to) = (bytes) ? *(__global const uint4*)(from) : (uint4)(0)
#define COPY_ASYNC_4(to, from, bytes) *(__local float*)(to) = (bytes) ? *(from) : 0
#define COPY_1(to, from) COPY_ASYNC_4(to, from, 4)
#define COPY_4(to, from) COPY_ASYNC(to, from, 16)
#define PUT(at, v) *(__local uint4*)(at) = (v)
#define WORD_AT(at) (*(__local uint*)(at))
#define COPY_COMMIT
#define COPY_WAIT(n)
#define LDMATRIX_WITH(r, at, WORD) { \
    met[item] = (at); MEET \
    for (uint m_ = 0; m_ < 4; m_++) { __local const local_at* rows_ = met + warp * 32 + m_ * 8; (r)[m_] = WORD; } \
    MEET }
#define LDMATRIX(r, at) LDMATRIX_WITH(r, at, *(__local uint*)(rows_[lane / 4] + lane % 4 * 4))
#define LDMATRIX_T(r, at) LDMATRIX_WITH(r, at, *(__local ushort*)(rows_[lane % 4 * 2] + lane / 4 * 2) | (uint)*(__local ushort*)(rows_[lane % 4 * 2 + 1] + lane / 4 * 2) << 16)
INLINE float of_bf16(const ushort x) { return as_float((uint)x << 16); }
INLINE float of_fp16(ushort x) { return vload_half(0, (half*)&x); }
#define HALF_OF(word, k) (ushort)((word) >> ((k) % 2 * 16))
#define MMA_WITH(c, a, b0, b1, FLOAT) { \
    for (uint e_ = 0; e_ < 4; e_++) meet[item * 6 + e_] = (a)[e_]; \
    meet[item * 6 + 4] = b0; meet[item * 6 + 5] = b1; MEET \
    for (uint e_ = 0; e_ < 4; e_++) for (uint k_ = 0; k_ < 16; k_++) { \
        const uint r_ = lane / 4, n_ = lane % 4 * 2 + e_ % 2; \
        const uint x_ = meet[(warp * 32 + r_ * 4 + k_ % 8 / 2) * 6 + e_ / 2 + k_ / 8 * 2], y_ = meet[(warp * 32 + n_ * 4 + k_ % 8 / 2) * 6 + 4 + k_ / 8]; \
        (c)[e_] += FLOAT(HALF_OF(x_, k_)) * FLOAT(HALF_OF(y_, k_)); \
    } \
    MEET }
#define MMA_BF16(c, a, b0, b1) MMA_WITH(c, a, b0, b1, of_bf16)
#define MMA_FP16(c, a, b0, b1) MMA_WITH(c, a, b0, b1, of_fp16)
#define MMA_TF32(c, a, b0, b1) { \
    for (uint e_ = 0; e_ < 4; e_++) meet[item * 6 + e_] = (a)[e_]; \
    meet[item * 6 + 4] = b0; meet[item * 6 + 5] = b1; MEET \
    for (uint e_ = 0; e_ < 4; e_++) for (uint k_ = 0; k_ < 8; k_++) { \
        const uint r_ = lane / 4, n_ = lane % 4 * 2 + e_ % 2; \
        const uint x_ = meet[(warp * 32 + r_ * 4 + k_ % 4) * 6 + e_ / 2 + k_ / 4 * 2], y_ = meet[(warp * 32 + n_ * 4 + k_ % 4) * 6 + 4 + k_ / 4]; \
        (c)[e_] += as_float(x_) * as_float(y_); \
    } \
    MEET }
INLINE uint ROUND_TF32(const float x) { return x - x == 0 ? (as_uint(x) + 0x1000) & 0xffffe000 : as_uint(x); }
INLINE uint bf16_of(const float x) { const uint b = as_uint(x); return x != x ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16; }
INLINE uint fp16_of(const float x) { ushort y; vstore_half_rte(x, 0, (half*)&y); return y; }
#define PAIR_BF16(lo, hi) (bf16_of(lo) | bf16_of(hi) << 16)
#define PAIR_FP16(lo, hi) (fp16_of(lo) | fp16_of(hi) << 16)
INLINE float shuffled(const float x, const uint mask, __local uint* meet) {
    const uint item = get_local_id(0);
    meet[item * 6] = as_uint(x); MEET
    const float y = as_float(meet[(item ^ mask) * 6]);
    MEET
    return y;
}
#define SHUFFLE_XOR(x, mask) shuffled(x, mask, meet)
