"""Which variant of normalize.cl with which grid: rows over cores on a CPU, a work-group a row on a GPU."""

from __future__ import annotations

import math
from typing import Any

WORTH = 2048  # [elements] that are worth a work-item of their own on a CPU
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
    if device.kind == "gpu":
        group = _group(n)
        macros = dict(KIND=kind, ROWS=rows, N=n, GROUP=group, **defines)
        return [Stage("rows", macros, (rows * group,), (group,), domain=domain)]
    items = max(1, min(rows, device.compute_units * 4, rows * n // WORTH))
    chunk = -(-rows // items)
    macros = dict(KIND=kind, ROWS=rows, N=n, CHUNK=chunk, **defines)
    return [Stage("rows", macros, (-(-rows // chunk),), (1,), domain=domain, lanes=_lanes(device, n))]


def column_stages(device: Any, operands: Any, kind: str, outputs: int, **defines: Any) -> Any:
    """Partial sums over chunks of rows, then their sum: the kernels `partial_columns` and `columns`."""
    from ..engine.codegen import Stage

    x = operands[0]
    n, rows = x.shape[-1], math.prod(x.shape[:-1])
    if not _suits(device, operands, n, rows):
        return None
    gpu = device.kind == "gpu"
    group, lanes = (_group(n), 1) if gpu else (1, _lanes(device, n))
    wanted = min(rows, device.compute_units * 2, rows * n // WORTH)
    chunk = -(-rows // max(1, wanted))
    items = -(-rows // chunk)
    columns = 1 if gpu else max(lanes, -(-n // device.compute_units // lanes) * lanes)
    macros = dict(KIND=kind, ROWS=rows, N=n, GROUP=group, CHUNK=chunk, ITEMS=items, COLUMNS=columns, **defines)
    scratch = {"partial": items * outputs * n * (8 if x.dtype == "float64" else 4)}
    return [Stage("partial_columns", dict(macros, PART=2), (items * group,), (group,), lanes=lanes, scratch=scratch, final=False),
            Stage("columns", dict(macros, PART=3), (-(-n // columns), outputs), None if gpu else (1, 1), domain=(outputs, n), lanes=lanes)]


def _suits(device: Any, operands: Any, n: int, rows: int) -> bool:
    floats = {o.dtype for o in operands if o.dtype.startswith("float")}
    return len(floats) == 1 and n > 0 and rows > 0 and (n < WIDE or rows >= device.compute_units)


def _lanes(device: Any, n: int) -> int:
    """Vectors of the device's width, or of half, a quarter of it where a row is shorter than one."""
    lanes: int = device.vector_width
    while lanes > max(n, 1):
        lanes //= 2
    return lanes


def _group(n: int) -> int:
    """Work-items a row: about four elements each, a power of two in 32 … 256."""
    return max(32, min(256, 1 << max(0, -(-n // 4) - 1).bit_length()))
