// winograd.h: what kernels of transformed 3x3 patches share, with the names of conv.cl.
//   source[9]                 where in the weight the offsets from (MIN_Y, MIN_X) on are
//   PLANE                     elements of a channel of one image
//   direct(data, weight, y, x) one result from its definition: patches carry a NaN, an infinity or an overflow to results that do not depend on it

#define PLANE ((size_t)SY * SX)

__constant uint source[] = {SOURCE};

#ifdef W_C                     // a weight gradient has no weights
INLINE T direct(__global const T* data, __global const T* weight, const uint y, const uint x) {
    T sum = 0;
    for (uint c = 0; c < C; c++)
        for (uint k = 0; k < 9; k++) {
            const uint row = y + MIN_Y + k / 3, column = x + MIN_X + k % 3;
            if (row < SY && column < SX) sum = VFMA(weight[c * W_C + source[k] * W_K], data[c * PLANE + row * SX + column], sum);
        }
    return sum;
}
#endif
