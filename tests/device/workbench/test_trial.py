"""One number of a kernel, changed: checked, timed in turn, kept and taken back; and the explorers over it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.core.tensor import tensor
from clnet.engine.device.devices import devices
from clnet.errors import ConfigError, NoDeviceError
from clnet.kernels import tuning
from clnet.layers import Dense
from clnet.workbench.explore import kernels, tuner
from clnet.workbench.tune import trials as module
from clnet.workbench.tune.call import Call, calls, product

SMALL = "NN 64x64x64"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """In place of the process that times: what it answers for the present numbers, and for others."""

    def use(present: dict[str, Any], changed: dict[str, Any]) -> None:
        class Fake:
            def __init__(self, *_: Any) -> None:
                pass

            def ask(self, question: dict[str, Any]) -> dict[str, Any]:
                assert Call.of_json(json.loads(json.dumps(question["call"]))) == product(SMALL)  # through a pipe
                found = {"error": 1e-7, "allowed": 1e-5, **(changed if question["values"].get("tile") else present)}
                if found["error"] > question.get("most", 1e9):
                    del found["seconds"]
                return found

            def stop(self) -> None:
                pass

        monkeypatch.setattr(module, "Child", Fake)

    return use


def test_a_trial_is_timed_kept_and_taken_back(cpu: Any) -> None:
    """In a process of its own, for real."""
    found = clnet.tune.trial(SMALL, tile=(4, 1), rounds=2, engine=cpu)
    assert {what for what, _, _ in found.changes} >= {"matmul MR", "matmul NV"}
    assert len(found.before) == len(found.after) == 2 and min(found.before + found.after) > 0
    assert found.error <= found.allowed and "in turn" in repr(found)
    found.keep()
    assert {t.name: (t.value, t.source) for t in clnet.tune.tunables(SMALL, cpu)}["tile"] == ((4, 1), "own")
    (kept,) = clnet.tune.found(cpu.device)
    assert kept.entry == found.entry and kept.gain == pytest.approx(kept.before_ms / kept.after_ms)
    found.undo()
    assert {t.name: t.source for t in clnet.tune.tunables(SMALL, cpu)}["tile"] == "rules"
    with pytest.raises(ConfigError, match="expected numbers that were kept"):
        found.undo()


def test_the_numbers_of_a_call_are_those_that_its_kernel_reads(cpu: Any) -> None:
    rows = clnet.tune.tunables(SMALL, cpu)
    assert {t.section for t in rows} == {"matmul cpu"} and {t.name for t in rows} >= {"tile", "swap", "depth"}
    tile = next(t for t in rows if t.name == "tile")
    assert tile.default == () and (4, 4) in tile.tried and "(MR, NV)" in tile.meaning
    with pytest.raises(ConfigError, match="expected a call whose kernel takes numbers; got softmax"):
        clnet.tune.tunables(Call("softmax", (("float32", (4, 8), (8, 1)),), (("axis", -1),)), cpu)


@pytest.mark.parametrize(("numbers", "message"), [
    ({"tyle": 3}, r"got 'tyle'; did you mean 'tile'\?"), ({"tile": 3}, "expected tile of matmul cpu as in"),
    ({"tile": (1, 2, 3)}, r"got \(1, 2, 3\)"), ({"depth": -5}, "of at least 0; got -5"),
    ({"depth": "x"}, "got 'x'"), ({}, "expected a number to change"), ({"tile": (0, 1)}, "can be planned")])
def test_wrong_numbers_are_named(cpu: Any, numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        clnet.tune.trial(SMALL, numbers, engine=cpu)


@pytest.mark.parametrize(("changed", "message"), [
    ({"seconds": 1.0, "source": "b", "error": 0.5}, "expected the values of the present kernel; got with tile=.* 0.5"),
    ({"failed": "its process ended (SIGSEGV)"}, "builds and runs; got tile=.*: its process ended"),
    ({"source": "b", "error": float("nan")}, "expected the values of the present kernel")])
def test_kernels_that_are_wrong_or_fail_are_refused(cpu: Any, answers: Any, changed: dict[str, Any],
                                                     message: str) -> None:
    answers({"seconds": 2.0, "source": "a"}, changed)
    with pytest.raises(ConfigError, match=message):
        clnet.tune.trial(SMALL, tile=(4, 1), engine=cpu)


def test_what_changes_nothing_is_not_timed(cpu: Any) -> None:
    """The present value again: no process is asked."""
    here = {t.name: t.value for t in clnet.tune.tunables(SMALL, cpu)}["item"]
    found = clnet.tune.trial(SMALL, item=here, engine=cpu)
    assert not found.before and "the same program" in repr(found)
    with pytest.raises(ConfigError, match="expected numbers that change the program"):
        found.keep()


def test_calls_are_made_anew_elsewhere(cpu: Any) -> None:
    """As JSON and back, with operands that lie as they did."""
    call = Call.of_json(json.loads(json.dumps(product("TN 12x20x8").as_json())))
    assert call == product("TN 12x20x8") and call.task.shapes == ((20, 12), (20, 8))
    x, w = call.task.arrays()
    np.testing.assert_allclose(call(tensor(x), tensor(w)).numpy(), x.T @ w, rtol=0, atol=1e-5)
    spread = Call("matmul", (("float32", (3, 12, 20), (0, 20, 1)), ("float32", (3, 20, 8), (160, 8, 1))))
    x, w = spread.task.arrays()
    assert x.shape == (12, 20, 1) or x.size == 240, "what is broadcast lies there once"
    got = spread(tensor(x), tensor(w)).numpy()
    np.testing.assert_allclose(got, np.matmul(x.reshape(1, 12, 20), w), rtol=0, atol=1e-5)
    with pytest.raises(ConfigError, match="expected a call, or a product as"):
        product("NX 3x4")


def test_calls_of_a_step_and_of_tensors(cpu: Any) -> None:
    model, x = Dense(6, 3), tensor(np.ones((40, 6), np.float32))
    (call,) = calls(model, x)
    assert call.op == "matmul" and call.entry(cpu.device)[0] == "matmul"
    assert [c.op for c in calls(clnet.ops.tanh(x @ x.mT))] == ["matmul"]


def test_a_kernel_is_tried_kept_and_taken_back_by_clicks(cpu: Any, answers: Any) -> None:
    answers({"seconds": 2.0, "source": "a"}, {"seconds": 1.0, "source": "b"})
    found = kernels(SMALL)
    panel = found.panel()
    panel.list.index = 0
    assert "Numbers of matmul" in panel.page.value and "__kernel" in panel.page.value
    assert "tile" in panel.number.options and panel.number.value == "scratch" and panel.value.value
    panel.number.value = "tile"
    assert "(8, 3)" in panel.value.options
    panel.value.value = "(4, 1)"
    panel.tries["time it"].click()
    assert panel.said.value == "time it: tile=(4, 1): 2.00 times as fast (2.00 to 2.00)"
    assert "As it is built with what was tried" in panel.page.value and "matmul MR" in panel.page.value
    panel.tries["keep it"].click()
    assert "kept in" in panel.said.value and tuning.own_file(cpu.device).is_file()
    assert found.rows[0].said.startswith("tile=(4, 1): 2.00 times as fast")
    view = tuner(cpu.device)
    assert [k.gain for k in view.rows] == [2.0] and "data:image/png" in view.seen()
    panel.tries["take it back"].click()
    assert "taken back" in panel.said.value and not clnet.tune.found(cpu.device)
    assert "nothing yet" in repr(tuner(cpu.device))
    panel.value.value = "eight"
    panel.tries["time it"].click()
    assert "expected a value as 4 or (8, 3); got eight" in panel.said.value


def test_all_kernels_are_listed_with_their_sources(cpu: Any) -> None:
    found = kernels()
    assert {r.variant.family for r in found.rows} >= {"matmul", "conv", "rows", "sort"}
    served = found.chosen(numbers="with numbers")
    assert {r.call.op for r in served if r.call} >= {"matmul", "conv"}
    gpu = next(r for r in found.rows if r.variant.cl == "matmul_wgmma.cl")
    assert gpu.call is None and "matmul_wgmma.cl serves" in found.page(gpu) and "get_group_id" in found.page(gpu)
    with pytest.raises(ConfigError, match="expected a kernel that serves a call"):
        found.try_(gpu, tile=(4, 1))
    with clnet.on("numpy"), pytest.raises(NoDeviceError, match="expected an OpenCL device"):
        kernels()


def test_a_gain_within_the_spread_is_called_chance() -> None:
    call = product(SMALL)
    found = module.Trial(call, devices()[0], ("matmul", ""), {"tile": (4, 1)}, {})
    found.before, found.after = [1.0] * 3, [0.9, 1.1, 0.8]
    assert found.said == "tile=(4, 1): 1.11 times as fast (0.91 to 1.25), which may be chance"


def test_a_search_of_a_call_says_what_it_found(cpu: Any, answers: Any) -> None:
    answers({"seconds": 2.0, "source": "a"}, {"seconds": 1.0, "source": "b"})
    found = clnet.tune.search(SMALL, 1.0, rounds=3, engine=cpu)
    assert found.numbers and found.gains == [2.0] * 3
    answers({"seconds": 1.0, "source": "a"}, {"seconds": 1.0, "source": "b"})
    assert "nothing that was tried is faster" in repr(clnet.tune.search(SMALL, 1.0, engine=cpu))
