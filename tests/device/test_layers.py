"""Every registered layer on every device: parity, gradients, learning, train and eval, configuration, PyTorch's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import layers
from clnet.autodiff import gradients
from clnet.errors import ConfigError, DataError, ShapeError
from clnet.layers import Layer
from clnet.state import Parameter
from clnet.tensor import tensor
from clnet.workbench import checks, golden
from clnet.workbench.layer_checks import layer_gradient, layer_parity, learns, round_trip
from clnet.workbench.probe import outputs_of
from clnet.workbench.registry import layer_example, load_all, make_layer

load_all()
EXAMPLES = [pytest.param(cls, k, id=f"{name}-{k}") for name, cls in sorted(Layer.registry.items()) for k in range(len(cls.examples))]
# On devices the first example of each; the others have golden values, and are run there with -m slow.
HEAVY = [pytest.param(*p.values, id=p.id, marks=[pytest.mark.slow] if p.values[1] else []) for p in EXAMPLES]
FIRST = [p for p in EXAMPLES if p.values[1] == 0]
KEPT = [p for p in EXAMPLES if golden.path("layer", p.values[0].__name__).is_file()]
# What evaluation does otherwise than training.
MODES = [p for p in EXAMPLES if p.values[0].__name__ in ("BatchNorm", "Dropout") or any("dropout" in f for f, _ in p.values[0].examples)]


def test_every_layer_has_examples() -> None:
    assert not [name for name, cls in Layer.registry.items() if cls.__module__.startswith("clnet.layers") and not cls.examples]


@pytest.mark.device
@pytest.mark.parametrize(("cls", "k"), HEAVY)
def test_parity(cls: type[Layer], k: int, device: Any) -> None:
    result = layer_parity(cls, k, device)
    assert result, str(result)


@pytest.mark.device
@pytest.mark.parametrize(("cls", "k"), HEAVY)
def test_gradient(cls: type[Layer], k: int, device: Any) -> None:
    result = layer_gradient(cls, k, device)
    assert result, str(result)


@pytest.mark.device
@pytest.mark.parametrize(("cls", "k"), FIRST)
def test_update_changes_every_parameter(cls: type[Layer], k: int, device: Any) -> None:
    if not make_layer(cls, k)[0].parameters():
        pytest.skip("no parameters")
    result = learns(cls, k)
    assert result, str(result)


@pytest.mark.device
@pytest.mark.parametrize(("cls", "k"), MODES)
def test_evaluation_parity(cls: type[Layer], k: int, device: Any) -> None:
    result = layer_parity(cls, k, device, train=False)
    assert result, str(result)


# --- the reference against PyTorch, in float64
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


@pytest.mark.device
@pytest.mark.parametrize("k", [0, 1])
def test_batch_norm_keeps_statistics(k: int, device: Any) -> None:
    kept = golden.read("layer", "BatchNorm")
    layer, inputs = make_layer(layers.BatchNorm, k)
    layer(*inputs)
    np.testing.assert_allclose(layer.running_mean.numpy(), kept[f"{k}.running_mean"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), kept[f"{k}.running_var"], rtol=1e-5, atol=1e-6)
    before = layer.running_mean.numpy()
    np.testing.assert_allclose(layer.eval()(*inputs).numpy(), kept[f"{k}.eval"], rtol=1e-5, atol=1e-5)
    assert (layer.running_mean.numpy() == before).all()


# --- what every layer does without a device
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
    assert any(sign in (cls.__doc__ or "").partition("\n")[0] for sign in "=←"), "line 1 of the documentation is the formula"
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


def test_train_reaches_parts_made_before_and_after() -> None:
    block = layers.TransformerEncoderBlock(num_heads=2, d_ff=6)
    block.eval()
    block(np.zeros((1, 2, 4), np.float32))
    parts = [block.self_attn, block.self_attn.drop, block.drop, block.norm1]
    assert not any(p.training for p in parts)
    block.train()
    assert all(p.training for p in parts)


# --- single layers
@pytest.mark.device
def test_dropout_drops_a_share_and_scales_the_rest(device: Any) -> None:
    layer = layers.Dropout(p=0.25)
    x = np.ones((100, 200), np.float32)
    a, b = layer(x).numpy(), layer(x).numpy()
    assert set(np.unique(a)) == {0.0, np.float32(4 / 3)}
    assert abs((a == 0).mean() - 0.25) < 0.015 and abs((b == 0).mean() - 0.25) < 0.015
    assert (a != b).any(), "every call draws another mask"
    assert (layer.eval()(x).numpy() == 1).all()


@pytest.mark.device
def test_dropout_backward_uses_the_mask_of_forward(device: Any) -> None:
    layer = layers.Dropout(p=0.5)
    y = layer(np.ones((40, 9), np.float32))
    assert (layer.backward(tensor(np.ones((40, 9), np.float32))).numpy() == y.numpy()).all()


@pytest.mark.device
def test_dropout_is_the_same_on_every_engine(device: Any) -> None:
    layer = layers.Dropout(p=0.5)
    y = layer(np.ones((7, 9), np.float32))
    assert (y.numpy(checks.oracle()) == y.numpy()).all()


def test_embedding_padding_gets_no_gradient() -> None:
    layer = layers.Embedding(4, 3, padding_idx=1)
    assert (layer.weight.numpy()[1] == 0).all()
    layer(np.array([1, 2, 2, 1]))
    layer.backward(tensor(np.ones((4, 3), np.float32)))
    g = layer.weight.grad.numpy(checks.oracle())
    assert (g[1] == 0).all() and (g[2] == 2).all()


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
