"""Attention on tensor cores (attention_tensor.cl): for which devices and operands, with which tiles.

Pure Python, no OpenCL. Sizes in elements unless said otherwise.
"""

from __future__ import annotations

import math
from typing import Any

from ..engine.tune import tuned as lookup
from .matmul_tensor_geometry import NARROW

FEATURES = (32, 64, 128)
PIECE = 8  # elements of 16 bytes
AXES = {"q": "NHTD", "k": "NHSD", "v": "NHSE", "g": "NHTE"}
# WARPS, MI, BN, STAGES, HOLD of attention_tensor.cl; by kernel and the larger number of features. "hopper ...": WARPS, BN, STAGES of attention_wgmma.cl
TUNED: dict[str, Any] = {
    "forward 32": (4, 2, 64, 2, 1), "forward 64": (4, 2, 64, 3, 1), "forward 128": (8, 1, 64, 2, 1),
    "queries 32": (4, 2, 32, 2, 1), "queries 64": (4, 2, 32, 2, 1), "queries 128": (8, 1, 32, 2, 0),
    "hopper forward 32": (4, 128, 2), "hopper forward 64": (4, 128, 2), "hopper queries 32": (4, 64, 2), "hopper queries 64": (4, 64, 2),
    "hopper keys 32": (4, 64, 2), "hopper keys 64": (4, 64, 2),
    "keys 32": (4, 2, 32, 2, 0), "keys 64": (4, 2, 32, 2, 0), "keys 128": (8, 1, 32, 2, 0),
}


def suits(device: Any, operands: dict[str, Any], scale: float, precision: str, narrow: str) -> str:
    """The arithmetic, bf16 or fp16, or "" where the device has no such instructions, or the operands ask for another kernel.

    16-bit operands whose result shall be float32 are another's: the weights would be rounded here.
    """
    ours = [o for name, o in operands.items() if name in AXES]
    arithmetic = NARROW.get(narrow, precision)
    fits = {o.dtype for o in ours} == {narrow or "float32"} and "mask" not in operands and all(o.shape[3] in FEATURES and math.prod(o.shape) for o in ours)
    return arithmetic if device.ampere and fits and scale > 0 and arithmetic in NARROW.values() else ""


def stages(device: Any, kernel: str, operands: dict[str, Any], macros: dict[str, Any], passes: list[tuple[str, int, int, dict[str, Any]]],
           domain: tuple[int, ...], arithmetic: str) -> list[Any]:
    """A launch for each of `passes` (entry of TUNED, length, heads, more macros), after one that packs what cannot be copied as it lies."""
    from ..engine.codegen import Stage

    tiles = {**TUNED, **lookup(device, "attention_tensor")}
    narrow = next(iter(operands.values())).dtype in NARROW
    packed = {name: o for name, o in operands.items() if name in AXES and not (narrow and _whole(o))}
    scratch = {f"packed_{name}": 2 * math.prod(o.shape) for name, o in packed.items()}
    common = {**macros, "PRECISION": arithmetic.upper(), "NARROW": int(narrow), "BATCH": operands["q"].shape[0],
              **{f"PACK_{name.upper()}": int(name in packed) for name in AXES}}
    found = []
    if packed:
        items = sum(math.prod(o.shape) // PIECE for o in packed.values())
        found = [Stage("attention_pack", dict(common), (-(-items // 256) * 256, 1, 1), (256, 1, 1), scratch=scratch, final=False, file="attention_pack.cl")]
    for name, o in packed.items():
        _, heads, length, features = o.shape
        strides = (heads * length * features, length * features, features, 1)
        common.update({f"{name.upper()}_{axis}": s for axis, s in zip(AXES[name], strides, strict=True)})
    widest = max(operands["q"].shape[3], operands["v"].shape[3])
    for entry, length, heads, more in passes:
        hopper = tiles.get(f"hopper {entry} {widest}") if device.hopper else None
        names, file = (("WARPS", "BN", "STAGES"), "attention_wgmma.cl") if hopper else (("WARPS", "MI", "BN", "STAGES", "HOLD"), "attention_tensor.cl")
        shape = dict(zip(names, hopper or tiles[f"{entry} {widest}"], strict=False))
        rows = 16 * shape["WARPS"] * shape.get("MI", 1)
        found.append(Stage(kernel, {**common, **shape, **more}, (-(-length // rows) * 32 * shape["WARPS"], heads), (32 * shape["WARPS"], 1), domain=domain,
                           lanes=2, scratch=scratch, file=file, stepped=True, note=f"{arithmetic} on tensor cores"))
    return found


def _whole(operand: Any) -> bool:
    """Whether its rows of features lie in whole pieces."""
    steps = [s for n, s in zip(operand.shape[:3], operand.strides[:3], strict=True) if n > 1]
    return operand.strides[3] == 1 and all(s % PIECE == 0 for s in (*steps, operand.offset))
