"""clnet.Engine: the specification's names, tensors that stay, settings.
Values and backwards are with all ops' in test_golden.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import ConfigError, ShapeError
from clnet.facade import Activation, Engine, Role

RNG = np.random.default_rng(4)


def draw(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.fixture
def facade(engine: Any) -> Any:
    return Engine(engine)


def test_gemm_is_the_blas_one(facade: Any) -> None:
    a, b, c = draw(4, 5), draw(3, 4), draw(5, 3)
    y = facade.read(facade.gemm(a, b, c, alpha=0.5, beta=-2.0, transpose_a=True, transpose_b=True))
    np.testing.assert_allclose(y, 0.5 * a.T @ b.T - 2 * c, rtol=1e-5, atol=1e-6)
    nan = np.full((5, 3), np.nan, np.float32)
    assert np.isfinite(facade.read(facade.gemm(a, b, nan, transpose_a=True, transpose_b=True))).all()
    da, db, dc = facade.read(*facade.gemm_backward(np.ones((5, 3), np.float32), a, b, c, alpha=0.5, beta=-2.0,
                                                   transpose_a=True, transpose_b=True))
    g = np.ones((5, 3))
    np.testing.assert_allclose(da, 0.5 * (g @ b).T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(db, 0.5 * (a @ g).T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dc, -2 * g, rtol=1e-5)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((1, 5), (5, 1))])
def test_gemm_of_odd_sizes(facade: Any, shapes: Any) -> None:
    a, b = (draw(*s) for s in shapes)
    np.testing.assert_allclose(facade.read(facade.gemm(a, b)), a @ b, rtol=1e-5, atol=1e-6)


def test_a_fused_operation_is_its_parts(facade: Any) -> None:
    x, w, b, g = draw(4, 6), draw(5, 6), draw(5), draw(4, 5)
    for act in Activation:
        fused = facade.fused_linear(x, w, b, activation=act)
        parts = facade.activate(facade.bias_add(facade.gemm(x, w, transpose_b=True), b), activation=act.value)
        np.testing.assert_allclose(*facade.read(fused, parts), rtol=1e-6, atol=1e-6)
        dx, dw, db = facade.read(*facade.fused_linear_backward(g, x, w, b, activation=act))
        z = facade.bias_add(facade.gemm(x, w, transpose_b=True), b)
        gz = facade.read(facade.activate_backward(g, z, activation=act))
        np.testing.assert_allclose(dx, gz @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(dw, gz.T @ x, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(db, gz.sum(0), rtol=1e-4, atol=1e-5)


def test_batch_norm_of_given_statistics(facade: Any) -> None:
    x, mean, var = draw(4, 3, 2), draw(3), np.abs(draw(3)) + 0.5
    y, m, v = facade.read(*facade.fused_batch_norm(x, None, None, mean, var, training=False, activation="relu"))
    np.testing.assert_allclose(y, np.maximum((x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5), 0), rtol=1e-5,
                               atol=1e-6)
    np.testing.assert_array_equal(m, mean)
    np.testing.assert_array_equal(v, var)
    with pytest.raises(ConfigError, match="running_mean"):
        facade.fused_batch_norm(x, training=False)


def test_lstm_cell_backward_takes_both_cotangents(facade: Any) -> None:
    x, h, c, w, dh, dc = draw(2, 12), draw(2, 3), draw(2, 3), draw(12, 3), draw(2, 3), draw(2, 3)
    both = facade.read(*facade.lstm_cell_backward((dh, dc), x, h, c, w))
    zero = np.zeros_like(dh)
    parts = [facade.read(*facade.lstm_cell_backward(g, x, h, c, w)) for g in ((dh, zero), (zero, dc))]
    for k, grad in enumerate(both):
        np.testing.assert_allclose(grad, parts[0][k] + parts[1][k], rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match="at most 2"):
        facade.lstm_cell_backward((dh, dc, dc), x, h, c, w)


# --- tensors that stay
def test_a_registered_tensor_is_uploaded_once(facade: Any) -> None:
    w, x = draw(64, 64), draw(2, 64)
    assert facade.register_persistent_tensor(w, Role.WEIGHTS) is w
    first = facade.read(facade.fused_linear(x, w))
    if facade.supports_gpu:
        before = facade.engine.transfers.snapshot().bytes_to_device
        facade.read(facade.fused_linear(x, w))
        assert facade.engine.transfers.snapshot().bytes_to_device - before == x.nbytes
    old = w.copy()
    w *= 2
    np.testing.assert_array_equal(facade.read(facade.fused_linear(x, w)), first)
    facade.invalidate_persistent_tensor(w)
    np.testing.assert_allclose(facade.read(facade.fused_linear(x, w)), x @ (2 * old).T, rtol=1e-4, atol=1e-4)
    assert [(p.array is w, p.role) for p in facade.persistent_tensors] == [(True, Role.WEIGHTS)]
    facade.unregister_persistent_tensor(w)
    w *= 2
    np.testing.assert_allclose(facade.read(facade.fused_linear(x, w)), x @ (4 * old).T, rtol=1e-4, atol=1e-4)
    assert not facade.persistent_tensors


def test_registering_refuses_what_it_cannot_keep(facade: Any) -> None:
    w = draw(2, 2)
    for wrong in (lambda: facade.register_persistent_tensor([1.0]),
                  lambda: facade.register_persistent_tensor(w, "weight"),
                  lambda: facade.invalidate_persistent_tensor(w), lambda: facade.unregister_persistent_tensor(w)):
        with pytest.raises(ConfigError, match=r"expected .* got .*;"):
            wrong()
    facade.register_persistent_tensor(w, "biases")
    facade.close()
    assert not facade.persistent_tensors


def test_errors_come_from_the_call(facade: Any) -> None:
    with pytest.raises(ShapeError):
        facade.gemm(draw(2, 3), draw(2, 3))
    with pytest.raises(ConfigError, match="relu"):
        facade.fused_linear(draw(2, 3), draw(4, 3), activation="rleu")


def test_inside_the_block_everything_runs_there(engine: Any) -> None:
    from clnet.engine import current

    with Engine("numpy") as host:
        assert current().device.is_host
        assert not host.supports_gpu
    assert current() is engine
    assert clnet.Engine is Engine
