"""Sums over edges: the kernels of GPUs, and several kinds of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.core.op import OPS
from clnet.core.tensor import tensor
from clnet.ops.graphs import Edges, neighbour_sum
from clnet.workbench.evidence import checks
from clnet.workbench.evidence.cases import cases

NAMES = ("edge_sum", "edge_dot", "edge_total", "edge_argmax", "edge_order", "edge_offsets", "mesh_collapse",
         "mesh_merge")


@pytest.mark.parametrize("name", NAMES)
def test_gpu_kernels_run_anywhere(name: str, engine: Any, as_gpu: Any) -> None:
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    engine = as_gpu(engine)
    for case in cases(OPS[name])[:3]:
        result = checks.parity(OPS[name], case, engine)
        assert result, f"{case}: {result}"


def test_vectors_on_gpus(engine: Any, as_gpu: Any) -> None:
    """Rows of whole vectors of four, in both directions; at the beginning of memory and one element after it."""
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    engine, rng = as_gpu(engine, vector_width=engine.device.vector_width), np.random.default_rng(0)
    ends, flat = rng.integers(0, 30, (2, 100)).astype(np.int32), rng.normal(size=241).astype(np.float32)
    edges = Edges.of("test", tensor(ends), 30)
    for reverse, begin in ((False, 0), (True, 0), (False, 1)):
        x = flat[begin : begin + 240].reshape(30, 8)
        given = tensor(flat)[begin : begin + 240].reshape(30, 8)
        (y,) = engine.values([neighbour_sum(given, edges, reverse=reverse)])
        want = np.zeros((30, 8))
        source, target = ends[::-1] if reverse else ends
        np.add.at(want, target, x[source].astype(np.float64))
        assert np.abs(y - want).max() <= 1e-5


def test_edges_by_kind(engine: Any) -> None:
    """From a node of a kind, which is another row for each: those of a kind that is none are left out."""
    rng = np.random.default_rng(0)
    ends, kind = rng.integers(0, 7, (2, 40)).astype(np.int32), rng.integers(0, 4, 40).astype(np.int32)
    z = rng.normal(size=(7 * 3, 5)).astype(np.float32)
    edges = Edges.of("test", tensor(ends), 7)
    y = neighbour_sum(tensor(z), edges.of_kinds(edges.own(tensor(kind)), 3)).numpy()
    want = np.zeros((7, 5))
    for (s, t), k in zip(ends.T, kind, strict=True):
        want[t] += z[s * 3 + k] if k < 3 else 0
    assert np.abs(y - want).max() <= 1e-5
