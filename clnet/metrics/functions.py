"""Metrics as functions on arrays, by name; with this module all metrics are there."""

from .arrays import function
from .base import METRICS
from .classes import F1, MCC, BalancedAccuracy, CohenKappa, Confusion, Dice, IoU, Precision, Recall
from .hits import Accuracy, LabelAccuracy, TopK
from .regression import MAE, MAPE, MSE, R2, RMSE
from .scores import ROCAUC, AveragePrecision, LogLoss, Perplexity

__all__ = [
    "METRICS", "accuracy", "average_precision", "balanced_accuracy", "cohen_kappa", "confusion_matrix", "dice", "f1",
    "iou", "label_accuracy", "log_loss", "mae", "mape", "mcc", "mse", "perplexity", "precision", "r2", "recall", "rmse",
    "roc_auc", "top_k",
]

accuracy, balanced_accuracy, top_k = function(Accuracy), function(BalancedAccuracy), function(TopK)
label_accuracy = function(LabelAccuracy)
precision, recall, f1, iou, dice = map(function, (Precision, Recall, F1, IoU, Dice))
mcc, cohen_kappa, confusion_matrix = function(MCC), function(CohenKappa), function(Confusion)
mae, mse, rmse, mape, r2 = map(function, (MAE, MSE, RMSE, MAPE, R2))
roc_auc, average_precision = function(ROCAUC), function(AveragePrecision)
log_loss, perplexity = function(LogLoss), function(Perplexity)
