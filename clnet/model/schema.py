"""The JSON schema of model files, made from the fields of all classes that may stand in one."""

from __future__ import annotations

import json
import re
from typing import Any

from ..config.families import FAMILIES
from ..config.fields import Configured
from ..config.schema import of_family
from ..losses import base as _losses  # noqa: F401  # what is imported has registered its family
from ..optimizers import base as _optimizers  # noqa: F401
from . import sequential  # noqa: F401

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def document(name: str = "") -> dict[str, Any]:
    """One file: at the top any layer (a model is one), under "$defs" every class; or the class `name` with those that
    may stand in it. Raises ConfigError.
    """
    defs: dict[str, Any] = {}
    for family in (f for f in FAMILIES if f.in_models and f.registry):
        defs[family.__name__] = of_family(family)
        defs |= {c.__name__: c.schema() for c in family.registry.values()}
    top = Configured.lookup(name, "schema").__name__ if name else "Layer"
    return {"$schema": DRAFT, "title": f"clnet {name or 'model'}", "$ref": f"#/$defs/{top}",
            "$defs": _reached(defs, top) if name else defs}


def _reached(defs: dict[str, Any], top: str) -> dict[str, Any]:
    """Those definitions that `top` refers to, directly or through others; itself first."""
    found, todo = {}, [top]
    for name in todo:
        if name not in found:
            found[name] = defs[name]
            todo += re.findall(r'"#/\$defs/(\w+)"', json.dumps(defs[name]))
    return found
