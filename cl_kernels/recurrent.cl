// recurrent: all time steps of an RNN, LSTM or GRU in one launch, forward and backward. Sequences do not meet: a work-item
// takes ROWS of them through time, with the weights packed in its cache, and waits for nobody.
//
//   PART 1  recurrence          y(s, t, b, j): what step t leaves in slot s         operands xp state w_hh b_hh
//   PART 2  recurrence_gradient d(t, b, s H + j): gradients of its pre-activations  operands g y state w_hh
//
//   CELL       gates                slots s of y         slots of d
//   TANH RELU  1                    h                    a
//   LSTM       4: i f g o           h c i f g o          a_i a_f a_g a_o, dc (goes back to the step before)
//   GRU        3: r z n             h r z n hn           a_r a_z a_hn a_n, dh z (goes back to the step before)
//   hp = h W_hhT + b_hh.  LSTM: c' = f c + i g, h' = o tanh c'.  GRU: n = tanh(xp_n + r hn), h' = n + z (h - n).
//
// xp (TIMES, B, GATES H), state (STATES, B, H), w_hh (GATES H, H), b_hh (GATES H), g (GIVEN, TIMES, B, H): the cotangents of
// the first GIVEN slots. REVERSED walks from the last step to the first.
// The generator prepends include/vector.h and PARAMS, BEGIN (pointers of the operands' names), T, VW, B, H, TIMES and EPILOGUE.
//
// For CPUs. Grid (ceil(B / ROWS)), local size 1. Private memory: the weights, and of each sequence h (twice), c, gradients.
//   TIMES, B and ROWS may be arguments; a work-item then takes its sequences through time MOST at once.
//   Forward: MR sequences x UV vectors of units x GATES sums stay in registers over k, so that the cell is computed from
//   registers; a block's weights serve all sequences before the next block's are read. Backward: the cell first, then MR sequences x NV vectors of dh = a W_hh.
// Assumes: the weights fit the cache of a core (the geometry sees to it). A step's sums run over k in order.

#include "include/recurrent.h"

#ifndef ROWS
#define ROWS 1                  // sequences of a work-item
#endif
#ifdef MOST                     // of them that it takes through time at once, where their number is an argument
#define TILES(rows) (((rows) + MR - 1) / MR * MR)
#else
#define MOST ROWS
#define TILES(rows) TILE
#endif
#ifndef MR
#define MR 1                    // sequences of a register tile
#endif
#ifndef UV
#define UV 1                    // forward: vectors of units of a register tile, UV * GATES vectors of weights
#endif
#ifndef NV
#define NV 1                    // backward: vectors of a register tile
#endif

#define TILE (MR * ((MOST + MR - 1) / MR))          // sequences, padded to whole register tiles
#define UNITS (UV * VW)
#define WIDE ((PART == 1 ? UNITS : NV * VW) * ((H + (PART == 1 ? UNITS : NV * VW) - 1) / (PART == 1 ? UNITS : NV * VW)))   // H, padded

#define COLUMNS (PART == 1 ? UV * GATES : NV)       // vectors of weights of a register tile: COLUMNS * MR + min(COLUMNS, MR) + 1 registers

// sum[r][v] += sum over k < H of a[r][k] b[k][v], rows of a and b being `a_r` and `b_k` apart. Of a step along k the shorter side stays in registers.
INLINE void multiply(VT sum[MR][COLUMNS], const T* restrict a, const size_t a_r, const T* restrict b, const size_t b_k) {
    for (size_t k = 0; k < H; k++, b += b_k)
        if (MR <= COLUMNS) {
            VT row[MR];
            UNROLL for (size_t r = 0; r < MR; r++) row[r] = VSPLAT(a[r * a_r + k]);
            UNROLL for (size_t v = 0; v < COLUMNS; v++) {
                const VT column = VLOAD_P(b + v * VW);
                UNROLL for (size_t r = 0; r < MR; r++) sum[r][v] = VFMA(row[r], column, sum[r][v]);
            }
        } else {
            VT column[COLUMNS];
            UNROLL for (size_t v = 0; v < COLUMNS; v++) column[v] = VLOAD_P(b + v * VW);
            UNROLL for (size_t r = 0; r < MR; r++) {
                const VT row = VSPLAT(a[r * a_r + k]);
                UNROLL for (size_t v = 0; v < COLUMNS; v++) sum[r][v] = VFMA(row, column[v], sum[r][v]);
            }
        }
}

// VW elements at p[j], zeros from p[H] on.
INLINE VT load_units(__global const T* restrict p, const size_t j) {
    if (H % VW == 0 || j + VW <= H) return VLOAD(p + j);
    T lanes[VW];
    UNROLL for (size_t l = 0; l < VW; l++) lanes[l] = j + l < H ? p[j + l] : 0;
    return VLOAD_P(lanes);
}

#if PART == 1

#define STORE(s, v)                                                                                        \
    if (H % VW == 0 || j + VW <= H) { EPILOGUE_V((s), t, b, j, (v)); }                                     \
    else { T lanes_[VW]; VSTORE_P((v), lanes_); for (size_t l = 0; j + l < H; l++) { EPILOGUE((s), t, b, (j + l), lanes_[l]); } }

// For each vector of units of the register tile: a stage of the cell for all of them before the next, so that none waits for another's exponential.
#define EACH_UNIT(...)                                                                                     \
    UNROLL for (size_t r = 0; r < MR; r++)                                                                 \
        UNROLL for (size_t u = 0; u < UV; u++) {                                                           \
            const size_t b = first + min(r0 + r, rows - 1), j = j0 + u * VW, at = (r0 + r) * WIDE + j;     \
            const bool real = r0 + r < rows && j < H;                                                      \
            __VA_ARGS__                                                                                    \
        }

// weights[block][k][UV][GATES][VW] = W_hh[gate H + unit][k], zeros beyond H.
INLINE void pack(T* restrict to, __global const T* restrict w) {
    for (size_t j = 0; j < WIDE; j += VW)
        for (size_t gate = 0; gate < GATES; gate++) {
            __global const T* restrict from = w + (gate * H + j) * H;
            T* restrict at = to + (j / UNITS * H * UV + j % UNITS / VW) * GATES * VW + gate * VW;
            size_t k = 0;
            if (j + VW <= H)
                for (; k + VW <= H; k += VW) {
                    VT v[VW];
                    UNROLL for (size_t l = 0; l < VW; l++) v[l] = VLOAD(from + l * H + k);
                    transpose(v);
                    UNROLL for (size_t l = 0; l < VW; l++) VSTORE_P(v[l], at + (k + l) * UNITS * GATES);
                }
            for (; k < H; k++)
                for (size_t l = 0; l < VW; l++) at[k * UNITS * GATES + l] = j + l < H ? from[l * H + k] : 0;
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void recurrence(PARAMS) {
    BEGIN
    const size_t end = min((get_global_id(0) + 1) * ROWS, (size_t)B);
    T weights[GATES * WIDE * H] __attribute__((aligned(64)));
    T h[2 * TILE * WIDE] __attribute__((aligned(64)));
#if CELL == LSTM
    T c[TILE * WIDE] __attribute__((aligned(64)));
#endif
    pack(weights, w_hh);
    for (size_t first = get_global_id(0) * ROWS; first < end; first += MOST) {
        const size_t rows = min((size_t)MOST, end - first), tile = TILES(rows);
        for (size_t r = 0; r < tile; r++)
            for (size_t j = 0; j < WIDE; j += VW) {
                const size_t b = first + min(r, rows - 1);
                VSTORE_P(load_units(state + b * H, j), h + r * WIDE + j);
#if CELL == LSTM
                VSTORE_P(load_units(state + (B + b) * H, j), c + r * WIDE + j);
#endif
            }
        for (size_t step = 0; step < TIMES; step++) {
            const size_t t = REVERSED ? TIMES - 1 - step : step;
            const T* restrict now = h + step % 2 * (TILE * WIDE);
            T* restrict next = h + (step + 1) % 2 * (TILE * WIDE);
            for (size_t j0 = 0; j0 < WIDE; j0 += UNITS)
                for (size_t r0 = 0; r0 < tile; r0 += MR) {
                    VT sum[MR][COLUMNS];
                    UNROLL for (size_t u = 0; u < UV; u++)
                        UNROLL for (size_t gate = 0; gate < GATES; gate++) {
                            const VT bias = load_units(b_hh + gate * H, j0 + u * VW);
                            UNROLL for (size_t r = 0; r < MR; r++) sum[r][u * GATES + gate] = bias;
                        }
                    multiply(sum, now + r0 * WIDE, WIDE, weights + j0 * H * GATES, UNITS * GATES);
                    VT out[MR][UV];
#define HP(gate) sum[r][u * GATES + gate]
#define XP(gate) load_units(xp + (t * B + b) * (GATES * H) + (gate) * H, j)
#if CELL == LSTM
                    EACH_UNIT(UNROLL for (size_t gate = 0; gate < GATES; gate++) HP(gate) += XP(gate);)
                    EACH_UNIT(HP(0) = SIGMOID(HP(0));)
                    EACH_UNIT(HP(1) = SIGMOID(HP(1));)
                    EACH_UNIT(HP(2) = TANH(HP(2));)
                    EACH_UNIT(HP(3) = SIGMOID(HP(3));)
                    EACH_UNIT(out[r][u] = HP(1) * VLOAD_P(c + at) + HP(0) * HP(2); VSTORE_P(out[r][u], c + at);)
                    EACH_UNIT(if (real) { STORE(1, out[r][u]) STORE(2, HP(0)) STORE(3, HP(1)) STORE(4, HP(2)) STORE(5, HP(3)) })
                    EACH_UNIT(out[r][u] = HP(3) * TANH(out[r][u]);)
#elif CELL == GRU
                    EACH_UNIT(HP(0) = SIGMOID(HP(0) + XP(0));)
                    EACH_UNIT(HP(1) = SIGMOID(HP(1) + XP(1));)
                    EACH_UNIT(out[r][u] = TANH(XP(2) + HP(0) * HP(2));)
                    EACH_UNIT(if (real) { STORE(1, HP(0)) STORE(2, HP(1)) STORE(3, out[r][u]) STORE(4, HP(2)) })
                    EACH_UNIT(out[r][u] += HP(1) * (VLOAD_P(now + at) - out[r][u]);)
#else
                    EACH_UNIT(out[r][u] = HP(0) + XP(0); out[r][u] = CELL == TANH ? TANH(out[r][u]) : out[r][u] <= 0 ? VSPLAT(0) : out[r][u];)
#endif
                    EACH_UNIT(VSTORE_P(out[r][u], next + at); if (real) { STORE(0, out[r][u]) })
                }
        }
    }
}

#else

#define STORE(s, v)                                                                                        \
    VSTORE_P((v), stored + (s) * WIDE + j);                                                                \
    if (H % VW == 0 || j + VW <= H) { EPILOGUE_V(t, b, ((s) * H + j), (v)); }                              \
    else { T lanes_[VW]; VSTORE_P((v), lanes_); for (size_t l = 0; j + l < H; l++) { EPILOGUE(t, b, ((s) * H + j + l), lanes_[l]); } }
#define SAVED(s) load_units(y + (((s) * TIMES + t) * B + b) * H, j)                    // slot s of this step
#define BEFORE(s) load_units(last ? state + ((s) * B + b) * H : y + (((s) * TIMES + before) * B + b) * H, j)
#define GIVEN_TO(s) ((s) < GIVEN ? load_units(g + (((s) * TIMES + t) * B + b) * H, j) : VSPLAT(0))

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void recurrence_gradient(PARAMS) {
    BEGIN
    const size_t end = min((get_global_id(0) + 1) * ROWS, (size_t)B);
    T weights[GATES * H * WIDE] __attribute__((aligned(64)));
    T a[TILE * KEPT * WIDE] __attribute__((aligned(64)));                               // slots of d at this step
    T dh[TILE * WIDE] __attribute__((aligned(64)));
    for (size_t i = 0; i < GATES * H; i++)
        for (size_t j = 0; j < WIDE; j += VW) VSTORE_P(load_units(w_hh + i * H, j), weights + i * WIDE + j);
    for (size_t first = get_global_id(0) * ROWS; first < end; first += MOST) {
        const size_t rows = min((size_t)MOST, end - first), tile = TILES(rows);
        for (size_t i = 0; i < tile * WIDE; i += VW) VSTORE_P(VSPLAT(0), dh + i);
        for (size_t i = 0; i < tile * KEPT * WIDE; i += VW) VSTORE_P(VSPLAT(0), a + i);
        for (size_t step = 0; step < TIMES; step++) {
            const size_t t = REVERSED ? step : TIMES - 1 - step, before = REVERSED ? t + 1 : t - 1;
            const bool last = step + 1 == TIMES;
            for (size_t r = 0; r < rows; r++)
                for (size_t j = 0; j < WIDE && j < H; j += VW) {
                    const size_t b = first + r;
                    T* restrict stored = a + r * KEPT * WIDE;
                    const VT to_h = GIVEN_TO(0) + VLOAD_P(dh + r * WIDE + j);
#if CELL == LSTM
                    const VT ig = SAVED(2), fg = SAVED(3), gg = SAVED(4), og = SAVED(5), tc = TANH(SAVED(1));
                    const VT to_c = GIVEN_TO(1) + VLOAD_P(stored + 4 * WIDE + j) + to_h * og * (1 - tc * tc);
                    STORE(0, (GIVEN_TO(2) + to_c * gg) * ig * (1 - ig))
                    STORE(1, (GIVEN_TO(3) + to_c * BEFORE(1)) * fg * (1 - fg))
                    STORE(2, (GIVEN_TO(4) + to_c * ig) * (1 - gg * gg))
                    STORE(3, (GIVEN_TO(5) + to_h * tc) * og * (1 - og))
                    STORE(4, to_c * fg)
                    VSTORE_P(VSPLAT(0), dh + r * WIDE + j);
#elif CELL == GRU
                    const VT rg = SAVED(1), zg = SAVED(2), ng = SAVED(3), hn = SAVED(4);
                    const VT an = (GIVEN_TO(3) + to_h * (1 - zg)) * (1 - ng * ng);
                    STORE(0, (GIVEN_TO(1) + an * hn) * rg * (1 - rg))
                    STORE(1, (GIVEN_TO(2) + to_h * (BEFORE(0) - ng)) * zg * (1 - zg))
                    STORE(2, GIVEN_TO(4) + an * rg)
                    STORE(3, an)
                    STORE(4, to_h * zg)
                    VSTORE_P(to_h * zg, dh + r * WIDE + j);
#else
                    const VT hv = SAVED(0);
                    STORE(0, CELL == TANH ? to_h * (1 - hv * hv) : hv > 0 ? to_h : VSPLAT(0))
                    VSTORE_P(VSPLAT(0), dh + r * WIDE + j);
#endif
                }
            for (size_t r0 = 0; r0 < tile && !last; r0 += MR)
                for (size_t j = 0; j < WIDE; j += NV * VW) {
                    VT sum[MR][NV];
                    UNROLL for (size_t r = 0; r < MR; r++)
                        UNROLL for (size_t v = 0; v < NV; v++) sum[r][v] = VLOAD_P(dh + (r0 + r) * WIDE + j + v * VW);
                    for (size_t gate = 0; gate < GATES; gate++)
                        multiply(sum, a + (r0 * KEPT + gate) * WIDE, KEPT * WIDE, weights + gate * H * WIDE + j, WIDE);
                    UNROLL for (size_t r = 0; r < MR; r++)
                        UNROLL for (size_t v = 0; v < NV; v++) VSTORE_P(sum[r][v], dh + (r0 + r) * WIDE + j + v * VW);
                }
        }
    }
}

#endif
