// part.h: where a kernel's sums go, for one that is cut into PARTS of SIZE elements each, number `part` of which a work-item has a share of (on CPUs):
//   PUT(i, v), PUT_V(i, v)    element i, or VW from i on, of a part of `partial`, which sum_parts.h adds; where there is one part, through the epilogue
//   SPREAD(to, pitch, from, stride, count, valid)    vectors of private memory, `stride` apart, become lines:
//     element to + l * pitch + i is from[i * stride + l] for i < count and lanes l < valid; blocks of VW x VW are transposed.
//     A macro, since an epilogue takes the kernel's own arguments; what it is given must not be called i, l or lines

#if PARTS == 1
#define PUT(i, v) EPILOGUE((i), (v))
#define PUT_V(i, v) EPILOGUE_V((i), (v))
#else
#define PUT(i, v) ((__global T*)partial)[part * SIZE + (i)] = (v)
#define PUT_V(i, v) VSTORE((v), (__global T*)partial + part * SIZE + (i))
#endif

// to = VW vectors, `stride` apart, transposed
INLINE void turned(VT* to, const T* restrict from, const size_t stride) {
    UNROLL for (size_t l = 0; l < VW; l++) to[l] = VLOAD_P(from + l * stride);
    transpose(to);
}

#define SPREAD(to, pitch, from, stride, count, valid) { \
    size_t i = 0; \
    for (; i + VW <= (count); i += VW) { \
        VT lines[VW]; \
        turned(lines, (from) + i * (stride), (stride)); \
        UNROLL for (size_t l = 0; l < VW; l++) \
            if (l < (valid)) { PUT_V((to) + l * (pitch) + i, lines[l]); } \
    } \
    for (; i < (count); i++) \
        ROLLED for (size_t l = 0; l < (valid); l++) { PUT((to) + l * (pitch) + i, (from)[i * (stride) + l]); } \
}
