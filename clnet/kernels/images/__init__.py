"""Kernels of images: pooling, and resizing of an axis."""

from . import pool, pool_gpu, resample
