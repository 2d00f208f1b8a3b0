// tile_mma.h: products of warps with tiles in local memory by mma.sync; a warp owns 16 MI rows. After tile_tensor.h.

#define TILES_AT(memory) LOCAL_AT(memory)
#define TILES_SLACK 0                           // bytes by which the memory has to be longer than the tiles
#define LAG 0
#define ARRIVED(others) COPY_WAIT(others) SYNC  // the tiles that were asked for, but for the last groups
// y[i][j] = x tileT, tile of BN rows of F elements, x the own rows of as many. A product may be begun before its sums are taken: after END_T they are
// there, and those of all products begun before but the last `others`.
#define BEGIN_T(y, held, own, tile, F)
#define END_T(y, held, own, tile, F, others)                                                               \
    CLEAR(y, BN / 8)                                                                                       \
    UNROLL for (uint kk = 0; kk < (F) / 16; kk++) {                                                        \
        uint a_[MI][4];                                                                                    \
        UNROLL for (uint i = 0; i < MI; i++) { TAKE(a_[i], held, own, i, kk, F) }                          \
        UNROLL for (uint j = 0; j < BN / 16; j++) {                                                        \
            uint b_[4];                                                                                    \
            LDMATRIX(b_, PIECE(tile, j * 16, lane % 8 + lane / 16 * 8, kk * 2 + lane / 8 % 2, F));         \
            UNROLL for (uint i = 0; i < MI; i++) {                                                         \
                MMA(y[i][2 * j], a_[i], b_[0], b_[1]);                                                     \
                MMA(y[i][2 * j + 1], a_[i], b_[2], b_[3]);                                                 \
            }                                                                                              \
        }                                                                                                  \
    }
// y[i][f] += a tile: a (16 MI x BN) in registers, tile of BN rows of F elements.
#define END_TILE(y, F, others)
#define BEGIN_TILE(y, a, tile, F)                                                                          \
    UNROLL for (uint kk = 0; kk < BN / 16; kk++) UNROLL for (uint f = 0; f < (F) / 16; f++) {              \
        uint b_[4];                                                                                        \
        LDMATRIX_T(b_, PIECE(tile, kk * 16, lane % 16, f * 2 + lane / 16, F));                             \
        UNROLL for (uint i = 0; i < MI; i++) {                                                             \
            MMA(y[i][2 * f], a[i][kk], b_[0], b_[1]);                                                      \
            MMA(y[i][2 * f + 1], a[i][kk], b_[2], b_[3]);                                                  \
        }                                                                                                  \
    }
