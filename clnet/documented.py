"""Docstrings with an example behind them that is written when somebody reads it: by `help`, `?`, the reference."""

from __future__ import annotations

import importlib
import sys
from types import FunctionType

MAKER = "clnet.workbench.evidence.usage"  # stands far above, and is loaded by the first who reads


def example(kind: str, name: str) -> str:
    """What follows a docstring: "Example:" and a call of the thing, as it is typed; "" where there is none.

    kind   "op", "layer", "loss", "optimizer" or "schedule"
    """
    return str(importlib.import_module(MAKER).usage(kind, name))


def behind(text: str, found: str) -> str:
    """A docstring with its example."""
    return f"{text.rstrip()}\n\n{found}" if found else text


class Documented(str):
    """The docstring of an op. Whoever shows it calls `inspect.getdoc`, which asks for it without tabs, and gets the
    example as well; to all others it is the string that was written.
    """

    op: str

    def __new__(cls, text: str, op: str) -> Documented:
        made = super().__new__(cls, text)
        made.op = op
        return made

    def expandtabs(self, tabsize: int = 8) -> str:  # type: ignore[override]
        text = str.expandtabs(self, tabsize)
        _, _, rest = text.partition("\n")
        margin = min((len(line) - len(line.lstrip()) for line in rest.split("\n") if line.strip()), default=0)
        found = example("op", self.op).replace("\n", "\n" + " " * margin)
        return behind(text, " " * margin + found if found else "")


def document(module: str) -> None:
    """Every public function of a module has its example behind its docstring, as ops have."""
    for name, thing in vars(sys.modules[module]).items():
        if isinstance(thing, FunctionType) and not name.startswith("_") and thing.__doc__:
            thing.__doc__ = Documented(thing.__doc__, name)
