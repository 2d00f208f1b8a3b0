"""What the declaration of a field says: type and place are the dataclass's, the rest stands in its default."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any


class Declared:
    """The default of a field, as `field` declares it.

    bounds   by pydantic's names: gt, ge, lt, le, min_length ...
    extra    "required", "bound", "options"
    alias    what the constructor and JSON call it, where another attribute has that name
    """

    def __init__(self, default: Any, description: str, extra: dict[str, Any], alias: str | None = None,
                 **bounds: Any) -> None:
        self.default, self.description, self.alias, self.bounds = default, description, alias, bounds
        self.json_schema_extra = extra


def extra(f: dataclasses.Field[Any]) -> dict[str, Any]:
    """What the declaration of a field says besides type, default and bounds: "required", "bound", "options"."""
    return getattr(f.default, "json_schema_extra", None) or {}


def argument(f: dataclasses.Field[Any]) -> str:
    """What the constructor and JSON call a field: its alias, where another attribute has that name."""
    return getattr(f.default, "alias", None) or f.name


def default_of(f: dataclasses.Field[Any]) -> Any:
    """The default of a dataclass field, whatever it is wrapped in."""
    default: Any = f.default
    if is_declared(default):
        return default.default
    return f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default


def is_declared(default: object) -> bool:
    """Whether it is no value, but says what the default is: ours, or pydantic's FieldInfo."""
    return isinstance(default, Declared) or hasattr(type(default), "from_annotated_attribute")


class Signature:
    """`inspect.signature` of a configured class, made of its fields when somebody asks."""

    def __get__(self, instance: object, cls: type) -> inspect.Signature:
        if instance is not None:  # what is called then is another thing
            raise AttributeError("__signature__")
        return inspect.Signature([_parameter(f) for f in by_place(cls)], return_annotation=None)


def by_place(cls: type) -> list[dataclasses.Field[Any]]:
    """The fields in the order of the constructor's arguments: those that are given by name alone last."""
    return sorted(dataclasses.fields(cls), key=lambda f: f.kw_only is True)  # type: ignore[arg-type]


def _parameter(f: dataclasses.Field[Any]) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if f.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = default_of(f)
    return inspect.Parameter(argument(f), kind, annotation=f.type,
                             default=inspect.Parameter.empty if default is dataclasses.MISSING else default)
