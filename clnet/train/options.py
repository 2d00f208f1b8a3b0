"""What people write in place of a loss, an optimizer, data and the arguments of `fit`, as the thing meant;
or the sentence that says what to write.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..called import CALLED
from ..errors import ConfigError, DataError
from ..habits import AS_IT_IS, FIT
from ..losses.base import Loss
from ..names import ending, nearest
from ..optimizers.base import Optimizer
from ..optimizers.closure import ClosureOptimizer
from .samples import Samples, from_arrays
from .sequences import Sequences
from .stream import as_samples


# --- by name or as a class
def loss_of(value: object) -> Callable[..., Any]:
    """A loss given as one, by name, as a class or as a function. Raises ConfigError."""
    made = _made(value, Loss, "loss")
    if not callable(made):
        raise ConfigError(
            "Trainer(loss=...): expected a loss, its name or a function (output, target) -> scalar; got "
            f"{_slipped(made)}")
    return made


def optimizer_of(value: object) -> Optimizer:
    """An optimizer given as one, by name or as a class. Raises ConfigError."""
    made = _made(value, Optimizer, "optimizer")
    if not isinstance(made, Optimizer):
        raise ConfigError(
            f"Trainer(optimizer=...): expected an optimizer, as Adam(lr=1e-3), or its name; got {made!r}.")
    return made


def _slipped(made: object) -> str:
    """How the sentence about what is no loss ends."""
    if isinstance(made, Optimizer):
        return f"{made!r}; the loss comes second, the optimizer third: Trainer(model, loss, optimizer)."
    if isinstance(made, (list, tuple, dict)):
        return (f"{made!r}; of several outputs write one function: lambda out, y: CrossEntropyLoss()(out[0], "
                'y[:, 0].astype("int32")) + MSELoss()(out[1], y[:, 1:]), with the targets as columns of one array.')
    return f"{made!r}."


def _made(value: object, kind: type[Any], what: str) -> Any:
    """An instance of what is named, with its usual fields; anything else as it is."""
    if isinstance(value, str):
        value = _named(value, kind, what)
    return value() if isinstance(value, type) and issubclass(value, kind) else value


def _named(name: str, kind: type[Any], what: str) -> Any:
    if found := kind.registry.likely(_plain, name):
        return found
    known = {_plain(n): c for c in kind.registry.values() for n in (*c.aliases, c.spec_name) if n}
    if found := known.get(_plain(name)):
        return found
    package, _, ours = next((t for k, t in CALLED.items() if _plain(k) == _plain(name)), "").partition(".")
    if package == {"loss": "losses"}.get(what, "optimizers"):
        raise ConfigError(f"Trainer({what}={name!r}): clnet calls it {package}.{ours}; pass that.")
    names = [*kind.registry, *(a for c in kind.registry.values() for a in c.aliases)]
    there = "losses" if what == "loss" else "optimizers"
    end = ending(name, names) if nearest(name, names) else f"; see clnet.{there}."
    raise ConfigError(
        f"Trainer({what}={name!r}): expected the name of {'a loss' if what == 'loss' else 'an optimizer'}{end}")


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum()).removesuffix("loss")


# --- data
def apart(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, tuple[Any, ...]]:
    """(x or data, y or None, the other positional arguments) of (data, …) and of (x, y, …);
    `x=`, `X=` and `y=` are taken too.
    """
    for name in ("x", "X", "data"):
        if name in named:
            arguments = (named.pop(name), *arguments)
    if not arguments:
        raise DataError("data: expected a Dataset or a pair (x, y) of arrays; got nothing; pass x and y.")
    data, *rest = arguments
    if "y" in named:
        return data, named.pop("y"), tuple(rest)
    if rest and not isinstance(rest[0], (int, float, np.number)):
        return data, rest[0], tuple(rest[1:])
    return data, None, tuple(rest)


def joined(data: object, y: object) -> Samples:
    """The data set of x and y, or of data that has both. Raises DataError."""
    if y is None:
        return as_samples(data)
    if isinstance(data, Samples):
        raise DataError(
            f"data: expected a {type(data).__name__} alone, which has its targets, or x and y; "
            f"got a {type(data).__name__} and {type(y).__name__}.")
    return from_arrays(data, y)


def held_out(data: Samples, validation: object, seed: int) -> tuple[Samples, Samples | None]:
    """(training data, validation data): of its own, or a share or number of the samples,
    drawn by the seed. Raises DataError.
    """
    if validation is None:
        return data, None
    if isinstance(validation, (int, float, np.number)) and not isinstance(validation, Samples):
        try:
            return data.split(validation, seed)  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(str(error).replace(f"{data.title}.split(test=", "fit(validation=", 1)) from None
    try:
        return data, as_samples(validation).prepared_by(data.preparation)
    except DataError as error:
        raise DataError(f"validation: {error}") from None


def pieces_of(accumulate: object, data: Samples, optimizer: Optimizer) -> int:
    """In how many pieces a batch is computed: accumulate. Raises ConfigError."""
    if not isinstance(accumulate, (int, np.integer)) or isinstance(accumulate, bool) or accumulate < 1:
        raise ConfigError(f"fit(accumulate={accumulate!r}): expected a whole number of at least 1.")
    if accumulate > 1 and (isinstance(data, Sequences) or isinstance(optimizer, ClosureOptimizer)):
        got = type(optimizer if isinstance(optimizer, ClosureOptimizer) else data).__name__
        raise ConfigError(f"fit(accumulate={accumulate}): expected samples of one shape, and an optimizer that takes "
                          f"one gradient a step; got {got}; leave it out, or make batches smaller.")
    return int(accumulate)


# --- the arguments of fit
def options(method: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a method by their names, other libraries' names for the same ones too. Raises ConfigError."""
    signature, who = inspect.signature(method), method.__name__.strip("_")
    known = [n for n in signature.parameters if n not in ("self", "trainer", "data")]
    found: dict[str, Any] = {}
    for name, value in named.items():
        ours = FIT.get(name, "")
        if ours and name not in known and (value is None or AS_IT_IS.get(name) == value):
            continue
        if name not in known and not ours.startswith("="):
            unknown = f"{who}: expected arguments data, y, {', '.join(known)}; got {name!r}{ending(name, known)}"
            raise ConfigError(f"{who}({name}=...): {ours}" if ours else unknown)
        ours = name if name in known else ours[1:]
        if ours in found:
            raise ConfigError(f"{who}: expected {ours} once; got it twice, also as {name}.")
        found[ours] = value
    try:
        return signature.bind_partial(*arguments, **found).arguments
    except TypeError as error:
        raise ConfigError(
            f"{who}: expected arguments data, y, {', '.join(known)}; got a call that does not fit ({error}).") from None
