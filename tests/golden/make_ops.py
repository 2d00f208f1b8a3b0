"""Writes clnet/workbench/evidence/golden/op/<name>.npz: what an independent library (PyTorch, unless the rule says
another) gives for the
examples of every op, in float64.

    python tests/golden/make_ops.py [name ...]       needs torch; the tests that read the files do not

To add a rule: a function `(inputs, attributes) -> output or outputs` of torch tensors, under the op's name in RULES of
`ops_<family>.py` beside this file; None means that nothing is known of this example. Where PyTorch has no counterpart,
`@by("numpy")` (or "scipy", "python integers", see rules.py) says what was used, and the rule is given NumPy arrays.
Calls that the op's own examples lack (ties, negative divisors, all 32 bits) go into MORE of the same file.

A file holds for example k: `k.in.j`, `k.out.j`, `k.u` (cotangent of the first output), `k.grad.j` (gradients of ⟨u,
output⟩ to the float inputs); the same for MORE under `more.k`, with `more.k.attrs` (JSON) and `more.k.call` (a function
under clnet.ops; "": the op); and `source`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from files import said, write
from rules import collect, source

from clnet.core.function import FUNCTIONS
from clnet.core.op import OPS
from clnet.workbench.evidence import golden, registry
from clnet.workbench.evidence.cases import cases

RULES, MORE = collect("ops"), collect("ops", "MORE")
LARGEST = 3000  # elements of an example that is kept: the files are part of the repository and of the package


def leaf(a: np.ndarray[Any, Any]) -> Any:
    t = torch.from_numpy(a.astype(np.float64) if a.dtype.kind == "f" else a.copy())
    return t.requires_grad_() if a.dtype.kind == "f" else t


def example(rule: Any, inputs: list[Any], attrs: dict[str, Any], slopes: bool = True) -> dict[str, Any]:
    """The arrays kept for one call."""
    inputs = [np.asarray(a) for a in inputs]
    if hasattr(rule, "source"):
        return {f"in.{j}": a for j, a in enumerate(inputs)} | {"out.0": np.asarray(rule(*inputs, **attrs))}
    leaves = [leaf(a) for a in inputs]
    y = rule(*leaves, **attrs)
    if y is None:
        return {}
    ys = list(y) if isinstance(y, (tuple, list)) else [y]
    found = {f"in.{j}": a for j, a in enumerate(inputs)} | {f"out.{j}": t.detach().numpy() for j, t in enumerate(ys)}
    if ys[0].requires_grad and slopes:
        u = np.random.default_rng(11).standard_normal(tuple(ys[0].shape))
        grads = torch.autograd.grad(ys[0], [t for t in leaves if t.requires_grad], torch.from_numpy(u),
                                    allow_unused=True, materialize_grads=True)
        found |= {"u": u} | {f"grad.{j}": g.numpy() for j, g in enumerate(grads)}
    return found


def attributes(subject: registry.Subject) -> list[dict[str, Any]]:
    """The attributes of a subject's examples, in their order."""
    if subject.name in OPS:
        return [case.attrs for case in cases(OPS[subject.name])]
    if subject.name in FUNCTIONS:
        return [case.attrs for case in FUNCTIONS[subject.name].samples()]
    if hasattr(subject.thing, "examples"):
        return [attrs for _, attrs in subject.thing.examples]
    return [next(g.example["attrs"] for g in registry.catalog.goals("op") if g.name == subject.name)]


def kept(subject: registry.Subject) -> dict[str, Any]:
    """All arrays of a subject: the first generated examples, all that the op states itself, and MORE."""
    rule, found = RULES[subject.name], {}
    stated = subject.name in FUNCTIONS or (
        OPS[subject.name].samples if subject.name in OPS else hasattr(subject.thing, "examples"))
    pairs = list(zip(subject.examples(), attributes(subject), strict=True))
    for k, (e, attrs) in enumerate(pairs if stated else pairs[: golden.TRIED]):
        if sum(x.size for x in e.inputs) <= LARGEST:
            found |= {f"{k}.{n}": a for n, a in example(rule, e.inputs, attrs).items()}
    for k, more in enumerate(MORE.get(subject.name, [])):
        found |= {f"more.{k}.{n}": a for n,
                  a in example(more.rule or rule, more.inputs, more.attrs, more.slopes).items()}
        found |= {f"more.{k}.attrs": np.array(json.dumps(more.attrs)), f"more.{k}.call": np.array(more.call)}
    return found | {"source": source(rule)}


def main(wanted: list[str]) -> None:
    subjects = registry.subjects(["op"])
    some = [s for s in subjects if s.name in RULES and (not wanted or s.name in wanted)]
    changed = [s.name for s in some if write("op", s.name, kept(s))]
    print(f"{said('op', changed)}; no rule for {' '.join(s.name for s in subjects if s.name not in RULES) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
