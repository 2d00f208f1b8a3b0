// tile_tensor.h: tiles of 16-bit elements on their way from memory to the tensor cores, and their results' way back. After attention_tensor.h; needs
// WARPS, MI, BN, HOLD and, where they are used, the variables item, lane and own_row.

#define ITEMS (WARPS * 32)
#define ROWS (WARPS * 16 * MI)
#define SYNC barrier(CLK_LOCAL_MEM_FENCE);
#define LOG2E 1.44269504088896340736f
#define FACTOR ((float)(SCALE) * LOG2E)         // of scores, so that exp2 serves

// Tile `to` = R rows of F elements from `from`, zeros beyond `valid`, which is R at least if `all`, by all items.
#define FETCH(to, from, stride, R, F, valid, all, aligned)                                                 \
    UNROLL for (uint i_ = 0; i_ < (R) * ((F) / 8); i_ += ITEMS) {                                          \
        const uint e_ = i_ + item, r_ = e_ / ((F) / 8), c_ = e_ % ((F) / 8);                               \
        if ((R) * ((F) / 8) % ITEMS == 0 || r_ < (R)) {                                                    \
            const local_at at_ = (to) + r_ * ((F) * 2) + ((c_ ^ ((F) >= 64 ? r_ & 7 : r_ >> 1 & 3)) << 4); \
            const bool in_ = (all) || r_ < (valid);                                                               \
            const size_t from_ = (in_ ? r_ * (size_t)(stride) : 0) + c_ * 8;                               \
            if (aligned) COPY_ASYNC(at_, (from) + from_, in_ ? 16 : 0);                                    \
            else PUT(at_, in_ ? gathered((__global const element*)(from) + from_, 1) : (uint4)(0));        \
        }                                                                                                  \
    }

#define CLEAR(y, n) UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint j = 0; j < (n); j++) UNROLL for (uint e = 0; e < 4; e++) y[i][j][e] = 0;
#define SWAP(F) ((F) >= 64 ? lane & 7 : lane >> 1 & 3)
// The place of piece c of a row, r0 and the lane's r added, in a tile of rows of F elements at `base`; r0 is a multiple of 8, r % 8 is lane % 8.
#define PIECE(base, r0, r, c, F) ((base) + ((r0) + (r)) * ((F) * 2) + (((c) ^ SWAP(F)) << 4))
// Fragments of the own rows: kept (held_...), or read from their tile.
#define OWN_PIECE(tile, i, kk, F) PIECE(tile, own_row + (i) * 16, lane % 16, (kk) * 2 + lane / 16, F)
#if HOLD
#define HELD(name, tile, F)                                                                                \
    uint name[MI][(F) / 16][4];                                                                            \
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint kk = 0; kk < (F) / 16; kk++) { LDMATRIX(name[i][kk], OWN_PIECE(tile, i, kk, F)); }
#define TAKE(to, name, tile, i, kk, F) UNROLL for (uint e = 0; e < 4; e++) (to)[e] = name[i][kk][e];
#else
#define HELD(name, tile, F)
#define TAKE(to, name, tile, i, kk, F) LDMATRIX(to, OWN_PIECE(tile, i, kk, F));
#endif
// p, sums of a product of BN columns, rounded: the left operand of the next.
#define ROUND(a, p)                                                                                        \
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint kk = 0; kk < BN / 16; kk++) {                    \
        a[i][kk][0] = PAIR(p[i][2 * kk][0], p[i][2 * kk][1]);                                              \
        a[i][kk][1] = PAIR(p[i][2 * kk][2], p[i][2 * kk][3]);                                              \
        a[i][kk][2] = PAIR(p[i][2 * kk + 1][0], p[i][2 * kk + 1][1]);                                      \
        a[i][kk][3] = PAIR(p[i][2 * kk + 1][2], p[i][2 * kk + 1][3]);                                      \
    }
// Row of a warp's sums: e / 2 is its half of 16 rows. Column: of BN or of the features.
#define ROW(i, e) (own_row + (i) * 16 + (e) / 2 * 8 + lane / 4)
#define COLUMN(j, e) ((j) * 8 + lane % 4 * 2 + (e) % 2)
// Rows of results, from element `start` on; row r of the tile is row `row` (an expression of r) of all.
#define STORE(y, F, count, factor, start, row)                                                             \
    UNROLL for (uint i = 0; i < MI; i++) UNROLL for (uint e = 0; e < 4; e += 2) {                          \
        const uint r = ROW(i, e);                                                                          \
        if (r < (count)) UNROLL for (uint f = 0; f < (F) / 8; f++) {                                       \
            EPILOGUE_V((start) + (row) * (F) + COLUMN(f, 0), ((float2)(y[i][f][e], y[i][f][e + 1]) * (factor))); \
        }                                                                                                  \
    }
#if PACK_Q
#define FROM_Q ((__global const ushort*)packed_q)
#define WHOLE_Q 1
#else
#define FROM_Q ((__global const ushort*)q)
#define WHOLE_Q (Q_ALIGN % 8 == 0)
#endif
#if PACK_K
#define FROM_K ((__global const ushort*)packed_k)
#define WHOLE_K 1
#else
#define FROM_K ((__global const ushort*)k)
#define WHOLE_K (K_ALIGN % 8 == 0)
#endif
#if PACK_V
#define FROM_V ((__global const ushort*)packed_v)
#define WHOLE_V 1
#else
#define FROM_V ((__global const ushort*)v)
#define WHOLE_V (V_ALIGN % 8 == 0)
#endif
#if PACK_G
#define FROM_G ((__global const ushort*)packed_g)
#define WHOLE_G 1
#else
#define FROM_G ((__global const ushort*)g)
#define WHOLE_G (G_ALIGN % 8 == 0)
#endif
