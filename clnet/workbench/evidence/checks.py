"""Checks as library functions: what the tests assert, the status table prints and the notebook shows.

    compare       any function of tensors, device against the float64 reference          parity       the same for an op
    gradient      directional difference in float64, and the device's gradient against the reference's, twice over
    adjoint       ⟨A x, u⟩ = ⟨x, Aᵀ u⟩ for functions that are linear in an input
    extremes      0, ±1e-30, ±88, ±200, ±1e4, NaN, ±∞, size 1, empty, non-contiguous
    determinism   two runs, equal bits              residency   nothing left the device        leaks   nothing stayed

A function takes tensors and gives a tensor or several; `case_function(op, case)` makes one of an op's case.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.autodiff import gradients
from ...core.op import Case, Kernel, Op, Pointwise
from ...core.spec import Spec, is_float, np_dtype
from ...core.tensor import Tensor, as_tensor, tensor, walk
from ...engine import current
from ...engine.reference import NumpyEngine
from ...errors import DTypeError
from .cases import arrays, cases, draw_dtype, empty_cases
from .results import TOLERANCE, Result, judge, worst
from .terms import terms

if TYPE_CHECKING:
    from ...engine.protocol import Engine

Function = Callable[..., Any]

# Directional derivatives on the reference: five-point difference, so truncation is ~STEP⁴ and rounding ~1e-16/STEP.
DIFFERENCE = 1e-8
STEP = 1e-4
EXTREMES = (0.0, -0.0, 1e-30, -1e-30, 88.0, -88.0, 200.0, -200.0, 1e4, -1e4, np.nan, np.inf, -np.inf)
# Ends of float32: below its normal numbers, which devices may take for 0, and where most formulas overflow inside.
ENDS = (1e-40, -1e-40, 3e38, -3e38)


def oracle() -> NumpyEngine:
    """The engine that every device is measured against."""
    return NumpyEngine("float64")


def _current(engine: Engine | None) -> Engine:
    return engine if engine is not None else current()


def case_function(op: Op, case: Case) -> Function:
    """The case's call as a function of its inputs."""
    return lambda *tensors: op(*tensors, **case.attrs)


def _outputs(function: Function, tensors: Sequence[Any]) -> list[Tensor]:
    y = function(*tensors)
    return [as_tensor(t) for t in (y if isinstance(y, (tuple, list)) else (y,)) if t is not None]


# --- the comparison
def allowance(outputs: Sequence[Tensor]) -> float:
    """TOLERANCE of the narrowest float in the graph, times √K."""
    floats = [t.dtype for t in walk(outputs) if is_float(t.dtype)] or ["float32"]
    return float(max(TOLERANCE[d] for d in floats) * np.sqrt(terms(outputs)))


def compare(function: Function, inputs: Sequence[Any], engine: Engine | None = None, *, check: str = "parity",
            normwise: bool = False) -> Result:
    """The function's values on the engine against those of the float64 reference, from the same inputs."""
    outputs = _outputs(function, [tensor(x) for x in inputs])
    got, want = _current(engine).values(outputs), oracle().values(outputs)
    allowed = allowance(outputs)
    return worst(check, (judge(check, g, w, t.dtype, allowed, normwise)
                         for g, w, t in zip(got, want, outputs, strict=True)))


def parity(op: Op, case: Case, engine: Engine | None = None) -> Result:
    """Does the device compute the formula?"""
    return compare(case_function(op, case), arrays(op, case), engine)


# --- derivatives
def _floats(inputs: Sequence[Any]) -> list[int]:
    return [k for k, x in enumerate(inputs) if is_float(np.asarray(x).dtype.name)]


def derivative(function: Function, inputs: Sequence[Any], rng: np.random.Generator) -> Function:
    """Jᵀu as a function of the same inputs: the cotangents of the float inputs, for fixed random u."""
    outputs = _outputs(function, [tensor(x) for x in inputs])
    u = [rng.standard_normal(t.shape) for t in outputs]

    def pulled(*tensors: Any) -> list[Tensor]:
        xs = [as_tensor(t) for t in tensors]
        wrt = [xs[k] for k in _floats(inputs)]
        total: list[Any] = [None] * len(wrt)
        for y, w in zip(_outputs(function, xs), u, strict=True):
            if is_float(y.dtype):
                parts = gradients(y, wrt, tensor(w, y.dtype))
                total = [p if s is None else s + p for s, p in zip(total, parts, strict=True)]
        return total

    return pulled


def _leaf_for(function: Function, base: Sequence[Any], inputs: Sequence[Any]) -> Callable[[Any, Any], Tensor]:
    """How float64 values are passed: as float64, or to a kernel of one dtype as that, whose numbers are not rounded."""
    try:
        _outputs(function, [tensor(x) for x in base])
    except DTypeError:
        return lambda x, like: Tensor(None, (), {}, Spec(np.shape(x), np.asarray(like).dtype.name), np.asarray(x))
    return lambda x, like: tensor(x)


def directional(function: Function, inputs: Sequence[Any], rng: np.random.Generator, check: str = "gradient") -> Result:
    """⟨Jᵀu, v⟩ against the five-point difference of ⟨u, f(x + t v)⟩ at t = 0, both in float64 on the reference."""
    where = _floats(inputs)
    base = [np.asarray(x, np.float64) if k in where else np.asarray(x) for k, x in enumerate(inputs)]
    v = [rng.standard_normal(x.shape) if k in where else None for k, x in enumerate(base)]
    leaf = _leaf_for(function, base, inputs)
    outputs = _outputs(function, list(map(leaf, base, inputs)))
    # As the results' own dtypes have it: both sides weigh with the same numbers.
    u = [tensor(rng.standard_normal(t.shape), t.dtype).value if is_float(t.dtype) else None for t in outputs]

    def value(t: float) -> float:
        moved = [x if d is None else x + t * d for x, d in zip(base, v, strict=True)]
        ys = oracle().values(_outputs(function, list(map(leaf, moved, inputs))))
        return sum(float(np.sum(w * y)) for w, y in zip(u, ys, strict=True) if w is not None)

    leaves = list(map(leaf, base, inputs))
    ys = _outputs(function, leaves)
    sums = [gradients(y, [leaves[k] for k in where], tensor(w, y.dtype))
            for y, w in zip(ys, u, strict=True) if w is not None]
    pulled = oracle().values([p for part in sums for p in part])
    directions = [v[k] for _ in sums for k in where]
    exact = sum(float(np.sum(p * d)) for p, d in zip(pulled, directions, strict=True))
    numeric = (8 * (value(STEP) - value(-STEP)) - (value(2 * STEP) - value(-2 * STEP))) / (12 * STEP)
    scale = 1 + sum(float(np.sum(np.abs(p * d))) for p, d in zip(pulled, directions, strict=True))
    error = abs(exact - numeric) / scale
    note = "" if error <= DIFFERENCE else f"{exact!r} for {numeric!r}"
    return Result(check, bool(error <= DIFFERENCE), error, 0.0, DIFFERENCE, note)


def opaque(outputs: Sequence[Tensor]) -> list[str]:
    """Names of kernels in the graph that have no derivative of their own: what ends a second differentiation."""
    return sorted({t.op.name for t in walk(outputs)
                   if isinstance(t.op, Kernel) and t.op.vjp is None and t.op.differentiable})


def check_gradient(function: Function, inputs: Sequence[Any], engine: Engine | None = None, *, order: int = 2,
                   seed: int = 0) -> Result:
    """Is the derivative the formula's (differences on the reference), and does the device compute it (parity of Jᵀu)?

    order   2: the same for the derivative's derivative, unless a kernel without a derivative stands in the way (noted)
    """
    rng = np.random.default_rng(seed)
    results, f = [], function
    for n in range(1, order + 1):
        if not _floats(inputs) or not any(is_float(t.dtype) for t in _outputs(f, [tensor(x) for x in inputs])):
            break
        results.append(directional(f, inputs, rng, f"gradient {n}"))
        f = derivative(f, inputs, rng)
        outputs = _outputs(f, [tensor(x) for x in inputs])
        results.append(compare(f, inputs, engine, check=f"gradient {n}"))
        if n < order and (names := opaque(outputs)):
            results.append(Result("gradient", True, note=f"first order only: no derivative of {', '.join(names)}"))
            break
    return worst("gradient", results)


def gradient(op: Op, case: Case, engine: Engine | None = None, *, order: int = 2) -> Result:
    """check_gradient of an op's case."""
    if not op.has_gradient:
        return Result("gradient", True, note="not differentiable")
    return check_gradient(case_function(op, case), arrays(op, case), engine, order=order)


# --- linear maps
def _held(function: Function, inputs: Sequence[Any], k: int) -> Callable[[Any], list[Tensor]]:
    """The function of its k-th input alone."""
    return lambda a: _outputs(function, [a if j == k else tensor(x) for j, x in enumerate(inputs)])


def is_affine(function: Function, inputs: Sequence[Any], k: int) -> bool:
    """A(2 x − 3 z) = 2 A x − 3 A z for A x = f(x) − f(0), x the k-th input, on the reference."""
    rng = np.random.default_rng(1)
    wide = [np.asarray(x, np.float64) if j in _floats(inputs) else x for j, x in enumerate(inputs)]
    x, z, f = wide[k], rng.standard_normal(np.shape(wide[k])), _held(function, wide, k)
    points = [2 * x - 3 * z, x, z, 0 * x]
    values = [np.concatenate([np.ravel(y) for y in oracle().values(f(tensor(p)))]) for p in points]
    mixed, fx, fz, f0 = values
    return np.allclose(mixed - f0, 2 * (fx - f0) - 3 * (fz - f0), rtol=1e-11, atol=1e-11)


def check_adjoint(function: Function, inputs: Sequence[Any], engine: Engine | None = None) -> Result:
    """⟨A x, u⟩ = ⟨x, Aᵀ u⟩ on the device, A x = f(x) − f(0),
    for every input in which f is affine; the note says if none is.
    """
    rng, results = np.random.default_rng(2), []
    for k in _floats(inputs):
        if not is_affine(function, inputs, k):
            continue
        x, f = tensor(inputs[k]), _held(function, inputs, k)
        y, origin = f(x)[0], f(tensor(np.zeros_like(inputs[k])))[0]
        u = tensor(rng.standard_normal(y.shape), y.dtype)
        outputs = [y, origin, *gradients(y, [x], u)]
        fx, f0, atu = (np.asarray(a, np.float64) for a in _current(engine).values(outputs))
        terms_left, terms_right = (fx - f0) * np.asarray(u.value, np.float64), np.asarray(x.value, np.float64) * atu
        allowed = allowance(outputs)
        error = abs(float(terms_left.sum() - terms_right.sum())) / (1 + float(np.abs(terms_left).sum()))
        note = "" if error <= allowed else f"input {k}: {terms_left.sum()!r} for {terms_right.sum()!r}"
        results.append(Result("adjoint", error <= allowed, error, 0.0, allowed, note))
    return worst("adjoint", results) if results else Result("adjoint", True, note="affine in no input")


def adjoint(op: Op, case: Case, engine: Engine | None = None) -> Result:
    """check_adjoint of an op's case."""
    if not op.has_gradient:
        return Result("adjoint", True, note="not differentiable")
    return check_adjoint(case_function(op, case), arrays(op, case), engine)


# --- extremes
def check_extremes(function: Function, inputs: Sequence[Any], engine: Engine | None = None,
                   spreads: Sequence[int] = (), values: Sequence[float] = EXTREMES, slopes: bool = True) -> Result:
    """Each extreme value alone in every float input, and as the size of all of it:
    NaN, ∞ and finite values as in the reference.

    Errors are measured against the largest value of the result. The gradient is finite where the reference's is, and
    never NaN where inputs and values are finite.

    spreads   inputs whose NaN and infinities may reach more results than in the reference, and never fewer
    slopes    whether there is a gradient to look at
    """
    results = []
    for k in _floats(inputs):
        for value in values:
            for whole in (False, True):
                moved = [np.array(x) for x in inputs]
                if whole:
                    moved[k] = np.asarray(value * moved[k] if np.isfinite(value) else np.full_like(moved[k], value),
                                          moved[k].dtype)
                elif moved[k].size:
                    moved[k].flat[moved[k].size // 2] = value
                note = f"{value} {'in all' if whole else 'in one element'} of input {k}"
                results += _extreme(function, moved, engine, note, k in spreads and not np.isfinite(value), slopes)
    return worst("extremes", results)


def _extreme(function: Function, inputs: Sequence[Any], engine: Engine | None, label: str,
             loose: bool = False, slopes: bool = True) -> list[Result]:
    value = (_spread(function, inputs, engine) if loose
             else compare(function, inputs, engine, check="extremes", normwise=True))
    results = [replace(value, note=f"{label}: {value.note}" if value.note else "")]
    xs = [tensor(x) for x in inputs]
    outputs = [t for t in _outputs(function, xs) if is_float(t.dtype)]
    wrt = [xs[k] for k in _floats(inputs)]
    if not slopes or not outputs or not wrt or opaque(outputs):
        return results
    pulled = [p for y in outputs for p in gradients(y, wrt, tensor(np.ones(y.shape), y.dtype), allow_unused=True)
              if p is not None]
    if not pulled:
        return results
    got, want, ys = _current(engine).values(pulled), oracle().values(pulled), oracle().values(outputs)
    with np.errstate(all="ignore"):
        clean = all(np.isfinite(x).all() for x in inputs) and all(
            np.isfinite(y.astype(np_dtype(t.dtype))).all() for y, t in zip(ys, outputs, strict=True))
        for g, w, t in zip(got, want, pulled, strict=True):
            bad = ~np.isfinite(g) & np.isfinite(w.astype(np_dtype(t.dtype)))
            if (bad.any() and not loose) or (clean and np.isnan(g).any()):
                results.append(Result("extremes", False, np.inf,
                                      note=f"{label}: gradient {np.ravel(g)[:6]} for {np.ravel(w)[:6]}"))
    return results


def _spread(function: Function, inputs: Sequence[Any], engine: Engine | None) -> Result:
    """As compare, but for results that are not finite on the device and are in the reference."""
    outputs = _outputs(function, [tensor(x) for x in inputs])
    found = []
    for t, got, want in zip(outputs, _current(engine).values(outputs), oracle().values(outputs), strict=True):
        more = ~np.isfinite(got) & np.isfinite(want)
        found.append(judge("extremes", np.where(more, want, got).astype(got.dtype), want, t.dtype, allowance(outputs),
                           normwise=True))
    return worst("extremes", found)


def check_layouts(function: Function, inputs: Sequence[Any], engine: Engine | None = None) -> Result:
    """The same values from inputs that are strided views (every second row of a transposed copy)."""

    def viewed(*tensors: Any) -> Any:
        return function(*(as_tensor(t)[::2].T if t.ndim else t for t in tensors))

    spread = [np.repeat(np.asarray(x).T, 2, axis=0) if np.ndim(x) else x for x in inputs]
    for x in spread:
        if np.ndim(x) and is_float(x.dtype.name):
            x[1::2] = np.nan  # whoever reads the rows between is found out
    return compare(viewed, spread, engine, check="layouts")


def extremes(op: Op, engine: Engine | None = None) -> Result:
    """Extremes of an op: over all pairs of values for pointwise ops,
    value by value for the others; layouts, size 1, empty.
    """
    first = cases(op)[0]
    results = [parity(op, case, engine) for case in empty_cases(op)]
    if first.args:
        results.append(check_layouts(case_function(op, first), arrays(op, first), engine))
    if draw_dtype(op) == "float32" and first.args:
        if isinstance(op, Pointwise):
            results += _pointwise_extremes(op, first, engine)
        else:
            spreads = [op.args.index(name) for name in op.spreads]
            results.append(check_extremes(case_function(op, first), arrays(op, first), engine, spreads,
                                          slopes=op.has_gradient))
    return worst("extremes", results)


def _pointwise_extremes(op: Op, case: Case, engine: Engine | None) -> list[Result]:
    """All combinations of extreme values (with a few ordinary ones) at once, one element each."""
    values = np.array([*EXTREMES, 0.5, -1.0, 2.0], np.float32)
    ready = [np.unique(a) if isinstance(a, np.ndarray) else values for a in case.args]
    grid = np.meshgrid(*ready, indexing="ij")
    inputs = [np.ascontiguousarray(g.ravel()) for g in grid]
    function = case_function(op, case)
    results = [compare(function, inputs, engine, check="extremes")]
    if not op.differentiable or op.vjp is None:
        return results
    xs = [tensor(x) for x in inputs]
    y = function(*xs)
    pulled = gradients(y, [xs[k] for k in _floats(inputs)], tensor(np.ones(y.shape), y.dtype))
    got, want, value = _current(engine).values(pulled), oracle().values(pulled), oracle().values([y])[0]
    with np.errstate(all="ignore"):
        clean = np.isfinite(value.astype(np_dtype(y.dtype))) & np.all([np.isfinite(x) for x in inputs], axis=0)
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            bad = (~np.isfinite(g) & np.isfinite(w.astype(g.dtype))) | (clean & np.isnan(g))
            if bad.any():
                where = [tuple(float(x[i]) for x in inputs) for i in np.flatnonzero(bad)[:4]]
                results.append(Result("extremes", False, np.inf,
                                      note=f"gradient {k} is {g[bad][:4]} (reference {w[bad][:4]}) at {where}"))
    return results


# --- behaviour of the engine
def determinism(function: Function, inputs: Sequence[Any], engine: Engine | None = None) -> Result:
    """Two runs from fresh tensors: equal bits."""
    first, second = (_current(engine).values(_outputs(function, [tensor(x) for x in inputs])) for _ in range(2))
    same = all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
    return Result("determinism", same, note="" if same else "two runs of the same work gave different bits")


def residency(function: Function, inputs: Sequence[Any], engine: Engine | None = None) -> Result:
    """Running the function moves nothing to the host and no op falls back to it."""
    engine = _current(engine)
    if not engine.compiles:
        return Result("residency", True, note="the engine is the host")
    moved, fell = engine.transfers.snapshot(), dict(engine.fallbacks)
    engine.run(_outputs(function, [tensor(x) for x in inputs]))
    engine.finish()
    back = (engine.transfers.snapshot() - moved).bytes_to_host
    ops = [name for name, n in engine.fallbacks.items() if n > fell.get(name, 0)]
    note = f"{back} bytes to the host; fell back: {', '.join(ops)}" if back or ops else ""
    return Result("residency", not note, float(back), note=note)


def leaks(function: Function, inputs: Sequence[Any], engine: Engine | None = None) -> Result:
    """After the work and its tensors are gone, the pool holds what it held before."""
    engine = _current(engine)
    if not engine.compiles:
        return Result("leaks", True, note="the engine has no pool")

    def work() -> None:
        engine.values(_outputs(function, [tensor(x) for x in inputs]))

    gc.collect()
    before = engine.pool.statistics().active
    work()
    gc.collect()
    engine.finish()
    left = engine.pool.statistics().active - before
    return Result("leaks", left == 0, float(left), note=f"{left} bytes stayed" if left else "")
