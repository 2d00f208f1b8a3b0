"""Random numbers as a function of (key, counter): Philox4x32-10, written in ops,
so that every engine draws the same bits.

Every draw has a counter of its own, whoever draws adds one: block i of a draw is Philox
of counter words (i, counter, 0, 0), so draws never overlap, whatever their sizes. Nothing is kept here.
A key is a number, a uint32 scalar or two uint32 words; a counter is a number or a uint32 scalar on the device,
so that a recorded step can advance it.

Paper: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import arguments
from ..core.arguments import Sizes
from ..core.running import exact
from ..core.spec import INTS, dtype_name
from ..core.tensor import Tensor, TensorLike, as_tensor, constant
from ..errors import ConfigError, ShapeError
from ..names import tell as _tell
from .joining import concat
from .pointwise import arange, cast, cos, less, log, mul_high, sin, sqrt
from .view import reshape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

M0, M1 = 0xD2511F53, 0xCD9E8D57  # multipliers of the two halves
W0, W1 = 0x9E3779B9, 0xBB67AE85  # what the key grows by each round
ROUNDS = 10


def _word(x: TensorLike) -> Tensor:
    """x as a uint32 tensor; Python numbers are taken modulo 2³²."""
    if isinstance(x, (int, np.integer)):
        return constant(int(x) & 0xFFFFFFFF, "uint32")
    word = as_tensor(x)
    if word.dtype not in (*INTS, "bool"):
        raise ConfigError(f"random: expected integers as keys and counters; got {word.dtype}.")
    return cast(word, "uint32")


def philox4(c: Sequence[Any], key: Sequence[Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four uint32 words from four counter words and two key words: Philox4x32-10."""
    c0, c1, c2, c3 = map(_word, c)
    k0, k1 = map(_word, key)
    for n in range(ROUNDS):
        p0, p1 = constant(M0, "uint32"), constant(M1, "uint32")
        high0, low0, high1, low1 = mul_high(c0, p0), c0 * p0, mul_high(c2, p1), c2 * p1
        r0, r1 = k0 + constant(n * W0 & 0xFFFFFFFF, "uint32"), k1 + constant(n * W1 & 0xFFFFFFFF, "uint32")
        c0, c1, c2, c3 = high1 ^ c1 ^ r0, low1, high0 ^ c3 ^ r1, low0
    return c0, c1, c2, c3


def _blocks(key: TensorLike, counter: TensorLike, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The words of ⌈n / 4⌉ blocks, as four vectors."""
    return philox4((arange(n=-(-n // 4), dtype="uint32"), counter, 0, 0), _key(key))


def _key(key: TensorLike) -> tuple[Any, Any]:
    """The two key words. Host numbers become constants: no upload."""
    if isinstance(key, (int, np.integer)):
        return int(key) & 0xFFFFFFFF, int(key) >> 32 & 0xFFFFFFFF
    if isinstance(key, (np.ndarray, tuple, list)):
        words = arguments.integers("random", "key", np.ravel(arguments.array("random", key)), error=ConfigError)
        if len(words) not in (1, 2):
            raise ConfigError(f"random: expected a key of one or two words; got {len(words)}.")
        return words[0], words[1] if len(words) > 1 else 0
    key = as_tensor(key)
    if key.shape not in ((), (2,)) or key.dtype not in INTS:
        raise ConfigError(f"random: expected an integer key, or two uint32 words; got {key.dtype}{key.shape}.")
    return (key, 0) if not key.ndim else (key[0], key[1])


def counters(n: int) -> int:
    """How many counters a draw of n numbers uses up: one, since the block number is a counter word of its own."""
    return 1


def _lay(parts: Sequence[Tensor], n: int, shape: tuple[int, ...]) -> Tensor:
    """The parts one after the other, cut to n, in `shape`: element i is of block i mod ⌈n / 4⌉, word i div ⌈n / 4⌉."""
    whole = concat(parts, 0)
    return reshape(whole if whole.size == n else whole[:n], shape)


def philox(key: TensorLike, counter: TensorLike, n: int) -> Tensor:
    """n random uint32 words, a function of (key, counter, n) alone."""
    n = arguments.integer("philox", "n", n, 0)
    return _lay(_blocks(key, counter, n), n, (n,))


def _unit(word: Tensor) -> Tensor:
    """⌊word / 2⁸⌋ · 2⁻²⁴, exact in float32: in [0, 1)."""
    return cast(word >> constant(8, "uint32"), "float32") * 2.0**-24


def uniform(shape: Sizes, key: TensorLike, counter: TensorLike, low: float = 0.0, high: float = 1.0,
            dtype: DTypeLike = "float32") -> Tensor:
    """y ~ U[low, high): low + (high − low) · ⌊u / 2⁸⌋ · 2⁻²⁴ for Philox words u. Equal bits on every engine for [0, 1).
    """
    dims = arguments.sizes("uniform", shape)
    y = _unit(reshape(philox(key, counter, math.prod(dims)), dims))
    y = y if (low, high) == (0.0, 1.0) else y * float(high - low) + float(low)
    return cast(y, dtype)


def normal(shape: Sizes, key: TensorLike, counter: TensorLike, mean: float = 0.0, std: float = 1.0,
           dtype: DTypeLike = "float32") -> Tensor:
    """y ~ N(mean, std²): √(−2 ln u) · cos 2πv and · sin 2πv, u in (0, 1], v in [−½, ½)."""
    dims, std = arguments.sizes("normal", shape), arguments.real("normal", "std", std, 0)
    n = math.prod(dims)
    words, parts = _blocks(key, counter, n), []
    for a, b in (words[:2], words[2:]):
        radius = sqrt(log(_unit(a) + 2.0**-24) * -2.0)
        angle = (_unit(b) - 0.5) * (2 * math.pi)
        parts += [radius * cos(angle), radius * sin(angle)]
    y = _lay(parts, n, dims)
    y = y if (mean, std) == (0.0, 1.0) else y * float(std) + float(mean)
    return cast(y, dtype)


def bernoulli(p: TensorLike, shape: Sizes, key: TensorLike, counter: TensorLike, dtype: DTypeLike = "bool") -> Tensor:
    """y = 1 with probability p (a number or tensor that broadcasts to `shape`), else 0.
    Raises ConfigError for a number outside [0, 1].
    """
    if isinstance(p, (int, float)):
        arguments.real("bernoulli", "p", p, 0, most=1)
    drawn = less(uniform(arguments.sizes("bernoulli", shape), key, counter), p)
    if drawn.shape != arguments.sizes("bernoulli", shape):
        raise ShapeError(f"bernoulli: expected p to broadcast to {shape}; got {as_tensor(p).shape}.")
    return cast(drawn, dtype)


def randint(low: int, high: int, shape: Sizes, key: TensorLike, counter: TensorLike,
            dtype: DTypeLike = "int32") -> Tensor:
    """y ~ uniform on {low, …, high − 1}: low + ⌊u · (high − low) / 2³²⌋ for Philox words u. Raises ConfigError for an
    empty range or one of more than 2³² numbers, DTypeError for one that `dtype` cannot hold.
    """
    low, high = (arguments.integer("randint", name, v) for name, v in (("low", low), ("high", high)))
    if not 0 < high - low <= 1 << 32:
        raise ConfigError(f"randint: expected low < high, at most 2³² apart; got {low} and {high}.")
    dims = arguments.sizes("randint", shape)
    for end in (low, high - 1):
        arguments.number("randint", end, dtype_name(dtype))
    words = philox(key, counter, math.prod(dims))
    drawn = words if high - low == 1 << 32 else mul_high(words, constant(high - low, "uint32"))
    wide = cast(reshape(drawn, dims), "int64" if dtype_name(dtype) in ("int64", "uint64") else dtype)
    return cast(wide + low if low else wide, dtype)


def permutation(n: int, key: TensorLike, counter: TensorLike) -> np.ndarray[Any, Any]:
    """0 … n − 1 in random order (int64, on the host): the order that sorts n random 64-bit numbers."""
    n = arguments.integer("permutation", "n", n, 0)
    (words,) = exact().values([as_tensor(philox(key, counter, 2 * n))])
    return np.argsort(words[:n].astype(np.uint64) << np.uint64(32) | words[n:], kind="stable")


_tell(__name__)
