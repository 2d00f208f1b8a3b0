// copy_block.h: the part of the data that a block of results reads, with its border, in private memory; for conv.cl and conv_plane.cl.

#ifndef ZP
#define ZP 1                    // planes that the taps span; ROWS, PITCH: rows and columns of the private copy
#endif
#define PLANE (ZP * ROWS * PITCH)

// What is left of a row behind its whole vectors, n elements of it.
#define PIECE(n) if (VW > n && (width & n)) { CAT(vstore, n)(CAT(vload, n)(0, row + i), 0, to + left + i); i += n; }

#if ZP == 1 && PITCH == 1 && SX == 1 && SZ == 1 && MIN_X == 0

// A column: to[c][row] = from[c][y0 + row], zero outside the data.
INLINE void copy_block(T* restrict to, __global const T* restrict from, const size_t channels, const int z0, const int y0) {
    const int first = clamp(-y0, 0, ROWS), last = clamp((int)SY - y0, first, ROWS);
    for (size_t c = 0; c < channels; c++, from += SY, to += ROWS) {
        int y = 0;
        for (; y < first; y++) to[y] = 0;
        for (; y + VW <= last; y += VW) VSTORE_P(VLOAD(from + y0 + y), to + y);
        for (; y < last; y++) to[y] = from[y0 + y];
        for (; y < ROWS; y++) to[y] = 0;
    }
}

#else

// to[c][z][row][column] = from[c][z0 + z][y0 + row][MIN_X + column], zero outside the data; columns past it are zero too.
INLINE void copy_block(T* restrict to, __global const T* restrict from, const size_t channels, const int z0, const int y0) {
    const int left = MIN_X < 0 ? -(MIN_X) : 0, skip = MIN_X > 0 ? MIN_X : 0;
    const int width = max(0, min(SX - skip, PITCH - left));
    for (size_t c = 0; c < channels; c++, from += (size_t)SZ * SY * SX)
        for (int z = 0; z < ZP; z++)
            for (int y = 0; y < ROWS; y++, to += PITCH) {
                const bool inside = z0 + z >= 0 && z0 + z < SZ && y0 + y >= 0 && y0 + y < SY && width > 0;
                int x = 0;
                if (inside) {
                    __global const T* row = from + ((size_t)(z0 + z) * SY + (y0 + y)) * SX + skip;
                    for (; x < left; x++) to[x] = 0;
                    int i = 0;
                    for (; i + VW <= width; i += VW) VSTORE_P(VLOAD(row + i), to + left + i);
                    PIECE(8) PIECE(4) PIECE(2)
                    if (width % 2 && VW > 1) to[left + i] = row[i];
                    x = left + width;
                }
                for (; x < PITCH; x++) to[x] = 0;
            }
}

#endif
