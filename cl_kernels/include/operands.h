// operands.h: the operands x and w of a product, as one that is read along rows and one along columns, by the names of matmul.cl.
//   ROWS COLS  sizes; SWAP 0: rows are m, columns n, SWAP 1: the other way round (yT = wT xT)
//   ROW_OPERAND COL_OPERAND  where they begin, in `batch`; ROW_I ROW_K, COL_J COL_K: their strides; X_KIND W_KIND: how they are stored

#ifndef SWAP
#define SWAP 0
#endif
#ifndef X_KIND
#define X_KIND SAME             // how they are stored (vector.h)
#endif
#ifndef W_KIND
#define W_KIND SAME
#endif

#if SWAP
#define ROWS N
#define COLS M
#define ROW_OPERAND (w + W_BATCH(batch))
#define COL_OPERAND (x + X_BATCH(batch))
#define ROW_I W_N
#define ROW_K W_K
#define COL_J X_M
#define COL_K X_K
#else
#define ROWS M
#define COLS N
#define ROW_OPERAND (x + X_BATCH(batch))
#define COL_OPERAND (w + W_BATCH(batch))
#define ROW_I X_M
#define ROW_K X_K
#define COL_J W_N
#define COL_K W_K
#endif
