"""Kernels over rows: normalisation and losses of them, rows by number, pieces of vectors, sparse matrices, graphs."""

from . import (
    cumulative,
    cumulative_gpu,
    edges,
    elements,
    index,
    mesh,
    normalize,
    normalize_gpu,
    segment,
    sort,
    sort_gpu,
    sparse,
    top_gpu,
)
