"""Callbacks: what happens beside training. Any object with some of Callback's methods is one."""

from typing import TYPE_CHECKING

from ...names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
    from .average import EMA
    from .base import Callback
    from .files import Checkpoint, CSVLog, JSONLog, TensorBoard
    from .small import LambdaCallback, TimeLimit
    from .unfreezing import GradualUnfreezing
    from .watching import EarlyStopping, ModelCheckpoint

__all__ = _offer(__name__, {
    "average": "EMA",
    "base": "Callback",
    "files": "CSVLog Checkpoint JSONLog TensorBoard",
    "small": "LambdaCallback TimeLimit",
    "unfreezing": "GradualUnfreezing",
    "watching": "EarlyStopping ModelCheckpoint",
})
