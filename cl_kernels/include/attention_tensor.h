// attention_tensor.h: what the attention kernels for tensor cores share: 16-bit elements, tiles in local memory, products of warps with them.
// After vector.h, attention.h and ptx.h.
//
// In local memory a row is pieces of 16 bytes, swapped so that a column of pieces lies in different banks. A warp owns 16 MI rows; sums of a
// product are float y[MI][columns / 8][4], as ptx.h says of MMA's c.

#define BF16 2
#define FP16 3
#if PRECISION == FP16
#define MMA MMA_FP16
#define PAIR PAIR_FP16
#else
#define MMA MMA_BF16
#define PAIR PAIR_BF16
#endif
#if NARROW
typedef ushort element;         // as it is in memory
#else
typedef float element;
#endif

// Piece of 8 elements, `step` apart.
INLINE uint4 gathered(__global const element* from, const size_t step) {
    uint w[4];
#if NARROW
    UNROLL for (int i = 0; i < 4; i++) w[i] = from[2 * i * step] | (uint)from[(2 * i + 1) * step] << 16;
#else
    UNROLL for (int i = 0; i < 4; i++) w[i] = PAIR(from[2 * i * step], from[(2 * i + 1) * step]);
#endif
    return (uint4)(w[0], w[1], w[2], w[3]);
}
