// recurrent_gpu: recurrent.cl on GPUs; operands, results, slots and formulas as there, in float32.
//
// Sequences do not meet: a work-group takes ROWS of them through all steps and no group waits for another. An item makes OUT sums of
// a step: forward u = gate H + unit, over h; backward u = gate H + unit of dh, over the gate's own a (the shares of the gates are
// added after). Its weights are the same at every step: the first HELD of a sum stay in its registers, the next SHARED in local
// memory, the rest come out of the cache every step, four at a time and neighbours side by side: forward from a copy packed so.
//
// Kernel `pack_recurrent` (PART 0, only with STREAMED): scratch packed[k / 4][GATES H] of vectors along k. Grid (GATES H, STREAMED / 4).
// Kernels `recurrence` (PART 1), `recurrence_gradient` (PART 2): grid (ceil(B / ROWS) GROUP), local size GROUP. Two barriers a step;
//   what a step reads of xp, y and g is asked for while the sums before it run. Local memory: SHARED GATES H + ROWS (H + GATES H)
//   numbers, backward ROWS GATES H more.
// Sums run over k in four chains of a fixed order.

#include "include/recurrent.h"

#ifndef ROWS
#define ROWS 1                  // sequences of a work-group
#endif
#ifndef GROUP
#define GROUP 128               // work-items of a group
#endif
#ifndef HELD
#define HELD 0                  // weights of a sum in registers, a multiple of 4
#endif
#ifndef SHARED
#define SHARED 0                // weights of a sum in local memory, a multiple of 4
#endif

#define SUMS (GATES * H)
#define OUT ((SUMS + GROUP - 1) / GROUP)                // sums of an item
#define CELLS ((ROWS * H + GROUP - 1) / GROUP)          // units of an item, of all its sequences
#define QUADS ((H + 3) / 4)                             // vectors of a sum
#define STREAMED (4 * QUADS - HELD - SHARED)

// Four weights of sum u, zeros beyond H.
#if PART == 2
#define WEIGHT(u, k) ((k) < H ? w_hh[((u) / H * H + (k)) * H + (u) % H] : 0)
#else
#define WEIGHT(u, k) ((k) < H ? w_hh[(u) * H + (k)] : 0)
#endif
#ifndef W_HH_ALIGN
#define W_HH_ALIGN 1
#endif
#if PART != 2 && H % 4 == 0 && W_HH_ALIGN % 4 == 0
#define WEIGHTS(u, k) (*(__global const float4*)(w_hh + (u) * H + (k)))
#else
#define WEIGHTS(u, k) ((float4)(WEIGHT(u, (k)), WEIGHT(u, (k) + 1), WEIGHT(u, (k) + 2), WEIGHT(u, (k) + 3)))
#endif

#if PART == 0

__kernel void pack_recurrent(PARAMS) {
    BEGIN
    const size_t u = get_global_id(0), q = get_global_id(1);
    *(__global float4*)(packed + (q * SUMS + u) * 4) = WEIGHTS(u, HELD + SHARED + 4 * q);
}

#else

#if PART == 1 && STREAMED
#define NEXT_WEIGHTS(u, q) (*(__global const float4*)(packed + ((q) * SUMS + (u)) * 4))
#else
#define NEXT_WEIGHTS(u, q) WEIGHTS(u, HELD + SHARED + 4 * (q))
#endif

// sum[r][o] of every sum u of this item, over `from` (a vector of local memory of sequence r and sum u).
#define EACH_SUM for (uint o = 0; o < OUT; o++)
#define EACH_ROW for (uint r = 0; r < ROWS; r++)
#define REAL(u) (SUMS % GROUP == 0 || (u) < SUMS)
#define ADD(q, weights)                                                                                    \
    UNROLL EACH_SUM {                                                                                      \
        const uint u = l + o * GROUP, v = REAL(u) ? u : 0;                                                 \
        const float4 w_ = (weights);                                                                       \
        UNROLL EACH_ROW sum[r][o] = fma(FROM(r, v, q), w_, sum[r][o]);                                     \
    }
#define SUM_UP                                                                                             \
    UNROLL EACH_ROW UNROLL EACH_SUM sum[r][o] = (float4)(0);                                               \
    UNROLL for (uint q = 0; q < HELD / 4; q++) ADD(q, held[o][q])                                          \
    _Pragma("unroll 4") for (uint q = 0; q < SHARED / 4; q++) ADD(HELD / 4 + q, shared[q * SUMS + v])      \
    _Pragma("unroll 8") for (uint q = 0; q < STREAMED / 4; q++) ADD((HELD + SHARED) / 4 + q, NEXT_WEIGHTS(v, q))
#define TOTAL(r, o) ((sum[r][o].x + sum[r][o].y) + (sum[r][o].z + sum[r][o].w))
#define KEEP_WEIGHTS                                                                                       \
    UNROLL EACH_SUM {                                                                                      \
        const uint u = l + o * GROUP, v = REAL(u) ? u : 0;                                                 \
        UNROLL for (uint q = 0; q < HELD / 4; q++) held[o][q] = WEIGHTS(v, 4 * q);                         \
        for (uint q = 0; q < SHARED / 4; q++) if (REAL(u)) shared[q * SUMS + u] = WEIGHTS(u, HELD + 4 * q); \
    }
// The units of this item: sequence r, unit j.
#define EACH_CELL UNROLL for (uint p = 0; p < CELLS; p++)
#define UNIT                                                                                               \
    const uint i = l + p * GROUP, r = i / H, j = i % H;                                                    \
    const size_t b = first + r;                                                                            \
    if (i >= ROWS * H || b >= B) continue;

#if PART == 1

#define FROM(r, u, q) h[r][q]

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void recurrence(PARAMS) {
    BEGIN
    __local float4 h[ROWS][QUADS];
    __local float made[ROWS][SUMS];
    __local float4 shared[SHARED ? SHARED / 4 * SUMS : 1];
    const uint l = get_local_id(0);
    const size_t first = get_group_id(0) * ROWS;
    float4 held[OUT][HELD ? HELD / 4 : 1], sum[ROWS][OUT];
    float x[ROWS][OUT], bias[OUT], c[CELLS], xn[CELLS];
    KEEP_WEIGHTS
    UNROLL EACH_SUM bias[o] = REAL(l + o * GROUP) ? b_hh[l + o * GROUP] : 0;
    for (uint i = l; i < ROWS * 4 * QUADS; i += GROUP) {
        const uint r = i / (4 * QUADS), j = i % (4 * QUADS);
        ((__local float*)h)[i] = j < H && first + r < B ? state[(first + r) * H + j] : 0;
    }
#if CELL == LSTM
    EACH_CELL { UNIT c[p] = state[(B + b) * H + j]; }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t step = 0; step < TIMES; step++) {
        const size_t t = REVERSED ? TIMES - 1 - step : step;
        UNROLL EACH_ROW UNROLL EACH_SUM {
            const uint u = l + o * GROUP;
            const bool there = REAL(u) && first + r < B && !(CELL == GRU && u >= 2 * H);
            x[r][o] = there ? xp[(t * B + first + r) * SUMS + u] : 0;
        }
#if CELL == GRU
        EACH_CELL { UNIT xn[p] = xp[(t * B + b) * SUMS + 2 * H + j]; }
#endif
        SUM_UP
        UNROLL EACH_ROW UNROLL EACH_SUM {
            const uint u = l + o * GROUP, gate = u / H, j = u % H;
            const size_t b = first + r;
            if (REAL(u) && b < B) {
                const float a = TOTAL(r, o) + bias[o] + x[r][o];
#if CELL == LSTM
                const float v = gate == 2 ? tanh(a) : SIGMOID(a);
                EPILOGUE((2 + gate), t, b, j, v);
#elif CELL == GRU
                const float v = gate == 2 ? a : SIGMOID(a);
                EPILOGUE((gate == 2 ? 4 : 1 + gate), t, b, j, v);
#else
                const float v = CELL == TANH ? tanh(a) : a <= 0 ? 0 : a;
#endif
                made[r][u] = v;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        EACH_CELL {
            UNIT
            __local float* at = (__local float*)h[r] + j;
#if CELL == LSTM
            c[p] = made[r][H + j] * c[p] + made[r][j] * made[r][2 * H + j];
            const float out = made[r][3 * H + j] * tanh(c[p]);
            EPILOGUE(1, t, b, j, c[p]);
#elif CELL == GRU
            const float n = tanh(xn[p] + made[r][j] * made[r][2 * H + j]), out = n + made[r][H + j] * (*at - n);
            EPILOGUE(3, t, b, j, n);
#else
            const float out = made[r][j];
#endif
            *at = out;
            EPILOGUE(0, t, b, j, out);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#else

#define FROM(r, u, q) a[r][(u) / H][q]
#define STORE(s, v)                                                                                        \
    {                                                                                                      \
        const float v_ = (v);                                                                              \
        if ((s) < GATES) ((__local float*)a[r][(s) % GATES])[j] = v_;                                               \
        EPILOGUE(t, b, ((s) * H + j), v_);                                                                 \
    }
#define GIVEN_TO(s) ((s) < GIVEN ? given[p][(s) < GIVEN ? (s) : 0] : 0)
// Of step t_: the cotangents, the slots but the first (of an RNN the first), and what the step before left (c of LSTM, h of GRU).
#define ASK(t_)                                                                                            \
    EACH_CELL {                                                                                            \
        UNIT                                                                                               \
        const size_t at = (t_), kept = CELL == LSTM, ago = REVERSED ? at + 1 : at - 1;                     \
        UNROLL for (uint s = 0; s < GIVEN; s++) given[p][s] = g[((s * TIMES + at) * B + b) * H + j];       \
        UNROLL for (uint s = SLOTS > 1; s < SLOTS; s++) saved[p][s] = y[((s * TIMES + at) * B + b) * H + j]; \
        if (SLOTS > 1)                                                                                     \
            before[p] = at == (REVERSED ? TIMES - 1 : 0) ? state[(kept * B + b) * H + j] : y[((kept * TIMES + ago) * B + b) * H + j]; \
    }

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void recurrence_gradient(PARAMS) {
    BEGIN
    __local float4 a[ROWS][GATES][QUADS];
    __local float share[ROWS][SUMS];
    __local float4 shared[SHARED ? SHARED / 4 * SUMS : 1];
    const uint l = get_local_id(0);
    const size_t first = get_group_id(0) * ROWS;
    float4 held[OUT][HELD ? HELD / 4 : 1], sum[ROWS][OUT];
    float given[CELLS][GIVEN], saved[CELLS][SLOTS], before[CELLS], own[CELLS];
    KEEP_WEIGHTS
    for (uint i = l; i < ROWS * GATES * QUADS; i += GROUP) ((__local float4*)a)[i] = (float4)(0);
    for (uint i = l; i < ROWS * SUMS; i += GROUP) ((__local float*)share)[i] = 0;
    UNROLL for (uint p = 0; p < CELLS; p++) own[p] = 0;
    ASK(REVERSED ? 0 : TIMES - 1)
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t step = 0; step < TIMES; step++) {
        const size_t t = REVERSED ? step : TIMES - 1 - step;
        EACH_CELL {
            UNIT
            float dh = GIVEN_TO(0);
            UNROLL for (uint gate = 0; gate < GATES; gate++) dh += share[r][gate * H + j];
#if CELL == LSTM
            const float ig = saved[p][2], fg = saved[p][3], gg = saved[p][4], og = saved[p][5], tc = tanh(saved[p][1]);
            const float dc = GIVEN_TO(1) + own[p] + dh * og * (1 - tc * tc);
            STORE(0, (GIVEN_TO(2) + dc * gg) * ig * (1 - ig))
            STORE(1, (GIVEN_TO(3) + dc * before[p]) * fg * (1 - fg))
            STORE(2, (GIVEN_TO(4) + dc * ig) * (1 - gg * gg))
            STORE(3, (GIVEN_TO(5) + dh * tc) * og * (1 - og))
            own[p] = dc * fg;
            STORE(4, own[p])
#elif CELL == GRU
            dh += own[p];
            const float rg = saved[p][1], zg = saved[p][2], ng = saved[p][3], hn = saved[p][4];
            const float an = (GIVEN_TO(3) + dh * (1 - zg)) * (1 - ng * ng);
            own[p] = dh * zg;
            STORE(0, (GIVEN_TO(1) + an * hn) * rg * (1 - rg))
            STORE(1, (GIVEN_TO(2) + dh * (before[p] - ng)) * zg * (1 - zg))
            STORE(2, GIVEN_TO(4) + an * rg)
            STORE(3, an)
            STORE(4, own[p])
#else
            const float hv = saved[p][0];
            STORE(0, CELL == TANH ? dh * (1 - hv * hv) : hv > 0 ? dh : 0)
#endif
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (step + 1 < TIMES) {
            ASK(REVERSED ? t + 1 : t - 1)
            SUM_UP
            UNROLL EACH_ROW UNROLL EACH_SUM {
                const uint u = l + o * GROUP;
                if (REAL(u)) share[r][u] = TOTAL(r, o);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
#endif
