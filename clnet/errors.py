"""The errors of clnet: `Who: expected ... got ...; way out.`"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ClnetError(Exception):
    """Every error that clnet raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What IPython and Jupyter show: the user's lines and the sentence."""
        from .tracebacks import render

        return render(self)


class ConfigError(ClnetError, ValueError):
    """A field, option or environment variable has a value that it cannot have."""


class ShapeError(ClnetError, ValueError):
    """The shapes of two things do not fit."""


class DTypeError(ClnetError, ValueError):
    """The element type is not one that the operation takes."""


class UnknownNameError(ClnetError, AttributeError):
    """A name that is not there; the message says what it is called here, and may be made only when it
    is read: most who ask do not.
    """

    def __init__(self, text: str | Callable[[], str]) -> None:
        super().__init__(name=None, obj=None)  # else Python appends a guess of its own
        self.text = text

    def __str__(self) -> str:
        return self.text if isinstance(self.text, str) else self.text()

    def __reduce__(self) -> Any:
        return type(self), (str(self),)


class UseError(ClnetError, TypeError):
    """Something is used as what it is not: a tensor assigned to, a scalar counted, many numbers taken for one."""


class IndexingError(ClnetError, IndexError):
    """An index lies outside, or is nothing that can index."""


class ColumnError(ClnetError, KeyError):
    """A table has no column of that name."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class DataError(ClnetError, ValueError):
    """A dataset, batch or file of data is not what was promised."""


class KernelBuildError(ClnetError):
    """The OpenCL compiler refused a program, or died of it."""


class OutOfDeviceMemory(ClnetError):
    """The device, or the budget that the pool keeps for it, has no room."""


class DeviceLost(ClnetError):
    """The device, its driver or its context is gone; a new process is needed."""


class ForkedEngineError(ClnetError):
    """An OpenCL context was inherited through fork; it does not work there."""


class NoDeviceError(ClnetError):
    """No device answers to what was asked for."""


class CheckpointError(ClnetError):
    """A checkpoint is damaged, incomplete or of another model."""


class NonFiniteError(ClnetError):
    """A value became NaN or infinite where that was to be watched."""
