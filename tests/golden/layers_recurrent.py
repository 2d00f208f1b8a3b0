"""Recurrence: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.func import functional_call


def recurrent(c: Any, x: Any, p: Any) -> Any:
    kind = type(c).__name__
    more = {"nonlinearity": c.nonlinearity} if kind == "RNN" else {}
    module = getattr(nn, kind)(c.input_size, c.hidden_size, c.num_layers, bias=c.bias, batch_first=True, **more).double()
    names = {"w_ih": "weight_ih", "w_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh"}
    weights = {f"{names[n.split('.')[2]]}_l{n.split('.')[1]}": v for n, v in p.items()}
    state = () if len(x) == 1 else (x[1],) if kind != "LSTM" else ((x[1], x[2]),)
    y, _ = functional_call(module, weights, (x[0], *state))
    return y if c.return_sequences else y[:, -1]


RULES = {
    "RNN": recurrent,
    "LSTM": recurrent,
    "GRU": recurrent,
}
