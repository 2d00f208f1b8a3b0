"""What the makers of golden values share: where rules are found, which library a rule speaks for, activations, random
draws.

A rule says by an independent library what clnet should give. Where PyTorch has no counterpart, `@by("scipy")` (or
"numpy", "python integers", a paper) names what was used in its stead; it goes into the file's `source`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
VERSIONS = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__, "scipy": scipy.__version__}
ACT: dict[str | None, Callable[..., Any]] = {
    None: lambda x: x, "relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu,
    "leaky_relu": lambda x, slope=0.01: F.leaky_relu(x, slope),
    "softmax": lambda x, temperature=1.0: F.softmax(x / temperature, -1)}


def by(source: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a rule as that of another library than PyTorch."""
    def mark(rule: Callable[..., Any]) -> Callable[..., Any]:
        rule.source = source  # type: ignore[attr-defined]
        return rule

    return mark


def vision(name: str) -> Any:
    """A module of torchvision, which only the rules that it speaks for need."""
    module = importlib.import_module("torchvision")
    VERSIONS["torchvision"] = module.__version__.split("+")[0]
    return importlib.import_module(f"torchvision.{name}")


def geometric(name: str) -> Any:
    """A module of PyTorch Geometric, which only the rules that it speaks for need."""
    version = importlib.import_module("torch_geometric").__version__
    VERSIONS["torch_geometric"] = version.split("+")[0]
    return importlib.import_module(f"torch_geometric.{name}")


def source(rule: Callable[..., Any]) -> np.ndarray[Any, Any]:
    """The library that a rule speaks for, with its version."""
    name = getattr(rule, "source", "torch")
    return np.array(f"{name} {VERSIONS.get(name, '')}".strip())


def collect(prefix: str, table: str = "RULES") -> dict[str, Any]:
    """RULES (or another table) of every module <prefix>_<family>.py beside this one."""
    found: dict[str, Any] = {}
    for path in sorted(HERE.glob(f"{prefix}_*.py")):
        rules = getattr(importlib.import_module(path.stem), table, {})
        assert not found.keys() & rules.keys(), f"{path.name}: {sorted(found.keys() & rules.keys())} have rules already"
        found |= rules
    return found


@dataclass
class More:
    """A call beside the examples that an op has: what its draws do not meet (ties, negative divisors, full words), or a
    user's function.

    call    "module.function" under clnet.ops with its own `attrs`, and `rule` what it should give; the op itself and
            its rule if left out
    slopes  whether gradients are kept: not at kinks, where each library has a convention of its own
    """

    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    call: str = ""
    rule: Callable[..., Any] | None = None
    slopes: bool = True


def pulled(y: Any, wrt: Any, g: Any) -> Any:
    """The cotangents of `wrt` for that of y, themselves differentiable."""
    return torch.autograd.grad(y, wrt, g, create_graph=True)
