"""Subjects as rows of facts: what their declarations say, and what a step of them launches."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ...config.fields import Configured
from ...core.op import Kernel, Op
from ...engine import current
from .registry import Subject, make_layer
from .step import step_of

if TYPE_CHECKING:
    from ...engine.protocol import Engine


def fields_of(thing: object) -> dict[str, Any]:
    """The configuration as JSON schema properties, for classes;
    the attributes and their defaults, for functions and ops.
    """
    if isinstance(thing, type) and issubclass(thing, Configured):
        return {k: v for k, v in thing.schema()["properties"].items() if k != "type"}
    function: Any = thing
    if isinstance(thing, Op):
        function = (isinstance(thing, Kernel) and thing.define) or thing.ref
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # NumPy's own functions state no signature
        return {}
    return {p.name: {"default": None if p.default is p.empty else p.default} for p in parameters
            if p.kind is p.KEYWORD_ONLY}


def facts(subject: Subject) -> dict[str, Any]:
    """The row of a subject that needs no device:
    names, formula, paper, signature, fields, parameters with roles and shapes.
    """
    thing = subject.thing
    row = {"kind": subject.kind, "name": subject.name, "spec_name": subject.spec_name, "family": subject.family,
           "formula": subject.formula, "paper": subject.paper, "signature": getattr(thing, "signature", ""),
           "fields": fields_of(thing), "parameters": {}}
    if subject.kind == "layer" and thing.examples:
        layer, _ = make_layer(thing)
        row["parameters"] = {n: {"role": v.role, "shape": list(v.shape), "trainable": v.trainable}
                             for n, v in layer.variables().items()}
    if subject.kind == "optimizer":
        row["parameters"] = {n: {"role": "state", "shape": ["parameters"], "trainable": False} for n in thing.state}
    return row


def traced(subject: Subject, engine: Engine | None = None) -> dict[str, Any]:
    """`facts` with what a step of the example launches on the engine: ops used, kernels by name."""
    plan = step_of(subject).plan(engine or current())
    ops = sorted({op for s in plan for op in s.ops})
    return {**facts(subject), "ops": ops, "kernels": [s.name for s in plan]}
