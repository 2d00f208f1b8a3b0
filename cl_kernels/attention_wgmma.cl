// attention_wgmma: attention_tensor.cl on Hopper, whose warpgroups of 4 warps multiply 64 rows at a time (wgmma) and read tiles in local memory themselves.
//
// Operands, results, grids and macros as there, for D and E of 32 or 64, MI 1, WARPS a multiple of 4, BN 32, 64 or 128. 1 KB of local memory more.

#define MI 1
#define HOLD 0                  // own operands are read from local memory
#ifndef WARPS
#define WARPS 8                 // of a work-group
#endif
#ifndef BN
#define BN 64                   // rows of a tile of the other side
#endif
#ifndef STAGES
#define STAGES 2                // of these tiles
#endif
#ifndef GRADIENTS
#define GRADIENTS 1
#endif

#include "include/attention.h"
#include "include/ptx.h"
#include "include/attention_tensor.h"
#include "include/tile_tensor.h"
#include "include/tile_wgmma.h"
#include "include/attention_tiles.h"
