"""Products, with what is fused behind them."""

from __future__ import annotations

from .. import ops as F
from ..core.tensor import Tensor, TensorLike, as_tensor
from .operation import Activation, activated, operation


def _turned(a: TensorLike, transpose: bool) -> Tensor:
    return F.transpose(as_tensor(a)) if transpose else as_tensor(a)


@operation("GEMM", ([(5, 4), (4, 3)], {}),
           ([(4, 5), (3, 4), (5, 3)], dict(alpha=0.5, beta=-1.5, transpose_a=True, transpose_b=True)),
           backward="GEMM backward")
def gemm(a: TensorLike, b: TensorLike, c: TensorLike | None = None, *, alpha: float = 1.0, beta: float = 0.0,
         transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """y = α · op(A) · op(B) + β · C, op the identity or the transposition

    A (m, k), B (k, n), or (k, m), (n, k) where transposed; C (m, n), which is not read with β = 0;
    y (m, n). Raises ShapeError.
    """
    return F.matmul(_turned(a, transpose_a), _turned(b, transpose_b), alpha=alpha, beta=beta, c=c)


@operation("GEMV", ([(5, 4), (4,)], {}), ([(4, 5), (4,), (5,)], dict(alpha=2.0, beta=0.5, transpose=True)))
def gemv(a: TensorLike, x: TensorLike, y: TensorLike | None = None, *, alpha: float = 1.0, beta: float = 0.0,
         transpose: bool = False) -> Tensor:
    """z = α · op(A) · x + β · y

    A (m, k) or, transposed, (k, m); x (k), y and z (m). Raises ShapeError.
    """
    return F.matmul(_turned(a, transpose), x, alpha=alpha, beta=beta, c=y)


@operation("BatchMatMul", ([(2, 5, 4), (2, 4, 3)], {}),
           ([(2, 1, 4, 5), (3, 4, 3), (2, 3, 5, 3)], dict(alpha=0.5, beta=2.0, transpose_a=True)))
def batch_mat_mul(a: TensorLike, b: TensorLike, c: TensorLike | None = None, *, alpha: float = 1.0, beta: float = 0.0,
                  transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """y[i] = α · op(A[i]) · op(B[i]) + β · C[i], leading axes broadcast

    A (…, m, k), B (…, k, n), y (…, m, n). Raises ShapeError.
    """
    return F.matmul(_turned(a, transpose_a), _turned(b, transpose_b), alpha=alpha, beta=beta, c=c)


@operation("TensorMatMul", ([(2, 3, 4), (4, 5)], {}), ([(4,), (2, 4, 5)], {}))
def tensor_mat_mul(a: TensorLike, b: TensorLike) -> Tensor:
    """y = A · B by NumPy's rules for `matmul`: leading axes broadcast, a vector is a row on the left
    and a column on the right
    """
    return F.matmul(a, b)


@operation("BiasAdd", ([(4, 5), (5,)], {}))
def bias_add(x: TensorLike, bias: TensorLike) -> Tensor:
    """y = x + b, b along the last axis"""
    return as_tensor(x) + as_tensor(bias)


@operation("TensorBroadcastAdd", ([(4, 1, 5), (3, 1)], {}))
def tensor_broadcast_add(a: TensorLike, b: TensorLike) -> Tensor:
    """y = a + b, shapes broadcast"""
    return as_tensor(a) + as_tensor(b)


@operation("GemmBias", ([(5, 4), (4, 3), (3,)], {}))
def gemm_bias(a: TensorLike, b: TensorLike, bias: TensorLike) -> Tensor:
    """y = A · B + b, row-wise"""
    return F.matmul(a, b) + as_tensor(bias)


@operation("FusedGemmBiasActivation", ([(5, 4), (4, 3), (3,)], dict(activation="swish")))
def fused_gemm_bias_activation(a: TensorLike, b: TensorLike, bias: TensorLike, *,
                               activation: Activation | str = Activation.NONE) -> Tensor:
    """y = act(A · B + b): A (m, k), B (k, n), b (n)"""
    return activated(F.matmul(a, b) + as_tensor(bias), activation)


@operation("GemmBiasRelu", ([(5, 4), (4, 3), (3,)], {}))
def gemm_bias_relu(a: TensorLike, b: TensorLike, bias: TensorLike) -> Tensor:
    """y = max(A · B + b, 0)"""
    return F.relu(F.matmul(a, b) + as_tensor(bias))


@operation("GemmBiasGelu", ([(5, 4), (4, 3), (3,)], {}))
def gemm_bias_gelu(a: TensorLike, b: TensorLike, bias: TensorLike) -> Tensor:
    """y = gelu(A · B + b)"""
    return F.gelu(F.matmul(a, b) + as_tensor(bias))


@operation("GemmBiasSigmoid", ([(5, 4), (4, 3), (3,)], {}))
def gemm_bias_sigmoid(a: TensorLike, b: TensorLike, bias: TensorLike) -> Tensor:
    """y = σ(A · B + b)"""
    return F.sigmoid(F.matmul(a, b) + as_tensor(bias))


@operation("GemmBiasTanh", ([(5, 4), (4, 3), (3,)], {}))
def gemm_bias_tanh(a: TensorLike, b: TensorLike, bias: TensorLike) -> Tensor:
    """y = tanh(A · B + b)"""
    return F.tanh(F.matmul(a, b) + as_tensor(bias))


@operation("FusedLinear", ([(4, 7), (5, 7), (5,)], dict(activation="gelu")), ([(2, 3, 7), (5, 7)], {}),
           backward="FusedLinearBackward")
def fused_linear(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, *,
                 activation: Activation | str = Activation.NONE) -> Tensor:
    """y = act(x · Wᵀ + b)

    x (…, in), W (out, in), b (out), y (…, out). Raises ShapeError.
    """
    return activated(F.linear(x, weight, bias), activation)
