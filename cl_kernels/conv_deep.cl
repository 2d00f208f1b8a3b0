// conv_deep: convolution, or its data gradient without steps, with few results a channel and many channels, on CPUs: the last layers of a network
// on small images, or on few.
//
// Formulas, layouts and the generator's names are those of conv.cl, of two dimensions and one phase. There the weights are packed for all to read
// and all taps are multiplied; here weights take longer to read than their products, and much of an image is border:
// a work-item reads its weights once, where they lie, for all images, and leaves out taps that meet the border alone.
// Besides the sizes of conv.cl: KY KX (kernel), DIL_Y DIL_X; FLIP: taps in the order of their offsets are the weight's from the last to the first,
// as the data gradient has them, which sums over O of the weight. VARIANTs, local size 1:
//
// PLACE     first stage. Grid (C / CHUNK, blocks of MB images, GROUPS): data as placed[group][block][c][y][x][MB], rows zero-padded to PITCH.
// CONV      Grid (panels, GROUPS). For each CB channels: pack their weights to private memory, [c][tap][NR]; for each tile, TP pixels of a row of
//           MB images, MR = TP * MB by NV vectors of sums stay in registers over these channels and the taps that meet data; tiles of one pixel
//           leave out columns, too. The last tile of a row is moved back to end with it.

#define PLACE 1
#define CONV 2
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef MB
#define MB 8                    // images of a tile
#endif
#define BLOCKS ((N + MB - 1) / MB)
#define PLANE (SY * PITCH * MB) // of a channel of a block of images
#define SERIAL __attribute__((reqd_work_group_size(1, 1, 1)))

#if VARIANT == PLACE

#ifndef CHUNK
#define CHUNK 16                // channels of a work-item
#endif

__kernel SERIAL void deep_place(PARAMS) {
    BEGIN
    const size_t c0 = get_global_id(0) * (CHUNK), block = get_global_id(1), group = get_global_id(2);
    for (size_t c = c0; c < min(c0 + (CHUNK), (size_t)C); c++) {
        __global T* to = (__global T*)placed + ((group * BLOCKS + block) * C + c) * PLANE;
        __global const T* from = DATA + ((block * MB * GROUPS + group) * C + c) * (SY * SX);
        const size_t image = (size_t)GROUPS * C * (SY * SX), images = min((size_t)MB, (size_t)N - block * MB);
        for (int y = 0; y < SY; y++)
            for (int x = 0; x < PITCH; x++, to += MB) {
                const bool inside = x + MIN_X >= 0 && x + MIN_X < SX;
                for (size_t m = 0; m < MB; m++) to[m] = inside && m < images ? from[m * image + y * SX + x + MIN_X] : 0;
            }
    }
}

#else

#ifndef NV
#define NV 2                    // vectors of channels in the register tile
#endif
#ifndef TP
#define TP 1                    // pixels of a row in it
#endif
#ifndef CB
#define CB 16                   // channels of a block, a multiple of VW
#endif
#define NR (NV * VW)
#define MR (TP * MB)
#define TAPS_ALL (KY * KX)
#define ACROSS ((RX + TP - 1) / TP)             // tiles of a row
#define TILES (BLOCKS * RY * ACROSS)
#define START(tx) min((tx) * TP, RX - TP)       // the first pixel of one
#define LINE (64 / sizeof(T))

// Weights of a block: so many pieces, W_PIECE apart, of so many lines.
#if FLIP
#define PIECES (CB)
#define W_PIECE W_C
#define LINES (NR * TAPS_ALL / LINE)
#define AT(c) ((c) * W_C)
#else
#define PIECES valid
#define W_PIECE W_O
#define LINES ((CB) * TAPS_ALL / LINE)
#define AT(c) ((c) * TAPS_ALL)

#define PACK pack_lines
#define KIND SAME
#include "include/pack_lines.h"
#endif

// to[c][tap][NR] = weights of `channels` channels from `from` on
INLINE void pack_weights(T* restrict to, __global const T* restrict from, const size_t channels, const size_t valid) {
#if FLIP
    for (size_t c = 0; c < channels; c++, from += W_C)
        for (size_t t = TAPS_ALL; t--; to += NR)
            for (size_t l = 0; l < NR; l++) to[l] = l < valid ? from[l * W_O + t] : 0;
#else
    pack_lines(to, from, NR, valid, channels * TAPS_ALL, W_O, 1);
#endif
}

// sums[MR][NR] += products over `channels` channels and taps [ky0, ky1) x [kx0, kx1); x is where tap (0, 0) of the first pixel would read.
INLINE void micro(__global const T* restrict x, const T* restrict w, const size_t channels, const int ky0, const int ky1, const int kx0,
                  const int kx1, T* restrict sums) {
    VT sum[MR][NV];
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VLOAD_P(sums + r * NR + v * VW);
    for (size_t c = 0; c < channels; c++, x += PLANE, w += TAPS_ALL * NR)
        ROLLED for (int ky = ky0; ky < ky1; ky++)   // copies of a tap would take registers that there are not
            ROLLED for (int kx = kx0; kx < kx1; kx++) {
                __global const T* restrict a = x + (ky * DIL_Y * PITCH + kx * DIL_X) * MB;
                const T* restrict b = w + (ky * KX + kx) * NR;
                VT column[NV];
                UNROLL for (int v = 0; v < NV; v++) column[v] = VLOAD_P(b + v * VW);
                UNROLL for (int r = 0; r < MR; r++) {
                    const VT value = VSPLAT(a[r / MB * IN_X * MB + r % MB]);
                    UNROLL for (int v = 0; v < NV; v++) sum[r][v] = VFMA(value, column[v], sum[r][v]);
                }
            }
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++) VSTORE_P(sum[r][v], sums + r * NR + v * VW);
}

// The taps that meet data of `size` positions from `at` on, where tap 0 reads: [FIRST_TAP, LAST_TAP)
#define FIRST_TAP(at, apart) ((at) < 0 ? ((apart) - 1 - (at)) / (apart) : 0)
#define LAST_TAP(at, apart, size, count) ((at) < (size) ? min(count, ((size) - (at) + (apart) - 1) / (apart)) : 0)

__kernel SERIAL void conv_deep(PARAMS) {
    BEGIN
    const size_t panel = get_global_id(0), group = get_global_id(1), valid = min((size_t)NR, (size_t)O - panel * NR);
    T weights[(CB) * TAPS_ALL * NR] __attribute__((aligned(64)));
    T sums[TILES * MR * NR] __attribute__((aligned(64)));
    for (size_t i = 0; i < TILES * MR * NR; i += VW) VSTORE_P(VSPLAT(0), sums + i);
    __global const T* restrict own = WEIGHT + group * W_G + panel * NR * W_O;
    for (size_t c0 = 0; c0 < C; c0 += CB) {
        const size_t channels = min((size_t)(CB), C - c0);
        pack_weights(weights, own + AT(c0), channels, valid);
        T* restrict to = sums;
        size_t asked = 0, tile = 0;             // the next block's weights are asked for meanwhile, a share with each tile
        for (size_t block = 0; block < BLOCKS; block++)
            for (int y = 0; y < RY; y++)
                for (int tx = 0; tx < ACROSS; tx++, to += MR * NR) {
                    for (const size_t end = PIECES * LINES * ++tile / TILES; asked < end; asked++)
                        PREFETCH(own + AT(c0 + CB) + asked / LINES * W_PIECE + asked % LINES * LINE);
                    const int at_y = y * IN_Y + MIN_Y, at_x = START(tx) * IN_X;
                    const int kx0 = TP == 1 ? FIRST_TAP(at_x + MIN_X, DIL_X) : 0, kx1 = TP == 1 ? LAST_TAP(at_x + MIN_X, DIL_X, SX, KX) : KX;
                    micro((__global const T*)placed + ((group * BLOCKS + block) * C + c0) * PLANE + (at_y * PITCH + at_x) * MB, weights,
                          channels, FIRST_TAP(at_y, DIL_Y), LAST_TAP(at_y, DIL_Y, SY, KY), kx0, kx1, to);
                }
    }
    for (size_t n = 0; n < N; n++)
        for (size_t l = 0; l < valid; l++) {
            T line[RY * RX + VW];
            const T* from = sums + (n / MB * (RY * ACROSS) * MR + n % MB) * NR + l;
            for (int y = 0; y < RY; y++)
                for (int x = 0; x < RX; x++)
                    line[y * RX + x] = from[((y * ACROSS + x / TP) * MR + (x - START(x / TP)) * MB) * NR];
            const size_t o = group * O + panel * NR + l;
            size_t i = 0;
            for (; i + VW <= RY * RX; i += VW) { EPILOGUE_V(n, o, i, VLOAD_P(line + i)); }
            for (; i < RY * RX; i++) { EPILOGUE(n, o, i, line[i]); }
        }
}

#endif
