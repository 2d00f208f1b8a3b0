"""The loop over time of RNN, LSTM and GRU as one op: a formula step by step, and one launch
where the weights fit a cache.

A cell takes its input already projected (one product for all steps outside the loop) and leaves *slots* behind: the
state it hands on, then what its gradient needs. The gradient is a loop of its own; those of the weights are one product
over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.formula import composite
from ..core.op import Case, Cotangents
from ..core.spec import Spec, promote
from ..core.tensor import Tensor, TensorLike
from ..errors import ShapeError
from ..kernels.cells import SIZES, Sizes
from ..kernels.choosers import RECURRENCE, RECURRENCE_GRADIENT
from .joining import concat, split, stack
from .matmul import linear
from .pointwise import arange, cast, equal, relu, sigmoid, tanh, where, zeros
from .reduce import sum
from .view import reshape, transpose

Slots = list[Tensor]
Forward = Callable[[Tensor, Tensor, Slots], Slots]
Backward = Callable[[Slots, Slots, Slots], tuple[Slots, Slots, Slots]]


@dataclass(frozen=True)
class Cell(Sizes):
    """One kind of cell, in formulas.

    forward   (xp (B, G·H), hp = h W_hhᵀ + b_hh, state) -> the slots of the step;
              the first `states` of them are the new state
    backward  (cotangents of the slots, slots, state before)
              -> (gradients of hp, of what only xp sees, of the state but for hp's share)
    """

    forward: Forward
    backward: Backward


def _rnn(activation: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> tuple[Forward, Backward]:
    return (lambda xp, hp, s: [activation(xp + hp)],
            lambda g, y, s: ([g[0] * slope(y[0])], [], [zeros(y[0].shape, y[0].dtype)]))


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
    # computed, so that it goes straight into its slot: a view would be copied there
    return [n + z * (state[0] - n), r, z, n, hn * 1.0]


def _gru_backward(to: Slots, slots: Slots, before: Slots) -> tuple[Slots, Slots, Slots]:
    _, r, z, n, hn = slots
    an = (to[3] + to[0] * (1 - z)) * (1 - n * n)
    gates = [(to[1] + an * hn) * r * (1 - r), (to[2] + to[0] * (before[0] - n)) * z * (1 - z), to[4] + an * r]
    return gates, [an], [to[0] * z]


_FORMULAS = (_rnn(tanh, lambda h: 1 - h * h), _rnn(relu, lambda h: where(h > 0, 1.0, 0.0).astype(h.dtype)),
             (_lstm, _lstm_backward), (_gru, _gru_backward))
CELLS = {name: Cell(s.gates, s.states, s.slots, *formulas)
         for (name, s), formulas in zip(SIZES.items(), _FORMULAS, strict=True)}


def _samples(gradient: bool) -> Any:
    def cases() -> list[Case]:
        found = []
        for (name, cell), (t, b, h), reverse in zip(CELLS.items(), ((3, 2, 5), (2, 3, 16), (3, 5, 17), (4, 1, 21)),
                                                    (False, True, False, True), strict=True):
            slots, state, w = (cell.slots, t, b, h), (cell.states, b, h), (cell.gates * h, h)
            given = (1 if reverse else cell.slots, t, b, h)
            shapes = (given, slots, state, w) if gradient else ((t, b, cell.gates * h), state, w, w[:1])
            found.append(Case(shapes, dict(cell=name, reverse=reverse)))
        return found

    return cases


def _slots_spec(xp: Spec, state: Spec, w_hh: Spec, b_hh: Spec, *, cell: str, reverse: bool) -> Spec:
    kind = _checked(cell, state, w_hh)
    return Spec((kind.slots, *xp.shape[:2], w_hh.shape[1]), promote(xp.dtype, state.dtype, w_hh.dtype, b_hh.dtype))


def _gradient_spec(g: Spec, y: Spec, state: Spec, w_hh: Spec, *, cell: str, reverse: bool) -> Spec:
    kept = _checked(cell, state, w_hh).kept * w_hh.shape[1]
    return Spec((*y.shape[1:3], kept), promote(g.dtype, y.dtype, state.dtype, w_hh.dtype))


def _checked(cell: str, state: Spec, w_hh: Spec) -> Cell:
    """The cell, whose state has as many parts as were given, and its gates as many weights."""
    kind, (rows, h) = CELLS[cell], w_hh.shape
    if state.shape[0] != kind.states or rows != kind.gates * h:
        raise ShapeError(f"recurrence: expected a state of {kind.states} parts and w_hh ({kind.gates}H, H) for "
                         f"{cell!r}; got state{state.shape}, w_hh{w_hh.shape}.")
    return kind


def _walk(count: int, reverse: bool) -> range:
    return range(count - 1, -1, -1) if reverse else range(count)


@composite("t b x, s b h, x h, x -> o t b h", cl="recurrent.cl", accepts="float", domain=(-0.5, 0.5),
           samples=_samples(False), launch=RECURRENCE, infer=_slots_spec,
           work=lambda operands, y, attrs: 2.0 * operands[0].size * operands[2].shape[1])
def _recurrence(xp: Tensor, state: Tensor, w_hh: Tensor, b_hh: Tensor, *, cell: str, reverse: bool) -> Tensor:
    """y[s, t] = slot s of cell(xp[t], h W_hhᵀ + b_hh, state), step by step; the state goes from step to step"""
    kind, count = CELLS[cell], xp.shape[0]
    before, steps = [state[k] for k in range(kind.states)], {}
    for t in _walk(count, reverse):
        steps[t] = kind.forward(xp[t], linear(before[0], w_hh, b_hh), before)
        before = steps[t][: kind.states]
    y = stack([steps[t][s] for s in range(kind.slots) for t in range(count)])
    return reshape(y, (kind.slots, count, *state.shape[1:]))


@composite("i t b h, o t b h, s b h, x h -> t b k", cl="recurrent.cl", accepts="float", domain=(-0.5, 0.5),
           samples=_samples(True), launch=RECURRENCE_GRADIENT, infer=_gradient_spec,
           work=lambda operands, d, attrs: 2.0 * d.shape[0] * d.shape[1] * operands[3].size)
def _recurrence_gradient(g: Tensor, y: Tensor, state: Tensor, w_hh: Tensor, *, cell: str, reverse: bool) -> Tensor:
    """d[t] = (gradients of hp, of what only xp sees, of the state but for hp's share (h for GRU, c for LSTM))
    side by side; g may lack last slots
    """
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


@_recurrence.defvjp
def _(g: Tensor, y: Tensor, xp: Tensor, state: Tensor, w_hh: Tensor, b_hh: Tensor, *, cell: str,
      reverse: bool) -> Cotangents:
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
    """g without the last slots where it is known to be 0 there: a sum of zero paddings,
    as slices of the first slots leave it.
    """
    used = _reach(g)
    return g[:used] if used < g.shape[0] else g


def _reach(g: Tensor) -> int:
    """How many of the first slots may differ from 0."""
    if g.op is not None and g.op.name == "add" and all(i.shape == g.shape for i in g.inputs):
        return max(map(_reach, g.inputs))
    padded = g.op is not None and g.op.name == "pad" and g.attrs["value"] == 0 and not g.attrs["inner"][0]
    return g.shape[0] - g.attrs["high"][0] if padded else g.shape[0]


def recurrence(cell: str, xp: Tensor, state: Sequence[Tensor], w_hh: Tensor, b_hh: TensorLike | None = None,
               reverse: bool = False, lengths: TensorLike | None = None) -> tuple[Tensor, Slots]:
    """(h of every step (T, B, H), the last state): xp (T, B, G·H) the projected input, state of (B, H) each,
    w_hh (G·H, H), b_hh (G·H).

    lengths   (B) integers, with reverse=False: outputs from there on are 0, the last state is that of step lengths − 1.
              The loop runs on over what follows, which must be finite, and nothing takes its results: for cells whose
              state stays bounded
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
