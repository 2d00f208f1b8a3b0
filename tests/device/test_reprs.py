"""What values show of themselves: never more than is read, never a launch, never an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.errors import DeviceLost
from clnet.layers import Dense
from clnet.tensor import tensor


def moved(engine: Any) -> Any:
    return engine.transfers.snapshot() if hasattr(engine, "transfers") else None


# --- tensors
def test_a_tensor_that_was_computed_shows_what_numpy_shows(device):
    y = (tensor([[1.0, 2.0], [3.0, 4.0]]) * 2).realize()
    assert repr(y) == f"tensor([[2., 4.],\n        [6., 8.]], shape=(2, 2), dtype=float32, device={device.device.key})"
    assert str(tensor([1, 2], name="x")) == "tensor([1, 2], shape=(2,), dtype=int64, name='x')"
    assert repr(tensor(np.zeros((0, 3), np.float32))) == "tensor([], shape=(0, 3), dtype=float32)"
    assert repr(tensor(2.5)) == "tensor(2.5, shape=(), dtype=float32)"
    assert "bfloat16" in repr(tensor([1.0, 2.0]).astype("bfloat16").realize())


def test_a_tensor_that_was_not_computed_says_from_what_and_runs_nothing(device):
    before = getattr(device, "launches", 0)
    y = tensor([[1.0, 2.0]], name="x") + 1
    assert repr(y) == "<Tensor float32[1, 2]: recorded as add(x, 1), not computed yet; .numpy() computes it>"
    assert "mul(add float32[1, 2], 2)" in repr(y * 2)
    assert y.storage is None
    assert getattr(device, "launches", 0) == before
    y.numpy()
    assert repr(y).startswith("tensor([[2., 3.]]")


def test_of_a_large_tensor_only_the_edges_are_read(device):
    if not hasattr(device, "transfers"):
        pytest.skip("nothing is transferred")
    x = np.arange(3 * 500 * 700, dtype=np.float32).reshape(3, 500, 700)
    y = (tensor(x) * 2).realize()
    before = moved(device)
    text = repr(y)
    went = moved(device) - before
    assert went.bytes_to_host < 64 << 10 < y.size * 4
    assert text.startswith("tensor(" + np.array2string(x * 2, separator=", ", prefix="tensor("))
    assert (moved(device) - before).bytes_to_device == 0


@pytest.mark.parametrize("shape", [(1001,), (2000, 1), (1, 2000), (7, 200), (40, 30, 7, 6), (2, 100_000), (8, 8, 8, 8)])
def test_the_edges_are_those_that_numpy_prints(device, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    text = repr((tensor(x) * 1.5).realize())
    assert text.startswith("tensor(" + np.array2string(x * np.float32(1.5), separator=", ", prefix="tensor(") + ", shape")


def test_a_value_that_cannot_be_read_is_said_and_raised_nowhere(device, monkeypatch):
    y = (tensor([1.0, 2.0]) * 2).realize()

    def lost(*_: Any) -> Any:
        raise DeviceLost("the device is gone")

    monkeypatch.setattr(type(y.storage), "read", lost)
    assert repr(y) == "<tensor float32[2]: its values cannot be read: the device is gone>"


def test_nothing_is_read_while_a_step_is_recorded(device):
    held, seen = (tensor([1.0, 2.0]) * 2).realize(), []

    def step(x: Any) -> Any:
        seen.extend([repr(held), repr(x), repr(x + held)])
        return x + held

    recorded = clnet.Recorded(step)
    first = recorded(np.ones(2, np.float32)).numpy()
    assert "not read while a step is recorded" in seen[0]
    assert "name='input 0': a placeholder" in seen[1] or not hasattr(device, "launches")
    assert "recorded as add" in seen[2]
    assert np.array_equal(first, [3.0, 5.0])


def test_looking_changes_no_launches_of_a_recorded_step(device):
    w = clnet.Variable(np.ones(3, np.float32), "w")
    step = clnet.Recorded(lambda x: w.assign(w + x) or F.sum(w * x))
    x = np.ones(3, np.float32)
    step(x)
    before = getattr(device, "launches", 0)
    step(x)
    each = getattr(device, "launches", 0) - before
    y = step(x)
    assert "3." in repr(y) or "12" in repr(y)
    assert repr(w).startswith("Variable('w', [4., 4., 4.], shape=(3,), dtype=float32, role=state")
    before = getattr(device, "launches", 0)
    step(x)
    assert getattr(device, "launches", 0) - before == each


def test_parameters_show_their_part_of_the_arena(quick):
    model = clnet.Sequential(Dense(3, 2)).build((3,))
    first = repr(model.parameters()[0])
    assert first.startswith("Parameter(") and "role=weight" in first and "?" not in first
    trainer = clnet.Trainer(model, clnet.losses.MSELoss(), clnet.optimizers.SGD(lr=0.1), metrics=())
    trainer.fit((np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)), verbose=False)
    for p in model.parameters():
        launched = quick.launches
        text = repr(p)
        assert quick.launches == launched
        assert np.array2string(p.numpy(), separator=", ", prefix=text[: text.index("[")]) in text


def test_a_pending_update_of_a_variable_is_not_run_by_looking(device):
    w = clnet.Variable(np.ones(2, np.float32), "w")
    w.assign(w + 1)
    assert "not computed yet" in repr(w)
    w.numpy()
    assert "[2., 2.]" in repr(w)
