"""Scaled dot-product attention over (batch, heads, time, features), with grouped queries, masks and the causal rule.

On devices a kernel keeps no matrix of scores; its result is flat, (y, lse) with lse = ln Σ e^score per row,
which is all that the gradient needs to compute the weights again. The gradient is flat, too: (dq, dk, dv).
Rows stand as (N, T, H, features).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core import arguments
from ..core.autocast import of_products
from ..core.formula import composite, evaluate_formula
from ..core.op import Case
from ..core.precision import current_precision
from ..core.size import typical
from ..core.spec import Spec
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from ..kernels.choosers import ATTENTION, ATTENTION_GRADIENT
from .joining import concat
from .matmul import matmul
from .normalization import _softmax, masked
from .pointwise import arange, bit_and, cast, equal, exp, isfinite, log, minimum, where
from .reduce import detach, peak, sum
from .view import expand, permute, reshape, transpose

NARROW = ("float16", "bfloat16")
FEW = 8  # keys a query, from which on queries may be few (Zen 4 and H200)
MOST = 10.0  # x − lse is at most 0 but for rounding; an lse that is not that of the scores shall not overflow


def attention(q: TensorLike, k: TensorLike, v: TensorLike, mask: TensorLike | None = None, causal: bool = False,
              scale: float | None = None) -> Tensor:
    """y = softmax(s · q kᵀ + mask) v per head, s = 1/√d unless given.

    q (N, H, T, d), k (N, Hk, S, d), v (N, Hk, S, e) -> (N, H, T, e); query head h reads key head h // (H / Hk).
    mask    bool (True: may attend) or float (added to the scores), broadcasts to (N, H, T, S)
    causal  position t attends to positions up to t + S − T, so that a cache of S − T earlier keys fits in front
    A row with nothing to attend to gives zeros. 16-bit operands, and float32 ones in precision "bf16" or "fp16", are
    multiplied on tensor cores where there are any (without a mask; d and e 32, 64 or 128; sums and softmax in float32);
    else in float32. One launch forward and one or two backward; the weights (T × S) are in no memory but for the
    gradient of a float mask, and where queries are few beside the keys (T ≤ d / 2 and T ≤ S / 8): these are products.
    Paper: Vaswani et al. 2017, arXiv:1706.03762; grouped queries: Ainslie et al. 2023,
    arXiv:2305.13245; online softmax: Dao et al. 2022, arXiv:2205.14135.
    """
    q, k, v = as_tensor(q), as_tensor(k), as_tensor(v)
    _check(q, k, v)
    dtype = of_products((q, k, v))
    q, k, v = (cast(x, "float32" if dtype in NARROW and mask is not None else dtype) for x in (q, k, v))
    scale = 1 / math.sqrt(q.shape[3] or 1) if scale is None else arguments.real("attention", "scale", scale)
    attrs: dict[str, Any] = dict(causal=bool(causal), scale=scale)
    if _few(q, k) and not _arithmetic(dtype):
        allowed = None if mask is None else _mask(as_tensor(mask), (*q.shape[:3], k.shape[2]))
        return cast(_weighted(_masked_scores(q, k, allowed, **attrs), q, k, v), dtype)
    if mask is None:
        flat = _attention(q, k, v, **attrs, **_arithmetic(dtype))
    else:
        mask = _mask(as_tensor(mask), (*q.shape[:3], k.shape[2]))
        flat = _masked_attention(q, k, v, mask if mask.dtype == "bool" else cast(mask, q.dtype), **attrs)
    return cast(_rows(flat, 0, (*q.shape[:3], v.shape[3])), dtype)


def _arithmetic(dtype: str) -> dict[str, str]:
    """Attributes where the arithmetic is not that of the dtype, or the result is narrower than float32."""
    if dtype in NARROW:
        return dict(narrow=dtype)
    return dict(precision=current_precision()) if dtype == "float32" and current_precision() != "fp32" else {}


def attention_scores(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """s · q kᵀ: (N, H, T, d), (N, Hk, S, d) -> (N, H, T, S)."""
    (n, h, t, d), s = q.shape, k.shape[2]
    rows: Tensor = reshape(matmul(_grouped(q, k), transpose(k)), (n, h, t, s))
    return rows * (1 / math.sqrt(d) if scale is None else scale)


def causal_mask(t: int, s: int) -> Tensor:
    """y[i, j] = (key position j ≤ query position i + s − t): bool (t, s), no memory where it is consumed."""
    column: Tensor = reshape(arange(n=t, dtype="int32"), (t, 1)) + (s - t)
    return column >= arange(n=s, dtype="int32")


# --- formulas: what the kernels compute, with the scores in memory
def _masked_scores(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    scores, allowed = attention_scores(q, k, scale), causal_mask(q.shape[2], k.shape[2]) if causal else None
    if mask is not None and allowed is not None and mask.dtype == "bool":
        allowed = bit_and(mask, allowed)
    elif mask is not None:
        scores = masked(scores, mask)
    return masked(scores, allowed)


def _grouped(x: Tensor, k: Tensor) -> Tensor:
    """(N, H, T, f) -> (N, Hk, H / Hk · T, f): the heads of a group as rows of one product."""
    n, h, t, f = x.shape
    return reshape(x, (n, k.shape[1], h // (k.shape[1] or 1) * t, f))


def _flat(x: Tensor) -> Tensor:
    """(N, H, T, f) -> N · T · H · f elements."""
    return reshape(permute(x, 0, 2, 1, 3), (x.size,))


def _rows(flat: Tensor, at: int, shape: tuple[int, ...]) -> Tensor:
    """The opposite, from element `at` on."""
    n, h, t, f = shape
    return permute(reshape(flat[at : at + n * h * t * f], (n, t, h, f)), 0, 2, 1, 3)


def _few(q: Tensor, k: Tensor) -> bool:
    """Whether queries are so few that the scores are small beside the keys: products then read the keys once, where a
    kernel's tiles of queries would be empty, and their gradients need no score twice.
    """
    t, d = typical(q.shape[2]), typical(q.shape[3])
    return 2 * t <= d and FEW * t <= typical(k.shape[2])


def _weighted(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The values, weighed by the softmax of the scores x."""
    return reshape(matmul(_grouped(_softmax(x, axis=-1), k), v), (*q.shape[:3], v.shape[3]))


def _forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    x = _masked_scores(q, k, mask, causal, scale)
    y = _weighted(x, q, k, v)
    top = peak(x, -1)
    base = detach(where(isfinite(top), top, 0.0))
    total = sum(exp(x - base), -1, keepdims=True)
    return concat([_flat(y), _flat(base + log(where(equal(total, 0.0), 1.0, total)))])


def _wide(x: Tensor) -> Tensor:
    return cast(x, "float32") if x.dtype in NARROW else x


def _narrowed(q: Tensor, k: Tensor, v: Tensor, narrow: str, causal: bool, scale: float) -> Tensor:
    """The result rounded to a type that has too few digits for lse: that stands as the rounded one, and the rest."""
    flat = _attention(_wide(q), _wide(k), _wide(v), causal=causal, scale=scale)
    lse = flat[flat.size - math.prod(q.shape[:3]) :]
    lead = cast(lse, narrow)
    return concat([cast(flat[: flat.size - lse.size], narrow), lead, cast(lse - cast(lead, lse.dtype), narrow)])


def _slope(g: Tensor, lse: Tensor, delta: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool,
           scale: float) -> tuple[Tensor, Tensor]:
    """(p, ds): the weights e^min(x − lse, MOST), and the cotangent p · (g vᵀ − δ) of the scores x."""
    n, t, h = lse.shape
    p = exp(minimum(_masked_scores(q, k, mask, causal, scale) - reshape(permute(lse, 0, 2, 1), (n, h, t, 1)), MOST))
    return p, p * (attention_scores(g, v, 1.0) - reshape(permute(delta, 0, 2, 1), (n, h, t, 1)))


def _backward(g: Tensor, lse: Tensor, delta: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool,
              scale: float) -> Tensor:
    p, ds = (_grouped(x, k) for x in _slope(g, lse, delta, q, k, v, mask, causal, scale))
    dq = reshape(matmul(ds, k), q.shape) * scale
    dk = matmul(transpose(ds), _grouped(q, k)) * scale
    return concat([_flat(dq), _flat(dk), _flat(matmul(transpose(p), _grouped(g, k)))])


def _pull(g: Tensor, flat: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None,
          attrs: dict[str, Any]) -> tuple[Any, ...]:
    """Cotangents of q, k, v (and a float mask) from that of (y, lse); ∂ lse / ∂ scores = p,
    so its cotangent joins δ = Σ g y.
    """
    n, h, t, _ = q.shape
    e = v.shape[3]
    count = n * t * h
    end, line = count * e, (n, t, h)

    lse = reshape(_wide(flat[end : end + count]), line)
    if "narrow" in attrs:
        lse = lse + reshape(_wide(flat[end + count :]), line)
    delta = sum(_wide(reshape(g[:end], (*line, e))) * _wide(reshape(flat[:end], (*line, e))), -1)
    delta = delta - reshape(_wide(g[end : end + count]), line)
    given = (_rows(g, 0, (n, h, t, e)), lse, delta, q, k, v)
    out = _attention_gradient(*given, **attrs) if mask is None else _masked_attention_gradient(*given, mask, **attrs)
    dk_at = q.size
    found = _rows(out, 0, q.shape), _rows(out, dk_at, k.shape), _rows(out, dk_at + k.size, v.shape)
    if mask is None:
        return found
    return *found, None if mask.dtype == "bool" else _slope(*given, mask, **attrs)[1]


# --- the ops
def _samples(masked: bool, gradient: bool) -> list[Case]:
    """Cross attention; the causal rule with grouped queries; long rows of features that fill no whole vectors."""
    cases, rng = [], np.random.default_rng(4)
    for i, (n, h, hk, t, s, d, e, causal) in enumerate(
        ((2, 2, 2, 3, 5, 4, 3, False), (1, 4, 2, 6, 6, 8, 8, True), (1, 2, 1, 70, 90, 17, 33, True))):
        q, k, v = (rng.uniform(-2, 2, shape).astype(np.float32)
                   for shape in ((n, h, t, d), (n, hk, s, d), (n, hk, s, e)))
        bias = rng.standard_normal((n, h, t, s), np.float32)
        mask, attrs = bias if i % 2 == 0 else bias > -1, dict(causal=causal, scale=d**-0.5)
        arrays: list[Any] = [q, k, v, mask] if masked else [q, k, v]
        if gradient:
            flat = evaluate_formula(lambda *x, **a: _forward(*x, *((None,) * (4 - len(x))), **a), arrays, attrs)
            arrays = [(n, h, t, e), flat[n * t * h * e :].reshape(n, t, h).astype(np.float32), (n, t, h), *arrays]
        cases.append(Case(tuple(arrays), attrs))
    return cases


def _score_flops(operands: Sequence[Spec], attrs: Mapping[str, Any], of_keys: int, of_values: int) -> float:
    """Additions and products of so many passes over the scores with d and with e features; a causal half counts."""
    q, k, v = operands
    scores = math.prod(q.shape[:3]) * k.shape[2]
    return 2.0 * scores * (of_keys * q.shape[3] + of_values * v.shape[3]) / (2 if attrs["causal"] else 1)


def _forward_flops(operands: Sequence[Spec], y: Spec, attrs: Mapping[str, Any]) -> float:
    return _score_flops(operands[:3], attrs, 1, 1)


def _backward_flops(operands: Sequence[Spec], y: Spec, attrs: Mapping[str, Any]) -> float:
    return _score_flops(operands[3:6], attrs, 3, 2)


@composite("n h t d, n k s d, n k s e -> f", cl="attention.cl", reads=("strided", "narrow"), rounds=True,
           work=_forward_flops, launch=ATTENTION, samples=lambda: _samples(False, False))
def _attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float, precision: str = "fp32",
               narrow: str = "") -> Tensor:
    """(y, lse) of attention, flat: softmax(s q kᵀ) v per head as (N, T, H, e), then ln Σ e^(s q kᵀ) as (N, T, H);
    rounded if `narrow`, lse then in two parts, (N, T, H) each: rounded, and the rest
    """
    return _narrowed(q, k, v, narrow, causal, scale) if narrow else _forward(q, k, v, None, causal, scale)


@composite("n h t d, n k s d, n k s e, n h t s -> f", cl="attention.cl", reads=("strided",), work=_forward_flops,
           launch=ATTENTION, samples=lambda: _samples(True, False))
def _masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, *, causal: bool, scale: float) -> Tensor:
    """(y, lse) of attention with a mask, flat: softmax(s q kᵀ + mask) v per head as (N, T, H, e),
    then ln Σ e^(s q kᵀ + mask)
    """
    return _forward(q, k, v, mask, causal, scale)


@composite("n h t e, n t h, n t h, n h t d, n k s d, n k s e -> f", cl="attention.cl", reads=("strided", "narrow"),
           rounds=True, work=_backward_flops, launch=ATTENTION_GRADIENT, samples=lambda: _samples(False, True))
def _attention_gradient(g: Tensor, lse: Tensor, delta: Tensor, q: Tensor, k: Tensor, v: Tensor, *, causal: bool,
                        scale: float, precision: str = "fp32", narrow: str = "") -> Tensor:
    """(dq, dk, dv), flat, rows as (N, T, H, features): p = e^(s q kᵀ − lse), ds = p (g vᵀ − δ), dq = s ds k,
    dk = s dsᵀ q, dv = pᵀ g
    """
    if narrow:
        return cast(_attention_gradient(*map(_wide, (g, lse, delta, q, k, v)), causal=causal, scale=scale), narrow)
    return _backward(g, lse, delta, q, k, v, None, causal, scale)


@composite("n h t e, n t h, n t h, n h t d, n k s d, n k s e, n h t s -> f", cl="attention.cl", reads=("strided",),
           work=_backward_flops, launch=ATTENTION_GRADIENT, samples=lambda: _samples(True, True))
def _masked_attention_gradient(g: Tensor, lse: Tensor, delta: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, *,
                               causal: bool, scale: float) -> Tensor:
    """(dq, dk, dv) as attention_gradient, with p = e^(s q kᵀ + mask − lse)"""
    return _backward(g, lse, delta, q, k, v, mask, causal, scale)


@_attention.defvjp
def _(g: Tensor, flat: Tensor, q: Tensor, k: Tensor, v: Tensor, **attrs: Any) -> tuple[Tensor | None, ...]:
    return _pull(g, flat, q, k, v, None, attrs)


@_masked_attention.defvjp
def _(g: Tensor, flat: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor,
      **attrs: Any) -> tuple[Tensor | None, ...]:
    return _pull(g, flat, q, k, v, mask, attrs)


# --- what is refused
def _mask(mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    try:
        return expand(mask, shape)
    except ValueError:
        raise ShapeError(
            f"attention: expected a mask that broadcasts to (N, H, T, S) = {shape}; got {mask.shape}.") from None


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = f"q{q.shape}, k{k.shape}, v{v.shape}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ShapeError(f"attention: expected q, k and v of 4 axes (N, H, T, d); got {shapes}.")
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or k.shape[:3] != v.shape[:3]:
        raise ShapeError(f"attention: expected q (N, H, T, d), k (N, Hk, S, d), v (N, Hk, S, e); got {shapes}.")
    if k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise ShapeError(
            f"attention: expected query heads a multiple of key heads; got {q.shape[1]} and {k.shape[1]} in {shapes}.")
