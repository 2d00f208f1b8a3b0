"""Checkpoints: everything that makes the rest of a run come out the same to the last bit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CheckpointError
from ..model import files as model_io
from .callbacks.base import tell

if TYPE_CHECKING:
    from .trainer import Trainer

FORMAT = "clnet checkpoint 1"
# What a run must have in common with the one that it resumes: other data or batches would be another run.
SAME = ("seed", "batch_size", "tokens", "drop_last", "bucket", "samples", "metrics", "precision", "augment")


def save(trainer: Trainer, path: str | Path) -> None:
    """Model, optimizer, random counters, position, history and callbacks' memory. Raises CheckpointError."""
    loop, optimizer = trainer.loop, trainer.optimizer
    loop.read()  # so that the losses of the steps behind us are in the history
    arrays = {f"{part}.{n}": a for part, thing in _trained(trainer).items() for n, a in model_io.values(thing).items()}
    for k, memory in enumerate(optimizer.memories):
        arrays |= {f"optimizer.{k}.{n}": np.asarray(v.numpy(), np.dtype(v.dtype)) for n, v in memory.items()}
    for k, g in enumerate(trainer.steps.formulas.generators()):
        arrays |= {f"random.{k}.key": g.key, f"random.{k}.counter": np.asarray(g.counter.numpy(), np.uint32)}
    arrays |= {f"state.{n}": np.asarray(v.numpy(), np.dtype(v.dtype))
               for n, v in model_io.states(trainer.model).items()}
    if (scaling := trainer.steps.scaling) is not None:
        arrays |= {f"scale.{n}": np.asarray(v.numpy(), np.dtype(v.dtype)) for n, v in scaling.variables().items()}
    arrays |= {f"history.{n}": a for n, a in trainer.history.arrays().items()}
    rows = loop.books.rows
    arrays["epoch.rows"] = np.array(rows, np.float64).reshape(len(rows), len(trainer.steps.columns) + 1)
    arrays |= {f"epoch.held.{k}": a for k, a in enumerate(loop.books.arrays())}
    remembered, more = _callbacks(loop.callbacks.all)
    meta = {"format": FORMAT, "position": json.dumps(loop.position()), "optimizer": type(optimizer).__name__,
            "t": str(optimizer.t), "counters": json.dumps(optimizer.counters()),
            "columns": json.dumps(trainer.history.columns()), "callbacks": json.dumps(remembered)}
    model_io.write(path, arrays | more, meta)


def load(trainer: Trainer, path: str | Path) -> None:
    """Puts a run of `fit` where the checkpoint was written. Raises CheckpointError where it is of another
    model, optimizer or data.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise CheckpointError(f"fit(resume={path!r}): expected the file that a callback Checkpoint(path), or "
                              f"save_checkpoint(path), wrote; got a {type(path).__name__}.")
    who = f"fit(resume={Path(path).name})"
    arrays, meta = model_io.read(path)
    if meta.get("format") != FORMAT:
        raise CheckpointError(
            f"{who}: expected a checkpoint ({FORMAT}); got {meta.get('format')!r}; a saved model is for model.load.")
    try:
        _load(trainer, arrays, meta, who)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{who}: expected a whole checkpoint; got one without {error}.") from None


def _load(trainer: Trainer, arrays: dict[str, Any], meta: dict[str, str], who: str) -> None:
    loop, optimizer = trainer.loop, trainer.optimizer
    position, here = json.loads(meta["position"]), loop.position()
    for name in SAME:
        if position.get(name) != here.get(name):
            raise CheckpointError(
                f"{who}: expected {name} {position.get(name)!r} as in the run that is resumed; got {here.get(name)!r}.")
    if meta["optimizer"] != type(optimizer).__name__:
        raise CheckpointError(
            f"{who}: expected the optimizer of the run that is resumed, {meta['optimizer']}; "
            f"got {type(optimizer).__name__}.")
    _remind(trainer, arrays, json.loads(meta["callbacks"]))
    for part, thing in _trained(trainer).items():
        model_io.set_values(thing, _part(arrays, f"{part}."), who)
    state = {f"{k}.{n}": v for k, m in enumerate(optimizer.memories) for n, v in m.items()}
    model_io.check(state, _part(arrays, "optimizer."), who)
    for name, variable in state.items():
        model_io.put(variable, arrays[f"optimizer.{name}"])
    for k, g in enumerate(trainer.steps.formulas.generators()):
        g.key = arrays[f"random.{k}.key"].copy()
        model_io.put(g.counter, arrays[f"random.{k}.counter"])
    if (scaling := trainer.steps.scaling) is not None:
        model_io.check(scaling.variables(), _part(arrays, "scale."), who)
        for name, variable in scaling.variables().items():
            model_io.put(variable, arrays[f"scale.{name}"])
    model_io.set_states(trainer.model, _part(arrays, "state."))
    optimizer.t = int(meta["t"])
    optimizer.load_counters(json.loads(meta.get("counters", "{}")))
    trainer.history.load(json.loads(meta["columns"]), _part(arrays, "history."))
    loop.epoch, loop.batch = int(position["epoch"]), int(position["batch"])
    if loop.batch and arrays["epoch.rows"].shape[1:] != (len(trainer.steps.columns) + 1,):
        raise CheckpointError(
            f"{who}: expected a checkpoint at the end of an epoch, or of this version; "
            "got one that keeps other numbers of its metrics.")
    held = loop.books.arrays()  # a file of an epoch's end has none to keep
    loop.books.load(arrays["epoch.rows"], [arrays.get(f"epoch.held.{k}", a) for k, a in enumerate(held)])


def _remind(trainer: Trainer, arrays: dict[str, Any], remembered: list[dict[str, Any]]) -> None:
    """Gives callbacks what they remembered."""
    for k, (c, one) in enumerate(zip(trainer.loop.callbacks.all, remembered, strict=False)):
        if one["type"] == type(c).__name__:
            tell([c], "load_state", {**one["state"], **_part(arrays, f"callback.{k}.")})
            tell([c], "restored", trainer)


def _trained(trainer: Trainer) -> dict[str, Any]:
    """What holds parameters: the model, and a loss that has some of its own."""
    own: dict[str, Any] = getattr(trainer.loss, "variables", dict)()
    return {"model": trainer.model, **({"loss": trainer.loss} if own else {})}


def _part(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _callbacks(callbacks: list[Any]) -> tuple[list[dict[str, Any]], dict[str, np.ndarray[Any, Any]]]:
    """What callbacks remember: JSON values, and arrays under names."""
    rows: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for k, c in enumerate(callbacks):
        state: dict[str, Any] = getattr(c, "state", dict)()
        arrays |= {f"callback.{k}.{n}": v for n, v in state.items() if isinstance(v, np.ndarray)}
        rows.append({"type": type(c).__name__,
                     "state": {n: v for n, v in state.items() if not isinstance(v, np.ndarray)}})
    return rows, arrays
