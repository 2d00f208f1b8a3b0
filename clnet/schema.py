"""JSON schemas of configurations, made from the fields: what editors complete and other programs check before they send a model."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Annotated, Any

import pydantic
from pydantic.json_schema import GenerateJsonSchema, PydanticOmit

from .calls import extra
from .config import Configured, default_of

FAMILY = "clnet family"  # stands for {"$ref": "#/$defs/<family>"}, which pydantic would look up among its own definitions
DRAFT = "https://json-schema.org/draft/2020-12/schema"


class _Fields(GenerateJsonSchema):
    """Nested configured objects are references to their family; functions have no JSON."""

    def dataclass_schema(self, schema: Any) -> Any:
        return _reference(schema["cls"]) if issubclass(schema["cls"], Configured) else super().dataclass_schema(schema)

    def is_instance_schema(self, schema: Any) -> Any:
        if issubclass(schema["cls"], Configured):
            return _reference(schema["cls"])
        raise PydanticOmit

    def callable_schema(self, schema: Any) -> Any:
        raise PydanticOmit


def _reference(cls: type) -> dict[str, Any]:
    family = next(c for c in cls.__mro__ if Configured in c.__bases__)
    return {FAMILY: family.__name__}


def of_class(cls: type[Configured]) -> dict[str, Any]:
    """The schema of one class: an object with "type" and its fields, nothing else."""
    names = [cls.__name__, *(n for n in (cls.spec_name, *cls.aliases) if n)]
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return {"title": cls.__name__, "description": (cls.__doc__ or "").partition("\n")[0], "type": "object",
            "properties": {"type": {"enum": list(dict.fromkeys(names))}, **{n: of_field(cls, f) for n, f in fields.items()}},
            "required": ["type", *(n for n, f in fields.items() if extra(f).get("required"))], "additionalProperties": False}


def of_field(cls: type[Configured], f: Any) -> dict[str, Any]:
    """The schema of one field: its type and bounds, what it is for, its default."""
    info = cls.__pydantic_fields__[f.name]  # type: ignore[attr-defined]
    out: dict[str, Any] = {"description": getattr(f.default, "description", None) or ""}
    if "options" in extra(f):
        out["enum"] = extra(f)["options"]
    else:
        out |= _typed(info)
    if not extra(f).get("required"):
        out["default"] = json.loads(json.dumps(default_of(f), default=lambda value: value.config() if isinstance(value, Configured) else str(value)))
    return out


def _typed(info: Any) -> dict[str, Any]:
    typed: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation  # type: ignore[misc]
    made = pydantic.create_model("Field", __config__=pydantic.ConfigDict(arbitrary_types_allowed=True), value=(typed, ...))
    found = made.model_json_schema(schema_generator=_Fields)
    if "value" not in found.get("properties", {}):  # nothing but a function
        return {"not": {}}
    typed = _inlined(found["properties"]["value"], found.get("$defs", {}))
    return {k: v for k, v in typed.items() if k != "title"}


def nodes() -> dict[str, Any]:
    """The schema of a Graph's nodes, which are no configured objects."""
    layer = {"anyOf": [{"$ref": "#/$defs/Layer"}, {"type": "string", "description": "name of the node whose layer is shared"}]}
    inputs = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    return {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"name": {"type": "string"}, "layer": layer, "inputs": inputs},
                                                      "required": ["name", "layer", "inputs"], "additionalProperties": False}}


def _inlined(value: Any, known: dict[str, Any]) -> Any:
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
    rules = [{"if": {"properties": {"type": {"enum": some}}}, "then": {"$ref": f"#/$defs/{name}"}} for name, some in names.items()]
    return {"type": "object", "required": ["type"], "properties": {"type": {"enum": [n for some in names.values() for n in some]}}, "allOf": rules}


def document(name: str = "") -> dict[str, Any]:
    """One file: at the top any layer (a model is one), under "$defs" every class; or the class `name` with those that may stand in it. Raises ConfigError."""
    from . import losses, model, optimizers  # importing registers  # noqa: F401

    defs: dict[str, Any] = {}
    for family in (f for f in Configured.families if f.registry):
        defs[family.__name__] = of_family(family)
        defs |= {c.__name__: c.schema() for c in family.registry.values()}
    top = Configured.lookup(name, "schema").__name__ if name else "Layer"
    return {"$schema": DRAFT, "title": f"clnet {name or 'model'}", "$ref": f"#/$defs/{top}", "$defs": _reached(defs, top) if name else defs}


def _reached(defs: dict[str, Any], top: str) -> dict[str, Any]:
    """Those definitions that `top` refers to, directly or through others; itself first."""
    found, todo = {}, [top]
    for name in todo:
        if name not in found:
            found[name] = defs[name]
            todo += re.findall(r'"#/\$defs/(\w+)"', json.dumps(defs[name]))
    return found
