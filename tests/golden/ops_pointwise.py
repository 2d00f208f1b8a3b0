"""Elementwise ops, activations and their gradients: each (inputs, attributes) -> output; MORE where draws miss what
tells ops apart.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rules import More, by, pulled

SAME = """
    abs add bit_and bit_or bit_xor ceil cos cosh div equal erf exp exp2 expm1 floor greater greater_equal hypot
    isfinite isnan less less_equal log log10 log1p log2 maximum minimum mul neg not_equal pow reciprocal relu
    round rsqrt sigmoid sign sin sinh sqrt square sub tan tanh trunc where
""".split()  # noqa: SIM905
TORCH = {"bit_and": "bitwise_and", "bit_or": "bitwise_or", "bit_xor": "bitwise_xor", "equal": "eq", "not_equal": "ne"}


def cast(x: Any, dtype: str) -> Any:
    """By way of the dtype; narrow floats come back as float64, which holds them exactly."""
    y = x.to(getattr(torch, dtype))
    return y.double() if y.is_floating_point() else y


def leaky(x: Any, slope: Any) -> Any:
    return torch.clamp(x, min=0) + slope * torch.clamp(x, max=0)


@by("python integers")
def mul_high(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)
    words = [int(a) * int(b) >> 32 for a, b in zip(x.ravel(), y.ravel(), strict=True)]
    return np.array(words, np.uint32).reshape(x.shape)


@by("python integers")
def stochastic_round(x: Any, y: Any) -> Any:
    x, y = np.broadcast_arrays(x, y)
    words = [struct.unpack("<I", struct.pack("<f", a))[0] + int(b) for a, b in zip(x.ravel(), y.ravel(), strict=True)]
    return np.array([struct.unpack("<f", struct.pack("<I", w >> 16 << 16))[0] for w in words]).reshape(x.shape)


def bce(x: Any, y: Any) -> Any:
    return F.binary_cross_entropy_with_logits(*torch.broadcast_tensors(x, y), reduction="none")


def slope(f: Callable[[Any], Any]) -> Callable[..., Any]:
    """g · f'(x)"""
    def rule(g: Any, x: Any) -> Any:
        g, x = torch.broadcast_tensors(g, x)
        return pulled(f(x), x, g)[0]

    return rule


def squash(x: Any) -> Any:
    n = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return n**2 / (1 + n**2) * x / torch.sqrt(n**2 + 1e-8)


class Digamma(torch.autograd.Function):
    """PyTorch's ψ with the slope by Hurwitz's ζ, π²/sin²(πx) − ζ(2, 1 − x) for x < 0: its own is good to 1e-9."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx: Any, *g: Any) -> Any:
        (x,) = ctx.saved_tensors
        two, low = torch.full_like(x, 2.0), x < 0
        found = torch.special.zeta(two, torch.where(low, 1 - x, x))
        return g[0] * torch.where(low, (math.pi / torch.sin(math.pi * x))**2 - found, found)


RULES = {
    "squash": squash,
    **{n: getattr(torch, n) for n in ("arcsin", "arccos", "arcsinh", "arccosh", "arctanh", "arctan2", "logaddexp",
                                      "lgamma", "erfinv", "lerp")},
    "digamma": Digamma.apply,
    **{n: getattr(torch, TORCH.get(n, n)) for n in SAME},
    "arctan": torch.arctan, "floordiv": lambda x, y: torch.floor_divide(x.detach(), y.detach()), "mod": torch.remainder,
    "softplus": F.softplus,
    "softsign": F.softsign, "mish": F.mish, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "swish": F.silu,
    "elu": lambda x, a=1.0: torch.where(x > 0, x, a * F.elu(x)), "selu": F.selu, "celu": F.celu, "leaky_relu": leaky,
    "relu6": F.relu6,
    "hard_tanh": F.hardtanh, "hard_sigmoid": lambda x: F.relu6(x + 3) / 6,
    "hard_swish": lambda x: x * F.relu6(x + 3) / 6,  # PyTorch's own have 1/6 in float32 even for float64
    "gelu_gradient": slope(F.gelu), "gelu_tanh_gradient": slope(lambda x: F.gelu(x, approximate="tanh")),
    "swish_gradient": slope(F.silu),
    "clip": lambda x, low, high: torch.clamp(x, low, high),
    "hard_clip": lambda x, a, b: torch.where(x <= a, a, torch.minimum(x, b)),
    "clip_low": by("numpy")(lambda x, y: np.clip(x, y, None)),
    "clip_high": by("numpy")(lambda x, y: np.clip(x, None, y)),
    "detach": lambda x: x.detach(), "cast": cast, "invert": torch.bitwise_not, "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift, "mul_high": mul_high, "stochastic_round": stochastic_round,
    "binary_cross_entropy_with_logits": bce,
    # what its examples give; that the given gradient is taken is a property
    "custom": lambda x, function, backward: x**3,
    "full": by("numpy")(lambda value, dtype, shape: np.full(shape, value, dtype)),
    "arange": by("numpy")(lambda n, dtype: np.arange(n).astype(dtype)),
}

# halves, kinks, both tails
LINE = np.array([-20, -7, -3, -2.5, -1.5, -1, -0.5, -0.0, 0, 0.25, 0.5, 1, 1.5, 2.5, 3, 6, 7, 20], np.float32)
ODD = np.array([1, -2, np.nan, np.inf, -np.inf, 0], np.float32)
LEFT = np.array([7, -7, 7, -7, 6, -6, 5.5, -5.5, 0, 1, 1, -1], np.float32)  # all signs, whole quotients, ties
RIGHT = np.array([3, 3, -3, -3, 3, 3, -2, 2, 5, 1, 2, -1], np.float32)
WORDS = np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xD2511F53, 0xCD9E8D57, 65536], np.uint32)
SIGNED = np.array([0, 1, -1, 5, -5, 1000003, -1000003, 2**30], np.int32)
BITS = {n: [More([SIGNED, SIGNED[::-1].copy()])] for n in ("bit_and", "bit_or", "bit_xor", "add", "sub", "maximum",
                                                           "minimum", "less", "equal")}
TIES = {n: [More([LEFT, RIGHT]), More([ODD[:, None], ODD[None]], slopes=False)]
        for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "add",
                  "sub", "mul", "div")}
SMOOTH = """
    arctan celu cos cosh erf exp exp2 expm1 gelu gelu_tanh mish neg selu sigmoid sin sinh softplus softsign square swish
    tan tanh
""".split()  # noqa: SIM905
KINKED = """
    abs ceil floor hard_sigmoid hard_swish hard_tanh isfinite isnan log log10 log1p log2 reciprocal relu relu6
    round rsqrt sign sqrt trunc
""".split()  # noqa: SIM905

MORE = {
    "arctan2": [More([np.array([0, 1, -1, 2, -3], np.float32)[:, None], np.array([1, -1, 2.5], np.float32)])],
    "lgamma": [More([np.array([0.3, 0.9, 1.2, 30.5, -0.4, -2.7], np.float32)])],
    "logaddexp": [More([LINE[:, None], LINE])],
    "erfinv": [More([np.array([-0.999, -0.5, 0, 1e-3, 0.99, 0.9995], np.float32)]),  # slopes grow past what x can say
               More([np.array([-1, 1, 1.5, 0.99999], np.float32)], slopes=False)],
    **{n: [More([LINE])] for n in SMOOTH},
    **{n: [More([LINE], slopes=False), More([ODD], slopes=False)] for n in KINKED},
    **{n: BITS.get(n, []) + TIES.get(n, []) for n in BITS.keys() | TIES.keys()},
    "floordiv": [More([LEFT, RIGHT]), More([LEFT.astype(np.int32), RIGHT.astype(np.int32)])],
    "mod": [More([LEFT, RIGHT], slopes=False), More([LEFT.astype(np.int32), RIGHT.astype(np.int32)])],
    "pow": [More([np.abs(LEFT) + 0.5, RIGHT])],
    "invert": [More([SIGNED]), More([np.array([True, False])])],
    "shift_right": [More([SIGNED, np.arange(8, dtype=np.int32)])],
    "shift_left": [More([SIGNED, np.arange(8, dtype=np.int32)])], "mul_high": [More([WORDS[:, None], WORDS[None]])],
    "cast": [More([LINE], dict(dtype="int32")), More([LINE * 1001], dict(dtype="bfloat16")),
             More([SIGNED], dict(dtype="float32")),
             More([np.abs(SIGNED)], dict(dtype="bool"))],
    "clip": [More([LINE], dict(low=-1.25, high=2.75))],
    **{n: [More([LEFT, RIGHT]), More([ODD[:, None], ODD[None]])] for n in ("clip_low", "clip_high")},
    "leaky_relu": [More([LINE, np.float32(0.2)], slopes=False)],
    "hard_clip": [More([LINE, np.float32(-1.25), np.float32(2.75)])],
    "binary_cross_entropy_with_logits": [More([LINE[:, None], np.array([0, 0.25, 1], np.float32)])],
    **{n: [More([np.cos(LINE).astype(np.float32), LINE])]
       for n in ("gelu_gradient", "gelu_tanh_gradient", "swish_gradient")},
    "where": [More([LEFT > 0, LEFT, RIGHT])],
}
MORE["elu"] = [More([LINE, np.float32(1)]), More([LINE, np.float32(0.3)])]
for name in ("sign", "hard_swish"):  # sgn NaN is 0 and hard_swish(−∞) is NaN in PyTorch
    MORE[name].pop()
MORE["celu"].append(More([LINE], dict(alpha=0.5), "activations.celu", lambda x, alpha: F.celu(x, alpha)))
