// vector.h: one spelling for vectors of any width. Prepended as text; needs T (float, double ...) and VW (1 2 4 8 16).
//
//   VT               the vector type: T, or T##VW
//   VLOAD(p)         VW contiguous elements at a __global pointer; no alignment asked beyond that of T
//   VSTORE(v, p)     the opposite
//   VLOAD_P VSTORE_P the same for private arrays, VLOAD_L VSTORE_L for __local ones
//   VLOAD_OF(K, p)   VLOAD of an operand that is stored as K says: SAME (as T), HALF or BF16 (16 bits, T is float); SCALAR_OF(K, p) one element,
//                    STORED_OF(K) the type that pointers to it have. The generator defines X_KIND for an operand x in files that mention it
//   ANYWHERE_OF(K, p) the same where CAST_LOADS is defined and p is not aligned to a vector
//   VSPLAT(s)        a scalar in every lane
//   VEVEN(a, b)      the even lanes of a, then those of b; VODD alike. Together they are one step of a perfect shuffle
//   VFMA(a, b, c)    a * b + c
//   ACROSS_LANES(a, MERGE, v)   a = the lanes of v merged by halves, in registers; MERGE takes vectors and scalars
//   transpose(t)     of VW vectors, in registers
//   EPILOGUE_V       of one lane: EPILOGUE (the generator writes it for more)
//   INLINE, UNROLL, ROLLED   before a helper function; before a `for` whose bounds are constants; before one that is not worth copies
//
// CAST_LOADS   NVIDIA turns vloadN into N scalar loads. With it, pointers are cast; the caller must know that they are aligned to VT.
// HALVES_ALIGNED   vload_half of vectors wants the address of a whole vector (PoCL 3.0): that of a copy.
// USE_FMA      1: the fma built-in (Intel, NVIDIA). 0: a * b + c and the compiler's contraction (where fma() is a library call).

#ifndef VW
#define VW 1                    // lanes
#endif
#ifndef USE_FMA
#define USE_FMA 1
#endif

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")
#define ROLLED __attribute__((opencl_unroll_hint(1)))  // LLVM would copy loops that take no time, and take up to a third of the build for it

#if VW == 1
#ifndef VT
#define VT T
#endif
#define VLOAD(p) (*(p))
#define VSTORE(v, p) (*(p) = (v))
#define VLOAD_P(p) (*(p))
#define VSTORE_P(v, p) (*(p) = (v))
#define VLOAD_L(p) (*(p))
#define VSTORE_L(v, p) (*(p) = (v))
#ifndef EPILOGUE_V
#define EPILOGUE_V EPILOGUE
#endif
#else
#ifndef VT
#define VT CAT(T, VW)
#endif
#define VEVEN(a, b) ((VT)((a).even, (b).even))
#define VODD(a, b) ((VT)((a).odd, (b).odd))
#ifdef CAST_LOADS
#define VLOAD(p) (*(__global const VT*)(p))
#define VSTORE(v, p) (*(__global VT*)(p) = (v))
#define VLOAD_P(p) (*(const __private VT*)(p))
#define VSTORE_P(v, p) (*(__private VT*)(p) = (v))
#define VLOAD_L(p) (*(const __local VT*)(p))
#define VSTORE_L(v, p) (*(__local VT*)(p) = (v))
#else
#define VLOAD(p) CAT(vload, VW)(0, (p))
#define VSTORE(v, p) CAT(vstore, VW)((v), 0, (p))
#define VLOAD_P VLOAD
#define VSTORE_P VSTORE
#define VLOAD_L VLOAD
#define VSTORE_L VSTORE
#endif
#endif

#define STORED_SAME T
#define STORED_HALF half
#define STORED_BF16 ushort
#define STORED_OF(KIND) CAT(STORED_, KIND)
#define SCALAR_SAME(p) (*(p))
#define SCALAR_HALF(p) vload_half(0, (p))
#define SCALAR_BF16(p) as_float((uint)*(p) << 16)
#define SCALAR_OF(KIND, p) CAT(SCALAR_, KIND)(p)
#define VLOAD_SAME(p) VLOAD(p)
#if VW == 1
#define VLOAD_HALF SCALAR_HALF
#define VLOAD_BF16 SCALAR_BF16
#else
#ifdef HALVES_ALIGNED
INLINE CAT(float, VW) half_anywhere(__global const half* p) {
    const CAT(ushort, VW) copy = CAT(vload, VW)(0, (__global const ushort*)p);
    return CAT(vload_half, VW)(0, (const half*)&copy);
}
#define VLOAD_HALF half_anywhere
#else
#define VLOAD_HALF(p) CAT(vload_half, VW)(0, (p))
#endif
#define VLOAD_BF16(p) WIDENED(VW, p)
#endif
#ifdef CAST_LOADS
#define WIDENED(N, p) CAT(as_float, N)(CAT(convert_uint, N)(*(__global const CAT(ushort, N)*)(p)) << 16)
#else
#define WIDENED(N, p) CAT(as_float, N)(CAT(convert_uint, N)(CAT(vload, N)(0, (p))) << 16)
#endif
#define VLOAD_OF(KIND, p) CAT(VLOAD_, KIND)(p)
#define ANYWHERE_SAME(p) CAT(vload, VW)(0, (p))
#define ANYWHERE_HALF VLOAD_HALF
#define ANYWHERE_BF16(p) CAT(as_float, VW)(CAT(convert_uint, VW)(CAT(vload, VW)(0, (p))) << 16)
#define ANYWHERE_OF(KIND, p) CAT(ANYWHERE_, KIND)(p)

#define VSPLAT(s) ((VT)(s))
#if USE_FMA
#define VFMA(a, b, c) fma((a), (b), (c))
#else
#define VFMA(a, b, c) ((a) * (b) + (c))
#endif

#define ACROSS_16(a, MERGE, v) { const CAT(T, 8) v8_ = MERGE((v).lo, (v).hi); ACROSS_8(a, MERGE, v8_) }
#define ACROSS_8(a, MERGE, v) { const CAT(T, 4) v4_ = MERGE((v).lo, (v).hi); ACROSS_4(a, MERGE, v4_) }
#define ACROSS_4(a, MERGE, v) { const CAT(T, 2) v2_ = MERGE((v).lo, (v).hi); ACROSS_2(a, MERGE, v2_) }
#define ACROSS_2(a, MERGE, v) a = MERGE((v).lo, (v).hi);
#define ACROSS_1(a, MERGE, v) a = (v);
#define ACROSS_LANES(a, MERGE, v) CAT(ACROSS_, VW)(a, MERGE, v)

#include "include/transpose.h"

INLINE void transpose(VT* t) {
#if VW > 1
    TRANSPOSE(VT, VW, t)
#endif
}
