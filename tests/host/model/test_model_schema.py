"""The JSON schema: it takes what the reader takes, and refuses what the fields refuse."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest

from clnet import cli
from clnet.config import Configured
from clnet.errors import ConfigError
from clnet.layers import Dense, Layer
from clnet.model import Graph, Sequential
from clnet.model.schema import document
from clnet.optimizers import SGD, CosineAnnealingLR
from clnet.train.examples import MODELS, digits_model

SCHEMA = document()
Draft = jsonschema.Draft202012Validator


def whole(layer: type[Layer]) -> list[Any]:
    """The configurations of a layer's examples; those with functions have none."""
    found = []
    for fields, _ in layer.examples:
        try:
            found.append(json.loads(json.dumps(layer(**fields).config())))
        except ConfigError:
            continue
    return found


def test_it_is_a_schema_and_has_every_class() -> None:
    Draft.check_schema(SCHEMA)
    assert {c.__name__ for family in Configured.families if family.in_models for c in family.registry.values()
            if c.__module__.startswith("clnet.")} <= set(SCHEMA["$defs"])


@pytest.mark.parametrize("layer", [pytest.param(c, id=n) for n, c in sorted(Layer.registry.items()) if c.examples])
def test_examples_are_valid_and_unknown_fields_are_not(layer: type[Layer]) -> None:
    validator, configs = Draft(SCHEMA), whole(layer)
    if not configs:
        pytest.skip("all of its examples hold functions, which no configuration has")
    for config in configs:
        validator.validate(config)
        assert not validator.is_valid({**config, "no_such_field": 1})


@pytest.mark.parametrize("kind", MODELS)
def test_models_are_valid(kind: str) -> None:
    Draft(SCHEMA).validate(json.loads(digits_model(kind).to_json()))


GRAPH = {"type": "Graph", "inputs": {"x": [4]}, "outputs": ["a"],
         "nodes": [{"name": "a", "layer": {"type": "Dense", "in_features": 4, "out_features": 3}, "inputs": ["x"]},
                   {"name": "b", "layer": "a", "inputs": "x"}]}
BREAKS = [("nodes.0.layer.out_features", 0), ("nodes.0.layer.type", "Danse"), ("nodes.0.layer.bias", "yes"),
          ("nodes.0.name", 3), ("outputs", []), ("inputs", {}), ("nodes.0.layer.activation", 4)]


def test_a_graph() -> None:
    Graph.from_json(json.dumps(GRAPH))
    Draft(SCHEMA).validate(GRAPH)


@pytest.mark.parametrize(("where", "value"), BREAKS)
def test_what_the_reader_refuses_is_invalid(where: str, value: Any) -> None:
    config: Any = copy.deepcopy(GRAPH)
    part, (*path, last) = config, where.split(".")
    for key in path:
        part = part[int(key)] if isinstance(part, list) else part[key]
    part[last] = value
    assert not Draft(SCHEMA).is_valid(config)
    with pytest.raises(ConfigError):
        Sequential.from_json(json.dumps(config))


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "Dense"]) == 0
    schema = json.loads(capsys.readouterr().out)
    Draft(schema).validate(Dense(in_features=2, out_features=3).config())
    assert not Draft(schema).is_valid({"type": "LayerNorm"})
    assert cli.main(["schema", "Danse"]) == 2
    assert "did you mean 'Dense'" in capsys.readouterr().err


def test_optimizers_have_schedules() -> None:
    Draft(document("SGD")).validate(SGD(lr=CosineAnnealingLR(10, lr=0.1)).config())
    assert not Draft(document("SGD")).is_valid({"type": "SGD", "lr": {"type": "Dense", "out_features": 2}})


def test_every_family_is_there_without_anybody_else_importing_it() -> None:
    code = "import json; from clnet.model.schema import document; print(json.dumps(list(document()['$defs'])))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    of_tests = {c.__name__ for family in Configured.families for c in family.registry.values()
                if not c.__module__.startswith("clnet.")}
    assert set(json.loads(shown)) == set(SCHEMA["$defs"]) - of_tests
