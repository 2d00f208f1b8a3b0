"""What a check found, and the one way in which a device's numbers are measured against the reference's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ...core.spec import is_float, np_dtype

Array = np.ndarray[Any, Any]

# Allowed |a − b| / (1 + |b|) of one operation. Sums over K terms: times √K, K being the longest in the graph.
# Narrow floats: twice the rounding of the stored result (2⁻¹¹ and 2⁻⁸); they are computed in float32.
TOLERANCE = {"float64": 1e-12, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}


@dataclass(frozen=True)
class Result:
    """What a check found. error: worst |a − b| / (1 + |b|); allowed: its limit;
    ulp: worst distance in units of the last place.
    """

    check: str
    ok: bool
    error: float = 0.0
    ulp: float = 0.0
    allowed: float = 0.0
    note: str = ""

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "FAILED"
        return (f"{self.check}: {verdict}, error {self.error:.2g} (allowed {self.allowed:.2g}), {self.ulp:.3g} ulp"
                f"{'; ' + self.note if self.note else ''}")


def worst(check: str, results: Iterable[Result]) -> Result:
    """One result for several: ok if all are, with the largest errors and the notes of the failures (or all notes)."""
    found = list(results)
    notes = [r.note for r in found if r.note and (not r.ok or all(f.ok for f in found))]
    return Result(check, all(r.ok for r in found), max((r.error for r in found), default=0.0),
                  max((r.ulp for r in found), default=0.0), max((r.allowed for r in found), default=0.0),
                  "; ".join(dict.fromkeys(notes))[:600])


def judge(check: str, got: Array, want: Array, dtype: str, allowed: float, normwise: bool = False) -> Result:
    """got (of `dtype`) against want (float64):
    equal NaN and ∞, |a − b| ≤ allowed · (1 + |b|); integers and bools exactly.

    normwise   measure against the largest |b| in place of each |b|: for sums whose terms are far larger than their
               result
    """
    if got.shape != want.shape or got.dtype != np_dtype(dtype):
        return Result(check, False, np.inf, np.inf, allowed,
                      f"expected {dtype}{list(want.shape)}; got {got.dtype}{list(got.shape)}")
    if not is_float(dtype):
        wrong = np.argwhere(got != want)
        note = (f"{len(wrong)} of {got.size} differ, first at {wrong[0].tolist()}: {got[tuple(wrong[0])]} for "
                f"{want[tuple(wrong[0])]}" if len(wrong) else "")
        return Result(check, not note, float(bool(note)), 0.0, 0.0, note)
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), np.asarray(want, np.float64)
        rounded = b.astype(np_dtype(dtype)).astype(np.float64)
        special = ~np.isfinite(rounded) | ~np.isfinite(a)
        same = np.where(special, (np.isnan(a) & np.isnan(rounded)) | (a == rounded), True)
        size = np.max(np.abs(b[~special]), initial=0.0) if normwise else np.abs(b)
        error = np.where(special, np.where(same, 0.0, np.inf), np.abs(a - b) / (1 + size))
        ulps = np.where(special, 0.0, np.abs(a - b) / _spacing(b, dtype))
    top = float(error.max(initial=0.0))
    note = ""
    if top > allowed:
        at = np.unravel_index(int(np.argmax(error)), error.shape)
        note = f"at {[int(i) for i in at]}: {a[at]:.9g} for {b[at]:.9g}"
    return Result(check, top <= allowed, top, float(ulps.max(initial=0.0)), allowed, note)


def _spacing(b: Array, dtype: str) -> Array:
    """One unit in the last place of |b| as a `dtype`."""
    info = ml_dtypes.finfo(np_dtype(dtype))
    exponent = np.floor(np.log2(np.maximum(np.abs(b), float(info.smallest_normal))))
    return np.asarray(2.0 ** (exponent - info.nmant))
