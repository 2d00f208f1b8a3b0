"""The arithmetic of matrix products: IEEE float32 unless the user says otherwise.

    fp32     products and sums in IEEE float32
    fp32x3   three TF32 products for one, sums in float32: at K = 4096 and 8192 nearer to float64 than fp32
             (`clnet bench --suite accuracy`)
    tf32     operands rounded to 10 bits of mantissa, sums in float32
    bf16     operands rounded to bfloat16, sums in float32
    fp16     operands rounded to float16 (largest value 65504), sums in float32

A wish, per call (`matmul(x, w, precision="tf32")`), per block (`with clnet.precision("tf32"):`) or for all
(`clnet.set_precision("tf32")`): where a device has no tensor cores that clnet can use, or they would not be faster,
products run in fp32. `clnet.explain` says what ran.

`with clnet.autocast("bf16"):` goes further (mixed precision, Micikevicius et al. 2018, arXiv:1710.03740): results are
also stored in 16 bits, by the rules of clnet.autocast. `Trainer(precision="bf16")` trains so.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ..errors import ConfigError

PRECISIONS = ("fp32", "fp32x3", "tf32", "bf16", "fp16")
STORED = {"bf16": "bfloat16", "fp16": "float16"}  # the dtype that mixed precision stores
_default = PRECISIONS[0]


class _Local(threading.local):
    name = ""
    stored = ""
    products = True


_local = _Local()


def checked(name: str, who: str = "precision") -> str:
    """The name, if it is one. ConfigError."""
    if name not in PRECISIONS:
        raise ConfigError(f"{who}: expected one of {', '.join(PRECISIONS)}; got {name!r}.")
    return name


def current_precision() -> str:
    """What matrix products recorded now ask for: the innermost `with precision(...)` of this thread, else the default.
    """
    return _local.name or _default


def set_precision(name: str) -> None:
    """Makes it the default of all threads. ConfigError for an unknown name."""
    global _default
    _default = checked(name, "set_precision")


@contextlib.contextmanager
def precision(name: str) -> Iterator[None]:
    """Within the block this thread records matrix products, and their gradients, with this arithmetic.
    ConfigError for an unknown name.
    """
    before, _local.name = _local.name, checked(name)
    try:
        yield
    finally:
        _local.name = before


def stored_dtype() -> str:
    """The 16-bit dtype that values recorded now are stored in; "" outside of `autocast`."""
    return _local.stored


def casts_products() -> bool:
    """Whether products recorded now turn float32 operands into 16 bits;
    within a gradient they take what the forward took.
    """
    return _local.products


@contextlib.contextmanager
def autocast(name: str | None) -> Iterator[None]:
    """Within the block this thread records in mixed precision.

    "bf16", "fp16"             products read 16-bit operands and sum in float32; sums, exponentials, norms and losses
                               compute in float32; what pointwise ops make of 16-bit values stays in 16 bits. Parameters
                               stay as they are: products read a copy
    "fp32", "tf32", "fp32x3"   values in float32, products with this arithmetic
    None                       none of it: what is recorded keeps the dtypes of its operands
    Gradients may be taken inside or outside. ConfigError for an unknown name.
    """
    stored = STORED.get(checked(name, "autocast"), "") if name is not None else ""
    before, _local.stored = _local.stored, stored
    try:
        with precision("fp32" if stored else name or current_precision()):
            yield
    finally:
        _local.stored = before


@contextlib.contextmanager
def following() -> Iterator[None]:
    """Within the block products keep the dtypes of their operands: a gradient's are those of the forward."""
    before, _local.products = _local.products, False
    try:
        yield
    finally:
        _local.products = before
