"""Writes clnet/workbench/evidence/golden/optimizer/<name>.npz: 50 steps of every optimizer with fixed gradients, in
float64, by an independent
library or transcription.

    python tests/golden/make_optimizers.py [name ...]       torch, optax or only NumPy: rows of a library that is not
    there stay as they are

A file holds `start.j` (parameters), `grad.j` (50, …) (their gradients), and for variant k `k.fields` (JSON) and
`k.path.j` (the parameters after steps 1, 2, 5 and 50), and `source`; for those that search a minimum `target.j` in
place of gradients, and `k.steps`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from files import said, write
from optimizers_searched import SEARCHED, Arrays, Path_, by_scipy, by_their_lbfgs

from clnet.workbench.evidence.golden import KEPT

SHAPES, STEPS = ((3, 4), (5,)), max(KEPT)


# --- PyTorch
def arguments(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields by PyTorch's names."""
    names = {"initial_accumulator": "initial_accumulator_value"}
    out = {names.get(k, k): v for k, v in fields.items() if k not in ("b1", "b2")}
    return out | ({"betas": (fields.get("b1", 0.9), fields.get("b2", 0.999))} if {"b1", "b2"} & set(fields) else {})


def by_torch(kind: str, **implied: Any) -> Path_:
    def path(fields: dict[str, Any], starts: Arrays, grads: Arrays) -> Sequence[Arrays]:
        import torch

        params = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in starts]
        optimizer, out = getattr(torch.optim, kind)(params, **{**implied, **arguments(fields)}), []
        for t in range(STEPS):
            for p, g in zip(params, grads, strict=True):
                p.grad = torch.tensor(g[t], dtype=torch.float64)
            optimizer.step()
            out.append([p.detach().numpy().copy() for p in params])
        return out

    return path


# --- optax
def by_optax(make: Callable[[Any, dict[str, Any]], Any]) -> Path_:
    """make(optax, fields) gives the transformation; parameters with one axis are the biases."""

    def path(fields: dict[str, Any], starts: Arrays, grads: Arrays) -> Sequence[Arrays]:
        import jax
        import optax

        jax.config.update("jax_enable_x64", True)
        transformation = make(optax, fields)
        params = [jax.numpy.asarray(a, jax.numpy.float64) for a in starts]
        state, out = transformation.init(params), []
        for t in range(STEPS):
            updates, state = transformation.update([jax.numpy.asarray(g[t], jax.numpy.float64) for g in grads], state,
                                                   params)
            params = optax.apply_updates(params, updates)
            out.append([np.asarray(p) for p in params])
        return out

    return path


def matrices(params: Any) -> list[bool]:
    return [p.ndim > 1 for p in params]


def lamb(optax: Any, f: dict[str, Any]) -> Any:
    """optax.lamb, with biases left out of decay and trust ratio where `exclude_bias` says so."""
    f = {"lr": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-6, "weight_decay": 0.01, "exclude_bias": True, **f}
    mask = matrices if f["exclude_bias"] else (lambda params: [True for _ in params])
    return optax.chain(optax.scale_by_adam(f["b1"], f["b2"], f["eps"]),
                       optax.add_decayed_weights(f["weight_decay"], mask),
                       optax.masked(optax.scale_by_trust_ratio(), mask), optax.scale_by_learning_rate(f["lr"]))


def lars(optax: Any, f: dict[str, Any]) -> Any:
    """optax.lars adds the decay to g before the norm and no ε after it: the same rule only without both."""
    mask = matrices if f.get("exclude_bias", True) else True
    return optax.lars(f["lr"], f["weight_decay"], mask, f.get("trust_coefficient", 0.001), 0.0, mask,
                      f.get("momentum", 0.9), f.get("nesterov", False))


# --- NumPy: the papers' formulas, written down a second time
def by_numpy(rule: Callable[..., None]) -> Path_:
    """rule(fields, w, g, state, t) changes the parameter w of one tensor in place; state is a dict that begins empty.
    """

    def path(fields: dict[str, Any], starts: Arrays, grads: Arrays) -> Sequence[Arrays]:
        ws, states, out = [np.array(a, np.float64) for a in starts], [{} for _ in starts], []
        for t in range(1, STEPS + 1):
            for w, g, state in zip(ws, grads, states, strict=True):
                rule(fields, w, np.asarray(g[t - 1], np.float64), state, t)
            out.append([w.copy() for w in ws])
        return out

    return path


def ftrl(f: dict[str, Any], w: Any, g: Any, s: dict[str, Any], t: int) -> None:
    """McMahan et al. 2013, algorithm 1, coordinate by coordinate."""
    a, b, l1, l2 = f.get("alpha", 0.005), f.get("beta", 1.0), f.get("l1", 1.0), f.get("l2", 1.0)
    for i in np.ndindex(w.shape):
        if ("z", i) not in s:
            s["z", i] = (-w[i] * (b / a + l2) - np.sign(w[i]) * l1) if f.get("warm_start", True) else 0.0
            s["n", i] = 0.0
        sigma = ((s["n", i] + g[i] ** 2) ** 0.5 - s["n", i] ** 0.5) / a
        s["z", i] += g[i] - sigma * w[i]
        s["n", i] += g[i] ** 2
        z = s["z", i]
        w[i] = 0.0 if abs(z) <= l1 else -(z - np.sign(z) * l1) / ((b + s["n", i] ** 0.5) / a + l2)


def proximal(f: dict[str, Any], w: Any, g: Any, s: dict[str, Any], t: int) -> None:
    """Parikh & Boyd 2014, section 4.2 and 6.5; Beck & Teboulle 2009, FISTA."""
    lr, kind, ratio = f.get("lr", 0.01), f.get("regularizer", "l1"), f.get("l1_ratio", 0.5)
    k, z = lr * f.get("strength", 0.01), w - lr * g

    def shrunk(k: float) -> Any:
        return np.where(z > k, z - k, np.where(z < -k, z + k, 0.0))

    maps = {"l1": lambda: shrunk(k), "l2": lambda: z / (1 + k),
            "elasticnet": lambda: shrunk(k * ratio) / (1 + k * (1 - ratio)),
            "nonneg": lambda: np.maximum(z, 0), "box": lambda: np.clip(z, *f.get("bounds", (-1.0, 1.0)))}
    x = maps[kind]()
    if not f.get("accelerated", False):
        w[...] = x
        return
    before, q = s.get("x", w.copy()), s.get("q", 1.0)
    s["x"], s["q"] = x, (1 + (1 + 4 * q * q) ** 0.5) / 2
    w[...] = x + (q - 1) / s["q"] * (x - before)


def lars_by_hand(f: dict[str, Any], w: Any, g: Any, s: dict[str, Any], t: int) -> None:
    """You, Gitman, Ginsburg 2017, algorithm 1; a tensor with one axis is a bias, which has neither ratio nor decay."""
    f = {"lr": 0.3, "momentum": 0.9, "weight_decay": 1e-4, "trust_coefficient": 0.001, "eps": 1e-8, "nesterov": False,
         **f}
    decay, ratio = (0.0, 1.0) if w.ndim == 1 else (f["weight_decay"], 1.0)
    nw, ng = np.linalg.norm(w), np.linalg.norm(g)
    if w.ndim > 1 and nw and ng:
        ratio = f["trust_coefficient"] * nw / (ng + decay * nw + f["eps"])
    e = f["lr"] * ratio * (g + decay * w)
    s["v"] = f["momentum"] * s.get("v", 0.0) + e
    w -= f["momentum"] * s["v"] + e if f["nesterov"] else s["v"]


def adam8bit(fields: dict[str, Any], starts: Arrays, grads: Arrays) -> Sequence[Arrays]:
    """Adam whose moments pass through 8-bit codes per block of the flat vector after every step: codes found by search
    in their table.
    """
    f = {"lr": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "block": 2048, **fields}
    codes_m = np.array([np.sign(c) * (c / 127) ** 2 for c in range(-127, 128)])
    codes_v = np.array([(c / 255) ** 4 for c in range(1, 256)])
    edges_m = np.array([np.sign(c + 0.5) * ((c + 0.5) / 127) ** 2 for c in range(-127, 127)])
    edges_v = np.array([((c + 0.5) / 255) ** 4 for c in range(1, 255)])
    w = np.concatenate([np.ravel(a) for a in starts]).astype(np.float64)
    m, v, out = np.zeros_like(w), np.zeros_like(w), []
    for t in range(1, STEPS + 1):
        g = np.concatenate([np.ravel(a[t - 1]) for a in grads]).astype(np.float64)
        m, v = f["b1"] * m + (1 - f["b1"]) * g, f["b2"] * v + (1 - f["b2"]) * g * g
        w = w - f["lr"] * (m / (1 - f["b1"] ** t)) / (np.sqrt(v / (1 - f["b2"] ** t)) + f["eps"])
        for start in range(0, len(w), f["block"]):
            part = slice(start, start + f["block"])
            for x, codes, edges in ((m, codes_m, edges_m), (v, codes_v, edges_v)):
                top = np.abs(x[part]).max()
                margin = np.abs(x[part][:, None] / top / edges - 1).min()
                assert margin > 2e-6, (
                    f"step {t}: a value lies on the edge between two codes; float32 may fall on either side; take "
                    f"another seed"
                )
                x[part] = codes[np.searchsorted(edges, x[part] / top)] * top
        out.append([np.reshape(w[a:b], s.shape) for a, b, s in zip((0, 12), (12, 17), starts, strict=True)])
    return out


def admm(fields: dict[str, Any], starts: Arrays, grads: Arrays) -> Sequence[Arrays]:
    """Boyd et al. 2011, section 3.1.1 (scaled form) and 3.4.1, with a gradient step for w."""
    f = {"lr": 0.01, "rho": 1.0, "inner_steps": 1, "strength": 0.1, "adaptive_rho": False, **fields}
    w, rho = np.concatenate([np.ravel(a) for a in starts]).astype(np.float64), f["rho"]
    z, u, out = np.zeros_like(w), np.zeros_like(w), []
    for t in range(1, STEPS + 1):
        g = np.concatenate([np.ravel(a[t - 1]) for a in grads]).astype(np.float64)
        w = w - f["lr"] * (g + rho * (w - z + u))
        if t % f["inner_steps"] == 0:
            before, v, k = z, w + u, f["strength"] / rho
            z = np.where(v > k, v - k, np.where(v < -k, v + k, 0.0))
            u = u + w - z
            primal, dual = np.linalg.norm(w - z), rho * np.linalg.norm(z - before)
            if f["adaptive_rho"] and primal > 10 * dual:
                rho, u = 2 * rho, u / 2
            elif f["adaptive_rho"] and dual > 10 * primal:
                rho, u = rho / 2, 2 * u
        out.append([np.reshape(w[a:b], s.shape) for a, b, s in zip((0, 12), (12, 17), starts, strict=True)])
    return out


def forgetting(f: dict[str, Any], w: Any, g: Any, s: dict[str, Any], t: int) -> None:
    """Behrouz et al. 2025: W (I − β x xᵀ) − η d xᵀ of one input, x the first right singular vector of the gradient; of
    several inputs the mean of x xᵀ by their share of the gradient's square.
    """
    lr, forget = f.get("lr", 0.01), f.get("forget", 1.0)
    if w.ndim == 1:
        w -= lr * g
        return
    _, size, inputs = np.linalg.svd(g, full_matrices=False)
    mean = sum(c * c * np.outer(x, x) for c, x in zip(size, inputs, strict=True)) / (size**2).sum()
    w[...] = w @ (np.eye(w.shape[1]) - forget * mean) - lr * g


# name: (library, path, variants of fields)
ROWS: list[tuple[str, str, Path_, list[dict[str, Any]]]] = [
    ("SGD", "torch", by_torch("SGD"),
     [{"lr": 0.05}, {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.02},
                                       {"lr": 0.05, "momentum": 0.8, "nesterov": True},
      {"lr": 0.05, "maximize": True}]),
    ("GradientDescent", "torch", by_torch("SGD"), [{"lr": 0.02}]),
    ("MiniBatchGradientDescent", "torch", by_torch("SGD"), [{"lr": 0.03}]),
    ("Momentum", "torch", by_torch("SGD", momentum=0.9), [{"lr": 0.01}]),
    ("NAG", "torch", by_torch("SGD", momentum=0.9, nesterov=True), [{"lr": 0.01}]),
    ("ASGD", "torch", by_torch("ASGD"), [{"lr": 0.05}, {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 3.0}]),
    ("Adam", "torch", by_torch("Adam"),
     [{"lr": 0.01}, {"lr": 0.02, "b1": 0.8, "b2": 0.95, "eps": 1e-6, "weight_decay": 0.1},
      {"lr": 0.01, "amsgrad": True}]),
    ("AdamW", "torch", by_torch("AdamW"), [{"lr": 0.01}, {"lr": 0.02, "weight_decay": 0.3, "b2": 0.99}]),
    ("AMSGrad", "torch", by_torch("Adam", amsgrad=True), [{"lr": 0.001}]),
    ("AdaMax", "torch", by_torch("Adamax"), [{"lr": 0.002}, {"lr": 0.02, "b1": 0.8, "b2": 0.9}]),
    ("Nadam", "torch", by_torch("NAdam"), [{"lr": 0.002}, {"lr": 0.02, "b1": 0.8, "b2": 0.95, "momentum_decay": 0.1}]),
    ("RAdam", "torch", by_torch("RAdam"), [{"lr": 0.01}, {"lr": 0.01, "b2": 0.9}]),
    ("RMSprop", "torch", by_torch("RMSprop"),
     [{"lr": 0.01}, {"lr": 0.01, "momentum": 0.7, "centered": True, "weight_decay": 0.05, "alpha": 0.9}]),
    ("Adagrad", "torch", by_torch("Adagrad"),
     [{"lr": 0.05}, {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator": 0.2, "weight_decay": 0.05}]),
    ("AdaDelta", "torch", by_torch("Adadelta", rho=0.95),
     [{"lr": 1.0}, {"lr": 0.5, "rho": 0.9, "eps": 1e-5, "weight_decay": 0.1}]),
    ("Rprop", "torch", by_torch("Rprop"), [{"lr": 0.01}, {"lr": 0.02, "etas": [0.6, 1.4], "step_sizes": [1e-3, 0.05]}]),
    ("Lion", "optax",
     by_optax(lambda optax, f: optax.lion(f["lr"], f.get("b1", 0.9), f.get("b2", 0.99),
                                          weight_decay=f.get("weight_decay", 0.0))),
     [{"lr": 0.001}, {"lr": 0.01, "b1": 0.8, "b2": 0.95, "weight_decay": 0.1}]),
    ("LAMB", "optax", by_optax(lamb),
     [{"lr": 0.01}, {"lr": 0.01, "exclude_bias": False, "weight_decay": 0.1, "b1": 0.8}]),
    ("LARS", "numpy", by_numpy(lars_by_hand),
     [{"lr": 3.0}, {"lr": 1.0, "nesterov": True, "weight_decay": 0.1, "trust_coefficient": 0.01}]),
    ("FTRL", "numpy", by_numpy(ftrl), [{}, {"alpha": 0.1, "beta": 0.5, "l1": 0.3, "l2": 0.2, "warm_start": False}]),
    ("ProximalGradientDescent", "numpy", by_numpy(proximal), [
        {"lr": 0.05}, {"lr": 0.05, "strength": 2.0, "accelerated": True},
        {"lr": 0.05, "regularizer": "l2", "strength": 0.5},
        {"lr": 0.05, "regularizer": "elasticnet", "strength": 1.0, "l1_ratio": 0.3},
        {"lr": 0.05, "regularizer": "nonneg"},
        {"lr": 0.05, "regularizer": "box", "bounds": [-0.5, 0.7]}]),
    ("Adam8bit", "numpy", adam8bit, [{"lr": 0.01}, {"lr": 0.02, "block": 8, "b2": 0.95}]),
]
ROWS += [("ADMM", "numpy", admm, [{"lr": 0.05}, {"lr": 0.05, "rho": 2.0, "inner_steps": 2, "strength": 0.3,
                                                 "adaptive_rho": True}]),
         ("ModifiedGradientDescent", "numpy", by_numpy(forgetting), [{}, {"lr": 0.05, "forget": 0.1}])]
# name: (library, path, variants of fields, steps that are kept) of those that search a minimum
SEARCHES: list[tuple[str, str, Path_, list[dict[str, Any]], tuple[int, ...]]] = [
    ("LBFGS", "torch", by_their_lbfgs,
     [{"lr": 0.7, "history": 4, "line_search": None, "max_iter": 1}, {"lr": 1.0, "line_search": None, "max_iter": 1}],
     SEARCHED),
    ("ConjugateGradient", "scipy", by_scipy("CG"), [{}, {"beta": "FR"}, {"beta": "HS"}, {"beta": "DY"}], (9,)),
    ("BFGS", "scipy", by_scipy("BFGS"), [{}], (9,)), ("DFP", "scipy", by_scipy("BFGS"), [{}], (9,)),
    ("NewtonMethod", "scipy", by_scipy("Newton-CG"), [{}, {"solver": "cholesky", "damping": 0.1}], (9,)),
    ("TrustRegion", "scipy", by_scipy("trust-ncg"), [{}], (9,)),
    ("LevenbergMarquardt", "scipy", by_scipy("lm"), [{}, {"scale": "identity"}], (9,)),
    ("CoordinateDescent", "scipy", by_scipy("BFGS"), [{"exact": True},
                                                      {"lr": 0.6, "order": "greedy", "block_size": 3}], (30,)),
]
TRANSCRIBED = "an independent transcription of the paper in NumPy"


def kept(library: str, path: Path_, variants: list[dict[str, Any]]) -> dict[str, Any]:
    """The arrays of a row of ROWS."""
    rng = np.random.default_rng(7)
    starts = [rng.uniform(-1, 1, s).astype(np.float32) for s in SHAPES]
    grads = [rng.standard_normal((STEPS, *s)).astype(np.float32) for s in SHAPES]
    version = getattr(importlib.import_module(library), "__version__", "").split("+")[0]
    found: dict[str, Any] = {"source": np.array(TRANSCRIBED if library == "numpy" else f"{library} {version}")}
    found |= {f"start.{j}": a for j, a in enumerate(starts)} | {f"grad.{j}": a for j, a in enumerate(grads)}
    for k, fields in enumerate(variants):
        found[f"{k}.fields"] = np.array(json.dumps(fields))
        steps = path(fields, starts, grads)
        found |= {f"{k}.path.{j}": np.stack([steps[t - 1][j] for t in KEPT]) for j in range(len(SHAPES))}
    return found


def searched(library: str, path: Path_, variants: list[dict[str, Any]], steps: tuple[int, ...]) -> dict[str, Any]:
    """The arrays of a row of SEARCHES."""
    rng = np.random.default_rng(8)
    starts, targets = ([rng.uniform(-1, 1, s).astype(np.float32) for s in SHAPES] for _ in range(2))
    version = importlib.import_module(library).__version__.split("+")[0]
    found: dict[str, Any] = {"source": np.array(f"{library} {version}")}
    found |= {f"start.{j}": a for j, a in enumerate(starts)} | {f"target.{j}": a for j, a in enumerate(targets)}
    for k, fields in enumerate(variants):
        rows = path(fields, starts, targets)
        kept_rows = rows if len(steps) == 1 else [rows[t - 1] for t in steps]
        found |= {f"{k}.fields": np.array(json.dumps(fields)), f"{k}.steps": np.array(steps)}
        found |= {f"{k}.path.{j}": np.stack([row[j] for row in kept_rows]) for j in range(len(SHAPES))}
    return found


def check_lars() -> None:
    """optax.lars without decay is the transcription without decay and ε."""
    rng = np.random.default_rng(7)
    starts = [rng.uniform(-1, 1, s) for s in SHAPES]
    grads = [rng.standard_normal((STEPS, *s)) for s in SHAPES]
    fields = {"lr": 3.0, "weight_decay": 0.0, "eps": 0.0, "nesterov": True}
    for a, b in zip(by_optax(lars)(fields, starts, grads), by_numpy(lars_by_hand)(fields, starts, grads), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


if __name__ == "__main__":
    rows = {name: (how[0], functools.partial(kept, *how)) for name, *how in ROWS}
    rows |= {name: (how[0], functools.partial(searched, *how)) for name, *how in SEARCHES}
    rows = {name: row for name, row in rows.items() if name in sys.argv[1:] or not sys.argv[1:]}
    left = [name for name, (library, _) in rows.items() if not importlib.util.find_spec(library)]
    changed = [name for name, (_, make) in rows.items() if name not in left and write("optimizer", name, make())]
    if importlib.util.find_spec("optax"):
        check_lars()
    print(f"{said('optimizer', changed)}; without their library: {', '.join(left) or 'none'}")
