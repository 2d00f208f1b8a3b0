// pack_lines.h: a function PACK that copies lines of an operand to private memory, or where INTO says (on CPUs), for operands that are
//   stored as KIND says (vector.h).
//
//   PACK(to, from, width, valid, depth, stride_i, stride_k)
//     to[k][0 .. width) = from[i * stride_i + k * stride_k], i < valid, padded with zeros; width is a multiple of VW
//   All three names are undefined again behind it: a file includes it once for each operand.

#ifndef INTO
#define INTO __private
#endif

INLINE void PACK(INTO T* restrict to, __global const STORED_OF(KIND)* restrict from, const size_t width, const size_t valid,
                 const size_t depth, const size_t stride_i, const size_t stride_k) {
    for (size_t i = 0; i < width; i += VW) {
        size_t k = 0;
        if (stride_k == 1 && stride_i != 1)
            for (; k + VW <= depth; k += VW) {
                VT t[VW];
                UNROLL for (size_t l = 0; l < VW; l++) t[l] = i + l < valid ? VLOAD_OF(KIND, from + (i + l) * stride_i + k) : VSPLAT(0);
                transpose(t);
                UNROLL for (size_t l = 0; l < VW; l++) VSTORE_P(t[l], to + (k + l) * width + i);
            }
        if (stride_i == 1 && i + VW <= valid)
            for (; k < depth; k++) VSTORE_P(VLOAD_OF(KIND, from + k * stride_k + i), to + k * width + i);
        for (; k < depth; k++)
            ROLLED for (size_t l = i; l < i + VW; l++) to[k * width + l] = l < valid ? SCALAR_OF(KIND, from + l * stride_i + k * stride_k) : 0;
    }
}

#undef PACK
#undef KIND
#undef INTO
