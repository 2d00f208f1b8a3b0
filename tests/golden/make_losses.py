"""Writes clnet/workbench/evidence/golden/loss/<name>.npz: what other libraries, or formulas written down a second time,
give for the examples of
every loss, in float64.

    python tests/golden/make_losses.py       needs torch and scikit-learn; the tests that read the files do not

A file holds for example k: `k.in.j` (inputs, then trainable parameters), `k.out.0` (value), `k.grad.j` (slopes of the
summed value), `k.mean`, `k.sum` and `k.none` (values by reduction), and `source`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from files import said, write
from sklearn.linear_model import _sgd_fast
from sklearn.metrics import hinge_loss, mean_pinball_loss

from clnet.layers.base import Layer
from clnet.losses import Loss
from clnet.workbench.evidence.registry import load_all, loss_example, make_loss

TORCH = f"torch {torch.__version__.split('+')[0]}"
BY_HAND = "the formula written in PyTorch"


def weights(values: Any) -> Any:
    return None if values is None else torch.tensor(values, dtype=torch.float64)


def reduced(c: Any, v: Any) -> Any:
    return {"mean": v.mean, "sum": v.sum, "none": lambda: v}[c.reduction]()


# --- classes
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
    return F.cross_entropy(p, y, weights(c.weight), ignore_index=c.ignore_index, reduction=c.reduction,
                           label_smoothing=c.label_smoothing)


def categorical(c: Any, p: Any, y: Any) -> Any:
    if c.from_logits:
        return F.cross_entropy(p, y, label_smoothing=c.label_smoothing, reduction=c.reduction)
    q = (1 - c.label_smoothing) * y + c.label_smoothing / y.shape[1]
    return reduced(c, -(q * torch.log(p)).sum(1))


def sparse(c: Any, p: Any, y: Any) -> Any:
    log_p = F.log_softmax(p, 1) if c.from_logits else torch.log(p)
    return F.nll_loss(log_p, y, ignore_index=-100 if c.ignore_index is None else c.ignore_index, reduction=c.reduction)


def focal(c: Any, p: Any, y: Any) -> Any:
    """torchvision's sigmoid_focal_loss, line by line, on the logits of p."""
    z = p if c.from_logits else torch.logit(p)
    s = torch.sigmoid(z)
    value = F.binary_cross_entropy_with_logits(z, y, reduction="none") * (1 - (s * y + (1 - s) * (1 - y))) ** c.gamma
    return reduced(c, value if c.alpha is None else (c.alpha * y + (1 - c.alpha) * (1 - y)) * value)


def weighted(c: Any, p: Any, y: Any) -> Any:
    w = weights(c.weight)
    return F.binary_cross_entropy(p, y, None if w is None else w.expand(y.shape), reduction=c.reduction)


# --- numbers
def pinball(c: Any, p: Any, y: Any) -> Any:
    value = torch.maximum(c.quantile * (y - p), (c.quantile - 1) * (y - p))
    known = mean_pinball_loss(y.numpy().ravel(), p.detach().numpy().ravel(), alpha=c.quantile)
    assert math.isclose(value.mean().item(), known, rel_tol=1e-12)
    return reduced(c, value)


def elastic_net(c: Any, p: Any, y: Any) -> Any:
    penalty = c.alpha * (c.l1_ratio * p.abs().sum() + (1 - c.l1_ratio) / 2 * (p**2).sum())
    return F.mse_loss(p, y, reduction=c.reduction) + (penalty / p.numel() if c.reduction == "none" else penalty)


def depth(c: Any, p: Any, y: Any) -> Any:
    g = (torch.log(p + c.eps) - torch.log(y + c.eps)).flatten(1)
    return reduced(c, (g**2).mean(1) - c.lam * g.mean(1) ** 2)


# --- margins
def signs(y: Any) -> Any:
    return torch.where(y > 0, 1.0, -1.0).double()


def hinge(c: Any, p: Any, y: Any) -> Any:
    value = torch.clamp(1 - signs(y) * p, min=0)
    assert math.isclose(value.mean().item(), hinge_loss(signs(y).numpy().ravel(), p.detach().numpy().ravel()),
                        rel_tol=1e-12)
    return reduced(c, value)


def modified_huber(c: Any, p: Any, y: Any) -> Any:
    z = signs(y) * p
    value = torch.where(z >= -1, torch.clamp(1 - z, min=0) ** 2, -4 * z)
    known = [_sgd_fast.ModifiedHuber().py_loss(float(a), float(b)) for a,
             b in zip(p.detach().ravel(), signs(y).ravel(), strict=True)]
    assert np.allclose(value.detach().numpy().ravel(), known, rtol=1e-12)
    return reduced(c, value)


def capsules(c: Any, p: Any, y: Any) -> Any:
    v = p.norm(dim=2) if p.ndim == 3 else p
    t = F.one_hot(y, v.shape[1]).double() if y.ndim == 1 else y
    return reduced(c, (t * F.relu(c.m_plus - v) ** 2 + c.lam * (1 - t) * F.relu(v - c.m_minus) ** 2).sum(1))


def ordinal(c: Any, p: Any, y: Any, thresholds: Any) -> Any:
    logits = p if p.ndim == 2 else p[:, None] - thresholds
    above = (y[:, None] > torch.arange(c.num_classes - 1)).double()
    return reduced(c, F.binary_cross_entropy_with_logits(logits, above, reduction="none").sum(1))


# --- overlap, distributions
def dice(c: Any, p: Any, y: Any) -> Any:
    axes = (1, 2) if c.per_sample else (0, 1, 2)
    value = 1 - (2 * (p * y).sum(axes) + c.smooth) / (p.sum(axes) + y.sum(axes) + c.smooth)
    return reduced(c, value) if c.per_sample else value


def jaccard(c: Any, p: Any, y: Any) -> Any:
    return reduced(c, 1 - (torch.minimum(p, y).sum((1, 2)) + c.eps) / (torch.maximum(p, y).sum((1, 2)) + c.eps))


def distillation(c: Any, z: Any, v: Any, y: Any = None) -> Any:
    t = c.temperature
    soft = t**2 * F.kl_div(F.log_softmax(z / t, 1), F.softmax(v / t, 1), reduction="none").sum(1)
    return reduced(c, soft if y is None else c.alpha * F.cross_entropy(z, y, reduction="none") + (1 - c.alpha) * soft)


def infidelity(c: Any, p: Any, y: Any) -> Any:
    a, b = (torch.view_as_complex(x.reshape(len(x), -1, 2)) for x in (p, y))
    return reduced(c, 1 - torch.linalg.vecdot(b, a).abs() ** 2 / (a.abs().square().sum(1) * b.abs().square().sum(1)))


# --- embeddings
def contrastive(c: Any, a: Any, b: Any, y: Any) -> Any:
    d = (a - b).flatten(1).norm(dim=1)
    return reduced(c, (y * d**2 + (1 - y) * F.relu(c.margin - d) ** 2) / 2)


def cosine(c: Any, p: Any, y: Any) -> Any:
    a, b = (x.movedim(c.axis, -1).reshape(-1, x.shape[c.axis]) for x in (p, y))
    value = F.cosine_embedding_loss(a, b, torch.ones(len(a)), reduction=c.reduction)
    return value if c.reduction != "none" else value.reshape([n for k, n in enumerate(p.shape) if k != c.axis % p.ndim])


def nce(c: Any, t: Any, n: Any, log_t: Any = None, log_n: Any = None) -> Any:
    if log_t is not None:
        t, n = t - math.log(c.num_noise) - log_t, n - math.log(c.num_noise) - log_n
    loss = F.binary_cross_entropy_with_logits
    return reduced(c, loss(t, torch.ones_like(t), reduction="none")
                   + loss(n, torch.zeros_like(n), reduction="none").sum(1))


# --- images, networks
def network(config: Any) -> Callable[..., Any]:
    """The extractors of the examples."""
    return {"Activation": torch.tanh, "AvgPool2d": lambda x: F.avg_pool2d(x, 2)}[type(config).__name__]


def distance(kind: str, p: Any, y: Any) -> Any:
    return ((p - y) ** 2 if kind == "mse" else (p - y).abs()).flatten(1).mean(1)


def perceptual(c: Any, p: Any, y: Any) -> Any:
    phi = network(c.extractor)
    return reduced(c, (c.layer_weights or (1.0,))[0] * distance(c.distance, phi(p), phi(y)))


def real_esrgan(c: Any, p: Any, y: Any) -> Any:
    value = c.l1_weight * distance("l1", p, y)
    if c.extractor is not None:
        phi = network(c.extractor)
        value = value + c.perceptual_weight * distance("l1", phi(p), phi(y))
    if c.discriminator is not None:
        value = value + c.gan_weight * F.softplus(-network(c.discriminator)(p)).flatten(1).mean(1)
    return reduced(c, value)


def physics(c: Any, _: Any, *given: Any) -> Any:
    *points, weight, bias = given
    x, u, inside, edge, start, u0 = [*points, None, None][:6]

    def net(points: Any) -> Any:
        return torch.tanh(points @ weight.T + bias)

    d = inside.clone().requires_grad_()
    if c.derivatives == "fd":
        shift = [c.h * torch.eye(2).double()[k] for k in range(2)]
        x2, t2 = ((net(d + s) - 2 * net(d) + net(d - s)) / c.h**2 for s in shift)
        residual = t2 - x2
    else:
        (first,) = torch.autograd.grad(net(d).sum(), d, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 0].sum(), d, create_graph=True)
        residual = first[:, 1] - second[:, 0]
    total = c.pde_weight * (residual**2).mean() + c.boundary_weight * (net(edge) ** 2).mean()
    for w, points, values in ((c.data_weight, x, u), (c.initial_weight, start, u0)):
        total = total if points is None else total + w * F.mse_loss(net(points), values)
    return total


# --- sequences
def enumerated(lp: Any, y: Any, blank: int) -> float:
    """−ln of the sum over all C^T ways to fill the frames that read y."""
    total = 0.0
    for path in itertools.product(range(lp.shape[1]), repeat=len(lp)):
        if [c for c, _ in itertools.groupby(path) if c != blank] == list(y):
            total += math.exp(sum(lp[t, c] for t, c in enumerate(path)))
    return -math.log(total)


def recursion(lp: Any, y: Any, blank: int) -> Any:
    """The forward recursion, differentiated by autograd: the gradient of F.ctc_loss is that of logits (e^lp more than
    by log-probabilities).
    """
    states = [blank, *itertools.chain.from_iterable((int(label), blank) for label in y)]
    never = torch.tensor(-math.inf).double()
    a = [lp[0, c] if s < 2 else never for s, c in enumerate(states)]
    for row in lp[1:]:
        before = [never, never, *a]
        skip = [c != blank and s > 1 and c != states[s - 2] for s, c in enumerate(states)]
        reached = [[r for r in before[s + (0 if skip[s] else 1) : s + 3] if r > -math.inf] for s in range(len(states))]
        a = [torch.logsumexp(torch.stack(r), 0) + row[c] if r else never for r, c in zip(reached, states, strict=True)]
    return -torch.logsumexp(torch.stack([r for r in a[-2:] if r > -math.inf]), 0)


def ctc(c: Any, x: Any, y: Any, il: Any, tl: Any) -> Any:
    lp = F.log_softmax(x, 2) if c.from_logits else x
    value = F.ctc_loss(lp, y, il, tl, c.blank, "none", c.zero_infinity)
    own, at = [], 0
    for n in range(len(tl)):
        labels = y[n, : tl[n]] if y.ndim == 2 else y[at : at + tl[n]]
        at += int(tl[n])
        own.append(recursion(lp[: il[n], n], labels, c.blank))
        if lp.shape[2] ** int(il[n]) <= 1 << 17:
            known = enumerated(lp[: il[n], n].detach().numpy(), labels.tolist(), c.blank)
            assert math.isclose(value[n].item(), known, rel_tol=1e-10), (value[n], known)
    assert torch.allclose(torch.stack(own), value, rtol=1e-12)
    values = torch.stack(own) if c.reduction != "mean" else torch.stack(own) / torch.clamp(tl, min=1)
    assert torch.allclose(reduced(c, values), F.ctc_loss(lp, y, il, tl, c.blank, c.reduction, c.zero_infinity),
                          rtol=1e-12)
    return reduced(c, values)


def torch_loss(name: str, **more: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda c, p, y: getattr(F, name)(p, y, reduction=c.reduction, **{k: f(c) for k, f in more.items()})


def simple(formula: Callable[..., Any]) -> Callable[..., Any]:
    return lambda c, p, y: reduced(c, formula(c, p, y))


ORACLES: dict[str, tuple[str, Callable[..., Any]]] = {
    "MSELoss": (TORCH, torch_loss("mse_loss")), "MAELoss": (TORCH, torch_loss("l1_loss")),
    "RMSELoss": (BY_HAND, lambda c, p, y: F.mse_loss(p, y).sqrt()),
    "HuberLoss": (TORCH, torch_loss("huber_loss", delta=lambda c: c.delta)),
    "LogCoshLoss": (BY_HAND, simple(lambda c, p, y: torch.log(torch.cosh(p - y)))),
    "QuantileLoss": ("scikit-learn", pinball),
    "CharbonnierLoss": (BY_HAND, simple(lambda c, p, y: ((p - y) ** 2 + c.eps**2).sqrt())),
    "MeanBiasErrorLoss": (BY_HAND, simple(lambda c, p, y: y - p)),
    "PoissonLoss": (TORCH, torch_loss("poisson_nll_loss", log_input=lambda c: c.log_input, eps=lambda c: c.eps)),
    "ScaleInvariantDepthLoss": (BY_HAND, depth), "ElasticNetLoss": (BY_HAND, elastic_net),
    "BCELoss": (TORCH, bce), "WeightedCrossEntropyLoss": (TORCH, weighted),
    "FocalLoss": ("torchvision's formula", focal),
    "CrossEntropyLoss": (TORCH, cross_entropy), "RotationPredictionLoss": (TORCH, cross_entropy),
    "CategoricalCrossEntropyLoss": (TORCH, categorical), "SparseCategoricalCrossEntropyLoss": (TORCH, sparse),
    "HingeLoss": ("scikit-learn", hinge),
    "SquaredHingeLoss": (BY_HAND, simple(lambda c, p, y: torch.clamp(1 - signs(y) * p, min=0) ** 2)),
    "ExponentialLoss": (BY_HAND, simple(lambda c, p, y: torch.exp(-signs(y) * p))),
    "ModifiedHuberLoss": ("scikit-learn", modified_huber),
    "WassersteinLoss": (BY_HAND, simple(lambda c, p, y: -signs(y) * p)),
    "MarginLoss": (BY_HAND, capsules), "OrdinalRegressionLoss": (TORCH, ordinal), "DiceLoss": (BY_HAND, dice),
    "JaccardLoss": (BY_HAND, jaccard),
    "KLDivLoss": (TORCH,
                  simple(lambda c, p, y: F.kl_div(p if c.log_input else torch.log(p), y, reduction="none").sum(1))),
    "DistillationLoss": (TORCH, distillation), "QuantumLoss": (BY_HAND, infidelity),
    "ContrastiveLoss": (BY_HAND, contrastive),
    "CosineSimilarityLoss": (TORCH, cosine),
    "TripletLoss": (TORCH,
                    lambda c, a, p, n: F.triplet_margin_loss(a, p, n, c.margin, eps=c.eps, reduction=c.reduction)),
    "NoiseContrastiveEstimationLoss": (TORCH, nce), "PerceptualLoss": (BY_HAND, perceptual),
    "RealESRGANLoss": (BY_HAND, real_esrgan),
    "PhysicsInformedLoss": ("torch.autograd", physics), "CTCLoss": (f"{TORCH} and enumeration", ctc),
}


def as_torch(x: Any) -> Any:
    if x is None or isinstance(x, Layer):
        return x
    return torch.tensor(x).double() if x.dtype.kind == "f" else torch.tensor(x).long()


def values(cls: type[Loss], k: int) -> dict[str, Any]:
    loss, inputs = make_loss(cls, k)
    example = loss_example(loss, inputs)
    free = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in example.inputs]
    n = sum(not isinstance(x, Layer) for x in inputs[: loss.differentiated])
    found: dict[str, Any] = {f"{k}.in.{j}": x for j, x in enumerate(example.inputs)}
    own = loss.reduction
    for loss.reduction in ("mean", "sum", "none", own):
        value = ORACLES[cls.__name__][1](loss, *free[:n], *map(as_torch, inputs[n:]), *free[n:])
        found[f"{k}.{loss.reduction}"] = value.detach().numpy()
    slopes = torch.autograd.grad(value.sum(), free, allow_unused=True)
    found |= {f"{k}.grad.{j}": (torch.zeros_like(x) if g is None else g).numpy() for j,
              (x, g) in enumerate(zip(free, slopes, strict=True))}
    return {**found, f"{k}.out.0": value.detach().numpy()}


if __name__ == "__main__":
    load_all()
    changed = []
    for name, (source, _) in ORACLES.items():
        found: dict[str, Any] = {"source": np.array(source)}
        for k in range(len(Loss.registry[name].examples)):
            found |= values(Loss.registry[name], k)
        changed += [name] if write("loss", name, found) else []
    print(said("loss", changed))
