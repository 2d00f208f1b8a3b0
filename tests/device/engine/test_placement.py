"""Adaptive placement: measured, asked for, and never behind the user's back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.tensor import tensor
from clnet.engine import host_or_device as place

X = np.linspace(0.1, 2, 100, dtype=np.float32)


@pytest.fixture
def limits(engine: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if not engine.compiles:
        pytest.skip("the NumPy engine has nothing to place")
    monkeypatch.setattr(place, "_file", lambda d: tmp_path / "placement.json")
    place._tables.clear()
    yield engine
    place._tables.clear()


def launches(engine: Any, call: Any) -> tuple[int, np.ndarray[Any, Any]]:
    before = engine.launches
    value = call()
    return engine.launches - before, value


def test_without_a_table_everything_is_on_the_device(limits: Any) -> None:
    assert launches(limits, lambda: F.exp(X).numpy())[0] == 1


def test_small_arrays_stay_on_the_host(limits: Any) -> None:
    place.save(limits.device, {"exp": 100, "add": 99, "matmul": 64})
    count, value = launches(limits, lambda: F.exp(X).numpy())
    assert count == 0 and value.dtype == np.float32
    np.testing.assert_allclose(value, np.exp(X), rtol=1e-6)
    assert launches(limits, lambda: F.add(X, X).numpy())[0] == 1, "one element above the threshold"
    assert launches(limits, lambda: F.exp(F.add(X[:50], 1)).numpy())[0] == 0, "a chain below all thresholds"
    assert launches(limits, lambda: F.exp(F.sin(X)).numpy())[0] == 1, "sin was not measured"
    small = X[:64].reshape(8, 8)
    count, value = launches(limits, lambda: F.matmul(small, small).numpy())
    assert count == 0
    np.testing.assert_allclose(value, small @ small, rtol=1e-6)


def test_tensors_on_the_device_stay_there(limits: Any) -> None:
    place.save(limits.device, {"exp": 10**6})
    x = tensor(X)
    limits.run([x])
    assert launches(limits, lambda: F.exp(x).numpy())[0] == 1
    y = F.exp(tensor(X))
    limits.run([y])
    assert launches(limits, lambda: y.numpy())[0] == 0, "computed already"
    assert launches(limits, lambda: F.exp(y).numpy())[0] == 1


@pytest.mark.parametrize("text", ["", "[]", '{"elements": {"exp": "many"}}', '{"elements": 3}'])
def test_a_damaged_table_is_no_table(limits: Any, text: str) -> None:
    place._file(limits.device).write_text(text)
    assert launches(limits, lambda: F.exp(X).numpy())[0] == 1


def test_measuring_saves_each_threshold_at_once(limits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "SIZES", (16, 64))
    monkeypatch.setattr(place, "ROUNDS", 1)
    examples = place.examples()
    assert {"add", "exp", "sum", "matmul"} <= examples.keys()
    seen = []
    for name, elements in place.measure(limits, {k: examples[k] for k in ("exp", "sum")}):
        seen.append(name)
        assert place.thresholds(limits.device)[name] == elements and elements in (0, 16, 64)
        assert set(place.thresholds(limits.device)) == set(seen)
    assert seen == ["exp", "sum"]
