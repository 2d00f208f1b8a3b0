"""Loops over time: PyTorch's cells step by step, their gates by definition; gradients by PyTorch's walk back through
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rules import More

STATES = {"tanh": 1, "relu": 1, "lstm": 2, "gru": 1}


def step(cell: str, xp: Any, hp: Any, state: list[Any]) -> list[Any]:
    """The slots of a step: the new state, then the gates."""
    if cell in ("tanh", "relu"):
        return [getattr(torch, cell)(xp + hp)]
    if cell == "lstm":
        i, f, g, o = (xp + hp).chunk(4, -1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        c = f * state[1] + i * g
        return [o * torch.tanh(c), c, i, f, g, o]
    (xr, xz, xn), (hr, hz, hn) = xp.chunk(3, -1), hp.chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    n = torch.tanh(xn + r * hn)
    return [(1 - z) * n + z * state[0], r, z, n, hn]


def agree(cell: str, slots: list[Any], xp: Any, state: list[Any], w: Any, b: Any) -> None:
    """PyTorch's own cell hands on the same state."""
    given = (xp, tuple(state) if cell == "lstm" else state[0], torch.eye(xp.shape[-1]).double(), w, torch.zeros_like(b),
             b)
    own = getattr(torch, {"tanh": "rnn_tanh_cell", "relu": "rnn_relu_cell"}.get(cell, f"{cell}_cell"))(*given)
    for mine, theirs in zip(slots, own if cell == "lstm" else (own,), strict=False):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-14)


def walk(count: int, reverse: bool) -> range:
    return range(count - 1, -1, -1) if reverse else range(count)


def recurrence(xp: Any, state: Any, w: Any, b: Any, cell: str, reverse: bool) -> Any:
    before, found = list(state), {}
    for t in walk(len(xp), reverse):
        found[t] = step(cell, xp[t], F.linear(before[0], w, b), before)
        agree(cell, found[t], xp[t], before, w, b)
        before = found[t][: STATES[cell]]
    return torch.stack([torch.stack([found[t][s] for t in range(len(xp))]) for s in range(len(found[0]))])


def through_time(cell: str, reverse: bool, slots: int) -> More:
    """A forward pass and what the walk back finds at every step: ∂/∂hp, for GRU ∂/∂xpₙ, and the last state's share that
    is not hp's.
    """
    rng, gates = np.random.default_rng(len(cell)), {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}[cell]
    t, b, h = 4, 2, 5
    xp, state, w, g = (torch.from_numpy(rng.uniform(-1, 1, s).astype(np.float32)).double().requires_grad_()
                       for s in ((t, b, gates * h), (STATES[cell], b, h), (gates * h, h), (slots, t, b, h)))
    before, found, total, at = list(state), {}, torch.zeros(()).double(), {}
    for n in walk(t, reverse):
        inputs = [xp[n] * 1, F.linear(before[0], w), *(s * 1 for s in before)]
        found[n], at[n] = step(cell, inputs[0], inputs[1], inputs[2:]), inputs
        total = total + sum((g[s, n] * found[n][s]).sum() for s in range(slots))
        before = found[n][: STATES[cell]]
    rows = []
    for n in range(t):
        own, hp, *states = torch.autograd.grad(total, at[n], retain_graph=True, allow_unused=True,
                                               materialize_grads=True)
        rows.append(torch.cat([hp, *([own[:, -h:]] if cell == "gru" else []),
                               *([states[-1]] if cell in ("gru", "lstm") else [])], -1))
    y = torch.stack([torch.stack([found[n][s] for n in range(t)]) for s in range(len(found[0]))])
    return More([a.detach().numpy() for a in (g, y, state, w)], dict(cell=cell, reverse=reverse),
                rule=lambda *a, **k: torch.stack(rows).detach(), slopes=False)


RULES = {
    "recurrence": recurrence,
    "recurrence_gradient": lambda *a, **k: None,  # its own examples have slots of no forward pass
}
MORE = {"recurrence_gradient": [through_time("tanh", False, 1), through_time("relu", True, 1),
                                through_time("lstm", True, 2),
                                through_time("lstm", False, 6), through_time("gru", True, 1),
                                through_time("gru", False, 5)]}
