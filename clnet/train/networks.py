"""Networks of the literature, small enough to learn the bundled digits (or this package's own documentation)
in minutes on a CPU.

`network("resnet20")` builds one, `train_network("resnet20")` trains it by its recipe: data, loss, epochs, rate,
and what it must reach.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import init
from .. import ops as F
from ..core.tensor import Tensor
from ..engine import current, on
from ..errors import ConfigError, DataError
from ..losses import CrossEntropyLoss, MSELoss
from ..models import bilstm, densenet, gpt, mobilenet, resnet, unet, vit
from ..optimizers import AdamW, CosineAnnealingLR
from . import data
from .history import History
from .samples import Dataset
from .trainer import Trainer

if TYPE_CHECKING:
    from ..engine.protocol import Where

IMAGE = (1, 8, 8)
NOISE = 0.3  # standard deviation of what a denoiser removes, of pixels in [0, 1]
LETTERS = "\n" + "".join(map(chr, range(32, 127)))  # everything else in a text is "?"
CONTEXT = 64  # letters that a language model sees
BATCH = 64


# --- what they learn
def noisy_digits(seed: int = 0) -> Dataset:
    """Digits with noise N(0, NOISE²) as x, the clean ones as y."""
    clean = data.load("digits").x
    noise = np.random.Generator(np.random.PCG64(seed)).normal(0, NOISE, clean.shape)
    return data.from_arrays((clean + noise).astype(np.float32), clean, title="noisy digits")


def documentation() -> str:
    """The text of this package's documentation: README and CONTRIBUTING where there are any, and all docstrings."""
    package = importlib.import_module(__package__.partition(".")[0])
    root = Path(str(package.__file__)).parents[1]
    found = [p.read_text(encoding="utf-8") for p in (root / "README.md", root / "CONTRIBUTING.md") if p.is_file()]
    for info in sorted(pkgutil.walk_packages(package.__path__, f"{package.__name__}."), key=lambda m: m.name):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            own = [v for _, v in sorted(vars(module).items())
                   if getattr(v, "__module__", None) == info.name and (inspect.isroutine(v) or inspect.isclass(v))]
            found += [inspect.cleandoc(d) for d in (v.__doc__ for v in (module, *own)) if d]
    return "\n".join(found)


def encode(text: str) -> np.ndarray[Any, Any]:
    """The numbers of a text's letters."""
    known = {c: k for k, c in enumerate(LETTERS)}
    return np.array([known.get(c, known["?"]) for c in text], np.int32)


def text_windows(text: str, context: int = CONTEXT) -> Dataset:
    """Pieces of a text one after the other: x (N, context) letters, y the letter after each.
    Raises DataError for a text that is too short.
    """
    letters = encode(text)
    count = (len(letters) - 1) // context
    if count < 1:
        raise DataError(f"text_windows: expected a text of more than {context} letters; got {len(letters)}.")
    cut = count * context
    return data.from_arrays(letters[:cut].reshape(count, context), letters[1 : cut + 1].reshape(count, context),
                            title="text")


def next_letter_loss(logits: Tensor, target: Tensor) -> Any:
    """−mean ln softmax(logits)[target], classes on the last axis [nats per letter]"""
    return F.mean(F.cross_entropy(logits, target))


def next_letter_accuracy(logits: Tensor, target: Tensor) -> Any:
    """mean(argmax(logits) = target), classes on the last axis"""
    return F.mean(F.equal(F.argmax(logits, -1), target).astype("float32"))


# --- recipes
@dataclass(frozen=True)
class Recipe:
    """How a network is built and trained: AdamW with a rate that a cosine takes to 0.
    `reaches`: metric on the test samples and its bound.

    tiny   arguments of a network for quick tests
    """

    build: Callable[..., Any]
    reaches: tuple[str, float]
    epochs: int
    rate: float = 3e-3
    samples: Callable[[], Dataset] = lambda: data.load("digits")
    loss: Callable[..., Any] = field(default_factory=CrossEntropyLoss)
    metrics: Sequence[str | Callable[..., Any]] = ("accuracy",)
    shape: tuple[int, ...] = IMAGE
    dtype: str = "float32"
    tiny: dict[str, int] = field(default_factory=dict, hash=False)


RECIPES = {
    "resnet20": Recipe(resnet, ("accuracy", 0.97), 8, tiny=dict(blocks=1, width=4)),
    "mobilenet": Recipe(mobilenet, ("accuracy", 0.97), 10, tiny=dict(width=4, blocks=1, expansion=2)),
    "densenet": Recipe(densenet, ("accuracy", 0.97), 10, tiny=dict(growth=2, layers=2)),
    "unet": Recipe(unet, ("loss", 0.024), 10, samples=noisy_digits, loss=MSELoss(), metrics=(),
                   tiny=dict(width=4, depth=1)),
    "vit": Recipe(vit, ("accuracy", 0.93), 40, 2e-3, tiny=dict(width=8, blocks=1, heads=2)),
    "gpt": Recipe(gpt, ("loss", 2.2), 30, samples=lambda: text_windows(documentation()), loss=next_letter_loss,
                  metrics=(next_letter_accuracy,), shape=(CONTEXT,), dtype="int32",
                  tiny=dict(width=8, blocks=1, heads=2)),
    "bilstm": Recipe(bilstm, ("accuracy", 0.95), 15, 1e-2, tiny=dict(hidden=4)),
}


def recipe(name: str) -> Recipe:
    """The recipe of a name. Raises ConfigError."""
    if name not in RECIPES:
        raise ConfigError(f"network: expected one of {', '.join(RECIPES)}; got {name!r}.")
    return RECIPES[name]


def network(name: str, seed: int = 0, **sizes: Any) -> Any:
    """The network of a name, built, with other `sizes` than its own where they are given. Raises ConfigError."""
    found = recipe(name)
    init.seed(seed)
    return found.build(**sizes).build(found.shape, dtype=found.dtype)


@dataclass
class Trained:
    """What came of a training: metrics on the test samples, seconds, where it ran.
    `passed`: whether the recipe's bound was reached.
    """

    name: str
    device: str
    found: dict[str, float]
    reaches: tuple[str, float]
    seconds: float
    history: History = field(repr=False)
    trainer: Any = field(repr=False)

    @property
    def passed(self) -> bool:
        metric, wanted = self.reaches
        return self.found[metric] >= wanted if metric == "accuracy" else self.found[metric] <= wanted


def train_network(name: str, epochs: int | None = None, device: Where = None, seed: int = 0,
                  sizes: dict[str, Any] | None = None, verbose: bool = False, **fit: Any) -> Trained:
    """Trains a network by its recipe: 80 % of the samples, chosen by a fixed seed; the rest is the test.
    Other arguments go to `fit`.
    """
    found = recipe(name)
    with on(device if device is not None else current()) as engine:
        train, test = found.samples().split(0.2, 0)
        epochs = found.epochs if epochs is None else epochs
        rate = CosineAnnealingLR(max(epochs, 1) * -(-len(train) // BATCH), lr=found.rate)
        trainer = Trainer(network(name, seed, **(sizes or {})), found.loss, AdamW(lr=rate, weight_decay=0.05),
                          found.metrics)
        started = time.perf_counter()
        history = trainer.fit(train, epochs, BATCH, seed=seed, verbose=verbose, **fit)
        return Trained(name, str(engine), trainer.evaluate(test), found.reaches, time.perf_counter() - started, history,
                       trainer)
