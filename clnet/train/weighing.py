"""How much samples and classes count in the loss that is trained with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import ops as F
from ..core.tensor import Tensor, tensor
from ..errors import ConfigError, DataError
from ..losses.base import Loss
from ..losses.ignored import scored
from ..losses.reading import named
from ..names import ending
from .samples import Batch, Samples


class Weighing(NamedTuple):
    """w = (weight of the sample) · (weight of its class); the loss of a batch is Σ w l / Σ w.

    samples   whether the last input of a batch is the weights of its samples
    classes   the weight of each class number; () where all count the same
    """

    samples: bool = False
    classes: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return self.samples or bool(self.classes)

    def plain(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """What the model takes of the inputs of a batch."""
        return inputs[:-1] if self.samples else inputs

    def weight(self, inputs: Sequence[Tensor]) -> Tensor | None:
        """The weights of the samples of a batch; None where all count the same."""
        return inputs[-1] if self.samples else None

    def scored(self, loss: Any, output: Any, y: Tensor, weight: Tensor | None, counts: Tensor | None) -> Tensor:
        """The loss of what counts (None: of all), weighed."""
        if weight is None and not self.classes:
            return scored(loss, output, y, counts)
        if self.classes:
            number = F.clip(y.astype("int32"), 0, len(self.classes) - 1)
            mine = F.gather(tensor(np.array(self.classes, np.float32)), number)
            weight = mine if weight is None else mine * F.reshape(weight, (*weight.shape, *(1,) * (mine.ndim - 1)))
        assert weight is not None
        if counts is not None:
            weight = F.where(counts, weight, 0.0)
            y = F.where(F.reshape(counts, (*counts.shape, *(1,) * (y.ndim - counts.ndim))), y, 0)
        found: Tensor = loss(output, y, sample_weight=weight)
        return found


def weighing_of(data: Samples, class_weight: object, loss: object) -> Weighing:
    """What `fit(class_weight=)` and the weights of the samples say. Raises ConfigError, DataError."""
    weighs = Weighing(data.sample_weight is not None, () if class_weight is None else _of_classes(data, class_weight))
    if weighs and not isinstance(loss, Loss):
        raise ConfigError(f"fit: expected a loss of clnet.losses with weights; got the function {named(loss)}; "
                          "weigh in it.")
    return weighs


def _of_classes(data: Samples, given: object) -> tuple[float, ...]:
    who = "fit(class_weight=...)"
    y = data.targets()
    y = y[data.known(y[:, None])] if data.ignore is not None else y
    if not y.size or (y.dtype.kind == "f" and not (y % 1 == 0).all()) or y.min() < 0:
        raise DataError(f"{who}: expected targets that are class numbers; got {y.dtype} of shape {y.shape}.")
    counts = np.bincount(y.astype(np.int64).reshape(-1), minlength=max(2, len(data.classes)))
    if y.ndim == 2 and y.shape[1] > 1 and (y.sum(axis=1) == 1).all() and y.max() == 1:
        raise DataError(f"{who}: expected targets that are class numbers; got one column a class, shape {y.shape}; "
                        "number them: y.argmax(1).")
    balanced = isinstance(given, str) and given == "balanced"
    if balanced and not data.counted:
        raise DataError(f"{who}: expected a weight for each class of a {type(data).__name__}, whose samples are not "
                        "counted before they come; got 'balanced'.")
    if balanced:
        there = counts > 0
        return tuple(np.where(there, counts.sum() / (there.sum() * np.maximum(counts, 1)), 1.0).tolist())
    listed = isinstance(given, (list, tuple, np.ndarray)) and len(np.shape(given)) == 1
    if listed and len(given) >= len(counts):  # type: ignore[arg-type]
        given = dict(enumerate(given))  # type: ignore[arg-type]
    if not isinstance(given, Mapping):
        raise ConfigError(f'{who}: expected "balanced" or a weight for each class, as {{0: 1.0, 1: 5.0}}; '
                          f"got {given!r}.")
    whole = not data.classes and set(given) == set(range(len(given)))  # some of which may have no sample here
    count = max(len(counts), len(given) if whole else 0)
    found = np.ones(count)
    names: dict[object, int] = {**dict(enumerate(range(count))), **{n: k for k, n in enumerate(data.classes)}}
    for name, value in given.items():
        if name not in names:
            raise ConfigError(f"{who}: expected class numbers below {count}"
                              f"{f', or names {data.classes}' if data.classes else ''}; got {name!r}"
                              f"{ending(str(name), data.classes)}")
        if not isinstance(value, (int, float, np.number)) or not 0 <= value < np.inf:
            raise ConfigError(f"{who}: expected finite weights of at least 0; got {value!r} for {name!r}.")
        found[names[name]] = value
    if not found[: len(counts)][counts > 0].any():
        raise ConfigError(f"{who}: expected a weight above 0 for a class that is there; got {given!r}.")
    return tuple(found.tolist())


def batch_of(data: Samples, part: Any) -> Batch:
    """The samples of these numbers as a step takes them: their weights behind their inputs."""
    inputs, y = data.rows(part)
    return (inputs, y) if data.sample_weight is None else ((*inputs, data.sample_weight[part]), y)
