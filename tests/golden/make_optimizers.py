"""Writes optimizer/<name>.npz: 25 steps of every optimizer by PyTorch, in float64, with fixed gradients.

    python tests/golden/make_optimizers.py       needs torch; the tests that read the files do not

A file holds `start.j` (parameters), `grad.j` (25, …) (their gradients), and for variant k `k.fields` (JSON) and `k.path.j` (the
parameters after steps 1, 2, 5, 10 and 25), and `source`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve().parent / "optimizer"
SHAPES, STEPS, KEPT = ((3, 4), (5,)), 25, (1, 2, 5, 10, 25)

# name: (PyTorch's class, what the name implies for it, variants of fields)
VARIANTS: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "SGD": ("SGD", {}, [{"lr": 0.05}, {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.02}, {"lr": 0.05, "momentum": 0.8, "nesterov": True}]),
    "Momentum": ("SGD", {"momentum": 0.9}, [{"lr": 0.01}]),
    "NAG": ("SGD", {"momentum": 0.9, "nesterov": True}, [{"lr": 0.01}]),
    "Adam": ("Adam", {}, [{"lr": 0.01}, {"lr": 0.02, "b1": 0.8, "b2": 0.95, "eps": 1e-6, "weight_decay": 0.1}, {"lr": 0.01, "amsgrad": True}]),
    "AdamW": ("AdamW", {}, [{"lr": 0.01}, {"lr": 0.02, "weight_decay": 0.3, "b2": 0.99}]),
    "AMSGrad": ("Adam", {"amsgrad": True}, [{"lr": 0.001}]),
    "RMSprop": ("RMSprop", {}, [{"lr": 0.01}, {"lr": 0.01, "momentum": 0.7, "centered": True, "weight_decay": 0.05, "alpha": 0.9}]),
}


def arguments(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields by PyTorch's names."""
    out = {k: v for k, v in fields.items() if k not in ("b1", "b2")}
    return out | ({"betas": (fields.get("b1", 0.9), fields.get("b2", 0.999))} if {"b1", "b2"} & set(fields) else {})


def path(kind: str, given: dict[str, Any], starts: list[Any], grads: list[Any]) -> list[Any]:
    """The parameters after the kept steps, stacked."""
    params = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in starts]
    optimizer, kept = getattr(torch.optim, kind)(params, **given), []
    for t in range(STEPS):
        for p, g in zip(params, grads, strict=True):
            p.grad = torch.tensor(g[t], dtype=torch.float64)
        optimizer.step()
        if t + 1 in KEPT:
            kept.append([p.detach().numpy().copy() for p in params])
    return [np.stack(a) for a in zip(*kept, strict=True)]


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name, (kind, implied, variants) in VARIANTS.items():
        rng = np.random.default_rng(7)
        starts = [rng.uniform(-1, 1, s).astype(np.float32) for s in SHAPES]
        grads = [rng.standard_normal((STEPS, *s)).astype(np.float32) for s in SHAPES]
        found: dict[str, Any] = {"source": np.array(f"torch {torch.__version__.split('+')[0]}")}
        found |= {f"start.{j}": a for j, a in enumerate(starts)} | {f"grad.{j}": a for j, a in enumerate(grads)}
        for k, fields in enumerate(variants):
            found[f"{k}.fields"] = np.array(json.dumps(fields))
            found |= {f"{k}.path.{j}": a for j, a in enumerate(path(kind, implied | arguments(fields), starts, grads))}
        np.savez_compressed(HERE / f"{name}.npz", **found)
    print(f"{len(list(HERE.glob('*.npz')))} files, {sum(f.stat().st_size for f in HERE.glob('*.npz')) // 1024} kB")
