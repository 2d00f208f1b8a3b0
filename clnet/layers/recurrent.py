"""Recurrent layers: batch first, the input projected for all steps at once, gates in PyTorch's order,
sequences of several lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .. import init
from .. import ops as F
from ..config.fields import bound, choice, field, fraction, positive
from ..core.spec import is_float
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from ..ops.scan import gru_cell, lstm_cell, recur, recur_packed, relu_cell, reverse_sequences, rnn_cell, zero_state
from ..ops.steps import Steps
from .base import Layer, New
from .fields import Child
from .packed import unpacked
from .utility import Dropout

Cell: TypeAlias = Callable[..., Any]  # a step of `clnet.ops.scan`
State: TypeAlias = Tensor | tuple[Tensor, ...]
LENGTHS = np.array([3, 1], np.int32)  # in examples
STEPS = np.array([[0, 1, -1], [2, 3, 4]], np.int32)  # of two sequences one after another
SEQUENCE = "N T input_size -> N T hidden_size"


class _Level(Layer):
    """The weights of one layer of a stack: w_ih (G · H, in), w_hh (G · H, H), b_ih and b_hh (G · H)."""

    input_size: int = positive(doc="features of its input")
    hidden_size: int = positive(doc="H")
    gates: int = positive(doc="G")
    use_bias: bool = field(True, alias="bias", doc="whether b_ih and b_hh are there")
    forget_bias: float = field(0.0, doc="what is added to the second quarter of b_ih")

    def setup(self, new: New) -> None:
        h, rows = self.hidden_size, self.gates * self.hidden_size
        self.w_ih, self.w_hh = new.weight(rows, self.input_size, fan_in=h), new.weight(rows, h, fan_in=h)
        self.b_ih = self.b_hh = None
        if self.use_bias:
            values = init.uniform((rows,), h**-0.5)
            values[h : 2 * h] += self.forget_bias
            self.b_ih, self.b_hh = new.value(values, role="bias"), new.bias(rows, fan_in=h)

    def forward(self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None = None, reverse: bool = False,
                at: Steps | None = None) -> tuple[Tensor, State]:
        if at is not None:
            return recur_packed(cell, x, state, self.w_ih, self.w_hh, self.b_ih, self.b_hh, at)
        return recur(cell, x, state, self.w_ih, self.w_hh, self.b_ih, self.b_hh, reverse, lengths)


def states_and_lengths(who: str, x: Tensor, given: tuple[Tensor | None, ...],
                       lengths: Tensor | None) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """(float inputs, the lengths or mask): what a recurrent layer was called with besides x. Raises ShapeError."""
    whole = [s for s in given if s is not None and not is_float(s.dtype)]
    if len(whole) + (lengths is not None) > 1:
        raise ShapeError(
            f"{who}: expected lengths or a mask once; got them {len(whole) + (lengths is not None)} times.")
    lengths = whole[0] if whole else lengths
    if x.ndim == 2 and (lengths is None or lengths.dtype == "bool"):
        raise ShapeError(f"{who}: expected steps, integers (N, T), beside packed values {x.shape}; got "
                         f"{'none' if lengths is None else f'{lengths.dtype}{lengths.shape}'}.")
    if lengths is not None and x.ndim > 2:
        want = x.shape[:2] if lengths.dtype == "bool" else x.shape[:1]
        if lengths.shape != want or is_float(lengths.dtype):
            raise ShapeError(
                f"{who}: expected lengths, integers (N), or a mask, bool (N, T), for an input {x.shape}; got "
                f"{lengths.dtype}{lengths.shape}.")
    return tuple(s for s in given if s is not None and is_float(s.dtype)), lengths


class _Recurrent(Layer):
    """hₜ = cell(xₜ · W_ihᵀ + b_ih, hₜ₋₁)"""

    gates: ClassVar[int] = 1
    input_size: int | None = bound(doc="features of the input")
    hidden_size: int = positive(doc="features of the state and the output")
    num_layers: int = positive(1, doc="layers of the stack")
    use_bias: bool = field(True, alias="bias", doc="whether b_ih and b_hh are there")
    dropout: float = fraction(0.0, doc="probability that an element between layers is dropped in training")
    return_sequences: bool = field(True, doc="whether all steps are returned; else the last")
    return_state: bool = field(False, doc="whether the last state of every layer is returned too")
    signature = SEQUENCE
    forget: ClassVar[str] = ""  # name of the field with the forget gate's bias

    @property
    def cell(self) -> Cell:
        raise NotImplementedError(f"{type(self).__name__}.cell")

    def bind(self, *shapes: tuple[int, ...]) -> None:
        super().bind(*unpacked(shapes))

    def setup(self, new: New) -> None:
        sizes = [self.input_size or 0, *(self.hidden_size,) * (self.num_layers - 1)]
        forget = getattr(self, self.forget) if self.forget else 0.0
        self.layers = [_Level(n, self.hidden_size, self.gates, self.use_bias, forget) for n in sizes]
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Tensor, *states: Tensor | None, lengths: Tensor | None = None,  # type: ignore[override]
                reverse: bool = False) -> Tensor | tuple[Tensor, ...]:
        """Integer or bool inputs are the lengths (N) or the mask (N, T) of the steps that count, or beside packed x
        (S, …) the steps (N, T); float ones are the initial state.

        reverse   walk from the last step to the first; outputs keep their place in time
        """
        given, lengths = states_and_lengths(type(self).__name__, x, states, lengths)
        reverse = bool(reverse)  # 1 comes as a tensor
        at = Steps.of(type(self).__name__, lengths, x.shape[0]) if x.ndim == 2 and lengths is not None else None
        first = self._initial(x, at.steps.shape[0] if at else x.shape[0], given)
        at = at.turned() if at and reverse else at
        y, last = x if at else F.permute(x, 1, 0, 2), []
        for k, (level, state) in enumerate(zip(self.layers, first, strict=True)):
            y, end = level.forward(self.cell, self.drop(y) if k else y, state, lengths, reverse, at)
            last.append(_several(end))
        out = last[-1][0] if not self.return_sequences else y if at else F.permute(y, 1, 0, 2)
        return (out, *map(F.stack, zip(*last, strict=True))) if self.return_state else out

    def _initial(self, x: Tensor, count: int, states: tuple[Tensor, ...]) -> list[State]:
        """The state that each layer starts from: zeros, or row k of every tensor given,
        each (num_layers, N, hidden_size).
        """
        want = (self.num_layers, count, self.hidden_size)
        zero = zero_state(self.cell, count, self.hidden_size, x.dtype)
        parts = len(zero) if isinstance(zero, tuple) else 1
        if not states:
            return [zero] * self.num_layers
        if parts > 1 and len(states) == 1 and states[0].shape == (parts, *want):  # PyTorch's pair: lstm(x, (h, c))
            states = tuple(F.unbind(states[0]))
        if len(states) != parts or any(s.shape != want for s in states):
            raise ShapeError(
                f"{type(self).__name__}: expected {parts} initial states of shape {want}; got "
                f"{[s.shape for s in states]}.")
        return [tuple(s[k] for s in states) if parts > 1 else states[0][k] for k in range(self.num_layers)]


class RNN(_Recurrent):
    """hₜ = f(xₜ · W_ihᵀ + b_ih + hₜ₋₁ · W_hhᵀ + b_hh), f tanh or relu

    x (N, T, input_size), W_ih (H, input_size), W_hh (H, H), b (H), y (N, T, H), or (N, H) with return_sequences=False;
    H = hidden_size. A second input is the initial state (num_layers, N, H). `lengths` (N), or a mask (N, T)
    as `lengths`: from there on (or where it is False) the state stands still and y is 0. Sequences one after another,
    x (S, input_size) beside steps (N, T), give y (S, H).
    Paper: Elman 1990, Cognitive Science 14.
    """

    spec_name = "RecurrentLayer"
    aliases = ("SimpleRNN", "Recurrent", "rnn")
    nonlinearity: str = choice("tanh", ("tanh", "relu"), doc="f")
    examples = [(dict(input_size=3, hidden_size=4), [(2, 3, 3)]),
                (dict(hidden_size=4, num_layers=2, nonlinearity="relu", return_sequences=False),
                 [(2, 3, 3), (2, 2, 4)]),
                (dict(hidden_size=4), [(2, 3, 3), LENGTHS]), (dict(hidden_size=4), [(5, 3), STEPS])]

    @property
    def cell(self) -> Cell:
        return relu_cell if self.nonlinearity == "relu" else rnn_cell


class LSTM(_Recurrent):
    """i, f, g, o = xₜ · W_ihᵀ + b_ih + hₜ₋₁ · W_hhᵀ + b_hh;  cₜ = σ(f) cₜ₋₁ + σ(i) tanh(g);  hₜ = σ(o) tanh(cₜ)

    x (N, T, input_size), W_ih (4H, input_size), W_hh (4H, H), b (4H), y (N, T, H), or (N, H)
    with return_sequences=False; H = hidden_size. A second and a third input are the initial h and c (num_layers, N, H).
    `lengths` (N), or a mask (N, T) as `lengths`: from there on (or where it is False) the state
    stands still and y is 0. Sequences one after another, x (S, input_size) beside steps (N, T), give y (S, H).
    Paper: Hochreiter, Schmidhuber 1997, Neural Computation 9; Gers, Schmidhuber, Cummins 2000.
    """

    spec_name = "LSTMLayer"
    aliases = ("lstm",)
    gates, forget = 4, "forget_bias"
    forget_bias: float = field(0.0, doc="what is added to the forget gate's bias at first, so that memory lasts")
    examples = [(dict(input_size=3, hidden_size=4), [(2, 3, 3)]),
                (dict(hidden_size=4, num_layers=2, forget_bias=1.0, return_sequences=False),
                 [(2, 3, 3), (2, 2, 4), (2, 2, 4)]),
                (dict(hidden_size=4, return_sequences=False), [(2, 3, 3), LENGTHS]),
                (dict(hidden_size=4, num_layers=2), [(5, 3), STEPS])]

    @property
    def cell(self) -> Cell:
        return lstm_cell

    def validate(self) -> None:
        if self.forget_bias and not self.use_bias:
            raise ConfigError(f"LSTM(forget_bias={self.forget_bias}): expected bias=True for it; got bias=False.")


class GRU(_Recurrent):
    """r, z = σ(xₜ · W_ihᵀ + b_ih + hₜ₋₁ · W_hhᵀ + b_hh);  n = tanh(xₙ + r hₙ);  hₜ = (1 − z) n + z hₜ₋₁

    x (N, T, input_size), W_ih (3H, input_size), W_hh (3H, H), b (3H), y (N, T, H),
    or (N, H) with return_sequences=False; H = hidden_size. A second input is the initial state (num_layers, N, H).
    Gate order r, z, n. `lengths` (N), or a mask (N, T) as `lengths`: from there on (or where it is False) the state
    stands still and y is 0. Sequences one after another, x (S, input_size) beside steps (N, T), give y (S, H).
    Paper: Cho et al. 2014, arXiv:1406.1078 (the form with the reset gate after the product).
    """

    spec_name = "GRULayer"
    aliases = ("gru",)
    gates = 3
    examples = [(dict(input_size=3, hidden_size=4), [(2, 3, 3)]),
                (dict(hidden_size=4, num_layers=2, bias=False, return_sequences=False), [(2, 3, 3), (2, 2, 4)]),
                (dict(hidden_size=4), [(2, 3, 3), LENGTHS]),
                (dict(hidden_size=4, return_sequences=False), [(5, 3), STEPS])]

    @property
    def cell(self) -> Cell:
        return gru_cell


class Bidirectional(Layer):
    """y = merge(layer(x), flip(backward_layer(flip(x)))), flip along time

    x (N, T, features); y (N, T, 2H) for "concat", (N, T, H) for "sum", "mul" and "ave", the pair for None; with
    return_sequences=False the last outputs of both walks are merged. Lengths, a mask or steps as in the layer. Initial
    states, and those that return_state adds: the first half is the layer's, the second the backward layer's.
    Paper: Schuster, Paliwal 1997, IEEE Transactions on Signal Processing 45.
    """

    spec_name = "BidirectionalLayer"
    aliases = ("bidirectional",)
    layer: Child = field(doc="recurrent layer that walks forwards")
    backward_layer: Child | None = field(
        None, doc="layer that walks backwards; None: configured like `layer`, parameters of its own")
    merge: str | None = choice("concat", ("concat", "sum", "mul", "ave", None),
                               doc="what becomes of both outputs; None: a pair")
    signature = "N T features -> N T merged"
    examples = [(dict(layer={"type": "GRU", "hidden_size": 3}), [(2, 3, 3), LENGTHS]),
                (dict(layer={"type": "RNN", "hidden_size": 3, "return_sequences": False}, merge="sum"), [(2, 3, 3)]),
                (dict(layer={"type": "LSTM", "hidden_size": 3}), [(2, 3, 3)]),
                (dict(layer={"type": "GRU", "hidden_size": 3}), [(5, 3), STEPS])]

    def validate(self) -> None:
        for name in ("layer", "backward_layer"):
            if getattr(self, name) is not None and not isinstance(getattr(self, name), _Recurrent):
                raise ConfigError(
                    f"Bidirectional({name}=...): expected RNN, LSTM or GRU; got {type(getattr(self, name)).__name__}.")
        other = self.backward_layer or self.layer
        if any(getattr(other, n) != getattr(self.layer, n) for n in ("return_sequences", "return_state")):
            raise ConfigError(
                "Bidirectional(backward_layer=...): expected return_sequences and return_state as in layer; "
                "got others.")

    def bind(self, *shapes: tuple[int, ...]) -> None:
        super().bind(*unpacked(shapes))

    def setup(self, new: New) -> None:
        self.mirror = Layer.from_config(self.layer.config()) if self.backward_layer is None else None

    def forward(self, x: Tensor, *given: Tensor | None,  # type: ignore[override]
                lengths: Tensor | None = None) -> Tensor | tuple[Tensor, ...]:
        states, lengths = states_and_lengths("Bidirectional", x, given, lengths)
        beside = () if x.ndim > 2 else (lengths,)  # the layers know packed values by it
        named = {"lengths": lengths} if x.ndim > 2 else {}
        back: Any = self.backward_layer or self.mirror
        half = len(states) // 2
        a, *first = _several(self.layer(x, *beside, *states[:half], **named))
        if lengths is None or lengths.dtype == "bool" or beside:
            b, *last = _several(back(x, *beside, *states[half:], reverse=True, **named))
        else:  # with each sequence turned round within its length the walk is one op
            b, *last = _several(back(reverse_sequences(x, lengths), *states[half:], lengths=lengths))
            b = reverse_sequences(b, lengths) if self.layer.return_sequences else b  # type: ignore[attr-defined]
        merged = {"concat": lambda: F.concat([a, b], -1), "sum": lambda: a + b, "mul": lambda: a * b,
                  "ave": lambda: (a + b) * 0.5}
        out = (merged[self.merge](),) if self.merge else (a, b)
        return (*out, *first, *last) if len(out) + len(first) > 1 else out[0]


def _several(y: State) -> tuple[Tensor, ...]:
    return y if isinstance(y, tuple) else (y,)
