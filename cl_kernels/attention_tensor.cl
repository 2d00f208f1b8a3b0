// attention_tensor: attention of attention.cl on tensor cores, for NVIDIA devices of compute capability 8.0 and later (mma.sync, ldmatrix, cp.async).
//
// Operands, results and formulas as in attention.cl, without a mask, SCALE > 0, D and E in 32, 64, 128. Products of operands in 16 bits
// (PRECISION: BF16 or FP16), p and ds rounded to that for theirs; sums, softmax, lse and delta in float32. With NARROW the operands are 16-bit
// already. With SPLIT lse stands as two elements of 16 bits, the first digits and the rest, N * T * H elements apart.
// Operands of other types, strides or alignments are first packed by attention_pack.cl (PACK_Q, ...: which of them).
// Grid (tiles * ITEMS, heads), local size ITEMS = 32 * WARPS. A work-group owns ROWS = 16 * WARPS * MI rows of a head, a warp 16 * MI of
// them, and walks over tiles of BN rows of the other side, STAGES of which are in local memory or on their way there.
//   forward     owns queries, walks over keys: scores, maximum and sum in registers, which then are the left operand of the product with v
//   backward    GRADIENTS 1: owns queries (q, g), walks over keys (k, v): dq. GRADIENTS 2: owns keys (k, v), walks over the queries of all
//               heads of the group (q, g): dk, dv, from transposed scores. Nothing is added by two work-groups: every sum has a fixed order.
// Tiles behind the causal limit are skipped, only those that it crosses are masked; the longest rows of tiles begin first.
// Local memory: 2 (ROWS (D + E) + STAGES BN (D + E)) + 8 STAGES BN bytes at most.

#ifndef WARPS
#define WARPS 4                 // of a work-group
#endif
#ifndef MI
#define MI 2                    // 16 rows each of a warp
#endif
#ifndef BN
#define BN 64                   // rows of a tile of the other side, a multiple of 16
#endif
#ifndef STAGES
#define STAGES 2                // of these tiles
#endif
#ifndef HOLD
#define HOLD 1                  // 1: the own operands stay in registers; 0: they are read from local memory for each tile
#endif
#ifndef GRADIENTS
#define GRADIENTS 1
#endif

#include "include/attention.h"
#include "include/ptx.h"
#include "include/attention_tensor.h"
#include "include/tile_tensor.h"
#include "include/tile_mma.h"
#include "include/attention_tiles.h"
