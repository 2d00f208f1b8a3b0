"""Recurrent layers: batch first, the input projected for all steps at once, gates in PyTorch's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .. import init
from .. import ops as F
from ..config import bound, choice, field, fraction, positive
from ..errors import ConfigError, ShapeError
from ..ops.scan import gru_cell, lstm_cell, recur, relu_cell, rnn_cell, zero_state
from .base import Layer, New
from .utility import Dropout

SEQUENCE = "N T input_size -> N T hidden_size"


class _Level(Layer):
    """The weights of one layer of a stack: w_ih (G · H, in), w_hh (G · H, H), b_ih and b_hh (G · H)."""

    input_size: int = positive(doc="features of its input")
    hidden_size: int = positive(doc="H")
    gates: int = positive(doc="G")
    bias: bool = field(True, doc="whether b_ih and b_hh are there")
    forget_bias: float = field(0.0, doc="what is added to the second quarter of b_ih")

    def setup(self, new: New) -> None:
        h, rows = self.hidden_size, self.gates * self.hidden_size
        self.w_ih, self.w_hh = new.weight(rows, self.input_size, fan_in=h), new.weight(rows, h, fan_in=h)
        self.b_ih = self.b_hh = None
        if self.bias:
            values = init.uniform((rows,), h**-0.5)
            values[h : 2 * h] += self.forget_bias
            self.b_ih, self.b_hh = new.value(values, role="bias"), new.weight(rows, fan_in=h, role="bias")

    def forward(self, cell: Any, x: Any, state: Any) -> Any:
        return recur(cell, x, state, self.w_ih, self.w_hh, self.b_ih, self.b_hh)


class _Recurrent(Layer):
    """hₜ = cell(xₜ · W_ihᵀ + b_ih, hₜ₋₁)"""

    gates: ClassVar[int] = 1
    input_size: int | None = bound(doc="features of the input")
    hidden_size: int = positive(doc="features of the state and the output")
    num_layers: int = positive(1, doc="layers of the stack")
    bias: bool = field(True, doc="whether b_ih and b_hh are there")
    dropout: float = fraction(0.0, doc="probability that an element between layers is dropped in training")
    return_sequences: bool = field(True, doc="whether all steps are returned; else the last")
    return_state: bool = field(False, doc="whether the last state of every layer is returned too")
    signature = SEQUENCE
    forget: ClassVar[str] = ""  # name of the field with the forget gate's bias

    @property
    def cell(self) -> Callable[..., Any]:
        raise NotImplementedError(f"{type(self).__name__}.cell")

    def setup(self, new: New) -> None:
        sizes = [self.input_size or 0, *(self.hidden_size,) * (self.num_layers - 1)]
        forget = getattr(self, self.forget) if self.forget else 0.0
        self.layers = [_Level(n, self.hidden_size, self.gates, self.bias, forget) for n in sizes]
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Any, *states: Any) -> Any:
        first = self._initial(x, [s for s in states if s is not None])
        y, last = F.permute(x, 1, 0, 2), []
        for k, (level, state) in enumerate(zip(self.layers, first, strict=True)):
            y, end = level.forward(self.cell, self.drop(y) if k else y, state)
            last.append(end)
        out = F.permute(y, 1, 0, 2) if self.return_sequences else y[y.shape[0] - 1]
        if not self.return_state:
            return out
        return (out, *map(F.stack, zip(*last, strict=True))) if isinstance(last[0], tuple) else (out, F.stack(last))

    def _initial(self, x: Any, states: list[Any]) -> list[Any]:
        """The state that each layer starts from: zeros, or row k of every tensor given, each (num_layers, N, hidden_size)."""
        want = (self.num_layers, x.shape[0], self.hidden_size)
        zero = zero_state(self.cell, x.shape[0], self.hidden_size, x.dtype)
        count = len(zero) if isinstance(zero, tuple) else 1
        if not states:
            return [zero] * self.num_layers
        if len(states) != count or any(s.shape != want for s in states):
            raise ShapeError(f"{type(self).__name__}: expected {count} initial states of shape {want}; got {[s.shape for s in states]}.")
        return [tuple(s[k] for s in states) if count > 1 else states[0][k] for k in range(self.num_layers)]


class RNN(_Recurrent):
    """hₜ = f(xₜ · W_ihᵀ + b_ih + hₜ₋₁ · W_hhᵀ + b_hh), f tanh or relu

    x (N, T, input_size), W_ih (H, input_size), W_hh (H, H), b (H), y (N, T, H), or (N, H) with return_sequences=False; H = hidden_size.
    A second input is the initial state (num_layers, N, H).
    Paper: Elman 1990, Cognitive Science 14.
    """

    spec_name = "RecurrentLayer"
    aliases = ("SimpleRNN", "Recurrent", "rnn")
    nonlinearity: str = choice("tanh", ("tanh", "relu"), doc="f")
    examples = [(dict(input_size=3, hidden_size=4), [(2, 3, 3)]),
                (dict(hidden_size=4, num_layers=2, nonlinearity="relu", return_sequences=False), [(2, 3, 3), (2, 2, 4)])]

    @property
    def cell(self) -> Callable[..., Any]:
        return relu_cell if self.nonlinearity == "relu" else rnn_cell


class LSTM(_Recurrent):
    """i, f, g, o = xₜ · W_ihᵀ + b_ih + hₜ₋₁ · W_hhᵀ + b_hh;  cₜ = σ(f) cₜ₋₁ + σ(i) tanh(g);  hₜ = σ(o) tanh(cₜ)

    x (N, T, input_size), W_ih (4H, input_size), W_hh (4H, H), b (4H), y (N, T, H), or (N, H) with return_sequences=False; H = hidden_size.
    A second and a third input are the initial h and c (num_layers, N, H).
    Paper: Hochreiter, Schmidhuber 1997, Neural Computation 9; Gers, Schmidhuber, Cummins 2000.
    """

    spec_name = "LSTMLayer"
    aliases = ("lstm",)
    gates, forget = 4, "forget_bias"
    forget_bias: float = field(0.0, doc="what is added to the forget gate's bias at first, so that memory lasts")
    examples = [(dict(input_size=3, hidden_size=4), [(2, 3, 3)]),
                (dict(hidden_size=4, num_layers=2, forget_bias=1.0, return_sequences=False), [(2, 3, 3), (2, 2, 4), (2, 2, 4)])]

    @property
    def cell(self) -> Callable[..., Any]:
        return lstm_cell

    def validate(self) -> None:
        if self.forget_bias and not self.bias:
            raise ConfigError(f"LSTM(forget_bias={self.forget_bias}): expected bias=True for it; got bias=False.")


class GRU(_Recurrent):
    """r, z = σ(xₜ · W_ihᵀ + b_ih + hₜ₋₁ · W_hhᵀ + b_hh);  n = tanh(xₙ + r hₙ);  hₜ = (1 − z) n + z hₜ₋₁

    x (N, T, input_size), W_ih (3H, input_size), W_hh (3H, H), b (3H), y (N, T, H), or (N, H) with return_sequences=False; H = hidden_size.
    A second input is the initial state (num_layers, N, H). Gate order r, z, n.
    Paper: Cho et al. 2014, arXiv:1406.1078 (the form with the reset gate after the product).
    """

    spec_name = "GRULayer"
    aliases = ("gru",)
    gates = 3
    examples = [(dict(input_size=3, hidden_size=4), [(2, 3, 3)]),
                (dict(hidden_size=4, num_layers=2, bias=False, return_sequences=False), [(2, 3, 3), (2, 2, 4)])]

    @property
    def cell(self) -> Callable[..., Any]:
        return gru_cell
