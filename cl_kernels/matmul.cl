// matmul: y(b, m, n) = epilogue( sum over k of x(b, m, k) * w(b, k, n) ), accumulated in T, in a fixed order.
//
// For CPUs (matmul_dot.cl is for few rows or columns of operands contiguous along k, matmul_gpu.cl for GPUs). VARIANTs: PANEL, the kernel `matmul`; TURN, before
// it; SUM, after it. The generator prepends include/vector.h and
//   PARAMS, BEGIN            the parameter list, and statements after which the pointers x and w exist
//   T, VW                    element type and vector lanes
//   M, N, K                  sizes; the batch is the grid's last dimension
//   X_M, X_K, W_K, W_N       strides in elements; whichever is 1 decides how an operand is read, no 1 is slow but right
//   X_BATCH(b), W_BATCH(b)   offset of a batch entry (0 broadcasts)
//   PREFETCH(p)              starts fetching the line at p
//   EPILOGUE(b, m, n, v)     stores one element; EPILOGUE_V(b, m, n, v) stores VW of them, n .. n+VW-1; EPILOGUE_AHEAD(b, m, n), where
//                            it is defined, starts fetching the line that it reads there
// and the geometry of clnet/kernels/matmul/matmul.py, which says when to use what. Every element is stored exactly once.
//
// PANEL. Grid (rows / IC, columns / JC, batch), local size 1: one work-item computes one macro tile.
//   One operand is broadcast, element by element, over rows i; the other is read in vectors, along columns j:
//       for each block of KC along k
//           pack the block's columns into panels [JC / (NV*VW)][k][NV*VW]           in private memory, sized to stay in L2;
//           where they are contiguous the first row tile does it in passing (FILLING), so that waiting for memory and multiplying overlap
//           for each MR rows: pack them too (RB times MR at once) where ROWS_PACKED, else broadcast from where they lie
//               for each panel: an MR x NV tile of vectors stays in registers over all of KC     (`micro`)
//   Rows are m and columns are n; with SWAP the other way round (yT = wT xT), which packs x in place of w: for few m.
//   The tile is written to private memory and only then through the epilogue, so that the epilogue is compiled once.
//   Packing transposes VW x VW blocks in registers where the source is contiguous along k.
//   Assumes: some hundred KB of private memory work (both CPU runtimes: 2 MB seen); COL_J == 1 where COLS_PACKED is 0.
//
// TURN: kernel `matmul_turn`, grid (rows / TURN_I, K / TURN_K, copies): the rows' operand, contiguous along i, copied to `turned` with k along lines of
//   PITCH elements, for PANEL to read there: where many columns would have each macro tile pack rows that lie in a page for each k.
//
// SUM: kernel `matmul_sum`, after a PANEL that cuts K into PARTS of KP: where results are so few that each core would read nearly all of an operand.
//   Grid's last dimension of such a PANEL is (part, batch); it stores partial[part][batch][m][n].

#define PANEL 1
#define TURN 2
#define SUM 3
#ifndef VARIANT
#define VARIANT PANEL           // which of them
#endif
#ifndef GROUP_ATTR
#define GROUP_ATTR __attribute__((reqd_work_group_size(1, 1, 1)))
#endif

#ifndef PARTS
#define PARTS 1                 // into how many pieces K is cut
#endif

#include "include/operands.h"

#if SWAP
#define ROW_KIND W_KIND
#define COL_KIND X_KIND
#else
#define ROW_KIND X_KIND
#define COL_KIND W_KIND
#endif
#define ROW_STORED STORED_OF(ROW_KIND)
#define COL_STORED STORED_OF(COL_KIND)

#if VARIANT == PANEL

#ifndef MR
#define MR 12                   // rows of the register tile
#endif
#ifndef NV
#define NV 2                    // vectors of the register tile: MR * NV + NV + 1 registers
#endif
#ifndef KC
#define KC K                    // depth of a block; below K the macro tile is kept in private memory between blocks
#endif
#ifndef IC
#define IC (MR * 8)             // rows of the macro tile, a multiple of MR
#endif
#ifndef JC
#define JC (NV * VW * 4)        // columns of the macro tile, a multiple of NV * VW
#endif
#ifndef IC_MOST
#define IC_MOST (IC)            // of IC, where that is an argument of the kernel: private memory is for as many
#endif
#ifndef ROWS_PACKED
#define ROWS_PACKED 0           // 1: copy the rows' operand too, where its stride makes cache lines collide
#endif
#ifndef RB
#define RB 1                    // row tiles that are packed at once
#endif
#ifndef COLS_PACKED
#define COLS_PACKED 1           // 0: read the columns' operand where it lies (contiguous along j, few rows to reuse it)
#endif

#ifdef PITCH                    // the rows' operand was turned
#undef ROW_OPERAND
#undef ROW_I
#undef ROW_K
#define ROW_OPERAND ((__global const T*)turned + (COPIES > 1 ? batch : 0) * ROWS * PITCH)
#define ROW_I PITCH
#define ROW_K 1
#endif

#define NR (NV * VW)
#if ROW_K == 1                                  // packed rows keep the order in which they lie, so that nothing is transposed
#define A_I ((KB + VW - 1) / VW * VW + VW)       // [MR][k]; rows do not collide in the cache, as those of 2^n columns do
#define A_K 1
#define ROW_PANEL (MR * A_I)
#else
#define A_I 1                                   // [k][MR]
#define A_K MR
#define ROW_PANEL (KB * MR + VW)                // the last store of a whole vector goes beyond
#endif
#ifndef KP
#define KP (K)                  // steps along k of a work-item
#endif
#ifndef WHOLE_TILE
#define WHOLE_TILE (SWAP || (KC) < (KP))        // keep the macro tile, not only the register tile
#endif
#ifndef FREE_ROWS
#define FREE_ROWS 0             // 1: the number of rows is an argument of the kernel
#endif
#ifndef FREE_COLS
#define FREE_COLS 0             // 1: that of columns is, and they are packed
#endif
#define KB ((KC) > 0 ? (KC) : 1)
#define TAIL_ROWS ((ROWS) % MR)                 // edges: sizes are known, so they are instances of their own; free rows go by powers of two
#if FREE_COLS
#define TAIL_VECS 0                             // the last panel is one like the others, padded
#define VALID(j) min((size_t)NR, (size_t)(COLS) - (j))
#else
#define TAIL_VECS (((COLS) % NR + VW - 1) / VW)
#define VALID(j) NR
#endif
#define TAIL_LANES (COLS_PACKED || (COLS) % VW == 0 ? VW : (COLS) % VW)   // packed panels are padded

#if ROWS_PACKED
#define ROW_SPACE __private
#else
#define ROW_SPACE __global
#endif
#if COLS_PACKED
#define COL_SPACE __private T
#define COL_READ SAME
#else
#define COL_SPACE __global const COL_STORED
#define COL_READ COL_KIND
#endif

#define FILLING (COLS_PACKED && COL_J == 1)     // the first row tile packs the columns while it multiplies by them
#define LINE (64 / sizeof(T))   // elements that come with one
// The first row tile asks for the columns, wherever they lie: left alone, a Zen 4 fetches those of few rows at a third of its rate. Whole tiles alone.
#define ASKED(j) ((FILLING || !COLS_PACKED) && i0 + MR <= i1 && (j) + NR <= COLS)
#define FILLED(j) (FILLING && ASKED(j))         // edges are packed before
#define ROWS_AHEAD (!ROWS_PACKED && ROW_K == 1) // the next row tile is asked for while this one is multiplied: each of its rows begins in a page of its own
#define BLOCK_AHEAD (FILLING && (KC) < (KP))    // the next block of k is asked for while this one is multiplied
// Rows across k are asked for where one panel reads them: a line for each k, far apart. Of tiles that give a step time for it (AVX-512).
#define LINES_AHEAD (!ROWS_PACKED && ROW_K != 1 && ROW_I == 1 && (JC) == NR && MR * NV > 16)
#define STEPS_AHEAD 48                          // of k, by which columns and such rows are asked for
#if FILLING
#define FILL(v, p) VSTORE_P(v, p)
#else
#define FILL(v, p)
#endif

#if PARTS > 1
#define BATCHES (get_global_size(2) / PARTS)
#define PART_AT(b, m, n) ((__global T*)partial + ((part * BATCHES + (b)) * M + (m)) * N + (n))
#define RESULT(b, m, n, v) *PART_AT(b, m, n) = v
#define RESULT_V(b, m, n, v) VSTORE(v, PART_AT(b, m, n))
#else
#define RESULT EPILOGUE
#define RESULT_V EPILOGUE_V
#endif

#define PACK pack_columns
#define KIND COL_KIND
#include "include/pack_lines.h"

#if ROWS_PACKED
#define PACK pack_lines
#define KIND ROW_KIND
#include "include/pack_lines.h"

// Panels of MR of the `rows` rows at `from`, beyond which `readable` may be read; along rows, a line is read once for all panels.
INLINE void pack_rows(T* restrict to, __global const ROW_STORED* restrict from, const size_t rows, const size_t readable, const size_t depth SIZES) {
#if ROW_K == 1
    for (size_t i = 0; i < rows; i += MR)
        pack_lines(to + i / MR * ROW_PANEL, from + i * ROW_I, A_I, depth, min((size_t)MR, rows - i), ROW_K, ROW_I);
#else
    // Tiles whose vectors can be read whole come first, by addresses that are added to: to divide for them was over half of the instructions.
    const size_t reach = (MR + VW - 1) / VW * VW, tiles = (rows + MR - 1) / MR;
    const size_t whole = ROW_I == 1 && readable >= reach ? min((readable - reach) / MR + 1, tiles) : 0;
    for (size_t k = 0; k < depth; k++) {
        T* restrict line = to + k * MR;
        __global const ROW_STORED* restrict at = from + k * ROW_K;
        for (size_t left = whole; left; left--, line += ROW_PANEL, at += MR * ROW_I)
            UNROLL for (size_t l = 0; l < MR; l += VW) VSTORE(VLOAD_OF(ROW_KIND, at + l), line + l);
        for (size_t i = whole * MR; i < rows; i += MR, line += ROW_PANEL, at += MR * ROW_I)
            for (size_t r = 0; r < min((size_t)MR, rows - i); r++) line[r] = SCALAR_OF(ROW_KIND, at + r * ROW_I);
    }
#endif
}
#endif

// c[rows][vecs] (+)= a[rows][depth] * b[depth][vecs], of the last vector only `last` lanes.
// rows, vecs, last and asked are constants at every call: the tile lives in registers. It starts at 0 and is added to c last: rounding errors grow
// with the root of a block's depth and of the number of blocks, not of K.
// `asked`: columns come from `from`, where they lie, and are asked for ahead; the panel b, if there is one, is empty yet, and they are left in it.
// `next`: the rows that come after these, or 0.
INLINE void micro(const int rows, const int vecs, const size_t depth, const bool fresh, ROW_SPACE const T* restrict a, const size_t a_i, const size_t a_k,
                  COL_SPACE* restrict b, const size_t b_k, T* restrict c, const size_t c_i, const int last,
                  const bool asked, __global const COL_STORED* restrict from, __global const ROW_STORED* restrict next SIZES) {
    VT sum[MR][NV];
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++)
            if (r < rows && v < vecs) sum[r][v] = VSPLAT(0);
    // The next rows are asked for a line at a time: in each step that was a fifth of the instructions (AVX2).
    const bool asking = ROWS_AHEAD && !asked && rows == MR && vecs == NV && next;
    for (size_t k0 = 0; k0 < depth; k0 += asking ? LINE : depth) {
        if (asking) UNROLL for (int r = 0; r < MR; r++) PREFETCH(next + r * ROW_I + k0);
        for (size_t k = asking ? min((size_t)LINE, depth - k0) : depth; k; k--, a += a_k, b += b_k, from += COL_K) {
            VT column[NV];
            UNROLL for (int v = 0; v < NV; v++)
                if (asked) {
                    PREFETCH(from + STEPS_AHEAD * COL_K + v * VW);
                    column[v] = VLOAD_OF(COL_KIND, from + v * VW);
                    FILL(column[v], b + v * VW);
                } else if (v < vecs && (v + 1 < vecs || last == VW)) column[v] = VLOAD_OF(COL_READ, b + v * VW);
            if (last < VW) {                                // lanes beyond the matrix are not read: it may end there
                T lanes[VW];
                UNROLL for (int l = 0; l < VW; l++)
                    lanes[l] = l < last ? SCALAR_OF(COL_READ, b + (vecs - 1) * VW + l) : 0;
                column[vecs - 1] = VLOAD_P(lanes);
            }
#if LINES_AHEAD
            if (rows == MR) PREFETCH(a + STEPS_AHEAD * a_k + MR - 1);
#endif
            UNROLL for (int r = 0; r < MR; r++)
                if (r < rows) {
                    const VT row = VSPLAT(a[r * a_i]);
                    UNROLL for (int v = 0; v < NV; v++)
                        if (v < vecs) sum[r][v] = VFMA(row, column[v], sum[r][v]);
                }
        }
    }
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++)
            if (r < rows && v < vecs) VSTORE_P(fresh ? sum[r][v] : VLOAD_P(c + r * c_i + v * VW) + sum[r][v], c + r * c_i + v * VW);
}

// Rows i .. i+rows of panel `columns`: chooses the instance of micro, because sizes are known and only edges differ.
#define MICRO_ROWS(rows)                                                                                   \
    if (TAIL_VECS && j + NR > COLS)                                                                        \
        micro(rows, TAIL_VECS, depth, fresh, a, a_i, a_k, b, COLS_PACKED ? TAIL_VECS * VW : COL_K, c, c_i, TAIL_LANES, false, 0, next SIZES_PASSED); \
    else                                                                                                   \
        micro(rows, NV, depth, fresh, a, a_i, a_k, b, COLS_PACKED ? NR : COL_K, c, c_i, VW, false, 0, next SIZES_PASSED);
#define MICRO_PART(count)                                                                                  \
    if (count < MR && left & count) { MICRO_ROWS(count) a += count * a_i; c += count * c_i; }

__kernel GROUP_ATTR void matmul(PARAMS) {
    BEGIN
#if PARTS > 1
    const size_t batch = get_global_id(2) % BATCHES, part = get_global_id(2) / BATCHES;
    const size_t k_begin = min(part * (KP), (size_t)(K)), k_end = min(k_begin + (KP), (size_t)(K));
#else
    const size_t batch = get_global_id(2), k_begin = 0, k_end = K;
#endif
    const size_t i0 = get_global_id(0) * (IC), j0 = get_global_id(1) * (JC);
    const size_t i1 = min(i0 + (IC), (size_t)(ROWS)), j1 = min(j0 + (JC), (size_t)(COLS));
    __global const ROW_STORED* restrict row_operand = ROW_OPERAND;
    __global const COL_STORED* restrict col_operand = COL_OPERAND;
#if ROWS_PACKED
    T row_panels[RB * ROW_PANEL] __attribute__((aligned(64)));
    const size_t a_i = A_I, a_k = A_K;
#else
    const size_t a_i = ROW_I, a_k = ROW_K;
#endif
#if COLS_PACKED
    T col_panels[KB * (JC)] __attribute__((aligned(64)));
#endif
    const size_t c_i = WHOLE_TILE ? (JC) : NR;
    T tile[WHOLE_TILE ? IC_MOST * (JC) : MR * NR] __attribute__((aligned(64)));

#if BLOCK_AHEAD
    const size_t tiles = ((i1 - i0 + MR - 1) / MR) * ((j1 - j0 + NR - 1) / NR), each = ((KC) + tiles - 1) / tiles;
#endif

    for (size_t k0 = k_begin; k0 == k_begin || k0 < k_end; k0 += KC) {   // once where there is nothing to add: the tile is 0, and stored
        const size_t depth = min((size_t)(KC), k_end - k0);
        const bool fresh = !WHOLE_TILE || k0 == k_begin;
#if COLS_PACKED
        for (size_t j = j0; j < j1; j += NR)
            if (FILLED(j)) continue;
            else {                                      // one call: its blocks are transposed in registers, which takes long to build
                const bool tail = TAIL_VECS && j + NR > COLS;
                pack_columns(col_panels + (j - j0) * KB, col_operand + j * COL_J + k0 * COL_K, tail ? TAIL_VECS * VW : NR,
                     tail ? COLS - j : VALID(j), depth, COL_J, COL_K);
            }
#endif
#if BLOCK_AHEAD
        size_t ahead = k0 + KC;
#endif
        for (size_t i = i0; i < i1; i += MR) {
            __global const ROW_STORED* restrict rows_at = row_operand + i * ROW_I + k0 * ROW_K;
#if ROWS_PACKED
            if ((i - i0) % (MR * RB) == 0) pack_rows(row_panels, rows_at, min((size_t)(MR * RB), i1 - i), ROWS - i, depth SIZES_PASSED);
            ROW_SPACE const T* restrict a = row_panels + (i - i0) / MR % RB * ROW_PANEL;
#else
            __global const T* restrict a = rows_at;
#endif
            for (size_t j = j0; j < j1; j += NR) {
                __global const ROW_STORED* restrict next = j == j0 ? rows_at + MR * ROW_I : 0;  // once for all panels
#if COLS_PACKED
                COL_SPACE* restrict b = col_panels + (j - j0) * KB;
#else
                __global const COL_STORED* restrict b = col_operand + j * COL_J + k0 * COL_K;
#endif
                T* restrict c = tile + (WHOLE_TILE ? (i - i0) * c_i + (j - j0) : 0);
#if BLOCK_AHEAD                                             // a share of it with each tile
                for (const size_t end = min(ahead + each, min(k0 + 2 * (KC), k_end)); ahead < end; ahead++) {
                    for (size_t l = j0; l < j1; l += LINE) PREFETCH(col_operand + l + ahead * COL_K);
                    if (ROW_I == 1) for (size_t l = i0; l < i1; l += LINE) PREFETCH(row_operand + l + ahead * ROW_K);
                }
#endif
#if defined(EPILOGUE_AHEAD) && !WHOLE_TILE && PARTS <= 1    // comes while the tile is computed
                for (size_t r = 0; r < MR; r++)
                    for (size_t v = 0; v < NR; v += LINE) EPILOGUE_AHEAD(batch, (i + r), (j + v));
#endif
                if (i == i0 && ASKED(j))
                    micro(MR, NV, depth, fresh, a, a_i, a_k, b, NR, c, c_i, VW, true, col_operand + j * COL_J + k0 * COL_K, next SIZES_PASSED);
#if FREE_ROWS
                else if (i + MR > ROWS) {
                    const size_t left = ROWS - i;
                    ROW_SPACE const T* restrict first = a;
                    T* restrict tile_c = c;
                    MICRO_PART(8) MICRO_PART(4) MICRO_PART(2) MICRO_PART(1)
                    a = first, c = tile_c;
                } else { MICRO_ROWS(MR) }
#else
                else if (TAIL_ROWS && i + MR > ROWS) { MICRO_ROWS(TAIL_ROWS) } else { MICRO_ROWS(MR) }
#endif
#if !WHOLE_TILE
                for (size_t r = 0; r < MR && i + r < ROWS; r++)
                    for (size_t v = 0; v < NR && j + v < COLS; v += VW)
                        if (COLS % VW == 0 || j + v + VW <= COLS) { RESULT_V(batch, (i + r), (j + v), VLOAD_P(c + r * c_i + v)); }
                        else for (size_t l = v; j + l < COLS; l++) { RESULT(batch, (i + r), (j + l), c[r * c_i + l]); }
#endif
            }
        }
    }

#if WHOLE_TILE && !SWAP
    for (size_t i = i0; i < i1; i++)
        for (size_t j = j0; j < j1; j += VW)
            if (COLS % VW == 0 || j + VW <= COLS) { RESULT_V(batch, i, j, VLOAD_P(tile + (i - i0) * c_i + (j - j0))); }
            else for (size_t l = j; l < COLS; l++) { RESULT(batch, i, l, tile[(i - i0) * c_i + (l - j0)]); }
#elif WHOLE_TILE
    for (size_t i = i0; i < i1; i += VW)                // i counts n: VW rows of the tile become VW columns of y
        for (size_t j = j0; j < j1; j += VW)
            if (i + VW <= i1) {
                VT t[VW];
                UNROLL for (size_t l = 0; l < VW; l++) t[l] = VLOAD_P(tile + (i - i0 + l) * c_i + (j - j0));
                transpose(t);
                T lines[VW * VW] __attribute__((aligned(64)));
                UNROLL for (size_t l = 0; l < VW; l++) VSTORE_P(t[l], lines + l * VW);
                for (size_t l = 0; l < VW && j + l < j1; l++) { RESULT_V(batch, (j + l), i, VLOAD_P(lines + l * VW)); }
            } else
                for (size_t l = j; l < min(j + VW, j1); l++)
                    for (size_t n = i; n < i1; n++) { RESULT(batch, l, n, tile[(n - i0) * c_i + (l - j0)]); }
#endif
}

#elif VARIANT == TURN
#define TURN_AHEAD 4                            // vectors of a line of k by which it is asked for

__kernel GROUP_ATTR void matmul_turn(PARAMS) {
    BEGIN
    const size_t batch = get_global_id(2), i0 = get_global_id(0) * (TURN_I), k0 = get_global_id(1) * (TURN_K);
    const size_t i1 = min(i0 + (TURN_I), (size_t)(ROWS)), k1 = min(k0 + (TURN_K), (size_t)(K));
    __global const T* restrict from = ROW_OPERAND;
    __global T* restrict to = (__global T*)turned + batch * ROWS * PITCH;
    for (size_t i = i0; i < i1; i += VW)
        for (size_t k = k0; k < k1; k += VW)
            if (i + VW <= i1 && k + VW <= k1) {
                VT t[VW];
                UNROLL for (size_t l = 0; l < VW; l++) {
                    PREFETCH(from + (k + l) * ROW_K + i + TURN_AHEAD * VW);
                    t[l] = VLOAD(from + (k + l) * ROW_K + i);
                }
                transpose(t);
                UNROLL for (size_t l = 0; l < VW; l++) VSTORE(t[l], to + (i + l) * PITCH + k);
            } else
                for (size_t r = i; r < min(i + VW, i1); r++)
                    for (size_t l = k; l < min(k + VW, k1); l++) to[r * PITCH + l] = from[l * ROW_K + r];
}

#elif VARIANT == SUM

#ifndef CHUNK
#define CHUNK 4096              // elements of a work-item
#endif
#define SUM_PARTS matmul_sum
#include "include/sum_parts.h"

#endif
