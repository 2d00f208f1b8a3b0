"""Rows by number: embeddings, scatters, messages along edges, sparse products; and the losses."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..core.tensor import Tensor, TensorLike, as_tensor
from .operation import operation

EDGES = np.array([0, 2, 1, 0, 2], np.int32)
SOURCES = np.array([1, 1, 0, 3, 2], np.int32)
LABELS = np.array([1, 0, 3], np.int32)


@operation("ScatterAdd", ([(5, 3), EDGES], dict(rows=4)), backward="ScatterAddBackward")
def scatter_add(x: TensorLike, index: TensorLike, *, rows: int) -> Tensor:
    """y[v] = Σ of x[e] over e with index[e] = v: x (E, F), index (E), y (rows, F)"""
    return F.scatter_add(x, index, rows)


@operation("ScatterMean", ([(5, 3), EDGES], dict(rows=4)), backward="ScatterMeanBackward")
def scatter_mean(x: TensorLike, index: TensorLike, *, rows: int) -> Tensor:
    """y[v] = mean of x[e] over e with index[e] = v; empty rows 0"""
    return F.scatter_mean(x, index, rows)


@operation("ScatterMax", ([(5, 3), EDGES], dict(rows=4)), backward="ScatterMaxBackward")
def scatter_max(x: TensorLike, index: TensorLike, *, rows: int) -> Tensor:
    """y[v] = max of x[e] over e with index[e] = v, backward to the first; empty rows 0"""
    return F.scatter_max(x, index, rows)


@operation("scatter_add_batched", ([(2, 5, 3), EDGES], dict(rows=4)))
def scatter_add_batched(x: TensorLike, index: TensorLike, *, rows: int) -> Tensor:
    """y[n, v] = Σ of x[n, e] over e with index[e] = v: all samples share the index"""
    return F.scatter_add(x, index, rows, 1)


@operation("embedding", ([(4, 3), EDGES], {}), backward="embedding_backward")
def embedding(table: TensorLike, index: TensorLike) -> Tensor:
    """y = W[index]; backward scatters g's rows into W's"""
    return F.gather(table, index)


@operation("message_passing", ([(4, 3), SOURCES, EDGES, (5, 1)], dict(rows=4)), backward="message_passing_backward")
def message_passing(x: TensorLike, source: TensorLike, target: TensorLike, weight: TensorLike, *, rows: int) -> Tensor:
    """y[v] = Σ over edges e with target[e] = v of weight[e] · x[source[e]]

    x (V, F), source and target (E), weight (E, 1) or (E, F), y (rows, F).
    """
    return F.scatter_add(F.gather(x, source) * as_tensor(weight), target, rows)


@operation("sparse_mm", ([(5,), EDGES, SOURCES, (4, 3)], dict(rows=3)), backward="sparse_mm_backward")
def sparse_mm(values: TensorLike, row: TensorLike, column: TensorLike, x: TensorLike, *, rows: int) -> Tensor:
    """y = S · x, S[row[k], column[k]] = values[k]; dx = Sᵀ g, dvalues[k] = Σ_c g[row[k], c] x[column[k], c]"""
    return F.sparse_matmul(values, row, column, x, rows)


# --- losses
@operation("mse", ([(3, 4), (3, 4)], {}), backward="mse_backward")
def mse(prediction: TensorLike, target: TensorLike) -> Tensor:
    """y = mean (prediction − target)²"""
    return F.mean(F.square(as_tensor(prediction) - as_tensor(target)))


@operation("cross_entropy", ([(3, 4), LABELS], {}), backward="cross_entropy_backward")
def softmax_cross_entropy(logits: TensorLike, labels: TensorLike) -> Tensor:
    """y = −mean over samples of ln softmax(z)[label]; dz = (softmax(z) − one-hot) / N"""
    return F.mean(F.cross_entropy(logits, labels))


@operation("bce", ([(3, 4), np.array([[0, 1, 1, 0]] * 3, np.float32)], {}), backward="bce_backward")
def bce_with_logits(logits: TensorLike, target: TensorLike) -> Tensor:
    """y = mean of max(z, 0) − z t + ln(1 + e^(−|z|))"""
    return F.mean(F.binary_cross_entropy_with_logits(logits, target))
