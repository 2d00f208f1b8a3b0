"""JSON schemas of configurations, made from the fields: what editors complete and other programs check
before they send a model.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

from ..show import opening
from .declared import argument, default_of, extra
from .families import family_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import GenerateJsonSchema

    from .fields import Configured

FAMILY = "clnet family"  # for {"$ref": "#/$defs/<family>"}, which pydantic would look up among its own definitions


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema, PydanticOmit

    class Fields(GenerateJsonSchema):
        """Nested configured objects are references to their family; functions have no JSON."""

        def is_instance_schema(self, schema: Any) -> Any:
            if family := family_of(schema["cls"]):
                return {FAMILY: family.__name__}
            raise PydanticOmit

        def callable_schema(self, schema: Any) -> Any:
            raise PydanticOmit

    return Fields


def of_class(cls: type[Configured]) -> dict[str, Any]:
    """The schema of one class: an object with "type" and its fields, nothing else."""
    names = [cls.__name__, *(n for n in (cls.spec_name, *cls.aliases) if n)]
    fields = {argument(f): f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return {"title": cls.__name__, "description": opening(inspect.getdoc(cls) or ""), "type": "object",
            "properties": {"type": {"enum": list(dict.fromkeys(names))},
                           **{n: of_field(cls, f) for n, f in fields.items()}},
            "required": ["type", *(n for n, f in fields.items() if extra(f).get("required"))],
            "additionalProperties": False}


def of_field(cls: type[Configured], f: dataclasses.Field[Any]) -> dict[str, Any]:
    """The schema of one field: its type and bounds, what it is for, its default."""
    out: dict[str, Any] = {"description": getattr(f.default, "description", None) or ""}
    if "options" in extra(f):
        out["enum"] = extra(f)["options"]
    else:
        out |= _typed(cls._checks.info(f.name))
    if not extra(f).get("required"):
        plain = json.dumps(default_of(f), default=lambda v: v.config() if family_of(type(v)) else str(v))
        out["default"] = json.loads(plain)
    return out


def _typed(info: FieldInfo) -> dict[str, Any]:
    import pydantic

    typed: Any = info.annotation
    if info.metadata:
        typed = Annotated[(info.annotation, *info.metadata)]  # type: ignore[misc]
    made = pydantic.create_model("Field", __config__=pydantic.ConfigDict(arbitrary_types_allowed=True),
                                 value=(typed, ...))
    found = made.model_json_schema(schema_generator=_generator())
    if "value" not in found.get("properties", {}):  # nothing but a function
        return {"not": {}}
    typed = _inlined(found["properties"]["value"], found.get("$defs", {}))
    return {k: v for k, v in typed.items() if k != "title"}


def nodes() -> dict[str, Any]:
    """The schema of a Graph's nodes, which are no configured objects."""
    layer = {"anyOf": [{"$ref": "#/$defs/Layer"},
                       {"type": "string", "description": "name of the node whose layer is shared"}]}
    inputs = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    node = {"type": "object", "properties": {"name": {"type": "string"}, "layer": layer, "inputs": inputs},
            "required": ["name", "layer", "inputs"], "additionalProperties": False}
    return {"type": "array", "minItems": 1, "items": node}


def _inlined(value: object, known: dict[str, Any]) -> Any:
    """Without pydantic's own definitions: they are references to a family each."""
    if isinstance(value, list):
        return [_inlined(v, known) for v in value]
    if not isinstance(value, dict):
        return value
    if FAMILY in value:
        return {"$ref": f"#/$defs/{value[FAMILY]}"}
    name = value.get("$ref", "").rpartition("/")[2]
    return _inlined(known[name], known) if name in known else {k: _inlined(v, known) for k, v in value.items()}


def of_family(family: type[Configured]) -> dict[str, Any]:
    """Any class of a family, told apart by "type"."""
    names = {c.__name__: c.schema()["properties"]["type"]["enum"] for c in family.registry.values()}
    rules = [{"if": {"properties": {"type": {"enum": some}}}, "then": {"$ref": f"#/$defs/{name}"}}
             for name, some in names.items()]
    return {"type": "object", "required": ["type"],
            "properties": {"type": {"enum": [n for some in names.values() for n in some]}}, "allOf": rules}
