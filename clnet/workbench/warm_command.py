"""`clnet warm`: what networks will need is compiled now, so that their first step, first prediction and first batch of
another size start at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.spec import Spec, np_dtype
from ..errors import ClnetError, ConfigError
from ..losses import CrossEntropyLoss
from ..model.files import load
from ..model.network import _Network
from ..model.sequential import Sequential
from ..names import ending
from ..optimizers import AdamW
from ..show import duration, plural
from ..train import data, examples, networks
from ..train.samples import Dataset
from ..train.trainer import Trainer
from . import terminal

if TYPE_CHECKING:
    from ..engine.protocol import Engine

SIZES = (256, 100, 7)  # samples of evaluate and predict: a full batch, and one of each other class of sizes
FILES = (".json", ".safetensors")
NAMES = (*(f"digits-{kind}" for kind in examples.MODELS), *networks.RECIPES)


@dataclass(frozen=True)
class Row:
    """What was compiled for one network. kernels: programs that it takes; compiled: those that were not there."""

    network: str
    compiled: int
    kernels: int
    seconds: float


def main(names: Sequence[str], engine: Engine, *, batch: int, shape: Sequence[int] | None, loss: str,
         json_file: Path | None) -> int:
    """Prepares the networks of these names, or all that come with clnet; says how many programs that took, how long,
    and where they are kept. ConfigError for a name that is none.
    """
    if not engine.compiles:
        raise ConfigError(f"warm: expected an OpenCL device; got {engine.device}, which compiles nothing; "
                          "pass --device, or see `clnet doctor`.")
    works = [(name, work(name, batch, shape, loss)) for name in names or NAMES]
    started, rows = time.perf_counter(), list[Row]()
    for name, prepares in works:
        rows.append(_row(engine, name, prepares))
        print(f"{name}: {_compiled(rows[-1].compiled)} in {duration(rows[-1].seconds)}", file=sys.stderr)
    seconds, compiled = time.perf_counter() - started, sum(r.compiled for r in rows)
    store = engine.programs.store  # type: ignore[attr-defined]
    if json_file is not None:
        where = {"device": str(engine.device), "folder": str(store.folder)}
        terminal.save_json([asdict(r) | where for r in rows], json_file)
    if json_file != terminal.STDOUT:
        terminal.say(f"{_compiled(compiled)} for {plural(len(rows), 'network')} in {duration(seconds)}. "
                     f"{engine.programs.keeps()}")  # type: ignore[attr-defined]
    return 0


def _compiled(count: int) -> str:
    return f"{plural(count, 'program')} compiled"


def _row(engine: Any, name: str, prepares: Callable[[], None]) -> Row:
    before, started = engine.programs.counters(), time.perf_counter()
    prepares()
    after = engine.programs.counters()
    compiled = after.builds - before.builds
    return Row(name, compiled, compiled + after.disk_hits - before.disk_hits, time.perf_counter() - started)


def work(name: str, batch: int, shape: Sequence[int] | None = None, loss: str = "") -> Callable[[], None]:
    """What prepares the network of a name or the model in a file. ConfigError where there is none."""
    if name.endswith(FILES):
        model = _model(Path(name))
        return lambda: _own(model, Path(name).name, batch, shape, loss)
    if name not in NAMES:
        raise ConfigError(f"warm: expected {', '.join(NAMES)}, or a model's {' or '.join(FILES)} file; "
                          f"got {name!r}{ending(name, NAMES)}")
    return lambda: _known(name, batch)


def _known(name: str, batch: int) -> None:
    """A network that comes with clnet, as its recipe trains it: two batches, of which the second is not full."""
    if name in networks.RECIPES:
        recipe = networks.RECIPES[name]
        samples = recipe.samples()
        trainer = Trainer(networks.network(name), recipe.loss, AdamW(lr=recipe.rate, weight_decay=0.05), recipe.metrics)
    else:
        samples, kind = data.load("digits"), name.removeprefix("digits-")
        trainer = Trainer(examples.digits_model(kind), CrossEntropyLoss(),
                          AdamW(lr=examples.RATE[kind], weight_decay=examples.DECAY))
    _train(trainer, samples, batch)


def _train(trainer: Trainer, samples: Dataset, batch: int) -> None:
    """Takes what training, validation and predictions take: for the first size that comes, and for all."""
    for last in dict.fromkeys((batch // 2 + 1, min(SIZES[-1], batch - 1))):
        trainer.fit(samples.take(slice(batch + last)), epochs=1, batch_size=batch, verbose=False)
    for count in SIZES:
        trainer.evaluate(samples.take(slice(count)))
    _predict(trainer, samples.take(slice(SIZES[0])).x)


def _predict(trainer: Trainer, x: Any) -> Any:
    """Predictions of many, of some, of few; and of one first, by a server."""
    def first(count: int) -> Any:
        return tuple(i[:count] for i in x) if isinstance(x, tuple) else x[:count]

    out, *_ = [trainer.predict(first(count)) for count in SIZES]
    Trainer(trainer.model, trainer.loss, trainer.optimizer).predict(first(1))
    return out


# --- a model of one's own
def _model(path: Path) -> Any:
    return Sequential.from_json(path.read_text(encoding="utf-8")) if path.suffix == ".json" else load(path)


def _own(model: Any, name: str, batch: int, shape: Sequence[int] | None, loss: str) -> None:
    known: list[Any] = model.specs_of_inputs() if isinstance(model, _Network) else [None]
    if shape:
        known = [Spec(tuple(shape), "float32")]
    specs = [s for s in known if s is not None]
    if len(specs) < len(known):
        raise ConfigError(f"warm: expected the shape of a sample for {name}, which does not say it; got none; "
                          "pass --shape 1,8,8, say.")
    inputs = tuple(np.zeros((SIZES[0], *s.shape), np_dtype(s.dtype)) for s in specs)
    x = inputs[0] if len(inputs) == 1 else inputs
    trainer = Trainer(model, loss or "mse", "adam")
    out = _predict(trainer, x)
    if loss:
        _learn(trainer, x, out, loss, batch)


def _targets(out: Any) -> Iterator[np.ndarray[Any, Any]]:
    """What a loss may take for labels beside outputs like these: numbers of classes, or values."""
    yield np.zeros((len(out), *out.shape[2:]), np.int32)
    yield np.zeros(out.shape, np.float32)


def _learn(trainer: Trainer, x: Any, out: Any, loss: str, batch: int) -> None:
    failed: ClnetError | None = None
    for target in _targets(out):
        try:
            return _train(trainer, data.from_arrays(x, target), batch)
        except ClnetError as error:
            failed = error
    raise ConfigError(f"warm: expected a loss whose labels are classes or values like the outputs; got {loss!r}, "
                      f"which says: {failed}")
