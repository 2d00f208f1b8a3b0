"""Layers that hold layers, masks, experts, decoders: on the reference, in models, through JSON and files; errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import init, layers
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.errors import ConfigError, DTypeError, ShapeError
from clnet.layers import Layer
from clnet.model import Graph, Input, Model, Sequential, load
from clnet.workbench.evidence import checks

DENSE = {"type": "Dense", "out_features": 3}


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def drawn(*shape: int) -> Any:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def values(t: Any) -> Any:
    return t.numpy(checks.oracle())


def mixture(**more: Any) -> Any:
    init.seed(4)
    return layers.MixtureOfExperts(experts=[DENSE] * 4, in_features=5, load_balance_weight=0.5, **more)


def test_functions_have_no_json() -> None:
    model = Sequential(layers.Dense(in_features=2, out_features=2), layers.Lambda(fn=F.square))
    with pytest.raises(ConfigError, match=r"Lambda.*has no JSON"):
        model.to_json()
    assert Layer.from_config(layers.Lambda(fn="tanh").config()).fn == "tanh"


@pytest.mark.parametrize(("call", "words"), [
    (lambda: layers.OctonionLinear(out_features=2)(np.zeros((2, 12))), "multiple of 8"),
    (lambda: layers.OctonionLinear(in_features=2, out_features=2)(np.zeros((2, 8))), "in_features = 16"),
    (lambda: layers.LocallyConnected2d(out_channels=1, input_size=(4, 4), kernel_size=3)(np.zeros((1, 2, 4, 5))),
     "width is 4; got 5"),
    (lambda: layers.PatchEmbedding(image_size=4, patch_size=2, in_channels=1)(np.zeros((1, 1, 6, 4))),
     "height is 4; got 6"),
    (lambda: layers.Input(shape=(2, 3))(np.zeros((4, 3, 2))), r"expected \(N, 2, 3\)"),
    (lambda: layers.Split(num_splits=2)(np.zeros((2, 3))), "split"),
    (lambda: layers.Split(num_splits=1, axis=2)(np.zeros((2, 3))), "axis"),
    (lambda: layers.Crop2d(crop=((1, 1), (0, 0)))(np.zeros((2, 3))), "larger than"),
    (lambda: layers.Pad(padding=((3, 0),), mode="reflect")(np.zeros((2, 3))), "at most 2 elements"),
    (lambda: layers.Masking()(np.zeros((2, 3))), r"x \(N, T, F\)"),
    (lambda: layers.TimeEmbedding(embedding_dim=4, output_dim=2)(np.zeros((2, 3))), "time steps"),
    (lambda: layers.SequenceLast()(np.zeros((2, 3, 4)), np.array([1, 2, 3])), "integer lengths"),
    (lambda: layers.GRU(hidden_size=2)(np.zeros((2, 3, 4)), lengths=np.array([1])), "lengths, integers"),
    (lambda: layers.GRU(hidden_size=2)(np.zeros((2, 3, 4)), np.array([1, 2]), lengths=np.array([1, 2])), "once"),
    (lambda: layers.CrossAttention(num_heads=2)(np.zeros((2, 3, 4))), "a context"),
    (lambda: layers.Lambda(fn="tanh", output_shape=(2,))(np.zeros((2, 3))), "from fn"),
    (lambda: layers.DecoderBlock(input_size=3, attention_size=2, feed_forward_size=2)(np.zeros((1, 2, 4))),
     "input_size is 3"),
])
def test_shape_errors(call: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        call()


def test_input_dtype() -> None:
    with pytest.raises(DTypeError, match="expected int32; got float32"):
        layers.Input(shape=(2,), dtype="int32")(np.zeros((1, 2)))
    assert layers.Input(shape=(2,))(tensor(np.zeros((1, 2), np.float16))).dtype == "float16"


WRAPPERS = {
    "bidirectional": ([layers.Bidirectional(layer=layers.GRU(hidden_size=3), merge="ave"), layers.SequenceLast()],
                      (4, 2)),
    "two walks": ([layers.Bidirectional(layer=layers.RNN(hidden_size=3), backward_layer=layers.LSTM(hidden_size=2)),
                   layers.Mean(axis=1)], (4, 2)),
    "time distributed": ([layers.TimeDistributed(layer=layers.Expert.ffn(2, 5)), layers.Flatten()], (4, 2)),
    "experts": ([layers.MixtureOfExperts(experts=[layers.Expert.ffn(2, 4), layers.Dense(out_features=2)], top_k=1),
                 layers.MixtureOfExperts(experts=[DENSE] * 3, router={"type": "Dense", "out_features": 3})], (2,)),
    "cut and padded": ([layers.Input(shape=(3, 4)), layers.Pad(padding=((1, 1), (2, 0)), mode="reflect"),
                        layers.Crop2d(crop=((1, 0), (0, 1))), layers.Split(num_splits=5, stack=True),
                        layers.LogVariance(axis=(1, -1))], (3, 4)),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_models_of_wrappers_are_stored(name: str, tmp_path: Path) -> None:
    parts, shape = WRAPPERS[name]
    model = Sequential(*parts).build(shape)
    again = Sequential.from_json(model.to_json())
    assert again.to_json() == model.to_json()
    model.save(tmp_path / "model.safetensors")
    x = drawn(3, *shape)
    assert (values(load(tmp_path / "model.safetensors")(x)) == values(model(x))).all()


def test_sparse_places_are_stored(tmp_path: Path) -> None:
    model = Sequential(layers.SparseLinear(in_features=8, out_features=6, sparsity=0.5, bias=False))
    model.save(tmp_path / "model.safetensors")
    init.seed(99)
    again = load(tmp_path / "model.safetensors")
    assert again.layers[0].values.size == 24
    row, column = model.layers[0].row_idx.numpy(), model.layers[0].col_idx.numpy()
    assert len({*zip(row.tolist(), column.tolist(), strict=True)}) == 24
    assert (np.bincount(row, minlength=6) == np.diff(model.layers[0].row_ptr.numpy())).all()
    assert (values(again(np.eye(8, dtype=np.float32))) == values(model(np.eye(8, dtype=np.float32)))).all()
    assert np.count_nonzero(values(again(np.eye(8, dtype=np.float32)))) == 24


def test_lengths_are_an_input_of_a_graph() -> None:
    model = Graph(inputs={"x": [4, 3], "lengths": {"shape": [], "dtype": "int32"}}, outputs=["last"],
                  nodes=[("lstm", layers.Bidirectional(layer=layers.LSTM(hidden_size=2, num_layers=2)),
                          ["x", "lengths"]),
                         ("last", layers.SequenceLast(), ["lstm", "lengths"])]).build()
    again = Graph.from_json(model.to_json())
    assert again.to_json() == model.to_json()
    x, lengths = drawn(2, 4, 3), np.array([4, 2], np.int32)
    changed = x.copy()
    changed[1, 2:] = 9.0
    assert (values(model(x, lengths)) == values(model(changed, lengths))).all()
    x_in, n_in = Input((4, 3)), Input((), "int32")
    assert Model([x_in, n_in], [layers.GRU(hidden_size=2)(x_in, n_in)])(x, lengths).shape == (2, 4, 2)


def test_the_mask_of_masking_goes_into_recurrent_layers() -> None:
    x = drawn(2, 4, 3)
    x[0, 2:], x[1, 1] = 0.0, 0.0
    masking, rnn = layers.Masking(), layers.RNN(hidden_size=2)
    y = values(rnn(masking(x), lengths=masking.mask))
    assert (y[0, 2:] == 0).all() and (y[1, 1] == 0).all()
    np.testing.assert_allclose(y[1, [0, 2, 3]], values(rnn(x[1:, [0, 2, 3]]))[0], atol=1e-12)


@pytest.mark.parametrize("cls", [layers.RNN, layers.LSTM, layers.GRU])
def test_padding_may_hold_anything(cls: type[Layer]) -> None:
    layer, x, lengths = cls(hidden_size=3), drawn(3, 4, 2), np.array([0, 2, 4], np.int32)
    x[0], x[1, 2:] = np.nan, np.inf
    for given in (lengths, np.arange(4) < lengths[:, None]):
        y = layer(x, lengths=given)
        slope = layer.backward(np.ones(y.shape, np.float32))
        found = checks.oracle().values([y, slope, *(p.grad for p in layer.parameters())])
        assert all(np.isfinite(v).all() for v in found)
        assert (found[0][0] == 0).all() and (found[1][0] == 0).all()


def test_states_go_through_both_walks() -> None:
    layer = layers.Bidirectional(layer=layers.LSTM(hidden_size=2, return_state=True), merge=None)
    x = drawn(3, 5, 2)
    a, b, *states = layer(x)
    assert [s.shape for s in (a, b, *states)] == [(3, 5, 2)] * 2 + [(1, 3, 2)] * 4
    np.testing.assert_allclose(values(states[0])[0], values(a)[:, -1], atol=1e-12)
    np.testing.assert_allclose(values(states[2])[0], values(b)[:, 0], atol=1e-12)
    again = layer(x, *states)
    assert np.abs(values(again[0]) - values(a)).max() > 1e-3 and np.abs(values(again[1]) - values(b)).max() > 1e-3


def test_load_balance_has_a_gradient_through_the_mean_share_alone() -> None:
    layer, x = mixture(top_k=1), drawn(6, 5)

    def loss(w: Any) -> float:
        layer.gate.weight.assign(w)
        layer(x)
        return float(values(layer.aux_loss))

    w = layer.gate.weight.numpy()
    layer(x)
    g = values(gradients(layer.aux_loss, [layer.gate.weight])[0])
    step = drawn(4, 5) * 1e-3
    assert (loss(w + step) - loss(w - step)) / 2 == pytest.approx(float((g * step).sum()), rel=1e-3)
    assert not gradients(layer.aux_loss, [layer.experts[0].weight], allow_unused=True)[0]


def test_hyperbolic_points_stay_inside() -> None:
    layer = layers.HyperbolicLinear(in_features=3, out_features=2, curvature=-4.0)
    layer.weight.assign(100 * drawn(2, 3))
    assert (np.linalg.norm(values(layer(100 * drawn(5, 3))), axis=1) <= 0.5).all()
    layer(np.zeros((1, 3), np.float32))
    slope = values(layer.backward(np.ones((1, 2), np.float32)))
    assert np.isfinite(slope).all(), "the gradient at the origin is finite"


def test_one_kernel_everywhere_is_a_convolution() -> None:
    conv = layers.Conv2d(in_channels=2, out_channels=3, kernel_size=(3, 2), stride=2, padding=1)
    local = layers.LocallyConnected2d(in_channels=2, out_channels=3, input_size=(5, 4), kernel_size=(3, 2), stride=2,
                                      padding=1, tied_bias=True)
    local.weight.assign(np.broadcast_to(conv.weight.numpy(), local.weight.shape))
    local.bias.assign(conv.bias.numpy())
    x = drawn(2, 2, 5, 4)
    np.testing.assert_allclose(values(local(x)), values(conv(x)), atol=1e-12)


def test_cross_attention_takes_images_and_shared_contexts() -> None:
    layer = layers.CrossAttention(query_dim=4, context_dim=3, num_heads=2)
    x, context = drawn(2, 4, 2, 3), drawn(5, 3)
    tokens = x.reshape(2, 4, 6).transpose(0, 2, 1)
    flat = values(layer(tokens.copy(), np.stack([context] * 2)))
    np.testing.assert_allclose(values(layer(x, context)), flat.transpose(0, 2, 1).reshape(2, 4, 2, 3), atol=1e-12)


def test_decoder_sees_no_future() -> None:
    layer = layers.TransformerDecoderBlock(d_model=4, num_heads=2, d_ff=6, dropout=0.0)
    x, memory = drawn(1, 4, 4), drawn(1, 3, 4)
    changed = x.copy()
    changed[:, 2:] += 1.0
    a, b = values(layer(x, memory)), values(layer(changed, memory))
    assert (a[:, :2] == b[:, :2]).all() and (a[:, 2:] != b[:, 2:]).any()
    mask = np.array([[True, True, False]] * 4)
    np.testing.assert_allclose(values(layer(x, memory, None, mask)), values(layer(x, memory[:, :2])), atol=1e-12)


def test_dropout_in_decoders_is_off_in_evaluation() -> None:
    layer = layers.DecoderBlock(attention_size=3, feed_forward_size=5, dropout=0.5)
    x = drawn(2, 3, 4)
    assert (values(layer(x)) != values(layer(x))).any()
    layer.eval()
    assert (values(layer(x)) == values(layer(x))).all()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: layers.MixtureOfExperts(experts=[DENSE] * 2, top_k=3), "top_k=3.*number of experts, 2"),
    (lambda: layers.Bidirectional(layer=DENSE), "RNN, LSTM or GRU; got Dense"),
    (lambda: layers.Bidirectional(layer=layers.RNN(hidden_size=2),
                                  backward_layer=layers.RNN(hidden_size=2, return_state=True)), "as in layer"),
    (lambda: layers.Split(), "either num_splits or sizes"),
    (lambda: layers.Split(sizes=(1, 2), stack=True), "stack"),
    (lambda: layers.Pad(padding=((1, -1),)), "padding"),
    (lambda: layers.Pad(padding=((1, 1),), mode="mirror"), "mirror"),
    (lambda: layers.PatchEmbedding(image_size=5, patch_size=2), "multiples of patch_size = 2"),
    (lambda: layers.LocallyConnected2d(out_channels=1, input_size=(2, 2), kernel_size=3), "fits into"),
    (lambda: layers.HyperbolicLinear(out_features=2, curvature=0.5), "curvature"),
    (lambda: layers.SparseLinear(out_features=2, sparsity=1.0), "sparsity"),
    (lambda: layers.CrossAttention(query_dim=5, context_dim=2, num_heads=2), "multiple of num_heads"),
    (lambda: layers.GroupedQueryAttention(embed_dim=4, num_heads=2), "num_kv_heads"),
    (lambda: layers.Input(shape=(2,), dtype="float31"), "float31"),
    (lambda: layers.GaussianNoise(std=-1.0), "std"),
])
def test_configuration_errors(call: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()
