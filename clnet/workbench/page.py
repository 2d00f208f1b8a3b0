"""Self-contained HTML pages: everything escaped, pictures inside, no script, nothing fetched."""

from __future__ import annotations

import base64
import importlib.resources
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import tables

TEMPLATE = "page.html"


@dataclass
class Section:
    """A part of a page: text lines, tables (title, rows of equal keys), pictures (caption, PNG). `error`: what went wrong instead."""

    title: str
    text: list[str] = field(default_factory=list)
    tables: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    error: str = ""
    seconds: float | None = None

    def markdown(self) -> str:
        """The section as Markdown; pictures by their file names, see `file_name`."""
        parts = [f"## {tables.cell(self.title)}", *([f"**Failed:** {tables.cell(self.error)}"] if self.error else [])]
        parts += [tables.cell(t) for t in self.text]
        for title, rows in self.tables:
            parts += [*([f"### {tables.cell(title)}"] if title else []), tables.markdown(rows)]
        parts += [f"![{tables.cell(caption)}]({file_name(caption)}.png)" for caption, _ in self.pictures]
        return "\n\n".join(parts) + "\n"


def file_name(text: str) -> str:
    """A name that is safe in every file system."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:80] or "unnamed"


def data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def code(text: Any) -> Any:
    """The text escaped, what stands between backticks as code."""
    import markupsafe

    return markupsafe.Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))


def render(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The page. Every text is escaped by the template."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["data_uri"] = data_uri
    environment.filters["slug"] = file_name
    environment.filters["code"] = code
    source = (importlib.resources.files(__package__) / TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(source).render(title=title, lead=lead, sections=sections, versions=tables.versions())


def parity_section(found: Any) -> Section:
    """What `parity.compare` found, as a section."""
    pictures = [(f"{found.name} {name}", png) for name, png in found.plots().items()]
    return Section(f"Parity: {found.name} on {found.device}", [str(found)], [("", [p.row() for p in found.places])], pictures)


def bench_section(rows: Sequence[Any], pictures: dict[str, bytes]) -> Section:
    """Rows of the bench as a section, CPU and GPU apart."""
    from .bench_row import sections

    found = sections(rows)
    return Section("Bench", [f"{title}: {legend}" for title, legend, _ in found], [(title, some) for title, _, some in found],
                   [(f"bench {name}", png) for name, png in pictures.items()])


def status_section(rows: Iterable[dict[str, Any]]) -> Section:
    """Rows of status as a section: what is there, in tables by kind, and how much is to come."""
    from .status_command import summary

    rows = list(rows)
    here = [r for r in rows if r["note"] != "not there yet"]
    found = [(tables.HEADINGS[kind], [tables.shown(r) for r in here if r["kind"] == kind]) for kind in tables.FILES]
    return Section("Status", [summary(rows), tables.LEGEND, *tables.MEANING.splitlines()], [(title, some) for title, some in found if some])
