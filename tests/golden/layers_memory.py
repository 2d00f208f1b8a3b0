"""Memories that are read and written, by PyTorch's own attention and cosines, and levels one after another."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT, by


def _address(c: Any, x: Any, memory: Any, p: Any) -> Any:
    key = F.linear(x, p["w_key"], p.get("b_key"))
    if c.similarity == "dot":
        return torch.softmax(torch.einsum("nm,nsm->ns", key, memory), 1)
    beta = F.softplus(F.linear(x, p["w_beta"], p["b_beta"]))
    return torch.softmax(beta * F.cosine_similarity(key[:, None], memory, -1), 1)


def read(c: Any, x: Any, p: Any) -> Any:
    x, memory = x
    memory = memory.expand(len(x), *memory.shape[-2:])
    if c.similarity == "dot":
        key = F.linear(x, p["w_key"])[:, None]
        r = F.scaled_dot_product_attention(key, memory, memory, scale=1.0)[:, 0]
    else:
        r = torch.einsum("ns,nsm->nm", _address(c, x, memory, p), memory)
    return ACT[c.activation](F.linear(F.linear(r, p["w_value"]), p["w_out"], p["b_out"]))


def write(c: Any, x: Any, p: Any) -> Any:
    x, memory = x
    memory = memory.expand(len(x), *memory.shape[-2:])
    w = _address(c, x, memory, p)
    erase, add = torch.sigmoid(F.linear(x, p["w_erase"], p["b_erase"])), F.linear(x, p["w_add"], p["b_add"])
    return memory * (1 - torch.einsum("ns,nm->nsm", w, erase)) + torch.einsum("ns,nm->nsm", w, add)


def continuum(c: Any, x: Any, p: Any) -> Any:
    (y,) = x
    for k in range(c.num_levels):
        y = ACT[c.activation](F.linear(y, p[f"levels.{k}.weight"], p[f"levels.{k}.bias"]))
    return y


@by("python dictionaries, a loop over columns and segments")
def temporal(c: Any, x: Any, p: Any) -> Any:
    """Segments are lists of {presynaptic cell: permanence} by cell; no segment here has to choose among winners."""
    per, segments = c.cells_per_column, {k: [] for k in range(c.column_count * c.cells_per_column)}
    active: set[int] = set()
    winners: set[int] = set()
    found = []

    def near(s: dict[int, float], least: float = 0.0) -> int:
        return sum(k in active and v >= least for k, v in s.items())

    for row in x[0].detach().reshape(-1, c.column_count) > 0.5:
        predicting = [(k, s) for k, own in segments.items() for s in own
                      if near(s, c.connected_permanence) >= c.activation_threshold]
        new, chosen, learning, silent = set(), set(), [], []
        for column in range(c.column_count):
            cells = range(column * per, column * per + per)
            hits = [(k, s) for k, s in predicting if k in cells]
            own = [(k, s) for k in cells for s in segments[k]]
            if not row[column]:
                silent += [s for _, s in own if near(s) >= c.min_threshold]
            elif hits:
                new |= {k for k, _ in hits}
                chosen |= {k for k, _ in hits}
                learning += [s for _, s in hits]
            else:
                new |= set(cells)
                best = max(own, key=lambda e: near(e[1]), default=(0, {}))
                if near(best[1]) >= c.min_threshold:
                    cell, segment = best
                else:
                    cell, segment = min(cells, key=lambda k: len(segments[k])), {}
                    if len(segments[cell]) == c.max_segments:
                        segments[cell].remove(min(segments[cell], key=lambda s: sum(s.values())))
                    segments[cell].append(segment)
                chosen.add(cell)
                learning.append(segment)
        for s in learning:
            grow = c.max_new_synapses - near(s)
            for k in list(s):
                s[k] = min(1.0, s[k] + (c.permanence_increment if k in active else -c.permanence_decrement))
            free, wanted = c.max_synapses - sum(v > 0 for v in s.values()), sorted(winners - {k for k in s if s[k] > 0})
            assert len(wanted) <= min(grow, free) or not min(grow, free), "an example that draws"
            s.update(dict.fromkeys(wanted[: max(0, min(grow, free))], c.initial_permanence))
        for s in silent:
            s.update({k: s[k] - c.predicted_decrement for k in s if k in active})
        for own in segments.values():
            own[:] = [kept for s in own if (kept := {k: v for k, v in s.items() if v > 0})]
        active, winners = new, chosen
        found.append([float(k in active) for k in segments])
    return torch.tensor(found, dtype=torch.float64)


RULES = {"TemporalMemory": temporal, "ContinuumMemory": continuum, "MemoryRead": read, "MemoryWrite": write}
