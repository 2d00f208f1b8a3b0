"""Softmax, normalisations, cross entropy and activations: PyTorch's values, hard inputs, what is fused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import Tensor, realize, tensor
from clnet.engine.explain import explain
from clnet.engine.reference import NumpyEngine
from clnet.errors import DataError
from clnet.ops import activations, losses, normalization

ORACLE = NumpyEngine()
rng = np.random.default_rng(7)


def near(a: Any, b: Any, tol: float = 2e-5) -> None:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert a.shape == b.shape
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def against_torch(ours: Any, theirs: Any, *arrays: np.ndarray[Any, Any]) -> None:
    """Values and all gradients of f(arrays), contracted with one random cotangent, PyTorch in float64."""
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    xs = [tensor(a.astype(np.float32)) for a in arrays]
    ts = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]
    y, t = ours(*xs), theirs(*ts)
    g = np.random.default_rng(3).standard_normal(t.shape)
    (t * torch.tensor(g)).sum().backward()
    found = gradients(F.sum(y * tensor(g.astype(np.float32))), xs)
    realize(y, *found)
    near(y.numpy(), t.detach().numpy())
    for mine, leaf in zip(found, ts, strict=True):
        near(mine.numpy(), leaf.grad.numpy(), 1e-4)


def slow_compiler(engine: Any, more: bool) -> None:
    """PoCL spends half a second on a kernel: further sizes of the same ops are the other devices' part."""
    if more and engine.device.runtime == "pocl":
        pytest.skip("one size is enough where compiling is slow")


def torch_functional() -> Any:
    return pytest.importorskip("torch", reason="the oracle is PyTorch").nn.functional


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "sigmoid", "tanh", "gelu", "silu", "softplus", "elu", "celu",
                                  "selu", "relu6", "mish", "softsign"])
def test_activations_are_pytorchs(engine: Any, name: str) -> None:
    theirs = getattr(torch_functional(), name)
    against_torch(activations.activation(name), theirs, 3 * normal(4, 37))


def test_hard_activations_and_gelu_tanh(engine: Any) -> None:
    f = torch_functional()
    for ours, theirs in ((activations.gelu_tanh, lambda x: f.gelu(x, approximate="tanh")),
                         (activations.hard_tanh, f.hardtanh), (activations.hard_sigmoid, f.hardsigmoid),
                         (activations.hard_swish, f.hardswish)):
        against_torch(ours, theirs, 3 * normal(50))


@pytest.mark.parametrize("name", [n for n in activations.ACTIVATIONS if "softmax" not in n])
def test_activations_far_out(engine: Any, name: str) -> None:
    """No value and no derivative is NaN unless the input is."""
    x = tensor(np.array([-np.inf, -1e30, -1e4, -200, -88, -1e-30, 0, 1e-30, 88, 200, 1e4, 1e30, np.inf, np.nan],
                        np.float32))
    y = activations.activation(name)(x)
    (g,) = gradients(F.sum(y), [x])
    for t in (y, g):
        value, oracle = t.numpy(), t.numpy(ORACLE)
        assert not np.isnan(value[:-1]).any()
        np.testing.assert_allclose(value[:-1], oracle[:-1], rtol=2e-5, atol=2e-6)
    assert np.isnan(y.numpy()[-1])


@pytest.mark.parametrize("shape", [(2, 3, 33), (3, 1), (5, 7), (40, 130), (2, 9000)], ids=str)
def test_softmax_is_pytorchs(engine: Any, shape: tuple[int, ...]) -> None:
    slow_compiler(engine, shape != (2, 3, 33))
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch")
    against_torch(lambda x: normalization.softmax(x, temperature=0.5), lambda x: torch.softmax(x / 0.5, -1),
                  normal(*shape))
    against_torch(normalization.log_softmax, lambda x: torch.log_softmax(x, -1), normal(*shape))
    against_torch(lambda x: normalization.softmax(x, axis=0), lambda x: torch.softmax(x, 0), normal(*shape))


def test_softmax_of_hard_rows(engine: Any) -> None:
    inf = math.inf
    rows = np.array([[1e4, -1e4, 0], [-1e4, -1e4, -1e4], [-inf, 0, -inf], [-inf] * 3, [2, 2, 2], [np.nan, 0, 1]],
                    np.float32)
    y = normalization.softmax(tensor(rows)).numpy()
    near(y[:5], [[1, 0, 0], [1 / 3] * 3, [0, 1, 0], [0, 0, 0], [1 / 3] * 3])
    assert np.isnan(y[5]).all()
    z = normalization.log_softmax(tensor(rows)).numpy()
    near(z[:5], [[0, -2e4, -1e4], [-math.log(3)] * 3, [-inf, 0, -inf], [-inf] * 3, [-math.log(3)] * 3])


def test_masked_softmax(engine: Any) -> None:
    x, mask = tensor(normal(4, 20).astype(np.float32)), rng.random((4, 20)) > 0.4
    mask[2] = False
    y = normalization.softmax(x, mask=tensor(mask))
    near(y.numpy(), y.numpy(ORACLE))
    assert (y.numpy()[~mask] == 0).all() and (y.numpy()[2] == 0).all()
    (g,) = gradients(F.sum(y * y), [x])
    near(g.numpy(), g.numpy(ORACLE))
    assert (g.numpy()[~mask] == 0).all()
    added = np.where(mask, 0, -np.inf).astype(np.float32)
    near(normalization.softmax(x, mask=tensor(added)).numpy(), y.numpy())


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 40), (65, 130), (4, 1)], ids=str)
def test_layer_and_rms_norm_are_pytorchs(engine: Any, shape: tuple[int, ...]) -> None:
    slow_compiler(engine, shape != (5, 7))
    f, n = torch_functional(), shape[-1:]
    against_torch(normalization.layer_norm, lambda x, w, b: f.layer_norm(x, n, w, b), normal(*shape), normal(*n),
                  normal(*n))
    against_torch(lambda x: normalization.layer_norm(x), lambda x: f.layer_norm(x, n), normal(*shape))
    against_torch(lambda x, w: normalization.rms_norm(x, w, eps=1e-3), lambda x, w: f.rms_norm(x, n, w, 1e-3),
                  normal(*shape), normal(*n))


def test_normalisation_of_several_axes(engine: Any) -> None:
    f = torch_functional()
    against_torch(normalization.layer_norm, lambda x, w, b: f.layer_norm(x, (3, 8), w, b), normal(4, 3, 8),
                  normal(3, 8), normal(3, 8))
    against_torch(lambda x, w, b: F.group_norm(x, 3, w, b), lambda x, w, b: f.group_norm(x, 3, w, b),
                  normal(2, 6, 5, 4), normal(6), normal(6))
    against_torch(F.instance_norm, lambda x, w, b: f.instance_norm(x, weight=w, bias=b), normal(2, 3, 5, 4),
                  normal(3), normal(3))


def test_batch_norm_is_pytorchs(engine: Any) -> None:
    torch, f = pytest.importorskip("torch", reason="the oracle is PyTorch"), torch_functional()
    x, w, b = normal(6, 3, 5, 4), normal(3), normal(3)
    against_torch(lambda x, w, b: F.batch_norm_train(x, w, b)[0],
                  lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True), x, w, b)
    m, v = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    f.batch_norm(torch.tensor(x), m, v, training=True, momentum=1.0)
    _, mean, var = F.batch_norm_train(x.astype(np.float32))
    near(mean.numpy(), m.numpy())
    near(var.numpy(), v.numpy())
    against_torch(lambda x, w, b: F.batch_norm(x, w, b, tensor(m.numpy().astype("f4")),
                                              tensor(v.numpy().astype("f4"))),
                  lambda x, w, b: f.batch_norm(x, m, v, w, b), x, w, b)


@pytest.mark.parametrize(("classes", "smoothing"), [(10, 0.0), (10, 0.1), (1, 0.0), (133, 0.2), (9000, 0.1)])
def test_cross_entropy_is_pytorchs(engine: Any, classes: int, smoothing: float) -> None:
    slow_compiler(engine, classes != 133)
    torch, f = pytest.importorskip("torch", reason="the oracle is PyTorch"), torch_functional()
    labels = rng.integers(0, classes, 9)
    labels[2] = -100
    theirs = torch.tensor(labels)
    against_torch(lambda x: losses.cross_entropy(x, tensor(labels), smoothing),
                  lambda x: f.cross_entropy(x, theirs, reduction="none", label_smoothing=smoothing),
                  3 * normal(9, classes))


def test_cross_entropy_with_weights_and_probabilities(engine: Any) -> None:
    torch, f = pytest.importorskip("torch", reason="the oracle is PyTorch"), torch_functional()
    labels, w, q = rng.integers(0, 5, 9), rng.uniform(0.5, 2, 5), rng.dirichlet(np.ones(5), 9)
    theirs = torch.tensor(labels)
    against_torch(lambda x: losses.cross_entropy(x, tensor(labels), 0.1, weight=tensor(w.astype("f4"))),
                  lambda x: f.cross_entropy(x, theirs, torch.tensor(w), reduction="none", label_smoothing=0.1),
                  normal(9, 5))
    against_torch(losses.cross_entropy, lambda x, q: f.cross_entropy(x, q, reduction="none"), normal(9, 5), q)
    near(losses.label_weights(labels, w.astype("f4")).numpy(), w[labels])
    against_torch(losses.binary_cross_entropy_with_logits,
                  lambda x, y: f.binary_cross_entropy_with_logits(x, y, reduction="none"), 9 * normal(40),
                  rng.random(40))


def test_cross_entropy_of_hard_rows(engine: Any) -> None:
    x = tensor(np.array([[1e4, -1e4], [-1e4, 1e4], [-np.inf, 0], [-np.inf, -np.inf]], np.float32))
    y = losses.cross_entropy(x, np.zeros(4, np.int32))
    near(y.numpy(), [0, 2e4, np.inf, np.inf])
    (g,) = gradients(F.sum(y), [x])
    near(g.numpy(), [[0, 0], [-1, 1], [-1, 1], [-1, 0]])


def test_labels_that_are_no_class(engine: Any) -> None:
    x = tensor(normal(4, 10).astype(np.float32))
    with pytest.raises(DataError, match=r"expected labels in \[0, 10\); got 12 at index 3"):
        losses.cross_entropy(x, np.array([1, 2, 3, 12]))
    hidden = tensor(np.array([1, 2, 3, 11])) + 1
    y = losses.cross_entropy(x, hidden)
    assert np.isnan(y.numpy()).tolist() == [False, False, False, True]
    assert np.isnan(gradients(F.sum(y), [x])[0].numpy()).all(1).tolist() == [False, False, False, True]


def test_one_launch_each(engine: Any) -> None:
    """Forward and backward along the last axis are single row kernels, with what follows in their epilogue."""
    if not engine.compiles:
        pytest.skip("the NumPy engine has no launches")
    x, w = tensor(normal(64, 48).astype("f4")), tensor(normal(48).astype("f4"))
    y = F.relu(normalization.layer_norm(x, w, w) + x)
    assert len(explain(y).launches) == 1
    assert len(explain(normalization.softmax(x)).launches) == 1
    assert len(explain(gradients(normalization.softmax(x), [x], x)[0]).launches) == 2
    loss = F.mean(losses.cross_entropy(x, rng.integers(0, 48, 64)))
    assert len(explain(loss, *gradients(loss, [x])).launches) == 2


def test_empty_batch(engine: Any) -> None:
    x = tensor(np.zeros((0, 5), np.float32))
    for y in (normalization.softmax(x), normalization.log_softmax(x), normalization.layer_norm(x),
              normalization.rms_norm(x)):
        assert y.numpy().shape == (0, 5)
        assert gradients(F.sum(y), [x])[0].numpy().shape == (0, 5)
    assert losses.cross_entropy(x, np.zeros(0, np.int32)).numpy().shape == (0,)


def test_second_derivative(engine: Any) -> None:
    x, w = tensor(normal(6, 40).astype("f4")), tensor(normal(40).astype("f4"))

    def twice(y: Tensor) -> Tensor:
        (g,) = gradients(F.sum(y * w), [x])
        return gradients(F.sum(g * g), [x])[0]

    for y in (normalization.softmax(x), normalization.log_softmax(x), normalization.layer_norm(x, w, w),
              normalization.rms_norm(x, w)):
        near(twice(y).numpy(), twice(y).numpy(ORACLE), 1e-4)


@pytest.mark.parametrize("where", [0, 11, 23])
def test_statistics_of_a_batch_bear_a_large_mean_and_an_outlier(engine: Any, where: int) -> None:
    """One pass over x, and as accurate as two:
    sums of differences lose what their offset's square exceeds the variance by.
    """
    x = np.random.default_rng(3).standard_normal((4, 3, 40, 40)).astype(np.float32) + 100
    x[where // 8, :, where % 8 * 5, 39 if where == 23 else 0] += 3000
    _, center, spread = F.batch_norm_train(tensor(x))
    wide = x.astype(np.float64)
    np.testing.assert_allclose(center.numpy(), wide.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(spread.numpy(), wide.var((0, 2, 3), ddof=1), rtol=1e-5)
