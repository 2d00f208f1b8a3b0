"""Metrics: by name or as objects in a Trainer, computed on the device; and as functions on arrays, f1(y_true, y_pred),
equal to scikit-learn's.
"""

from ..names import guide as _guide
from .arrays import function as _function
from .base import METRICS, Kept, Kind, Metric, PerStep, Seen, Statistic, Summed, metric
from .classes import (
    F1,
    MCC,
    BalancedAccuracy,
    CohenKappa,
    Confusion,
    Dice,
    IoU,
    Precision,
    Recall,
)
from .confusion import ConfusionMatrix
from .hits import Accuracy, BinaryAccuracy, LabelAccuracy, TopK
from .regression import MAE, MAPE, MSE, R2, RMSE
from .scores import ROCAUC, AveragePrecision, LogLoss, Perplexity

accuracy, balanced_accuracy, top_k = _function(Accuracy), _function(BalancedAccuracy), _function(TopK)
label_accuracy = _function(LabelAccuracy)
precision, recall, f1, iou, dice = map(_function, (Precision, Recall, F1, IoU, Dice))
mcc, cohen_kappa, confusion_matrix = _function(MCC), _function(CohenKappa), _function(Confusion)
mae, mse, rmse, mape, r2 = map(_function, (MAE, MSE, RMSE, MAPE, R2))
roc_auc, average_precision = _function(ROCAUC), _function(AveragePrecision)
log_loss, perplexity = _function(LogLoss), _function(Perplexity)

__all__ = [
    "F1", "MAE", "MAPE", "MCC", "METRICS", "MSE", "R2", "RMSE", "ROCAUC", "Accuracy", "AveragePrecision",
    "BalancedAccuracy", "BinaryAccuracy", "CohenKappa", "Confusion", "ConfusionMatrix", "Dice", "IoU", "Kept", "Kind",
    "LabelAccuracy", "LogLoss", "Metric", "PerStep", "Perplexity", "Precision", "Recall", "Seen", "Statistic", "Summed",
    "TopK", "accuracy", "average_precision", "balanced_accuracy", "cohen_kappa", "confusion_matrix", "dice", "f1",
    "iou", "label_accuracy", "log_loss", "mae", "mape", "mcc", "metric", "mse", "perplexity", "precision", "r2",
    "recall", "rmse", "roc_auc", "top_k",
]

_guide(__name__)
