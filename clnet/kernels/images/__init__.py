"""Kernels of images: pooling, resizing of an axis, reading between pixels."""

from . import bilinear, pool, pool_gpu, resample
