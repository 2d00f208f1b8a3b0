"""Reading and summing rows by number: gather, its adjoint scatter_add, segment mean and maximum, one-hot.

Scatters sort the indices and add each row's terms in their order: equal bits on every run. A negative index counts from
the end. An index outside raises IndexingError (an IndexError) where the host knows it; on the device a gather gives NaN there (0 for integers)
and a scatter drops the row: `expect_indices` is the check for data that only the device has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import arguments
from ..errors import DTypeError, IndexingError, ShapeError
from ..op import Case, kernel
from ..spec import INTS, Spec, is_float
from ..tensor import Operators, Tensor, as_tensor, constant
from .normalize_geometry import gpu_lanes
from .pointwise import arange, cast, equal, maximum, ones, where
from .reduce import max as reduce_max
from .reduce import min as reduce_min
from .view import reshape

# Edges that are worth a work-item of their own in the sort, bits sorted in one pass: [CPU], [GPU].
SORT_SHARE = {"cpu": 1 << 16, "gpu": 64}
SORT_BITS = {"cpu": 11, "gpu": 4}
ONE_PASS_BITS = 17  # a single work-item on a CPU counts up to so many bits at once
GPU_GROUP = 256
RANKS = 1 << 22  # comparisons a unit of a GPU that are worth less than the launches of a sort
RANK_LINES = 8  # work-items that share the count of one edge or row


def _rows(index: Any, n: int) -> Any:
    """Indices with negative ones counted from the end, and n for those outside."""
    i = np.asarray(index, np.int64)
    i = np.where(i < 0, i + n, i)
    return np.where((i < 0) | (i >= n), n, i)


def _samples() -> list[Case]:
    rng = np.random.default_rng(3)
    few, many = np.array([2, 0, 2, -1], np.int32), rng.integers(0, 37, 90)
    return [Case(((2, 3, 19), few), dict(fill="nan")), Case(((1, 37, 80), many), dict(fill="nan")), Case(((1, 37, 1), many[:11]), dict(fill="nan")),
            Case(((1, 3, 5), few.astype(np.uint8) % 3), dict(fill="zero"))]


def _indexed(name: str, x: Spec, index: Spec) -> None:
    if index.dtype not in INTS:
        raise DTypeError(f"{name}: expected an integer index; got {index.dtype}; cast it to int32.")
    if len(x.shape) != 3 or len(index.shape) != 1:
        raise ShapeError(f"{name}: expected x (a, v, d) and index (e); got {x.shape} and {index.shape}.")


def _gather_infer(x: Spec, index: Spec, *, fill: str) -> Spec:
    _indexed("gather", x, index)
    return Spec((x.shape[0], index.shape[0], x.shape[2]), x.dtype)


@kernel(cl="index.cl", samples=_samples, infer=_gather_infer, accepts="any")
def _gather(x: Any, index: Any, *, fill: str) -> Any:
    """y[a, e, d] = x[a, index[e], d]; NaN (or 0, by `fill`) where the index is outside"""
    missing = np.nan if fill == "nan" and np.asarray(x).dtype.kind not in "iub" else 0
    padded = np.concatenate([x, np.full_like(x, missing, shape=(x.shape[0], 1, x.shape[2]))], 1)
    return padded[:, _rows(index, x.shape[1])]


@_gather.defvjp
def _(g: Any, y: Any, x: Any, index: Any, *, fill: str) -> Any:
    return _scatter_add(g, index, rows=x.shape[1]), None


def _scatter_samples() -> list[Case]:
    rng = np.random.default_rng(4)
    few, many = np.array([2, 0, 2, -1, 4], np.int32), rng.integers(0, 37, 300)
    return [Case(((2, 5, 19), few), dict(rows=5)), Case(((1, 300, 83), many), dict(rows=40)), Case(((1, 300, 1), many.astype(np.int16)), dict(rows=37)),
            Case(((1, 1, 3), np.array([3], np.int64)), dict(rows=9))]


def _scatter_infer(source: Spec, index: Spec, *, rows: int) -> Spec:
    _indexed("scatter", source, index)
    if source.shape[1] != index.shape[0]:
        raise ShapeError(f"scatter: expected one index per row of the source; got {source.shape[1]} rows and {index.shape[0]} indices.")
    return Spec((source.shape[0], rows, source.shape[2]), source.dtype)


@kernel(cl="index.cl", samples=_scatter_samples, infer=_scatter_infer)
def _scatter_add(source: Any, index: Any, *, rows: int) -> Any:
    """y[a, v, d] = Σ of source[a, e, d] over e with index[e] = v"""
    y = np.zeros((rows + 1, source.shape[0], source.shape[2]), source.dtype)
    np.add.at(y, _rows(index, rows), source.swapaxes(0, 1))
    return y[:rows].swapaxes(0, 1)


@_scatter_add.defvjp
def _(g: Any, y: Any, source: Any, index: Any, *, rows: int) -> Any:
    return _gather(g, index, fill="zero"), None


@kernel(cl="index.cl", samples=_scatter_samples, infer=lambda source, index, *, rows: Spec(_scatter_infer(source, index, rows=rows).shape, "int64"))
def _scatter_argmax(source: Any, index: Any, *, rows: int) -> Any:
    """y[a, v, d] = the first e with index[e] = v whose source[a, e, d] is largest; −1 where there is none"""
    y = np.full((source.shape[0], rows + 1, source.shape[2]), -1, np.int64)
    top = np.zeros(y.shape, np.asarray(source).dtype)
    for e, v in enumerate(_rows(index, rows)):
        s, best = source[:, e], top[:, v]
        better = (y[:, v] < 0) | (s > best) | (np.isnan(s) & ~np.isnan(best))
        y[:, v], top[:, v] = np.where(better, e, y[:, v]), np.where(better, s, best)
    return y[:, :rows]


_scatter_argmax.differentiable = False


# --- launches
def _sizes(batch: int, rows: int, edges: int, width: int, device: Any) -> dict[str, Any]:
    item = "uint" if batch * max(rows, edges) * width < 1 << 32 else "size_t"
    return {"BATCH": batch, "ROWS": rows, "EDGES": edges, "WIDTH": width, "GPU": int(device.kind == "gpu"), "ITEM": item}


def _lanes(device: Any, dtype: str, width: int) -> int:
    """Vector lanes along the rows; on GPUs only where they are whole vectors."""
    if device.kind == "gpu":
        return gpu_lanes(width)
    lanes: int = device.vector_width * 4 // max(4, np.dtype(dtype).itemsize)
    return lanes if width >= lanes else 1


@_gather.deflaunch
def _(device: Any, operands: Any, *, fill: str) -> Any:
    from ..engine.codegen import Stage

    (batch, rows, width), edges, dtype = operands[0].shape, operands[1].shape[0], operands[0].dtype
    defines = {**_sizes(batch, rows, edges, width, device), "STAGE": "GATHER", "MISSING": "NAN" if fill == "nan" and is_float(dtype) else "0"}
    domain, total = (batch, edges, width), batch * edges
    if device.kind == "gpu":
        lanes = _lanes(device, dtype, width)
        return [Stage("gather", defines, (-(-total * width // lanes // GPU_GROUP) * GPU_GROUP,), (GPU_GROUP,), domain, lanes, stepped=True)]
    items = max(1, min(total, device.compute_units * 4, total * width // 4096))
    chunk = -(-total // items)
    return [Stage("gather", {**defines, "CHUNK": chunk}, (-(-total // chunk),), (1,), domain, _lanes(device, dtype, width))]


def _sort_stages(device: Any, sizes: dict[str, Any], rows: int, edges: int) -> tuple[list[Any], str]:
    """(stages of the stable sort of edges by row, the scratch that holds the order)."""
    from ..engine.codegen import Stage

    kind = "gpu" if device.kind == "gpu" else "cpu"
    if kind == "gpu" and edges * (edges + rows) <= RANKS * device.compute_units and (rows + 1) * edges < 1 << 32 and device.max_work_group >= 32:
        lines = 1 << min(RANK_LINES, device.max_work_group // 32).bit_length() - 1
        defines = {**sizes, "STAGE": "RANK", "LINES": lines, "TO": "order0"}
        return [Stage("ranks", defines, (-(-(edges + rows + 1) // 32) * 32, lines), (32, lines),
                      scratch={"order0": 4 * edges, "offsets": 4 * (rows + 1)}, final=False)], "order0"
    p = max(1, min(-(-edges // SORT_SHARE[kind]), device.compute_units * 2 if kind == "cpu" else edges))
    need = rows.bit_length()
    bits = need if p == 1 and need <= ONE_PASS_BITS else min(need, SORT_BITS[kind])
    group = (GPU_GROUP,) if kind == "gpu" else (1,)
    chunk = -(-edges // p)
    grid = (-(-p // group[0]) * group[0],)
    scratch = {"counts": 4 * (1 << bits) * p, "order0": 4 * edges, "order1": 4 * edges, "offsets": 4 * (rows + 1)}
    stages, source, target = [], "order0", "order1"
    for n, shift in enumerate(range(0, need, bits)):
        source, target = target, source
        d = {**sizes, "P": p, "CHUNK": chunk, "BITS": bits, "SHIFT": shift, "FIRST": int(n == 0), "FROM": source, "TO": target}
        stages += [Stage("sort", {**d, "STAGE": "COUNT"}, grid, group, scratch=scratch, final=False),
                   Stage("scan", {**d, "STAGE": "SCAN", "GROUP": group[0]}, group, group, scratch=scratch, final=False),
                   Stage("sort", {**d, "STAGE": "PLACE"}, grid, group, scratch=scratch, final=False)]
    items = rows + 1 if kind == "gpu" else max(1, min(device.compute_units, rows // 4096))
    chunk = -(-(rows + 1) // items)
    grid = (-(-(rows + 1) // (chunk * group[0])) * group[0],)
    stages.append(Stage("bounds", {**sizes, "STAGE": "BOUNDS", "CHUNK": chunk, "FROM": target}, grid, group, scratch=scratch, final=False))
    return stages, target


def _scatter_launch(stage: str) -> Any:
    def launch(device: Any, operands: Any, *, rows: int) -> Any:
        from ..engine.codegen import Stage
        from ..engine.ctypes import STORAGE

        (batch, edges, width), dtype = operands[0].shape, operands[0].dtype
        if not edges or not rows:
            return None
        sizes = _sizes(batch, rows, edges, width, device)
        stages, order = _sort_stages(device, sizes, rows, edges)
        defines = {**sizes, "STAGE": stage, "FROM": order, "S": STORAGE[dtype]}
        domain, scratch = (batch, rows, width), stages[-1].scratch
        grid: tuple[int, ...]
        group: tuple[int, ...]
        lanes = _lanes(device, dtype, width) if stage == "SUM" else 1
        if device.kind == "gpu":
            grid, group = (-(-math.prod(domain) // lanes // GPU_GROUP) * GPU_GROUP,), (GPU_GROUP,)
        else:
            work = (rows + edges) * width * batch
            items = max(1, min(rows, device.compute_units * 4, work // 8192))
            columns = max(1, min(width // (16 * lanes), device.compute_units * 4 // items))
            chunk = -(-width // columns // lanes) * lanes
            grid, group = (items, -(-width // chunk)), (1, 1)
            defines |= {"ITEMS": items, "CHUNK": chunk}
        return [*stages, Stage("segments", defines, grid, group, domain, lanes, scratch, stepped=device.kind == "gpu")]

    return launch


_scatter_add.deflaunch(_scatter_launch("SUM"))
_scatter_argmax.deflaunch(_scatter_launch("ARGMAX"))


# Of no edges or no rows, for which there is no kernel.
_scatter_add.define = lambda source, index, *, rows: constant(0, source.dtype, (source.shape[0], rows, source.shape[2]))
_scatter_argmax.define = lambda source, index, *, rows: constant(-1, "int64", (source.shape[0], rows, source.shape[2]))


# --- what users call
def expect_indices(name: str, index: Any, n: int) -> None:
    """Raises IndexingError when any index lies outside [−n, n), wherever it is: reads two numbers back from the device."""
    t, n = _index(name, index), arguments.integer(name, "n", n, 0)
    if not t.size:
        return
    low, high = int(reduce_min(t)), int(reduce_max(t))
    if low < -n or high >= n:
        raise IndexingError(f"{name}: expected indices in [{-n}, {n}); got a range of [{low}, {high}]; clip them, or mend the vocabulary.")


def _index(name: str, index: Any) -> Tensor:
    """Row numbers as a tensor. Raises DTypeError for a mask, which is none, and for floats."""
    value = index if isinstance(index, Operators) else arguments.array(name, index)
    if not isinstance(index, Operators) and not value.size:
        value = value.astype(np.int64)
    t = as_tensor(value)
    if t.dtype not in INTS:
        way = "x[mask] selects by a mask" if t.dtype == "bool" else "cast it to int32"
        raise DTypeError(f"{name}: expected integer indices; got {t.dtype}; {way}.")
    return t


def gather(x: Any, index: Any, axis: int = 0) -> Tensor:
    """y[…, i…, …] = x[…, index[i…], …] along `axis`; negative indices count from the end.

    Raises IndexingError for host indices outside; on the device such rows are NaN (0 for integers), see `expect_indices`.
    """
    x, index = as_tensor(x), _index("gather", index)
    axis = arguments.axis("gather", axis, x.ndim)
    arguments.indices("gather", index, x.shape[axis])
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    rows = reshape(x, (math.prod(lead), x.shape[axis], math.prod(rest)))
    y = _gather(rows, reshape(index, (index.size,)), fill="nan")
    return reshape(y, (*lead, *index.shape, *rest))


def _as_rows(name: str, x: Any, index: Any, axis: int, rows: int) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    x, index = as_tensor(x), _index(name, index)
    axis = arguments.axis(name, axis, x.ndim)
    if x.shape[axis : axis + index.ndim] != index.shape:
        raise ShapeError(f"{name}: expected index of shape {x.shape[axis : axis + 1]} along axis {axis} of {x.shape}; got {index.shape}.")
    arguments.indices(name, index, rows)
    lead, rest = x.shape[:axis], x.shape[axis + index.ndim :]
    return reshape(x, (math.prod(lead), index.size, math.prod(rest))), reshape(index, (index.size,)), (*lead, rows, *rest)


def scatter_add(source: Any, index: Any, v: int, axis: int = 0) -> Tensor:
    """y[v] = Σ of source[e] over e with index[e] = v: v rows, empty ones 0, summed in the order of e. The adjoint of gather."""
    v = arguments.integer("scatter_add", "v", v, 0)
    rows, flat, shape = _as_rows("scatter_add", source, index, axis, v)
    return reshape(_scatter_add(rows, flat, rows=v), shape)


def scatter_mean(source: Any, index: Any, v: int, axis: int = 0) -> Tensor:
    """y[v] = the mean of source[e] over e with index[e] = v; empty rows 0."""
    v = arguments.integer("scatter_mean", "v", v, 0)
    rows, flat, shape = _as_rows("scatter_mean", source, index, axis, v)
    count = _scatter_add(ones((1, flat.size, 1), rows.dtype), flat, rows=v)
    return reshape(_scatter_add(rows, flat, rows=v) / maximum(count, 1), shape)


def scatter_max(source: Any, index: Any, v: int, axis: int = 0) -> Tensor:
    """y[v] = the maximum of source[e] over e with index[e] = v; empty rows 0; the gradient goes to the first maximum."""
    v = arguments.integer("scatter_max", "v", v, 0)
    rows, flat, shape = _as_rows("scatter_max", source, index, axis, v)
    best = _scatter_argmax(rows, flat, rows=v)
    top = take_along_axis(rows, maximum(best, 0), 1)
    return reshape(where(best >= 0, top, 0), shape)


def take_along_axis(x: Any, index: Any, axis: int) -> Tensor:
    """y[…, i, …] = x[…, index[…, i, …], …]: an index of its own for every line along `axis`, as in NumPy."""
    x, index = as_tensor(x), _index("take_along_axis", index)
    axis = arguments.axis("take_along_axis", axis, x.ndim)
    if x.ndim != index.ndim or any(a != b for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if d != axis):
        raise ShapeError(f"take_along_axis: expected shapes equal but for axis {axis}; got {x.shape} and {index.shape}.")
    arguments.indices("take_along_axis", index, x.shape[axis])
    n, lead, rest = x.shape[axis], math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    inside = reshape(cast(index, "int64"), (lead, index.shape[axis], rest))
    inside = where(inside < 0, inside + n, inside)
    line = reshape(arange(n=lead, dtype="int64"), (lead, 1, 1)) * (n * rest) + arange(n=rest, dtype="int64")
    outside = (inside < 0) | (inside >= n)
    flat = where(outside, x.size, inside * rest + line)
    y = _gather(reshape(x, (1, x.size, 1)), reshape(flat, (flat.size,)), fill="nan")
    return reshape(y, index.shape)


def one_hot(labels: Any, classes: int, dtype: str = "float32") -> Tensor:
    """y[…, k] = 1 where labels[…] = k, else 0; the new axis is the last. Labels are integers or bools. Raises ConfigError, DTypeError."""
    classes, labels = arguments.integer("one_hot", "classes", classes, 0), labels if isinstance(labels, Operators) else arguments.array("one_hot", labels)
    labels = _index("one_hot", cast(labels, "uint8") if labels.dtype == "bool" else labels)
    return cast(equal(reshape(labels, (*labels.shape, 1)), arange(n=classes, dtype="int32")), dtype)
