"""Sequences of several lengths one after another, (S, …) without anything that fills them up: attention by offsets.

`offsets` (N + 1,) integers rise from 0 to S: sequence n is the rows from offsets[n] up to offsets[n + 1], of which
there may be none. Where only the device knows them, rows behind the last sequence belong to none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arrays import Array
from ..core.autocast import of_products
from ..core.autodiff import gradients
from ..core.formula import evaluate_formula
from ..core.op import Case, kernel
from ..core.spec import INTS, Spec, promote
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import DTypeError, ShapeError
from ..kernels.choosers import PACKED_ATTENTION, PACKED_ATTENTION_GRADIENT
from .attention import NARROW, _backward, _forward
from .index import gather
from .pointwise import arange, bit_and, cast, equal
from .reduce import sum
from .view import permute, reshape

FAMILY = "attention"


def packed_attention(q: TensorLike, k: TensorLike, v: TensorLike, offsets: TensorLike,
                     key_offsets: TensorLike | None = None, causal: bool = False,
                     scale: float | None = None) -> Tensor:
    """y = softmax(s · q kᵀ) v per head and sequence, s = 1/√d unless given: each query sees the keys of its own
    sequence alone.

    q (S, H, d), k (S′, Hk, d), v (S′, Hk, e) -> (S, H, e), sequences one after another; query head h reads key head
    h // (H / Hk).
    offsets      (N + 1) integers that rise from 0 to S: where each sequence of queries begins, and the last one ends
    key_offsets  the same of the keys, from 0 to S′; None: `offsets`
    causal       query t of a sequence of T queries and K keys attends to its keys up to t + K − T
    A query with nothing to attend to gives zeros. It costs Σ Tₙ Kₙ, and no more memory than its operands: kernels of
    CPUs and GPUs in float32, which 16-bit operands become. In float64, and of heads of more than 256 features, a
    formula serves, which makes all S × S′ scores, and so lets NaN reach other sequences.
    Raises ShapeError, also for offsets that the host knows and that do not rise from 0 to S; DTypeError.
    Paper: Dao 2023, arXiv:2307.08691 (as flash_attn_varlen_func); online softmax: Dao et al. 2022, arXiv:2205.14135.
    """
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    _check(q, k, v)
    edges = offsets_of("packed_attention", offsets, q.shape[0])
    key_edges = edges if key_offsets is None else offsets_of("packed_attention", key_offsets, k.shape[0])
    if key_edges.shape != edges.shape or (key_offsets is None and k.shape[0] != q.shape[0]):
        raise ShapeError(
            f"packed_attention: expected keys and values of the same sequences as the queries; got q{q.shape}, "
            f"k{k.shape}, offsets {edges.shape}, key_offsets {'None' if key_offsets is None else key_edges.shape}; "
            "give the keys' own key_offsets.")
    dtype = of_products((q, k, v))
    q, k, v = (cast(x, "float32" if dtype in NARROW else dtype) for x in (q, k, v))
    scale = 1 / math.sqrt(q.shape[2] or 1) if scale is None else arguments.real("packed_attention", "scale", scale)
    flat = _packed_attention(q, k, v, edges, key_edges, causal=bool(causal), scale=scale)
    return cast(_rows(flat, 0, (*q.shape[:2], v.shape[2])), dtype)


def offsets_of(who: str, offsets: TensorLike, count: int | None) -> Tensor:
    """Offsets of sequences in `count` rows (None: in as many as they say) as int32 (N + 1). Raises ShapeError,
    DTypeError for what is none, as far as the host knows its values.
    """
    edges = as_tensor(offsets)
    if edges.dtype not in INTS:
        raise DTypeError(
            f"{who}: expected integer offsets (N + 1); got {edges.dtype}{edges.shape}; cast them to int32.")
    if edges.ndim != 1 or edges.shape[0] < 2:
        raise ShapeError(f"{who}: expected offsets (N + 1) of at least one sequence; got shape {edges.shape}; "
                         "those of lengths are np.concatenate([[0], np.cumsum(lengths)]).")
    values = edges.value
    count = int(values[-1]) if count is None and values is not None else count
    if values is not None and (values[0] != 0 or values[-1] != count or (np.diff(values.astype(np.int64)) < 0).any()):
        raise ShapeError(f"{who}: expected offsets that rise from 0 to {count}, the rows of all sequences; "
                         f"got {_shown(values)}; those of lengths are np.concatenate([[0], np.cumsum(lengths)]).")
    return cast(edges, "int32")


def _shown(values: np.ndarray[Any, Any]) -> str:
    falls = np.flatnonzero(np.diff(values.astype(np.int64)) < 0)
    if falls.size:
        return f"{values[falls[0]]} before {values[falls[0] + 1]}"
    return f"{values[0]} to {values[-1]}"


# --- formulas: what the kernels compute, with the scores of all with all in memory
def sequence_numbers(offsets: Tensor, count: int) -> Tensor:
    """y[r] = the sequence of row r, N for rows behind the last: int32 (count)."""
    rows: Tensor = reshape(arange(n=count, dtype="int32"), (count, 1))
    return cast(sum(cast(rows >= offsets[1:], "int32"), 1), "int32")


def _allowed(offsets: Tensor, key_offsets: Tensor, t: int, s: int, causal: bool) -> Tensor:
    """Which of s keys each of t queries sees: bool (t, s)."""
    mine, theirs = sequence_numbers(offsets, t), sequence_numbers(key_offsets, s)
    column = reshape(mine, (t, 1))
    allowed = bit_and(equal(column, theirs), column < offsets.shape[0] - 1)
    if causal:  # counted from the ends of both
        query = arange(n=t, dtype="int32") - gather(offsets, mine + 1)
        key = arange(n=s, dtype="int32") - gather(key_offsets, theirs + 1)
        allowed = bit_and(allowed, reshape(query, (t, 1)) >= key)
    return allowed


def _mask(offsets: Tensor, key_offsets: Tensor, t: int, s: int, causal: bool) -> Tensor:
    return reshape(_allowed(offsets, key_offsets, t, s, causal), (1, 1, t, s))


def _one(x: Tensor) -> Tensor:
    """(S, H, f) -> (1, H, S, f)"""
    return reshape(permute(x, 1, 0, 2), (1, x.shape[1], x.shape[0], x.shape[2]))


def _rows(flat: Tensor, at: int, shape: tuple[int, ...]) -> Tensor:
    """A part of a flat result from element `at` on."""
    return reshape(flat[at : at + math.prod(shape)], shape)


# --- the ops
def _samples(gradient: bool) -> list[Case]:
    """An empty sequence in the middle, self attention; one with more keys than queries, and keys without queries,
    grouped; long ones, features that fill no whole vectors.
    """
    cases, rng = [], np.random.default_rng(6)
    for h, hk, d, e, causal, queries, keys in (
            (2, 2, 4, 3, False, (3, 0, 2), (3, 0, 2)), (4, 2, 8, 8, True, (1, 5, 0, 2), (4, 5, 2, 1)),
            (2, 1, 17, 33, True, (40, 1, 71), (40, 3, 90))):
        edges = [np.concatenate([[0], np.cumsum(n)]).astype(np.int32) for n in (queries, keys)]
        t, s = (int(o[-1]) for o in edges)
        q, k, v = (rng.uniform(-2, 2, shape).astype(np.float32) for shape in ((t, h, d), (s, hk, d), (s, hk, e)))
        arrays, attrs = list[Any]([q, k, v, *edges]), dict(causal=causal, scale=d**-0.5)
        if gradient:
            flat = evaluate_formula(_formula, arrays, attrs)
            arrays = [(t, h, e), flat[t * h * e :].reshape(t, h).astype(np.float32), (t, h), *arrays]
        cases.append(Case(tuple(arrays), attrs))
    return cases


def _flops(operands: Sequence[Spec], attrs: Mapping[str, Any], of_keys: int, of_values: int) -> float:
    """Of sequences of one length, since that is all that shapes say."""
    q, k, v, offsets = operands
    scores = q.shape[0] * q.shape[1] * k.shape[0] / max(1, offsets.shape[0] - 1)
    return 2.0 * scores * (of_keys * q.shape[2] + of_values * v.shape[2]) / (2 if attrs["causal"] else 1)


def _forward_flops(operands: Sequence[Spec], y: Spec, attrs: Mapping[str, Any]) -> float:
    return _flops(operands[:4], attrs, 1, 1)


def _backward_flops(operands: Sequence[Spec], y: Spec, attrs: Mapping[str, Any]) -> float:
    return _flops(operands[3:7], attrs, 3, 2)


def _formula(q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, key_offsets: Tensor, *, causal: bool,
             scale: float) -> Tensor:
    mask = _mask(offsets, key_offsets, q.shape[0], k.shape[0], causal)
    return _forward(_one(q), _one(k), _one(v), mask, False, scale)


def _gradient_formula(g: Tensor, lse: Tensor, delta: Tensor, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor,
                      key_offsets: Tensor, *, causal: bool, scale: float) -> Tensor:
    mask = _mask(offsets, key_offsets, q.shape[0], k.shape[0], causal)
    lse, delta = (reshape(x, (1, *x.shape)) for x in (lse, delta))
    return _backward(_one(g), lse, delta, _one(q), _one(k), _one(v), mask, False, scale)


def _infer(q: Spec, k: Spec, v: Spec, offsets: Spec, key_offsets: Spec, **attrs: Any) -> Spec:
    return Spec((q.shape[0] * q.shape[1] * (v.shape[2] + 1),), promote(q.dtype, k.dtype, v.dtype))


def _gradient_infer(g: Spec, lse: Spec, delta: Spec, q: Spec, k: Spec, v: Spec, *offsets: Spec, **attrs: Any) -> Spec:
    return Spec((q.size + k.size + v.size,), promote(*(s.dtype for s in (g, lse, delta, q, k, v))))


def _pieces(offsets: Array, key_offsets: Array) -> Iterator[tuple[slice, slice]]:
    """Rows of the queries and of the keys of each sequence that has both."""
    for own, walked in zip(itertools.pairwise(offsets), itertools.pairwise(key_offsets), strict=True):
        if own[0] < own[1] and walked[0] < walked[1]:
            yield slice(*own), slice(*walked)


def _heads(x: Array, rows: slice) -> Array:
    """(S, H, f) -> (1, H, T, f) of the rows of a sequence; lines (S, H) -> (1, T, H)."""
    return x[rows][None] if x.ndim == 2 else x[rows].swapaxes(0, 1)[None]


@kernel(cl="attention.cl", reads=("strided",), work=_forward_flops, launch=PACKED_ATTENTION, define=_formula,
        infer=_infer, samples=lambda: _samples(False))
def _packed_attention(q: Array, k: Array, v: Array, offsets: Array, key_offsets: Array, *, causal: bool,
                      scale: float) -> Array:
    """(y, lse) of attention within sequences that lie one after another, flat: softmax(s q kᵀ) v as (S, H, e),
    then ln Σ e^(s q kᵀ) as (S, H)
    """
    y, lse = np.zeros((*q.shape[:2], v.shape[2]), v.dtype), np.zeros(q.shape[:2], q.dtype)
    for own, walked in _pieces(offsets, key_offsets):
        flat = evaluate_formula(_forward, [_heads(q, own), _heads(k, walked), _heads(v, walked)],
                                dict(mask=None, causal=causal, scale=scale))
        mine = y[own]
        y[own], lse[own] = flat[: mine.size].reshape(mine.shape), flat[mine.size :].reshape(lse[own].shape)
    return np.concatenate([y.ravel(), lse.ravel()])


@kernel(cl="attention.cl", reads=("strided",), work=_backward_flops, launch=PACKED_ATTENTION_GRADIENT,
        define=_gradient_formula, infer=_gradient_infer, samples=lambda: _samples(True))
def _packed_attention_gradient(g: Array, lse: Array, delta: Array, q: Array, k: Array, v: Array, offsets: Array,
                               key_offsets: Array, *, causal: bool, scale: float) -> Array:
    """(dq, dk, dv), flat, as attention_gradient, of packed_attention"""
    out = [np.zeros(x.shape, x.dtype) for x in (q, k, v)]
    for own, walked in _pieces(offsets, key_offsets):
        given = [*(_heads(x, own) for x in (g, lse, delta, q)), *(_heads(x, walked) for x in (k, v))]
        flat, at = evaluate_formula(_backward, given, dict(mask=None, causal=causal, scale=scale)), 0
        for x, rows in zip(out, (own, walked, walked), strict=True):
            part = x[rows]
            x[rows] = flat[at : at + part.size].reshape(part.shape)
            at += part.size
    return np.concatenate([x.ravel() for x in out])


@_packed_attention.defvjp
def _(g: Tensor, flat: Tensor, q: Tensor, k: Tensor, v: Tensor, offsets: Tensor, key_offsets: Tensor,
      **attrs: Any) -> tuple[Tensor | None, ...]:
    shape, line = (*q.shape[:2], v.shape[2]), q.shape[:2]
    end = math.prod(shape)
    delta = sum(_rows(g, 0, shape) * _rows(flat, 0, shape), -1) - _rows(g, end, line)
    out = _packed_attention_gradient(_rows(g, 0, shape), _rows(flat, end, line), delta, q, k, v, offsets, key_offsets,
                                     **attrs)
    return (_rows(out, 0, q.shape), _rows(out, q.size, k.shape), _rows(out, q.size + k.size, v.shape), None, None)


@_packed_attention_gradient.defvjp
def _(g: Tensor, y: Tensor, *inputs: Tensor, **attrs: Any) -> tuple[Tensor | None, ...]:
    return tuple(gradients(_gradient_formula(*inputs, **attrs), inputs, g, allow_unused=True))


# --- what is refused
def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = f"q{q.shape}, k{k.shape}, v{v.shape}"
    if not q.ndim == k.ndim == v.ndim == 3:
        raise ShapeError(f"packed_attention: expected q, k and v of 3 axes (S, H, d); got {shapes}; "
                         "batches of one length, (N, H, T, d), are attention's.")
    if q.shape[2] != k.shape[2] or k.shape[:2] != v.shape[:2]:
        raise ShapeError(f"packed_attention: expected q (S, H, d), k (S', Hk, d), v (S', Hk, e); got {shapes}.")
    if k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise ShapeError(f"packed_attention: expected query heads a multiple of key heads; got {q.shape[1]} and "
                         f"{k.shape[1]} in {shapes}.")
