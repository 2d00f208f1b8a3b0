"""Configuration checks itself: whatever is given, the answer is an object or a ConfigError that names the place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clnet.config.fields import LIMIT, Configured, parse_json
from clnet.config.schema import of_class
from clnet.errors import ClnetError, ConfigError
from clnet.layers import Conv2d, Dense, Dropout, Layer, LayerNorm, Residual
from clnet.losses import Loss, MSELoss
from clnet.optimizers import SGD, Adam, CosineAnnealingLR, Optimizer

# Whatever a JSON file may hold: names that mean something, values of every kind, nested.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
    | st.sampled_from(["relu", "Dense", "same", "mean"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "lr", "out_features", "x"]),
                                                                inner, max_size=3), max_leaves=6)
CLASSES = sorted((c for family in Configured.families for c in family.registry.values()), key=lambda c: c.__name__)
NAMES = sorted({f for c in CLASSES for f in c.schema()["properties"]} | {"nonsense"})


# --- constructors
@pytest.mark.parametrize(("call", "words"), [
    (lambda: LayerNorm(eps=-1), r"LayerNorm\(eps=-1\): eps must be greater than 0"),
    (lambda: LayerNorm(normalized_shape=(3, 0)), r"normalized_shape\[1\] must be greater than 0"),
    (lambda: Dense(), "expected a value for out_features"),
    (lambda: Dense(out_features=0), "greater than 0"),
    (lambda: Dense(out_features=True), "out_features must be a valid integer"),
    (lambda: Dense(out_features=2048.0), "out_features must be a valid integer"),
    (lambda: Dense(out_features="3"), "out_features must be a valid integer"),
    (lambda: Dense(out_feature=3), "did you mean 'out_features'"),
    (lambda: Dense(3, 4, True, None, 5), "expected"),
    (lambda: Dense(out_features=3, bias=1), "bias must be a valid boolean"),
    (lambda: Dense(out_features=3, activation="rellu"), "did you mean 'relu'"),
    (lambda: Dropout(p=1.0), "p must be less than 1"),
    (lambda: Dropout(p=float("nan")), "p must be"),
    (lambda: MSELoss(reduction="meen"), "expected one of 'mean', 'sum', 'none'"),
    (lambda: Conv2d(out_channels=3, kernel_size=2.5), "kernel_size must be a valid integer"),
    (lambda: Conv2d(out_channels=3, kernel_size=3, padding=-1), "padding"),
    (lambda: SGD(lr=None), "lr"),
    (lambda: Residual(layer={"type": "Dense", "out_feature": 3}), r"\$\.out_feature"),
    (lambda: Residual(layer=3), "layer"),
])
def test_a_bad_field_is_named(call: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_help_speaks_of_every_argument(cls: type[Configured]) -> None:
    text, _, arguments = (cls.__doc__ or "").partition("\n\nExample:")[0].partition("\nArguments:\n")
    assert text.strip() and "Arguments:" not in arguments
    said = {line.split()[0]: " ".join(line.split()[1:]) for line in arguments.replace("\n     ", "").splitlines()}
    properties = {k: v for k, v in of_class(cls)["properties"].items() if k != "type"}
    assert set(said) == set(properties)
    for name, schema in properties.items():
        assert schema["description"].partition(" ")[0] in said[name]
        for key, sign in (("exclusiveMinimum", ">"), ("minimum", "≥"), ("exclusiveMaximum", "<"), ("maximum", "≤")):
            assert key not in schema or f"{sign} {schema[key]}" in said[name]
        assert any(word in said[name] for word in ("required)", "left out:", "default "))


def test_help_says_bounds_and_defaults() -> None:
    lines = (Dense.__doc__ or "").splitlines()
    assert lines[0] == "y = act(x · Wᵀ + b)" and lines[4:9] == [
        "Arguments:",
        "    in_features    size of the last axis of the input (> 0, left out: the first call binds it)",
        "    out_features   size of the last axis of the output (> 0, required)",
        "    bias           whether b is added (default True)",
        "    activation     name of the function applied last; None: identity (default None)"]
    assert lines[9:11] == ["", "Example:"] and lines[-1] == "    (3, 5)"


def test_fields_do_not_change_after_the_check() -> None:
    assert Conv2d(out_channels=3, kernel_size=[3, 2]).kernel_size == (3, 2)


# --- from JSON
@pytest.mark.parametrize(("config", "words"), [
    ({"type": "Dense", "out_featurs": 3}, r"\$\.out_featurs: .* did you mean 'out_features'"),
    ({"type": "Dens"}, r"\$: .* did you mean 'Dense'"),
    ({"type": 3}, r"\$: expected an object"),
    ({"out_features": 3}, "expected an object"),
    ([], "expected an object"),
    (None, "expected an object"),
    ("Dense", "expected an object"),
    ({"type": "Dense", "out_features": True}, r"\$\.out_features: Dense\(out_features=True\)"),
    ({"type": "Dense", "out_features": 2048.0}, r"\$\.out_features: Dense\(out_features=2048.0\)"),
    ({"type": "Dense", "out_features": {"type": "Dense", "out_features": 3}}, "out_features"),
    ({"type": "Residual", "layer": [{"type": "Dense", "out_features": 3}, {"type": "Dense", "n": 3}]},
     r"\$\.layer\[1\]\.n"),
    ({"type": "Residual", "layer": {"type": "Residual", "layer": {"type": "Nothing"}}}, r"\$\.layer\.layer"),
])
def test_the_path_is_named(config: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Layer.from_config(config)


def test_other_families_are_not_mixed_up() -> None:
    with pytest.raises(ConfigError, match="expected the name of a Layer"):
        Layer.from_config({"type": "Adam"})
    assert isinstance(Configured.from_config({"type": "Adam"}), Adam)


def test_a_schedule_inside_an_optimizer() -> None:
    optimizer = Optimizer.from_config({"type": "Adam", "lr": {"type": "CosineAnnealingLR", "lr": 0.5, "t_max": 10}})
    assert isinstance(optimizer.lr, CosineAnnealingLR)
    assert optimizer.config()["lr"] == {"type": "CosineAnnealingLR", "lr": 0.5, "t_max": 10}
    with pytest.raises(ConfigError, match=r"\$\.lr\.step"):
        Optimizer.from_config({"type": "Adam", "lr": {"type": "CosineAnnealingLR", "step": 10}})


def test_names_of_the_specification_and_of_loom() -> None:
    for name in ("Dense", "DenseLayer", "FullyConnectedLayer", "dense"):
        assert Layer.lookup(name) is Dense
    assert Layer.lookup("conv2d") is Conv2d and Loss.lookup("mse") is MSELoss


def test_names_and_aliases_are_unique() -> None:
    assert {f.__name__ for f in Configured.families} >= {"Layer", "Loss", "Optimizer"}
    for family in Configured.families:
        names = [n for c in family.registry.values() for n in {c.__name__, c.spec_name, *c.aliases} - {""}]
        assert len(names) == len(set(names)), f"{family.__name__}: {sorted({n for n in names if names.count(n) > 1})}"


def test_a_variant_does_not_answer_to_its_base_s_names() -> None:
    class Wide(Dense):
        """y = x"""

    try:
        assert Layer.lookup("dense") is Dense and Layer.lookup("Wide") is Wide and Wide.aliases == ()
    finally:
        del Layer.registry["Wide"]


def test_functions_are_not_saved() -> None:
    with pytest.raises(ConfigError, match="registered name"):
        Dense(in_features=3, out_features=2, activation=abs).config()


# --- JSON text
@pytest.mark.parametrize(("text", "words"), [
    ('{"type": "Dense", "type": "Dropout"}', "'type' twice"),
    ('{"a": {"b": 1, "b": 2}}', "'b' twice"),
    ('{"p": NaN}', "got NaN"), ('{"p": Infinity}', "got Infinity"), ('{"p": -Infinity}', "got -Infinity"),
    ('{"p": 1e999}', "finite"),
    ("[" * 100_000, "valid JSON"), ('{"a":' * 50_000 + "1" + "}" * 50_000, "valid JSON"),
    ("", "valid JSON"), ("{", "valid JSON"), ("{'a': 1}", "valid JSON"), ("9" * 10_000, "sensible length"),
    (" " * (LIMIT + 1), "at most"),
])
def test_json_that_is_no_configuration(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_json(text)


def test_deep_nesting_below_the_limit_of_the_parser() -> None:
    config: Any = {"type": "Dense", "out_features": 3}
    for _ in range(2000):
        config = {"type": "Residual", "layer": config}
    with pytest.raises(ConfigError, match="nested"):
        Layer.from_config(config)


# --- anything at all
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CLASSES), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_any_configuration_is_an_object_or_a_config_error(cls: Any, fields: dict[str, Any]) -> None:
    try:
        thing = Configured.from_config({**fields, "type": cls.__name__})
    except ClnetError as error:
        assert isinstance(error, ConfigError), f"{type(error).__name__}: {error}"
        return
    assert Configured.from_config(json.loads(json.dumps(thing.config()))).config() == thing.config()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda b: b.decode("latin-1")))
def test_any_text_is_json_or_a_config_error(text: str) -> None:
    try:
        found = parse_json(text)
    except ConfigError as error:
        assert str(error).startswith("JSON: expected ")
    else:
        assert found == json.loads(text)


@pytest.mark.parametrize("cls", [pytest.param(c, id=c.__name__) for c in CLASSES])
def test_schemas_describe_every_field(cls: Any) -> None:
    schema = cls.schema()
    assert schema["type"] == "object" and schema["additionalProperties"] is False and schema["description"]
    assert json.loads(json.dumps(schema)) == schema
    for name, field in schema["properties"].items():
        assert name == "type" or field["description"], f"{cls.__name__}.{name} needs a doc"
