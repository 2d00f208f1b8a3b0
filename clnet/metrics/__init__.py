"""Metrics: by name or as objects in a Trainer, computed on the device; and as functions on arrays, f1(y_true, y_pred),
equal to scikit-learn's. Each is imported when somebody asks for it.
"""

from typing import TYPE_CHECKING

from ..names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
    from .base import Kept, Kind, Metric, PerStep, Seen, Statistic, Summed, metric
    from .classes import F1, MCC, BalancedAccuracy, CohenKappa, Confusion, Dice, IoU, Precision, Recall
    from .confusion import ConfusionMatrix
    from .functions import (
        METRICS,
        accuracy,
        average_precision,
        balanced_accuracy,
        cohen_kappa,
        confusion_matrix,
        dice,
        f1,
        iou,
        label_accuracy,
        log_loss,
        mae,
        mape,
        mcc,
        mse,
        perplexity,
        precision,
        r2,
        recall,
        rmse,
        roc_auc,
        top_k,
    )
    from .hits import Accuracy, BinaryAccuracy, LabelAccuracy, TopK
    from .regression import MAE, MAPE, MSE, R2, RMSE
    from .scores import ROCAUC, AveragePrecision, LogLoss, Perplexity

__all__ = _offer(__name__, {
    "base": "Kept Kind Metric PerStep Seen Statistic Summed metric",
    "classes": "F1 MCC BalancedAccuracy CohenKappa Confusion Dice IoU Precision Recall",
    "confusion": "ConfusionMatrix",
    "functions": "METRICS accuracy average_precision balanced_accuracy cohen_kappa confusion_matrix dice f1 iou "
                 "label_accuracy log_loss mae mape mcc mse perplexity precision r2 recall rmse roc_auc top_k",
    "hits": "Accuracy BinaryAccuracy LabelAccuracy TopK",
    "regression": "MAE MAPE MSE R2 RMSE",
    "scores": "ROCAUC AveragePrecision LogLoss Perplexity",
})
