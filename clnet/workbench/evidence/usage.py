"""Examples as a user types them, made of what ops, layers, losses and optimizers declare for their checks.

One case is written as a session of Python: where the numbers come from, the call, the shape of what it gives. It is
recorded before it is shown, so that what does not work is not shown.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from ... import layers, losses, optimizers
from ... import ops as F
from ...config.calls import argument, extra
from ...config.fields import Configured
from ...core.function import FUNCTIONS
from ...core.op import OPS, Case, Op
from ...core.state import Parameter, capture
from ...core.tensor import Tensor
from ...engine import on
from ...errors import ClnetError
from ...layers.base import no_tape
from ...names import public
from . import cases, catalog
from .calls import CALLS
from .registry import Array, seeded

DRAWS = "draw = np.random.default_rng(0).uniform"
MOST = 40  # numbers of an array that is written down
TRIED = 8  # cases that are tried before there is no example
KNOWN = {"clnet", "np", "draw", "slice", "round"}  # what a session may speak of beside its own names
WIDTH = 100  # columns
PUBLIC = {"op": public(F.__name__), "layer": layers.__all__, "loss": losses.__all__, "optimizer": optimizers.__all__,
          "schedule": optimizers.__all__}
Line = str
Written = tuple[list[Line], Callable[[], Any], str]  # lines, what makes the result, the expression that stands for it


@cache
def usage(kind: str, name: str) -> str:
    """"Example:" and the session, indented; "" where no declared case can be written down."""
    makers = {"op": _op, "layer": _layer, "loss": _loss, "optimizer": _optimizer, "schedule": _schedule}
    if name not in PUBLIC.get(kind, ()):
        return ""
    with on("numpy"):
        for number, (lines, make, shown) in enumerate(makers[kind](name)):
            if number == TRIED:
                break
            try:
                with no_tape(), capture():
                    asked = _shape(shown, seeded(0, make))
            except (ClnetError, ValueError, TypeError, AttributeError, KeyError, IndexError, NotImplementedError):
                continue
            lines = [_folded(s) for s in lines]
            asked = asked and (_folded(asked[0]), asked[1])
            if asked and _speaks_of_known(lines + [asked[0]]):
                session = ["import numpy as np"] * any("np." in s or "draw(" in s for s in lines) + [
                    DRAWS] * any("draw(" in s for s in lines) + lines
                typed = [f"    >>> {s}".replace("\n", "\n    ... ") for s in (*session, asked[0])]
                return "\n".join(["Example:", *typed, f"    {asked[1]}"])
    return ""


def _shape(shown: str, result: Any) -> tuple[str, str] | None:
    """(the expression that shows what came out, what it prints)."""
    if isinstance(result, Tensor):
        return (f"{shown}.shape", repr(tuple(result.shape)))
    if isinstance(result, (tuple, list)) and result and all(isinstance(t, Tensor) for t in result):
        return f"[y.shape for y in {shown}]", repr([tuple(t.shape) for t in result])
    if isinstance(result, dict) and result and all(isinstance(t, Tensor) for t in result.values()):
        shapes = {k: tuple(t.shape) for k, t in result.items()}
        return f"{{k: y.shape for k, y in {shown}.items()}}", repr(shapes)
    return (shown, repr(result)) if isinstance(result, list) else None


def _speaks_of_known(lines: Sequence[Line]) -> bool:
    """Whether the session needs nothing that it does not make, and its lines fit."""
    tree = ast.parse("\n".join(lines))
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    made = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return all(n.id in made | KNOWN for n in names) and all(len(s) <= WIDTH for s in "\n".join(lines).split("\n"))


def _folded(line: Line) -> str:
    fill = textwrap.TextWrapper(WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(map(fill, line.split("\n")))


# --- values as they are written
def _written(value: Any) -> str:
    if isinstance(value, Configured):
        home = next(m for m in (layers, losses, optimizers) if type(value).__name__ in m.__all__)
        return f"{home.__name__}.{value!r}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(_written, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if callable(value):
        if (name := getattr(value, "__name__", "")) not in PUBLIC["op"]:
            raise ValueError("a function that has no name to type")
        return f"clnet.ops.{name}"
    return repr(value)


class Named(str):
    """A value that is written as it stands."""

    __repr__ = str.__str__


def _sums_to_one(x: Array) -> bool:
    """Whether rows are probabilities, which rounding would spoil."""
    return bool(x.ndim and x.size and np.allclose(x.sum(-1), 1))


def _operand(value: Any, low: float, high: float, dtype: str) -> tuple[str, Any]:
    """(an argument as it is typed, the argument itself). ValueError for what is too much to type."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        parts = [_operand(v, low, high, dtype) for v in value]
        return _written([Named(text) for text, _ in parts]), [x for _, x in parts]
    if isinstance(value, np.ndarray):
        x = np.round(value, 2) if value.dtype.kind == "f" and not _sums_to_one(value) else value
        if x.size > MOST:
            raise ValueError("an array that is too long to be typed")
        text = repr(x.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
        if len(text) > WIDTH - 30:
            text = text.replace("], [", "],\n    [")
        return f'np.array({text}, "{x.dtype}")', x
    shape = tuple(value.shape) if isinstance(value, Tensor) else tuple(value)
    x = np.random.default_rng(0).uniform(low, high, shape)
    text = f"draw({low:g}, {high:g}, {shape!r})"
    return (f"{text} > 0", x > 0) if dtype == "bool" else (f'{text}.astype("{dtype}")', x.astype(dtype))


def _operands(names: Sequence[str], values: Sequence[Any], low: float = -2.0, high: float = 2.0,
              dtype: str = "float32") -> tuple[list[Line], list[Any]]:
    made = [_operand(v, low, high, dtype) for v in values]
    return [f"{n} = {text}" for n, (text, _) in zip(names, made, strict=True)], [x for _, x in made]


def _call(name: str, arguments: Sequence[str], attrs: Mapping[str, Any]) -> str:
    return f"{name}({', '.join([*arguments, *(f'{k}={_written(v)}' for k, v in attrs.items())])})"


# --- what is declared, case by case
def _op(name: str) -> Iterator[Written]:
    called = getattr(F, name, None)
    if not callable(called):
        return
    op = OPS.get(name)
    low, high = op.domain if op else (-2.0, 2.0)
    dtype = cases.draw_dtype(op) if op else "float32"
    for case in _cases(name, op):
        arguments = _arguments(called, case)
        if arguments is not None:
            yield from _typed(name, called, arguments, low, high, dtype)
    if name in CALLS:
        yield from _typed(name, called, _spread(CALLS[name]), 0.1, 0.9, dtype)


def _arguments(called: Callable[..., Any], case: Case) -> list[tuple[str, bool, Any]] | None:
    """(name, whether it is an operand, value) of a case, in the order of the function's parameters, as it takes them;
    None where they do not fit. Attributes that the op has and the function has not are left out.
    """
    if isinstance(called, Op):
        names = called.args if len(called.args) >= len(case.args) else [f"x{k + 1}" for k in range(len(case.args))]
        return [*((n, True, a) for n, a in zip(names, case.args, strict=False)),
                *((f"{k}=", False, v) for k, v in case.attrs.items())]
    left, found, star = list(case.args), list[tuple[str, bool, Any]](), False
    for p in inspect.signature(called).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            star, given = True, case.attrs.get(p.name)
            found += [(f"x{k + 1}", True, a) for k, a in enumerate(left)] if given is None else [
                ("", False, v) for v in given]
            left = [] if given is None else left
        elif p.name in case.attrs:
            keyword = "" if any(q.kind is q.VAR_POSITIONAL for q in
                                inspect.signature(called).parameters.values()) and not star else f"{p.name}="
            found.append((keyword, False, case.attrs[p.name]))
        elif left and p.kind is not p.KEYWORD_ONLY:
            found.append((p.name, True, left.pop(0)))
    return None if left else found


def _spread(call: Mapping[str, Any]) -> list[tuple[str, bool, Any]]:
    """An entry of CALLS the same way."""
    if "*" in call:
        stars = call["*"] if isinstance(call["*"], tuple) else (call["*"],)
        return [_entry(k, "", v) for k, v in call.items() if k != "*"] + [
            _entry(f"x{k + 1}", "", v) for k, v in enumerate(stars)]
    return [_entry(k, f"{k}=", v) for k, v in call.items()]


def _entry(name: str, keyword: str, value: Any) -> tuple[str, bool, Any]:
    there = _is_operand(value)
    return (name if there else keyword, there, value)


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) or (
        isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Tensor))


def _typed(name: str, called: Callable[..., Any], arguments: Sequence[tuple[str, bool, Any]], low: float, high: float,
           dtype: str) -> Iterator[Written]:
    names = [n for n, operand, _ in arguments if operand]
    try:
        lines, arrays = _operands(names, [v for _, operand, v in arguments if operand], low, high, dtype)
        written = [n if operand else _written(v) for n, operand, v in arguments]
    except ValueError:
        return
    left, places, named, texts = list(arrays), list[Any](), dict[str, Any](), list[str]()
    for (n, operand, v), text in zip(arguments, written, strict=True):
        value = left.pop(0) if operand else v
        if n.endswith("=") or named:  # behind the first that is named, all are
            named[n.rstrip("=")] = value
            texts.append(f"{n.rstrip('=')}={text}")
        else:
            places.append(value)
            texts.append(text)
    yield lines, lambda: called(*places, **named), f"clnet.ops.{name}({', '.join(texts)})"


def _cases(name: str, op: Op | None) -> Iterator[Case]:
    if name in FUNCTIONS:
        yield from FUNCTIONS[name].samples()
    for goal in catalog.goals("op"):
        if goal.name == name and goal.example:
            attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in goal.example["attrs"].items()}
            yield Case(tuple(np.asarray(a["values"], a["dtype"]) if isinstance(a, dict) else tuple(a)
                             for a in goal.example["args"]), attrs)
    if op is not None:
        yield from cases.cases(op)


def _layer(name: str) -> Iterator[Written]:
    cls = layers.Layer.registry[name]
    for fields, wanted in cls.examples:
        names = ["x"] if len(wanted) == 1 else [f"x{k + 1}" for k in range(len(wanted))]
        try:
            lines, arrays = _operands(names, wanted)
        except ValueError:
            continue
        lines.append(f"layer = {_call(f'clnet.layers.{name}', (), fields)}")
        yield (lines, lambda fields=fields, arrays=arrays: cls(**fields)(*arrays),  # type: ignore[misc]
               f"layer({', '.join(names)})")


def _loss(name: str) -> Iterator[Written]:
    cls = losses.Loss.registry[name]
    for fields, *wanted in cls.examples:
        names = [*cls.inputs, *(f"x{k}" for k in range(9))][: len(wanted)]
        given = [(n, w) for n, w in zip(names, wanted, strict=True) if w is not None]
        if len(given) < len(wanted) or any(isinstance(w, dict) for w in wanted):
            continue
        try:
            lines, arrays = _operands(names, wanted)
        except ValueError:
            continue
        lines.append(f"loss = {_call(f'clnet.losses.{name}', (), fields)}")
        yield (lines, lambda fields=fields, arrays=arrays: cls(**fields)(*arrays),  # type: ignore[misc]
               f"loss({', '.join(names)})")


def _optimizer(name: str) -> Iterator[Written]:
    cls = optimizers.Optimizer.registry[name]

    def make() -> Tensor:
        made, w = cls(**cls.tried), Parameter(np.ones(3, np.float32))
        w.grad = 2 * w.tensor
        made.update([w])
        return w.tensor

    def search(values: Callable[[Parameter], Tensor]) -> Tensor:
        made, w = cls(**cls.tried), Parameter(np.ones(3, np.float32))
        made.update([w], lambda: values(w))
        return w.tensor

    begin = ['w = clnet.Parameter(np.ones(3, "float32"))',
             f"optimizer = {_call(f'clnet.optimizers.{name}', (), cls.tried)}"]
    yield [*begin, "w.grad = 2 * w.tensor  # of the sum of w²", "optimizer.update([w])"], make, "w"
    yield ([*begin, "optimizer.update([w], lambda: (w.tensor * w.tensor).sum())"],
           lambda: search(lambda w: (w.tensor * w.tensor).sum()), "w")
    yield [*begin, "optimizer.update([w], lambda: w.tensor)"], lambda: search(lambda w: w.tensor), "w"


def _schedule(name: str) -> Iterator[Written]:
    cls = optimizers.Schedule.registry[name]
    given = {argument(f): 10 if "int" in str(f.type) else 0.1 for f in dataclasses.fields(cls)
             if extra(f).get("required")}
    yield ([f"schedule = {_call(f'clnet.optimizers.{name}', (), given)}"],
           lambda: [round(cls(**given).at(t), 5) for t in (0, 1, 10)],
           "[round(schedule.at(t), 5) for t in (0, 1, 10)]")
