"""Connectionist temporal classification: how improbable it is that frames write a sequence of labels,
over all their alignments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arguments import Ints
from ..core.arrays import Array
from ..core.op import Case, Cotangents, kernel
from ..core.spec import Spec, accept
from ..core.tensor import Tensor, TensorLike, as_tensor, widened
from ..errors import ConfigError, DataError, ShapeError
from ..kernels.choosers import CTC, CTC_SLOPE
from .pointwise import cast
from .view import reshape


def _samples() -> list[Case]:
    rng = np.random.default_rng(6)

    def case(t: int, n: int, c: int, s: int, il: Ints, tl: Ints, blank: int = 0, packed: bool = False) -> Case:
        z = rng.standard_normal((t, n, c)).astype(np.float32)
        z -= np.log(np.exp(z).sum(-1, keepdims=True))
        y = rng.integers(1, c, (n, s)).astype(np.int32)
        y = (y + blank) % c
        y = np.concatenate([row[:k] for row, k in zip(y, tl, strict=True)]) if packed else y
        return Case((z, y, np.array(il, np.int32), np.array(tl, np.int32)), dict(blank=blank, width=s))

    return [case(9, 3, 4, 3, (9, 7, 8), (3, 0, 2)), case(12, 2, 19, 4, (12, 10), (2, 4), blank=18, packed=True),
            case(3, 1, 2, 1, (3,), (1,))]


def _infer(log_probs: Spec, targets: Spec, input_lengths: Spec, target_lengths: Spec, *, blank: int,
           width: int) -> Spec:
    accept("ctc", "float", [log_probs])
    for s in (targets, input_lengths, target_lengths):
        accept("ctc", "int", [s])
    if (len(log_probs.shape) != 3 or len(targets.shape) not in (1, 2)
            or not input_lengths.shape == target_lengths.shape == log_probs.shape[1:2]):
        raise ShapeError(
            "ctc: expected log-probabilities (T, N, C), targets (N, S) or one after the other, lengths (N); "
            f"got {log_probs.shape}, {targets.shape}, {input_lengths.shape} and {target_lengths.shape}.")
    if len(targets.shape) == 2 and targets.shape != (log_probs.shape[1], width):
        raise ShapeError(f"ctc: expected targets ({log_probs.shape[1]}, {width}); got {targets.shape}.")
    return Spec(log_probs.shape[1:2], log_probs.dtype)


def _sequences(targets: Array, input_lengths: Array, target_lengths: Array, shape: Ints,
               blank: int) -> Iterator[tuple[int, int, Any]]:
    """(sample, frames, extended target) of each sample; frames −1 where lengths or labels cannot be."""
    starts = np.cumsum([0, *np.maximum(target_lengths, 0)]) if targets.ndim == 1 else np.zeros(shape[1], np.int64)
    for n in range(shape[1]):
        line, count = targets[starts[n] :] if targets.ndim == 1 else targets[n], int(target_lengths[n])
        y = line[: max(count, 0)]
        good = 0 <= count <= len(line) and 0 <= input_lengths[n] <= shape[0] and ((y >= 0) & (y < shape[2])).all()
        extended = np.full(2 * len(y) + 1, blank, np.int64)
        extended[1::2] = y if good else blank
        yield n, int(input_lengths[n]) if good else -1, extended


def _forward(lp: Array, extended: Array, blank: int) -> Array:
    """α of every frame and state, for lp (frames, states)."""
    skip = np.zeros(len(extended), bool)
    skip[2:] = (extended[2:] != blank) & (extended[2:] != extended[:-2])
    a = np.full(lp.shape, -np.inf, lp.dtype)
    a[0, :2] = lp[0, :2]
    for t in range(1, len(lp)):
        one, two = (np.concatenate([np.full(k, -np.inf), a[t - 1]])[: len(extended)] for k in (1, 2))
        a[t] = np.logaddexp(np.logaddexp(a[t - 1], one), np.where(skip, two, -np.inf)) + lp[t]
    return a


@kernel(cl="ctc.cl", samples=_samples, infer=_infer, accepts="any", launch=CTC)
def _ctc(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, *, blank: int,
         width: int) -> Array:
    """y = −ln Σ over alignments π of the target of Π_t p(t, π_t), per sample; ∞ where there is none"""
    y = np.full(log_probs.shape[1], np.nan, log_probs.dtype)
    for n, frames, extended in _sequences(targets, input_lengths, target_lengths, log_probs.shape, blank):
        if frames > 0:
            y[n] = -np.logaddexp.reduce(_forward(log_probs[:frames, n, extended], extended, blank)[-1, -2:])
        elif frames == 0:
            y[n] = 0 if len(extended) == 1 else np.inf
    return y


@_ctc.defvjp
def _(g: Tensor, y: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, *,
      blank: int, width: int) -> Cotangents:
    slope = _ctc_slope(log_probs, targets, input_lengths, target_lengths, blank=blank, width=width)
    return reshape(g, (1, g.shape[0], 1)) * slope, None, None, None


def _slope_infer(log_probs: Spec, *more: Spec, blank: int, width: int) -> Spec:
    return Spec(log_probs.shape, _infer(log_probs, *more, blank=blank, width=width).dtype)


@kernel(cl="ctc.cl", samples=_samples, infer=_slope_infer, accepts="any", launch=CTC_SLOPE)
def _ctc_slope(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, *, blank: int,
               width: int) -> Array:
    """dx[t, c] = −P(frame t writes c | the target), per sample; 0 where there is no alignment"""
    dx = np.zeros_like(log_probs)
    for n, frames, extended in _sequences(targets, input_lengths, target_lengths, log_probs.shape, blank):
        if frames < 0:
            dx[:, n] = np.nan
        if frames <= 0:
            continue
        lp = log_probs[:frames, n, extended]
        ahead = _forward(lp, extended, blank)
        back = _forward(lp[::-1, ::-1], extended[::-1], blank)[::-1, ::-1]
        total = np.logaddexp.reduce(ahead[-1, -2:])
        if total == -np.inf:
            continue
        share = np.exp(ahead + back - np.where(np.isneginf(lp), 0, lp) - total)
        for s, c in enumerate(extended):
            dx[:frames, n, c] -= share[:, s]
    return dx


# --- what users call
def ctc(log_probs: TensorLike, targets: TensorLike, input_lengths: TensorLike, target_lengths: TensorLike,
        blank: int = 0) -> Tensor:
    """y = −ln Σ over alignments of the target of Π_t p(t, ·), per sample: (T, N, C) log-probabilities -> (N);
    ∞ where there is no alignment.

    targets         (N, S) integers, or all targets one after the other (their sum of lengths)
    input_lengths   (N) frames that count        target_lengths   (N) labels that count
    One launch for the values; the gradient −P(frame t writes c | target) is two. A work-item (CPU) or work-group (GPU)
    a sample. Raises ShapeError; DataError for lengths and labels known on the host that cannot be, on the device these
    samples are NaN. Paper: Graves, Fernández, Gomez, Schmidhuber 2006, ICML.
    """
    x = as_tensor(log_probs)
    y, il, tl = (cast(as_tensor(v), "int32") if as_tensor(v).value is None else _host(v)
                 for v in (targets, input_lengths, target_lengths))
    blank = arguments.integer("ctc", "blank", blank, 0)
    if x.ndim == 3 and blank >= x.shape[2]:
        raise ConfigError(f"ctc: expected blank in [0, {x.shape[2]}); got {blank}.")
    width = y.shape[1] if y.ndim == 2 else y.size if tl.value is None or not tl.size else int(tl.value.max())
    _infer(x.spec, y.spec, il.spec, tl.spec, blank=blank, width=width)
    _check(x, y, il, tl, blank, width)
    wide = widened(x)
    value: Tensor = _ctc(wide, y, il, tl, blank=blank, width=width)
    return value.astype(x.dtype)


def _host(v: TensorLike) -> Tensor:
    """Integers that the host knows, still known after the conversion."""
    t = as_tensor(v)
    accept("ctc", "int", [t.spec])
    assert t.value is not None
    return t if t.dtype == "int32" else as_tensor(t.value.astype(np.int32))


def _check(x: Tensor, y: Tensor, il: Tensor, tl: Tensor, blank: int, width: int) -> None:
    for name, t, most in (("input_lengths", il, x.shape[0]), ("target_lengths", tl, width)):
        if t.value is not None and t.size and (t.value.min() < 0 or t.value.max() > most):
            raise DataError(f"ctc: expected {name} in [0, {most}]; got {t.value.tolist()[:8]}.")
    if tl.value is None:
        return
    if y.ndim == 1 and int(tl.value.sum()) != y.size:
        raise DataError(
            f"ctc: expected as many targets as target_lengths add up to, {int(tl.value.sum())}; got {y.size}.")
    if y.value is None:
        return
    used = y.value if y.ndim == 1 else y.value[np.arange(width) < tl.value[:, None]]
    bad = (used < 0) | (used >= x.shape[2]) | (used == blank)
    if bad.any():
        raise DataError(
            f"ctc: expected labels in [0, {x.shape[2]}) that are not the blank ({blank}); "
            f"got {int(used[np.argmax(bad)])}.")
