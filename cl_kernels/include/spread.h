// spread.h: spread(to, pitch, from, stride, count, valid): vectors of private memory, `stride` apart, become lines of global memory (on CPUs):
//   to[l * pitch + i] = from[i * stride + l] for i < count and lanes l < valid; blocks of VW x VW are transposed.

INLINE void spread(__global T* restrict to, const size_t pitch, const T* restrict from, const size_t stride, const size_t count, const size_t valid) {
    size_t i = 0;
    for (; i + VW <= count; i += VW) {
        VT t[VW];
        UNROLL for (size_t l = 0; l < VW; l++) t[l] = VLOAD_P(from + (i + l) * stride);
        transpose(t);
        UNROLL for (size_t l = 0; l < VW; l++)
            if (l < valid) VSTORE(t[l], to + l * pitch + i);
    }
    for (; i < count; i++)
        ROLLED for (size_t l = 0; l < valid; l++) to[l * pitch + i] = from[i * stride + l];
}
