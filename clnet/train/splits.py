"""Which samples are held out: drawn by a seed; class by class, or whole groups."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import arguments
from ..errors import DataError

Array = np.ndarray[Any, Any]


def count_of(who: str, test: object, total: int) -> int:
    """How many samples a share in (0, 1), rounded up, or a number of them is. Raises DataError."""
    number = isinstance(test, (int, float, np.number)) and not isinstance(test, bool)
    whole = number and isinstance(test, (int, np.integer)) and test >= 1
    if not number or not (whole or 0 < test < 1):  # type: ignore[operator]
        raise DataError(
            f"{who}: expected a share in (0, 1), or a number of samples, "
            "at least 1, so that there are samples on both sides.")
    count = int(test) if whole else math.ceil(total * test)  # type: ignore[call-overload,operator]
    if not 0 < count < total:
        raise DataError(f"{who}: expected samples on both sides; got {total - count} and {count} of {total}.")
    return count


def parts(who: str, total: int, test: object, seed: int, strata: Array | None, groups: Array | None,
          ) -> tuple[Array, Array]:
    """The numbers of the samples to train with and of those held out, each rising. Raises DataError."""
    draws = np.random.Generator(np.random.PCG64(arguments.integer(who, "seed", seed, 0, DataError)))
    count = count_of(who, test, total)
    if strata is not None and groups is not None:
        raise DataError(f"{who}: expected stratify= or groups=; got both; groups stay whole, so that no share is kept.")
    order = draws.permutation(total)
    if strata is not None:
        held = _stratified(who, order, count, _labels(who, "stratify", strata, total))
    elif groups is not None:
        held = _grouped(who, draws, count, _labels(who, "groups", groups, total))
    else:
        held = order[:count]
    return np.setdiff1d(np.arange(total), held), np.sort(held)


def _labels(who: str, name: str, given: Array, total: int) -> Array:
    """The number of each sample's label; several numbers, one-hot ones too, are one label."""
    if not given.ndim or len(given) != total:
        raise DataError(f"{who}: expected a {name} of one label a sample, {total}; got shape {given.shape}.")
    if name == "stratify" and given.dtype.kind == "f" and not (given % 1 == 0).all():
        raise DataError(f"{who}: expected classes to stratify by; got numbers that are not whole; bin them: "
                        "stratify=np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75])).")
    values = given.astype(str) if given.dtype == object else given
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)


def _stratified(who: str, order: Array, count: int, labels: Array) -> Array:
    """Of every class its share, the largest remainders rounded up."""
    sizes = np.bincount(labels)
    exact = sizes * count / len(order)
    share = np.floor(exact).astype(int)
    rest = np.argsort(share - exact, kind="stable")[: count - share.sum()]
    share[rest] += 1
    share = np.minimum(share, np.maximum(sizes - 1, 0))  # a class that is held out whole could not be learnt
    held = np.concatenate([order[labels[order] == k][:n] for k, n in enumerate(share)])
    if not len(held):
        raise DataError(f"{who}: expected classes of two samples or more; got {len(sizes)} of {len(order)} samples.")
    return held


def _grouped(who: str, draws: np.random.Generator, count: int, labels: Array) -> Array:
    """Whole groups, drawn until there are enough samples."""
    sizes = np.bincount(labels)
    if len(sizes) < 2:
        raise DataError(f"{who}: expected at least two groups; got {len(sizes)}.")
    order = draws.permutation(len(sizes))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), count)) + 1
    return np.flatnonzero(np.isin(labels, order[: min(enough, len(sizes) - 1)]))
