"""Training: data, the trainer and its recorded step, callbacks, histories and checkpoints."""

from ..names import guide as _guide
from . import data
from .callbacks import Callback, Checkpoint, CSVLog, EarlyStopping, JSONLog, ModelCheckpoint
from .data import Batches, Dataset
from .history import History
from .metrics import METRICS, metric
from .scaling import LossScale
from .trainer import Trainer

__all__ = ["METRICS", "Batches", "CSVLog", "Callback", "Checkpoint", "Dataset", "EarlyStopping", "History", "JSONLog",
           "LossScale", "ModelCheckpoint", "Trainer", "data", "metric"]

_guide(__name__)
