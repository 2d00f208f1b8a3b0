"""Loops over time, recorded step by step, the cells of recurrent networks, and a recurrent layer over a sequence.

A cell takes its input already projected (one product for all steps outside the loop), so a step is one product with the
recurrent weights and one map for the gates.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..core import arguments
from ..core.function import function
from ..core.op import Case
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from .index import gather
from .joining import stack
from .matmul import linear
from .pointwise import arange, where, zeros
from .recurrent import CELLS, Cell, recurrence
from .steps import Steps, packed, padded
from .view import reshape, transpose

Step = Callable[[Any, Any], tuple[Any, Any]]


def _damped(s: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What examples run: a state that halves and takes x, and its square."""
    return s * 0.5 + x, s * s


@function(lambda: [Case(((3,), (4, 3)), dict(step=_damped)),
                   Case(((2, 3), (3, 2, 3)), dict(step=_damped, reverse=True))])
def scan(step: Step, init: TensorLike, xs: TensorLike, reverse: bool = False,
         lengths: TensorLike | None = None) -> tuple[Any, Tensor]:
    """(s₁, y₁) = step(s₀, x₁), (s₂, y₂) = step(s₁, x₂), …: the last state and the outputs (T, …).

    xs       tensor (T, …), or a tuple of such: step is given the slices of one time
    init     a tensor, or a tuple of tensors; step returns a state of the same structure
    reverse  walk from T to 1; outputs keep their place in time
    lengths  (B) integers, for states and outputs whose first axis is B: from t ≥ length the state stands still
             and the output is 0. In reverse, the walk starts at each sequence's own end.
             Or (B, T) bool: which steps count at all
    The loop is recorded flat (nothing recurses, T = 1000 is fine); each output is computed straight into its slot.
    Raises ShapeError for xs of different lengths or of length 0.
    """
    series = tuple(map(as_tensor, xs)) if isinstance(xs, (tuple, list)) else (as_tensor(xs),)
    times = {x.shape[0] if x.ndim else 0 for x in series}
    if len(times) != 1 or 0 in times:
        raise ShapeError(
            f"scan: expected xs with a leading time axis of one length > 0; got shapes {[x.shape for x in series]}.")
    count = times.pop()
    valid = None if lengths is None else valid_steps(as_tensor(lengths), count)
    state, outputs = init, [None] * count
    for t in range(count - 1, -1, -1) if reverse else range(count):
        now = tuple(x[t] for x in series)
        new, y = step(state, now if isinstance(xs, (tuple, list)) else now[0])
        if valid is not None:
            new, y = _hold(valid[t], new, state), _hold(valid[t], y, None)
        state, outputs[t] = new, y
    return state, stack(outputs)


def valid_steps(lengths: Tensor, count: int) -> Tensor:
    """y[t, b] = t < lengths[b], or the mask (B, T) that was given in their place, transposed: (T, B) bool.
    Raises ShapeError for another mask.
    """
    if lengths.dtype == "bool":
        if lengths.ndim != 2 or lengths.shape[1] != count:
            raise ShapeError(f"scan: expected a mask (B, {count}) as lengths; got {lengths.shape}.")
        return transpose(lengths)
    return reshape(arange(n=count, dtype="int32"), (count, 1)) < reshape(lengths.astype("int32"), (1, -1))


def _hold(valid: Tensor, new: TensorLike, old: TensorLike | None) -> Any:
    """new where valid, else old (0 for None), for a tensor or a tuple of tensors with the batch first."""
    if isinstance(new, (tuple, list)):
        before = (None,) * len(new) if old is None else old
        if not isinstance(before, (tuple, list)):
            raise ShapeError(f"scan: expected step to return a state like init, one tensor; got {len(new)} parts.")
        return tuple(_hold(valid, n, o) for n, o in zip(new, before, strict=True))
    new = as_tensor(new)
    mask = reshape(valid, (valid.shape[0], *(1,) * (new.ndim - 1)))
    return where(mask, new, 0.0 if old is None else old)


# --- cells: xp (B, gates · H) is x W_ihᵀ + b_ih, h (B, H), w_hh (gates · H, H)
def rnn_cell(xp: TensorLike, h: TensorLike, w_hh: TensorLike, b_hh: TensorLike | None = None,
             nonlinearity: str = "tanh") -> Tensor:
    """h' = f(xp + h W_hhᵀ + b_hh), f tanh or relu: one product with everything in its epilogue. Paper: Elman 1990."""
    arguments.choice("rnn_cell", "nonlinearity", nonlinearity, ("tanh", "relu"))
    return _cell("rnn_cell", nonlinearity, xp, (h,), w_hh, b_hh)[0]


def lstm_cell(xp: TensorLike, state: Sequence[Any], w_hh: TensorLike,
              b_hh: TensorLike | None = None) -> tuple[Tensor, Tensor]:
    """(h', c') with i, f, g, o = xp + h W_hhᵀ + b_hh; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c').

    xp (B, 4H), state (h, c) of (B, H) each. One product and one map with two results.
    Paper: Hochreiter, Schmidhuber 1997; Gers et al. 2000.
    """
    h, c = _cell("lstm_cell", "lstm", xp, state, w_hh, b_hh)
    return h, c


def gru_cell(xp: TensorLike, h: TensorLike, w_hh: TensorLike, b_hh: TensorLike | None = None) -> Tensor:
    """h' = (1 − z) n + z h with r, z = σ(xp + hp), n = tanh(xpₙ + r hpₙ), hp = h W_hhᵀ + b_hh.

    xp (B, 3H) in the order r, z, n. One product and one map.
    Paper: Cho et al. 2014, arXiv:1406.1078 (the form with the reset gate after the product).
    """
    return _cell("gru_cell", "gru", xp, (h,), w_hh, b_hh)[0]


def relu_cell(xp: TensorLike, h: TensorLike, w_hh: TensorLike, b_hh: TensorLike | None = None) -> Tensor:
    """h' = max(xp + h W_hhᵀ + b_hh, 0)"""
    return rnn_cell(xp, h, w_hh, b_hh, "relu")


# The cells that the op `recurrence` knows, by its names for them.
KINDS: dict[Callable[..., Any], str] = {rnn_cell: "tanh", relu_cell: "relu", lstm_cell: "lstm", gru_cell: "gru"}


def _kind(cell: Callable[..., Any]) -> str | None:
    """That name; None for a cell of the user's. Public ones (`clnet.ops.lstm_cell`) wrap these, to tell of slips."""
    return KINDS.get(inspect.unwrap(cell))


def _cell(who: str, kind: str, xp: TensorLike, state: object, w_hh: TensorLike,
          b_hh: TensorLike | None) -> list[Tensor]:
    """The new state, after checking the shapes."""
    xp, w_hh = as_tensor(xp), as_tensor(w_hh)
    before = _states(who, state)
    _check_cell(who, CELLS[kind], xp.shape, before, w_hh)
    return CELLS[kind].forward(xp, linear(before[0], w_hh, b_hh), before)[: len(before)]


def _states(who: str, state: object) -> list[Tensor]:
    if not isinstance(state, (tuple, list)):
        raise ShapeError(f"{who}: expected the state as a tuple of tensors; got {arguments.shown(state)}.")
    return [as_tensor(s) for s in state]


def _check_cell(who: str, cell: Cell, xp: tuple[int, ...], state: Sequence[Tensor], w_hh: Tensor) -> None:
    """xp is the shape of one step's."""
    gates, shapes = cell.gates, [s.shape for s in state]
    size = w_hh.shape[-1] if w_hh.ndim else 0
    if (len(xp) != 2 or shapes != [(xp[0], size)] * cell.states
            or (xp[1], w_hh.shape) != (gates * size, (gates * size, size))):
        names = ("h", "c")[: cell.states]
        expected = ", ".join(f"{n} (B, H)" for n in names)
        got = ", ".join(f"{n}{s}" for n, s in zip(names, shapes, strict=False))
        raise ShapeError(
            f"{who}: expected xp (B, {gates}H), {expected}, w_hh ({gates}H, H); got xp{xp}, {got}, w_hh{w_hh.shape}.")


def recur(cell: Callable[..., Any], x: TensorLike, state: TensorLike, w_ih: TensorLike, w_hh: TensorLike,
          b_ih: TensorLike | None = None, b_hh: TensorLike | None = None, reverse: bool = False,
          lengths: TensorLike | None = None) -> tuple[Tensor, Any]:
    """h_t = cell(x_t W_ihᵀ + b_ih, h_{t−1}, W_hh, b_hh) over time-major x (T, B, in): h (T, B, H) and the last state.

    cell   rnn_cell, relu_cell, lstm_cell, gru_cell or a function like them
    The input projection is one product for all steps. The loop is one op, and one launch where the weights fit the
    cache of a core; with a mask, lengths in reverse (or of relu_cell), or a cell of the user's it is recorded step by
    step. Raises ShapeError for x of other axes or without steps, and for states and weights that do not fit.
    """
    x = as_tensor(x)
    if x.ndim != 3:
        raise ShapeError(f"recur: expected x (T, B, in), time first; got {x.shape}.")
    if not x.shape[0]:
        raise ShapeError(f"recur: expected a sequence of at least one step; got x (T, B, in) = {x.shape}.")
    if lengths is not None:  # padding may hold anything, NaN too: as 0 it does not reach the gradient of w_ih either
        valid = reshape(valid_steps(as_tensor(lengths), x.shape[0]), (-1,))
        x = _hold(valid, reshape(x, (-1, x.shape[2])), None).reshape(x.shape)
    return walk(cell, linear(x, w_ih, b_ih), state, w_hh, b_hh, reverse, lengths)


def walk(cell: Callable[..., Any], xp: Tensor, state: TensorLike, w_hh: TensorLike, b_hh: TensorLike | None,
         reverse: bool, lengths: TensorLike | None) -> tuple[Tensor, Any]:
    """The loop of `recur`, of an input that is projected already: xp (T, B, gates · H)."""
    kind = _kind(cell)
    if kind and (lengths is None or _at_the_end(as_tensor(lengths), kind, reverse)):
        several = isinstance(state, (tuple, list))
        before = [as_tensor(s) for s in state] if isinstance(state, (tuple, list)) else [as_tensor(state)]
        _check_cell("recur", CELLS[kind], xp.shape[1:], before, as_tensor(w_hh))
        ys, last = recurrence(kind, xp, before, as_tensor(w_hh), b_hh, reverse, lengths)
        return ys, tuple(last) if several else last[0]

    def step(s: TensorLike, xp_t: Tensor) -> tuple[Any, Tensor]:
        new = cell(xp_t, s, w_hh, b_hh)
        return new, new[0] if isinstance(new, tuple) else new

    last, ys = scan(step, state, xp, reverse, lengths)
    return ys, last


def recur_packed(cell: Callable[..., Any], x: Tensor, state: TensorLike, w_ih: TensorLike, w_hh: TensorLike,
                 b_ih: TensorLike | None, b_hh: TensorLike | None, at: Steps) -> tuple[Tensor, Any]:
    """As `recur`, of sequences one after another: x (S, in) -> h (S, H) and the last state of each sequence.

    The input projection is one product over the S steps that are there; the loop goes on over what is projected, padded
    to (T, N, gates · H).
    """
    xp = padded(linear(x, w_ih, b_ih), at, time_first=True)
    ys, last = walk(cell, xp, state, w_hh, b_hh, False, at.lengths)
    return packed(ys, at, time_first=True), last


def _at_the_end(lengths: Tensor, kind: str, reverse: bool) -> bool:
    """Whether what does not count lies behind what does, and the state stays finite there:
    relu's may grow without bound.
    """
    return lengths.dtype != "bool" and not reverse and kind != "relu"


def reverse_sequences(x: TensorLike, lengths: TensorLike) -> Tensor:
    """y[n, t] = x[n, lengths[n] − 1 − t] for t < lengths[n], x[n, t] beyond: each sequence backwards.
    x (N, T, …), lengths (N) integers.
    """
    x = as_tensor(x)
    n, count = x.shape[:2]
    t, end = arange(n=count, dtype="int32"), reshape(as_tensor(lengths).astype("int32"), (n, 1))
    row = where(t < end, end - 1 - t, t) + reshape(arange(n=n, dtype="int32"), (n, 1)) * count
    return reshape(gather(reshape(x, (n * count, -1)), reshape(row, (-1,))), x.shape)


def zero_state(cell: Callable[..., Any], batch: int, size: int, dtype: str = "float32") -> Any:
    """The state a sequence starts from: zeros that occupy no memory."""
    h = zeros((batch, size), dtype)
    return (h, h) if _kind(cell) == "lstm" else h
