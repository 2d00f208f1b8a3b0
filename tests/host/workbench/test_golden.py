"""Independent values and properties on the reference: they hold there, and each can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clnet.core.spec import is_float
from clnet.core.tensor import Tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.workbench.evidence import catalog, golden, properties, registry
from clnet.workbench.evidence.checks import worst

SUBJECTS = {(s.kind, s.name): s for s in registry.subjects()}


def named(subjects: Any) -> Any:
    return [pytest.param(s, id=f"{s.kind}-{s.name}") for s in subjects]


OPS = named(s for s in SUBJECTS.values() if s.kind == "op")
DECLARED = named(s for s in SUBJECTS.values() if properties.of(s))
BODY = {"layer": "forward", "loss": "formula", "optimizer": "step"}
KEPT = named(s for s in SUBJECTS.values() if golden.load(s))


@pytest.mark.parametrize("subject", OPS)
def test_reference_agrees(subject: Any) -> None:
    """The oracle of all other checks, to float64's tolerance."""
    result = worst(subject.name, golden.compare(subject, NumpyEngine("float64"), "float64"))
    assert result, str(result)


def another(a: Any, part: float = 0.01) -> Any:
    """The array with one element wrong: by a part of the largest, by one, or the other truth value."""
    flat = a.ravel().copy()
    at = int(np.flatnonzero(np.isfinite(flat))[0])
    if a.dtype == bool:
        flat[at] = not flat[at]
    elif a.dtype.kind == "f":
        flat[at] += max(1.0, np.nanmax(np.abs(flat[np.isfinite(flat)]))) * part
    else:
        flat[at] += 1
    return flat.reshape(a.shape)


@pytest.mark.parametrize("subject", [*KEPT[::4], *(pytest.param(*p.values, id=p.id, marks=pytest.mark.slow)
                                                   for k, p in enumerate(KEPT) if k % 4)])
def test_values_can_fail(subject: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong element, wherever it is kept, is found."""
    kept = golden.load(subject)
    parts = [n for n in kept if {"out", "grad", "path"} & set(n.split(".")[1:-1]) and np.isfinite(kept[n]).any()]
    assert parts, f"nothing is compared with {subject.name}.npz"
    for name in parts:
        rough = "bfloat16" in str(kept.get(name.rsplit(".", 2)[0] + ".attrs"))  # 8 bits: a unit of them is 0.8 %
        wrong = another(kept[name], 0.03 if rough else 0.01)
        monkeypatch.setattr(golden, "load", lambda _, name=name, wrong=wrong: {**kept, name: wrong})
        with on("numpy") as engine:
            assert not worst(name, golden.compare(subject, engine)), f"a wrong element of {name} is not noticed"


def moved(y: Any) -> Any:
    """Every float a little off, every whole number by one."""
    if isinstance(y, (tuple, list)):
        return type(y)(moved(t) for t in y)
    if not isinstance(y, Tensor) or y.dtype == "bool":
        return y
    return y * 1.01 + 0.01 if is_float(y.dtype) else y + 1


@pytest.mark.parametrize("subject", DECLARED)
def test_properties_can_fail(subject: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if subject.kind == "op":
        wrong = replace(subject, thing=lambda *a, **k: moved(subject.thing(*a, **k)))
    else:
        body, wrong = getattr(subject.thing, BODY[subject.kind]), subject
        monkeypatch.setattr(subject.thing, BODY[subject.kind], lambda *a, **k: moved(body(*a, **k)))
    declared = properties.of(subject)
    assert declared
    for prop in declared:
        with on("numpy"):
            assert not worst(prop.__name__, prop(wrong)), f"{prop.__name__} does not notice y → 1.01 y + 0.01"


def test_properties_are_of_something() -> None:
    """Of what is there, or is to come."""
    assert properties.PROPERTIES
    for kind, name in properties.PROPERTIES:
        assert (kind, name) in SUBJECTS or name in {g.name for g in catalog.goals(kind)}, f"no {kind} is called {name}"
