"""Which variant of normalize.cl with which grid: rows over cores on a CPU, a work-group a row on a GPU."""

from __future__ import annotations

import math
from typing import Any

from ..spec import NARROW, is_float

LONGEST = 256  # rows whose gradients of parameters a work-item of a CPU adds: with more, one loses digits against the sum
WORTH = 2048  # [elements] that are worth a work-item of their own on a CPU
ITEM = 12  # [elements] of a row that a work-item of a GPU takes, more of long ones
GROUP = 256  # [work-items] of a group on a GPU
COLUMN_ITEM, COLUMN_GROUP = 16, 128  # the same for partial sums of columns, where a row fits such a group
RESIDENT = 512  # [work-items] a compute unit of a GPU for them
GPU_FILE = "normalize_gpu.cl"
HELD = 16 * GROUP  # [elements] longest rows of which a GPU sums over columns what it has in registers for the rows' own gradient
KEPT = 8192  # [elements] the same on a CPU, in private memory (KEEP of normalize.cl)
WIDE = 1 << 16  # [elements] rows from here on are folded by all cores together, unless there are enough rows for all


def row_stages(device: Any, operands: Any, kind: str, **defines: Any) -> Any:
    """One launch of the kernel `rows` over the last axis; None (the formula) where operands are not of one float type or rows are few and wide."""
    from ..engine.codegen import Stage

    x = operands[0]
    n, rows = x.shape[-1], math.prod(x.shape[:-1])
    if not _suits(device, operands, n, rows):
        return None
    scalar = kind in ("CROSS_ENTROPY", "SOFT_CROSS_ENTROPY")
    domain = (rows,) if scalar else (rows, n)
    also = (rows,) if kind == "CROSS_ENTROPY_AND_SLOPE" else ()
    if device.kind == "gpu":
        macros, (group, lines) = _gpu_macros(device, x, kind, defines)
        grid = (group, -(-rows // lines) * lines)
        return [Stage("rows", macros, grid, (group, lines), domain=domain, also=also, lanes=gpu_lanes(n), file=GPU_FILE, stepped=True)]
    items = max(1, min(rows, device.compute_units * 4, rows * n // WORTH))
    chunk = -(-rows // items)
    macros = dict(KIND=kind, ROWS=rows, N=n, CHUNK=chunk, **_fma(device), **defines)
    return [Stage("rows", macros, (-(-rows // chunk),), (1,), domain=domain, also=also, lanes=_lanes(device, n), stepped=True)]


def column_stages(device: Any, operands: Any, kind: str, outputs: int, **defines: Any) -> Any:
    """Partial sums over chunks of rows, then their sum: the kernels `partial_columns` and `columns`.

    Of the kinds GRADIENTS the first of them also gives the gradient of the rows.
    """
    from ..engine.codegen import Stage

    x = operands[0]
    n, rows = x.shape[-1], math.prod(x.shape[:-1])
    gpu, both = device.kind == "gpu", kind.endswith("GRADIENTS")
    if not _suits(device, operands, n, rows) or (both and not 1 < n <= (HELD if gpu else KEPT)):
        return None
    own: dict[str, Any] = dict(domain=(rows, n), stepped=True) if both else dict(final=False)
    result: dict[str, Any] = dict(also=(outputs, n)) if both else dict(domain=(outputs, n))
    size = COLUMN_GROUP if n <= COLUMN_ITEM * COLUMN_GROUP else GROUP
    chunk = -(-rows // max(1, min(rows, device.compute_units * (RESIDENT // size if gpu else 2), rows * n // WORTH)))
    chunk = chunk if gpu else min(chunk, LONGEST)
    items = -(-rows // chunk)
    sizes = dict(CHUNK=chunk, ITEMS=items, **defines)
    scratch = {"partial": items * outputs * n * (8 if x.dtype == "float64" else 4)}
    if gpu:
        macros, (group, lines) = _gpu_macros(device, x, kind, sizes, COLUMN_ITEM, size)
        slices = macros["SLICES"]
        return [Stage("partial_columns", dict(macros, PART=2), (items * group, lines), (group, lines), lanes=gpu_lanes(n), scratch=scratch,
                      file=GPU_FILE, **own),
                Stage("columns", dict(macros, PART=3), (-(-n // 32) * 32, slices, outputs), (32, slices, 1), file=GPU_FILE, **result)]
    lanes = _lanes(device, n)
    columns = max(lanes, -(-n // device.compute_units // lanes) * lanes)
    macros = dict(KIND=kind, ROWS=rows, N=n, COLUMNS=columns, **_fma(device), **sizes)
    return [Stage("partial_columns", dict(macros, PART=2), (items,), (1,), lanes=lanes, scratch=scratch, **own),
            Stage("columns", dict(macros, PART=3), (-(-n // columns), outputs), (1, 1), lanes=lanes, **result)]


def _suits(device: Any, operands: Any, n: int, rows: int) -> bool:
    floats = {"float32" if o.dtype in NARROW else o.dtype for o in operands if is_float(o.dtype)}  # 16 bits are widened where they are read
    return len(floats) == 1 and n > 0 and rows > 0 and (n < WIDE or rows >= device.compute_units)


def _fma(device: Any) -> dict[str, int]:
    return {"USE_FMA": int(device.runtime != "pocl")}


def _lanes(device: Any, n: int) -> int:
    """Vectors of the device's width, or of half, a quarter of it where a row is shorter than one."""
    lanes: int = device.vector_width
    while lanes > max(n, 1):
        lanes //= 2
    return lanes


def _gpu_macros(device: Any, x: Any, kind: str, more: dict[str, Any], item: int = ITEM, size: int = GROUP) -> tuple[dict[str, Any], tuple[int, int]]:
    """The macros of normalize_gpu.cl, and the work-group: items a row (about `item` elements each), rows that share a group."""
    n = x.shape[-1]
    most = min(size, device.max_work_group)
    group = min(most, 1 << max(0, -(-n // item) - 1).bit_length())
    macros = dict(KIND=kind, ROWS=math.prod(x.shape[:-1]), N=n, GROUP=group, LINES=most // group, SLICES=max(1, min(32, device.max_work_group // 32)),
                  SINGLE_T=int(x.dtype != "float64"), **_fma(device), **more)
    return macros, (group, most // group)


def gpu_lanes(n: int) -> int:
    """Vectors of 4 on a GPU where a row is a number of them."""
    return 4 if n % 4 == 0 else 1
