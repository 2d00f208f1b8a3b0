// peak: what a device reaches at best, the roof over every measured rate.
//
//   multiply_adds   c = a c + b over CHAINS independent vectors an item, rounds times: 2 VW CHAINS UNROLLED flops an item and round
//   triad           z(i) = x(i) + a z(i), rounds times: three times an array crosses the memory bus, or comes from the cache that holds both.
//                   In place, since a store to a third array would first read it, which nobody counts
//
// Layout: vectors, contiguous; multiply_adds writes one number an item, so that no chain is dropped as unused.
// Grid: multiply_adds: CPU a few items a core, local size 1; GPU many work-groups. triad: CPU PER elements an item, one item a core,
// GPU (PER = VW) neighbours read neighbouring vectors. Local memory: none.
// With T, VW and VFMA of include/vector.h in front of it.

#ifndef CHAINS
#define CHAINS 12               // enough to hide the latency of a multiply-add; few enough to stay in registers
#endif
#ifndef UNROLLED
#define UNROLLED 8              // steps of every chain between two tests of the loop
#endif

__kernel void multiply_adds(__global T* y, const T a, const T b, const ulong rounds) {
    VT c[CHAINS];
    UNROLL for (int k = 0; k < CHAINS; k++) c[k] = VSPLAT((T)(get_global_id(0) + k));
    const VT va = VSPLAT(a), vb = VSPLAT(b);
    for (size_t r = 0; r < rounds; r++) {
        UNROLL for (int u = 0; u < UNROLLED; u++)
            UNROLL for (int k = 0; k < CHAINS; k++) c[k] = VFMA(c[k], va, vb);
    }
    UNROLL for (int k = 1; k < CHAINS; k++) c[0] += c[k];
    T lanes[VW], sum = 0;
    VSTORE_P(c[0], lanes);
    UNROLL for (int l = 0; l < VW; l++) sum += lanes[l];
    y[get_global_id(0)] = sum;
}

__kernel void triad(__global const T* restrict x, __global T* restrict z, const T a, const ulong per, const ulong rounds) {
    const size_t begin = get_global_id(0) * per;
    const VT va = VSPLAT(a);
    for (size_t r = 0; r < rounds; r++) for (size_t i = begin; i < begin + per; i += VW) VSTORE(VFMA(va, VLOAD(z + i), VLOAD(x + i)), z + i);
}
