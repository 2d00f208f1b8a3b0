"""Configuration that checks itself: the fields of a class are its constructor, repr, JSON,
JSON schema and documentation.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
import reprlib
import sys
from typing import Any, ClassVar

from ..core.state import changed
from ..errors import ClnetError, ConfigError
from ..names import ending
from ..names import guide as _guide
from .calls import check_call, missing, placed
from .checks import Checks
from .declared import Declared, Signature, argument, default_of, extra
from .described import Described
from .families import FAMILIES, Registry, family_of, find
from .schema import of_class

LIMIT = 1 << 20  # characters; a longer JSON text is not a configuration
DEPTH = 64  # levels; Python's stack ends at a few hundred


def field(default: object = dataclasses.MISSING, *, doc: str, kw_only: bool = False, alias: str | None = None,
          **bounds: Any) -> Any:
    """A field with its documentation and pydantic's bounds (gt, ge, lt, le, min_length ...). No default: required.

    kw_only   it is given by name alone
    alias     what the constructor and JSON call it, where another attribute has that name
    """
    required = default is dataclasses.MISSING
    return _declared(None if required else default, doc, {"required": True} if required else {}, kw_only, alias,
                     **bounds)


def _declared(default: object, doc: str, more: dict[str, Any], kw_only: bool = False, alias: str | None = None,
              **bounds: Any) -> Any:
    return dataclasses.field(default=Declared(default, doc, more, alias, **bounds), kw_only=kw_only)


def positive(default: object = dataclasses.MISSING, *, doc: str) -> Any:
    """A field that must be greater than zero."""
    return field(default, doc=doc, gt=0)


def fraction(default: object = dataclasses.MISSING, *, doc: str) -> Any:
    """A field in [0, 1)."""
    return field(default, doc=doc, ge=0, lt=1)


def bound(*, doc: str) -> Any:
    """A size in the input side of the signature: may be left out, then the first call or `model.build(shape)` binds it.
    """
    return _declared(None, doc, {"bound": True}, gt=0)


def choice(default: object, options: tuple[Any, ...], *, doc: str, kw_only: bool = False) -> Any:
    """A field that must be one of `options`."""
    return _declared(default, doc, {"options": list(options)}, kw_only)


class Configured:
    """Base of layers, losses, optimizers and schedules. A subclass lists typed fields; `registry` knows it by name."""

    registry: ClassVar[Registry]
    families: ClassVar[list[type[Configured]]] = FAMILIES
    spec_name: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()
    _attributes: ClassVar[dict[str, str]] = {}  # argument of the constructor: attribute that keeps it
    recorded: ClassVar[bool] = True  # whether fields are part of what is recorded; else they are asked at every step
    in_models: ClassVar[bool] = True  # whether a file of a model may hold one
    _checks: ClassVar[Checks]
    __signature__: ClassVar[Signature] = Signature()

    def __init__(self, *fields: Any, **named: Any) -> None:
        """Takes the fields. Raises ConfigError."""
        cls = type(self)
        try:
            fields = placed(cls, fields, named)
            check_call(cls, fields, named)
            kept, attributes = self._checks.kept, self._attributes
            vars(self).update(self._checks.constructed(tuple(map(kept, self._checks.places, fields)),
                                                       {k: kept(attributes[k], v) for k, v in named.items()}))
            self.__post_init__()
        except ClnetError:
            raise
        except (ValueError, AssertionError) as error:  # of a class of somebody's own
            raise ConfigError(f"{cls.__name__}: {error}") from error
        except RecursionError:
            raise ConfigError(f"{cls.__name__}: expected values nested at most {DEPTH} deep.") from None
        vars(self)["_checked"] = True

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core.core_schema import is_instance_schema

        return is_instance_schema(cls)

    def __init_subclass__(cls, abstract: bool = False, **kw: Any) -> None:
        """`abstract`: a base for others, which no name finds; so is a class whose name begins with _."""
        super().__init_subclass__(**kw)
        if Configured in cls.__bases__:
            cls.registry = Registry(cls.__module__)
            FAMILIES.append(cls)
        for name, none in (("aliases", ()), ("spec_name", "")):  # a variant must not answer to its base's names
            if name not in cls.__dict__:
                setattr(cls, name, none)
        if "__init__" in cls.__dict__:
            raise ConfigError(
                f"{cls.__name__}: expected a class without __init__, which its fields make; "
                "got one; write `size: int = positive(doc=...)` for each argument, "
                f"and what the constructor did in {'setup(self, new)' if 'setup' in dir(cls) else 'validate(self)'}.")
        dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
        for f in dataclasses.fields(cls):  # type: ignore[arg-type]
            if isinstance(f.default, Declared):
                setattr(cls, f.name, f.default.default)
        cls.__doc__ = Described(cls.__doc__)  # type: ignore[assignment]
        cls._attributes = {argument(f): f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        cls._checks = Checks(cls, Configured, _locals(cls))
        if Configured not in cls.__bases__ and not abstract and not cls.__name__.startswith("_"):
            cls.registry[cls.__name__] = cls

    def __post_init__(self) -> None:
        self.check_fields()

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, bool):  # `layer.bias = False` means what it means in the constructor
            name = self._attributes.get(name, name)
        if name in type(self).__dataclass_fields__ and "_checked" in vars(self):  # type: ignore[attr-defined]
            self._change(name, value)
        else:
            object.__setattr__(self, name, value)

    def _change(self, name: str, value: object) -> None:
        """Another value for a field, checked as the constructor checks it.
        ConfigError where the old one is already built in.
        """
        who, trial = type(self).__name__, copy.copy(self)
        value = self._checks.assigned({f: getattr(self, f) for f in self._attributes.values()}, name,
                                      self._checks.kept(name, value))
        vars(trial).pop("_checked")
        setattr(trial, name, value)
        trial.check_fields()
        if self.fixed(name):
            raise ConfigError(
                f"{who}: expected {name} to stay {getattr(self, name)!r}, which it was built with; "
                f"got {value!r}; make another: {trial!r}.")
        object.__setattr__(self, name, getattr(trial, name))
        if self.recorded:
            changed()

    def fixed(self, name: str) -> bool:
        """Whether the field can no longer change, because something was made of it."""
        return False

    def check_fields(self) -> None:
        """Raises ConfigError where a required field is missing, a choice is none of the options, or `validate` says so.
        """
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value, options = getattr(self, f.name), extra(f).get("options")
            if extra(f).get("required") and value is None:
                raise missing(type(self), f)
            if options is not None and value not in options:
                near = ending(value, (o for o in options if isinstance(o, str))) if isinstance(value, str) else "."
                raise ConfigError(
                    f"{type(self).__name__}({argument(f)}={value!r}): "
                    f"expected one of {', '.join(map(repr, options))}{near}")
        self.validate()

    def validate(self) -> None:
        """Raises ConfigError where fields that are right one by one do not fit together."""

    def __repr__(self) -> str:
        shown = [f"{argument(f)}={getattr(self, f.name)!r}" for f in dataclasses.fields(self)  # type: ignore[arg-type]
                 if getattr(self, f.name) != default_of(f)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def config(self) -> dict[str, Any]:
        """The configuration as JSON values: {"type": name, field: value, ...}, fields at their default left out."""
        out: dict[str, Any] = {"type": type(self).__name__}
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if value != default_of(f):
                out[argument(f)] = _plain(value)
        return out

    @classmethod
    def from_config(cls, config: object, path: str = "$") -> Any:
        """The object that `config()` described. ConfigError names the path and the field."""
        if not isinstance(config, dict) or not isinstance(config.get("type"), str):
            raise ConfigError(f"{path}: expected an object with a \"type\"; got {reprlib.repr(config)}.")
        target = cls.lookup(config["type"], path)
        values = {k: v for k, v in config.items() if k != "type"}
        known = set(target._attributes)
        for key in values:
            if key not in known:
                names = ", ".join(sorted(known)) or "it has none"
                raise ConfigError(
                    f"{path}.{key}: expected a field of {target.__name__} ({names}); got {key!r}{ending(key, known)}")
        try:
            return target(**{k: target.read_field(k, v, f"{path}.{k}") for k, v in values.items()})
        except ConfigError as error:
            if str(error).startswith(path):
                raise
            field_name = re.match(rf"{target.__name__}\((\w+)", str(error))
            raise ConfigError(f"{path}{f'.{field_name[1]}' if field_name else ''}: {error}") from None

    @classmethod
    def read_field(cls, name: str, value: object, path: str) -> Any:
        """A JSON value as the field wants it; nested configured objects are built."""
        if path.count(".") + path.count("[") > DEPTH:
            raise ConfigError(
                f"{path[:40]}…: expected values nested at most {DEPTH} deep; got more; simplify the file.")
        if isinstance(value, dict) and "type" in value:
            # a layer's field may be an activation, an optimizer's a schedule
            return Configured.from_config(value, path)
        if isinstance(value, list):
            return [cls.read_field(name, v, f"{path}[{i}]") for i, v in enumerate(value)]
        return value

    @classmethod
    def lookup(cls, name: str, path: str = "$") -> type[Any]:
        """The class registered under a name, an alias or a specification's name."""
        family = family_of(cls)
        families = [family] if family else FAMILIES
        if found := find(families, name):
            return found
        kind = family.__name__ if family else "registered class"
        known = (n for f in families for n in f.registry)
        own = " One of your own has to be defined, or its module imported, first." if path.startswith("$") else ""
        raise ConfigError(f"{path}: expected the name of a {kind}; got {name!r}{ending(name, known)}{own}")

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """JSON schema of the fields."""
        return of_class(cls)


def _locals(cls: type) -> dict[str, Any]:
    """The names of the function in which a class is written, by which its fields' types may go."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name == "__init_subclass__":
        frame = frame.f_back
    return dict(frame.f_locals) if "<locals>" in cls.__qualname__ else {}


def _plain(value: object) -> Any:
    if isinstance(value, Configured):
        return value.config()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if callable(value):
        raise ConfigError(
            f"config: expected plain values; got the function {getattr(value, '__name__', value)!r}; "
            "use a registered name to save it.")
    return value


def parse_json(text: str, who: str = "JSON") -> Any:
    """JSON that a configuration may be: no duplicate keys, no NaN or infinity, at most LIMIT characters.
    ConfigError otherwise.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({k for k, _ in pairs}) != len(pairs):
            twice = next(k for i, (k, _) in enumerate(pairs) if k in [p for p, _ in pairs[:i]])
            raise ConfigError(f"{who}: expected each key once; got {twice!r} twice in one object.")
        return dict(pairs)

    def refuse(word: str) -> Any:
        raise ConfigError(f"{who}: expected finite numbers; got {word}.")

    def number(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse(digits)

    if not isinstance(text, str):
        raise ConfigError(f"{who}: expected JSON text; got {type(text).__name__}; Layer.from_config takes a dict.")
    if len(text) > LIMIT:
        raise ConfigError(f"{who}: expected at most {LIMIT} characters; got {len(text)}.")
    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse, parse_float=number)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{who}: expected valid JSON; got an error: {error}.") from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{who}: expected numbers of sensible length; got: {error}.") from None


_guide(__name__)
