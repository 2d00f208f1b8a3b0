"""Expressions of OpenCL C, read once and computed by ops: what gradients that are stated as expressions run as.

Numbers, names, + - * /, comparisons, && || !, ?:, casts to T, float and double, and the functions of FUNCTIONS (those
of OpenCL C; fmin and fmax with NaN as NumPy has it). As in C, 1 / 2 of whole numbers is 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import ConfigError
from ...names import ending
from .. import pointwise, special_functions

Value = Any  # a tensor, or a number of Python's
Node = Callable[[Mapping[str, Value]], Value]
TOKEN = re.compile(r"\s*(?:(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?|\d+[eE][-+]?\d+[fF]?|\d+[fF])"
                   r"|(?P<int>\d+)[uUlL]*|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||[<>=!]=|[-+*/<>!?:(),]))")
LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/"))
CASTS = {"T", "float", "double"}
CONSTANTS = {"INFINITY": math.inf, "NAN": math.nan, "M_PI": math.pi, "M_E": math.e, "M_LN2": math.log(2),
             "M_SQRT1_2": 0.5**0.5, "M_SQRT2": 2**0.5}
p, s = pointwise, special_functions
# name -> (how many arguments, the same in ops)
FUNCTIONS: dict[str, tuple[int, Callable[..., Value]]] = {
    **{n: (1, getattr(p, n)) for n in ("exp", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan",
                                       "sinh", "cosh", "tanh", "erf", "floor", "ceil", "trunc", "sign")},
    "exp2": (1, lambda x: p.exp(x * math.log(2))), "log10": (1, lambda x: p.log(x) * (1 / math.log(10))),
    "asin": (1, s.arcsin), "acos": (1, s.arccos), "atan": (1, p.arctan), "atan2": (2, s.arctan2),
    "asinh": (1, s.arcsinh), "acosh": (1, s.arccosh), "atanh": (1, s.arctanh), "lgamma": (1, s.lgamma),
    "erfc": (1, lambda x: 1 - p.erf(x)), "fabs": (1, p.abs), "abs": (1, p.abs), "ABS": (1, p.abs), "rint": (1, p.round),
    "fmin": (2, p.minimum), "fmax": (2, p.maximum), "min": (2, p.minimum), "max": (2, p.maximum),
    "pow": (2, p.pow), "powr": (2, p.pow), "pown": (2, p.pow), "POW": (2, p.pow),
    "fma": (3, lambda a, b, c: a * b + c), "mad": (3, lambda a, b, c: a * b + c),
    "mix": (3, lambda a, b, t: a + (b - a) * t), "clamp": (3, lambda x, a, b: p.minimum(p.maximum(x, a), b)),
    "step": (2, lambda edge, x: p.where(p.less(x, edge), 0.0, 1.0)), "hypot": (2, lambda a, b: p.sqrt(a * a + b * b)),
    "isnan": (1, p.isnan), "isfinite": (1, p.isfinite), "BOOL": (1, lambda c: c), "TEST": (1, lambda c: c),
}


class Formula:
    """An expression over `names`: f(x=..., g=...) computes it by ops. Raises ConfigError for what it cannot read."""

    def __init__(self, who: str, text: str, names: Sequence[str]) -> None:
        self.who, self.text, self.names = who, text, names
        self.tokens, at = list[tuple[str, str, int]](), 0
        while text[at:].strip():
            found = TOKEN.match(text, at)
            if not found:
                raise self.wrong(f"{text[at:].strip()[0]!r}", at)
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind)))
            at = found.end()
        self.at = 0
        self.used: set[str] = set()
        self.node = self._choice()
        if self.at < len(self.tokens):
            raise self.wrong(f"{self.tokens[self.at][1]!r}", self.tokens[self.at][2])

    def __call__(self, **values: Value) -> Value:
        return self.node(values)

    def wrong(self, what: str, at: int, hint: str = "") -> ConfigError:
        line = self.text[: at].count("\n")
        column = at - (self.text.rfind("\n", 0, at) + 1)
        shown = self.text.split("\n")[line]
        way = hint or "; state it as a function of tensors where ops do not have it."
        return ConfigError(f"{self.who}: expected an expression over {', '.join(self.names)}; got {what}{way}\n"
                           f"    {shown}\n    {' ' * column}^")

    def _next(self, *signs: str) -> str:
        """The sign that comes next, if it is one of these; "" else."""
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "sign" and self.tokens[self.at][1] in signs:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def _expect(self, sign: str) -> None:
        if not self._next(sign):
            rest = self.tokens[self.at] if self.at < len(self.tokens) else ("", "the end", len(self.text))
            raise self.wrong(f"{rest[1]!r} in place of {sign!r}", rest[2])

    def _choice(self) -> Node:
        c = self._level(0)
        if not self._next("?"):
            return c
        yes = self._choice()
        self._expect(":")
        no = self._choice()
        return lambda v: _chosen(_test(c(v)), yes(v), no(v))

    def _level(self, k: int) -> Node:
        if k == len(LEVELS):
            return self._sign()
        left = self._level(k + 1)
        while sign := self._next(*LEVELS[k]):
            left = _joined(sign, left, self._level(k + 1))
        return left

    def _sign(self) -> Node:
        if sign := self._next("-", "+", "!"):
            inner = self._sign()
            return (lambda v: -inner(v)) if sign == "-" else inner if sign == "+" else lambda v: _not(_test(inner(v)))
        return self._atom()

    def _atom(self) -> Node:
        if self.at >= len(self.tokens):
            raise self.wrong("its end", len(self.text))
        kind, text, place = self.tokens[self.at]
        self.at += 1
        if kind in ("int", "float"):
            number = int(text) if kind == "int" else float(text.rstrip("fF"))
            return lambda v: number
        if kind == "name":
            return self._named(text, place)
        if text != "(":
            raise self.wrong(f"{text!r}", place)
        if self.at + 1 < len(self.tokens) and self.tokens[self.at][1] in CASTS and self.tokens[self.at + 1][1] == ")":
            self.at += 2
            inner = self._sign()
            return lambda v: float(x) if isinstance(x := inner(v), int) else x
        inner = self._choice()
        self._expect(")")
        return inner

    def _named(self, name: str, place: int) -> Node:
        if name in self.names:
            self.used.add(name)
            return lambda v: v[name]
        if (constant := CONSTANTS.get(name.removesuffix("_F"))) is not None:
            return lambda v: constant
        plain = name if name in FUNCTIONS else re.sub("^(native|half)_", "", name)
        if plain not in FUNCTIONS:
            raise self.wrong(f"{name!r}", place, ending(name, [*self.names, *FUNCTIONS]))
        count, function = FUNCTIONS[plain]
        self._expect("(")
        args = [self._choice()]
        while self._next(","):
            args.append(self._choice())
        self._expect(")")
        if len(args) != count:
            raise self.wrong(f"{len(args)} arguments of {name}, which takes {count}", place)
        return lambda v: function(*(a(v) for a in args))


def _number(x: Value) -> bool:
    return isinstance(x, (bool, int, float))


def _test(c: Value) -> Value:
    """A condition of a value, as C has it."""
    return c != 0 if _number(c) else c if c.dtype == "bool" else pointwise.not_equal(c, 0)


def _not(c: Value) -> Value:
    return not c if _number(c) else pointwise.logical_not(c)


def _chosen(c: Value, yes: Value, no: Value) -> Value:
    return (yes if c else no) if _number(c) else pointwise.where(c, yes, no)


def _divided(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return int(a / b) if b else math.nan
    if _number(a) and _number(b) and b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a)
    return a / b


ALIKE: dict[str, Callable[[Value, Value], Value]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divided,
    "<": lambda a, b: a < b if _number(a) and _number(b) else pointwise.less(a, b),
    "<=": lambda a, b: a <= b if _number(a) and _number(b) else pointwise.less_equal(a, b),
    ">": lambda a, b: a > b if _number(a) and _number(b) else pointwise.greater(a, b),
    ">=": lambda a, b: a >= b if _number(a) and _number(b) else pointwise.greater_equal(a, b),
    "==": lambda a, b: a == b if _number(a) and _number(b) else pointwise.equal(a, b),
    "!=": lambda a, b: a != b if _number(a) and _number(b) else pointwise.not_equal(a, b),
    "&&": lambda a, b: pointwise.bit_and(_test(a), _test(b)) if not (_number(a) and _number(b)) else bool(a and b),
    "||": lambda a, b: pointwise.bit_or(_test(a), _test(b)) if not (_number(a) and _number(b)) else bool(a or b),
}


def _joined(sign: str, left: Node, right: Node) -> Node:
    combine = ALIKE[sign]
    return lambda v: combine(left(v), right(v))
