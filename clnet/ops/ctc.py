"""Connectionist temporal classification: how improbable it is that frames write a sequence of labels, over all their alignments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import arguments
from ..errors import ConfigError, DataError, ShapeError
from ..op import Case, kernel
from ..spec import Spec, accept
from ..tensor import Tensor, as_tensor
from .pointwise import cast
from .view import reshape

GPU_GROUP = 64  # work-items per sample; states beyond are dealt out in turn
WORTH = 4096  # [elements] of the slope that are worth a work-item of their own on a CPU


def _samples() -> list[Case]:
    rng = np.random.default_rng(6)

    def case(t: int, n: int, c: int, s: int, il: Any, tl: Any, blank: int = 0, packed: bool = False) -> Case:
        z = rng.standard_normal((t, n, c)).astype(np.float32)
        z -= np.log(np.exp(z).sum(-1, keepdims=True))
        y = rng.integers(1, c, (n, s)).astype(np.int32)
        y = (y + blank) % c
        y = np.concatenate([row[:k] for row, k in zip(y, tl, strict=True)]) if packed else y
        return Case((z, y, np.array(il, np.int32), np.array(tl, np.int32)), dict(blank=blank, width=s))

    return [case(9, 3, 4, 3, (9, 7, 8), (3, 0, 2)), case(12, 2, 19, 4, (12, 10), (2, 4), blank=18, packed=True), case(3, 1, 2, 1, (3,), (1,))]


def _infer(log_probs: Spec, targets: Spec, input_lengths: Spec, target_lengths: Spec, *, blank: int, width: int) -> Spec:
    accept("ctc", "float", [log_probs])
    for s in (targets, input_lengths, target_lengths):
        accept("ctc", "int", [s])
    if len(log_probs.shape) != 3 or len(targets.shape) not in (1, 2) or not input_lengths.shape == target_lengths.shape == log_probs.shape[1:2]:
        raise ShapeError(f"ctc: expected log-probabilities (T, N, C), targets (N, S) or one after the other, lengths (N); got {log_probs.shape}, "
                         f"{targets.shape}, {input_lengths.shape} and {target_lengths.shape}.")
    if len(targets.shape) == 2 and targets.shape != (log_probs.shape[1], width):
        raise ShapeError(f"ctc: expected targets ({log_probs.shape[1]}, {width}); got {targets.shape}.")
    return Spec(log_probs.shape[1:2], log_probs.dtype)


def _sequences(targets: Any, input_lengths: Any, target_lengths: Any, shape: Any, blank: int) -> Iterator[tuple[int, int, Any]]:
    """(sample, frames, extended target) of each sample; frames −1 where lengths or labels cannot be."""
    starts = np.cumsum([0, *np.maximum(target_lengths, 0)]) if targets.ndim == 1 else np.zeros(shape[1], np.int64)
    for n in range(shape[1]):
        line, count = targets[starts[n] :] if targets.ndim == 1 else targets[n], int(target_lengths[n])
        y = line[: max(count, 0)]
        good = 0 <= count <= len(line) and 0 <= input_lengths[n] <= shape[0] and ((y >= 0) & (y < shape[2])).all()
        extended = np.full(2 * len(y) + 1, blank, np.int64)
        extended[1::2] = y if good else blank
        yield n, int(input_lengths[n]) if good else -1, extended


def _forward(lp: Any, extended: Any, blank: int) -> Any:
    """α of every frame and state, for lp (frames, states)."""
    skip = np.zeros(len(extended), bool)
    skip[2:] = (extended[2:] != blank) & (extended[2:] != extended[:-2])
    a = np.full(lp.shape, -np.inf, lp.dtype)
    a[0, :2] = lp[0, :2]
    for t in range(1, len(lp)):
        one, two = (np.concatenate([np.full(k, -np.inf), a[t - 1]])[: len(extended)] for k in (1, 2))
        a[t] = np.logaddexp(np.logaddexp(a[t - 1], one), np.where(skip, two, -np.inf)) + lp[t]
    return a


@kernel(cl="ctc.cl", samples=_samples, infer=_infer, accepts="any")
def _ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *, blank: int, width: int) -> Any:
    """y = −ln Σ over alignments π of the target of Π_t p(t, π_t), per sample; ∞ where there is none"""
    y = np.full(log_probs.shape[1], np.nan, log_probs.dtype)
    for n, frames, extended in _sequences(targets, input_lengths, target_lengths, log_probs.shape, blank):
        if frames > 0:
            y[n] = -np.logaddexp.reduce(_forward(log_probs[:frames, n, extended], extended, blank)[-1, -2:])
        elif frames == 0:
            y[n] = 0 if len(extended) == 1 else np.inf
    return y


@_ctc.defvjp
def _(g: Any, y: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *, blank: int, width: int) -> Any:
    slope = _ctc_slope(log_probs, targets, input_lengths, target_lengths, blank=blank, width=width)
    return reshape(g, (1, g.shape[0], 1)) * slope, None, None, None


def _slope_infer(log_probs: Spec, *more: Spec, blank: int, width: int) -> Spec:
    return Spec(log_probs.shape, _infer(log_probs, *more, blank=blank, width=width).dtype)


@kernel(cl="ctc.cl", samples=_samples, infer=_slope_infer, accepts="any")
def _ctc_slope(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *, blank: int, width: int) -> Any:
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


_ctc_slope.vjp = None


# --- launches
def _sizes(device: Any, operands: Any, blank: int, width: int) -> dict[str, Any]:
    (frames, batch, classes), targets = operands[0].shape, operands[1].shape
    gpu = device.kind == "gpu"
    return {"FRAMES": frames, "BATCH": batch, "CLASSES": classes, "WIDTH": width, "BLANK": blank, "PACKED": int(len(targets) == 1), "GPU": int(gpu),
            "TOTAL": targets[0] if len(targets) == 1 else 0, "GROUP": GPU_GROUP if gpu else 1}


@_ctc.deflaunch
def _(device: Any, operands: Any, *, blank: int, width: int) -> Any:
    from ..engine.codegen import Stage

    sizes, item = _sizes(device, operands, blank, width), 8 if operands[0].dtype == "float64" else 4
    batch, group = sizes["BATCH"], sizes["GROUP"]
    return [Stage("ctc", {**sizes, "STAGE": "VALUE"}, (batch * group,), (group,), (batch,), scratch={"rows": item * batch * 2 * (2 * width + 1)})]


@_ctc_slope.deflaunch
def _(device: Any, operands: Any, *, blank: int, width: int) -> Any:
    from ..engine.codegen import Stage

    sizes, item = _sizes(device, operands, blank, width), 8 if operands[0].dtype == "float64" else 4
    frames, batch, classes = operands[0].shape
    group, states, rows = sizes["GROUP"], 2 * width + 1, frames * batch
    items = max(1, min(rows, device.compute_units * 4, rows * classes // WORTH))
    chunk = -(-rows // items)
    items = -(-rows // chunk)
    scratch = {"rows": item * batch * 2 * states, "e": item * rows * states, "tops": item * rows, "bad": item * batch, "sums": item * items * classes}
    first = Stage("ctc", {**sizes, "STAGE": "POSTERIOR"}, (batch * group,), (group,), scratch=scratch, final=False)
    scatter = {**sizes, "STAGE": "SCATTER", "CHUNK": chunk}
    if device.kind == "gpu":
        return [first, Stage("scatter", scatter, (-(-rows * classes // 256) * 256,), (256,), (frames, batch, classes), scratch=scratch)]
    lanes = device.vector_width if classes >= device.vector_width else 1
    return [first, Stage("scatter", scatter, (items,), (1,), (frames, batch, classes), lanes, scratch)]


# --- what users call
def ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0) -> Tensor:
    """y = −ln Σ over alignments of the target of Π_t p(t, ·), per sample: (T, N, C) log-probabilities -> (N); ∞ where there is no alignment.

    targets         (N, S) integers, or all targets one after the other (their sum of lengths)
    input_lengths   (N) frames that count        target_lengths   (N) labels that count
    One launch for the values; the gradient −P(frame t writes c | target) is two. A work-item (CPU) or work-group (GPU) a sample.
    Raises ShapeError; DataError for lengths and labels known on the host that cannot be, on the device these samples are NaN.
    Paper: Graves, Fernández, Gomez, Schmidhuber 2006, ICML.
    """
    x = as_tensor(log_probs)
    y, il, tl = (cast(as_tensor(v), "int32") if as_tensor(v).value is None else _host(v) for v in (targets, input_lengths, target_lengths))
    blank = arguments.integer("ctc", "blank", blank, 0)
    if x.ndim == 3 and blank >= x.shape[2]:
        raise ConfigError(f"ctc: expected blank in [0, {x.shape[2]}); got {blank}.")
    width = y.shape[1] if y.ndim == 2 else y.size if tl.value is None or not tl.size else int(tl.value.max())
    _infer(x.spec, y.spec, il.spec, tl.spec, blank=blank, width=width)
    _check(x, y, il, tl, blank, width)
    wide = x.astype("float32") if x.dtype in ("float16", "bfloat16") else x
    value: Tensor = _ctc(wide, y, il, tl, blank=blank, width=width)
    return value.astype(x.dtype)


def _host(v: Any) -> Tensor:
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
        raise DataError(f"ctc: expected as many targets as target_lengths add up to, {int(tl.value.sum())}; got {y.size}.")
    if y.value is None:
        return
    used = y.value if y.ndim == 1 else y.value[np.arange(width) < tl.value[:, None]]
    bad = (used < 0) | (used >= x.shape[2]) | (used == blank)
    if bad.any():
        raise DataError(f"ctc: expected labels in [0, {x.shape[2]}) that are not the blank ({blank}); got {int(used[np.argmax(bad)])}.")
