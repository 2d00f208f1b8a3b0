"""Networks of the literature: tiny ones build, learn for a step and survive JSON and files bit for bit; whole ones
reach their floors (slow).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.model import Sequential
from clnet.train.networks import LETTERS, RECIPES, network, train_network


def batch(name: str, count: int = 3) -> Any:
    recipe, rng = RECIPES[name], np.random.default_rng(0)
    shape = (count, *recipe.shape)
    if recipe.dtype == "int32":
        return rng.integers(0, len(LETTERS), shape).astype(np.int32)
    return rng.uniform(size=shape).astype(np.float32)


def skip_slow(engine: Any, name: str) -> None:
    if engine.device.runtime == "pocl" and name not in ("gpt", "bilstm"):
        pytest.skip("PoCL compiles convolutions slowly; pytest -m slow runs them")


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_tiny_one_learns_for_a_step(recipe: str, engine: Any) -> None:
    skip_slow(engine, recipe)
    result = train_network(recipe, 1, sizes=RECIPES[recipe].tiny, fast_dev_run=True)
    assert len(result.history.steps) == 1
    assert np.isfinite(result.found["loss"])
    assert not getattr(engine, "fallbacks", {}), engine.fallbacks
    again = network(recipe, **RECIPES[recipe].tiny)
    moved = [not np.array_equal(a.numpy(), b.numpy())
             for a, b in zip(result.trainer.model.parameters(), again.parameters(), strict=True)]
    assert sum(moved) > len(moved) / 2


@pytest.mark.parametrize("recipe", RECIPES)
def test_json_and_file_round_trips(recipe: str, engine: Any, tmp_path: Path) -> None:
    skip_slow(engine, recipe)
    model, x = network(recipe, **RECIPES[recipe].tiny).eval(), batch(recipe)
    y = model(x).numpy()
    same = Sequential.from_json(model.to_json())
    assert type(same) is type(model) and same.to_json() == model.to_json()
    model.save(tmp_path / "model.safetensors")
    for other in (clnet.load(tmp_path / "model.safetensors"), same.load(tmp_path / "model.safetensors")):
        assert other.to_json() == model.to_json()
        for (n, a), (m, b) in zip(model.variables().items(), other.variables().items(), strict=True):
            assert n == m
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(other.eval()(x).numpy(), y)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", RECIPES)
def test_floors(recipe: str, engine: Any) -> None:
    result = train_network(recipe)
    assert result.passed, result
    assert not getattr(engine, "fallbacks", {}), engine.fallbacks


def test_a_language_model_sees_no_later_letter(engine: Any) -> None:
    model, x = network("gpt", **RECIPES["gpt"].tiny).eval(), batch("gpt", 2)
    later = x.copy()
    later[:, 40:] = (later[:, 40:] + 1) % len(LETTERS)
    a, b = model(x).numpy(), model(later).numpy()
    np.testing.assert_array_equal(a[:, :40], b[:, :40])
    assert not np.array_equal(a[:, 40:], b[:, 40:])
