"""Models: configuration both ways, wiring, counts, errors that name the place. Shapes only; nothing runs on a device.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from clnet.engine import on
from clnet.errors import ConfigError, ShapeError
from clnet.layers import LSTM, Activation, Add, Conv2d, Dense, Flatten, LayerNorm, MaxPool2d, TimeDistributed
from clnet.layers import Input as InputLayer
from clnet.model import Graph, Input, Model, Sequential
from clnet.optimizers import SGD, Adam
from clnet.train import Dataset


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def mlp() -> Sequential:
    return Sequential(Dense(in_features=4, out_features=5, activation="relu"), LayerNorm(normalized_shape=5),
                      Dense(in_features=5, out_features=3))


def residual() -> Graph:
    nodes = [("h", Dense(out_features=6), "x"), ("sum", Add(), ["h", "x"]), ("y", Dense(out_features=2), "sum")]
    return Graph(inputs={"x": (6,)}, nodes=nodes, outputs=["y", "h"])


def test_sequential_is_given_in_three_ways() -> None:
    layers = [Dense(in_features=2, out_features=3), Dense(in_features=3, out_features=1)]
    for model in (Sequential(*layers), Sequential(layers), Sequential(layers=layers)):
        assert [layer.out_features for layer in model] == [3, 1]
        assert list(model.variables()) == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]


@pytest.mark.parametrize("make", [mlp, residual])
def test_json_both_ways(make: Any) -> None:
    model = make()
    again = type(model).from_json(model.to_json())
    assert type(again) is type(model)
    assert again.to_json() == model.to_json()
    assert json.loads(model.to_json())["type"] == type(model).__name__


def test_build_binds_sizes_and_json_keeps_them() -> None:
    model = Sequential(Conv2d(out_channels=3, kernel_size=3), MaxPool2d(kernel_size=2), Flatten(),
                       Dense(out_features=2)).build((1, 8, 8))
    assert model[0].in_channels == 1
    assert model[3].in_features == 27
    assert all(layer.built for layer in Sequential.from_json(model.to_json()))


def test_graph_computes_what_its_formula_says() -> None:
    model = residual().build()
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    y, h = model(x)
    first, last = (n.layer for n in model.nodes if isinstance(n.layer, Dense))
    expected = x @ first.weight.numpy().T + first.bias.numpy()
    np.testing.assert_allclose(h.numpy(), expected, rtol=1e-5, atol=1e-6)
    expected = (expected + x) @ last.weight.numpy().T + last.bias.numpy()
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_wiring_by_calling_makes_the_same_graph() -> None:
    x = Input((1, 8, 8), name="image")
    h = Conv2d(out_channels=4, kernel_size=3, padding=1, activation="relu")(x)
    assert h.shape == (4, 8, 8)
    h = h + Conv2d(out_channels=4, kernel_size=3, padding=1)(h)
    model = Model([x], [Dense(out_features=10)(Flatten()(h))])
    assert [n.name for n in model.nodes] == ["conv2d", "conv2d2", "add", "flatten", "dense"]
    assert model(np.zeros((2, 1, 8, 8), np.float32)).shape == (2, 10)
    assert Graph.from_json(model.to_json()).to_json() == model.to_json()


def test_two_inputs_two_outputs_and_a_second_output() -> None:
    a, b = Input((5, 3)), Input((4,))
    sequence, h, _ = LSTM(hidden_size=4, return_state=True)(a)
    assert sequence.shape == (5, 4)
    shared = Dense(out_features=4)
    model = Model([a, b], [shared(b), shared(sequence)])
    assert [n.name for n in model.nodes] == ["dense", "lstm", "dense2"]
    assert model.nodes[0].layer is model.nodes[2].layer
    assert model.config()["nodes"][2]["layer"] == "dense"
    again = Graph.from_json(model.to_json())
    assert len(again.parameters()) == len(model.parameters())
    first, second = again(np.zeros((2, 5, 3), np.float32), np.zeros((2, 4), np.float32))
    assert (first.shape, second.shape) == ((2, 4), (2, 5, 4))
    assert Model([a], [h]).outputs == ("lstm:1",)


def dense() -> dict[str, Any]:
    return {"type": "Dense", "in_features": 4, "out_features": 4}


BROKEN = {
    "$.nodes[2].layer.eps": [("a", dense(), ["x"]), ("b", dense(), ["a"]),
                             ("c", {"type": "LayerNorm", "normalized_shape": 4, "eps": -1.0}, ["b"])],
    "$.nodes[0].layer.out_featurs": [("a", {"type": "Dense", "out_featurs": 3}, ["x"])],
    "$.nodes[1].layer": [("a", dense(), ["x"]), ("b", {"type": "Danse"}, ["a"])],
    "cycle": [("a", dense(), ["b"]), ("b", dense(), ["a"])],
    "'z'": [("a", dense(), ["z"])],
    "'a' twice": [("a", dense(), ["x"]), ("a", dense(), ["x"])],
    "'x' twice": [("x", dense(), ["x"]), ("a", dense(), ["x"])],
    "nodes[0].name": [("a.b", dense(), ["x"])],
    "node with a layer of its own": [("a", "b", ["x"])],
}


@pytest.mark.parametrize("expected", BROKEN)
def test_errors_name_the_path(expected: str) -> None:
    nodes = [dict(zip(("name", "layer", "inputs"), n, strict=True)) for n in BROKEN[expected]]
    text = json.dumps({"type": "Graph", "inputs": {"x": [4]}, "nodes": nodes, "outputs": ["a"]})
    with pytest.raises(ConfigError) as caught:
        Graph.from_json(text)
    assert expected in str(caught.value)


BAD = [
    "{", "", "[]", '{"type": "Graph"}', '{"type": "Graph", "inputs": {"x": [0]}, "nodes": [], "outputs": []}',
    '{"type": "Sequential", "layers": []}',
    '{"type": "Sequential", "layers": [{"type": "Dense", "out_features": NaN}]}',
    '{"type": "Sequential", "layers": {"type": "Dense"}}', '{"type": "Sequential", "layers": [3]}',
    '{"type": "Graph", "inputs": {"x": [4]}, "nodes": [{"name": "a"}], "outputs": ["a"]}',
    '{"type": "Graph", "inputs": {"x": [4]}, "nodes": [["a", {"type": "Flatten"}, ["x"]]], "outputs": ["missing"]}',
]


@pytest.mark.parametrize("text", BAD)
def test_bad_json_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        Sequential.from_json(text)


def test_shape_errors_name_the_layer() -> None:
    with pytest.raises(ShapeError, match=r"layers\.1: Dense: in_features is 7; got 5"):
        Sequential(Dense(in_features=4, out_features=5), Dense(in_features=7, out_features=5)).build((4,))
    with pytest.raises(ShapeError, match="expected 1 inputs"):
        residual()(np.zeros((2, 6)), np.zeros((2, 6)))


def test_model_without_its_inputs() -> None:
    a, b = Input((3,)), Input((3,))
    with pytest.raises(ConfigError, match="all inputs in the list"):
        Model([a], [a + b])


def test_one_layer_twice_needs_a_graph() -> None:
    layer = Dense(in_features=3, out_features=3)
    with pytest.raises(ConfigError, match="twice"):
        Sequential(layer, layer).to_json()


@pytest.mark.parametrize("who", ["build", "summary", "graph"])
def test_a_shape_with_the_batch_in_it_is_told_the_shape_without(who: str) -> None:
    model = Sequential(Conv2d(3, 8, 3), Flatten(), Dense(out_features=2))
    for _ in range(2):  # what was tried does not count as a call
        with pytest.raises(ShapeError, match=rf"got shape \(5, 64, 3, 9, 9\).*batch left out: {who}\(\(3, 9, 9\)\)\.$"):
            getattr(model, who)((64, 3, 9, 9))
    with pytest.raises(ShapeError, match=r"H2 W2\.$"):
        getattr(model, who)((9, 9))


def test_summary_counts_by_hand() -> None:
    summary = mlp().summary((4,), batch=8, optimizer=Adam())
    assert [(r.layer, r.output, r.parameters) for r in summary.rows] == [
        ("layers.0", "(N, 5)", 25), ("layers.1", "(N, 5)", 10), ("layers.2", "(N, 3)", 18)]
    assert summary.parameters == summary.trainable == 53
    assert summary.memory["parameters"] == summary.memory["gradients"] == 4 * 53
    assert summary.memory["optimizer state"] == 8 * 53
    assert summary.memory["inputs"] == 8 * 4 * 4
    assert summary.memory["total"] == sum(n for name, n in summary.memory.items() if name != "total")
    for text in (repr(summary), summary._repr_html_()):
        assert all(word in text for word in ("float32 (N, 4)", "47.2 %", "53", "212 B", "batches of 8",
                                             "Adam keeps 2 numbers for every weight"))
        assert "No optimizer" not in text
    assert "No optimizer was given" in repr(mlp().summary((4,)))


@pytest.mark.parametrize("given", [(4,), ((4,),), ([4],), ((None, 4),), (np.zeros((9, 4)),), ([[1.0, 2.0, 3.0, 4.0]],),
                                   (Dataset(np.zeros((9, 4)), np.zeros(9)),)])
def test_summary_takes_what_says_a_sample(given: Any) -> None:
    made = [Sequential(Dense(out_features=3)).summary(*given),
            Sequential(Dense(out_features=3)).build(*given).summary(*given)]
    assert [(s.parameters, s.rows[0].output) for s in made] == [(15, "(N, 3)")] * 2


def test_summary_of_a_model_that_was_called_needs_nothing() -> None:
    model = Sequential(Conv2d(out_channels=3, kernel_size=3), Flatten(), Dense(out_features=2))
    with pytest.raises(ConfigError,
                       match=r"Sequential.summary: expected the shape of one sample, .*write model.summary\(\(30,\)\)"):
        model.summary()
    model(np.zeros((4, 1, 6, 6), np.float32))
    assert [r.output for r in model.summary().rows] == ["(N, 3, 4, 4)", "(N, 48)", "(N, 2)"]
    assert Sequential(InputLayer(shape=(4,)), Dense(out_features=3)).summary().parameters == 15
    for wrong in ("x", (3, "a"), (0,), (2.5,), [[1], [1, 2]]):
        with pytest.raises(ConfigError, match=r"expected (the shape of one sample|samples of one shape)"):
            model.summary(wrong)


def test_summary_names_what_users_know() -> None:
    summary = Sequential(LSTM(hidden_size=4, num_layers=2),
                         TimeDistributed(layer=Dense(out_features=2))).summary((7, 5))
    assert [(r.layer, r.type, r.output, r.parameters) for r in summary.rows] == [
        ("layers.0", "LSTM", "(N, 7, 4)", 336), ("layers.1", "TimeDistributed", "(N, 7, 2)", 0),
        ("layers.1.layer", "Dense", "(7 N, 2)", 10)]
    assert summary.parameters == sum(r.parameters for r in summary.rows)


def test_summary_leaves_the_last_call_to_backward() -> None:
    model = mlp()
    y = model(np.ones((2, 4), np.float32))
    model.summary()
    assert model.backward(np.ones(y.shape, np.float32)).shape == (2, 4)


def test_a_model_is_a_line_a_layer() -> None:
    model = Sequential(Dense(out_features=5), Sequential(Activation("relu"), Dense(out_features=2)))
    assert repr(model).splitlines() == ["Sequential:", "  0  Dense(out_features=5)", "  1  Sequential:",
                                        "       0  Activation(name='relu')", "       1  Dense(out_features=2)"]
    assert repr(residual()).splitlines() == ["Graph from x float32[6] to y, h:", "  h    Dense(out_features=6)  <- x",
                                             "  sum  Add()  <- h, x", "  y    Dense(out_features=2)  <- sum"]
    html = residual().build()._repr_html_()
    assert "<td" in html and "out_features=6" in html and ">42<" in html and "h, x" in html
    assert "2 layers" in model._repr_html_()


def test_parameters_show_their_names() -> None:
    model = Sequential(Dense(out_features=5), Sequential(Dense(out_features=2, bias=False))).build((4,))
    lines = repr(model.parameters()).splitlines()
    assert [line.split() for line in lines[2:-2]] == [
        ["layers.0.weight", "float32[5,", "4]", "weight", "20"], ["layers.0.bias", "float32[5]", "bias", "5"],
        ["layers.1.layers.0.weight", "float32[2,", "5]", "weight", "10"]]
    assert lines[-1].split() == ["3", "parameters", "140", "B", "35"]
    assert repr(model.parameters()[2]).startswith("Parameter('layers.1.layers.0.weight', ")
    model[1].parameters()
    assert model[1][0].weight.path == "layers.1.layers.0.weight"
    assert list(model.variables()) == [p.path for p in model.parameters()]
    assert "layers.0.bias" in repr(model.variables())
    assert "layers.0.weight" in model.parameters()._repr_html_() and isinstance(model.parameters(), list)


def test_summary_counts_shared_layers_once() -> None:
    shared = Dense(in_features=3, out_features=3)
    x = Input((3,))
    summary = Model([x], [shared(shared(x))]).summary(optimizer=SGD())
    assert summary.parameters == 12
    assert sum(r.parameters for r in summary.rows) == 12


def test_html_escapes_names() -> None:
    class Evil(Dense):
        """y = x"""

    Evil.__name__ = "<img src=x onerror=1>"
    try:
        model = Sequential(Evil(in_features=2, out_features=2), Activation(name="relu"))
        assert "<img" not in model.summary((2,))._repr_html_()
    finally:
        type(Dense(out_features=1)).registry.pop("Evil")
