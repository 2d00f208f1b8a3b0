"""Which kernel of attention.cl with which blocks and grid: chunks of queries over cores on a CPU, a work-group a tile on a GPU.

Sizes in elements unless said otherwise.
"""

from __future__ import annotations

import math
from typing import Any

from ..engine.tune import tuned as lookup
from . import attention_tensor_geometry

PRIVATE = 112 * 1024  # [floats] blocks of a work-item on a CPU: what leaves half of a 1 MB second-level cache free
KEEP = 48 * 1024  # [floats] of them for the gradient of queries, up to which one pass over the keys gives all three gradients
BLOCK = 64  # queries and keys of a block of the gradients
KEYS = 256  # keys of a block forward
CHUNK = 256  # queries of a work-item forward
# RI, LA, LB of attention_gpu.cl: what local memory has room for; wide features take small ones
TILES = {"forward": ((4, 16, 8), (4, 8, 8), (4, 4, 4), (2, 4, 4)), "backward": ((8, 8, 16), (4, 8, 16), (4, 8, 8), (4, 4, 4), (2, 4, 4))}
WIDEST = 256  # features of a head: beyond, blocks and registers run out
AXES = {"q": ("N", "H", "T", "D"), "k": ("N", "H", "S", "D"), "v": ("N", "H", "S", "E"), "mask": ("N", "H", "T", "S"),
        "g": ("N", "H", "T", "E"), "lse": ("N", "T", "H"), "delta": ("N", "T", "H")}
PREFIX = {"q": "Q", "k": "K", "v": "V", "mask": "MASK", "g": "G", "lse": "L", "delta": "A"}


def forward_stages(device: Any, operands: dict[str, Any], causal: bool, scale: float, precision: str = "fp32", narrow: str = "") -> Any:
    """One launch of `forward`; None (the formula) where there is no kernel for the operands' types or sizes, or an axis is empty."""
    from ..engine.codegen import Stage

    n, h, t, d, _, s, e = _sizes(operands)
    at = n * t * h * e
    if arithmetic := attention_tensor_geometry.suits(device, operands, scale, precision, narrow):
        macros = dict(_macros(device, operands, causal, scale), BACKWARD=0, LSE_AT=f"{at}ul", SPLIT=int(bool(narrow)))
        parts = 2 if narrow else 1
        return attention_tensor_geometry.stages(device, "forward", operands, macros, [("forward", t, n * h, {})], (at + parts * n * h * t,), arithmetic)
    if not _suits(device, operands):
        return None
    note = _note(precision)
    if device.kind == "gpu":
        return [_gpu_stage(device, "forward", operands, causal, scale, t, n * h, (at + n * h * t,), note, LSE_AT=f"{at}ul")]
    mr, nr = _tile(device)
    chunk = _up(min(CHUNK, t, max(2 * mr, n * h * t // (4 * device.compute_units))), mr)
    keys = _up(min(KEYS, s), nr)
    while keys > nr and chunk * (d + e) + keys * (d + e) > PRIVATE:
        chunk, keys = max(mr, _up(chunk // 2, mr)), max(nr, _up(keys // 2, nr))
    macros = dict(_macros(device, operands, causal, scale), BACKWARD=0, ROWS=chunk, BC=keys, LSE_AT=f"{at}ul")
    return [Stage("forward", macros, (-(-t // chunk), n * h), (1, 1), domain=(at + n * h * t,), lanes=device.vector_width, note=note)]


def backward_stages(device: Any, operands: dict[str, Any], causal: bool, scale: float, precision: str = "fp32", narrow: str = "") -> Any:
    """One launch of `backward`, or two where heads are few or long: one for the queries' gradient, one for the keys' and values'."""
    from ..engine.codegen import Stage

    n, h, t, d, hk, s, e = _sizes(operands)
    at, end = n * t * h * d, n * t * h * d + n * s * hk * (d + e)
    places = dict(DK_AT=f"{at}ul", DV_AT=f"{at + n * s * hk * d}ul")
    if arithmetic := attention_tensor_geometry.suits(device, operands, scale, precision, narrow):
        macros = dict(_macros(device, operands, causal, scale), BACKWARD=1, **places)
        passes = [("queries", t, n * h, dict(GRADIENTS=1)), ("keys", s, n * hk, dict(GRADIENTS=2))]
        return attention_tensor_geometry.stages(device, "backward", operands, macros, passes, (end,), arithmetic)
    if not _suits(device, operands):
        return None
    if device.kind == "gpu":
        return [_gpu_stage(device, "backward", operands, causal, scale, length, groups, (end,), _note(precision), GRADIENTS=which, **places)
                for which, length, groups in ((1, t, n * h), (2, s, n * hk))]
    mr, nr = _tile(device)
    rows, keys = _up(min(BLOCK, t), mr), _up(min(BLOCK, s), nr)
    macros = dict(_macros(device, operands, causal, scale), BACKWARD=1, BR=rows, BC=keys, **places)

    def stage(gradients: int, part: int, parts: int) -> Any:
        return Stage("backward", dict(macros, GRADIENTS=gradients, ROWS=part), (parts, n * hk), (1, 1), domain=(end,), lanes=device.vector_width,
                     note=_note(precision))

    if _up(t, rows) * (h // hk) * d <= KEEP and (n * hk >= 2 * device.compute_units or max(t, s) <= 2 * BLOCK):
        return [stage(3, _up(t, rows), 1)]
    part = _up(max(1, KEEP // (2 * d * (h // hk))), rows) if t > rows else rows
    part = min(part, _up(-(-t // max(1, 4 * device.compute_units // (n * hk))), rows))
    part_keys = min(_up(-(-s // max(1, 4 * device.compute_units // (n * hk))), keys), _up(s, keys))
    return [stage(1, part, -(-t // part)), stage(2, part_keys, -(-s // part_keys))]


def _gpu_stage(device: Any, kernel: str, operands: dict[str, Any], causal: bool, scale: float, length: int, heads: int,
               domain: tuple[int, ...], note: str, **macros: Any) -> Any:
    """A work-group for each tile of `length` rows (queries or keys) of each of `heads` heads."""
    from ..engine.codegen import Stage

    _, _, _, d, _, _, e = _sizes(operands)
    ri, la, lb = next((t for t in _tiles(device, kernel) if _fits(device, kernel, d, e, *t)), TILES[kernel][-1])
    # two work-groups have to fit: one works while the other waits
    ahead = kernel == "backward" and device.ampere and _local_floats(kernel, d, e, ri, la, lb, ahead=True) * 4 <= device.largest_local // 2
    defines = dict(_macros(device, operands, causal, scale), BACKWARD=int(kernel == "backward"), RI=ri, LA=la, LB=lb, ASYNC=int(ahead), **macros)
    whole = d % 4 == 0 and e % 4 == 0
    return Stage(kernel, defines, (-(-length // (ri * la)) * la * lb, heads), (la * lb, 1), domain=domain, file="attention_gpu.cl", note=note,
                 lanes=4 if whole else 1, stepped=whole)


def _note(precision: str) -> str:
    return "" if precision == "fp32" else f"fp32; {precision} was asked for"


def _tiles(device: Any, kernel: str) -> Any:
    """Tiles of a work-group on a GPU, the largest first."""
    return lookup(device, "attention_gpu").get(kernel, TILES[kernel])


def _room(device: Any) -> int:
    """Bytes of local memory of a work-group. What NVIDIA reports is what arguments may take; arrays of a kernel may be larger."""
    return 99 * 1024 if device.ampere else int(device.local_memory)


def _fits(device: Any, kernel: str, d: int, e: int, ri: int, la: int, lb: int) -> bool:
    """Whether local memory has room for the tiles, and every item a vector of each to copy."""
    vectors = -(-min(d, e) // 4)
    return _local_floats(kernel, d, e, ri, la, lb) * 4 <= _room(device) and ri * vectors >= lb and 4 * vectors >= la


def _local_floats(kernel: str, d: int, e: int, ri: int, la: int, lb: int, ahead: bool = False) -> int:
    """As attention_gpu.cl says."""

    def row(n: int) -> int:
        return 4 * (-(-n // 4) | 1)

    own, walk = ri * la, 4 * lb
    if kernel == "forward":
        return own * row(d) + max(walk * row(d), own * row(walk)) + walk * row(e) + own * row(lb)
    return (own + walk) * (row(d) + row(e)) + own * row(walk) + ahead * walk * row(d)


def _suits(device: Any, operands: dict[str, Any]) -> bool:
    floats = {o.dtype for name, o in operands.items() if name != "mask" or o.dtype != "bool"}
    return floats == {"float32"} and all(math.prod(o.shape) for o in operands.values()) and max(_sizes(operands)[3], _sizes(operands)[6]) <= WIDEST


def _sizes(operands: dict[str, Any]) -> tuple[int, ...]:
    n, h, t, d = operands["q"].shape
    hk, s, e = operands["v"].shape[1:]
    return n, h, t, d, hk, s, e


def _macros(device: Any, operands: dict[str, Any], causal: bool, scale: float) -> dict[str, Any]:
    _, h, t, d, hk, s, e = _sizes(operands)
    mask = operands.get("mask")
    macros: dict[str, Any] = dict(H=h, HK=hk, QUERIES=t, KEYS=s, D=d, E=e, CAUSAL=int(causal), SCALE=repr(float(scale)),
                                  MASKED=0 if mask is None else 1 if mask.dtype == "bool" else 2)
    for name, operand in operands.items():
        macros.update({f"{PREFIX[name]}_{axis}": stride for axis, stride in zip(AXES[name], operand.strides, strict=True)})
    if device.kind == "cpu":
        mr, _ = _tile(device)
        macros.update(MR=mr, USE_FMA=int(device.runtime != "pocl"))
    return macros


def _tile(device: Any) -> tuple[int, int]:
    """(rows of the register tile, keys of a panel): 16 sums where vectors are 64 bytes and registers 32, else 8."""
    lanes = device.vector_width
    return min(8 if lanes >= 16 else 4, lanes), 2 * lanes


def _up(n: int, by: int) -> int:
    return -(-n // by) * by
