"""Ops whose point is no value that another library has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .... import ops as F
from ....core.autodiff import gradients
from ....core.tensor import Tensor, tensor
from ..registry import Subject
from ..results import Result
from . import equal, holds


@holds("op", "custom")
def gradient_is_the_given_one(subject: Subject) -> Iterator[Result]:
    """A straight-through estimator with a factor: nothing that could be derived from rounding."""
    x, g = (np.random.default_rng(k).uniform(-3, 3, (5, 7)).astype(np.float32) for k in range(2))
    leaf = tensor(x)
    y = subject.thing(leaf, function=F.round, backward=_twice)
    yield equal(y.numpy(), np.rint(x))
    yield equal(gradients(y, [leaf], tensor(g))[0].numpy(), 2 * g, note="the gradient is not the given one")


def _twice(x: Tensor, g: Tensor) -> Tensor:
    return g * 2.0
