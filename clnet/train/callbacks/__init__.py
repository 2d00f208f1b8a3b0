"""Callbacks: what happens beside training. Any object with some of Callback's methods is one."""

from ...names import guide as _guide
from .average import EMA
from .base import EVENTS, Callback, Callbacks, several, tell
from .files import Checkpoint, CSVLog, JSONLog, TensorBoard
from .small import LambdaCallback, TimeLimit
from .unfreezing import GradualUnfreezing
from .watching import EarlyStopping, ModelCheckpoint

__all__ = ["EMA", "EVENTS", "CSVLog", "Callback", "Callbacks", "Checkpoint", "EarlyStopping", "GradualUnfreezing",
           "JSONLog", "LambdaCallback", "ModelCheckpoint", "TensorBoard", "TimeLimit", "several", "tell"]

_guide(__name__)
