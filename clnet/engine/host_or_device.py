"""Where a call on host arrays runs: on the host where that was measured to be faster, else on the device.

`clnet tune --placement` measures per op the largest size [elements] at which NumPy answers sooner than upload, launch
and download, with a margin, and keeps it in the user's folder. Without that file nothing is placed; tensors on the
device stay there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.op import OPS, Pointwise, Reduction, View
from ..core.tensor import Tensor, tensor
from .device.folders import cache_root, private_folder, slug, write_atomically
from .reference import NumpyEngine

if TYPE_CHECKING:
    from .device.device import Device
    from .protocol import Engine

MARGIN = 0.9  # the host takes a size when it needs at most this share of the device's time
MOST = 8  # recorded ops that a call may consist of
DTYPES = ("float32", "int32", "int64", "bool")
SIZES = tuple(2**k for k in range(4, 23, 2))  # [elements]
SAMPLE, ROUNDS = 0.002, 7  # [s]

_host = NumpyEngine(None)


def _file(device: Device) -> Path:
    return cache_root() / "tuning" / f"placement-{slug(f'{device.name} {device.runtime}')}.json"


_tables: dict[str, dict[str, int]] = {}


def thresholds(device: Device) -> dict[str, int]:
    """op -> largest size [elements] for the host, as measured on this machine; {} where nothing was."""
    table = _tables.get(device.key)
    if table is None:
        table = _tables[device.key] = _read(_file(device))
    return table


def _read(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_text("utf-8"))["elements"]
        return {str(k): int(v) for k, v in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def on_host(t: Tensor, engine: Engine) -> np.ndarray[Any, Any] | None:
    """The value of a short chain of ops over small host arrays, computed by NumPy; None where the device serves better.
    """
    limits = thresholds(engine.device)
    if not limits or t.op is None or t.storage is not None:
        return None
    # most calls are decided here: this costs less than 1% of the smallest
    if not isinstance(t.op, View) and limits.get(t.op.name, 0) < t.size:
        return None
    nodes = _nodes(t)
    if nodes is None or not all(_small(n, limits) for n in nodes):
        return None
    value: np.ndarray[Any, Any] = _host.values([t])[0]
    return value.astype(t.dtype, copy=False)


def _nodes(t: Tensor) -> list[Tensor] | None:
    """What t is made of, inputs first; None for a long chain or one that no longer lies on the host."""
    found: list[Tensor] = []
    waiting = [t]
    while waiting:
        n = waiting.pop()
        if n.op is None and n.value is None or n.storage is not None or len(found) > 2 * MOST:
            return None
        found.append(n)
        waiting += n.inputs
    return found


def _small(n: Tensor, limits: dict[str, int]) -> bool:
    if n.dtype not in DTYPES:
        return False
    if n.op is None or isinstance(n.op, View) or not n.inputs:
        return True
    return max(n.size, *(i.size for i in n.inputs)) <= limits.get(n.op.name, 0)


# --- measuring
def measure(engine: Engine, calls: dict[str, Callable[[int], Callable[[], Tensor]]]) -> Iterator[tuple[str, int]]:
    """(op, largest size for the host) one after the other; each is saved at once.
    `calls[op](elements)` gives a fresh call on arrays.
    """
    found = dict(thresholds(engine.device))
    for name, call in calls.items():
        found[name] = _crossover(engine, call)
        save(engine.device, found)
        yield name, found[name]


def _crossover(engine: Engine, call: Callable[[int], Callable[[], Tensor]]) -> int:
    best = 0
    for size in SIZES:
        record = call(size)
        host, device = _time(lambda: _host.values([record()])), _time(lambda: engine.values([record()]))  # noqa: B023
        if host > MARGIN * device:
            return best
        best = size
    return best


def _time(call: Callable[[], Any]) -> float:
    """Median seconds of a call, after one that warms it."""
    call()
    start = time.perf_counter()
    call()
    repeats = max(1, int(SAMPLE / max(time.perf_counter() - start, 1e-7)))
    samples = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        samples.append((time.perf_counter() - start) / repeats)
    return float(np.median(samples))


def save(device: Device, elements: dict[str, int]) -> None:
    """Writes the table for this device into the user's folder, where it holds from now on."""
    path = _file(device)
    private_folder(path.parent)
    text = json.dumps({"device": device.name, "driver": device.driver, "margin": MARGIN, "elements": elements},
                      indent=1)
    write_atomically(path, (text + "\n").encode())
    _tables.pop(device.key, None)


def examples() -> dict[str, Callable[[int], Callable[[], Tensor]]]:
    """A call of every op that has one operand shape to scale: pointwise ops, reductions,
    and products of square matrices.
    """
    def arrays(n: int, count: int) -> list[np.ndarray[Any, Any]]:
        rng = np.random.default_rng(0)
        return [rng.uniform(0.5, 1.5, n).astype(np.float32) for _ in range(count)]

    def pointwise(op: Any) -> Callable[[int], Callable[[], Tensor]]:
        def call(n: int) -> Callable[[], Tensor]:
            xs = arrays(n, len(op.args))
            return lambda: op(*(tensor(x) for x in xs))
        return call

    def reduction(op: Any) -> Callable[[int], Callable[[], Tensor]]:
        def call(n: int) -> Callable[[], Tensor]:
            (x,) = arrays(n, 1)
            return lambda: op(tensor(x), axes=(0,))
        return call

    def product(n: int) -> Callable[[], Tensor]:
        side = max(1, int(n**0.5))
        x, w = (a.reshape(side, side) for a in arrays(side * side, 2))
        return lambda: tensor(x) @ tensor(w)

    def floats(op: Any) -> bool:
        try:
            return isinstance(op, Pointwise) and bool(op.args) and op.name != "cast" and pointwise(op)(4)().size == 4
        except Exception:  # an op of other operands
            return False

    found = {name: pointwise(op) for name, op in sorted(OPS.items()) if floats(op)}
    found |= {name: reduction(op) for name, op in sorted(OPS.items()) if isinstance(op, Reduction)}
    return found | {"matmul": product}
