"""Layers without parameters: activations, dropout, shapes, and what joins branches."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops as F
from ..config.fields import choice, field, fraction, positive
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from ..ops.activations import activation
from ..ops.custom import custom_gradient
from ..ops.draws import bernoulli, normal
from ..ops.normalization import log_softmax, softmax
from .base import Layer
from .fields import Act

# One step of zeros, one of -1, one with both. Integers: at the jump itself there is no derivative to check.
_STEPS = np.array([[[0, 0], [1, 2], [0, 3]], [[-1, -1], [0, 0], [-1, 4]]], np.int32)


def _clipped(x: Tensor) -> Tensor:
    return F.clip(x, -0.5, 0.5)


def _straight(x: Tensor, g: Tensor) -> Tensor:
    return F.where(F.abs(x) <= 0.5, g, 0.0)


class Activation(Layer):
    """y = f(x), f of the given name

    x and y of any shape. `params` are f's own: slope (leaky_relu), alpha (elu, celu),
    axis and temperature (softmax), axis (log_softmax).
    """

    spec_name = "ActivationLayer"
    aliases = ("activation",)
    name: Act = field(doc="name of the function, or the function")
    params: dict[str, float] | None = field(None, doc="parameters of the function by name")
    examples = [(dict(name="relu"), [(3, 7)]), (dict(name="gelu"), [(3, 7)]),
                (dict(name="leaky_relu", params={"slope": 0.2}), [(3, 7)]),
                (dict(name="softmax", params={"temperature": 2.0}), [(3, 7)])]

    def validate(self) -> None:
        known = list(inspect.signature(self._function()).parameters)[1:] if self.params else []
        if unknown := [p for p in self.params or {} if p not in known]:
            raise ConfigError(
                f"Activation(name={self.name!r}): expected params among {', '.join(known) or 'none'}; got "
                f"{', '.join(unknown)}.")

    def _function(self) -> Any:
        with_axis = {"softmax": softmax, "log_softmax": log_softmax}
        return with_axis[self.name] if self.name in with_axis else activation(self.name)

    def forward(self, x: Tensor) -> Tensor:
        whole = {k: int(v) if k == "axis" else v for k, v in (self.params or {}).items()}
        return self._function()(x, **whole)


class Softmax(Layer):
    """y = e^(x/T) / Σ e^(x/T)

    x and y of one shape. Variants: "standard" (T = 1), "temperature",
    "grid" (the last axis is rows × cols, each row its own softmax),
    "masked" (only where the mask is True, 0 elsewhere; the mask is a field or a second input).
    """

    spec_name = "SoftmaxLayer"
    aliases = ("softmax",)
    variant: str = choice("standard", ("standard", "temperature", "grid", "masked"), doc="which softmax")
    temperature: float = positive(1.0, doc="T; small values sharpen")
    axis: int = field(-1, doc="axis that sums to 1")
    rows: int | None = field(None, doc="rows of the grid", gt=0)
    cols: int | None = field(None, doc="columns of the grid", gt=0)
    mask: tuple[bool, ...] | None = field(None, doc="which elements of the axis take part")
    examples = [({}, [(3, 7)]), (dict(variant="temperature", temperature=0.5), [(3, 7)]),
                (dict(variant="grid", rows=2, cols=3), [(3, 6)]),
                (dict(variant="masked", mask=(True, False, True, True, False, True, True)), [(3, 7)])]

    def validate(self) -> None:
        if self.variant == "grid" and not (self.rows and self.cols):
            raise ConfigError("Softmax(variant='grid'): expected rows and cols; got none; pass both.")
        if self.mask is not None and self.variant != "masked":
            raise ConfigError(
                f"Softmax(variant={self.variant!r}): expected a mask in variant 'masked' alone; got one; "
                "pass variant='masked'.")

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.variant == "grid":
            assert self.rows is not None and self.cols is not None  # as validate saw to
            grid = F.reshape(x, (*x.shape[:-1], self.rows, self.cols))
            return F.reshape(softmax(grid, -1, self.temperature), x.shape)
        if self.variant == "masked" and mask is None:
            if self.mask is None:
                raise ConfigError("Softmax(variant='masked'): expected a mask as a field or a second input; got none.")
            mask = F.reshape(self.mask, tuple(-1 if k == self.axis % x.ndim else 1 for k in range(x.ndim)))
        return softmax(x, self.axis, self.temperature, mask)


class Dropout(Layer):
    """y = x · m / (1 − p), m ~ Bernoulli(1 − p) in training; y = x in evaluation

    x and y of any shape. The mask is a function of a key and a counter: backward computes it again, nothing is stored.
    Paper: Srivastava et al. 2014, JMLR 15.
    """

    spec_name = "DropoutLayer"
    aliases = ("dropout",)
    p: float = fraction(0.5, doc="probability that an element is dropped")
    examples = [({}, [(4, 9)]), (dict(p=0.2), [(2, 3, 5)])]

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        keep = bernoulli(1 - self.p, x.shape, self.random.key, self.random.advance())
        return F.where(keep, x * (1 / (1 - self.p)), 0.0)


class GaussianNoise(Layer):
    """y = x + n, n ~ N(mean, std²) in training; y = x in evaluation

    x and y of any shape. The noise is a function of a key and a counter, so every engine adds the same.
    Paper: Bishop 1995, Neural Computation 7.
    """

    spec_name = "GaussianNoiseLayer"
    aliases = ("gaussian_noise",)
    std: float = field(0.1, doc="standard deviation of the noise", ge=0)
    mean: float = field(0.0, doc="mean of the noise")
    examples = [({}, [(4, 9)]), (dict(std=0.5, mean=-0.2), [(2, 3, 5)])]

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x + normal(x.shape, self.random.key, self.random.advance(), self.mean, self.std, x.dtype)


class Masking(Layer):
    """y[n, t] = x[n, t] where any feature differs from mask_value, else 0

    x and y (N, T, F). `mask` (N, T) of the last call says which steps were kept: what recurrent layers take as lengths.
    per_element: every element that equals mask_value becomes 0, for any shape.
    """

    spec_name = "MaskingLayer"
    aliases = ("masking",)
    mask_value: float = field(0.0, doc="what a step that does not count is filled with")
    per_element: bool = field(False, doc="whether elements are masked one by one")
    examples = [({}, [(2, 3, 2)]), ({}, [_STEPS]), (dict(mask_value=-1.0, per_element=True), [_STEPS])]

    def validate(self) -> None:
        self.mask: Any = None

    def forward(self, x: Tensor) -> Tensor:
        kept = F.not_equal(x, self.mask_value)
        if self.per_element:
            return F.where(kept, x, 0)
        if x.ndim != 3:
            raise ShapeError(f"Masking: expected x (N, T, F); got {x.shape}; per_element=True takes any shape.")
        self.mask = F.greater(F.max(F.cast(kept, "int8"), -1), 0)
        return F.where(F.reshape(self.mask, (*x.shape[:2], 1)), x, 0)


class Mean(Layer):
    """y = Σ x / n over `axis`

    x of any shape; y without the axis, or with size 1 there.
    """

    spec_name = "MeanLayer"
    axis: int | tuple[int, ...] = field(doc="axis or axes that are averaged")
    keepdims: bool = field(False, doc="whether the axes stay, with size 1")
    examples = [(dict(axis=1), [(2, 3, 4)]), (dict(axis=(0, -1), keepdims=True), [(2, 3, 4)])]

    def forward(self, x: Tensor) -> Tensor:
        return F.mean(x, self.axis, self.keepdims)


class LogVariance(Layer):
    """y = ln(Σ (x − E[x])² / n + ε) over `axis`

    x of any shape; y without the axis, or with size 1 there. The variance is the biased one.
    """

    spec_name = "LogVarianceLayer"
    axis: int | tuple[int, ...] = field(doc="axis or axes over which the variance is taken")
    eps: float = positive(1e-8, doc="ε, keeps the logarithm finite")
    keepdims: bool = field(False, doc="whether the axes stay, with size 1")
    examples = [(dict(axis=-1), [(2, 3, 4)]), (dict(axis=(0, 2), eps=1e-3, keepdims=True), [(2, 3, 4)])]

    def forward(self, x: Tensor) -> Tensor:
        return F.log(F.var(x, self.axis, self.keepdims) + self.eps)


class Lambda(Layer):
    """y = fn(x), with dx = backward_fn(x, g) where one is given

    fn and backward_fn are functions of tensors, written in ops; without backward_fn the gradient is derived. A function
    has no JSON: only a layer whose fn is a registered name can be stored.
    Raises ShapeError where y is not (N, *output_shape), ConfigError when it is stored.
    """

    spec_name = "LambdaLayer"
    aliases = ("lambda",)
    fn: Act = field(doc="function of a tensor, or the name of an activation")
    backward_fn: Callable[..., Any] | None = field(None, doc="dx of x and the cotangent of y; None: derived from fn")
    output_shape: tuple[int, ...] | None = field(None, doc="shape of y without the batch, checked")
    examples = [(dict(fn="tanh"), [(3, 7)]), (dict(fn=_clipped, backward_fn=_straight, output_shape=(7,)), [(3, 7)])]

    def config(self) -> dict[str, Any]:
        for name in ("fn", "backward_fn"):
            if callable(value := getattr(self, name)):
                raise ConfigError(
                    f"Lambda({name}={getattr(value, '__name__', value)}): expected something that can be stored; got a "
                    "function, which has no JSON; make it a Layer class of its own, or name an activation.")
        return super().config()

    def forward(self, x: Tensor) -> Tensor:
        function = activation(self.fn)
        y = function(x) if self.backward_fn is None else custom_gradient(x, function, self.backward_fn)
        if self.output_shape is not None and y.shape[1:] != self.output_shape:
            raise ShapeError(f"Lambda: expected {('N', *self.output_shape)} from fn; got {y.shape}.")
        return y


class Flatten(Layer):
    """y = x with axes start_dim … end_dim as one

    x (N, …), y (N, everything else) by default.
    """

    spec_name = "FlattenLayer"
    aliases = ("flatten",)
    integers = True
    start_dim: int = field(1, doc="first axis that is merged")
    end_dim: int = field(-1, doc="last axis that is merged")
    examples = [({}, [(2, 3, 4, 2)]), (dict(start_dim=0, end_dim=1), [(2, 3, 4)])]

    def forward(self, x: Tensor) -> Tensor:
        a, b = (d % x.ndim if -x.ndim <= d < x.ndim else x.ndim for d in (self.start_dim, self.end_dim))
        if max(a, b) >= x.ndim or a > b:
            raise ShapeError(
                f"Flatten: expected axes {self.start_dim} to {self.end_dim} in an input of shape {x.shape}; "
                "choose others.")
        return F.reshape(x, (*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]))


class Reshape(Layer):
    """y = x with the axes after the first as `shape`

    x (N, …), y (N, *shape); one size may be −1.
    """

    spec_name = "ReshapeLayer"
    aliases = ("reshape",)
    integers = True
    shape: tuple[int, ...] = field(doc="sizes after the first axis, one of them may be -1")
    examples = [(dict(shape=(4, 3)), [(2, 3, 4)]), (dict(shape=(-1, 2)), [(2, 3, 4)])]

    def validate(self) -> None:
        if any(n < -1 for n in self.shape) or self.shape.count(-1) > 1:
            raise ConfigError(f"Reshape(shape={self.shape}): expected sizes of at least 0, and -1 at most once.")

    def forward(self, x: Tensor) -> Tensor:
        return F.reshape(x, (x.shape[0], *self.shape))


class Add(Layer):
    """y = act(x₁ + x₂ + …)

    Inputs whose shapes broadcast; y of the common shape.
    """

    spec_name = "AddLayer"
    aliases = ("add",)
    merges = True
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [({}, [(3, 7), (3, 7)]), (dict(activation="relu"), [(2, 3, 5), (5,), (3, 1)])]

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        for other in others:
            x = x + other
        return activation(self.activation)(x)


class Multiply(Layer):
    """y = act(x₁ · x₂ · …)

    Inputs whose shapes broadcast; y of the common shape.
    """

    spec_name = "MultiplyLayer"
    aliases = ("multiply",)
    merges = True
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [({}, [(3, 7), (3, 7)]), (dict(activation="tanh"), [(2, 3, 5), (5,), (3, 1)])]

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        for other in others:
            x = x * other
        return activation(self.activation)(x)


class Concatenate(Layer):
    """y = act(x₁, x₂, … one after the other along `axis`)

    Inputs equal in all other axes.
    """

    spec_name = "ConcatenateLayer"
    aliases = ("concatenate", "Concat")
    merges = True
    axis: int = field(1, doc="axis along which the inputs follow one another")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [({}, [(2, 3), (2, 5), (2, 1)]), (dict(axis=-1, activation="sigmoid"), [(2, 3, 4), (2, 3, 2)])]

    def forward(self, *inputs: Any) -> Any:
        return activation(self.activation)(F.concat(inputs, self.axis))
