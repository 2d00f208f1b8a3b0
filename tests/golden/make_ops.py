"""Writes op/<name>.npz: what PyTorch gives for the first examples of every op that it knows, in float64.

    python tests/golden/make_ops.py [name ...]       needs torch; the tests that read the files do not

A file holds for example k: `k.in.j`, `k.out.0`, `k.u` (cotangent), `k.grad.j` (gradients of ⟨u, output⟩ to the float inputs), and `source`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from clnet.op import OPS
from clnet.workbench import golden, registry
from clnet.workbench.cases import cases

HERE = Path(__file__).resolve().parent / "op"
SAME = """abs add bit_and bit_or bit_xor ceil cos cosh div equal erf exp expm1 floor greater greater_equal isfinite isnan less less_equal log log1p log2 maximum
    minimum mul neg not_equal pow reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square sub tan tanh trunc matmul where""".split()  # noqa: SIM905
TORCH = {"bit_and": "bitwise_and", "bit_or": "bitwise_or", "bit_xor": "bitwise_xor", "equal": "eq", "not_equal": "ne"}


def _reduce(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes: f(x, dim=tuple(axes), keepdim=True)


def _single(f: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch reduces over one axis here: several are laid into one."""
    def folded(x: Any, axes: Any) -> Any:
        kept = [a for a in range(x.ndim) if a not in axes]
        flat = x.permute(*kept, *axes).reshape(*(x.shape[a] for a in kept), -1)
        return f(flat, -1).reshape([1 if a in axes else n for a, n in enumerate(x.shape)])
    return folded


# --- each: (inputs, attributes) -> the output
RULES: dict[str, Callable[..., Any]] = {
    **{n: getattr(torch, TORCH.get(n, n)) for n in SAME},
    "arctan": torch.arctan, "floordiv": lambda x, y: torch.floor_divide(x, y), "mod": torch.remainder, "softplus": F.softplus, "softsign": F.softsign,
    "mish": F.mish, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "swish": F.silu,
    "sum": _reduce(torch.sum), "max": _reduce(torch.amax), "min": _reduce(torch.amin), "prod": _single(torch.prod), "argmax": _single(torch.argmax),
    "argmin": _single(torch.argmin), "logsumexp": lambda x, axes: torch.logsumexp(x, tuple(axes)), "mean": lambda x, axes: torch.mean(x, tuple(axes)),
    "var": lambda x, axes: torch.var(x, tuple(axes), correction=0),
    "softmax": lambda x, axis: F.softmax(x, axis), "log_softmax": lambda x, axis: F.log_softmax(x, axis),
    "layer_norm": lambda x, g, b, eps: F.layer_norm(x, x.shape[-1:], g, b, eps), "rms_norm": lambda x, g, eps: F.rms_norm(x, x.shape[-1:], g, eps),
    "reshape": lambda x, shape: x.reshape(shape), "permute": lambda x, order: x.permute(*order), "expand": lambda x, shape: x.expand(shape),
    "flip": lambda x, axes: x.flip(tuple(axes)), "linear": F.linear, "attention": F.scaled_dot_product_attention,
    "elu": lambda x, a=1.0: torch.where(x > 0, x, a * F.elu(x)), "selu": F.selu, "celu": F.celu,
    "leaky_relu": lambda x, slope: F.leaky_relu(x, slope), "relu6": F.relu6, "hard_tanh": F.hardtanh, "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish,
    "conv_transpose": lambda x, w: F.conv_transpose2d(x, w), "avg_pool": lambda x, size: F.avg_pool2d(x, size),
    "instance_norm": lambda x: F.instance_norm(x), "group_norm": lambda x, num_groups: F.group_norm(x, num_groups),
}


def leaf(a: np.ndarray[Any, Any]) -> Any:
    t = torch.from_numpy(a.astype(np.float64) if a.dtype.kind == "f" else a.copy())
    return t.requires_grad_() if a.dtype.kind == "f" else t


def example(name: str, inputs: list[Any], attrs: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The arrays kept for one example."""
    leaves = [leaf(a) for a in inputs]
    y = RULES[name](*leaves, **attrs)
    found = {f"in.{j}": a for j, a in enumerate(inputs)} | {"out.0": y.detach().numpy()}
    if y.requires_grad:
        u = rng.standard_normal(tuple(y.shape))
        grads = torch.autograd.grad(y, [t for t in leaves if t.requires_grad], torch.from_numpy(u), allow_unused=True, materialize_grads=True)
        found |= {"u": u} | {f"grad.{j}": g.numpy() for j, g in enumerate(grads)}
    return found


def attributes(subject: registry.Subject) -> list[dict[str, Any]]:
    """The attributes of a subject's examples, in their order."""
    if subject.name in OPS:
        return [case.attrs for case in cases(OPS[subject.name])]
    return [next(g.example["attrs"] for g in registry.catalog.goals("op") if g.name == subject.name)]


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for subject in registry.subjects(["op"]):
        if subject.name not in RULES or (sys.argv[1:] and subject.name not in sys.argv[1:]):
            continue
        rng, kept = np.random.default_rng(11), {"source": np.array(f"torch {torch.__version__.split('+')[0]}")}
        for k, (e, attrs) in enumerate(zip(subject.examples()[: golden.TRIED], attributes(subject), strict=False)):
            try:
                kept |= {f"{k}.{n}": a for n, a in example(subject.name, e.inputs, attrs, rng).items()}
            except (TypeError, RuntimeError) as error:  # PyTorch lacks the form: this example has no independent value
                print(f"{subject.name}, example {k}: {' '.join(str(error).split())[:120]}")
        if len(kept) == 1:
            continue
        np.savez_compressed(HERE / f"{subject.name}.npz", **kept)
