"""What a constructor says about a call that does not fit its fields: which argument, what was expected,
what to write instead.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ClnetError, ConfigError
from ..names import ending_of_argument
from .declared import argument, extra
from .families import family_of

if TYPE_CHECKING:
    import pydantic


def frozen(value: object) -> Any:
    """Lists become tuples, for a field does not change after it was checked, and NumPy's numbers Python's,
    for JSON has no others.
    """
    if isinstance(value, np.generic):
        return value.item()
    return tuple(frozen(v) for v in value) if isinstance(value, list) else value


def check_call(cls: type, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raises ConfigError for arguments that the class does not have, and for a required one that a size
    in front of it swallowed.
    """
    fields = dataclasses.fields(cls)
    names = [argument(f) for f in fields]
    if unknown := next((k for k in named if k not in names), None):
        raise ConfigError(
            f"{cls.__name__}: expected fields {', '.join(names) or '(it has none)'}; "
            f"got {unknown!r}{ending_of_argument(unknown, names)}")
    places = [f for f in fields if not f.kw_only]
    if args and names[:1] == ["lr"] and isinstance(args[0], (list, tuple, Iterator)):
        raise ConfigError(f"{cls.__name__}: expected a rate first; got a {type(args[0]).__name__}; parameters are no "
                          f"argument: write {cls.__name__}(lr=...), and Trainer(model, loss, optimizer) or "
                          "optimizer.update(model.parameters()) says what it moves.")
    if len(args) > len(places):
        raise ConfigError(
            f"{cls.__name__}: expected at most {len(places)} arguments by position "
            f"({', '.join(map(argument, places))}); got {len(args)}.")
    given = dict(zip(map(argument, places), args, strict=False))
    first = type(args[0]) if args else cls
    if family_of(first) is not family_of(cls) and "lr" in getattr(first, "_attributes", ()):  # as PyTorch's schedules
        raise ConfigError(f"{cls.__name__}: expected {argument(places[0])} first; got {args[0]!r}; an optimizer takes "
                          f"the schedule: {type(args[0]).__name__}(lr={cls.__name__}(lr={args[0].lr!r}, ...)).")
    if twice := next((n for n in given if n in named), None):
        raise ConfigError(f"{cls.__name__}: expected {twice} once; got {reprlib.repr(given[twice])} by position and "
                          f"{reprlib.repr(named[twice])} by name{_by_name(cls, args, named)}.")
    given |= named
    for f in fields:
        if extra(f).get("required") and given.get(argument(f)) is None:
            raise missing(cls, f, _rewritten(cls, places, args, named))


def _by_name(cls: type, args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """How the sentence about an argument that is given twice ends: what was meant by the one that came first."""
    rest = "".join(f", {k}={v!r}" for k, v in named.items())
    if len(args) == 1 and "lr" in {argument(f) for f in dataclasses.fields(cls)} - {*named}:  # type: ignore[arg-type]
        return f"; the rate goes by name: {cls.__name__}(lr={args[0]!r}{rest})"
    return "; leave one out"


def placed(cls: type, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments by position. `Dense(10)` is meant as in Keras: a lone number is the size of the output, which has
    to be known, and not that of the input, which the first call binds.
    """
    places = [f for f in dataclasses.fields(cls) if not f.kw_only]
    if len(args) != 1 or args[0] is None or not places or argument(places[0]) in named:
        return tuple(args)
    needed = [f for f in places[1:] if extra(f).get("required") and argument(f) not in named]
    swallowed = extra(places[0]).get("bound") and needed and needed == places[1:2]
    return (None, *args) if swallowed else tuple(args)


def missing(cls: type, f: dataclasses.Field[Any], rewritten: str = "") -> ConfigError:
    """The error for a required field without a value."""
    what = getattr(f.default, "description", "")
    return ConfigError(
        f"{cls.__name__}: expected a value for {argument(f)} ({what}); got none; "
        f"{rewritten or f'pass {argument(f)}='}.")


def _rewritten(cls: type, places: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """`write Dense(out_features=10), and the first call binds in_features`: what was meant where the first argument
    went to a size that may be left out.
    """
    first = [f for f in places if extra(f).get("bound")][:1]
    if not args or not first or first[0] is not places[0]:
        return ""
    left = [f for f in places if f is not places[0] and argument(f) not in named]
    values = dict(zip(map(argument, left), map(repr, args), strict=False)) | {k: repr(v) for k, v in named.items()}
    values |= {argument(f): "..." for f in left if extra(f).get("required") and argument(f) not in values}
    call = f"{cls.__name__}({', '.join(f'{k}={v}' for k, v in values.items())})"
    return f"write {call}, and the first call binds {argument(places[0])}"


def sentence(cls: type, error: pydantic.ValidationError) -> str:
    """`LayerNorm(eps=-1): eps must be greater than 0.` of pydantic's ValidationError."""
    # Of a field that may be several types the error of the one that came furthest is the telling one;
    # of a text, which texts there are.
    e = max(error.errors(), key=lambda e: (sum(isinstance(p, int) for p in e["loc"][1:]),
                                           e["type"] == "literal_error" and isinstance(e["input"], str)))
    inner = (e.get("ctx") or {}).get("error")
    if isinstance(inner, ClnetError):
        raise inner
    places = [argument(f) for f in dataclasses.fields(cls) if not f.kw_only]  # type: ignore[arg-type]
    start = e["loc"][0] if e["loc"] else ""
    name = places[start] if isinstance(start, int) and start < len(places) else str(start)
    name += "".join(f"[{p}]" for p in e["loc"][1:] if isinstance(p, int))
    text = e["msg"].replace("Input should be", "must be")
    named = [argument(f) for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    other = f"; or name it: {cls.__name__}({named[1]}=...)." if start == 0 and len(named) > 1 else ""
    way = _instead(name, e)
    call = f"{cls.__name__}({name}={reprlib.repr(e.get('input'))})"
    return f"{call}: {name} {text[0].lower()}{text[1:]}{way.removesuffix('.') + other if other else way}"


def _instead(name: str, e: Mapping[str, Any]) -> str:
    """`; got the text '1e-3'; pass a number: lr=0.001.`, where that is the slip."""
    value, wanted = e.get("input"), e["type"].partition("_")[0]
    field = name.partition("[")[0] if "[" not in name else ""
    if isinstance(value, type):
        return f"; got the class {value.__name__}; call it: {value.__name__}(...)."
    if wanted == "tuple" and isinstance(value, (int, float)) and field:
        return f"; write {field}=({value},)."
    if wanted not in ("int", "float", "bool"):
        return "."
    if isinstance(value, str):
        number = _number(value, wanted)
        return f"; got the text {value!r}; pass a number{f': {field}={number}' if field and number else ''}."
    if wanted == "int" and isinstance(value, float) and value.is_integer() and field:
        return f"; write {field}={int(value)}."
    if wanted == "bool" and value in (0, 1) and field:
        return f"; write {field}={bool(value)}."
    return "."


def _number(text: str, wanted: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return ""
    return repr(int(value)) if wanted == "int" and value.is_integer() else repr(value) if wanted == "float" else ""
