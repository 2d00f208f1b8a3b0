"""Where a NaN comes from: the batch once more, value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.autodiff import gradients
from ..core.recording import eager
from ..core.spec import is_float
from ..core.state import capture
from ..core.tensor import Tensor, tensor, walk
from ..engine import current
from ..model.files import layers
from .samples import Batch
from .step import mode

if TYPE_CHECKING:
    from ..layers.base import Layer
    from .trainer import Trainer


def diagnose(trainer: Trainer, batch: Batch) -> str:
    """A sentence that names the first op of the step whose result is not finite though its inputs are, and its layer.
    """
    inputs, y = batch
    model = trainer.model
    with eager(False), capture() as before, mode(model, True), trainer.steps.formulas.recording():
        try:
            leaves = [tensor(x, name=f"input {k}") for k, x in enumerate(inputs)]
            _, loss, _ = trainer.steps.formulas.outcome(leaves, tensor(y, name="the targets"))
            found = gradients(loss, [p.tensor for p in trainer.optimizer.parameters])
            marks = _marks(model)
            order = walk([loss, *found])
            kinds = _kinds(order)
            root = next((t for t in (loss, *found) if kinds[id(t)]), None)
            if root is None:
                return "the update of the optimizer gives NaN or infinity"
            return _sentence(_origin(root, kinds), order, marks, loss, kinds)
        finally:
            for v, old in before.items():
                v._tensor = old
            for layer in layers(model).values():
                vars(layer).pop("_called", None)


def _marks(model: Layer) -> list[tuple[int, str]]:
    """(id of its output, its name) of every layer without children that was called."""
    found = []
    for path, layer in layers(model).items():
        called = getattr(layer, "_called", None)
        if called is not None and (not layer.children() or not path):
            outputs = called[1] if isinstance(called[1], (tuple, list)) else (called[1],)
            name = f"{path or 'the model'} ({type(layer).__name__})"
            found += [(id(o), name) for o in outputs if isinstance(o, Tensor)]
    return found


def _kinds(order: list[Tensor]) -> dict[int, str]:
    """"nan", "inf" or "" of every tensor, computed one at a time."""
    engine = current()
    found = {}
    for t in order:
        if not is_float(t.dtype) or not t.size:
            found[id(t)] = ""
            continue
        engine.run([t])
        value = np.asarray(engine.values([t])[0])
        found[id(t)] = "nan" if np.isnan(value).any() else "inf" if np.isinf(value).any() else ""
    return found


def _origin(t: Tensor, kinds: dict[int, str]) -> Tensor:
    """Back from a bad value along bad inputs, NaN before infinity, to one whose inputs are finite.

    An infinity that somebody wrote down (the mask of an attention) is no fault: then the op that made NaN of it is.
    """
    while True:
        bad = sorted((i for i in t.inputs if kinds[id(i)]), key=lambda i: kinds[id(i)] != "nan")
        if kinds[id(t)] == "nan":
            bad = [i for i in bad if kinds[id(i)] == "nan" or (i.op is not None and i.op.name != "full")]
        if not bad:
            return t
        t = bad[0]


def _sentence(t: Tensor, order: list[Tensor], marks: list[tuple[int, str]], loss: Tensor, kinds: dict[int, str]) -> str:
    place = {id(n): k for k, n in enumerate(order)}
    what = f"{kinds[id(t)]} in a tensor of shape {t.shape}"
    if t.op is None:
        return f"{t.name or 'a constant'} holds {what}"
    if place[id(t)] > place[id(loss)]:
        return f"the gradient gives {what}, by {t.op.name}, from finite values"
    outputs = sorted((place[i], name) for i, name in marks if i in place and place[i] >= place[id(t)])
    return f"{outputs[0][1] if outputs else 'the loss'} gives {what}, by {t.op.name}, from finite values"
