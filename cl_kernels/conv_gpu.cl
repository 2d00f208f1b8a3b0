// conv_gpu: convolution and its data gradient on GPUs; formula, names and what is prepended as in conv.cl.
//
// One stage. Grid (tiles * ITEMS, 1, GROUPS * phases), local size (ITEMS, 1, 1):
//   a work-group computes BM channels x BN pixels of a phase, blocks of BK along (channel, tap) at a time:
//       ws[BK][BM], xs[BK][BN] in local memory; neighbouring items load neighbouring pixels; TM x TN sums an item
//   OFF_Z OFF_Y OFF_X list where taps read in the data. Assumes BN divides ITEMS and BM, BN are multiples of TM, TN.

#ifndef BM
#define BM 64                   // tile of a work-group
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 16                   // depth of a block
#endif
#ifndef TM
#define TM 4                    // tile of a work-item
#endif
#ifndef TN
#define TN 4
#endif
#define ITEMS ((BM / TM) * (BN / TN))

__constant uint first[] = {FIRST};
__constant uint source[] = {SOURCE};
__constant int off_z[] = {OFF_Z}, off_y[] = {OFF_Y}, off_x[] = {OFF_X};

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_tile(PARAMS) {
    BEGIN
    __local T ws[BK * BM], xs[BK * BN];
    const size_t item = get_local_id(0), phases = OUT_Z * OUT_Y * OUT_X, group = get_global_id(2) / phases, phase = get_global_id(2) % phases;
    const size_t pz = phase / (OUT_Y * OUT_X), py = phase / OUT_X % OUT_Y, px = phase % OUT_X;
    const size_t jz = (RZ + OUT_Z - 1 - pz) / OUT_Z, jy = (RY + OUT_Y - 1 - py) / OUT_Y, jx = (RX + OUT_X - 1 - px) / OUT_X;
    const size_t pixels = N * jz * jy * jx, t0 = first[phase], taps = first[phase + 1] - t0, depth = C * taps;
    const size_t m0 = get_group_id(0) % ((O + BM - 1) / BM) * BM, n0 = get_group_id(0) / ((O + BM - 1) / BM) * BN;
    // the pixel whose column this item loads
    const size_t mine = n0 + item % BN, at = jz * jy * jx ? mine / (jz * jy * jx) : 0;
    const int z0 = mine < pixels ? (int)(mine / (jy * jx) % jz * IN_Z) : 0, y0 = mine < pixels ? (int)(mine / jx % jy * IN_Y) : 0;
    const int x0 = mine < pixels ? (int)(mine % jx * IN_X) : 0;
    __global const T* data = DATA + (at * GROUPS + group) * C * ((size_t)SZ * SY * SX);
    __global const T* weight = WEIGHT + group * W_G;
    const size_t tm = item / (BN / TN) * TM, tn = item % (BN / TN);
    T sum[TM][TN];
    UNROLL for (int i = 0; i < TM; i++)
        UNROLL for (int j = 0; j < TN; j++) sum[i][j] = 0;
    for (size_t k0 = 0; k0 < depth; k0 += BK) {
        for (size_t i = item; i < BK * BM; i += ITEMS) {
            const size_t k = k0 + i % BK, o = m0 + i / BK;
            ws[i % BK * BM + i / BK] = k < depth && o < O ? weight[o * W_O + k / taps * W_C + source[t0 + k % taps] * W_K] : 0;
        }
        for (size_t i = item / BN; i < BK; i += ITEMS / BN) {
            const size_t k = k0 + i;
            T v = 0;
            if (k < depth && mine < pixels) {
                const size_t t = t0 + k % taps;
                const int z = z0 + off_z[t], y = y0 + off_y[t], x = x0 + off_x[t];
                if (z >= 0 && z < SZ && y >= 0 && y < SY && x >= 0 && x < SX) v = data[((k / taps * SZ + z) * SY + y) * SX + x];
            }
            xs[i * BN + item % BN] = v;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (int k = 0; k < BK; k++)
            UNROLL for (int i = 0; i < TM; i++)
                UNROLL for (int j = 0; j < TN; j++) sum[i][j] = VFMA(ws[k * BM + tm + i], xs[k * BN + tn + j * (BN / TN)], sum[i][j]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int j = 0; j < TN; j++) {
        const size_t p = n0 + tn + j * (BN / TN);
        if (p >= pixels) continue;
        const size_t n = p / (jz * jy * jx), z = p / (jy * jx) % jz * OUT_Z + pz, y = p / jx % jy * OUT_Y + py, x = p % jx * OUT_X + px;
        for (int i = 0; i < TM; i++)
            if (m0 + tm + i < O) { EPILOGUE(n, (group * O + m0 + tm + i), ((z * RY + y) * RX + x), sum[i][j]); }
    }
}
