"""The goals of the project: every layer, loss, optimizer and operation that is to exist, registered yet or not."""

from __future__ import annotations

import functools
import importlib.resources
import json
from dataclasses import dataclass, field
from typing import Any

KINDS = ("layer", "op", "loss", "optimizer")


@dataclass(frozen=True)
class Goal:
    """One name of the catalogue. `example` (ops that are functions over other ops):
    argument shapes (or values) and attributes.
    """

    kind: str
    name: str
    spec_name: str
    family: str
    example: dict[str, Any] = field(default_factory=dict, hash=False)


@functools.cache
def goals(kind: str) -> tuple[Goal, ...]:
    """The goals of a kind, in the catalogue's order."""
    text = (importlib.resources.files(__package__) / "catalog.json").read_text(encoding="utf-8")
    return tuple(Goal(kind, **row) for row in json.loads(text)[kind])


def spec_names(kind: str, name: str) -> list[str]:
    """The specification's names for something registered under `name`; several where it merges duplicates."""
    return [g.spec_name for g in goals(kind) if g.name == name]


def family(kind: str, name: str) -> str:
    """The catalogue's family of a name, or ""."""
    return next((g.family for g in goals(kind) if g.name == name), "")


def missing(kind: str, present: set[str]) -> list[Goal]:
    """The goals that nothing registered under their name answers yet."""
    return [g for g in goals(kind) if g.name not in present]
