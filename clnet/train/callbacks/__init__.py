"""Callbacks: what happens beside training. Any object with some of Callback's methods is one."""

from ...names import guide as _guide
from .average import EMA
from .base import EVENTS, Callback, Callbacks, several
from .files import Checkpoint, CSVLog, JSONLog, TensorBoard
from .small import LambdaCallback, TimeLimit
from .watching import EarlyStopping, ModelCheckpoint

__all__ = ["EMA", "EVENTS", "CSVLog", "Callback", "Callbacks", "Checkpoint", "EarlyStopping", "JSONLog",
           "LambdaCallback", "ModelCheckpoint", "TensorBoard", "TimeLimit", "several"]

_guide(__name__)
