// What pool.cl and pool_gpu.cl compute.

#define MAX 1
#define INDEX 2
#define MAX_AND_INDEX 3
#define SUM 4
#define MAX_BACK 5
#define SUM_BACK 6
#ifndef VARIANT
#define VARIANT MAX             // which of them
#endif
#ifndef E
#define E T
#endif

// What leaves where: E numbers of a result, N_ where its maximum is.
#if VARIANT == INDEX
#define LEAVE(TO, c, i, v, n) TO(c, i, n)
#elif VARIANT == MAX_AND_INDEX
#define LEAVE(TO, c, i, v, n) TO(c, i, v, n)
#else
#define LEAVE(TO, c, i, v, n) TO(c, i, v)
#endif
#define WITH_INDEX (VARIANT == INDEX || VARIANT == MAX_AND_INDEX)
#define FORWARD (VARIANT <= SUM)
