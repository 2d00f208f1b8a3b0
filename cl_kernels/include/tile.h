// tile.h: register-tiled products of matrices in private memory, for CPU kernels. After vector.h; needs T, VW, MR and NV.
//
//   product(vecs, fresh, depth, a, a_i, a_k, b, b_k, c, c_i)    c[MR][vecs * VW] (+)= a[MR][depth] * b[depth][vecs * VW]
//     a is broadcast element by element (any strides a_i, a_k), b is read in vectors, b_k elements a row; vecs <= NV and fresh
//     (whether c starts at 0) are constants at every call: MR * vecs sums stay in registers over the whole depth
//   product_of_rows(width, ...)        the same for b with rows of `width` elements, a multiple of VW
//   product_of_panels(width, ...)      c = a * b for b in panels as pack_columns makes them
//   pack_rows(to, width, rows, from, valid, n, stride, step, factor)
//     to[rows][width] = from[i * stride + j * step] * factor, 0 beyond the `valid` rows and n columns
//   pack_columns(to, width, from, valid, depth, stride, step)
//     to[width / NR][depth][NR], NR = NV * VW: `width` rows of `from`, transposed, 0 beyond `valid`

#define NR (NV * VW)

INLINE void product(const int vecs, const bool fresh, const size_t depth, const T* restrict a, const size_t a_i, const size_t a_k,
                    const T* restrict b, const size_t b_k, T* restrict c, const size_t c_i) {
    VT sum[MR][NV];
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++)
            if (v < vecs) sum[r][v] = fresh ? VSPLAT(0) : VLOAD_P(c + r * c_i + v * VW);
    for (size_t k = 0; k < depth; k++, a += a_k, b += b_k) {
        VT column[NV];
        UNROLL for (int v = 0; v < NV; v++)
            if (v < vecs) column[v] = VLOAD_P(b + v * VW);
        UNROLL for (int r = 0; r < MR; r++) {
            const VT row = VSPLAT(a[r * a_i]);
            UNROLL for (int v = 0; v < NV; v++)
                if (v < vecs) sum[r][v] = VFMA(row, column[v], sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < MR; r++)
        UNROLL for (int v = 0; v < NV; v++)
            if (v < vecs) VSTORE_P(sum[r][v], c + r * c_i + v * VW);
}

INLINE void product_of_rows(const size_t width, const size_t depth, const T* restrict a, const size_t a_i, const size_t a_k,
                            const T* restrict b, const size_t b_k, T* restrict c, const size_t c_i) {
    size_t j = 0;
    for (; j + NR <= width; j += NR) product(NV, false, depth, a, a_i, a_k, b + j, b_k, c + j, c_i);
    for (; j < width; j += VW) product(1, false, depth, a, a_i, a_k, b + j, b_k, c + j, c_i);
}

INLINE void product_of_panels(const size_t width, const size_t depth, const T* restrict a, const size_t a_i, const size_t a_k,
                              const T* restrict b, T* restrict c, const size_t c_i) {
    size_t j = 0;
    for (; j + NR <= width; j += NR) product(NV, true, depth, a, a_i, a_k, b + j * depth, NR, c + j, c_i);
    for (size_t l = j; l < width; l += VW) product(1, true, depth, a, a_i, a_k, b + j * depth + l - j, NR, c + l, c_i);
}

INLINE void pack_rows(T* restrict to, const size_t width, const size_t rows, __global const T* restrict from, const size_t valid,
                      const size_t n, const size_t stride, const size_t step, const T factor) {
    for (size_t i = 0; i < rows; i++) {
        size_t j = 0;
        if (i < valid) {
            if (step == 1)
                for (; j + VW <= n; j += VW) VSTORE_P(VLOAD(from + i * stride + j) * factor, to + i * width + j);
            for (; j < n; j++) to[i * width + j] = from[i * stride + j * step] * factor;
        }
        for (; j < width; j++) to[i * width + j] = 0;
    }
}

INLINE void pack_columns(T* restrict to, const size_t width, __global const T* restrict from, const size_t valid,
                         const size_t depth, const size_t stride, const size_t step) {
    for (size_t i = 0; i < width; i += VW) {
        T* restrict panel = to + i / NR * NR * depth + i % NR;
        size_t k = 0;
        if (step == 1)
            for (; k + VW <= depth; k += VW) {
                VT t[VW];
                UNROLL for (size_t l = 0; l < VW; l++) t[l] = i + l < valid ? VLOAD(from + (i + l) * stride + k) : VSPLAT(0);
                transpose(t);
                UNROLL for (size_t l = 0; l < VW; l++) VSTORE_P(t[l], panel + (k + l) * NR);
            }
        for (; k < depth; k++)
            for (size_t l = 0; l < VW; l++) panel[k * NR + l] = i + l < valid ? from[(i + l) * stride + k * step] : 0;
    }
}
