"""Layers that cut, extend and pick; and the wrapper that takes time for more samples."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..config.bounded import NonNegativeInt, PositiveInt
from ..config.fields import choice, field
from ..core.spec import dtype_name, is_float
from ..core.tensor import Tensor
from ..errors import ConfigError, DTypeError, ShapeError
from ..ops.activations import activation
from ..ops.border import MODES, pad_with
from .base import Layer
from .fields import Act, Child

Pair = tuple[NonNegativeInt, NonNegativeInt]


class Input(Layer):
    """y = x, its shape and dtype checked

    x (N, *shape) of the dtype. For models that list their layers; `clnet.Input` starts one that is wired by calls.
    """

    spec_name = "InputLayer"
    aliases = ("InputLayer", "input")
    integers = True
    shape: tuple[PositiveInt, ...] = field(doc="shape of one sample, without the batch")
    dtype: str = field("float32", doc="dtype of the samples")
    examples = [(dict(shape=(4, 5)), [(2, 4, 5)]), (dict(shape=(3,), dtype="int32"), [np.array([[1, 2, 3]], np.int32)])]

    def validate(self) -> None:
        try:
            self.dtype = dtype_name(self.dtype)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Input(dtype={self.dtype!r}): {error}") from None

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1:] != self.shape or not x.ndim:
            raise ShapeError(
                f"Input: expected (N, {', '.join(map(str, self.shape))}); got {x.shape}; reshape the data.")
        # A network may run in another precision than it was written for;
        # integers may stand for floats, floats never for integers.
        if is_float(self.dtype) and not is_float(x.dtype):
            return x.astype("float32")
        if is_float(x.dtype) != is_float(self.dtype):
            raise DTypeError(f"Input: expected {self.dtype}; got {x.dtype}; cast the data.")
        return x


class Split(Layer):
    """y₁, y₂, … = x cut along `axis` into num_splits equal parts, or into parts of the given sizes

    x (…, n, …), parts (…, sizeₖ, …). stack: one tensor, the axis as (num_splits, n / num_splits).
    """

    spec_name = "SplitLayer"
    aliases = ("split",)
    integers = True
    num_splits: int | None = field(None, doc="number of equal parts", gt=0)
    sizes: tuple[PositiveInt, ...] | None = field(None, doc="sizes of the parts")
    axis: int = field(-1, doc="axis that is cut")
    stack: bool = field(False, doc="whether the parts stay one tensor, with an axis for their number")
    examples = [(dict(num_splits=3), [(2, 6)]), (dict(sizes=(1, 3), axis=1), [(2, 4, 3)]),
                (dict(num_splits=2, stack=True), [(3, 6)])]

    def validate(self) -> None:
        if (self.num_splits is None) == (self.sizes is None):
            raise ConfigError(f"{self!r}: expected either num_splits or sizes.")
        if self.stack and self.num_splits is None:
            raise ConfigError(f"{self!r}: expected num_splits with stack=True: parts of one tensor are of one size.")

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        axis = self.axis % x.ndim if -x.ndim <= self.axis < x.ndim else -1
        if axis < 0:
            raise ShapeError(f"Split: expected an axis of {x.shape}; got {self.axis}.")
        parts = F.split(x, self.num_splits or self.sizes or 1, axis)
        if not self.stack:
            return tuple(parts) if len(parts) > 1 else parts[0]
        return F.reshape(x, (*x.shape[:axis], len(parts), x.shape[axis] // len(parts), *x.shape[axis + 1 :]))


class Crop2d(Layer):
    """y[…, i, j] = x[…, i + top, j + left]: an image without its margins

    x (…, H, W), y (…, H − top − bottom, W − left − right).
    """

    spec_name = "CroppingLayer"
    aliases = ("Cropping2D", "crop")
    integers = True
    crop: tuple[Pair, Pair] = field(doc="((top, bottom), (left, right))")
    examples = [(dict(crop=((1, 0), (2, 1))), [(2, 2, 4, 5)]), (dict(crop=((0, 2), (1, 1))), [(4, 5)])]

    def forward(self, x: Tensor) -> Tensor:
        (top, bottom), (left, right) = self.crop
        if x.ndim < 2 or x.shape[-2] <= top + bottom or x.shape[-1] <= left + right:
            raise ShapeError(f"Crop2d: expected an image larger than what crop={self.crop} takes away; got {x.shape}.")
        return x[..., top : x.shape[-2] - bottom, left : x.shape[-1] - right]


class Pad(Layer):
    """y = act(x with (low, high) elements more along each of its last axes)

    x (…, n₁, …, nₖ), y (…, low₁ + n₁ + high₁, …) for k pairs. Modes: "constant" (value),
    "reflect" (mirrored at the border element), "replicate" (the border element), "circular" (from the other end).
    """

    spec_name = "PaddingLayer"
    aliases = ("padding", "ZeroPadding2D")
    padding: tuple[Pair, ...] = field(doc="(low, high) for each of the last axes", min_length=1)
    mode: str = choice("constant", MODES, doc="what lies beyond the border")
    value: float = field(0.0, doc="the number, in mode constant; may be infinite", allow_inf_nan=True)
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    examples = [(dict(padding=((1, 2), (0, 1)), value=0.5), [(2, 3, 4)]),
                (dict(padding=((1, 2), (2, 0)), mode="reflect"), [(2, 3, 4)]),
                (dict(padding=((2, 1), (0, 3)), mode="replicate"), [(2, 3, 4)]),
                (dict(padding=((1, 3), (2, 4)), mode="circular", activation="tanh"), [(2, 3, 4)])]

    def forward(self, x: Tensor) -> Tensor:
        return activation(self.activation)(pad_with(x, self.padding, self.mode, self.value))


class SequenceLast(Layer):
    """y[n] = x[n, T − 1], or x[n, lengths[n] − 1]

    Inputs x (N, T, …), lengths=None (N) integers; y (N, …). A sequence of length 0 gives zeros.
    """

    spec_name = "SequenceLastLayer"
    aliases = ("sequence_last",)
    signature = "N T ... -> N ..."
    examples = [({}, [(2, 3, 4)]), ({}, [(3, 4, 2), np.array([4, 1, 0], np.int32)])]

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        if lengths is None:
            return x[:, -1]
        if lengths.shape != x.shape[:1] or is_float(lengths.dtype):
            raise ShapeError(
                f"SequenceLast: expected integer lengths ({x.shape[0]}); got {lengths.dtype}{lengths.shape}.")
        last = F.equal(F.reshape(lengths, (-1, 1)) - 1, F.arange(n=x.shape[1], dtype="int32"))
        return F.sum(F.where(F.reshape(last, (*x.shape[:2], *(1,) * (x.ndim - 2))), x, 0.0), 1)


class TimeDistributed(Layer):
    """y[n, t] = act(layer(x[n, t])): one layer for every step

    x (N, T, …), y (N, T, …): N and T are merged, the layer is applied, and they are taken apart again.
    """

    spec_name = "TimeDistributedLayer"
    aliases = ("time_distributed",)
    integers = True
    layer: Child = field(doc="layer that takes one step of every sample")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "N T ... -> N T ..."
    examples = [(dict(layer={"type": "Dense", "out_features": 3}), [(2, 3, 4)]),
                (dict(layer={"type": "Conv2d", "out_channels": 2, "kernel_size": 2}, activation="relu"),
                 [(2, 2, 1, 3, 3)])]

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(F.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:])))
        return activation(self.activation)(F.reshape(y, (*x.shape[:2], *y.shape[1:])))
