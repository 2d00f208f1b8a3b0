"""What is inside a model: outputs of its layers, gradients of its parameters, units that never answer, filters,
embeddings, and the examples that it is most wrong about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.autodiff import gradients
from ..core.recording import eager
from ..core.state import Parameter, capture
from ..core.tensor import Tensor, as_tensor, tensor
from ..errors import ConfigError, DataError
from ..layers.base import Layer, no_tape
from ..model.files import layers
from ..names import ending
from ..train.step import mode
from ..train.trainer import Trainer

Array = np.ndarray[Any, Any]


def outputs_of(model: Layer, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """(output, outputs of the layers by path in the order of their calls): recorded, in the mode that the model is in.
    """
    output = model(x)
    heard = {}
    for path, layer in layers(model).items():
        called = vars(layer).pop("_called", None)
        if called is not None and isinstance(called[1], Tensor):
            heard[path] = called[1]
    return as_tensor(output), heard


def activations(model: Layer | Trainer, x: object, names: str | list[str] | None = None) -> dict[str, Array]:
    """Outputs of the layers by path ("layers.0"), in evaluation mode; `names`: of these alone

    Raises ConfigError for a layer that there is not.
    """
    network = model.model if isinstance(model, Trainer) else model
    with eager(False), capture(), mode(network, False):
        _, heard = outputs_of(network, tensor(np.asarray(x)))
        wanted = [n for n in heard if n] if names is None else [names] if isinstance(names, str) else names
        for n in wanted:
            if n not in heard:
                raise ConfigError(f"activations: expected layers {', '.join(filter(None, heard))}; got {n!r}"
                                  f"{ending(n, heard)}")
        return {n: np.array(heard[n].numpy()) for n in wanted}


def parameter_gradients(model: Layer | Trainer, x: object, y: object,
                        loss: Callable[..., Any] | None = None) -> dict[str, Array]:
    """∂ loss / ∂ parameter by path, of a batch, in evaluation mode; `loss` is that of the Trainer where one is given

    Raises ConfigError without a loss.
    """
    network, how = (model.model, loss or model.loss) if isinstance(model, Trainer) else (model, loss)
    if how is None:
        raise ConfigError("parameter_gradients: expected a Trainer, or a model and loss=; got no loss.")
    with eager(False), no_tape(), capture(), mode(network, False):
        value = how(network(tensor(np.asarray(x))), tensor(np.asarray(y)))
        params = {n: p for n, p in network.variables().items() if isinstance(p, Parameter)}
        found = gradients(value, [p.tensor for p in params.values()])
        return {n: np.array(g.numpy()) for n, g in zip(params, found, strict=True)}


def dead_units(model: Layer | Trainer, x: object, threshold: float = 0.0) -> dict[str, Array]:
    """By layer without layers of its own, which units (axis 1 of the output) have |output| ≤ threshold at all places of
    all samples: bool (units,). Layers that have none are left out
    """
    network = model.model if isinstance(model, Trainer) else model
    known, found = layers(network), {}
    for n, a in activations(network, x).items():
        if a.ndim > 1 and not known[n].children():
            dead = np.abs(a).max(tuple(k for k in range(a.ndim) if k != 1)) <= threshold
            if dead.any():
                found[n] = dead
    return found


def filters(model: Layer | Trainer, layer: str | None = None) -> Array:
    """The weights of a convolution (out, in, h, w), each filter brought to [0, 1]; `layer`: its path; None: the first

    Raises ConfigError where there is none.
    """
    network = model.model if isinstance(model, Trainer) else model
    found = {n.rpartition(".")[0]: v for n, v in network.variables().items()
             if isinstance(v, Parameter) and len(v.shape) == 4}
    if not found or (layer is not None and layer not in found):
        known = f"one of {', '.join(found)}{ending(layer or '', found)}" if found else "and the model has none."
        raise ConfigError(f"filters(layer={layer!r}): expected a layer with weights (out, in, h, w), {known}")
    w = np.asarray(found[layer or next(iter(found))].numpy(), np.float32)
    low, high = w.min((1, 2, 3), keepdims=True), w.max((1, 2, 3), keepdims=True)
    return np.divide(w - low, high - low, out=np.full_like(w, 0.5), where=high > low)


def embeddings(model: Layer | Trainer, x: object, layer: str | None = None) -> Array:
    """Outputs of a layer as vectors (N, D); `layer`: its path; None: the last but one of the model's own layers"""
    network = model.model if isinstance(model, Trainer) else model
    if layer is None:
        own = [n for n in activations(network, np.asarray(x)[:1]) if "." in n and not layers(network)[n].children()]
        if len(own) < 2:
            raise ConfigError("embeddings: expected a model of several layers; name one with layer=.")
        layer = own[-2]
    found = activations(network, x, layer)[layer]
    return found.reshape(len(found), -1)


class Components(NamedTuple):
    """`points` (N, k), `shares` (k,) of the variance, `axes` (k, D), `mean` (D,): x ≈ mean + points · axes."""

    points: Array
    shares: Array
    axes: Array
    mean: Array


def pca(x: object, k: int = 2) -> Components:
    """The k directions along which vectors (N, D) vary most, by the singular values of x − mean; each axis with its
    largest element positive

    Raises DataError for other shapes, and k above what there is.
    """
    a = np.asarray(x, np.float64)
    if a.ndim != 2 or not 1 <= k <= min(a.shape):
        raise DataError(f"pca(k={k!r}): expected vectors (N, D) and k up to the smaller of both; got {a.shape}.")
    mean = a.mean(0)
    u, s, axes = np.linalg.svd(a - mean, full_matrices=False)
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])
    whole = (s**2).sum()
    return Components((u * s * signs)[:, :k], s[:k] ** 2 / whole if whole else np.zeros(k), (axes * signs[:, None])[:k],
                      mean)


class Wrong(NamedTuple):
    """`samples`: numbers of samples, the most wrong first; their `labels`, what was `predicted`, and the probabilities
    of both.
    """

    samples: Array
    labels: Array
    predicted: Array
    of_label: Array
    of_predicted: Array


def most_wrong(trainer: Trainer, x: object, y: object, count: int = 9) -> Wrong:
    """The samples that are taken for another class, those first whose label was given the least probability

    y   class numbers (N,), or 0 and 1 where the model has one output. Raises DataError, ConfigError.
    """
    labels = np.asarray(y).reshape(-1).astype(np.int64)
    p = np.asarray(trainer.predict_proba(x), np.float64)
    p = np.stack([1 - p.reshape(-1), p.reshape(-1)], 1) if p.ndim == 1 or p.shape[1] == 1 else p
    if p.ndim != 2 or len(p) != len(labels):
        raise DataError(f"most_wrong: expected one label each for probabilities (N, C); got {p.shape} and "
                        f"{np.asarray(y).shape}.")
    best, mine = p.argmax(1), p[np.arange(len(p)), labels]
    wrong = np.flatnonzero(best != labels)
    order = wrong[np.argsort(mine[wrong], kind="stable")][:count]
    return Wrong(order, labels[order], best[order], mine[order], p[order, best[order]])
