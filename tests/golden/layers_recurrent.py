"""Recurrence: each (layer with its fields, inputs, parameters by name) -> output or outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def recurrent(c: Any, x: Any, p: Any) -> Any:
    kind = type(c).__name__
    more = {"nonlinearity": c.nonlinearity} if kind == "RNN" else {}
    module = getattr(nn, kind)(c.input_size, c.hidden_size, c.num_layers, bias=c.use_bias, batch_first=True,
                               **more).double()
    names = {"w_ih": "weight_ih", "w_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh"}
    weights = {f"{names[n.split('.')[2]]}_l{n.split('.')[1]}": v for n, v in p.items()}
    lengths, states = given(x)
    x, lengths, rows = unpacked(x[0], lengths)
    state = () if not states else (states[0],) if kind != "LSTM" else (tuple(states),)
    y, last = run(module, weights, x, lengths, *state)
    return rows(y) if c.return_sequences else (last[0] if kind == "LSTM" else last)[-1]


def given(x: Any) -> tuple[Any, list[Any]]:
    """(lengths or None, states) among the inputs after the first."""
    return next((t for t in x[1:] if not t.is_floating_point()), None), [t for t in x[1:] if t.is_floating_point()]


def unpacked(x: Any, lengths: Any) -> tuple[Any, Any, Any]:
    """(x, lengths, what makes outputs of them): rows (S, …) with their steps (N, T) in the place of lengths, padded."""
    if x.ndim > 2:
        return x, lengths, lambda y: y
    there = lengths >= 0
    return x[lengths.clamp(min=0).long()] * there[..., None], there.sum(1), lambda y: y[there]


def run(module: Any, weights: Any, x: Any, lengths: Any, *state: Any) -> Any:
    """Outputs and last state; with lengths the sequences are packed."""
    if lengths is None:
        return functional_call(module, weights, (x, *state))
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, last = functional_call(module, weights, (packed, *state))
    return pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], last


def bidirectional(c: Any, x: Any, p: Any) -> Any:
    inner = c.layer
    module = getattr(nn, type(inner).__name__)(inner.input_size, inner.hidden_size, batch_first=True,
                                               bidirectional=True).double()
    names = {"w_ih": "weight_ih_l0", "w_hh": "weight_hh_l0", "b_ih": "bias_ih_l0", "b_hh": "bias_hh_l0"}
    weights = {names[n.split(".")[-1]] + ("_reverse" if n.startswith("mirror") else ""): v for n, v in p.items()}
    x, lengths, rows = unpacked(x[0], given(x)[0])
    y, _ = run(module, weights, x, lengths)
    y = rows(y)
    a, b = y.split(inner.hidden_size, -1)
    if not inner.return_sequences:
        a, b = a[:, -1], b[:, 0]
    return {"concat": lambda: torch.cat([a, b], -1), "sum": lambda: a + b}[c.merge]()


RULES = {
    "RNN": recurrent,
    "LSTM": recurrent,
    "GRU": recurrent,
    "Bidirectional": bidirectional,
}
