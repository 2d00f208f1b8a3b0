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


def test_losses_are_compared(quick: Any, gpt: bench_steps.Task) -> None:
    """On GPUs those of fp32x3 with float32's, elsewhere those of float32 with PyTorch's in float64."""
    gpu = quick.device.is_gpu
    (row,) = bench_accuracy.Curve(gpt).rows(bench_compare.Setting(quick, "" if gpu else torch_of(quick)))
    assert not row.failed and row.arithmetic == ("fp32x3" if gpu else "float32")
    assert row.error <= row.bound and "20 losses" in row.note
    if not gpu:
        assert 0 < row.peer_error < 1e-5 > row.error > 0
        assert not bench_accuracy.Curve(gpt).rows(bench_compare.Setting(quick, "not installed"))


def test_other_losses_fail(quick: Any, gpt: bench_steps.Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_accuracy, "losses",
                        lambda task, engine, arithmetic: np.full(20, 9.0 if arithmetic == "fp32" else 9.01))
    monkeypatch.setattr(bench_accuracy, "their_losses", lambda *args: np.full(20, 9.01))
    torch = "" if quick.device.is_gpu else torch_of(quick)
    (row,) = bench_accuracy.Curve(gpt).rows(bench_compare.Setting(quick, torch))
    assert row.failed and row.note.startswith("above the bound")


def test_pytorch_trains_in_float64(quick: Any) -> None:
    mlp = bench_steps.tasks()[0]
    single, double = (bench_accuracy.their_losses(mlp, torch_of(quick), quick, a) for a in ("fp32", "fp64"))
    assert (single == single.astype(np.float32)).all() and not (double == double.astype(np.float32)).any()
    assert np.abs(single - double).max() < 1e-4


def test_a_product_in_float32_may_lose_what_a_chain_of_sums_does(quick: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_matmul, "ours", lambda engine, operands, how: lambda: _Result(
        (operands[0] @ operands[1]) * np.float32(1 + 2e-6), np.float32))
    rows = bench_accuracy.Product(64).rows(bench_compare.Setting(quick, "not installed"))
    assert [r.arithmetic for r in rows if r.failed] == ["float32"]


def test_pytorch_starts_from_our_weights(engine: Any, gpt: bench_steps.Task) -> None:
    torch = pytest.importorskip("torch")
    found = bench_torch.gpt_state({k: v.numpy() for k, v in bench_steps.network(gpt).variables().items()})
    wanted = gpt.torch(torch).state_dict()
    assert {k: v.shape for k, v in found.items()} == {k: tuple(v.shape) for k, v in wanted.items()}
