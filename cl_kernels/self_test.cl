// self_test: what a device must get right before its results are worth reading.
//
//   functions    y[r * count + i] = exp, tanh, erf, rsqrt, fma (r = 0 .. 4) of a[r * count + i]; fma also takes b, c
//   reverse      y[i] = x[mirror of i in its work-group], through local memory and a barrier
//   count_bins   bins[i % BINS] += 1, by atomics from every work-item
//
// Layout: float and int vectors, contiguous. Grid: one work-item an element; `reverse` needs local size GROUP.
// Local memory: GROUP ints. Tunables: none; GROUP and BINS are given by the caller.

#ifndef GROUP
#define GROUP 16
#endif
#ifndef BINS
#define BINS 8
#endif

__kernel void functions(__global const float *a, __global const float *b, __global const float *c, __global float *y)
{
    size_t i = get_global_id(0), count = get_global_size(0);
    y[i] = exp(a[i]);
    y[count + i] = tanh(a[count + i]);
    y[2 * count + i] = erf(a[2 * count + i]);
    y[3 * count + i] = rsqrt(a[3 * count + i]);
    y[4 * count + i] = fma(a[4 * count + i], b[i], c[i]);
}

__kernel void reverse(__global const int *x, __global int *y)
{
    __local int tile[GROUP];
    size_t i = get_global_id(0), l = get_local_id(0);
    tile[l] = x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = tile[GROUP - 1 - l];
}

__kernel void count_bins(volatile __global int *bins)
{
    atomic_inc(&bins[get_global_id(0) % BINS]);
}
