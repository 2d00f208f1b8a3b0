"""Callbacks: what happens beside training. Any object with some of Callback's methods is one."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...names import told

if TYPE_CHECKING:
    from ..trainer import Trainer

EVENTS = ("on_prepare", "on_train_begin", "on_compile", "on_batch_end", "on_logs", "on_epoch_end", "on_train_end")


class Callback:
    """Override what you need. `display` callbacks that fail are disabled with one warning and never stop training.

    on_prepare(trainer)                before the optimizer takes the parameters of the model, which has its sizes
    on_train_begin(trainer)            before the first step
    on_compile(trainer, done, total)   while the kernels of a step are built, of which there are `total`
    on_batch_end(trainer)              after every step was put to the device; nothing is read back for it
    on_logs(trainer, logs)             whenever losses were read: means of the running epoch, "epoch", "samples"
    on_epoch_end(trainer, logs)        the row of the history, validation included
    on_train_end(trainer)              always, also after an error or Ctrl-C
    """

    display = False

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if "__init__" in cls.__dict__:
            cls.__init__ = told(cls.__init__, method=cls.__name__)  # type: ignore[method-assign]

    def on_prepare(self, trainer: Trainer) -> None: ...
    def on_train_begin(self, trainer: Trainer) -> None: ...
    def on_compile(self, trainer: Trainer, done: int, total: int) -> None: ...
    def on_batch_end(self, trainer: Trainer) -> None: ...
    def on_logs(self, trainer: Trainer, logs: dict[str, float]) -> None: ...
    def on_epoch_end(self, trainer: Trainer, logs: dict[str, float]) -> None: ...
    def on_train_end(self, trainer: Trainer) -> None: ...

    def measured(self, trainer: Trainer) -> contextlib.AbstractContextManager[None]:
        """A block in which the model has the weights that are validated and saved, where those are not the ones that
        are trained.
        """
        return contextlib.nullcontext()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it: numbers, strings, None and NumPy arrays."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""

    def restored(self, trainer: Trainer) -> None:
        """Called behind `load_state`, before the values of the checkpoint are put into model and optimizer."""


def several(callbacks: object) -> list[Any]:
    """One callback, or those in a list, as a list. Raises ConfigError for what is none."""
    found = list(callbacks) if isinstance(callbacks, (list, tuple)) else [] if callbacks is None else [callbacks]
    for c in found:
        if isinstance(c, type):
            raise ConfigError(
                f"fit: expected callbacks; got the class {c.__name__}; make one of it: {c.__name__}(...).")
        if not any(callable(getattr(c, event, None)) for event in EVENTS):
            raise ConfigError(
                f"fit: expected callbacks, as EarlyStopping(), or objects with a method {', '.join(EVENTS)}; "
                f"got {c!r}.")
    return found


def tell(callbacks: Sequence[Any], event: str, *arguments: Any) -> None:
    """An event to all that have a method for it, outside a run."""
    for c in callbacks:
        if (method := getattr(c, event, None)) is not None:
            method(*arguments)


class Callbacks:
    """The callbacks of one run, called in order."""

    def __init__(self, callbacks: Sequence[Any], trainer: Trainer) -> None:
        self.all = list(callbacks)
        self._trainer = weakref.ref(trainer)
        self._disabled: set[int] = set()
        # Most callbacks do not look at every batch: those that do are found once, not once a step.
        none = Callback.on_batch_end
        self._each_batch = [c for c in self.all if getattr(type(c), "on_batch_end", none) is not none]

    def batch_end(self) -> None:
        if self._each_batch:
            self.call("on_batch_end", among=self._each_batch)

    def measured(self) -> contextlib.ExitStack:
        """A block in which the model has the weights that are validated and saved."""
        stack = contextlib.ExitStack()
        trainer = self._trainer()
        for c in self.all:
            if isinstance(c, Callback) and trainer is not None:
                stack.enter_context(c.measured(trainer))
        return stack

    def call(self, event: str, *arguments: Any, among: list[Any] | None = None) -> None:
        for c in self.all if among is None else among:
            method = getattr(c, event, None)
            if method is None or id(c) in self._disabled:
                continue
            try:
                method(self._trainer(), *arguments)
            except Exception as error:
                if not getattr(c, "display", False):
                    raise
                self._disabled.add(id(c))
                warnings.warn(f"{type(c).__name__}.{event} failed and is switched off: {type(error).__name__}: {error}",
                              RuntimeWarning, stacklevel=2)
