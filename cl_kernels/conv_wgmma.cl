// conv_wgmma: convolution, its data gradient and its weight gradient on Hopper's tensor cores, 16-bit or TF32 products, sums in float32.
//
// Formula and names as in conv.cl; the arithmetic as in matmul_wgmma.cl. Data is first packed with channels inside, on a grid with room for zeros:
//   position = ((n PZ + z) PY + y) PX + x of a grid that is wide enough for data and results, so that what a tap reads beyond an edge is a zero
//   of this grid (its own, or that of the line before). A tap is then a shift of positions: data is copied to local memory once for all taps
//   of a block of channels, in one piece, and each tap multiplies from another line of it on. Where data is read with steps (or results are
//   written with them), each phase of the steps is a grid of its own.
//   packed [source phase][block of channels][FRONT + positions ...] lines of LINE bytes (KT channels), their pieces swapped as the tensor core
//   wants them, by the line's number.
// The generator prepends what conv.cl says (EPILOGUE, sizes) and the numbers of clnet/kernels/conv/conv_wgmma.py. VARIANTs:
//
// PACK, kernel conv_tensor_pack. Grid (LINES / 64 * 256, blocks of channels, phases), local size 256: 64 lines of FROM.
// PACK_WEIGHTS, kernel conv_tensor_weights. Grid (pieces, 1, 1), local size 256: packed_w [row tile][tap set][block of channels][tap][BM] lines.
//
// CONV, kernel conv_tensor. Grid (GROUPS * 288, 1, 1), local size 288: work-groups walk over tiles of BM channels x BN positions of a phase. Warp 8
//   keeps two blocks of data and STAGES stages of TS taps of weights on their way; warps 0 to 3 and 4 to 7 multiply 64 channels each (BM 128), or
//   half of the positions each (BM 64). A tap set: those taps of a result phase that read one source phase.
//
// SUMS, kernel conv_tensor_sums: the weight gradient. Grid (tiles * 416, 1, 1), local size 416: 64 channels of GRAD x 64 of the data, up to three rows
//   of taps that read one source phase, four warps and one instruction for each row (its taps are next to each other: a line further each). K is
//   the positions, in parts of PART blocks of KB, added afterwards in order (conv_gpu.cl, SUM).

#define PACK 1
#define PACK_WEIGHTS 2
#define CONV 3
#define SUMS 4
#define TF32 1
#define BF16 2
#define FP16 3
#ifndef VARIANT
#define VARIANT CONV            // which of them
#endif
#ifndef PRECISION
#define PRECISION BF16          // arithmetic
#endif
#ifndef NARROW
#define NARROW 0                // 1: the operands are 16-bit already
#endif
#ifndef LINE
#define LINE 128                // bytes of a line: 128, 64 or 32
#endif
#ifndef BM
#define BM 64                   // channels of a tile, 64 or 128
#endif
#ifndef BN
#define BN 256                  // positions of a tile
#endif
#ifndef STAGES
#define STAGES 4                // stages of weights
#endif
#ifndef TS
#define TS 1                    // taps of a stage
#endif
#ifndef KB
#define KB 128                  // positions of a block of the weight gradient
#endif

#if PRECISION == TF32
#define ELEMENT 4
#define WG_KIND WG_TF32
#else
#define ELEMENT 2
#if PRECISION == BF16
#define WG_KIND WG_BF16
#else
#define WG_KIND WG_FP16
#endif
#endif
#define KT (LINE / ELEMENT)                             // channels of a line
#define BLOCKS ((C + KT - 1) / KT)
#define POSITIONS ((size_t)N * PZ * PY * PX)

#if NARROW
typedef ushort element;
#else
typedef float element;
#endif

#if VARIANT == PACK || VARIANT == PACK_WEIGHTS
#include "include/ptx.h"
// A word: two 16-bit elements, or one of 32 bits
#if NARROW
INLINE uint word_of(const element* v) { return v[0] | (uint)v[1] << 16; }
#elif PRECISION == BF16
INLINE uint word_of(const element* v) { return PAIR_BF16(v[0], v[1]); }
#elif PRECISION == FP16
INLINE uint word_of(const element* v) { return PAIR_FP16(v[0], v[1]); }
#else
INLINE uint word_of(const element* v) { return ROUND_TF32(v[0]); }
#endif
#define PER_WORD (4 / ELEMENT)
#define SWAPPED(byte, line) ((byte) ^ (((byte) >> 3) & ((line) - 16)))
#endif

#if VARIANT == PACK

#define WORDS (LINE / 16)                               // of an item: a quarter of a line

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void conv_tensor_pack(PARAMS) {
    BEGIN
    __local uint lines[64 * (LINE / 4 + 1)];
    const uint t = get_local_id(0), block = get_group_id(1), phase = get_group_id(2);
    const size_t line = get_group_id(0) * 64 + t % 64, p = line - FRONT;
    const uint ax = p % PX * STEP_X + phase % STEP_X, ay = p / PX % PY * STEP_Y + phase / STEP_X % STEP_Y;
    const uint az = p / (PX * PY) % PZ * STEP_Z + phase / (STEP_X * STEP_Y);
    const bool in = line >= FRONT && p < POSITIONS && ax < FX && ay < FY && az < FZ;
    const uint c0 = block * KT + t / 64 * (WORDS * PER_WORD);
    __global const element* from = (__global const element*)FROM + (in ? (p / ((size_t)PZ * PY * PX) * FC + c0) * ((size_t)FZ * FY * FX) + ((size_t)az * FY + ay) * FX + ax : 0);
    element v[WORDS * PER_WORD];
    UNROLL for (uint i = 0; i < WORDS * PER_WORD; i++) v[i] = in && (FC % KT == 0 || c0 + i < FC) ? from[i * ((size_t)FZ * FY * FX)] : 0;
    UNROLL for (uint i = 0; i < WORDS; i++) lines[t % 64 * (LINE / 4 + 1) + t / 64 * WORDS + i] = word_of(v + i * PER_WORD);
    barrier(CLK_LOCAL_MEM_FENCE);
    __global uchar* to = (__global uchar*)PACKED + ((size_t)phase * FBLOCKS + block) * LINES * LINE + get_group_id(0) * (64 * LINE);
    for (uint i = t; i < 4 * LINE; i += 256) {
        const uint r = i / (LINE / 16), c = i % (LINE / 16);
        const __local uint* l = lines + r * (LINE / 4 + 1) + c * 4;
        *(__global uint4*)(to + SWAPPED(i * 16, LINE)) = (uint4)(l[0], l[1], l[2], l[3]);
    }
}

#elif VARIANT == PACK_WEIGHTS

__constant uint source[] = {SOURCE}, set_first[] = {SET_FIRST};

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void conv_tensor_weights(PARAMS) {
    BEGIN
    const uint e = get_global_id(0), piece = e % (LINE / 16), r = e / (LINE / 16) % BM;
    uint rest = e / (LINE / 16 * BM), set = 0;
    const uint row = rest / (T_ALL * BLOCKS);
    if (row >= (O + BM - 1) / BM) return;
    rest %= T_ALL * BLOCKS;
    while (rest >= set_first[set + 1] * BLOCKS) set++;
    const uint taps = set_first[set + 1] - set_first[set], at = rest - set_first[set] * BLOCKS, block = at / taps, tap = set_first[set] + at % taps;
    const uint o = row * BM + r, c0 = block * KT + piece * (16 / ELEMENT);
    __global const element* from = (__global const element*)WEIGHT + (size_t)o * W_O + (size_t)c0 * W_C + source[tap] * W_K;
    element v[16 / ELEMENT];
    UNROLL for (uint i = 0; i < 16 / ELEMENT; i++) v[i] = o < O && c0 + i < C ? from[i * W_C] : 0;
    uint4 words = (uint4)(word_of(v), word_of(v + PER_WORD), word_of(v + 2 * PER_WORD), word_of(v + 3 * PER_WORD));
    *(__global uint4*)((__global uchar*)packed_w + (size_t)(e - e % (LINE / 16 * BM)) * 16 + SWAPPED((r * (LINE / 16) + piece) * 16, LINE)) = words;
}

#elif VARIANT == CONV

#define WG_COLUMNS (BM == 128 ? BN : BN / 2)
#define X_ACROSS 0
#define W_ACROSS 0
#include "include/wgmma.h"

#define ROW_TILES ((O + BM - 1) / BM)
#define PLACE_TILES ((POSITIONS + BN - 1) / BN)
#define TILES (ROW_TILES * PLACE_TILES * PHASES)
#define SLOT (DATA_LINES * LINE)                        // bytes of a block of data
#define TAP (BM * LINE)                                 // bytes of a tap of weights
#define STAGE (TS * TAP)
#define SLOTS 2

// first set of a result phase; first tap of a set, its source phase, the line where its data begins, in front of the tile, and lines; the line of a tap
__constant uint phase_first[] = {PHASE_FIRST}, set_first[] = {SET_FIRST}, set_source[] = {SET_SOURCE}, set_lines[] = {SET_LINES}, tap_line[] = {TAP_LINE};
__constant int set_at[] = {SET_AT};

#define LOCATE(tile)                                                                                       \
    const uint row = (tile) % ROW_TILES, phase = (tile) / ROW_TILES / PLACE_TILES;                         \
    const size_t p0 = (tile) / ROW_TILES % PLACE_TILES * BN;

__kernel __attribute__((reqd_work_group_size(288, 1, 1))) void conv_tensor(PARAMS) {
    BEGIN
    __local uchar blocks[SLOTS * SLOT + STAGES * STAGE] __attribute__((aligned(1024)));
    __local float lines[8][16 * 32] __attribute__((aligned(16)));
    __local ulong barriers[2 * (SLOTS + STAGES)];
    const uint base = local_address(blocks), weights = base + SLOTS * SLOT;
    const uint full = local_address(barriers), empty = full + 8 * SLOTS, w_full = empty + 8 * SLOTS, w_empty = w_full + 8 * STAGES;
    const uint t = get_local_id(0), warp = t / 32, lane = t % 32;
    if (t == 0) {
        for (uint s = 0; s < SLOTS; s++) { BARRIER_INIT(full + s * 8, 1); BARRIER_INIT(empty + s * 8, 8); }
        for (uint s = 0; s < STAGES; s++) { BARRIER_INIT(w_full + s * 8, 1); BARRIER_INIT(w_empty + s * 8, 8); }
        BARRIERS_READY
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint slot = 0, slot_phase = 0, stage = 0, stage_phase = 0;
    if (warp == 8) {
        if (lane == 0)
            for (size_t tile = get_group_id(0); tile < TILES; tile += GROUPS) {
                LOCATE(tile)
                for (uint set = phase_first[phase]; set < phase_first[phase + 1]; set++) {
                    const uint taps = set_first[set + 1] - set_first[set], bytes = set_lines[set] * LINE;
                    __global const uchar* x_at = (__global const uchar*)packed_x + ((size_t)set_source[set] * BLOCKS * LINES + FRONT + p0 + set_at[set]) * LINE;
                    __global const uchar* w_at = (__global const uchar*)packed_w + (size_t)(row * T_ALL + set_first[set]) * (BLOCKS * TAP);
                    for (uint block = 0; block < BLOCKS; block++) {
                        WAIT(empty + slot * 8, slot_phase ^ 1);
                        EXPECT(full + slot * 8, bytes);
                        COPY_BULK(base + slot * SLOT, x_at + (size_t)block * LINES * LINE, bytes, full + slot * 8);
                        if (++slot == SLOTS) { slot = 0; slot_phase ^= 1; }
                        for (uint tap = 0; tap < taps; tap += TS) {
                            const uint size = min((uint)TS, taps - tap) * TAP;
                            WAIT(w_empty + stage * 8, stage_phase ^ 1);
                            EXPECT(w_full + stage * 8, size);
                            COPY_BULK(weights + stage * STAGE, w_at, size, w_full + stage * 8);
                            w_at += size;
                            if (++stage == STAGES) { stage = 0; stage_phase ^= 1; }
                        }
                    }
                }
            }
        return;
    }
    const uint x_shift = BM == 128 ? 0 : warp / 4 * (WG_COLUMNS * LINE), w_shift = BM == 128 ? warp / 4 * (64 * LINE) : 0;
    for (size_t tile = get_group_id(0); tile < TILES; tile += GROUPS) {
        LOCATE(tile)
        float c[WG_COLUMNS / 2];
        UNROLL for (int i = 0; i < WG_COLUMNS / 2; i++) c[i] = 0;
        uint keep = 0, held = STAGES, held_slot = SLOTS;    // what the last group of products still reads
        for (uint set = phase_first[phase]; set < phase_first[phase + 1]; set++) {
            const uint set0 = set_first[set], taps = set_first[set + 1] - set0;
            for (uint block = 0; block < BLOCKS; block++) {
                WAIT(full + slot * 8, slot_phase);
                for (uint tap = 0; tap < taps; tap += TS) {
                    WAIT(w_full + stage * 8, stage_phase);
                    FENCE
                    UNROLL for (uint i = 0; i < TS; i++) {
                        if (TS > 1 && tap + i >= taps) break;
                        const ulong wd = DESCRIPTOR(weights + stage * STAGE + i * TAP + w_shift, LINE, 16);
                        const ulong xd = DESCRIPTOR(base + slot * SLOT + x_shift + tap_line[set0 + tap + i] * LINE, LINE, 16);
                        UNROLL for (uint k = 0; k < LINE / 32; k++) { MMA(wd + 2 * k, xd + 2 * k, keep | i | k) }
                    }
                    COMMIT
                    keep = 1;
                    FINISHED(1)
                    if (lane == 0 && held < STAGES) ARRIVE(w_empty + held * 8);
                    if (lane == 0 && held_slot < SLOTS) ARRIVE(empty + held_slot * 8);
                    held = stage, held_slot = tap + TS >= taps ? slot : SLOTS;
                    if (++stage == STAGES) { stage = 0; stage_phase ^= 1; }
                }
                if (++slot == SLOTS) { slot = 0; slot_phase ^= 1; }
            }
        }
        FINISHED(0)
        SETTLE
        if (lane == 0 && held < STAGES) ARRIVE(w_empty + held * 8);
        if (lane == 0 && held_slot < SLOTS) ARRIVE(empty + held_slot * 8);
        const uint m0 = row * BM + (BM == 128 ? warp : warp % 4) * 16, fz = phase / (OUT_Y * OUT_X), fy = phase / OUT_X % OUT_Y, fx = phase % OUT_X;
        UNROLL for (uint q = 0; q < WG_COLUMNS / 32; q++) {
            WARP
            UNROLL for (uint j = 0; j < 4; j++) {
                __local float* to = lines[warp] + lane / 4 * 32 + ((j * 8 + lane % 4 * 2) ^ (lane / 4 % 4 * 8));
                *(__local float2*)to = (float2)(c[16 * q + 4 * j], c[16 * q + 4 * j + 1]);
                *(__local float2*)(to + 256) = (float2)(c[16 * q + 4 * j + 2], c[16 * q + 4 * j + 3]);
            }
            WARP
            const size_t p = p0 + (BM == 128 ? 0 : warp / 4 * WG_COLUMNS) + q * 32 + lane;
            const uint ax = p % PX * OUT_X + fx, ay = p / PX % PY * OUT_Y + fy, az = p / (PX * PY) % PZ * OUT_Z + fz;
            const size_t n = p / ((size_t)PZ * PY * PX), i = ((size_t)az * RY + ay) * RX + ax;
            if (p < POSITIONS && ax < RX && ay < RY && az < RZ) {
                _Pragma("unroll 4") for (uint r = 0; r < 16; r++)
                    if (O % BM == 0 || m0 + r < O) { EPILOGUE(n, (m0 + r), i, lines[warp][r * 32 + (lane ^ (r % 4 * 8))]); }
            }
        }
    }
}

#else

#define X_ACROSS 1
#define W_ACROSS 1
#include "include/wgmma.h"

#define SLOT ((KB + DATA_LINES) * 128)                  // bytes of a block: KB lines of GRAD, DATA_LINES of the data
#define ROW_TILES ((O + 63) / 64)
#define PLACES ((POSITIONS + KB - 1) / KB)              // blocks of positions

// first row of taps of a unit (up to three of one source phase); its source phase, where its data begins, lines of a block; a row's line, first tap, taps
__constant uint unit_first[] = {UNIT_FIRST}, unit_source[] = {UNIT_SOURCE}, unit_lines[] = {UNIT_LINES}, row_line[] = {ROW_LINE}, row_first[] = {ROW_FIRST};
__constant int unit_at[] = {UNIT_AT};
__constant uint row_tap[] = {ROW_TAP};

__kernel __attribute__((reqd_work_group_size(416, 1, 1))) void conv_tensor_sums(PARAMS) {
    BEGIN
    __local uchar blocks[STAGES * SLOT] __attribute__((aligned(1024)));
    __local ulong barriers[2 * STAGES];
    const uint base = local_address(blocks), full = local_address(barriers), empty = full + 8 * STAGES;
    const uint t = get_local_id(0), warp = t / 32, lane = t % 32;
    const uint group = get_group_id(0), part = group % SPLIT, tile = group / SPLIT, o0 = tile % ROW_TILES * 64, block = tile / ROW_TILES % BLOCKS;
    const uint unit = tile / (ROW_TILES * BLOCKS), rows = unit_first[unit + 1] - unit_first[unit];
    if (t == 0) {
        for (uint s = 0; s < STAGES; s++) { BARRIER_INIT(full + s * 8, 1); BARRIER_INIT(empty + s * 8, 4 * rows); }
        BARRIERS_READY
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint count = part * PART < PLACES ? min((uint)PART, (uint)PLACES - part * PART) : 0;
    uint stage = 0, phase = 0;
    if (warp == 12) {
        if (lane == 0) {
            __global const uchar* g_at = (__global const uchar*)packed_g + ((size_t)(o0 / 64) * LINES + FRONT + (size_t)part * PART * KB) * 128;
            __global const uchar* x_at = (__global const uchar*)packed_x + ((size_t)(unit_source[unit] * BLOCKS + block) * LINES + FRONT + (size_t)part * PART * KB + unit_at[unit]) * 128;
            const uint bytes = unit_lines[unit] * 128;
            for (uint k = 0; k < count; k++, g_at += KB * 128, x_at += KB * 128) {
                const uint to = base + stage * SLOT, at = full + stage * 8;
                WAIT(empty + stage * 8, phase ^ 1);
                EXPECT(at, KB * 128 + bytes);
                COPY_BULK(to, g_at, KB * 128, at);
                COPY_BULK(to + KB * 128, x_at, bytes, at);
                if (++stage == STAGES) { stage = 0; phase ^= 1; }
            }
        }
        return;
    }
    if (warp / 4 >= rows) return;
    const uint r = unit_first[unit] + warp / 4;
    float c[WG_COLUMNS / 2];
    UNROLL for (int i = 0; i < WG_COLUMNS / 2; i++) c[i] = 0;
    uint held = STAGES;
    for (uint k = 0; k < count; k++) {
        WAIT(full + stage * 8, phase);
        const ulong gd = DESCRIPTOR(base + stage * SLOT, 128, 128), xd = DESCRIPTOR(base + stage * SLOT + KB * 128 + row_line[r] * 128, 128, TAP_STEP * 128);
        FENCE
        UNROLL for (uint i = 0; i < KB / 16; i++) { MMA(gd + 128 * i, xd + 128 * i, k | i) }
        COMMIT
        FINISHED(1)
        if (lane == 0 && held < STAGES) ARRIVE(empty + held * 8);
        held = stage;
        if (++stage == STAGES) { stage = 0; phase ^= 1; }
    }
    FINISHED(0)
    SETTLE
    UNROLL for (uint j = 0; j < WG_COLUMNS / 8; j++) {
        const uint o = o0 + warp % 4 * 16 + lane / 4, cc = block * 64 + j % 8 * 8 + lane % 4 * 2, tap = row_first[r] + j / 8;
        if (j / 8 >= row_first[r + 1] - row_first[r]) continue;
        UNROLL for (uint i = 0; i < 4; i++)
            if ((O % 64 == 0 || o + i / 2 * 8 < O) && (C % 64 == 0 || cc + i % 2 < C))
                PARTIAL((size_t)(o + i / 2 * 8) * (C * T_ALL) + row_tap[tap] * C + cc + i % 2) = c[4 * j + i];
    }
}

#endif
