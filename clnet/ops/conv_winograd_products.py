"""3x3 convolutions of many channels on GPUs as 36 products of matrices (conv_winograd_products.cl): their stages, and how long they take.

Pure Python, no OpenCL. The products are those of matmul_gpu.cl; times in cycles of a compute unit, as there.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from . import conv_winograd, matmul_gpu_geometry
from .matmul_geometry import LOCAL

FILE = "conv_winograd_products.cl"
PRODUCTS = 36


def _places(layout: Any, n: int) -> int:
    """Tiles of 4 x 4 results in all images."""
    return n * ceil(layout.result[1] / 4) * ceil(layout.result[2] / 4)


def _product(device: Any, m: int, n: int, k: int, along_k: bool, split: tuple[int, ...]) -> Any:
    """Which kernel multiplies, as matmul_gpu_geometry plans it."""
    t = {**matmul_gpu_geometry.TUNED, **matmul_gpu_geometry.lookup(device, "matmul"), "split": split, "turn": (1e18, 1.0), "thin": 0}
    local = max(device.local_memory, LOCAL.get(device.compute_capability, 0))
    copies = device.inline_ptx and device.compute_capability >= 80
    return matmul_gpu_geometry._plan(tuple(sorted(t.items())), device.compute_units, local, device.max_work_group, copies, PRODUCTS, m, n, k,
                                     (along_k, along_k), (True, True), 4)


def _multiply(plan: Any, common: dict[str, Any], m: int, n: int, k: int, pitches: tuple[int, int], along_k: bool, result: str, scratch: dict[str, int]) -> Any:
    """The stage of the 36 products; both operands lie in temporary memory, in lines of these lengths."""
    from ..engine.codegen import Stage

    strides = dict(zip(("X_M", "X_K", "W_N", "W_K"), (pitches[0], 1, pitches[1], 1) if along_k else (1, pitches[0], 1, pitches[1]), strict=True))
    sizes = [p * (rows if along_k else k) for p, rows in zip(pitches, (m, n), strict=True)]
    defines = {**plan["defines"], **strides, "M": m, "N": n, "K": k, "BATCH": PRODUCTS, "SPLIT": plan["split"], "K_PART": plan["part"], "X_TURNED": 1,
               "W_TURNED": 1, "X_BATCH(b)": f"((size_t)(b) * {sizes[0]})", "W_BATCH(b)": f"((size_t)(b) * {sizes[1]})", "USE_FMA": 1,
               "OPERAND_X": common["OPERAND_X"], "OPERAND_W": common["OPERAND_W"], "RESULT(b, m, n, v)": result}
    grid = plan["groups"] * plan["items"], 1, PRODUCTS * plan["split"]
    return Stage("matmul", defines, grid, (plan["items"], 1, 1), (), 4, scratch, False, plan["file"])


def forward(device: Any, layout: Any, defines: dict[str, Any], domain: tuple[int, ...], t: dict[str, Any], limit: float) -> Any:
    """The stages of conv or conv_data_gradient, or None where they take longer than `limit` or ask for too much memory."""
    n, o, c, places = *(defines[k] for k in ("N", "O", "C")), _places(layout, defines["N"])
    pitch, op = ceil(places / 4) * 4, ceil(o / 4) * 4
    scratch = {"turned_x": PRODUCTS * c * op * 4, "turned_w": PRODUCTS * c * pitch * 4, "products": PRODUCTS * o * pitch * 4}
    if defines["GROUPS"] > 1 or min(o, c) < t["winograd_channels"] or max(scratch.values()) > device.max_alloc // 16:
        return None
    plan = _product(device, o, pitch, c, False, (1,))
    moved = 2 * (scratch["turned_w"] + scratch["products"]) + n * (layout.data[1] * layout.data[2] * c + layout.result[1] * layout.result[2] * o) * 4
    if plan["time"] + moved / t["winograd_bytes"] + 3 * t["launch"] > limit:
        return None
    common = {**defines, **conv_winograd.source(layout), "PLACES": places, "PITCH": pitch, "TO": "turned_w", "OPERAND_X": defines["DATA"], "OPERAND_W": "w"}
    result = f"((__global T*)products)[((size_t)(b) * {o} + (m)) * {pitch} + (n)] = (v)"
    return [_stage("winograd_spread_weights", {**common, "VARIANT": "PACK"}, (ceil(o / 32) * 32, c, 1), 32, scratch),
            _stage("winograd_spread_data", {**common, "VARIANT": "SPREAD_DATA"}, (ceil(pitch / 64) * 64, c, 1), 64, scratch),
            _multiply(plan, common, o, pitch, c, (op, pitch), False, result, scratch),
            _stage("winograd_gather", {**common, "VARIANT": "RESULTS"}, (ceil(places / 64) * 64, o, 1), 64, scratch, domain, layout.result[2] % 4 == 0)]


def weights(device: Any, layout: Any, sizes: tuple[int, int, int, int], t: dict[str, Any], limit: float) -> Any:
    """The stages of conv_weight_gradient, or None where they take longer than `limit` or ask for too much memory."""
    n, groups, o, c = sizes
    places = _places(layout, n)
    pitch = ceil(places / 4) * 4
    scratch = {"turned_x": PRODUCTS * o * pitch * 4, "turned_w": PRODUCTS * c * pitch * 4}
    if groups > 1 or min(o, c) < t["winograd_channels"] or max(scratch.values()) > device.max_alloc // 16:
        return None
    plan = _product(device, o, c, pitch, True, matmul_gpu_geometry.TUNED["split"])
    scratch["partial"] = plan["split"] * PRODUCTS * o * c * 4
    moved = 2 * sum(scratch.values()) + n * (layout.data[1] * layout.data[2] * c + layout.result[1] * layout.result[2] * o) * 4
    if plan["time"] + moved / t["winograd_bytes"] + 3 * t["launch"] > limit:
        return None
    common = {"DATA": "x", "GRAD": "g", "N": n, "C": c, "O": o, **layout.defines(1), **conv_winograd.source(layout), "PLACES": places, "PITCH": pitch,
              "SPLIT": plan["split"], "OPERAND_X": "g", "OPERAND_W": "x", "USE_FMA": 1}
    result = f"((__global T*)partial)[(((size_t)(part) * {PRODUCTS} + (b)) * {o} + (m)) * {c} + (n)] = (v)"
    return [_stage("winograd_spread_data", {**common, "VARIANT": "SPREAD_DATA", "TO": "turned_w"}, (ceil(pitch / 64) * 64, c, 1), 64, scratch),
            _stage("winograd_spread_grad", {**common, "VARIANT": "SPREAD_GRAD", "TO": "turned_x"}, (ceil(pitch / 64) * 64, o, 1), 64, scratch),
            _multiply(plan, common, o, c, pitch, (pitch, pitch), True, result, scratch),
            _stage("winograd_gather_weights", {**common, "VARIANT": "WEIGHTS"}, (ceil(c / 64) * 64, o, 1), 64, scratch, (o * c * 9,))]


def _stage(kernel: str, defines: dict[str, Any], grid: tuple[int, ...], items: int, scratch: dict[str, int], domain: tuple[int, ...] = (),
           stepped: bool = False) -> Any:
    from ..engine.codegen import Stage

    return Stage(kernel, defines, grid, (items, 1, 1), domain, 4 if kernel == "winograd_gather" else 1, scratch, bool(domain), FILE, stepped)
