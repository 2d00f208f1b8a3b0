// plain_loads.h: vectors through pointers to T that promise no alignment beyond it, where each call of vloadN takes a compiler's time (PLAIN_LOADS).
// For files whose vectors are all of T.

#if defined(PLAIN_LOADS) && VW > 1
typedef VT VT_ANYWHERE __attribute__((aligned(sizeof(T))));
#undef VLOAD
#undef VSTORE
#undef VLOAD_P
#undef VSTORE_P
#define VLOAD(p) (*(__global const VT_ANYWHERE*)(p))
#define VSTORE(v, p) (*(__global VT_ANYWHERE*)(p) = (v))
#define VLOAD_P(p) (*(const __private VT_ANYWHERE*)(p))
#define VSTORE_P(v, p) (*(__private VT_ANYWHERE*)(p) = (v))
#endif
