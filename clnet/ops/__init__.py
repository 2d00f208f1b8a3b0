"""Everything differentiable, a module a family."""

from .copy import concat, split, stack
from .matmul import einsum, linear, matmul
from .pointwise import (
    abs, add, arange, arctan, bit_and, bit_or, bit_xor, cast, ceil, clip, cos, cosh, detach, div, equal, erf, exp, expm1, floor, floordiv,
    full, greater, greater_equal, invert, isfinite, isnan, less, less_equal, log, log1p, log2, logical_not, maximum, minimum, mod, mul, mul_high,
    neg, not_equal, ones, pow, reciprocal, relu, round, rsqrt, shift_left, shift_right, sigmoid, sign, sin, sinh, softplus, sqrt, square, sub,
    tan, tanh, trunc, where, zeros,
)
from .reduce import argmax_ as argmax
from .reduce import argmin_ as argmin
from .reduce import logsumexp, max, mean, min, positions, prod, sum, var
from .view import expand, flip, fold_windows, getitem, pad, permute, reshape, transpose, windows
