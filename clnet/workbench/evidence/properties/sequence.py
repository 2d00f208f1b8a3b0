"""Layers over time: what must not count does not, walks in both directions mirror one another, attention weighs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....core.tensor import tensor
from ....layers.base import Layer
from ..registry import Subject, draw
from ..results import Result
from . import equal, holds

TOLERANCE = 1e-5
LENGTHS = np.array([4, 2, 1], np.int32)
VALID = np.arange(4) < LENGTHS[:, None]
Array = np.ndarray[Any, Any]


def _sequences(features: int = 3) -> tuple[Array, Array]:
    """Two batches that agree in the steps that count."""
    a, b = draw([(3, 4, features)] * 2, "sequences")
    return a, np.where(VALID[..., None], a, b)


def _recurrent(subject: Subject, **more: Any) -> Any:
    if subject.name == "Bidirectional":
        return subject.thing(layer={"type": "GRU", "hidden_size": 4}, **more)
    return subject.thing(hidden_size=4, num_layers=2, **more)


def _alike(layer: Layer, like: Layer, x: Array) -> Layer:
    """The layer, built for x, with the parameters of another of its kind."""
    layer(x)
    for mine, other in zip(layer.parameters(), like.parameters(), strict=True):
        mine.assign(other.tensor)
    return layer


@holds("layer", "RNN", "LSTM", "GRU", "Bidirectional")
def steps_beyond_the_length_do_not_count(subject: Subject) -> Iterator[Result]:
    """Each sequence gives what it gives alone and cut to its length; beyond it are zeros, and no gradient."""
    layer, (x, other) = _recurrent(subject), _sequences()
    y = layer(x, lengths=LENGTHS).numpy()
    slope = layer.backward(np.ones(y.shape, np.float32)).numpy()
    yield equal(y[~VALID], 0.0, note="outputs beyond the length are not 0")
    yield equal(slope[~VALID], 0.0, note="gradients beyond the length are not 0")
    yield equal(layer(other, LENGTHS).numpy(), y, note="steps beyond the length count")
    yield equal(layer(x, VALID).numpy(), y, TOLERANCE, "lengths and their mask differ")
    for k, n in enumerate(LENGTHS):
        yield equal(layer(x[k : k + 1, :n]).numpy()[0], y[k, :n], TOLERANCE, f"sequence {k} alone gives something else")


@holds("layer", "RNN", "LSTM", "GRU")
def the_last_output_is_that_of_the_last_step(subject: Subject) -> Iterator[Result]:
    layer, (x, _) = _recurrent(subject), _sequences()
    y = layer(x, LENGTHS).numpy()[np.arange(3), LENGTHS - 1]
    layer = _alike(_recurrent(subject, return_sequences=False), layer, x)
    yield equal(layer(x, LENGTHS).numpy(), y, note="the last output is another step's")
    start = tensor(np.zeros((2, 3, 4), np.float32))
    masked = layer(x, *([start] * (2 if subject.name == "LSTM" else 1)), np.zeros((3, 4), bool)).numpy()
    yield equal(masked, 0.0, note="without a step that counts the state moves")


@holds("layer", "Bidirectional")
def both_walks_mirror_one_another(subject: Subject) -> Iterator[Result]:
    """With equal parameters, the time-reversed input gives the time-reversed output with its halves swapped; sum, mul
    and ave are of the halves.
    """
    (x, _), halves = _sequences(), {"type": "RNN", "hidden_size": 2}
    layer = subject.thing(layer=halves)
    layer(x)
    for mine, other in zip(layer.layer.parameters(), layer.mirror.parameters(), strict=True):
        other.assign(mine.tensor)
    y, back = layer(x).numpy(), layer(x[:, ::-1].copy()).numpy()
    yield equal(back[:, ::-1], np.concatenate([y[..., 2:], y[..., :2]], -1), TOLERANCE,
                "the walks are not mirror images")
    a, b = y[..., :2], y[..., 2:]
    for merge, want in (("sum", a + b), ("mul", a * b), ("ave", (a + b) / 2)):
        merged = _alike(subject.thing(layer=halves, merge=merge), layer, x)
        yield equal(merged(x).numpy(), want, TOLERANCE, f"merge={merge!r} is something else")


@holds("layer", "Masking")
def masked_steps_are_zero(subject: Subject) -> Iterator[Result]:
    (x,) = draw([(2, 3, 4)], "steps")
    x[0, 1], x[1, 2] = 7.0, 7.0
    x[1, 0, :3] = 7.0
    layer = subject.thing(mask_value=7.0)
    y = layer(x).numpy()
    kept = np.array([[1, 0, 1], [1, 1, 0]], bool)
    yield equal(y, np.where(kept[..., None], x, 0.0), note="other steps are masked")
    yield equal(layer.backward(np.ones(x.shape, np.float32)).numpy(), np.broadcast_to(kept[..., None], x.shape),
                note="gradients are masked otherwise")
    yield equal(layer.mask.numpy(), kept, note="the mask is another")


def _attention(subject: Subject) -> tuple[Layer, int]:
    """A layer for x of 4 features, and the features of its context."""
    fields = {"Attention": dict(input_size=4, attention_size=5),
              "CrossAttention": dict(query_dim=4, context_dim=3, num_heads=2),
              "MultiHeadAttention": dict(embed_dim=4, num_heads=2),
              "GroupedQueryAttention": dict(embed_dim=4, num_heads=4, num_kv_heads=2)}
    return subject.thing(**fields[subject.name]), 3 if subject.name == "CrossAttention" else 4


@holds("layer", "Attention", "CrossAttention", "MultiHeadAttention", "GroupedQueryAttention")
def weights_add_up_to_one(subject: Subject) -> Iterator[Result]:
    """A context of equal rows gives what one row gives; masked rows and the order of the others do not matter."""
    layer, features = _attention(subject)
    (x, row, context) = draw([(2, 3, 4), (2, 1, features), (2, 5, features)], "attention")
    pair = {"MultiHeadAttention": 2, "GroupedQueryAttention": 2}.get(subject.name, 1)  # keys and values, or one context

    def attend(c: Array, mask: Array | None = None) -> Array:
        found: Array = layer(x, *([c] * pair), *([] if mask is None else [mask])).numpy()
        return found

    def map_of(value: Array) -> Array:
        """The value through W_v (repeated for the query heads that share it) and W_o."""
        p = {n: v.numpy() for n, v in layer.variables().items()}
        v = value @ p["w_v"].T + p.get("b_v", 0.0)
        heads = p["w_o"].shape[1] // p["w_v"].shape[0]
        width = p["w_v"].shape[0] // 2 if heads > 1 else p["w_v"].shape[0]
        v = np.repeat(v.reshape(*v.shape[:-1], -1, width), heads, -2).reshape(*v.shape[:-1], -1)
        return np.asarray(v @ p["w_o"].T + p.get("b_o", 0.0))

    one = np.broadcast_to(map_of(row), x.shape)
    yield equal(attend(np.repeat(row, 4, 1)), one, TOLERANCE, "weights do not add up to 1")
    kept = np.array([True, False, True, True, False])
    yield equal(attend(context, np.broadcast_to(kept, (2, 3, 5)).copy()),
                attend(np.ascontiguousarray(context[:, kept][:, ::-1])), TOLERANCE,
                "masked rows, or the order of rows, count")
    only = np.array([False, True, False, False, False])
    yield equal(attend(context, np.broadcast_to(only, (2, 3, 5)).copy()),
                np.broadcast_to(map_of(context[:, 1:2]), x.shape), TOLERANCE, "a single row is not taken as it is")
