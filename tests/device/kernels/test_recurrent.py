"""The loop over time as one op: one launch where the weights fit, the formula elsewhere, equal numbers either way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS
from clnet.core.tensor import tensor
from clnet.engine.device.device import Device
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine
from clnet.kernels.sequence import problem
from clnet.ops.recurrent import CELLS, recurrence
from clnet.ops.scan import zero_state

T, B, H = 4, 5, 20


def draws(cell: str, t: int = T, b: int = B, h: int = H) -> list[np.ndarray[Any, Any]]:
    rng, kind = np.random.default_rng(0), CELLS[cell]
    shapes = [(t, b, kind.gates * h), *[(b, h)] * kind.states, (kind.gates * h, h), (kind.gates * h,)]
    return [rng.uniform(-0.5, 0.5, s).astype(np.float32) for s in shapes]


def loop(cell: str, arrays: list[Any], reverse: bool = False) -> tuple[list[Any], list[Any]]:
    """(h of every step and the last state, gradients to every input of their sum weighted by position)."""
    xs = [tensor(a) for a in arrays]
    ys, last = recurrence(cell, xs[0], xs[1:-2], xs[-2], xs[-1], reverse)
    outputs = [ys, *last]
    total = sum((F.sum(y * tensor(np.arange(y.size, dtype=np.float32).reshape(y.shape) / y.size)) for y in outputs[1:]),
                F.sum(ys * ys))
    return outputs, gradients(total, xs)


@pytest.mark.parametrize(("cell", "reverse"), [("tanh", False), ("lstm", True), ("gru", False)])
def test_the_kernel_is_the_formula(engine: Any, cell: str, reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Last states take part, so every slot's cotangent reaches the gradient kernel."""
    outputs, slopes = loop(cell, draws(cell), reverse)
    got = engine.values([*outputs, *slopes])
    monkeypatch.setattr(problem, "WEIGHTS", 0)
    if engine.compiles:
        engine.plans.clear()
    outputs, slopes = loop(cell, draws(cell), reverse)
    for a, b in zip(got, engine.values([*outputs, *slopes]), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max())
    if engine.compiles:
        engine.plans.clear()


@pytest.fixture
def gpu(engine: Any, as_gpu: Any) -> Any:
    if not engine.compiles:
        pytest.skip("the host engine has no kernels")
    profile = engine.device
    return engine if profile.kind == "gpu" else as_gpu(engine)


@pytest.mark.parametrize(("cell", "shape", "reverse", "registers", "local"), [
    ("lstm", (4, 5, 20), False, 1 << 14, 2048), ("lstm", (3, 2, 17), True, 0, 0),
    ("gru", (4, 3, 20), False, 1 << 14, 1500), ("gru", (3, 9, 33), True, 0, 1 << 14),
    ("tanh", (5, 3, 21), True, 1 << 15, 0), ("relu", (3, 2, 8), False, 0, 0),
    ("lstm", (2, 3, 300), False, 0, 1 << 14),
])
def test_the_kernel_of_gpus_is_the_formula(gpu: Any, as_gpu: Any, cell: str, shape: Any, reverse: bool, registers: int,
                                           local: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights in registers, in local memory, out of the cache; more sums than work-items; several sequences a group."""
    monkeypatch.setattr(Device, "registers", registers)
    monkeypatch.setattr(problem, "WEIGHTS", 1 << 21)
    engine = as_gpu(gpu, local_memory=local, compute_units=2, compute_capability=0,
                    max_work_group=min(256, gpu.device.max_work_group))
    with clnet.on(engine):
        outputs, slopes = loop(cell, draws(cell, *shape), reverse)
        launches = [ops for _, ops in explain(*outputs, *slopes).launches]
        assert sum("recurrence_gradient" in ops for ops in launches) == 1
        for mine, oracle in zip(engine.values([*outputs, *slopes]), NumpyEngine().values([*outputs, *slopes]),
                                strict=True):
            np.testing.assert_allclose(mine, oracle, rtol=0, atol=4e-6 * np.abs(oracle).max())


@pytest.mark.parametrize("cell", ["tanh", "lstm", "gru"])
def test_launches_do_not_grow_with_time(engine: Any, cell: str) -> None:
    if not engine.compiles:
        pytest.skip("the host engine has no kernels")
    counts = []
    for t in (3, 30):
        outputs, slopes = loop(cell, draws(cell, t=t))
        launches = [ops for _, ops in explain(outputs[0], *slopes).launches]
        assert sum("recurrence" in ops for ops in launches) <= 2  # packed weights are a launch
        assert sum("recurrence_gradient" in ops for ops in launches) == 1
        counts.append(len(launches))
    assert counts[1] <= counts[0] + 2  # a long sum has two stages


@pytest.mark.parametrize("cell", [F.rnn_cell, F.lstm_cell, F.gru_cell])
def test_a_public_cell_is_known_to_the_op(engine: Any, cell: Any) -> None:
    h = zero_state(cell, B, H)
    assert isinstance(h, tuple) == (cell is F.lstm_cell)
    gates = CELLS[{F.rnn_cell: "tanh", F.lstm_cell: "lstm", F.gru_cell: "gru"}[cell]].gates
    ys, _ = F.recur(cell, np.zeros((T, B, 3), np.float32), h, np.zeros((gates * H, 3), np.float32),
                    np.zeros((gates * H, H), np.float32))
    if not engine.compiles:
        pytest.skip("the NumPy engine has no launches")
    assert any("recurrence" in ops for _, ops in explain(ys).launches)


def test_weights_beyond_the_cache_take_the_formula(engine: Any) -> None:
    """The geometry's choice, for every profile: small weights only."""
    if not engine.compiles:
        pytest.skip("the NumPy engine has no launches")
    from clnet.core.spec import Spec
    from clnet.kernels.operand import Operand

    def stages(profile: Any, h: int) -> Any:
        shapes = ((T, B, 4 * h), (2, B, h), (4 * h, h), (4 * h,))
        return OPS["recurrence"].launch(profile, [Operand(Spec(s, "float32"), ()) for s in shapes], cell="lstm",
                                        reverse=False)

    cpu = replace(engine.device, kind="cpu")
    assert len(stages(cpu, 64)) == 1
    assert stages(cpu, 512) is None
    gpu = replace(engine.device, kind="gpu", local_memory=1 << 15, compute_capability=0)
    assert [s.kernel for s in stages(gpu, 32)] == ["recurrence"]
    assert [s.kernel for s in stages(gpu, 128)] == ["pack_recurrent", "recurrence"]
    assert stages(gpu, 512) is None


def test_sequences_do_not_meet(engine: Any) -> None:
    """A NaN in one sequence stays there."""
    arrays = draws("lstm")
    arrays[0][2, 1, 3] = np.nan
    ys = loop("lstm", arrays)[0][0].numpy()
    assert np.isnan(ys[2:, 1]).any(axis=-1).all()
    assert np.isfinite(np.delete(ys, 1, 1)).all() and np.isfinite(ys[:2]).all()


def test_weights_of_another_size_are_refused(engine: Any) -> None:
    x = tensor(np.zeros((T, B, 3), np.float32))
    with pytest.raises(clnet.ShapeError, match=r"lstm|recur"):
        F.recur(F.lstm_cell, x, (tensor(np.zeros((B, H), np.float32)),) * 2, np.zeros((3 * H, 3), np.float32),
                np.zeros((3 * H, H), np.float32))
