"""What a prediction is to a loss: numbers, scores or probabilities of classes, probabilities or logits of yes.

A loss says it once, by its `reads`; its default metrics, its range and what `predict_proba` does follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops as F
from ..core.tensor import Tensor, as_tensor
from ..errors import ConfigError

VALUES = "values"  # numbers, as near to the target's as can be
CLASS_LOGITS = "logits of classes"  # (N, C, ...), before the softmax
CLASS_PROBABILITIES = "probabilities of classes"  # (N, C, ...), behind it
CLASS_SCORES = "scores of classes"  # (N, C, ...), the largest wins
RANKS = "logits of ranks"  # (N, K - 1): whether the rank is above each
LOGITS = "logits"  # each of yes or no, before the sigmoid
PROBABILITIES = "probabilities"  # each of yes or no, behind it
MARGINS = "margins"  # each of yes or no, by its sign
CLASSES = (CLASS_LOGITS, CLASS_PROBABILITIES, CLASS_SCORES, RANKS)
YES_NO = (LOGITS, PROBABILITIES, MARGINS)
BEFORE = {PROBABILITIES: LOGITS, CLASS_PROBABILITIES: CLASS_LOGITS}  # with from_logits=True
# what makes a prediction of these
ACTIVATION = {PROBABILITIES: ("sigmoid", 'Activation("sigmoid")'), CLASS_PROBABILITIES: ("softmax", "Softmax()")}
UNSAID = "what it does not say (`reads`)"
ROUNDED = 1e-3  # how far outside [0, 1] a probability may be that was rounded


def reading(loss: object) -> str:
    """What a prediction is to a loss, or to a function that has the attribute `reads`; "" where it does not say."""
    reads: str = getattr(loss, "reads", "")
    return BEFORE.get(reads, reads) if getattr(loss, "from_logits", False) else reads


def named(loss: object) -> str:
    """What a loss is called: its class, or a function's name."""
    return getattr(loss, "__name__", type(loss).__name__)


def decided(loss: object, prediction: Tensor) -> Tensor:
    """The numbers of the classes (N, ...), or whether yes, element by element.
    Raises ConfigError where nothing is decided.
    """
    reads, prediction = reading(loss), _scores(loss, prediction)
    if reads == RANKS:
        return F.sum((prediction > 0.0).astype("int32"), 1)
    if reads in CLASSES:
        return F.argmax(prediction, 1).astype("int32")
    if reads in YES_NO:
        return prediction > (0.5 if reads == PROBABILITIES else 0.0)
    raise ConfigError(f"{named(loss)}: expected a loss between classes; got one on {reads or UNSAID}.")


def probabilities(loss: object, prediction: Tensor) -> Tensor:
    """Of the classes along axis 1, or of yes. Raises ConfigError where a prediction says nothing of probabilities."""
    reads, prediction = reading(loss), _scores(loss, prediction)
    if reads == CLASS_LOGITS:
        return F.softmax(prediction, 1)
    if reads == LOGITS:
        return F.sigmoid(prediction)
    if reads in (PROBABILITIES, CLASS_PROBABILITIES):
        return prediction
    raise ConfigError(f"{named(loss)}: expected a loss on logits or probabilities; got one on {reads or UNSAID}.")


def _scores(loss: object, prediction: Tensor) -> Tensor:
    own: Callable[[Tensor], Tensor] | None = getattr(loss, "scores", None)
    found = as_tensor(prediction)
    return found if own is None else own(found)


def out_of_range(loss: object, prediction: np.ndarray[Any, Any]) -> str:
    """A sentence, where the loss reads probabilities and numbers in the prediction are none,
    also with their rounding; else "".
    """
    reads = reading(loss)
    if reads not in ACTIVATION or not prediction.size:
        return ""
    least, most = float(prediction.min()), float(prediction.max())
    if not (least < -ROUNDED or most > 1.0 + ROUNDED):
        return ""
    what, layer = ACTIVATION[reads]
    who = type(loss).__name__
    logits = "" if getattr(loss, "from_logits", None) is None else f", or say {who}(from_logits=True)"
    return (f"{who}: expected probabilities in [0, 1]; got values from {least:.6g} to {most:.6g}; take the {what} "
            f"first, with {layer} as the model's last layer{logits}.")


def probable(p: Tensor) -> Tensor:
    """p, and NaN where it is no probability: such a loss has no value, which a trainer notices."""
    return F.where((p >= -ROUNDED) & (p <= 1.0 + ROUNDED), p, math.nan)


def slip(prediction: tuple[int, ...], target: tuple[int, ...], labels: bool = False) -> str:
    """How a sentence goes on about two shapes that do not fit: the likely slip and its way out;
    "" where there is no likely one.

    labels   whether the target should be class numbers, one axis less than the prediction
    """
    column = len(target) > 1 and target[-1] == 1
    if len(prediction) == 3 and (target == prediction[:1] or (target == (prediction[0], prediction[2]) and not labels)):
        return ("; the model gives every step of a sequence: keep the last with return_sequences=False "
                "(LSTM, GRU, RNN), or with SequenceLast() behind other layers")
    if len(prediction) > 3 and target == prediction[:1]:
        return "; the model gives a value for every place of an image: put Flatten() before its last Dense"
    if labels and len(prediction) == 3 and target == prediction[:2]:
        return "; the model has its classes last: turn them with a layer Lambda(lambda x: x.permute(0, 2, 1))"
    if labels and column and target[:-1] == (prediction[0], *prediction[2:]):
        return f"; pass the labels without their last axis: {'y.ravel()' if len(target) == 2 else 'y[..., 0]'}"
    if labels:
        one = prediction == target or (prediction[1:] in ((), (1,)) and target[:1] == prediction[:1])
        return "; one output for yes and no is for BCELoss(from_logits=True)" if one else ""
    if target == prediction[:-1] and prediction[-1:] == (1,):
        return f"; give the target the same last axis: {'y[:, None]' if len(target) == 1 else 'y[..., None]'}"
    if column and target[:-1] == prediction:
        return f"; pass the target without its last axis: {'y.ravel()' if len(target) == 2 else 'y[..., 0]'}"
    if len(target) == 1 and len(prediction) == 2 and target == prediction[:1]:
        return f"; class numbers are for CrossEntropyLoss; one column a class is np.eye({prediction[1]})[y]"
    if len(prediction) > 2 and target == (prediction[0], *prediction[2:]):
        each = f"np.moveaxis(np.eye({prediction[1]})[y], -1, 1)"
        return ("; give the target the channel's axis: y[:, None]" if prediction[1] == 1 else
                f"; class numbers are for CrossEntropyLoss; one channel a class is {each}")
    return "; reshape one of them"
