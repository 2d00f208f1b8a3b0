"""clnet.Engine: the specification's names, tensors that stay, settings. Values and backwards are with all ops' in test_golden.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet.errors import ConfigError, ShapeError
from clnet.facade import OPERATIONS, Activation, Backward, Engine, Role
from clnet.workbench import catalog, registry

RNG = np.random.default_rng(4)


def draw(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.fixture
def engine(device: Any) -> Any:
    return Engine(device)


# Names of the specification that are operations of an engine (layers, losses and optimizers have registries of their own).
WANTED = """
FusedLinear FusedLinearBackward FusedConv2D FusedConv3D FusedBatchNorm FusedLayerNorm FusedNorm FusedAttention FusedRNN ScaledDotProductAttention
ScaledDotProductAttentionBackward FlashAttention FlashAttentionBackward GroupedQueryAttention GroupedQueryAttentionBackward RMSNorm RMSNormBackward
GeGLU GeGLUBackward ScatterAdd ScatterAddBackward ScatterMean ScatterMeanBackward ScatterMax ScatterMaxBackward TensorMatMul BatchMatMul
TensorBroadcastAdd GemmBias GemmBiasRelu GemmBiasGelu GemmBiasSigmoid GemmBiasTanh BiasAdd FusedGemmBiasActivation FusedLayerNormActivation
FusedResidualLayerNorm FusedScaledSoftmax FusedBiasDropout conv2d_backward_input conv2d_backward_weights conv3d_backward_input conv3d_backward_weights
batchnorm_backward layernorm_backward groupnorm_backward instancenorm_backward maxpool2d_backward avgpool2d_backward global_avgpool_backward
global_maxpool_backward adaptive_avgpool_backward mse_backward cross_entropy_backward bce_backward embedding_backward dropout_backward lstm_cell_forward
lstm_cell_backward lstm_gates_precompute gru_cell_forward gru_cell_backward scatter_add_batched sparse_mm_backward message_passing_backward GEMM GEMV
"""


def test_every_name_of_the_specification_is_there_and_measured() -> None:
    names = {o.spec_name for o in OPERATIONS.values()}
    assert not set(WANTED.split()) - names
    rows = {s.name for s in registry.subjects(["op"])}
    goals = {g.name for g in catalog.goals("op")}
    assert set(OPERATIONS) <= rows
    assert set(OPERATIONS) <= goals


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_documented_typed_and_has_a_backward(name: str) -> None:
    operation = OPERATIONS[name]
    assert (operation.__doc__ or "").strip() and operation.examples
    if not isinstance(operation, Backward):
        assert operation.function.__annotations__["return"]
        assert callable(getattr(Engine("numpy"), f"{name}_backward"))


def test_gemm_is_the_blas_one(engine: Any) -> None:
    a, b, c = draw(4, 5), draw(3, 4), draw(5, 3)
    y = engine.read(engine.gemm(a, b, c, alpha=0.5, beta=-2.0, transpose_a=True, transpose_b=True))
    np.testing.assert_allclose(y, 0.5 * a.T @ b.T - 2 * c, rtol=1e-5, atol=1e-6)
    nan = np.full((5, 3), np.nan, np.float32)
    assert np.isfinite(engine.read(engine.gemm(a, b, nan, transpose_a=True, transpose_b=True))).all()
    da, db, dc = engine.read(*engine.gemm_backward(np.ones((5, 3), np.float32), a, b, c, alpha=0.5, beta=-2.0, transpose_a=True, transpose_b=True))
    g = np.ones((5, 3))
    np.testing.assert_allclose(da, 0.5 * (g @ b).T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(db, 0.5 * (a @ g).T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dc, -2 * g, rtol=1e-5)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((1, 5), (5, 1))])
def test_gemm_of_odd_sizes(engine: Any, shapes: Any) -> None:
    a, b = (draw(*s) for s in shapes)
    np.testing.assert_allclose(engine.read(engine.gemm(a, b)), a @ b, rtol=1e-5, atol=1e-6)


def test_a_fused_operation_is_its_parts(engine: Any) -> None:
    x, w, b, g = draw(4, 6), draw(5, 6), draw(5), draw(4, 5)
    for act in Activation:
        fused = engine.fused_linear(x, w, b, activation=act)
        parts = engine.activate(engine.bias_add(engine.gemm(x, w, transpose_b=True), b), activation=act.value)
        np.testing.assert_allclose(*engine.read(fused, parts), rtol=1e-6, atol=1e-6)
        dx, dw, db = engine.read(*engine.fused_linear_backward(g, x, w, b, activation=act))
        z = engine.bias_add(engine.gemm(x, w, transpose_b=True), b)
        gz = engine.read(engine.activate_backward(g, z, activation=act))
        np.testing.assert_allclose(dx, gz @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(dw, gz.T @ x, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(db, gz.sum(0), rtol=1e-4, atol=1e-5)


def test_batch_norm_of_given_statistics(engine: Any) -> None:
    x, mean, var = draw(4, 3, 2), draw(3), np.abs(draw(3)) + 0.5
    y, m, v = engine.read(*engine.fused_batch_norm(x, None, None, mean, var, training=False, activation="relu"))
    np.testing.assert_allclose(y, np.maximum((x - mean[:, None]) / np.sqrt(var[:, None] + 1e-5), 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(m, mean)
    np.testing.assert_array_equal(v, var)
    with pytest.raises(ConfigError, match="running_mean"):
        engine.fused_batch_norm(x, training=False)


def test_lstm_cell_backward_takes_both_cotangents(engine: Any) -> None:
    x, h, c, w, dh, dc = draw(2, 12), draw(2, 3), draw(2, 3), draw(12, 3), draw(2, 3), draw(2, 3)
    both = engine.read(*engine.lstm_cell_backward((dh, dc), x, h, c, w))
    zero = np.zeros_like(dh)
    parts = [engine.read(*engine.lstm_cell_backward(g, x, h, c, w)) for g in ((dh, zero), (zero, dc))]
    for k, grad in enumerate(both):
        np.testing.assert_allclose(grad, parts[0][k] + parts[1][k], rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match="at most 2"):
        engine.lstm_cell_backward((dh, dc, dc), x, h, c, w)


# --- tensors that stay
def test_a_registered_tensor_is_uploaded_once(engine: Any) -> None:
    w, x = draw(64, 64), draw(2, 64)
    assert engine.register_persistent_tensor(w, Role.WEIGHTS) is w
    first = engine.read(engine.fused_linear(x, w))
    if engine.supports_gpu:
        before = engine.engine.transfers.snapshot().bytes_to_device
        engine.read(engine.fused_linear(x, w))
        assert engine.engine.transfers.snapshot().bytes_to_device - before == x.nbytes
    old = w.copy()
    w *= 2
    np.testing.assert_array_equal(engine.read(engine.fused_linear(x, w)), first)
    engine.invalidate_persistent_tensor(w)
    np.testing.assert_allclose(engine.read(engine.fused_linear(x, w)), x @ (2 * old).T, rtol=1e-4, atol=1e-4)
    assert [(p.array is w, p.role) for p in engine.persistent_tensors] == [(True, Role.WEIGHTS)]
    engine.unregister_persistent_tensor(w)
    w *= 2
    np.testing.assert_allclose(engine.read(engine.fused_linear(x, w)), x @ (4 * old).T, rtol=1e-4, atol=1e-4)
    assert not engine.persistent_tensors


def test_registering_refuses_what_it_cannot_keep(engine: Any) -> None:
    w = draw(2, 2)
    for wrong in (lambda: engine.register_persistent_tensor([1.0]), lambda: engine.register_persistent_tensor(w, "weight"),
                  lambda: engine.invalidate_persistent_tensor(w), lambda: engine.unregister_persistent_tensor(w)):
        with pytest.raises(ConfigError, match=r"expected .* got .*;"):
            wrong()
    engine.register_persistent_tensor(w, "biases")
    engine.close()
    assert not engine.persistent_tensors


def test_errors_come_from_the_call(engine: Any) -> None:
    with pytest.raises(ShapeError):
        engine.gemm(draw(2, 3), draw(2, 3))
    with pytest.raises(ConfigError, match="relu"):
        engine.fused_linear(draw(2, 3), draw(4, 3), activation="rleu")


def test_inside_the_block_everything_runs_there(device: Any) -> None:
    from clnet.engine import current

    with Engine("numpy") as host:
        assert current().device.is_host
        assert not host.supports_gpu
    assert current() is device
    assert clnet.Engine is Engine
