"""Models of the grid dialect: the same models as in our own words, and errors that name the field."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clnet import init
from clnet.engine import on
from clnet.errors import ConfigError
from clnet.layers import LSTM, Layer
from clnet.model import Sequential
from clnet.model.dialects import LARGEST, NETWORK, WORDS, own
from clnet.workbench import parity


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def grid(*layers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "net", "batch_size": 2, "grid_rows": 1, "grid_cols": 1, "layers_per_cell": len(layers),
            "layers": list(layers), **more}


CONV2D = {"type": "conv2d", "input_channels": 1, "filters": 4, "kernel_size": 3, "stride": 2, "padding": 1,
          "input_height": 8, "input_width": 6, "activation": "relu"}
CONV1D = {"type": "conv1d", "conv1d_in_channels": 4, "conv1d_filters": 2, "conv1d_kernel_size": 3, "conv1d_stride": 1,
          "conv1d_padding": 1}
LAYERS = {
    "conv2d": CONV2D, "conv1d": CONV1D,
    "rnn": {"type": "rnn", "input_size": 6, "hidden_size": 4, "seq_length": 4},
    "lstm": {"type": "lstm", "input_size": 4, "hidden_size": 4},
    "mha": {"type": "mha", "d_model": 4, "num_heads": 2, "seq_length": 4},
    "layer_norm": {"type": "layer_norm", "norm_size": 16, "epsilon": 1e-4},
    "rms_norm": {"type": "rms_norm", "norm_size": 4},
    "swiglu": {"type": "swiglu", "input_height": 16, "output_height": 5},
    "dense": {"type": "dense", "input_height": 16, "output_height": 6, "activation": "tanh"},
    "softmax": {"type": "softmax", "temperature": 0.5, "softmax_variant": "temperature"},
}


def test_every_word_becomes_its_layer_and_runs() -> None:
    assert set(LAYERS) | {"multi_head_attention"} == set(WORDS)
    model = Sequential.from_json(json.dumps(grid(*LAYERS.values())))
    assert [type(layer).__name__ for layer in model] == [
        "Input", "Reshape", "Conv2d", "Reshape", "Conv1d", "Reshape", "RNN", "LSTM", "MultiHeadAttention", "Reshape",
        "LayerNorm", "Reshape", "RMSNorm", "Reshape", "SwiGLU", "Dense", "Softmax"]
    y = model(np.random.default_rng(0).normal(size=(2, 48)).astype(np.float32))
    np.testing.assert_allclose(y.numpy().sum(1), 1, rtol=1e-6)
    assert (model[2].stride, model[10].eps, model[14].hidden_features, model[16].temperature) == (2, 1e-4, 5, 0.5)
    assert Sequential.from_json(model.to_json()).to_json() == model.to_json()


def test_the_same_model_as_in_our_words() -> None:
    ours = {"type": "Sequential", "layers": [
        {"type": "Input", "shape": [6]},
        {"type": "Dense", "in_features": 6, "out_features": 4, "activation": "relu"},
        {"type": "LayerNorm", "normalized_shape": 4},
        {"type": "Dense", "in_features": 4, "out_features": 3}]}
    theirs = grid({"type": "dense", "input_height": 6, "output_height": 4, "activation": "relu"},
                  {"type": "layer_norm", "norm_size": 4},
                  {"type": "dense", "input_height": 4, "output_height": 3, "activation": "linear"})
    x, found = np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32), []
    for config in (ours, theirs):
        init.seed(3)
        found.append(Sequential.from_json(json.dumps(config))(x).numpy())
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("variant", "more"), [("standard", {}), ("grid", {"softmax_rows": 2, "softmax_cols": 3}),
                                               ("masked", {"mask": [True, False] * 3})])
def test_softmax_variants(variant: str, more: dict[str, Any]) -> None:
    dense = {"type": "dense", "input_height": 4, "output_height": 6}
    model = Sequential.from_json(json.dumps(grid(dense, {"type": "softmax", "softmax_variant": variant, **more})))
    assert model[2].variant == variant
    assert model(np.ones((2, 4), np.float32)).numpy().sum() == pytest.approx(4 if variant == "grid" else 2)


def test_cells_of_a_grid_follow_one_another() -> None:
    layers = [{"type": "dense", "input_height": n, "output_height": n + 1} for n in range(2, 8)]
    model = Sequential.from_json(json.dumps(grid(*layers, grid_rows=1, grid_cols=3, layers_per_cell=2)))
    assert [layer.out_features for layer in model[1:]] == [3, 4, 5, 6, 7, 8]


def test_lstm_returns_every_step_flat() -> None:
    model = Sequential.from_json(json.dumps(grid({"type": "lstm", "input_size": 3, "hidden_size": 2, "seq_length": 5})))
    assert isinstance(model[2], LSTM)
    assert model(np.ones((2, 15), np.float32)).shape == (2, 10)


def changed(where: str, value: Any) -> dict[str, Any]:
    """The network of all layers with one field (a dotted path of keys and numbers) set, or removed for None."""
    config: Any = copy.deepcopy(grid(*LAYERS.values()))
    *path, last = where.split(".")
    part = config
    for key in path:
        part = part[int(key)] if isinstance(part, list) else part[key]
    if value is None:
        del part[last]
    else:
        part[int(last) if isinstance(part, list) else last] = value
    return config


BAD = [
    ("grid_rows", 2, "$.layers", "20 layers; got 10"), ("batch_size", 0, "$.batch_size", "from 1 to"),
    ("colour", "red", "$.colour", "'colour'"),
    ("layers", {}, "$.layers", "expected"), ("layers.0.kernal_size", 3, "$.layers[0].kernal_size", "'kernel_size'"),
    ("layers.0.kernel_size", 0, "$.layers[0].kernel_size", "got 0"),
    ("layers.0.kernel_size", 11, "$.layers[0].kernel_size", "fits"),
    ("layers.0.kernel_size", 2.0, "$.layers[0].kernel_size", "whole number"),
    ("layers.0.kernel_size", True, "$.layers[0].kernel_size", "got True"),
    ("layers.0.filters", None, "$.layers[0].filters", "got none"),
    ("layers.0.filters", LARGEST + 1, "$.layers[0].filters", "from 1 to"),
    ("layers.0.filters", 10**30, "$.layers[0].filters", "from 1 to"),
    ("layers.0", CONV2D | {"input_height": LARGEST, "input_width": LARGEST}, "$.layers[0].input_channels", "at most"),
    ("layers.0", CONV2D | {"filters": LARGEST, "stride": 1, "kernel_size": 1}, "$.layers[0]", "at most"),
    ("layers.0.activation", "rleu", "$.layers[0].activation", "relu"),
    ("layers.0.output_height", 9, "$.layers[0].output_height", "expected 4"),
    ("layers.0.padding", -1, "$.layers[0].padding", "from 0"),
    ("layers.1.conv1d_in_channels", 5, "$.layers[1].conv1d_in_channels", "multiple of 5"),
    ("layers.2.seq_length", 3, "$.layers[2].seq_length", "24 values"),
    ("layers.4.num_heads", 3, "$.layers[4].num_heads", "divisor"),
    ("layers.5.norm_size", 5, "$.layers[5].norm_size", "16 values"),
    ("layers.5.epsilon", -1, "$.layers[5].epsilon", "above 0"),
    ("layers.7.output_height", LARGEST, "$.layers[7].output_height", "weights"),
    ("layers.8.input_height", 15, "$.layers[8].input_height", "16 values"),
    ("layers.9.softmax_variant", "grid", "$.layers[9].softmax_rows", "= 6"),
    ("layers.9.softmax_variant", "masked", "$.layers[9].mask", "6 values"),
    ("layers.9.temperature", "hot", "$.layers[9].temperature", "above 0"),
    ("layers.9.type", "sotfmax", "$.layers[9].type", "'softmax'"),
    ("layers.3", 7, "$.layers[3]", "object"), ("layers.3.type", 7, "$.layers[3]", "object"),
]


@pytest.mark.parametrize(("where", "value", "path", "words"), BAD)
def test_errors_name_the_field(where: str, value: Any, path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Sequential.from_json(json.dumps(changed(where, value)))
    assert str(caught.value).startswith(f"{path}: ") or (path.endswith("]") and str(caught.value).startswith(path))
    assert words in str(caught.value)


ODD = [None, True, -1, 0, 1, 2, 3.5, 1e300, 10**40, "", "relu", "dense", [], [True], {}, {"type": "dense"}]
PLACES = [f"layers.{k}.{name}" for k, layer in enumerate(LAYERS.values())
          for name in [*layer, "padding", "mask", "softmax_rows", "output_height"]]


@given(st.lists(st.tuples(st.sampled_from([*NETWORK, "layers", *PLACES]), st.sampled_from(ODD)), min_size=1,
                max_size=4))
@settings(max_examples=300, deadline=None)
def test_any_change_is_a_model_or_a_config_error(changes: list[tuple[str, Any]]) -> None:
    config: Any = copy.deepcopy(grid(*LAYERS.values()))
    for where, value in changes:
        *path, last = where.split(".")
        among = dict(enumerate(config["layers"])) if path and isinstance(config["layers"], list) else {}
        part = among.get(int(path[1])) if path else config
        if isinstance(part, dict):  # an earlier change may have put something else there
            part[last] = value
    try:
        found = own(config)
    except ConfigError as error:
        assert str(error).startswith("$")
    else:
        assert found["type"] == "Sequential"


@pytest.mark.parametrize("first", [CONV1D, {"type": "rnn", "input_size": 3, "hidden_size": 2}, {"type": "softmax"}])
def test_the_first_layer_says_the_size(first: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^\$\.layers\[0\]\."):
        own(grid(first))


def test_absurd_sizes_in_our_words() -> None:
    sizes = [{"type": "Dense", "in_features": n, "out_features": n} for n in (4, 10**9)]
    with pytest.raises(ConfigError, match=r"^\$\.layers\[1\]: Dense: expected parameters of at most"):
        Sequential.from_json(json.dumps({"type": "Sequential", "layers": sizes}))


def test_other_configurations_are_left_alone() -> None:
    for config in ([], {"type": "Dense"}, {"type": "Sequential", "layers": [], "grid_rows": 1}, 3, {"layers": []}):
        assert own(config) is config


def test_parity_of_a_file_knows_its_shapes(tmp_path: Any) -> None:
    found = own(grid(LAYERS["dense"], LAYERS["dense"] | {"input_height": 6}))
    ours = Sequential(*map(Layer.from_config, found["layers"]))
    for name, text in (("theirs", json.dumps(grid(CONV2D, CONV1D))), ("ours", ours.to_json())):
        path = tmp_path / f"{name}.json"
        path.write_text(text)
        model, inputs = parity.resolve(str(path))
        found = parity.compare(model, inputs, name=name)
        assert found.first is None and len(found.places) > 4
    path.write_text(Sequential(Layer.from_config({"type": "Dense", "out_features": 3})).to_json())
    with pytest.raises(ConfigError, match="--shape"):
        parity.resolve(str(path))
