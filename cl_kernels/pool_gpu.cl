// pool_gpu: what pool.cl computes, on GPUs: nothing is shared by work-items, results are gathered.
//
// The generator prepends what pool.cl says, of which the taps are left out;
//   KZ KY KX, D_*      window, dilation      ITEMS, AT  work-items, and a type that counts them
//   X_KIND, G_KIND     how the data are stored (vector.h)      X_ALIGN  [elements] their alignment
// Grid (ITEMS rounded up to GROUP), local size (GROUP): a work-item takes VW elements of a row of the result.
//   forward: the piece of a row of data that they need is read in vectors as long as alignment allows, padding beside it; maxima stay in registers
//   back: VW elements of ROWS rows; an element looks at the windows that may hold it, in their order, and those of several are read once.
// No local memory. Tunables: GROUP, VW, ROWS.

#include "include/pool.h"

#ifndef GROUP
#define GROUP 128               // work-items of a group
#endif
#ifndef ROWS
#define ROWS 1                  // of a plane that an item takes on the way back, where their windows meet
#endif
#if ROWS > 1
#define UNROLL_ROWS UNROLL
#else
#define UNROLL_ROWS
#endif
#ifndef X_KIND
#define X_KIND SAME
#endif
#ifndef G_KIND
#define G_KIND SAME
#endif
#ifndef X_ALIGN
#define X_ALIGN 1
#endif

// Elements a read, aligned in every row, where results, strides and rows are.
#if X % 4 == 0 && VW * S_X % 4 == 0 && X_ALIGN % 4 == 0
#define WIDTH 4
#elif X % 2 == 0 && VW * S_X % 2 == 0 && X_ALIGN % 2 == 0
#define WIDTH 2
#else
#define WIDTH 1
#endif
#define ROUNDED(a) (((a) + WIDTH - 1) / WIDTH * WIDTH)
#define HEAD ROUNDED(LOW_X)     // read before the first element of a row of windows, where that is data
#define PIECE ROUNDED(HEAD - LOW_X + (VW - 1) * S_X + (KX - 1) * D_X + 1)
#define WHOLE (HEAD == 0 && (RX - VW) * S_X + PIECE <= X)
#if WIDTH == 1
#define WIDE E
#define READ_HALF SCALAR_HALF
#define READ_BF16 SCALAR_BF16
#else
#define WIDE CAT(E, WIDTH)
#define READ_HALF(p) CAT(vload_half, WIDTH)(0, (p))
#define READ_BF16(p) WIDENED(WIDTH, p)
#endif
#define READ_SAME(p) (*(__global const WIDE*)(p))
#define READ(p) CAT(READ_, X_KIND)(p)

// VW values, by a type that has them
#if VW == 1
#define LANES_OF(TYPE) TYPE
#else
#define LANES_OF(TYPE) CAT(TYPE, VW)
#endif
#define LANE(TYPE, v, l) (((TYPE*)&(v))[l])

// Whether window `at` sends what it has to its offset k
#if VARIANT == MAX_BACK
#define CHOSEN(at, k) (index[at] == (k))
#else
#define CHOSEN(at, k) true
#endif

// Of the windows along an axis the q-th last that starts no later than element first + i, i of the N that an item takes: p. It HOLDS the element
// as its offset k, if it is THERE. Where strides divide N the compiler knows k.
#define WINDOWS(K, D, S) (((K) - 1) * (D) / (S) + 1)
#define WINDOW(p, k, first, i, q, N, K, D, S, LOW, R) \
    const int p##_i = (i) + (LOW) + ((N) % (S) ? (first) : 0), p = ((N) % (S) ? 0 : (first) / (S)) + p##_i / (S) - (q), \
        p##_at = p##_i % (S) + (q) * (S), k = p##_at / (D); \
    const bool p##_holds = k < (K) && k * (D) == p##_at, p##_there = p >= 0 && p < (R);

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void pool(PARAMS) {
    BEGIN
    const AT item = get_global_id(0);
    if (item >= (AT)(ITEMS)) return;
#if FORWARD
    const int u = item % (RX / VW) * VW, v = item / (RX / VW) % RY, w = item / (RX / VW * RY) % RZ;
    const size_t c = item / (RX / VW * RY * RZ), plane = c * ((size_t)Z * Y * X);
    LANES_OF(E) best;
    LANES_OF(uchar) number;
    UNROLL for (int l = 0; l < VW; l++) { LANE(E, best, l) = VARIANT == SUM ? 0 : -INFINITY; LANE(uchar, number, l) = 0; }
    for (int kz = 0; kz < KZ; kz++) {
        const int z = w * S_Z + kz * D_Z - LOW_Z;
        if (z < 0 || z >= Z) continue;
        for (int ky = 0; ky < KY; ky++) {
            const int y = v * S_Y + ky * D_Y - LOW_Y;
            if (y < 0 || y >= Y) continue;
            const size_t row = plane + ((size_t)z * Y + y) * X;
            E piece[PIECE];
            UNROLL for (int j = 0; j < PIECE; j += WIDTH) {
                const int at = u * S_X - HEAD + j;
                WIDE some = (WIDE)(VARIANT == SUM ? 0 : -INFINITY);
                if (WHOLE || (at >= 0 && at < X)) some = READ(x + (row + at));
                UNROLL for (int i = 0; i < WIDTH; i++) piece[j + i] = LANE(E, some, i);
            }
            UNROLL for (int kx = 0; kx < KX; kx++)
                UNROLL for (int l = 0; l < VW; l++) {
                    const E one = piece[HEAD - LOW_X + l * S_X + kx * D_X];
#if VARIANT == SUM
                    LANE(E, best, l) += one;
#else
                    const bool wins = !(one <= LANE(E, best, l)) && LANE(E, best, l) == LANE(E, best, l);     // greater, or the first NaN
                    LANE(E, best, l) = wins ? one : LANE(E, best, l);
                    LANE(uchar, number, l) = wins ? (kz * KY + ky) * KX + kx : LANE(uchar, number, l);
#endif
                }
        }
    }
    LEAVE(EPILOGUE_V, c, ((size_t)w * RY + v) * RX + u, best, number);
#else
    const int u = item % (X / VW) * VW, v = item / (X / VW) % (Y / ROWS) * ROWS, w = item / (X / VW * (Y / ROWS)) % Z;
    const size_t c = item / (X / VW * (Y / ROWS) * Z), plane = c * ((size_t)RZ * RY * RX);
    LANES_OF(E) total[ROWS];
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int l = 0; l < VW; l++) LANE(E, total[r], l) = 0;
    for (int qz = WINDOWS(KZ, D_Z, S_Z) - 1; qz >= 0; qz--) {
        WINDOW(pz, kz, w, 0, qz, 1, KZ, D_Z, S_Z, LOW_Z, RZ)
        if (!pz_holds || !pz_there) continue;
        UNROLL for (int r = 0; r < ROWS; r++)
            UNROLL_ROWS for (int qy = WINDOWS(KY, D_Y, S_Y) - 1; qy >= 0; qy--) {
                WINDOW(py, ky, v, r, qy, ROWS, KY, D_Y, S_Y, LOW_Y, RY)
                if (!py_holds) continue;
                const size_t row = plane + ((size_t)pz * RY + clamp(py, 0, RY - 1)) * RX;
                UNROLL for (int l = 0; l < VW; l++)
                    UNROLL for (int qx = WINDOWS(KX, D_X, S_X) - 1; qx >= 0; qx--) {
                        WINDOW(px, kx, u, l, qx, VW, KX, D_X, S_X, LOW_X, RX)
                        // read in any case, so that all reads of a window are one
                        const size_t at = row + clamp(px, 0, RX - 1);
                        const E one = SCALAR_OF(G_KIND, g + at);
                        const bool chosen = CHOSEN(at, (kz * KY + ky) * KX + kx);
                        LANE(E, total[r], l) += chosen && px_holds && px_there && py_there ? one : 0;
                    }
            }
    }
    UNROLL for (int r = 0; r < ROWS; r++) { EPILOGUE_V(c, ((size_t)w * Y + v + r) * X + u, total[r]); }
#endif
}
