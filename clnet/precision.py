"""The arithmetic of matrix products: IEEE float32 unless the user says otherwise.

    fp32     products and sums in IEEE float32
    fp32x3   three TF32 products for one, sums in float32: float32's error on tensor cores
    tf32     operands rounded to 10 bits of mantissa, sums in float32
    bf16     operands rounded to bfloat16, sums in float32
    fp16     operands rounded to float16 (largest value 65504), sums in float32

A wish, per call (`matmul(x, w, precision="tf32")`), per block (`with clnet.precision("tf32"):`) or for all (`clnet.set_precision("tf32")`):
where a device has no tensor cores that clnet can use, or they would not be faster, products run in fp32. `clnet.explain` says what ran.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from .errors import ConfigError

PRECISIONS = ("fp32", "fp32x3", "tf32", "bf16", "fp16")
_default = PRECISIONS[0]


class _Local(threading.local):
    name = ""


_local = _Local()


def checked(name: str, who: str = "precision") -> str:
    """The name, if it is one. ConfigError."""
    if name not in PRECISIONS:
        raise ConfigError(f"{who}: expected one of {', '.join(PRECISIONS)}; got {name!r}.")
    return name


def current_precision() -> str:
    """What matrix products recorded now ask for: the innermost `with precision(...)` of this thread, else the default."""
    return _local.name or _default


def set_precision(name: str) -> None:
    """Makes it the default of all threads. ConfigError for an unknown name."""
    global _default
    _default = checked(name, "set_precision")


@contextlib.contextmanager
def precision(name: str) -> Iterator[None]:
    """Within the block this thread records matrix products, and their gradients, with this arithmetic. ConfigError for an unknown name."""
    before, _local.name = _local.name, checked(name)
    try:
        yield
    finally:
        _local.name = before
