// copies.h: 1 or 4 elements of T from memory to local memory. ASYNC 1: by the memory system (NVIDIA from compute capability 8.0); 0: through registers.
//
//   COPY_4(to, from)         to: local_address(p) + bytes; it is there after COMMIT and a wait for the group
//   COPY_IF_4(to, from, in)  zeros where not `in`
//   WIDE_4(K, p)             four elements of an operand stored as K says (vector.h), aligned to them where CAST_LOADS is set; WIDE_1 one

#if ASYNC
#include "include/ptx.h"
// Elements outside the matrices are filled with zeros: the copy then takes 0 of its bytes.
#define COPY_IF_1(to, from, in) COPY_ASYNC_4(to, from, (in) ? 4 : 0)
#define COPY_IF_4(to, from, in) COPY_ASYNC(to, from, (in) ? 16 : 0)
#define COMMIT COPY_COMMIT
#else
typedef CAT(T, 4) quad;
#define VECTOR_1 T
#define VECTOR_4 quad
#define WIDE_1 SCALAR_OF
#ifdef CAST_LOADS
#define WIDE_4_SAME(p) (*(__global const quad*)(p))
#else
#define WIDE_4_SAME(p) vload4(0, p)
#endif
#define WIDE_4_HALF(p) vload_half4(0, p)
#define WIDE_4_BF16(p) WIDENED(4, p)
#define WIDE_4(KIND, p) CAT(WIDE_4_, KIND)(p)
#endif
