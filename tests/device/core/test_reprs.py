"""What values show of themselves: never more than is read, never a launch, never an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.errors import DeviceLost
from clnet.layers import Dense


def moved(engine: Any) -> Any:
    return engine.transfers.snapshot()


# --- tensors
def test_a_tensor_that_was_computed_shows_what_numpy_shows(engine):
    y = (tensor([[1.0, 2.0], [3.0, 4.0]]) * 2).realize()
    assert repr(y) == f"tensor([[2., 4.],\n        [6., 8.]], shape=(2, 2), dtype=float32, device={engine.device.key})"
    assert str(tensor([1, 2], name="x")) == "tensor([1, 2], shape=(2,), dtype=int64, name='x')"
    assert repr(tensor(np.zeros((0, 3), np.float32))) == "tensor([], shape=(0, 3), dtype=float32)"
    assert repr(tensor(2.5)) == "tensor(2.5, shape=(), dtype=float32)"
    assert "bfloat16" in repr(tensor([1.0, 2.0]).astype("bfloat16").realize())


def test_a_tensor_that_was_not_computed_says_from_what_and_runs_nothing(engine):
    before = getattr(engine, "launches", 0)
    y = tensor([[1.0, 2.0]], name="x") + 1
    assert repr(y) == "<Tensor float32[1, 2]: recorded as add(x, 1), not computed yet; .numpy() computes it>"
    assert "mul(add float32[1, 2], 2)" in repr(y * 2)
    assert y.storage is None
    assert getattr(engine, "launches", 0) == before
    y.numpy()
    assert repr(y).startswith("tensor([[2., 3.]]")


def test_of_a_large_tensor_only_the_edges_are_read(engine):
    if not engine.compiles:
        pytest.skip("nothing is transferred")
    x = np.arange(3 * 500 * 700, dtype=np.float32).reshape(3, 500, 700)
    y = (tensor(x) * 2).realize()
    before = moved(engine)
    text = repr(y)
    went = moved(engine) - before
    assert went.bytes_to_host < 64 << 10 < y.size * 4
    assert text.startswith("tensor(" + np.array2string(x * 2, separator=", ", prefix="tensor("))
    assert (moved(engine) - before).bytes_to_device == 0


@pytest.mark.parametrize("shape", [(1001,), (2000, 1), (1, 2000), (7, 200), (40, 30, 7, 6), (2, 100_000), (8, 8, 8, 8)])
def test_the_edges_are_those_that_numpy_prints(engine, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    text = repr((tensor(x) * 1.5).realize())
    assert text.startswith("tensor(" + np.array2string(x * np.float32(1.5), separator=", ", prefix="tensor(")
                           + ", shape")


def test_a_value_that_cannot_be_read_is_said_and_raised_nowhere(engine, monkeypatch):
    y = (tensor([1.0, 2.0]) * 2).realize()

    def lost(*_: Any) -> Any:
        raise DeviceLost("the device is gone")

    monkeypatch.setattr(type(y.storage), "read", lost)
    assert repr(y) == "<tensor float32[2]: its values cannot be read: the device is gone>"


def test_nothing_is_read_while_a_step_is_recorded(engine):
    held, seen = (tensor([1.0, 2.0]) * 2).realize(), []

    def step(x: Any) -> Any:
        seen.extend([repr(held), repr(x), repr(x + held)])
        return x + held

    recorded = clnet.Recorded(step)
    first = recorded(np.ones(2, np.float32)).numpy()
    assert "not read while a step is recorded" in seen[0]
    assert "name='input 0': a placeholder" in seen[1] or not engine.compiles
    assert "recorded as add" in seen[2]
    assert np.array_equal(first, [3.0, 5.0])


def test_looking_changes_no_launches_of_a_recorded_step(engine):
    w = clnet.Variable(np.ones(3, np.float32), "w")
    step = clnet.Recorded(lambda x: w.assign(w + x) or F.sum(w * x))
    x = np.ones(3, np.float32)
    step(x)
    before = getattr(engine, "launches", 0)
    step(x)
    each = getattr(engine, "launches", 0) - before
    y = step(x)
    assert "3." in repr(y) or "12" in repr(y)
    assert repr(w).startswith("Variable('w', [4., 4., 4.], shape=(3,), dtype=float32, role=state")
    before = getattr(engine, "launches", 0)
    step(x)
    assert getattr(engine, "launches", 0) - before == each


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


def test_a_pending_update_of_a_variable_is_not_run_by_looking(engine):
    w = clnet.Variable(np.ones(2, np.float32), "w")
    w.assign(w + 1)
    assert "not computed yet" in repr(w)
    w.numpy()
    assert "[2., 2.]" in repr(w)


# --- devices
def test_a_device_is_a_name_first(engine):
    d = engine.device
    assert repr(d) == str(d) == f"{d.key} ({d.name}, {d.platform})"
    page = d._repr_html_()
    assert d.name in page and "driver" in page and "GiB" in page
    whole = str(d.profile())
    assert "compute units" in whole and "max alloc" in whole and "handle" not in whole


def test_the_list_of_devices_marks_the_one_in_use_and_says_why(engine):
    found = clnet.devices()
    text = repr(found)
    assert [line for line in text.splitlines() if line.startswith(f"* {engine.device.key} ")]
    assert text.splitlines()[-1] == f"* {engine.device}: in use within this `with clnet.on(...)`."
    assert len([line for line in text.splitlines() if line.startswith("* ")]) == 2
    assert isinstance(found, list) and found[-1].key == "numpy"
    assert "font-weight:600" in found._repr_html_()


# --- memory, programs, profiles, explanations
def test_memory_is_a_dict_that_shows_units_and_words(engine):
    kept = (tensor(np.ones(1000, np.float32)) * 2).realize()
    found = clnet.memory()
    assert {"active", "cached", "peak", "limit", "to_device", "to_host", "allocations"} == set(found)
    assert dict(found)["active"] == found["active"] >= 0
    text = repr(found)
    assert "active" in text and str(engine.device) in text
    assert "<table" in found._repr_html_()
    if engine.compiles:
        assert "KiB" in text and "most of it: " in text and "clnet.empty_cache()" in text
    assert kept.shape == (1000,)


def test_the_cache_is_emptied_when_asked(engine):
    (tensor(np.ones(1 << 20, np.float32)) * 2).realize()
    after = clnet.empty_cache()
    assert after["cached"] == 0
    assert after == clnet.memory()


def test_a_profile_is_a_list_that_shows_kernels_and_totals(engine):
    x = tensor(np.ones((8, 8), np.float32))
    with clnet.profile() as found:
        (x + 1).realize()
        (x * 2).realize()
    if not engine.compiles:
        assert "No kernel was launched" in repr(found)
        return
    assert isinstance(found, list) and len(found) == 2
    name, ops, ms, nbytes = found[0]
    assert (ops, nbytes) == (("add",), 512) and ms >= 0
    text = repr(found)
    assert text.startswith("2 launches on ") and name in text and "share" in text
    assert text.splitlines()[-1].startswith("total") and "100.0%" in text
    assert getattr(engine, "profile", None) is None
    with clnet.profile() as one:
        (x - 1).realize()
    assert repr(one).startswith("1 launch on ")


def test_the_program_cache_counts_in_words_and_claims_only_what_holds(engine):
    (tensor(np.ones(3, np.float32)) * 17).realize()
    text = repr(clnet.cache)
    assert "Counters(" not in text
    if engine.compiles:
        assert "compiled" in text and "from disk" in text
        keeps = engine.programs.keeps()
        assert ("the next start compiles none" in keeps) <= (not engine.programs.store.problem)
        assert keeps in text


def test_programs_that_cannot_be_kept_are_not_promised(quick, tmp_path):
    from clnet.engine.device.programs import ProgramCache

    source = "__kernel void f(__global float* x) { x[0] = %d; }"
    programs = ProgramCache(quick.device, tmp_path / "programs")
    programs.get(source % 1, name="f")
    assert f"All of them are kept in {tmp_path / 'programs'}" in programs.keeps()
    programs.clear()
    assert "1 program could not be kept" in programs.keeps()
    programs.store.problem = "no room"
    assert programs.keeps() == "Nothing is kept on disk, so every process compiles again: no room."


def test_an_explanation_names_inputs_and_counts_right(quick):
    y = F.relu(tensor([[1.0, 2.0]], name="alpha") @ tensor([[1.0], [2.0]], name="beta") - 6)
    found = clnet.explain(y)
    text = repr(found)
    assert "input 'alpha'" in text and "input 'beta'" in text
    assert "Plan: 1 launch, 0 B for values between, 1 result of " in text
    assert "Graph: 6 nodes" in text
    assert found._repr_html_().count("<table") == 2
    assert "2 launches" in repr(clnet.explain(y, F.sum(tensor(np.ones((3, 3), np.float32)))))


def test_a_kernel_is_shown_without_what_it_does_not_use(quick):
    y = F.relu(tensor(np.ones((2, 2), np.float32)) @ np.ones((2, 2), np.float32) - 6) * 2
    found = clnet.explain(y)
    whole, short = found.sources[0], found.kernel(0)
    assert len(whole.splitlines()) > 2 * len(short.splitlines())
    assert str(whole) == found.plan.launches[0].text
    assert repr(short) == str(short) == repr(whole)
    assert "__kernel" in short and "6.0f" in short and "#if" not in short
    assert short.count("{") == short.count("}")
    x = tensor(np.ones(4, np.float32))
    assert clnet.explain(x + 1).kernel() == clnet.explain(x + 1).sources[0]


def test_too_much_memory_is_said_in_units(engine):
    if not engine.compiles:
        pytest.skip("no pool")
    largest = engine.device.max_alloc
    with pytest.raises(clnet.OutOfDeviceMemory,
                       match=r"x: expected at most [\d.,]+ GiB \(.*'s largest buffer\); got [\d.,]+ GiB; split it\."):
        engine.pool.alloc(2 * largest + (1 << 30), "x")
