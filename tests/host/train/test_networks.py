"""Networks of the examples: sizes, windows of text, names, configurations."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from clnet.engine import on
from clnet.errors import ConfigError, DataError
from clnet.model.schema import document
from clnet.train import networks
from clnet.train.networks import CONTEXT, LETTERS, RECIPES, network


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def test_resnet20_is_the_papers() -> None:
    model = network("resnet20")
    convs = [n for n, v in model.variables().items() if v.ndim == 4 and v.shape[-1] == 3]
    assert len(convs) + 1 == 20  # and the map to classes
    # 0.27 million in the paper: one input channel, 1×1 projections
    assert sum(p.size for p in model.parameters()) == 272186


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


@pytest.mark.parametrize("recipe", RECIPES)
def test_configurations_are_valid_by_the_schema(recipe: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(document()).validate(json.loads(network(recipe, **RECIPES[recipe].tiny).to_json()))
