"""What `help` says of a configured class: its docstring, the arguments that its fields make, and an example."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from typing import Any

from ..documented import behind, example
from .declared import argument, by_place, default_of, extra
from .families import family_of

WIDTH = 100  # columns
SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤", "min_length": "length ≥", "max_length": "length ≤"}


class Described:
    """Stands for the docstring of a class and writes its arguments behind it when somebody asks: a hundred classes are
    imported for one that is read about.
    """

    def __init__(self, text: str | None) -> None:
        self.text = text or ""

    def __get__(self, instance: object, cls: type) -> str:
        rows = [(argument(f), _about(f)) for f in by_place(cls)]
        family = family_of(cls)
        found = example(family.__name__.lower(), cls.__name__) if family and _is_own(cls, family) else ""
        return behind(_with_arguments(self.text, rows), found)


def _is_own(cls: type, family: type) -> bool:
    """Whether the class is known by its name: no base, and none that a class of the same name replaced."""
    return family.registry.get(cls.__name__) is cls  # type: ignore[attr-defined,no-any-return]


def _with_arguments(text: str, rows: list[tuple[str, str]]) -> str:
    if not rows:
        return text
    wide = max(len(name) for name, _ in rows)
    lines = [textwrap.fill(f"{name:<{wide}}   {about}", WIDTH, initial_indent=" " * 4,
                           subsequent_indent=" " * (wide + 7), break_long_words=False, break_on_hyphens=False)
             for name, about in rows]
    return "\n".join([inspect.cleandoc(text), "", "Arguments:", *lines])


def _about(f: dataclasses.Field[Any]) -> str:
    """`size of the last axis of the output (> 0, required)`"""
    info, more = f.default, extra(f)
    bounds = getattr(info, "bounds", {})
    facts = [f"{sign} {bounds[name]}" for name, sign in SIGNS.items() if name in bounds]
    if options := more.get("options"):
        facts.append(f"one of {', '.join(map(repr, options))}")
    facts.append("required" if more.get("required") else "left out: the first call binds it" if more.get("bound")
                 else f"default {default_of(f)!r}")
    return f"{getattr(info, 'description', None) or ''} ({', '.join(facts)})".strip()
