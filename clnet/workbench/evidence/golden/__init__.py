"""Values that an independent library computed once:
the evidence that a formula is the paper's. They are part of the package.

`<layer|loss|op>/<name>.npz` beside this module holds for the subject's k-th example `k.in.j` (inputs, then parameters
in the order of `Example.names`), `k.out.j` (what the other library gave for them), `k.u` (cotangent of the first
output; 1 if left out) and `k.grad.j` (gradients of the float inputs), and for ops `more.k...`: calls beside the
examples, of which `more.k.attrs` (JSON) are the attributes and `more.k.call` the function under clnet.ops ("": the op).
`optimizer/<name>.npz` holds `start.j`, `grad.j`, and for the k-th variant `k.fields` (JSON) and `k.path.j` (after steps
1, 2, 5, 50); of those that search a minimum `target.j` in place of gradients, and `k.path.j` after the steps `k.steps`
down evidence.step.Valley. Each says in `source` which library it was. tests/golden/make_*.py write them, a file a
subject: values made again change one small file, and two people who add values meet in none.
"""

from __future__ import annotations

import functools
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.autodiff import gradients
from ....core.spec import is_float
from ....core.state import Parameter
from ....core.tensor import constant, tensor
from ....engine import on
from .. import checks
from .. import step as probe
from ..registry import Example, Subject

if TYPE_CHECKING:
    from ....engine.protocol import Engine

KEPT = (1, 2, 5, 50)  # steps of an optimizer's path that are compared
HERE = Path(__file__).resolve().parent
TRIED = 2  # examples of an op whose cases are generated


def path(kind: str, name: str) -> Path:
    """The file of a subject's values, whether or not it is there."""
    return HERE / kind / f"{name}.npz"


def names(kind: str) -> list[str]:
    """The subjects of a kind of which values are kept."""
    return sorted(file.stem for file in (HERE / kind).glob("*.npz"))


def read(kind: str, name: str) -> dict[str, Any]:
    """The arrays kept under a name, {} if there are none."""
    try:
        with np.load(path(kind, name), allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError:
        return {}


def load(subject: Subject) -> dict[str, Any]:
    """The arrays kept for a subject, {} if there are none."""
    return read(subject.kind, subject.name)


def compare(subject: Subject, engine: Engine, dtype: str | None = None) -> list[checks.Result]:
    """The engine's values and gradients against the kept ones;
    [] if nothing is kept. `dtype` takes the place of the inputs' float32, where the subject takes others.
    """
    given = "float32" if subject.single else dtype
    kept = load(subject)
    if not kept:
        return []
    if subject.kind == "optimizer":
        return _paths(subject, kept, engine)
    calls = [(str(k), example) for k, example in enumerate(subject.examples())] + _more(subject, kept)
    return [r for k, example in calls if f"{k}.out.0" in kept for r in _example(kept, k, example, engine, dtype, given)]


def _more(subject: Subject, kept: dict[str, Any]) -> list[tuple[str, Example]]:
    """The calls that are kept beside the subject's own examples."""
    found = []
    for k in range(sum(name.endswith(".call") for name in kept)):
        attrs = {n: tuple(v) if isinstance(v, list) else v for n, v in json.loads(str(kept[f"more.{k}.attrs"])).items()}
        module, _, name = str(kept[f"more.{k}.call"]).partition(".")
        function = getattr(importlib.import_module(f"clnet.ops.{module}"), name) if module else subject.thing
        found.append((f"more.{k}", Example(functools.partial(function, **attrs), _numbered(kept, f"more.{k}.in."), [])))
    return found


def _numbered(kept: dict[str, Any], prefix: str) -> list[Any]:
    numbers = sorted(int(tail) for name in kept if name.startswith(prefix) and (tail := name[len(prefix) :]).isdigit())
    return [kept[f"{prefix}{j}"] for j in numbers]


def _example(kept: dict[str, Any], k: str, example: Example, engine: Engine,
             dtype: str | None = None, given: str | None = None) -> list[checks.Result]:
    inputs = _numbered(kept, f"{k}.in.")
    if [x.shape for x in inputs] != [x.shape for x in example.inputs]:
        note = f"the kept inputs of example {k} are not those of the example now: make the values again"
        return [checks.Result("golden", False, note=note)]
    # Kept in float64 is what no float32 holds, such as another op's result: it enters in float32, or as `given`, like
    # all others.
    xs = [tensor(x, (given or ("float32" if x.dtype == np.float64 else None)) if is_float(x.dtype.name) else None)
          for x in inputs]
    ys = probe.outputs_of(example.function(*xs))
    wanted, slopes = _numbered(kept, f"{k}.out."), _numbered(kept, f"{k}.grad.")
    outputs = ys[: len(wanted)]
    if slopes and is_float(ys[0].dtype):
        u = kept.get(f"{k}.u")
        cotangent = constant(1, ys[0].dtype, ys[0].shape) if u is None else tensor(u, ys[0].dtype)
        outputs = outputs + gradients(ys[0], [x for x in xs if is_float(x.dtype)][: len(slopes)], cotangent)
    allowed = checks.allowance(outputs)
    values = engine.values(outputs)
    # The reference in float64 keeps that width where an op names a narrower one.
    widths = [v.dtype.name if dtype and is_float(t.dtype) else t.dtype for t, v in zip(outputs, values, strict=True)]
    return [checks.judge("golden", got, want, width, allowed, normwise=True)
            for width, got, want in zip(widths, values, [*wanted, *slopes][: len(outputs)], strict=True)]


def _paths(subject: Subject, kept: dict[str, Any], engine: Engine) -> list[checks.Result]:
    if "target.0" in kept:
        return _searched(subject, kept, engine)
    starts, grads, found = _numbered(kept, "start."), _numbered(kept, "grad."), []
    for k in range(sum(name.endswith(".fields") for name in kept)):
        optimizer = subject.thing(**json.loads(str(kept[f"{k}.fields"])))
        params = [Parameter(a, f"p{j}", role="bias" if a.ndim == 1 else "weight") for j, a in enumerate(starts)]
        steps = {}
        with on(engine):
            for t in range(1, max(KEPT) + 1):
                for p, g in zip(params, grads, strict=True):
                    p.grad = tensor(g[t - 1])
                optimizer.update(params)
                steps[t] = [p.numpy() for p in params]
        for j, wanted in enumerate(_numbered(kept, f"{k}.path.")):
            for row, step in enumerate(KEPT):
                found.append(checks.judge("golden", steps[step][j], wanted[row], "float32",
                                          checks.TOLERANCE["float32"] * (step + 1)))
    return found


def _searched(subject: Subject, kept: dict[str, Any], engine: Engine) -> list[checks.Result]:
    starts, targets, found = _numbered(kept, "start."), _numbered(kept, "target."), []
    for k in range(sum(name.endswith(".fields") for name in kept)):
        optimizer = subject.thing(**json.loads(str(kept[f"{k}.fields"])))
        params = {f"p{j}": Parameter(a, f"p{j}") for j, a in enumerate(starts)}
        with on(engine):
            optimizer.attach(params)
        steps, wanted = [int(t) for t in kept[f"{k}.steps"]], _numbered(kept, f"{k}.path.")
        step = probe.SearchProbe(len, targets, params, optimizer)
        for t in range(1, steps[-1] + 1):
            if not step.search.reason:
                step.step(engine)
            if t in steps:
                with on(engine):
                    found += [checks.judge("golden", p.numpy(), want[steps.index(t)], "float32",
                                           checks.TOLERANCE["float32"] * (t + 1))
                              for p, want in zip(params.values(), wanted, strict=True)]
    return found
