"""`clnet train` on data of one's own: the loss, the size of the output and the network follow from a table's target, or
from the folders that pictures lie in; what was inferred is said.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import init
from ..errors import ConfigError, DataError
from ..layers import Dense
from ..layers.base import Layer
from ..model.files import load
from ..model.sequential import Sequential
from ..names import ending
from ..optimizers import AdamW, CosineAnnealingLR
from ..show import count, duration, plural
from ..train import data
from ..train.batches import SIZE
from ..train.examples import MODELS
from ..train.networks import gpt, next_letter_accuracy, next_letter_loss
from ..train.preparing import beside
from ..train.readers.targets import Amounts
from ..train.samples import Dataset
from ..train.trainer import Trainer
from . import terminal

EPOCHS, RATE, DECAY = 20, 3e-3, 0.01
TEXTS = (".txt", ".md")  # without a target: what a language model learns from
OPTION = re.compile(  # arguments in messages
    r"\b(target|task|encoding|na_values|size)=('[^']*'|\"[^\"]*\"|\[[^\[\]]*'\]|\(height, width\))?")
KINDS = ("mlp", "cnn")  # networks for data of any size


@dataclass(frozen=True)
class Asked:
    """What the command line says. `model` is the name of a network or a model's file; None: what fits the data."""

    data: Path
    model: str | Path | None = None
    target: str | None = None
    task: Any = None
    size: tuple[int, ...] | None = None
    na_values: tuple[str, ...] = ()
    encoding: str | None = None
    validation: float = 0.2
    epochs: int = EPOCHS
    lr: float = RATE
    batch_size: int = SIZE
    seed: int = 0
    precision: str | None = None
    augment: tuple[str, ...] | None = None


def samples(asked: Asked) -> Dataset:
    """The data set that is meant. Raises DataError, ConfigError, which say options as they are typed."""
    try:
        return _samples(asked)
    except DataError as error:
        raise DataError(_in_words(error)) from None


def _samples(asked: Asked) -> Dataset:
    folder = asked.data.is_dir()
    for name, value, right in (("--target", asked.target, not folder), ("--task", asked.task, not folder),
                               ("--na-values", asked.na_values, not folder),
                               ("--encoding", asked.encoding, not folder), ("--size", asked.size, folder)):
        if value and not right:
            raise ConfigError(f"train: expected {name} with {'tables' if folder else 'folders of pictures'} alone; "
                              f"got {asked.data.name}, {'a folder' if folder else 'a file'}.")
    if folder:
        size = asked.size if asked.size is None or len(asked.size) == 2 else asked.size[0]
        found = data.read_images(asked.data, size)
        if not found.labelled:
            raise DataError(f"train: expected a folder for each class in {asked.data.name}; got pictures alone.")
        if len(found.classes) < 2:
            raise DataError(f"train: expected a folder for each of at least two classes in {asked.data.name}; got "
                            f"{found.classes[0]!r} alone.")
        return found
    more: dict[str, Any] = {} if asked.encoding is None else {"encoding": asked.encoding}
    if asked.data.suffix in TEXTS and asked.target is None:
        return data.read_text(asked.data, **more)
    more |= {} if asked.task is None else {"task": asked.task}
    more |= {"na_values": asked.na_values} if asked.na_values else {}
    return data.read(asked.data, asked.target, **more)


def _in_words(message: object) -> str:
    return OPTION.sub(_as_option, str(message))


def _as_option(argument: re.Match[str]) -> str:
    """na_values=['x', 'y'] of Python as it is typed in a shell: --na-values x --na-values y."""
    if argument[2] == "(height, width)":
        return "--size HEIGHT,WIDTH"
    name, value = f"--{argument[1].replace('_', '-')}", argument[2]
    values = ast.literal_eval(value or "''")
    return " ".join(f"{name} {shlex.quote(v)}" for v in values) if isinstance(values, list) else (
        f"{name} {shlex.quote(values)}" if values else name)


def outputs(d: Dataset) -> int:
    """How many numbers a model gives for a sample, or for a step of it: one a class or token, or one a column of the
    target.
    """
    if isinstance(d.preparation, data.Tokeniser):
        return d.preparation.size
    if d.y.dtype.kind in "iu":
        return len(d.classes) or int(d.y.max()) + 1
    return int(d.y.shape[1]) if d.y.ndim > 1 else 1


def loss(d: Dataset) -> Any:
    """Of classes and of the token after each cross entropy, of numbers the mean squared error."""
    if isinstance(d.preparation, data.Tokeniser):
        return next_letter_loss
    return "cross_entropy" if d.y.dtype.kind in "iu" else "mse"


def network(asked: Asked, d: Dataset) -> tuple[str, Any]:
    """(what it is called, the network) for the data. Raises ConfigError."""
    init.seed(asked.seed)
    images, text = not isinstance(d.x, tuple) and d.x.ndim == 4, isinstance(d.preparation, data.Tokeniser)
    if text and asked.model is None:
        return "a transformer of two blocks", gpt(letters=outputs(d), context=d.x.shape[1])
    chosen = asked.model if asked.model is not None else "cnn" if images else "mlp"
    if isinstance(chosen, Path):
        model: Any = (Sequential.from_json(chosen.read_text(encoding="utf-8")) if chosen.suffix == ".json"
                      else load(chosen))
        return chosen.name, model
    if text or chosen not in KINDS or (chosen == "cnn" and not images):
        fit = "no --model" if text else "mlp or cnn" if images else "mlp"
        raise ConfigError(f"train: expected {fit}, or a model's file, for "
                          f"{d.title}; got {chosen!r}{ending(chosen, KINDS) if chosen not in MODELS else '.'}")
    layers: list[Layer] = MODELS[chosen]()
    return chosen, Sequential([*layers[:-1], Dense(out_features=outputs(d))])


def fits(name: str, trainer: Trainer, d: Dataset) -> None:
    """ConfigError where a model of one's own gives another number of outputs than the data asks for."""
    given = trainer.predict(d.take(slice(0, 1)))
    axis = -1 if isinstance(d.preparation, data.Tokeniser) or given[0].ndim < 1 else 1
    if not isinstance(given, tuple) and given.shape[axis] != outputs(d):
        what = (f"one for each class ({', '.join(d.classes[:6])})" if d.classes
                else "one for each token, or number of the target")
        raise ConfigError(f"train: expected {outputs(d)} outputs of {name} for {d.title}, {what}; "
                          f"got {given.shape[1]}; change out_features of its last layer.")


def lines(d: Dataset, train: Dataset, test: Dataset | None, name: str, trainer: Trainer) -> list[str]:
    """What was inferred."""
    held = f", {count(len(test))} held out" if test is not None else ""
    x = d.x if isinstance(d.x, tuple) else (d.x,)
    prepared = train.preparation
    found = [f"data: {d.title}, {plural(len(d), 'sample')}: {count(len(train))} to train with{held}",
             f"input: {', '.join(' x '.join(map(str, a.shape[1:])) or 'codes' for a in x)}"]
    if isinstance(prepared, data.TablePreparation):
        found[1] += f" features of {plural(len(prepared.columns), 'column')}"
        found += [f"target: {prepared.target}"]
    elif isinstance(prepared, data.Tokeniser):
        found += [f"target: the next of {prepared.size} {prepared.tokens}"]
    elif d.classes:
        found += [f"target: {len(d.classes)} classes, {', '.join(d.classes[:8])}{', …' if len(d.classes) > 8 else ''}"]
    size = count(sum(p.size for p in trainer.model.parameters()))
    return [*found, f"loss: {getattr(loss(d), '__name__', loss(d))}",
            f"network: {name}, {plural(outputs(d), 'output')}, {size} parameters"]


def main(asked: Asked, save: Path | None, callbacks: list[Any], draw: Callable[[Any, Path], bool],
         plot: Path | None) -> int:
    """Trains; says what was inferred and reached. Exit status; 130 where Ctrl-C ended it."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        d = samples(asked)
    print("".join(f"note: {_in_words(w.message)}\n" for w in said), end="")
    whole = not asked.validation
    train, test = (d, None) if whole else d.split(asked.validation, asked.seed, stratify=loss(d) == "cross_entropy")
    name, model = network(asked, d)
    rate = CosineAnnealingLR(asked.epochs * -(-len(train) // asked.batch_size), lr=asked.lr)
    metrics: Any = (next_letter_accuracy,) if loss(d) is next_letter_loss else "auto"
    trainer = Trainer(model, loss(d), AdamW(lr=rate, weight_decay=DECAY), metrics, asked.precision)
    fits(name, trainer, train)
    print("\n".join(lines(d, train, test, name, trainer)), flush=True)
    if asked.augment:
        print(f"augment: {', '.join(asked.augment)}", flush=True)
    history = trainer.fit(train, asked.epochs, asked.batch_size, test, seed=asked.seed, callbacks=callbacks,
                          augment=asked.augment)
    terminal.say(reached(trainer, test or train, test is not None, time.perf_counter() - started))
    if save is not None and history.steps:
        more = f"; what prepared the data: {beside(save).name}" if trainer.preparation is not None else ""
        print(f"saved: {save.absolute()} (`clnet.load` reads it){more}")
    if plot is not None:
        print(f"plot: {plot.absolute()}" if draw(history, plot) else "plot: nothing to draw, no epoch was finished")
    if history.interrupted:
        print("clnet: interrupted", file=sys.stderr)
    return 130 if history.interrupted else 0


def reached(trainer: Trainer, d: Dataset, held: bool, seconds: float) -> str:
    """The metrics on what was held out, in the target's units too."""
    history = trainer.history
    who = "interrupted: " * history.interrupted
    if not history.steps:
        return f"{who}no step was finished in {duration(seconds)}"
    found = ", ".join(f"{n} {v:.4f}" for n, v in trainer.evaluate(d).items())
    target = getattr(d.preparation, "target", None)
    if isinstance(target, Amounts) and len(target.names) == 1 and target.scale[0] != 1.0:
        error = (trainer.predict(d)[:, 0] - (d.y[:, 0] * target.scale[0] + target.mean[0])).astype(float)
        found += f"; RMSE in units of {target.names[0]}: {(error ** 2).mean() ** 0.5:.4g}"
    on = f"{plural(len(d), 'sample')} held out" if held else "what was trained with"
    return f"{who}on {on}: {found}; {plural(len(history), 'epoch', 'epochs')}, {duration(seconds)} in all"
