"""Normalisation: activations with mean 0 and variance 1, then a scale γ (saved as "weight")
and a shift β (saved as "bias").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops as F
from ..config.bounded import PositiveInt
from ..config.fields import bound, field, positive
from ..core.state import Parameter
from ..core.tensor import Operators, Tensor
from ..errors import ConfigError
from ..init import singular_pair
from ..ops.channel_norm import batch_norm, batch_norm_train, group_norm
from ..ops.normalization import layer_norm, rms_norm
from .base import Layer, New
from .fields import Child

CHANNELS = "N num_features ... -> N num_features ..."
TRAILING = "... normalized_shape -> ... normalized_shape"
Shape = PositiveInt | tuple[PositiveInt, ...]


def _scale(new: New, shape: tuple[int, ...], on: bool) -> Parameter | None:
    return new.ones(*shape) if on else None


def _shift(new: New, shape: tuple[int, ...], on: bool) -> Parameter | None:
    return new.zeros(*shape, role="normalization") if on else None


def _shape(value: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value or 0,)


def _keep(layer: BatchNorm | InstanceNorm, mean: Tensor, var: Tensor) -> None:
    """running ← (1 − momentum) · running + momentum · batch"""
    for running, batch in ((layer.running_mean, mean), (layer.running_var, var)):
        running.assign((1 - layer.momentum) * running + layer.momentum * batch)


class _ChannelNorm(Layer):
    """A normalisation of channels that may keep running statistics."""

    num_features: int | None = bound(doc="number of channels, axis 1")
    eps: float = positive(1e-5, doc="ε, keeps the root away from zero")
    signature = CHANNELS

    def prepare(self, new: New, affine: bool, running: bool) -> None:
        """γ and β, and the running statistics before the first batch, where they are wanted."""
        shape = _shape(self.num_features)
        self.weight, self.bias = _scale(new, shape, affine), _shift(new, shape, affine)
        if running:
            self.running_mean = new.buffer(np.zeros(shape, np.float32))
            self.running_var = new.buffer(np.ones(shape, np.float32))


class BatchNorm(_ChannelNorm):
    """y = γ_c · (x − μ_c) / √(σ_c² + ε) + β_c: in training μ, σ² of the batch (biased), in evaluation the running ones

    x and y (N, num_features) or (N, num_features, *S).
    In training running ← (1 − momentum) · running + momentum · batch, with the unbiased variance.
    Paper: Ioffe, Szegedy 2015, arXiv:1502.03167.
    """

    spec_name = "BatchNormalizationLayer"
    aliases = ("BatchNormLayer", "BatchNormalization", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "batch_norm")
    momentum: float = field(0.1, doc="share of the batch in the running statistics", ge=0, le=1)
    affine: bool = field(True, doc="whether γ and β are there")
    track_running_stats: bool = field(
        True, doc="whether running statistics are kept; without them every batch uses its own")
    examples = [(dict(num_features=3), [(4, 3)]), (dict(momentum=0.5), [(2, 3, 6, 5)]),
                (dict(affine=False, track_running_stats=False), [(2, 3, 7)])]

    def setup(self, new: New) -> None:
        self.prepare(new, self.affine, self.track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        if self.track_running_stats and not self.training:
            return batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps)
        y, mean, var = batch_norm_train(x, self.weight, self.bias, self.eps)
        if self.track_running_stats:
            _keep(self, F.detach(mean), F.detach(var))
        return y


class LayerNorm(Layer):
    """y = γ · (x − E[x]) / √(Var[x] + ε) + β over the trailing axes `normalized_shape`, biased variance

    x and y (…, *normalized_shape), γ and β (*normalized_shape).
    Paper: Ba, Kiros, Hinton 2016, arXiv:1607.06450.
    """

    spec_name = "LayerNormalizationLayer"
    aliases = ("LayerNormalization", "layer_norm")
    normalized_shape: Shape | None = field(
        None, doc="size of the last axis, or of the last axes; left out: bound by the input")
    eps: float = positive(1e-5, doc="ε, keeps the root away from zero")
    affine: bool = field(True, doc="whether γ (and β) are there")
    use_bias: bool = field(True, alias="bias", doc="whether β is there, if γ is")
    signature = TRAILING
    examples = [(dict(normalized_shape=5), [(3, 5)]), (dict(normalized_shape=(3, 4), bias=False), [(2, 3, 4)]),
                (dict(affine=False), [(2, 3, 5)])]

    def setup(self, new: New) -> None:
        shape = _shape(self.normalized_shape)
        self.weight, self.bias = _scale(new, shape, self.affine), _shift(new, shape, self.affine and self.use_bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.weight is None:
            return _rows(layer_norm, x, self.normalized_shape, self.eps)
        return layer_norm(x, self.weight, self.bias, self.eps)


class RMSNorm(Layer):
    """y = γ · x / √(E[x²] + ε) over the trailing axes `normalized_shape`

    x and y (…, *normalized_shape), γ (*normalized_shape).
    Paper: Zhang, Sennrich 2019, arXiv:1910.07467.
    """

    spec_name = "RMSNormLayer"
    aliases = ("rms_norm",)
    normalized_shape: Shape | None = field(
        None, doc="size of the last axis, or of the last axes; left out: bound by the input")
    eps: float = positive(1e-5, doc="ε, keeps the root away from zero")
    affine: bool = field(True, doc="whether γ is there")
    signature = TRAILING
    examples = [(dict(normalized_shape=5), [(3, 5)]), (dict(normalized_shape=(3, 4), affine=False), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        self.weight = _scale(new, _shape(self.normalized_shape), self.affine)

    def forward(self, x: Tensor) -> Tensor:
        if self.weight is None:
            return _rows(rms_norm, x, self.normalized_shape, self.eps)
        return rms_norm(x, self.weight, self.eps)


def _rows(norm: Callable[..., Tensor], x: Tensor, sizes: Shape | None, eps: float) -> Tensor:
    """A norm without γ and β, which works over the last axis, over all axes of these sizes."""
    shape = _shape(sizes)
    return F.reshape(norm(F.reshape(x, (*x.shape[: x.ndim - len(shape)], math.prod(shape))), eps=eps), x.shape)


class GroupNorm(Layer):
    """y = γ_c · (x − E[x]) / √(Var[x] + ε) + β_c, statistics per sample over the channels of a group and all positions

    x and y (N, num_channels, *S), γ and β (num_channels).
    Paper: Wu, He 2018, arXiv:1803.08494.
    """

    spec_name = "GroupNormalizationLayer"
    aliases = ("GroupNormalization", "group_norm")
    num_groups: int = positive(doc="number of groups of channels")
    num_channels: int | None = bound(doc="number of channels, axis 1")
    eps: float = positive(1e-5, doc="ε, keeps the root away from zero")
    affine: bool = field(True, doc="whether γ and β are there")
    signature = "N num_channels ... -> N num_channels ..."
    examples = [(dict(num_groups=2, num_channels=4), [(2, 4, 3, 5)]), (dict(num_groups=3, affine=False), [(2, 3, 7)])]

    def validate(self) -> None:
        if (self.num_channels or 0) % self.num_groups:
            raise ConfigError(
                f"GroupNorm: expected num_channels, a multiple of num_groups = {self.num_groups}; got "
                f"{self.num_channels}.")

    def setup(self, new: New) -> None:
        self.validate()
        shape = _shape(self.num_channels)
        self.weight, self.bias = _scale(new, shape, self.affine), _shift(new, shape, self.affine)

    def forward(self, x: Tensor) -> Tensor:
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class InstanceNorm(_ChannelNorm):
    """y = γ_c · (x − E[x]) / √(Var[x] + ε) + β_c, statistics per sample and channel over all positions

    x and y (N, num_features, *S) with at least one position axis, γ and β (num_features). With track_running_stats
    training keeps running ← (1 − momentum) · running + momentum · mean over the samples (unbiased variance),
    which evaluation uses.
    Paper: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.
    """

    spec_name = "InstanceNormalizationLayer"
    aliases = ("InstanceNormalization", "InstanceNorm2d", "instance_norm")
    affine: bool = field(True, doc="whether γ and β are there")
    track_running_stats: bool = field(False, doc="whether running statistics are kept for evaluation")
    momentum: float = field(0.1, doc="share of the batch in the running statistics", ge=0, le=1)
    examples = [(dict(num_features=3), [(2, 3, 5, 4)]), (dict(affine=False), [(2, 3, 7)]),
                (dict(track_running_stats=True, momentum=0.5), [(2, 3, 5, 4)])]

    def setup(self, new: New) -> None:
        self.prepare(new, self.affine, self.track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        if self.track_running_stats and not self.training:
            return batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps)
        if self.track_running_stats:
            fixed, axes = F.detach(x), tuple(range(2, x.ndim))
            _keep(self, F.mean(F.mean(fixed, axes), 0), F.mean(F.var(fixed, axes, ddof=1), 0))
        return group_norm(x, x.shape[1], self.weight, self.bias, self.eps)


class SpectralNorm(Layer):
    """y = layer(x) with W / σ in place of its weight, σ = uᵀ W v the largest singular value of W

    x and y as the layer's. W is the weight as a matrix, axis `dim` first. In training u ← W v / ‖W v‖, v ← Wᵀ u / ‖Wᵀ
    u‖ before each use, without gradient: u and v are constants of the derivative.
    Paper: Miyato, Kataoka, Koyama, Yoshida 2018, arXiv:1802.05957.
    """

    spec_name = "SpectralNormalizationLayer"
    aliases = ("SpectralNormalization", "spectral_norm")
    layer: Child = field(doc="the layer whose weight is normalised")
    n_power_iterations: int = positive(1, doc="how often u and v are improved in each training call")
    eps: float = positive(1e-12, doc="least norm by which u and v are divided")
    dim: int = field(0, doc="axis of the outputs in the weight: 1 for transposed convolutions", ge=0)
    signature = "... -> ..."
    examples = [(dict(layer={"type": "Dense", "in_features": 5, "out_features": 3}), [(2, 5)]),
                (dict(layer={"type": "ConvTranspose2d", "out_channels": 2, "kernel_size": 2}, dim=1,
                      n_power_iterations=2), [(1, 3, 3, 2)])]

    def _unbound(self) -> list[str]:
        return [] if self.layer.built else ["layer"]

    def bind(self, *shapes: tuple[int, ...]) -> None:
        self.layer.bind(*shapes)
        super().bind(*shapes)

    def setup(self, new: New) -> None:
        w = getattr(self.layer, "weight", None)
        if not isinstance(w, Parameter) or w.ndim <= max(self.dim, 1):
            raise ConfigError(
                f"SpectralNorm: expected a layer with a weight of more than {max(self.dim, 1)} axes; got "
                f"{self.layer!r}.")
        self.u, self.v = map(new.buffer, singular_pair(self._matrix(w).numpy()))

    def _matrix(self, w: Operators) -> Tensor:
        """(h, n): the weight with axis `dim` first, flattened."""
        order = (self.dim, *(a for a in range(w.ndim) if a != self.dim))
        return F.reshape(F.permute(w, order), (w.shape[self.dim], -1))

    def forward(self, *inputs: Any) -> Any:
        layer: Any = self.layer
        raw = layer.weight
        matrix, u, v = self._matrix(raw), self.u.tensor, self.v.tensor
        if self.training:
            fixed = F.detach(matrix)
            for _ in range(self.n_power_iterations):
                u = self._unit(F.sum(fixed * v, 1))
                v = self._unit(F.sum(fixed * F.reshape(u, (-1, 1)), 0))
            self.u.assign(u)
            self.v.assign(v)
        try:
            layer.weight = raw / F.sum(F.reshape(u, (-1, 1)) * matrix * v)
            return layer(*inputs)
        finally:
            layer.weight = raw

    def _unit(self, x: Tensor) -> Tensor:
        return x / F.maximum(F.sqrt(F.sum(x * x)), self.eps)
