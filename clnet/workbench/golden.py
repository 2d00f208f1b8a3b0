"""Values that an independent library computed once: the evidence that a formula is the paper's.

`tests/golden/<layer|loss|op>/<name>.npz` holds for the subject's k-th example `k.in.j` (inputs, then parameters in the order
of `Example.names`), `k.out.j` (what the other library gave for them), `k.u` (cotangent of the first output; 1 if left out) and
`k.grad.j` (gradients of the float inputs); `optimizer/<name>.npz` holds `start.j`, `grad.j`, and for the k-th variant
`k.fields` (JSON) and `k.path.j` (after steps 1, 2, 5, 50). Each says in `source` which library it was.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..autodiff import gradients
from ..engine import on
from ..spec import is_float
from ..state import Parameter
from ..tensor import constant, tensor
from . import checks, probe
from .registry import Example, Subject

KEPT = (1, 2, 5, 50)  # steps of an optimizer's path that are compared
TRIED = 2


@functools.cache
def folder() -> Path | None:
    """Where the values lie; None outside a checkout, where there is nothing to compare with."""
    found = Path(__file__).resolve().parents[2] / "tests" / "golden"
    return found if found.is_dir() else None


def load(subject: Subject) -> dict[str, Any]:
    """The arrays kept for a subject, {} if there are none."""
    place = folder()
    path = place / subject.kind / f"{subject.name}.npz" if place else None
    if path is None or not path.is_file():
        return {}
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def compare(subject: Subject, engine: Any) -> list[checks.Result]:
    """The device's values and gradients against the kept ones; [] if nothing is kept."""
    kept = load(subject)
    if not kept:
        return []
    if subject.kind == "optimizer":
        return _paths(subject, kept, engine)
    return [r for k, example in enumerate(subject.examples()[:TRIED]) if f"{k}.out.0" in kept for r in _example(kept, k, example, engine)]


def _numbered(kept: dict[str, Any], prefix: str) -> list[Any]:
    numbers = sorted(int(tail) for name in kept if name.startswith(prefix) and (tail := name[len(prefix) :]).isdigit())
    return [kept[f"{prefix}{j}"] for j in numbers]


def _example(kept: dict[str, Any], k: int, example: Example, engine: Any) -> list[checks.Result]:
    inputs = _numbered(kept, f"{k}.in.")
    if [x.shape for x in inputs] != [x.shape for x in example.inputs]:
        return [checks.Result("golden", False, note=f"the kept inputs of example {k} are not those of the example now: make the values again")]
    xs = [tensor(x) for x in inputs]
    ys = probe.outputs_of(example.function(*xs))
    wanted, slopes = _numbered(kept, f"{k}.out."), _numbered(kept, f"{k}.grad.")
    outputs = ys[: len(wanted)]
    if slopes and is_float(ys[0].dtype):
        u = kept.get(f"{k}.u")
        cotangent = constant(1, ys[0].dtype, ys[0].shape) if u is None else tensor(u, ys[0].dtype)
        outputs = outputs + gradients(ys[0], [x for x in xs if is_float(x.dtype)][: len(slopes)], cotangent)
    allowed = checks.allowance(outputs)
    return [checks.judge("golden", got, want, t.dtype, allowed, normwise=True) for t, got, want in
            zip(outputs, engine.values(outputs), [*wanted, *slopes][: len(outputs)], strict=True)]


def _paths(subject: Subject, kept: dict[str, Any], engine: Any) -> list[checks.Result]:
    starts, grads, found = _numbered(kept, "start."), _numbered(kept, "grad."), []
    for k in range(sum(name.endswith(".fields") for name in kept)):
        optimizer = subject.thing(**json.loads(str(kept[f"{k}.fields"])))
        params = [Parameter(a, f"p{j}", role="bias" if a.ndim == 1 else "weight") for j, a in enumerate(starts)]
        path = {}
        with on(engine):
            for t in range(1, max(KEPT) + 1):
                for p, g in zip(params, grads, strict=True):
                    p.grad = tensor(g[t - 1])
                optimizer.update(params)
                path[t] = [p.numpy() for p in params]
        for j, wanted in enumerate(_numbered(kept, f"{k}.path.")):
            for row, step in enumerate(KEPT):
                found.append(checks.judge("golden", path[step][j], wanted[row], "float32", checks.TOLERANCE["float32"] * (step + 1)))
    return found
