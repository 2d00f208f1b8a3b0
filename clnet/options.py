"""What options of `clnet` take: the text that was typed becomes a value, or an error that says what was expected."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .names import ending, ending_of_path
from .workbench import terminal
from .workbench.bench import suites

DATA = ("digits",)
OWN = "arrays: `clnet.Trainer(model, loss, optimizer).fit(x, y)` in Python or a notebook"
Option = tuple[tuple[str, ...], dict[str, Any]]


def option(*names: str, **how: Any) -> Option:
    """An argument, as argparse's add_argument takes it."""
    return names, how


def json_option(what: str) -> Option:
    """`--json [FILE]`: `what` is written there, or to standard output and nothing else with it."""
    return option("--json", nargs="?", const=terminal.STDOUT, type=json_file, metavar="FILE",
                  help=f"write {what} there as JSON; without FILE, or with -, to standard output, with nothing else")


def json_file(text: str) -> Path:
    """A file for JSON; a bare word is what was meant for another argument."""
    if text != "-" and "." not in text and "/" not in text and "\\" not in text:
        raise argparse.ArgumentTypeError(f"expected a file as in rows.json, or -; got {text!r}; "
                                         f"put --json last, or write --json=- before {text}")
    return Path(text)


def shape(text: str) -> tuple[int, ...]:
    """Sizes with commas between."""
    try:
        sizes = tuple(int(n) for n in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"expected positive sizes with commas between, as in 32,1,8,8; got {text!r}")
    return sizes


def data(text: str) -> str | Path:
    """What to train on: a name, or a path that is there."""
    if text in DATA:
        return text
    return there(text, f"{' or '.join(DATA)}, which comes with clnet, a model's file, ", f" For {OWN}", DATA)


def there(text: str, also: str = "", more: str = "", known: Iterable[str] = ()) -> Path:
    """A file or folder that is there; `also` and `known` may stand in its place."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"expected {also}a table, a text or a folder of pictures; got {text!r}, which "
                                         f"is not there{ending_of_path(path, known)}{more}")
    return path


def several(text: str) -> tuple[str, ...]:
    """Names with commas between."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def suite(text: str) -> str:
    """A suite of the bench."""
    names = (*suites.names(), "all")
    if text not in names:
        raise argparse.ArgumentTypeError(f"expected {', '.join(names)}; got {text!r}{ending(text, names)}")
    return text


def whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A whole number of at least `least`, at most `most`."""
    def taken(text: str) -> int:
        if not (digits := text.strip()).isdecimal() or not least <= int(digits) <= most:
            limit = f"at least {least}" if most >= 2**63 - 1 else f"{least} to {most}"
            raise argparse.ArgumentTypeError(f"expected a whole number, {limit}; got {text}")
        return int(digits)
    return taken


def share(text: str) -> float:
    """A share in [0, 1)."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a share of at least 0 and below 1; got {text}")
    return value


def assignment(text: str) -> tuple[str, Any]:
    """A name and a value: a literal of Python, or else text."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (equals and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, as in epochs=2; got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def above_zero(text: str) -> float:
    """A positive number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0; got {text}")
    return value
