"""The reference: a page a public module, made of the docstrings that `help` shows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import clnet
from clnet.core.op import Op
from clnet.names import public
from clnet.show import opening

DEEPER = ("clnet.train.data", "clnet.ops.custom", "clnet.ops.random",  # beside clnet and the modules that it lists
          "clnet.explore", "clnet.tune")
SKIPPED = ("clnet.workbench",)  # whose commands and widgets have pages of their own
EXAMPLE = "\nExample:\n"


def modules() -> list[str]:
    """The public modules: clnet itself, those of its folder that say what they offer, and DEEPER."""
    found = ["clnet", "clnet.ops", "clnet.errors"]
    for info in pkgutil.iter_modules(clnet.__path__, "clnet."):
        name = info.name
        if name not in (*SKIPPED, "clnet.names", "clnet.__main__") and name not in found and _offers(name):
            found.append(name)
    return [*found, *DEEPER]


def _offers(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        return "\n__all__" in file.read()


def module(name: str) -> Any:
    """The module of a name; clnet.ops.random, clnet.explore and clnet.tune are some under other names."""
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last) if package and package != "clnet" or name in DEEPER else (
        importlib.import_module(name))


def names(of: str) -> list[str]:
    """The public names of a module that stand on its page, by alphabet: what can be called, and values."""
    found = module(of)
    mine = public(found.__name__)
    return sorted((n for n in mine if not n.startswith("__") and n != "TYPE_CHECKING"
                   and not inspect.ismodule(getattr(found, n))), key=str.lower)


def page(of: str) -> str:
    """The page of a module in Markdown: a table of its names, then each with signature, documentation and example."""
    found, listed = module(of), names(of)
    rows = [f'| <a href="#{n}"><code>{n}</code></a> | {_cell(opening(_doc(getattr(found, n))))} |' for n in listed]
    lead = _cell(opening(inspect.getdoc(found) or ""))
    return "\n".join([f"# {of}", "", lead, "", "| name | what it is |", "|---|---|", *rows, "",
                      *(line for n in listed for line in _entry(of, n, getattr(found, n)))])


def _entry(of: str, name: str, thing: Any) -> Iterator[str]:
    yield f'<a id="{name}"></a>\n\n## `{name}`\n'
    yield f"```python\n{of}.{name}{signature(thing)}\n```\n"
    text, _, example = _doc(thing).partition(EXAMPLE)
    if text.strip():
        yield f"```text\n{text.rstrip()}\n```\n"
    if example:
        yield f"```pycon\n{inspect.cleandoc(example)}\n```\n"
    for method, function in _methods(thing):
        yield f"### `{name}.{method}`\n"
        yield f"```python\n{name}.{method}{signature(function)}\n```\n"
        yield f"```text\n{_doc(function).rstrip()}\n```\n"


def _methods(thing: Any) -> list[tuple[str, Callable[..., Any]]]:
    """What a class defines itself and documents."""
    if not inspect.isclass(thing):
        return []
    return [(n, f) for n, f in vars(thing).items() if not n.startswith("_") and inspect.isroutine(f)
            and inspect.getdoc(getattr(thing, n))]


def signature(thing: Any) -> str:
    """`(x, axes=None)`, annotations as they are written; "" of what is not called."""
    if isinstance(thing, Op):
        return f"({', '.join(thing.args)})"
    if isinstance(thing, (classmethod, staticmethod)):
        thing = thing.__func__
    if not callable(thing):
        return ""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    empty = inspect.Parameter.empty
    return str(found.replace(
        parameters=[p.replace(annotation=p.annotation if p.annotation is empty else Written(p.annotation),
                              default=p.default if not inspect.isclass(p.default) or p.default is empty else
                              Written(p.default.__name__)) for p in found.parameters.values()],
        return_annotation=found.return_annotation if found.return_annotation in (empty, "None")
        else Written(found.return_annotation))).replace(" -> 'None'", "")


class Written:
    """An annotation that shows itself without quotes."""

    def __init__(self, annotation: object) -> None:
        self.text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)

    def __repr__(self) -> str:
        return self.text


def _doc(thing: Any) -> str:
    """Its own documentation; of a plain value its type and, where short, what it is."""
    if isinstance(thing, (str, int, float, tuple, list, dict)):
        return f"{type(thing).__name__}: {', '.join(map(str, thing))}" if isinstance(thing, (dict, list, tuple)) else (
            f"{type(thing).__name__} {thing!r}")
    return inspect.getdoc(thing) or ""


def _cell(text: str) -> str:
    """A first paragraph in a cell: nothing in it is Markdown."""
    signs = {c: f"&#{ord(c)};" for c in "|*_`<>[]\\~^"}
    return "".join(signs.get(c, c) for c in " ".join(text.replace("&", "&amp;").split()))
