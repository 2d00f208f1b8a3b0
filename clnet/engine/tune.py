"""Tuned numbers are data: cl_kernels/tuning/<device>.json, read here, written by measurement; unknown devices get none."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any


@functools.cache
def _table(name: str) -> dict[str, Any]:
    """The file of a device of this name ("NVIDIA H200" -> nvidia-h200.json); {} where there is none."""
    file = importlib.resources.files("cl_kernels").joinpath("tuning", "-".join(name.lower().split()) + ".json")
    return json.loads(file.read_text("utf-8")) if file.is_file() else {}


def tuned(device: Any, op: str, shape: str = "") -> dict[str, Any]:
    """What was measured for an op on a device: its numbers for all shapes, overridden by those of a shape class, if any.

    The file: {"device": name, "driver": ..., "command": how it was made, "ops": {op: {"": {tunable: value}, shape class: {...}}}}.
    """
    ops = _table(device.name).get("ops", {}).get(op, {})
    return {k: _frozen(v) for k, v in {**ops.get("", {}), **ops.get(shape, {})}.items()}


def _frozen(value: Any) -> Any:
    """Lists as tuples: geometries are cached by their numbers."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
