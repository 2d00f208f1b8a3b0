"""The bench's suite accuracy: errors against float64 beside PyTorch's, losses beside PyTorch's, and rows that fail
above their bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.workbench.bench import columns, peers
from clnet.workbench.bench import compare as bench_compare
from clnet.workbench.bench import networks_torch as bench_torch
from clnet.workbench.bench.suites import accuracy as bench_accuracy
from clnet.workbench.bench.suites import matmul as bench_matmul
from clnet.workbench.bench.suites import steps as bench_steps
from clnet.workbench.evidence import registry


@pytest.fixture(scope="module")
def gpt() -> bench_steps.Task:
    registry.load_all()
    return next(t for t in bench_steps.tasks() if t.name == "gpt b16 t128")


def torch_of(engine: Any) -> peers.Torch:
    found = peers.torch_for(engine.device)
    return found or pytest.skip("PyTorch is not there for this device")


@pytest.mark.parametrize("data", bench_accuracy.DATA)
def test_products_are_compared_with_float64(quick: Any, data: str) -> None:
    torch = torch_of(quick)
    size = 4096 if quick.device.kind == "gpu" else 512
    rows = bench_accuracy.Product(size, data).rows(bench_compare.Setting(quick, torch))
    assert [r.arithmetic for r in rows] == ["float32", *bench_matmul.ARITHMETIC]
    assert not any(r.failed for r in rows)
    found = {r.arithmetic: r for r in rows}
    plain, split = found["float32"], found["fp32x3"]
    assert split.peer_error == plain.peer_error < 2e-6
    assert split.bound == (None if split.error == plain.error else pytest.approx(1.2 * plain.peer_error))
    # Both operands and the result in 8 bits: an error of at most 2⁻⁹ each, in the mean far less.
    assert 5e-4 < found["bf16 tensors"].error < 4e-3 and 5e-4 < found["bf16 tensors"].peer_error < 4e-3
    shown = columns.shown(plain)
    assert float(shown["error"]) == pytest.approx(plain.error, rel=1e-2)
    assert float(shown["its error"]) == pytest.approx(plain.peer_error, rel=1e-2)


def test_an_error_above_the_bound_fails(quick: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_of(quick)
    kinds = {"fp32": np.float32, "fp32x3": np.float16}

    def ours(engine: Any, operands: Any, how: Any) -> Any:
        return lambda: _Result(operands[0] @ operands[1], kinds.get(how[0], np.float32))

    monkeypatch.setattr(bench_matmul, "ours", ours)
    rows = bench_accuracy.Product(64).rows(bench_compare.Setting(quick, torch))
    assert [r.arithmetic for r in rows if r.failed] == ["fp32x3"]
    assert next(r.note for r in rows if r.failed) == "above the bound; the peer in float32"


class _Result:
    """A product as an engine would give it, rounded to a type."""

    def __init__(self, value: np.ndarray[Any, Any], dtype: Any) -> None:
        self.value = value.astype(dtype)

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.value


def test_losses_in_another_arithmetic_are_compared(quick: Any, gpt: bench_steps.Task) -> None:
    (row,) = bench_accuracy.Curve(gpt).rows(bench_compare.Setting(quick, ""))
    assert not row.failed and row.arithmetic == "fp32x3" and row.peer == "ours in float32"
    assert row.error <= row.bound
    assert "20 losses" in row.note


def test_other_losses_fail(quick: Any, gpt: bench_steps.Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_accuracy, "losses",
                        lambda task, engine, batches, arithmetic: np.full(20, 9.0 if arithmetic == "fp32" else 9.01))
    (row,) = bench_accuracy.Curve(gpt).rows(bench_compare.Setting(quick, ""))
    assert row.failed and row.note.startswith("above the bound")


def test_pytorch_starts_from_our_weights(engine: Any, gpt: bench_steps.Task) -> None:
    torch = pytest.importorskip("torch")
    found = bench_torch.gpt_state({k: v.numpy() for k, v in bench_steps.network(gpt).variables().items()})
    wanted = gpt.torch(torch).state_dict()
    assert {k: v.shape for k, v in found.items()} == {k: tuple(v.shape) for k, v in wanted.items()}
