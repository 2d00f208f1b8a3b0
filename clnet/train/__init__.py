"""Training: data, the trainer and its recorded step, callbacks, histories and checkpoints."""

from typing import TYPE_CHECKING

from ..names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
    from ..metrics.functions import METRICS
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
    from .metrics import metric
    from .packed import PackedSequences
    from .samples import Dataset
    from .scaling import LossScale
    from .sequences import Sequences
    from .trainer import Trainer

__all__ = _offer(__name__, {
    "batches": "Batches",
    "callbacks": "EMA CSVLog Callback Checkpoint EarlyStopping GradualUnfreezing JSONLog LambdaCallback "
                 "ModelCheckpoint TensorBoard TimeLimit",
    "finder": "find_lr",
    "history": "History",
    "live": "Live",
    "clnet.metrics.functions": "METRICS",
    "metrics": "metric",
    "packed": "PackedSequences",
    "samples": "Dataset",
    "scaling": "LossScale",
    "sequences": "Sequences",
    "trainer": "Trainer",
}, "data")
