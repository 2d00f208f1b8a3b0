"""What a model is made of, and what training it takes: exact counts, and bytes read off the plan of a step that never ran."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import ops as F
from .autodiff import gradients
from .engine import current
from .engine.memory import size_class
from .engine.record import forecast, infer
from .layers.base import Layer, no_tape
from .model_io import layers
from .optimizers.base import Optimizer
from .optimizers.first_order import Adam
from .spec import Spec
from .state import Parameter
from .tensor import Tensor

HEAD = ("layer", "type", "output", "parameters")


@dataclass(frozen=True)
class Row:
    """A layer: its path, type, shape(s) of its output, and the parameters that it holds itself, each counted where it is met first."""

    layer: str
    type: str
    output: str
    parameters: int


@dataclass
class Summary:
    """`rows` in order of the model; `parameters` in all; `memory` in bytes by what it is for, "total" included. Shows as a table."""

    rows: list[Row]
    parameters: int
    trainable: int
    memory: dict[str, int] = field(default_factory=dict)
    note: str = ""

    def __repr__(self) -> str:
        cells = [HEAD, *((r.layer, r.type, r.output, f"{r.parameters:,}") for r in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(4)]
        lines = ["  ".join((*(row[k].ljust(widths[k]) for k in range(3)), row[3].rjust(widths[3]))) for row in cells]
        rule = "-" * len(lines[0])
        return "\n".join([lines[0], rule, *lines[1:], rule, *(f"{name}: {value}" for name, value in self._facts())])

    def _facts(self) -> list[tuple[str, str]]:
        counts = [("parameters", f"{self.parameters:,} ({self.trainable:,} trainable)")]
        return counts + [(f"memory, {name}", f"{n:,} bytes") for name, n in self.memory.items()] + ([("note", self.note)] if self.note else [])

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            sides = ("left", "left", "left", "right")
            return "<tr>" + "".join(f'<{tag} style="text-align:{side}">{html.escape(c)}</{tag}>' for side, c in zip(sides, cells, strict=True)) + "</tr>"

        body = "".join(row((r.layer, r.type, r.output, f"{r.parameters:,}"), "td") for r in self.rows)
        facts = "".join(f"<li>{html.escape(name)}: {html.escape(value)}</li>" for name, value in self._facts())
        return f'<table class="clnet-summary"><thead>{row(HEAD, "th")}</thead><tbody>{body}</tbody></table><ul>{facts}</ul>'


def summarize(model: Layer, specs: Sequence[Spec], optimizer: Optimizer | None = None) -> Summary:
    """The summary of a model for inputs of these specs; nothing runs. Builds the model. Raises ShapeError."""
    outputs = infer(model, specs)
    found = layers(model)
    rows, counted = [], set()
    for path, layer in found.items():
        own = [v for v in vars(layer).values() if isinstance(v, Parameter) and id(v) not in counted]
        counted |= {id(v) for v in own}
        rows.append(Row(path or "model", type(layer).__name__, _shapes(layer), sum(v.size for v in own)))
        vars(layer).pop("_called", None)
    params = [v for v in model.variables().values() if isinstance(v, Parameter)]
    return Summary(rows, sum(p.size for p in params), sum(p.size for p in params if p.trainable), _memory(model, specs, optimizer or Adam()),
                   f"optimizer {type(optimizer or Adam()).__name__}, inputs {', '.join(map(str, specs))}, outputs {', '.join(map(str, outputs))}")


def _shapes(layer: Layer) -> str:
    called = getattr(layer, "_called", None)
    if called is None:
        return "-"
    outputs = called[1] if isinstance(called[1], (tuple, list)) else (called[1],)
    return ", ".join(str(o.shape) for o in outputs if isinstance(o, Tensor))


def _memory(model: Layer, specs: Sequence[Spec], optimizer: Optimizer) -> dict[str, int]:
    """[bytes] of a training step on the current engine."""
    params = model.parameters()
    weights = sum(p.spec.nbytes for p in params)
    others = sum(v.spec.nbytes for v in model.variables().values()) - weights

    def step(*inputs: Any) -> Any:
        before = model.training
        model.train()
        try:
            with no_tape():
                out = model(*inputs)
        finally:
            model.train(before)
        total: Any = 0.0
        for o in out if isinstance(out, (tuple, list)) else (out,):
            total = total + F.mean(o * o)
        return (total, *gradients(total, [p.tensor for p in params]))

    memory = {"parameters": weights, "gradients": weights, "optimizer state": optimizer.state_bytes(sum(p.size for p in params))}
    if others:
        memory["buffers"] = others
    memory["activations"] = forecast(step, specs, current()) if params else 0
    memory["inputs"] = sum(s.nbytes for s in specs)
    if hasattr(current(), "pool"):
        memory["rounding"] = _rounding(memory, len(optimizer.slots()), specs)
    return memory | {"total": sum(memory.values())}


def _rounding(memory: dict[str, int], slots: int, specs: Sequence[Spec]) -> int:
    """[bytes] by which the pool's buffers are larger than what is put into them. Gradients lie in the arena of the activations."""
    state = memory["optimizer state"] // max(1, slots)
    blocks = [memory["parameters"], *[state] * slots, memory["gradients"] + memory["activations"], *(s.nbytes for s in specs)]
    return sum(size_class(n) - n for n in blocks if n)
