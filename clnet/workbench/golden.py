"""Values that an independent library computed once: the evidence that a formula is the paper's.

A file `tests/golden/<kind>/<name>.npz` holds, for the subject's k-th example, `k.in.j` (inputs, then parameters in the
order of `Example.names`), `k.out.j` (what the other library gave for them) and `source` (which library, which version).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from ..tensor import tensor
from . import checks, probe
from .registry import Subject


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
    """The device's outputs for the kept inputs against the kept outputs; [] if nothing is kept."""
    kept, found = load(subject), []
    for k, example in enumerate(subject.examples() if kept else []):
        inputs = [kept[f"{k}.in.{j}"] for j in range(len(example.inputs)) if f"{k}.in.{j}" in kept]
        wanted = [kept[name] for j in range(len(kept)) if (name := f"{k}.out.{j}") in kept]
        if len(inputs) != len(example.inputs) or not wanted:
            continue
        outputs = probe.outputs_of(example.function(*(tensor(x) for x in inputs)))
        allowed = checks.allowance(outputs)
        for t, got, want in zip(outputs, engine.values(outputs), wanted, strict=True):
            found.append(checks.judge("golden", got, want, t.dtype, allowed))
    return found
