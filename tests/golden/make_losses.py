"""Writes loss/<name>.npz: what PyTorch gives for the examples of every loss, in float64.

    python tests/golden/make_losses.py       needs torch; the tests that read the files do not

A file holds for example k: `k.in.0` (prediction), `k.target`, `k.out.0` (value), `k.grad.0` (slope of the summed value), and `source`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from clnet.losses import Loss
from clnet.workbench.registry import draw

HERE = Path(__file__).resolve().parent / "loss"


def weights(values: Any) -> Any:
    return None if values is None else torch.tensor(values, dtype=torch.float64)


def bce(c: Any, p: Any, y: Any) -> Any:
    w, v = weights(c.weight), weights(c.pos_weight)
    if c.from_logits:
        return F.binary_cross_entropy_with_logits(p, y, w, reduction=c.reduction, pos_weight=v)
    w = torch.ones(()).double() if w is None else w
    factor = w if v is None else w * (v * y + 1 - y) if set(np.unique(y.numpy())) <= {0.0, 1.0} else None
    if factor is not None:
        return F.binary_cross_entropy(p, y, factor.expand(y.shape), reduction=c.reduction)
    # Between the labels PyTorch has no such weight: the logits of p say the same.
    return F.binary_cross_entropy_with_logits(torch.logit(p), y, w.expand(y.shape), reduction=c.reduction, pos_weight=v)


def cross_entropy(c: Any, p: Any, y: Any) -> Any:
    y = y if y.is_floating_point() else y.long()
    return F.cross_entropy(p, y, weights(c.weight), ignore_index=c.ignore_index, reduction=c.reduction, label_smoothing=c.label_smoothing)


def categorical(c: Any, p: Any, y: Any) -> Any:
    z = p if c.from_logits else torch.log(p)
    if c.from_logits:
        return F.cross_entropy(z, y, label_smoothing=c.label_smoothing)
    q = (1 - c.label_smoothing) * y + c.label_smoothing / y.shape[1]
    return -(q * z).sum(1).mean()


ORACLES: dict[str, Callable[..., Any]] = {
    "MSELoss": lambda c, p, y: F.mse_loss(p, y, reduction=c.reduction), "MAELoss": lambda c, p, y: F.l1_loss(p, y, reduction=c.reduction),
    "HuberLoss": lambda c, p, y: F.huber_loss(p, y, reduction=c.reduction, delta=c.delta),
    "BCELoss": bce, "CrossEntropyLoss": cross_entropy, "CategoricalCrossEntropyLoss": categorical,
}


def values(cls: type[Loss], k: int) -> dict[str, Any]:
    fields, *wanted = cls.examples[k]
    prediction, target = draw(wanted, f"{cls.__name__}.{k}")
    p = torch.tensor(prediction, dtype=torch.float64, requires_grad=True)
    y = torch.tensor(target).double() if target.dtype.kind == "f" else torch.tensor(target)
    value = ORACLES[cls.__name__](cls(**fields), p, y)
    (slope,) = torch.autograd.grad(value.sum(), [p])
    return {f"{k}.in.0": prediction, f"{k}.target": target, f"{k}.out.0": value.detach().numpy(), f"{k}.grad.0": slope.numpy()}


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name in ORACLES:
        found: dict[str, Any] = {"source": np.array(f"torch {torch.__version__.split('+')[0]}")}
        for k in range(len(Loss.registry[name].examples)):
            found |= values(Loss.registry[name], k)
        np.savez_compressed(HERE / f"{name}.npz", **found)
    print(f"{len(list(HERE.glob('*.npz')))} files, {sum(f.stat().st_size for f in HERE.glob('*.npz')) // 1024} kB")
