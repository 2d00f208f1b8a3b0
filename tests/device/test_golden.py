"""Ops against values and gradients that an independent library computed once (tests/golden/make_ops.py), without that library; properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.autodiff import gradients
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.op import OPS
from clnet.ops.activations import ACTIVATIONS, celu
from clnet.ops.attention import attention
from clnet.ops.conv import conv, conv_transpose
from clnet.ops.normalize import group_norm, instance_norm, layer_norm, log_softmax, rms_norm, softmax
from clnet.ops.pool import avg_pool, max_pool
from clnet.spec import is_float
from clnet.tensor import Tensor, tensor
from clnet.workbench import catalog, properties, registry
from clnet.workbench.checks import TOLERANCE, allowance, judge, worst

pytestmark = pytest.mark.device
GOLDEN = dict(np.load(Path(__file__).parents[1] / "golden" / "ops.npz"))
NAMES = sorted({key.partition("/")[0] for key in GOLDEN})
# What is not simply an op or an activation of the same name.
CALLS: dict[str, Callable[..., Any]] = {
    "maximum_ties": F.maximum,
    "celu": lambda x: celu(x, 0.5),
    "clip": lambda x: F.clip(x, -1, 1.5),
    "sum": lambda x: F.sum(x, (0, 2)),
    "mean": lambda x: F.mean(x, 1),
    "var": lambda x: F.var(x, 1),
    "prod": lambda x: F.prod(x, 1),
    "max": lambda x: F.max(x, 1),
    "logsumexp": lambda x: F.logsumexp(x, 1),
    "windows": lambda x: F.windows(x, (3,), (2,)),
    "gather": F.gather,
    "gather_axis_1": lambda x, i: F.gather(x, i, 1),
    "take_along_axis": lambda x, i: F.take_along_axis(x, i, 1),
    "scatter_add": lambda s, i: F.scatter_add(s, i, 6),
    "scatter_mean": lambda s, i: F.scatter_mean(s, i, 6),
    "scatter_max": lambda s, i: F.scatter_max(s, i, 6),
    "one_hot": lambda i: F.one_hot(i, 6),
    "matmul": F.matmul,
    "linear": F.linear,
    "conv": lambda x, w, b: conv(x, w, b, stride=2, padding=1),
    "conv_groups_dilation": lambda x, w: conv(x, w, dilation=2, groups=2),
    "conv_transpose": lambda x, w: conv_transpose(x, w, stride=2, padding=1, output_padding=1),
    "max_pool": lambda x: max_pool(x, (3, 3), 2, 1),
    "avg_pool": lambda x: avg_pool(x, (2, 2)),
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": lambda x, g, b: group_norm(x, 2, g, b),
    "instance_norm": instance_norm,
    "attention": attention,
    "attention_causal": lambda q, k, v: attention(q, k, v, causal=True),
}


def call(name: str) -> Callable[..., Any]:
    if name in CALLS:
        return CALLS[name]
    return ACTIVATIONS.get(name) or OPS[name]


def recorded(name: str, dtype: str) -> tuple[list[Any], list[np.ndarray[Any, Any]]]:
    """The op's value and gradients as tensors, and what they should be."""
    stored = [GOLDEN[key] for key in sorted(k for k in GOLDEN if k.startswith(f"{name}/x"))]
    xs = [tensor(x.astype(dtype) if x.dtype.kind == "f" else x) for x in stored]
    y = call(name)(*xs)
    golden = [GOLDEN[key] for key in sorted(k for k in GOLDEN if k.startswith(f"{name}/g"))]
    floats = [t for t in xs if t.dtype == dtype]
    grads = gradients(y, floats, tensor(GOLDEN[f"{name}/u"].astype(dtype))) if golden else []
    return [y, *grads], [GOLDEN[f"{name}/y"], *golden]


@pytest.mark.parametrize("name", NAMES)
def test_device_agrees(name: str, device: Any) -> None:
    outputs, wanted = recorded(name, "float32")
    allowed = allowance(outputs)
    result = worst(name, (judge(name, g, w, "float32", allowed) for g, w in zip(device.values(outputs), wanted, strict=True)))
    assert result, str(result)


@pytest.mark.parametrize("name", NAMES)
def test_reference_agrees(name: str) -> None:
    """The oracle of all other checks, to float64's tolerance."""
    outputs, wanted = recorded(name, "float64")
    allowed = allowance(outputs) if name != "one_hot" else TOLERANCE["float64"]
    got = NumpyEngine("float64").values(outputs)
    result = worst(name, (judge(name, g.astype(np.float64), w, "float64", allowed) for g, w in zip(got, wanted, strict=True)))
    assert result, str(result)


# --- properties: what only the right formula has
SUBJECTS = {(s.kind, s.name): s for s in registry.subjects()}
DECLARED = [s for s in SUBJECTS.values() if properties.of(s)]
BODY = {"layer": "forward", "loss": "formula", "optimizer": "step"}


def moved(y: Any) -> Any:
    """Every float a little off."""
    if isinstance(y, (tuple, list)):
        return type(y)(moved(t) for t in y)
    return y * 1.01 + 0.01 if isinstance(y, Tensor) and is_float(y.dtype) else y


@pytest.mark.parametrize("subject", DECLARED, ids=lambda s: f"{s.kind}-{s.name}")
def test_properties_hold(subject: Any, device: Any) -> None:
    result = worst("properties", properties.check(subject, device))
    assert result, str(result)


@pytest.mark.parametrize("subject", DECLARED, ids=lambda s: f"{s.kind}-{s.name}")
def test_properties_can_fail(subject: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if subject.kind == "op":
        wrong = replace(subject, thing=lambda *a, **k: moved(subject.thing(*a, **k)))
    else:
        body, wrong = getattr(subject.thing, BODY[subject.kind]), subject
        monkeypatch.setattr(subject.thing, BODY[subject.kind], lambda *a, **k: moved(body(*a, **k)))
    for prop in properties.of(subject):
        with on("numpy"):
            assert not worst(prop.__name__, prop(wrong)), f"{prop.__name__} does not notice y → 1.01 y + 0.01"


def test_properties_are_of_something() -> None:
    """Of what is there, or is to come."""
    for kind, name in properties.PROPERTIES:
        assert (kind, name) in SUBJECTS or name in {g.name for g in catalog.goals(kind)}, f"no {kind} is called {name}"
