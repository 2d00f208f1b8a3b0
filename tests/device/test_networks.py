"""Networks of the literature: tiny ones build, learn for a step and survive JSON and files bit for bit; whole ones reach their floors (slow)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import ConfigError, DataError
from clnet.model import Sequential
from clnet.schema import document
from clnet.train import networks
from clnet.train.networks import CONTEXT, LETTERS, RECIPES, network, train_network


def batch(name: str, count: int = 3) -> Any:
    recipe, rng = RECIPES[name], np.random.default_rng(0)
    shape = (count, *recipe.shape)
    return rng.integers(0, len(LETTERS), shape).astype(np.int32) if recipe.dtype == "int32" else rng.uniform(size=shape).astype(np.float32)


def skip_slow(device: Any, name: str) -> None:
    if device.device.runtime == "pocl" and name not in ("gpt", "bilstm"):
        pytest.skip("PoCL compiles convolutions slowly; pytest -m slow runs them")


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_tiny_one_learns_for_a_step(recipe: str, device: Any) -> None:
    skip_slow(device, recipe)
    result = train_network(recipe, 1, sizes=RECIPES[recipe].tiny, fast_dev_run=True)
    assert len(result.history.steps) == 1
    assert np.isfinite(result.found["loss"])
    assert not getattr(device, "fallbacks", {}), device.fallbacks
    again = network(recipe, **RECIPES[recipe].tiny)
    moved = [not np.array_equal(a.numpy(), b.numpy()) for a, b in zip(result.trainer.model.parameters(), again.parameters(), strict=True)]
    assert sum(moved) > len(moved) / 2


@pytest.mark.parametrize("recipe", RECIPES)
def test_json_and_file_round_trips(recipe: str, device: Any, tmp_path: Path) -> None:
    skip_slow(device, recipe)
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


@pytest.mark.parametrize("recipe", RECIPES)
def test_configurations_are_valid_by_the_schema(recipe: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(document()).validate(json.loads(network(recipe, **RECIPES[recipe].tiny).to_json()))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipe", RECIPES)
def test_floors(recipe: str, device: Any) -> None:
    result = train_network(recipe)
    assert result.passed, result
    assert not getattr(device, "fallbacks", {}), device.fallbacks


def test_resnet20_is_the_papers() -> None:
    model = network("resnet20")
    convs = [n for n, v in model.variables().items() if v.ndim == 4 and v.shape[-1] == 3]
    assert len(convs) + 1 == 20  # and the map to classes
    assert sum(p.size for p in model.parameters()) == 272186  # 0.27 million in the paper: one input channel, 1×1 projections


def test_a_language_model_sees_no_later_letter(device: Any) -> None:
    model, x = network("gpt", **RECIPES["gpt"].tiny).eval(), batch("gpt", 2)
    later = x.copy()
    later[:, 40:] = (later[:, 40:] + 1) % len(LETTERS)
    a, b = model(x).numpy(), model(later).numpy()
    np.testing.assert_array_equal(a[:, :40], b[:, :40])
    assert not np.array_equal(a[:, 40:], b[:, 40:])


def test_text_windows_predict_the_letter_after() -> None:
    text = "abc é\n" * 40
    data = networks.text_windows(text, 16)
    x, y = data.x, data.y
    assert x.shape == y.shape == (14, 16)
    np.testing.assert_array_equal(x[:, 1:], y[:, :-1])
    assert "".join(LETTERS[k] for k in x[0]) == "abc ?\nabc ?\nabc "
    with pytest.raises(DataError):
        networks.text_windows("short")
    assert "How" in networks.documentation() or "Train" in networks.documentation()
    assert len(networks.documentation()) > 1000 * CONTEXT


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="resnet20"):
        network("resnet21")
