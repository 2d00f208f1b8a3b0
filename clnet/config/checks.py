"""Whether values are of the types and within the bounds that fields declare.

What is plainly right, nearly everything, is accepted here; all else goes to pydantic, which converts it or says what is
wrong with it. It is imported and builds its validators only then: that takes longer than a network's first step.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import ConfigError
from .bounded import HOLDS, After, Before, Within
from .calls import frozen, sentence
from .declared import Declared, argument, by_place, default_of, is_declared

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Accept = Callable[[Any], Any]  # of a value what the field keeps; raises Unsure
EXACT = (int, str, bool, type(None))


class Unsure(Exception):
    """It takes pydantic to say whether a value is right."""


def accepting(typed: Any, plain: type) -> Accept:
    """What accepts values of a type; `plain`: base of the classes whose instances are right as they are."""
    origin, parts = get_origin(typed), get_args(typed)
    if typed in (Any, object):
        return lambda value: value
    if typed is None or typed in EXACT:
        return _exactly(type(None) if typed is None else typed)
    if typed is float:
        return _float
    if origin is Annotated:
        return _annotated(accepting(parts[0], plain), typed.__metadata__)
    if origin in (Union, types.UnionType):
        return _any_of([accepting(p, plain) for p in parts])
    if origin is Literal:
        return _one_of(parts)
    if origin is tuple and parts:
        return _tuple(parts, plain)
    if origin is not None and getattr(origin, "__name__", "") == "Callable":
        return _callable
    return _instance(typed) if isinstance(typed, type) and issubclass(typed, plain) else _unsure


def _unsure(value: Any) -> Any:
    raise Unsure


def _exactly(kind: type) -> Accept:
    def accept(value: Any) -> Any:
        return value if type(value) is kind else _unsure(value)

    return accept


def _float(value: Any) -> Any:
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and abs(value) < 1 << 53:
        return float(value)
    return _unsure(value)


def _callable(value: Any) -> Any:
    return value if callable(value) else _unsure(value)


def _instance(kind: type) -> Accept:
    def accept(value: Any) -> Any:
        return value if isinstance(value, kind) else _unsure(value)

    return accept


def _one_of(options: Sequence[Any]) -> Accept:
    def accept(value: Any) -> Any:
        return value if any(type(o) is type(value) and o == value for o in options) else _unsure(value)

    return accept


def _any_of(parts: Sequence[Accept]) -> Accept:
    """The one that leaves the value as it is before one that converts it."""

    def accept(value: Any) -> Any:
        found = []
        for part in parts:
            try:
                found.append(part(value))
            except Unsure:
                continue
            if found[-1] is value:
                return value
        return found[0] if found else _unsure(value)

    return accept


def _tuple(parts: Sequence[Any], plain: type) -> Accept:
    several = len(parts) == 2 and parts[1] is Ellipsis
    accepts = [accepting(p, plain) for p in (parts[:1] if several else parts)]

    def accept(value: Any) -> Any:
        if type(value) is not tuple or not several and len(value) != len(accepts):
            return _unsure(value)
        return tuple([a(v) for a, v in zip(accepts * len(value) if several else accepts, value, strict=False)])

    return accept


def _annotated(accept: Accept, notes: Sequence[Any]) -> Accept:
    for note in notes:
        if isinstance(note, Within):
            accept = within(accept, note.bounds)
        elif isinstance(note, After):
            accept = _after(accept, note.function)
        elif not isinstance(note, Before):  # which leaves what is right as it is
            return _unsure
    return accept


def _after(accept: Accept, function: Accept) -> Accept:
    def checked(value: Any) -> Any:
        try:
            return function(accept(value))
        except ValueError:  # pydantic raises it again, and says of which field
            return _unsure(value)

    return checked


def within(accept: Accept, bounds: Mapping[str, Any]) -> Accept:
    """The same for values within bounds; where these are of another kind pydantic knows what they mean."""

    def bounded(value: Any) -> Any:
        kept = accept(value)
        holds = HOLDS.get(type(kept), {})
        return kept if all(k in holds and holds[k](kept, b) for k, b in bounds.items()) else _unsure(value)

    return bounded if bounds else accept


class Checks:
    """Those of one class. `plain` is the base of all classes that have some."""

    def __init__(self, cls: type, plain: type, names: Mapping[str, Any]) -> None:
        self.cls, self.plain, self.local = cls, plain, names
        self.fields = by_place(cls)
        self.places = [f.name for f in self.fields if not f.kw_only]
        self.attributes = {argument(f): f.name for f in self.fields}

    @cached_property
    def types(self) -> dict[str, Any]:
        """The types of the fields, which are texts where annotations are put off. Raises ConfigError."""
        return {f.name: self._typed(f) for f in self.fields}

    def _typed(self, f: dataclasses.Field[Any]) -> Any:
        owner = next((c for c in self.cls.__mro__ if f.name in inspect.get_annotations(c)), self.cls)
        known = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
        said = types.SimpleNamespace(__annotations__={"value": f.type})
        try:
            return get_type_hints(said, known, dict(self.local), include_extras=True)["value"]
        except NameError as error:
            raise ConfigError(f"{self.cls.__name__}.{f.name}: expected a type that its module knows; got {f.type!r}: "
                              f"{error}.") from None

    @cached_property
    def accepts(self) -> dict[str, Accept]:
        """By the names of the fields."""
        found = {}
        for f in self.fields:
            accept, default = accepting(self.types[f.name], self.plain), f.default
            if isinstance(default, Declared):
                accept = within(accept, default.bounds)
            found[f.name] = accept
        return found

    def kept(self, name: str, value: Any) -> Any:
        """A value as fields keep it: of an array, where the field is a tuple, the tuple of its numbers."""
        listed = getattr(value, "tolist", None)
        return frozen(listed() if listed is not None and _has_tuple(self.types[name]) else value)

    def constructed(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all fields of a call of the constructor. Raises ConfigError."""
        given = {**dict(zip(self.places, args, strict=False)), **{self.attributes[k]: v for k, v in named.items()}}
        if len(given) == len(args) + len(named):
            with contextlib.suppress(Unsure):
                known = {k: self.accepts[k](v) for k, v in given.items()}
                return {f.name: known[f.name] if f.name in known else _default(f) for f in self.fields}
        from pydantic_core import ArgsKwargs

        made: Any = object.__new__(self.exact)
        self._asked(lambda check: check.validate_python(ArgsKwargs(tuple(args), dict(named)), self_instance=made))
        return {f.name: getattr(made, f.name) for f in self.fields}

    def assigned(self, values: Mapping[str, Any], name: str, value: Any) -> Any:
        """What the field keeps of another value, beside those of all fields. Raises ConfigError."""
        try:
            return self.accepts[name](value)
        except Unsure:
            made: Any = object.__new__(self.exact)
            vars(made).update(values)
            self._asked(lambda check: check.validate_assignment(made, name, value))
            return getattr(made, name)

    def _asked(self, question: Callable[[Any], Any]) -> Any:
        """pydantic's answer."""
        import pydantic

        try:
            return question(self.exact.__pydantic_validator__)  # type: ignore[attr-defined]
        except pydantic.ValidationError as error:
            raise ConfigError(sentence(self.cls, error)) from None

    @cached_property
    def exact(self) -> type:
        """A dataclass of pydantic's with the same fields."""
        import pydantic
        from pydantic.dataclasses import dataclass

        names: dict[str, Any] = {"__module__": self.cls.__module__, "__annotations__": self.types}
        names.update({f.name: said for f in self.fields if (said := _said(f)) is not dataclasses.MISSING})
        config = pydantic.ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_default=False, strict=True,
                                     allow_inf_nan=False)
        return dataclass(config=config, eq=False, repr=False)(type(self.cls.__name__, (), names))

    def info(self, name: str) -> FieldInfo:
        """What pydantic knows of a field."""
        return self.exact.__pydantic_fields__[name]  # type: ignore[attr-defined,no-any-return]


def _has_tuple(typed: Any) -> bool:
    return get_origin(typed) is tuple or any(map(_has_tuple, get_args(typed)))


def _default(f: dataclasses.Field[Any]) -> Any:
    """What the field is where nothing is given. Raises Unsure."""
    if is_declared(f.default) and not isinstance(f.default, Declared):
        return _unsure(f)
    value = default_of(f)
    return _unsure(f) if value is dataclasses.MISSING else value


def _said(f: dataclasses.Field[Any]) -> Any:
    """The declaration in pydantic's words."""
    if not isinstance(f.default, Declared):
        return dataclasses.field(default=f.default, default_factory=f.default_factory, kw_only=f.kw_only)
    import pydantic

    d = f.default
    return pydantic.Field(default=d.default, description=d.description, json_schema_extra=d.json_schema_extra or None,
                          alias=d.alias, kw_only=f.kw_only is True, **d.bounds)
