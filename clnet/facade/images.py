"""Convolutions, pooling and normalisation."""

from __future__ import annotations

from .. import ops as F
from ..core.arguments import integer, per_axis
from ..core.autodiff import gradients
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError
from .operation import Activation, Extent, Padding, activated, operation


@operation("FusedConv2D", ([(2, 3, 5, 6), (4, 3, 3, 2), (4,)], dict(stride=2, padding=1, activation="relu")),
           ([(1, 2, 7, 6), (3, 2, 3, 3)], dict(dilation=2, activation="tanh")))
def fused_conv2d(x: TensorLike, kernel: TensorLike, bias: TensorLike | None = None, *, stride: Extent = 1,
                 padding: Padding = 0, dilation: Extent = 1, groups: int = 1,
                 activation: Activation | str = Activation.NONE) -> Tensor:
    """y = act(kernel ∗ x + b), cross-correlation

    x (N, C, H, W), kernel (O, C / groups, kh, kw), b (O), y (N, O, H', W'). Settings as in `clnet.ops.conv`.
    Raises ShapeError, ConfigError.
    """
    return activated(F.conv(x, kernel, bias, stride, padding, dilation, groups), activation)


@operation("FusedConv3D", ([(1, 2, 3, 4, 5), (3, 2, 2, 2, 2), (3,)], dict(padding=1, activation="sigmoid")))
def fused_conv3d(x: TensorLike, kernel: TensorLike, bias: TensorLike | None = None, *, stride: Extent = 1,
                 padding: Padding = 0, dilation: Extent = 1, groups: int = 1,
                 activation: Activation | str = Activation.NONE) -> Tensor:
    """y = act(kernel ∗ x + b) for volumes x (N, C, D, H, W), kernel (O, C / groups, kd, kh, kw), b (O)"""
    return activated(F.conv(x, kernel, bias, stride, padding, dilation, groups), activation)


@operation("conv2d_backward_input", ([(2, 4, 3, 4), (4, 3, 3, 2)], dict(size=(5, 6), stride=2, padding=1)))
def conv2d_backward_input(g: TensorLike, kernel: TensorLike, *, size: Extent, stride: Extent = 1, padding: Padding = 0,
                          dilation: Extent = 1, groups: int = 1) -> Tensor:
    """dx of y = kernel ∗ x: the transposed convolution of g; g (N, O, H', W'), size (H, W) of x, dx (N, C, H, W)"""
    return _conv_input(g, kernel, size, stride, padding, dilation, groups)


@operation("conv2d_backward_weights", ([(2, 4, 3, 4), (2, 3, 5, 6)], dict(size=(3, 2), stride=2, padding=1)))
def conv2d_backward_weights(g: TensorLike, x: TensorLike, *, size: Extent, stride: Extent = 1, padding: Padding = 0,
                            dilation: Extent = 1, groups: int = 1) -> Tensor:
    """dW of y = kernel ∗ x: the correlation of x with g; x (N, C, H, W), g (N, O, H', W'), size (kh, kw),
    dW (O, C / groups, kh, kw)
    """
    return _conv_weights(g, x, size, stride, padding, dilation, groups)


@operation("conv3d_backward_input", ([(1, 3, 4, 5, 6), (3, 2, 2, 2, 2)], dict(size=(3, 4, 5), padding=1)))
def conv3d_backward_input(g: TensorLike, kernel: TensorLike, *, size: Extent, stride: Extent = 1, padding: Padding = 0,
                          dilation: Extent = 1, groups: int = 1) -> Tensor:
    """dx of y = kernel ∗ x for volumes; g (N, O, D', H', W'), size (D, H, W) of x"""
    return _conv_input(g, kernel, size, stride, padding, dilation, groups)


@operation("conv3d_backward_weights", ([(1, 3, 4, 5, 6), (1, 2, 3, 4, 5)], dict(size=(2, 2, 2), padding=1)))
def conv3d_backward_weights(g: TensorLike, x: TensorLike, *, size: Extent, stride: Extent = 1, padding: Padding = 0,
                            dilation: Extent = 1, groups: int = 1) -> Tensor:
    """dW of y = kernel ∗ x for volumes; size (kd, kh, kw)"""
    return _conv_weights(g, x, size, stride, padding, dilation, groups)


# --- pooling
@operation("avgpool2d", ([(2, 3, 6, 5)], dict(size=2)), ([(1, 2, 5, 5)], dict(size=3, stride=2, padding=1)),
           backward="avgpool2d_backward")
def avg_pool2d(x: TensorLike, *, size: Extent, stride: Extent | None = None, padding: Extent = 0) -> Tensor:
    """y = mean over windows of `size`, padding counted"""
    return F.avg_pool(x, size, stride, padding)


@operation("maxpool2d", ([(2, 3, 6, 5)], dict(size=2)), ([(1, 2, 5, 5)], dict(size=3, stride=2, padding=1)),
           backward="maxpool2d_backward")
def max_pool2d(x: TensorLike, *, size: Extent, stride: Extent | None = None, padding: Extent = 0) -> Tensor:
    """y = max over windows of `size`; backward g goes to the first maximum"""
    return F.max_pool(x, size, stride, padding)


@operation("global_avgpool", ([(2, 3, 4, 5)], {}), backward="global_avgpool_backward")
def global_avg_pool(x: TensorLike) -> Tensor:
    """y[n, c] = mean of x[n, c] over all positions"""
    return F.global_pool(x, "avg")


@operation("global_maxpool", ([(2, 3, 4, 5)], {}), backward="global_maxpool_backward")
def global_max_pool(x: TensorLike) -> Tensor:
    """y[n, c] = max of x[n, c] over all positions"""
    return F.global_pool(x, "max")


@operation("adaptive_avgpool", ([(2, 3, 5, 7)], dict(size=(2, 3))), backward="adaptive_avgpool_backward")
def adaptive_avg_pool2d(x: TensorLike, *, size: Extent) -> Tensor:
    """y[n, c, i, j] = mean over the bins ⌊i H / H'⌋ … ⌈(i + 1) H / H'⌉, and the same across; they may overlap"""
    return F.adaptive_avg_pool(x, size)


# --- normalisation
@operation("FusedBatchNorm", ([(4, 3, 5), (3,), (3,)], dict(activation="relu")), backward="batchnorm_backward")
def fused_batch_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None,
                     running_mean: TensorLike | None = None, running_var: TensorLike | None = None, *,
                     eps: float = 1e-5, training: bool = True,
                     activation: Activation | str = Activation.NONE) -> tuple[Tensor, Tensor, Tensor]:
    """y = act(γ · (x − μ) / √(σ² + ε) + β) per channel; also μ and σ²

    x (N, C, …). Training: the batch's mean and variance (the returned one unbiased, for running statistics);
    else those given.
    """
    if training:
        y, mean, var = F.batch_norm_train(x, gamma, beta, eps)
    elif running_mean is None or running_var is None:
        raise ConfigError(
            "fused_batch_norm: expected running_mean and running_var without training; got none; pass both.")
    else:
        mean, var = as_tensor(running_mean), as_tensor(running_var)
        y = F.batch_norm(x, gamma, beta, mean, var, eps)
    return activated(y, activation), mean, var


@operation("FusedLayerNorm", ([(4, 7), (7,), (7,)], dict(activation="gelu")))
def fused_layer_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None, *,
                     eps: float = 1e-5, activation: Activation | str = Activation.NONE) -> Tensor:
    """y = act(γ · (x − E[x]) / √(Var[x] + ε) + β) over the axes that γ has"""
    return activated(F.layer_norm(x, gamma, beta, eps), activation)


@operation("FusedLayerNormActivation", ([(4, 7), (7,), (7,)], dict(activation="relu")))
def fused_layer_norm_activation(x: TensorLike, gamma: TensorLike, beta: TensorLike, *, eps: float = 1e-5,
                                activation: Activation | str = Activation.RELU) -> Tensor:
    """y = act(LN(x; γ, β))"""
    return activated(F.layer_norm(x, gamma, beta, eps), activation)


@operation("FusedNorm", ([(4, 7), (7,)], dict(activation="tanh")))
def fused_norm(x: TensorLike, gamma: TensorLike | None = None, *, eps: float = 1e-5,
               activation: Activation | str = Activation.NONE) -> Tensor:
    """y = act(γ · x / √(E[x²] + ε)) over the axes that γ has"""
    return activated(F.rms_norm(x, gamma, eps), activation)


@operation("FusedResidualLayerNorm", ([(4, 7), (4, 7), (7,), (7,)], {}))
def fused_residual_layer_norm(x: TensorLike, residual: TensorLike, gamma: TensorLike | None = None,
                              beta: TensorLike | None = None, *, eps: float = 1e-5) -> Tensor:
    """y = LN(x + r; γ, β)"""
    return F.layer_norm(as_tensor(x) + as_tensor(residual), gamma, beta, eps)


@operation("layernorm", ([(4, 7), (7,), (7,)], {}), backward="layernorm_backward")
def layer_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None, *,
               eps: float = 1e-5) -> Tensor:
    """y = γ · (x − E[x]) / √(Var[x] + ε) + β over the axes that γ has"""
    return F.layer_norm(x, gamma, beta, eps)


@operation("RMSNorm", ([(4, 7), (7,)], {}), backward="RMSNormBackward")
def rms_norm(x: TensorLike, gamma: TensorLike | None = None, *, eps: float = 1e-5) -> Tensor:
    """y = γ · x / √(E[x²] + ε) over the axes that γ has"""
    return F.rms_norm(x, gamma, eps)


@operation("groupnorm", ([(2, 4, 5), (4,), (4,)], dict(num_groups=2)), backward="groupnorm_backward")
def group_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None, *, num_groups: int,
               eps: float = 1e-5) -> Tensor:
    """y = γ_c · (x − E[x]) / √(Var[x] + ε) + β_c over the channels of a group and all positions"""
    return F.group_norm(x, num_groups, gamma, beta, eps)


@operation("instancenorm", ([(2, 3, 7), (3,), (3,)], {}), backward="instancenorm_backward")
def instance_norm(x: TensorLike, gamma: TensorLike | None = None, beta: TensorLike | None = None, *,
                  eps: float = 1e-5) -> Tensor:
    """y = γ_c · (x − E[x]) / √(Var[x] + ε) + β_c over all positions of a channel"""
    return F.instance_norm(x, gamma, beta, eps)


def _given(who: str, what: str, left: TensorLike, right: TensorLike, size: Extent,
           groups: int) -> tuple[Tensor, Tensor, tuple[int, ...], int]:
    """The tensors, a size for each spatial axis, and groups. Raises ShapeError, ConfigError."""
    g, other = as_tensor(left), as_tensor(right)
    if g.ndim not in (4, 5) or other.ndim != g.ndim:
        raise ShapeError(
            f"{who}: expected g (N, O, *P) and {what} of one rank, 4 or 5; got {g.shape} and {other.shape}.")
    return g, other, per_axis(who, "size", size, g.ndim - 2, 1), integer(who, "groups", groups, 1)


def _conv_input(g: TensorLike, kernel: TensorLike, size: Extent, stride: Extent, padding: Padding, dilation: Extent,
                groups: int) -> Tensor:
    """A convolution is linear in x: its derivative at 0 is its derivative."""
    g, w, sizes, groups = _given("conv_backward_input", "kernel (O, C / groups, *K)", g, kernel, size, groups)
    x = F.zeros((g.shape[0], w.shape[1] * groups, *sizes), g.dtype)
    found: Tensor = gradients(F.conv(x, w, None, stride, padding, dilation, groups), [x], g)[0]
    return found


def _conv_weights(g: TensorLike, x: TensorLike, size: Extent, stride: Extent, padding: Padding, dilation: Extent,
                  groups: int) -> Tensor:
    g, x, sizes, groups = _given("conv_backward_weights", "x (N, C, *S)", g, x, size, groups)
    kernel = F.zeros((g.shape[1], x.shape[1] // groups, *sizes), g.dtype)
    found: Tensor = gradients(F.conv(x, kernel, None, stride, padding, dilation, groups), [kernel], g)[0]
    return found
