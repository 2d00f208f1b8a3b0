"""The loop over time of RNN, LSTM and GRU as one op: a formula step by step, and one launch where the weights fit a cache.

A cell takes its input already projected (one product for all steps outside the loop) and leaves *slots* behind: the state
it hands on, then what its gradient needs. The gradient is a loop of its own; those of the weights are one product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ..op import Case, composite
from ..tensor import Tensor
from .copy import concat, split, stack
from .matmul import linear
from .pointwise import arange, cast, equal, relu, sigmoid, tanh, where, zeros
from .reduce import sum
from .view import reshape, transpose

WEIGHTS = 1 << 20  # [bytes] weights up to here stay in the cache of a core over all steps, and come fast enough out of that of a GPU
REGISTERS = {"nvidia": 1 << 16}  # of a work-group on a GPU, where they are known to be many
OTHERS = 36  # registers of an item that hold no weights or sums
MOST_ROWS = 4  # sequences of a work-group of a GPU

Slots = list[Tensor]


@dataclass(frozen=True)
class Cell:
    """One kind of cell, in formulas.

    forward   (xp (B, G·H), hp = h W_hhᵀ + b_hh, state) -> the slots of the step; the first `states` of them are the new state
    backward  (cotangents of the slots, slots, state before) -> (gradients of hp, of what only xp sees, of the state but for hp's share)
    """

    gates: int
    states: int
    slots: int
    forward: Callable[[Tensor, Tensor, Slots], Slots]
    backward: Callable[[Slots, Slots, Slots], tuple[Slots, Slots, Slots]]


def _rnn(activation: Any, slope: Any) -> Cell:
    return Cell(1, 1, 1, lambda xp, hp, s: [activation(xp + hp)], lambda g, y, s: ([g[0] * slope(y[0])], [], [zeros(y[0].shape, y[0].dtype)]))


def _lstm(xp: Tensor, hp: Tensor, state: Slots) -> Slots:
    i, f, g, o = split(xp + hp, 4)
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    c = f * state[1] + i * g
    return [o * tanh(c), c, i, f, g, o]


def _lstm_backward(to: Slots, slots: Slots, before: Slots) -> tuple[Slots, Slots, Slots]:
    _, c, i, f, g, o = slots
    tc = tanh(c)
    to_c = to[1] + to[0] * o * (1 - tc * tc)
    gates = [(to[2] + to_c * g) * i * (1 - i), (to[3] + to_c * before[1]) * f * (1 - f),
             (to[4] + to_c * i) * (1 - g * g), (to[5] + to[0] * tc) * o * (1 - o)]
    return gates, [], [zeros(c.shape, c.dtype), to_c * f]


def _gru(xp: Tensor, hp: Tensor, state: Slots) -> Slots:
    (xr, xz, xn), (hr, hz, hn) = split(xp, 3), split(hp, 3)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = tanh(xn + r * hn)
    return [n + z * (state[0] - n), r, z, n, hn * 1.0]  # computed, so that it goes straight into its slot: a view would be copied there


def _gru_backward(to: Slots, slots: Slots, before: Slots) -> tuple[Slots, Slots, Slots]:
    _, r, z, n, hn = slots
    an = (to[3] + to[0] * (1 - z)) * (1 - n * n)
    gates = [(to[1] + an * hn) * r * (1 - r), (to[2] + to[0] * (before[0] - n)) * z * (1 - z), to[4] + an * r]
    return gates, [an], [to[0] * z]


CELLS = {"tanh": _rnn(tanh, lambda h: 1 - h * h), "relu": _rnn(relu, lambda h: where(h > 0, 1.0, 0.0).astype(h.dtype)),
         "lstm": Cell(4, 2, 6, _lstm, _lstm_backward), "gru": Cell(3, 1, 5, _gru, _gru_backward)}


def _samples(gradient: bool) -> Any:
    def cases() -> list[Case]:
        found = []
        for (name, cell), (t, b, h), reverse in zip(CELLS.items(), ((3, 2, 5), (2, 3, 16), (3, 5, 17), (4, 1, 21)), (False, True, False, True), strict=True):
            slots, state, w = (cell.slots, t, b, h), (cell.states, b, h), (cell.gates * h, h)
            attrs = dict(cell=name, reverse=reverse)
            given = (1 if reverse else cell.slots, t, b, h)
            found.append(Case((given, slots, state, w) if gradient else ((t, b, cell.gates * h), state, w, w[:1]), attrs))
        return found

    return cases


def _walk(count: int, reverse: bool) -> range:
    return range(count - 1, -1, -1) if reverse else range(count)


@composite(cl="recurrent.cl", accepts="float", domain=(-0.5, 0.5), samples=_samples(False))
def _recurrence(xp: Any, state: Any, w_hh: Any, b_hh: Any, *, cell: str, reverse: bool) -> Any:
    """y[s, t] = slot s of cell(xp[t], h W_hhᵀ + b_hh, state), step by step; the state goes from step to step"""
    kind, count = CELLS[cell], xp.shape[0]
    before, steps = [state[k] for k in range(kind.states)], {}
    for t in _walk(count, reverse):
        steps[t] = kind.forward(xp[t], linear(before[0], w_hh, b_hh), before)
        before = steps[t][: kind.states]
    y = stack([steps[t][s] for s in range(kind.slots) for t in range(count)])
    return reshape(y, (kind.slots, count, *state.shape[1:]))


@_recurrence.deflaunch
def _(device: Any, operands: Any, *, cell: str, reverse: bool) -> Any:
    xp, state = operands[0], operands[1]
    return _stages(device, operands, "recurrence", cell, reverse, PART=1, domain=(CELLS[cell].slots, xp.shape[0], *state.shape[1:]))


@composite(cl="recurrent.cl", accepts="float", domain=(-0.5, 0.5), samples=_samples(True))
def _recurrence_gradient(g: Any, y: Any, state: Any, w_hh: Any, *, cell: str, reverse: bool) -> Any:
    """d[t] = (gradients of hp, of what only xp sees, of the state but for hp's share (h for GRU, c for LSTM)) side by side; g may lack last slots"""
    kind, count = CELLS[cell], y.shape[1]
    none = zeros(state.shape[1:], y.dtype)
    carried, steps = [none] * kind.states, {}
    for t in _walk(count, not reverse):
        to = [g[s, t] if s < g.shape[0] else none for s in range(kind.slots)]
        to[: kind.states] = [a + b for a, b in zip(to, carried, strict=False)]
        before = t + 1 if reverse else t - 1
        previous = [y[k, before] if 0 <= before < count else state[k] for k in range(kind.states)]
        gates, only, direct = kind.backward(to, [y[s, t] for s in range(kind.slots)], previous)
        carried = [direct[0] + linear(concat(gates, -1), transpose(w_hh)), *direct[1:]]
        steps[t] = concat([*gates, *only, *direct[-1:]] if only or kind.states > 1 else gates, -1)
    return stack([steps[t] for t in range(count)])


@_recurrence_gradient.deflaunch
def _(device: Any, operands: Any, *, cell: str, reverse: bool) -> Any:
    g, y = operands[0], operands[1]
    _, times, batch, h = y.shape
    kept = {1: 1, 3: 5, 4: 5}[CELLS[cell].gates]
    return _stages(device, operands, "recurrence_gradient", cell, reverse, PART=2, GIVEN=g.shape[0], domain=(times, batch, kept * h))


_recurrence.work = lambda operands, y, attrs: 2.0 * operands[0].size * operands[2].shape[1]
_recurrence_gradient.work = lambda operands, d, attrs: 2.0 * d.shape[0] * d.shape[1] * operands[3].size


@_recurrence.defvjp
def _(g: Any, y: Any, xp: Any, state: Any, w_hh: Any, b_hh: Any, *, cell: str, reverse: bool) -> Any:
    kind, h = CELLS[cell], state.shape[-1]
    d = _recurrence_gradient(_leading(g), y, state, w_hh, cell=cell, reverse=reverse)
    gates = d[..., : kind.gates * h]
    first, later, earlier = (-1, slice(None, -1), slice(1, None)) if reverse else (0, slice(1, None), slice(None, -1))
    to_w = transpose(gates[first]) @ state[0]
    if xp.shape[0] > 1:
        to_w = to_w + transpose(_rows(gates[later])) @ _rows(y[0][earlier])
    to_h = gates[first] @ w_hh
    own = d[first][:, -h:]  # of the state but for what hp hands on
    to_state = stack([to_h, own] if kind.states > 1 else [to_h + own if cell == "gru" else to_h])
    to_xp = concat([d[..., : 2 * h], d[..., 3 * h : 4 * h]], -1) if cell == "gru" else gates
    return to_xp, to_state, to_w, sum(gates, (0, 1))


def _rows(x: Tensor) -> Tensor:
    return reshape(x, (-1, x.shape[-1]))


def _leading(g: Tensor) -> Tensor:
    """g without the last slots where it is known to be 0 there: a sum of zero paddings, as slices of the first slots leave it."""
    used = _reach(g)
    return g[:used] if used < g.shape[0] else g


def _reach(g: Tensor) -> int:
    """How many of the first slots may differ from 0."""
    if g.op is not None and g.op.name == "add" and all(i.shape == g.shape for i in g.inputs):
        return max(map(_reach, g.inputs))
    padded = g.op is not None and g.op.name == "pad" and g.attrs["value"] == 0 and not g.attrs["inner"][0]
    return g.shape[0] - g.attrs["high"][0] if padded else g.shape[0]


# --- geometry
def _stages(device: Any, operands: Any, kernel: str, cell: str, reverse: bool, domain: tuple[int, ...], **defines: Any) -> Any:
    """One launch on a CPU whose cores hold the weights, and on a GPU, where groups read them from the cache; None (the formula) elsewhere."""
    from ..engine.codegen import Stage

    w, state = (operands[2], operands[1]) if kernel == "recurrence" else (operands[3], operands[2])
    (rows, h), kind = w.shape, CELLS[cell]
    size = 8 if w.dtype == "float64" else 4
    if device.kind not in ("cpu", "gpu") or len({o.dtype for o in operands}) > 1 or rows * h * size > WEIGHTS:
        return None
    if device.kind == "gpu":
        more = dict(CELL=cell.upper(), REVERSED=int(reverse), **defines)
        return _gpu_stages(device, kernel, w, state.shape[1], domain[1] if kernel == "recurrence" else domain[0], domain, more)
    batch, times = state.shape[1], domain[1] if kernel == "recurrence" else domain[0]
    lanes = _lanes(device, h, size)
    each = ceil(batch / min(batch, device.compute_units))
    registers = 32 if lanes * size == 64 else 16
    across, vectors = (kind.gates, "UV") if kernel == "recurrence" else (1, "NV")
    mr, n = _tile(each, ceil(h / lanes), across, registers)
    macros = {"CELL": cell.upper(), "B": batch, "H": h, "TIMES": times, "REVERSED": int(reverse), "ROWS": each, "MR": mr, vectors: n,
              "USE_FMA": int(device.runtime != "pocl"), **defines}
    return [Stage(kernel, macros, (ceil(batch / each),), (1,), domain=domain, lanes=lanes)]


def _gpu_stages(device: Any, kernel: str, w: Any, batch: int, times: int, domain: tuple[int, ...], defines: dict[str, Any]) -> Any:
    """A work-group takes one sequence, or several where there are more than compute units; where weights wait: registers, local memory, cache."""
    from ..engine.codegen import Stage

    sums, h = w.shape
    if w.dtype != "float32" or not (h and batch and times):
        return None
    each = min(MOST_ROWS, ceil(batch / device.compute_units))
    group = min(device.max_work_group, 32 * ceil(max(sums, h) / 32))
    out, quads = ceil(sums / group), ceil(h / 4)
    free = min(255, REGISTERS.get(device.runtime, 0) // group) - OTHERS - 4 * each * out
    held = max(0, min(quads, free // (4 * out)))
    local = device.largest_local - 4 * each * (4 * quads * 4 + 2 * sums) - 64
    shared = max(0, min(quads - held, local // (16 * sums)))
    streamed = quads - held - shared
    macros = dict(B=batch, H=h, TIMES=times, ROWS=each, GROUP=group, HELD=4 * held, SHARED=4 * shared, **defines)
    main = Stage(kernel, macros, (ceil(batch / each) * group,), (group,), domain=domain, file="recurrent_gpu.cl")
    if kernel != "recurrence" or not streamed:
        return [main]
    main.scratch = {"packed": 16 * streamed * sums}
    return [Stage("pack_recurrent", dict(macros, PART=0), (sums, streamed), None, scratch=main.scratch, final=False, file="recurrent_gpu.cl"), main]


def _lanes(device: Any, h: int, size: int) -> int:
    lanes: int = max(1, device.vector_width * 4 // size)
    while lanes > max(h, 1):
        lanes //= 2
    return lanes


def _tile(rows: int, vectors: int, across: int, registers: int) -> tuple[int, int]:
    """(MR, vectors) of the register tile: 2 products and 2 loads a cycle, latency 4; edges are computed in full."""
    def cycles(mr: int, n: int) -> float:
        wide = n * across
        return ceil(rows / mr) * ceil(vectors / n) * (max(mr * wide / 2, (mr + wide) / 2, 4) + 1)

    fits = [(mr, n) for mr in range(1, 13) for n in range(1, 9) if n <= vectors and (mr + 1) * n * across + 1 <= registers]
    return min(fits or [(1, 1)], key=lambda c: cycles(*c))


def recurrence(cell: str, xp: Any, state: Sequence[Any], w_hh: Any, b_hh: Any = None, reverse: bool = False,
               lengths: Any = None) -> tuple[Tensor, Slots]:
    """(h of every step (T, B, H), the last state): xp (T, B, G·H) the projected input, state of (B, H) each, w_hh (G·H, H), b_hh (G·H).

    lengths   (B) integers, with reverse=False: outputs from there on are 0, the last state is that of step lengths − 1. The loop runs on
              over what follows, which must be finite, and nothing takes its results: for cells whose state stays bounded
    """
    kind = CELLS[cell]
    bias = zeros(w_hh.shape[:1], w_hh.dtype) if b_hh is None else b_hh
    if lengths is None:
        y = _recurrence(xp, stack(state), w_hh, bias, cell=cell, reverse=reverse)
        return y[0], [y[k, 0 if reverse else -1] for k in range(kind.states)]
    t, end = reshape(arange(n=xp.shape[0], dtype="int32"), (-1, 1, 1)), reshape(cast(lengths, "int32"), (1, -1, 1))
    y = _recurrence(xp, stack(state), w_hh, bias, cell=cell, reverse=False)
    last = [sum(where(equal(t, end - 1), y[k], 0.0), 0) for k in range(kind.states)]
    return where(t < end, y[0], 0.0), [where(end[0] > 0, new, old) for new, old in zip(last, state, strict=True)]
