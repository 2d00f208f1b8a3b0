"""Training: data, the trainer and its recorded step, callbacks, histories and checkpoints."""

from ..names import guide as _guide
from . import data
from .batches import Batches
from .callbacks import (
    EMA,
    Callback,
    Checkpoint,
    CSVLog,
    EarlyStopping,
    GradualUnfreezing,
    JSONLog,
    LambdaCallback,
    ModelCheckpoint,
    TensorBoard,
    TimeLimit,
)
from .finder import find_lr
from .history import History
from .live import Live
from .metrics import METRICS, metric
from .packed import PackedSequences
from .samples import Dataset
from .scaling import LossScale
from .sequences import Sequences
from .trainer import Trainer

__all__ = ["EMA", "METRICS", "Batches", "CSVLog", "Callback", "Checkpoint", "Dataset", "EarlyStopping",
           "GradualUnfreezing", "History", "JSONLog", "LambdaCallback", "Live", "LossScale", "ModelCheckpoint",
           "PackedSequences", "Sequences", "TensorBoard", "TimeLimit", "Trainer", "data", "find_lr", "metric"]

_guide(__name__)
