// multiples.h: of a product (matmul.cl) whose sizes and strides may be arguments of the kernel, what of them is known when it is built.
//
//   M_OF ...                 what M, N, K and the strides are multiples of, for all shapes: themselves where they are known
//   X_ALONG_K, W_ALONG_K     1 where an operand's lines are contiguous along k; X_ACROSS_K, W_ACROSS_K: along m, along n
// A stride that is an argument is 0 to the preprocessor; none of those is 1.

#ifndef M_OF
#define M_OF M
#endif
#ifndef N_OF
#define N_OF N
#endif
#ifndef K_OF
#define K_OF K
#endif
#ifndef X_M_OF
#define X_M_OF X_M
#endif
#ifndef X_K_OF
#define X_K_OF X_K
#endif
#ifndef W_K_OF
#define W_K_OF W_K
#endif
#ifndef W_N_OF
#define W_N_OF W_N
#endif
#if X_K == 1 && X_M != 1
#define X_ALONG_K 1
#else
#define X_ALONG_K 0
#endif
#if X_M == 1 && X_K != 1
#define X_ACROSS_K 1
#else
#define X_ACROSS_K 0
#endif
#if W_K == 1 && W_N != 1
#define W_ALONG_K 1
#else
#define W_ALONG_K 0
#endif
#if W_N == 1 && W_K != 1
#define W_ACROSS_K 1
#else
#define W_ACROSS_K 0
#endif
