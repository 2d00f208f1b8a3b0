"""Writes clnet/workbench/evidence/golden/layer/<name>.npz: what an independent library (PyTorch, unless the rule says
another) gives for the examples of every layer, in float64.

    python tests/golden/make_layers.py [name ...]       needs torch; the tests that read the files do not

To add a rule: write a function `(layer with its fields, inputs, parameters by name) -> output or outputs` of torch
tensors and enter it under the layer's name in RULES of `layers_<family>.py` beside this file (a new family: a new file,
which is found by its name). None means that nothing is known of this example. `@by("scipy")` (see rules.py) names a
source other than torch; random layers take the published generator's bits from `layers_random.draws`. Run this file
with the layer's name, commit the .npz. Where no library has a counterpart, or beside its values, a *property* that only
the right formula has: a function in a module of `clnet/workbench/evidence/properties/`, which the status table counts
as independent evidence and tests/device/workbench/test_golden.py runs on every device (how: that package's first
lines).

A file holds for example k: `k.in.j` (inputs, then parameters), `k.out.j` (outputs), `k.u` (cotangent of the first
output), `k.grad.j` (gradients of ⟨u, output⟩ to the float inputs and parameters), more for layers with state, and
`source`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from files import said, write
from rules import collect, source

from clnet.layers import Layer
from clnet.workbench.evidence.registry import layer_example, load_all, make_layer

RULES = collect("layers")


def state(c: Any, x: Any, p: Any) -> dict[str, Any]:
    """Running statistics after the example's batch, and the output of evaluation with them."""
    if type(c).__name__ != "BatchNorm" or not c.track_running_stats:
        return {}
    mean, var = torch.zeros(c.num_features).double(), torch.ones(c.num_features).double()
    F.batch_norm(x[0], mean, var, p.get("weight"), p.get("bias"), True, c.momentum, c.eps)
    return {"running_mean": mean, "running_var": var,
            "eval": F.batch_norm(x[0], mean, var, p.get("weight"), p.get("bias"), False, 0.0, c.eps)}


def leaf(a: np.ndarray[Any, Any]) -> Any:
    if a.dtype.kind == "f":
        return torch.tensor(a, dtype=torch.float64, requires_grad=True)
    return torch.tensor(a) if a.dtype == bool else torch.tensor(a).long()


def values(cls: type[Layer], k: int) -> dict[str, Any]:
    """The arrays kept for an example, {} if its rule has none."""
    layer, inputs = make_layer(cls, k)
    example = layer_example(layer, inputs)
    leaves = [leaf(a) for a in example.inputs]
    x, p = leaves[: len(inputs)], dict(zip(example.names[len(inputs) :], leaves[len(inputs) :], strict=True))
    y = RULES[cls.__name__](layer, x, p)
    if y is None:
        return {}
    ys = list(y) if isinstance(y, (tuple, list)) else [y]
    out = {f"{k}.in.{j}": a for j, a in enumerate(example.inputs)} | {f"{k}.out.{j}": t.detach().numpy() for j,
                                                                      t in enumerate(ys)}
    if ys[0].requires_grad:
        u, floats = np.random.default_rng(k).uniform(-1, 1, ys[0].shape), [t for t in leaves if t.requires_grad]
        grads = torch.autograd.grad(ys[0], floats, torch.tensor(u), allow_unused=True, materialize_grads=True)
        out |= {f"{k}.u": u} | {f"{k}.grad.{j}": g.numpy() for j, g in enumerate(grads)}
    return out | {f"{k}.{n}": v.detach().numpy() for n, v in state(layer, x, p).items()}


def main(wanted: list[str]) -> None:
    load_all()
    changed = []
    for name, cls in sorted(Layer.registry.items()):
        if name in RULES and (not wanted or name in wanted):
            found: dict[str, Any] = {}
            for k in range(len(cls.examples)):
                found |= values(cls, k)
            found["source"] = source(RULES[name])
            changed += [name] if write("layer", name, found) else []
    print(said("layer", changed))


if __name__ == "__main__":
    main(sys.argv[1:])
