"""Layers on the reference: PyTorch's values, examples, configuration, names, states, masks, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import init, layers
from clnet.core.autodiff import gradients
from clnet.core.state import Parameter, Variable
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.errors import ConfigError, DataError, ShapeError
from clnet.layers import Dense, Layer
from clnet.model import files
from clnet.optimizers import Momentum, Optimizer
from clnet.workbench.evidence import checks, golden
from clnet.workbench.evidence.layer_checks import round_trip
from clnet.workbench.evidence.registry import layer_example, load_all, make_layer
from clnet.workbench.evidence.step import outputs_of

EXAMPLES = [pytest.param(cls, k, id=f"{name}-{k}") for name, cls in sorted(Layer.registry.items())
            for k in range(len(cls.examples))]
FIRST = [p for p in EXAMPLES if p.values[1] == 0]
KEPT = [p for p in EXAMPLES if golden.path("layer", p.values[0].__name__).is_file()]

load_all()


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def test_every_layer_has_examples() -> None:
    assert not [name for name, cls in Layer.registry.items() if cls.__module__.startswith("clnet.layers")
                and not cls.examples]


def test_train_reaches_parts_made_before_and_after() -> None:
    block = layers.TransformerEncoderBlock(num_heads=2, d_ff=6)
    block.eval()
    block(np.zeros((1, 2, 4), np.float32))
    parts = [block.self_attn, block.self_attn.drop, block.drop, block.norm1]
    assert not any(p.training for p in parts)
    block.train()
    assert all(p.training for p in parts)


@pytest.mark.parametrize("index", [4, -1])
def test_embedding_names_an_index_that_is_no_row(index: int) -> None:
    with pytest.raises(DataError, match=rf"got {index} at \(1, 0\)"):
        layers.Embedding(4, 3)(np.array([[0], [index]]))


def test_attention_ignores_what_is_masked() -> None:
    layer = layers.MultiHeadAttention(embed_dim=4, num_heads=2)
    x = np.random.default_rng(0).standard_normal((1, 3, 4)).astype(np.float32)
    mask = np.array([[True, True, False]] * 3)
    a = layer(x, None, None, mask).numpy(checks.oracle())
    changed = x.copy()
    changed[0, 2] = 9.0
    b = layer(changed, None, None, mask).numpy(checks.oracle())
    np.testing.assert_allclose(a[0, :2], b[0, :2])
    short = layer(x[:, :2]).numpy(checks.oracle())
    np.testing.assert_allclose(a[0, :2], short[0], atol=1e-12)


def test_recurrent_state_continues_a_sequence() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    for cls in (layers.RNN, layers.GRU, layers.LSTM):
        layer = cls(hidden_size=4, num_layers=2, return_state=True)
        whole, *last = (t.numpy(checks.oracle()) for t in layer(x))
        _, *state = layer(x[:, :2])
        rest, *end = (t.numpy(checks.oracle()) for t in layer(x[:, 2:], *state))
        np.testing.assert_allclose(rest, whole[:, 2:], atol=1e-12)
        for a, b in zip(end, last, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: layers.Conv2d(out_channels=4, kernel_size=(3, 3, 3)), "kernel_size"),
    (lambda: layers.Conv2d(in_channels=3, out_channels=4, kernel_size=3, groups=2), "groups"),
    (lambda: layers.MultiHeadAttention(embed_dim=5, num_heads=2), "embed_dim"),
    (lambda: layers.MultiHeadAttention(embed_dim=4, num_heads=4, num_kv_heads=3), "num_kv_heads"),
    (lambda: layers.GroupNorm(num_groups=2, num_channels=3), "num_groups"),
    (lambda: layers.Dense(out_features=3, activation="rellu"), "did you mean 'relu'"),
    (lambda: layers.Activation(name="relu", params={"slope": 1.0}), "params"),
    (lambda: layers.LSTM(hidden_size=3, bias=False, forget_bias=1.0), "forget_bias"),
    (lambda: layers.Reshape(shape=(-1, -1)), "-1"),
    (lambda: layers.Dropout(p=1.5), "p"),
    (lambda: layers.Embedding(num_embeddings=3, embedding_dim=2, padding_idx=3), "padding_idx"),
])
def test_configuration_errors(call: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: layers.Dense(in_features=3, out_features=2)(np.zeros((4, 5))), "in_features is 3; got 5"),
    (lambda: layers.Conv2d(out_channels=2, kernel_size=3)(np.zeros((2, 3, 4))), "expected input axes"),
    (lambda: layers.Residual(layer={"type": "Dense", "out_features": 2})(np.zeros((4, 5))), "projection"),
    (lambda: layers.PositionalEncoding(max_len=3)(np.zeros((1, 4, 2))), "max_len = 3"),
    (lambda: layers.RNN(hidden_size=3)(np.zeros((2, 4, 2)), np.zeros((1, 2, 4))), "initial states"),
    (lambda: layers.Flatten(start_dim=3)(np.zeros((2, 3))), "Flatten"),
])
def test_shape_errors(call: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        call()


def test_backward_of_several_outputs() -> None:
    layer = layers.GRU(hidden_size=4, return_state=True)
    x = np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32)
    y, h = layer(x)
    ones, zeros = tensor(np.ones(h.shape, np.float32)), tensor(np.zeros(y.shape, np.float32))
    by_state = layer.backward((zeros, ones)).numpy(checks.oracle())
    last = np.zeros(y.shape, np.float32)
    last[:, -1] = 1
    np.testing.assert_allclose(layer.backward(tensor(last)).numpy(checks.oracle()), by_state, atol=1e-12)


def test_inputs_by_name() -> None:
    layer = layers.MultiHeadAttention(embed_dim=4, num_heads=2)
    x, mask = np.ones((1, 3, 4), np.float32), np.tril(np.ones((3, 3), bool))
    assert (layer(x, mask=mask).numpy(checks.oracle()) == layer(x, None, None, mask).numpy(checks.oracle())).all()


def reference(cls: type[Layer], k: int) -> tuple[Any, Any]:
    layer, inputs = make_layer(cls, k)
    return layer, layer_example(layer, inputs)


def leaves_of(kept: Any, k: int, count: int) -> list[Any]:
    arrays = [kept[f"{k}.in.{j}"] for j in range(count)]
    return [tensor(a.astype(np.float64) if a.dtype.kind == "f" else a) for a in arrays]


@pytest.mark.parametrize(("cls", "k"), KEPT)
def test_golden(cls: type[Layer], k: int) -> None:
    kept = golden.read("layer", cls.__name__)
    if f"{k}.out.0" not in kept:
        pytest.skip("the example is random")
    _, example = reference(cls, k)
    leaves = leaves_of(kept, k, len(example.inputs))
    ys = outputs_of(example.function(*leaves))
    floats = [t for t in leaves if t.dtype == "float64"] if f"{k}.u" in kept else []
    got = checks.oracle().values([*ys, *(gradients(ys[0], floats, tensor(kept[f"{k}.u"])) if floats else [])])
    for j, y in enumerate(got[: len(ys)]):
        np.testing.assert_allclose(y, kept[f"{k}.out.{j}"], rtol=1e-9, atol=1e-9, err_msg=f"output {j}")
    for j, g in enumerate(got[len(ys) :]):
        np.testing.assert_allclose(g, kept[f"{k}.grad.{j}"], rtol=1e-8, atol=1e-9, err_msg=f"gradient {j}")


@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_configuration_round_trip(cls: type[Layer], k: int) -> None:
    layer, _ = make_layer(cls, k)
    if cls is layers.Lambda and callable(layer.fn):
        with pytest.raises(ConfigError, match="has no JSON"):
            layer.config()
        return
    result = round_trip(layer)
    assert result, str(result)


@pytest.mark.parametrize(("cls", "k"), FIRST)
def test_states_what_it_is(cls: type[Layer], k: int) -> None:
    assert cls.spec_name
    assert "->" in cls.signature
    formula = (cls.__doc__ or "").partition("\n")[0]
    assert "=" in formula or "←" in formula, "line 1 of the documentation is the formula"
    for name in (cls.spec_name, *cls.aliases):
        assert Layer.lookup(name) is cls
    schema = cls.schema()
    assert all(p.get("description") for n, p in schema["properties"].items() if n != "type")


@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_parameters_are_named_and_roles_known(cls: type[Layer], k: int) -> None:
    layer, _ = make_layer(cls, k)
    named = layer.variables()
    assert len(named) == len({id(v) for v in named.values()})
    assert all(v.role in ("weight", "bias", "normalization", "embedding", "buffer") for v in named.values())
    assert len(layer.parameters()) == sum(isinstance(v, Parameter) for v in named.values())


@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_an_attribute_is_saved_under_its_own_name_and_bias_is_the_parameter(cls: type[Layer], k: int) -> None:
    parts = [*make_layer(cls, k)[0].descend()]
    assert parts
    for layer in parts:
        own = {name for name, v in vars(layer).items() if isinstance(v, Variable)}
        assert own <= set(layer.variables())
        assert isinstance(vars(layer).get("bias"), Parameter | None)
        assert ("bias" in layer._attributes) == ("use_bias" in layer._attributes.values())
        if vars(layer).get("use_bias") is False:
            assert vars(layer).get("bias") is None


def test_a_file_of_a_model_saved_before_loads(tmp_path: Path) -> None:
    model = """{"type": "Sequential", "layers": [{"type": "Dense", "in_features": 4, "out_features": 3},
               {"type": "LayerNorm", "normalized_shape": 3},
               {"type": "Dense", "in_features": 3, "out_features": 2, "bias": false}]}"""
    arrays = {"layers.0.weight": np.ones((3, 4)), "layers.0.bias": np.full(3, 0.5), "layers.1.weight": np.ones(3),
              "layers.1.bias": np.full(3, 0.25), "layers.2.weight": np.ones((2, 3))}
    path = tmp_path / "model.safetensors"
    arrays = {name: a.astype(np.float32) for name, a in arrays.items()}
    files.write(path, arrays, {"format": "clnet 1", "config": model})
    first, norm, last = clnet.load(path).layers
    assert (first.bias.numpy() == 0.5).all() and (norm.bias.numpy() == 0.25).all() and last.bias is None
    assert first.config() == {"type": "Dense", "in_features": 4, "out_features": 3} and last.config()["bias"] is False


def test_embedding_padding_gets_no_gradient() -> None:
    layer = layers.Embedding(4, 3, padding_idx=1)
    assert (layer.weight.numpy()[1] == 0).all()
    layer(np.array([1, 2, 2, 1]))
    layer.backward(tensor(np.ones((4, 3), np.float32)))
    g = layer.weight.grad.numpy(checks.oracle())
    assert (g[1] == 0).all() and (g[2] == 2).all()


@pytest.mark.parametrize("optimizer", [None, Momentum(lr=0.1, momentum=0.5)])
def test_a_gradient_is_that_of_the_call_though_its_value_was_read(optimizer: Optimizer | None) -> None:
    """Reading runs updates that wait; the parameters of the call are still those that backward differentiates by."""
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    with on("numpy"):
        layer = Dense(3, 3)
        values = [p.numpy().astype(np.float64) for p in (layer.weight, layer.bias)]
        speed = [np.zeros_like(v) for v in values]
        for _ in range(4):
            layer.backward(layer(x).numpy())
            layer.update(0.1) if optimizer is None else optimizer.update(layer.parameters())
            g = x @ values[0].T + values[1]
            speed = [(0.5 * s if optimizer else 0) + d for s, d in zip(speed, (g.T @ x, g.sum(0)), strict=True)]
            values = [v - 0.1 * s for v, s in zip(values, speed, strict=True)]
        assert max(np.abs(p.numpy() - v).max() for p, v in zip((layer.weight, layer.bias), values, strict=True)) < 1e-6


@pytest.mark.parametrize("shape", [(784, 512), (3, 5), (0, 4), (), (2 * init.PIECE + 1,)])
def test_parameters_are_drawn_piece_by_piece_as_at_once(shape: tuple[int, ...]) -> None:
    whole = np.random.default_rng(3)
    with init.seeded(3):
        found = init.uniform(shape, 0.3), init.normal(shape, 2.0, 0.1)
    for x, expected in zip(found, (whole.uniform(-0.3, 0.3, shape), whole.normal(0.1, 2.0, shape)), strict=True):
        assert x.dtype == np.float32 and x.shape == shape
        np.testing.assert_array_equal(x, np.asarray(expected, np.float32))
