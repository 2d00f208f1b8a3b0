// attention_pack: operands of attention as the kernels for tensor cores want them: rows (N, heads, time, features) of 16-bit elements.
//
// Grid (pieces, 1, 1), local size 256. An item copies and rounds a piece of 8 elements of q, k, v or g (PACK_Q, ...: which of them; their strides, sizes and
// PRECISION as in attention_tensor.cl) to packed_q, ...

#include "include/attention.h"
#include "include/ptx.h"
#include "include/attention_tensor.h"

#if NARROW
#define WHOLE(from) (*(__global const uint4*)(from))
#else
INLINE uint4 WHOLE(__global const float* from) {
    const float4 a = *(__global const float4*)from, b = *(__global const float4*)(from + 4);
    return (uint4)(PAIR(a.x, a.y), PAIR(a.z, a.w), PAIR(b.x, b.y), PAIR(b.z, b.w));
}
#endif
#define PIECES(heads, length, features) ((size_t)BATCH * (heads) * (length) * ((features) / 8))
// Piece `at` of an operand if it is one of its; `at` then counts from the next operand's first.
#define PACK_OPERAND(name, heads, length, features, s_n, s_h, s_t, s_f, align, of)                         \
    if (at < PIECES(heads, length, features)) {                                                            \
        const size_t c = at % ((features) / 8), t = at / ((features) / 8) % (length), h = at / ((features) / 8) / (length) % (heads); \
        const size_t n = at / ((features) / 8) / (length) / (heads);                                       \
        __global const element* from = (__global const element*)name + n * (s_n) + h * (s_h) + t * (s_t) + c * 8 * (s_f); \
        const bool whole = (s_f) == 1 && ((align) | (of)) % (16 / sizeof(element)) == 0;                   \
        ((__global uint4*)packed_##name)[at] = whole ? WHOLE(from) : gathered(from, s_f);                  \
        return;                                                                                            \
    }                                                                                                      \
    at -= PIECES(heads, length, features);

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void attention_pack(PARAMS) {
    BEGIN
    size_t at = get_global_id(0);
#if PACK_Q
    PACK_OPERAND(q, H, QUERIES, D, Q_N, Q_H, Q_T, Q_D, Q_ALIGN, Q_OF)
#endif
#if PACK_K
    PACK_OPERAND(k, HK, KEYS, D, K_N, K_H, K_S, K_D, K_ALIGN, K_OF)
#endif
#if PACK_V
    PACK_OPERAND(v, HK, KEYS, E, V_N, V_H, V_S, V_E, V_ALIGN, V_OF)
#endif
#if BACKWARD && PACK_G
    PACK_OPERAND(g, H, QUERIES, E, G_N, G_H, G_T, G_E, G_ALIGN, G_OF)
#endif
}
