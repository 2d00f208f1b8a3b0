"""Kernels over rows: normalisation and losses of them, rows by number, pieces of vectors, sparse matrices, graphs."""

from . import cumulative, edges, index, mesh, normalize, normalize_gpu, segment, sort, sparse
