"""Rows as Markdown tables and as JSON files, and the words that pages open with."""

from __future__ import annotations

import datetime
import html
import json
import os
import platform
import re
from collections.abc import Iterable, Sequence, Set
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__, errors
from ..show import NUMBER
from .marks import NONE, Mark

if TYPE_CHECKING:
    from ..engine.device.devices import Device


def version(package: str) -> str:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def versions() -> str:
    """The software that a table was made with."""
    packages = ", ".join([f"clnet {__version__}", *(f"{p} {version(p)}" for p in ("numpy", "pyopencl"))])
    return f"Python {platform.python_version()}, {packages}, {platform.system()} {platform.machine()}"


def device_words(device: Device) -> str:
    """A device by its name and by whose software it runs: "AMD EPYC, Intel's CPU runtime"."""
    who = (device.known.title or device.platform).format(device.kind.upper())
    return f"{device.name.removeprefix('pthread-')}, {who}"


class Link(str):
    """Text that leads to a file: `to`, relative to the page or table that it stands in."""

    to: str

    def __new__(cls, text: str, to: str) -> Link:
        made = super().__new__(cls, text)
        made.to = to
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # of text alone there is one
        """What a copy and a pickle are made of."""
        return str(self), self.to

    @property
    def markdown(self) -> str:
        return f"[{cell(str(self))}]({self.to})"

    def __html__(self) -> str:
        return f'<a href="{html.escape(self.to)}">{html.escape(str(self))}</a>'


def cell(text: object) -> str:
    """Text that stays text in a Markdown table: no markup, no line ends, no HTML."""
    if isinstance(text, (Mark, Link)):
        return text.markdown
    flat = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#$])", r"\\\1", flat)


def prose(text: str) -> str:
    """`cell`, and what stands between backticks as code, as `page.code` shows it."""
    def code(found: re.Match[str]) -> str:
        return "`" + html.unescape(re.sub(r"\\(.)", r"\1", found[1])) + "`"

    return re.sub(r"\\`(.+?)\\`", code, cell(text))


def listed(parts: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def filled(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the columns that are empty in every one of them."""
    rows = list(rows)
    empty = {k for row in rows for k in row} - {k for row in rows for k, v in row.items() if v not in ("", None)}
    return [{k: v for k, v in row.items() if k not in empty} for row in rows] if empty else rows


def numeric(values: Iterable[Any]) -> bool:
    """Whether a column holds numbers, with or without units, and nothing else: such columns stand at the right."""
    texts = [str(v) for v in values if v not in ("", None, NONE)]
    return bool(texts) and all(NUMBER.fullmatch(t) for t in texts)


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Dicts with equal keys as a Markdown table, every cell escaped, numbers at the right, without empty columns."""
    import pandas as pd

    rows = filled(rows)
    if not rows or not rows[0]:
        return "(none)"
    sides = ["right" if numeric(row[k] for row in rows) else "left" for k in rows[0]]
    frame = pd.DataFrame([{cell(k): cell("" if v is None else v) for k, v in row.items()} for row in rows])
    return str(frame.to_markdown(index=False, disable_numparse=True, colalign=sides))


def rows_of(path: Path, needed: Set[str], who: str, way_out: str) -> list[dict[str, Any]]:
    """The rows of a JSON file, each with at least the needed keys.
    DataError if there is no such file, or it holds something else.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.DataError(
            f"{who}: expected rows in {path}; got {getattr(error, 'strerror', None) or error}; {way_out}.") from None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and needed <= r.keys() for r in rows):
        raise errors.DataError(
            f"{who}: expected a list of rows with {', '.join(sorted(needed))} in {path}; got something else; "
            f"{way_out}.")
    return rows


def save(path: Path, text: str) -> None:
    """Writes the whole file or leaves the old one; a device or a pipe, /dev/stdout say, is written to, not replaced."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        path.write_text(text, encoding="utf-8")
        return
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def save_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A JSON list, a line a row."""
    save(path, json_lines(rows))


def json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n"


def header(title: str, command: str) -> str:
    """The title and how the file came to be."""
    return f"# {title}\n\n{made(command)}\n"


def made(command: str) -> str:
    """How a file, or a part of one, came to be."""
    return (f"Made by `{command}` on {datetime.date.today().isoformat()} with {versions()}. "
            "Not written by hand.")
