"""Self-contained HTML pages: everything escaped, pictures inside, nothing fetched; the templates lie in `pages/`.

They read without a script; the one that is there filters and sorts rows.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import tables
from .bench.columns import sections
from .marks import LEGEND, Mark
from .plots import Picture
from .status import tables as status_tables
from .status.row import Row as StatusRow

if TYPE_CHECKING:
    from .parity import Parity

FOLDER = "pages"
SEARCHED = 12  # rows from which on a box to filter them pays


@dataclass
class Table:
    """Rows of equal keys under a title. `below`: columns that stand under each row, folded. Empty columns are left out,
    constant ones said once.
    """

    title: str
    rows: list[dict[str, Any]]
    below: Sequence[str] = ()
    note: str = ""
    same: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = tables.filled(self.rows)
        first = list(self.rows[0]) if self.rows else []
        if len(self.rows) > 2:
            self.same = {k: self.rows[0][k] for k in first[1:]
                         if len({str(r[k]) for r in self.rows}) == 1 and not isinstance(self.rows[0][k], Mark)}
        self.columns = [k for k in first if k not in self.same and k not in self.below]
        self.numbers = {k for k in self.columns if tables.numeric(r[k] for r in self.rows)}

    def facts(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What stands under a row."""
        return {k: row[k] for k in self.below if row.get(k) not in ("", None) and k not in self.same}

    def markdown(self) -> str:
        rows = [{k: v for k, v in r.items() if k not in self.same} for r in self.rows]
        said = "; ".join(f"{k} {v}" for k, v in self.same.items())
        return "\n\n".join([*([f"### {tables.cell(self.title)}"] if self.title else []),
                            *([tables.prose(self.note)] if self.note else []),
                            *([f"In every row: {tables.cell(said)}."] if said else []), tables.markdown(rows)])


@dataclass
class Section:
    """A part of a page: text lines, tables, pictures, kinds of status.
    `verdict`: its sentence for the top, `short`: in a few words, for the list of runs; `error`: what went wrong;
    `rows`: what was measured.
    """

    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    error: str = ""
    seconds: float | None = None
    verdict: str = ""
    short: str = ""
    rows: Sequence[Any] = ()
    kinds: list[status_tables.Kind] = field(default_factory=list)
    terms: dict[str, str] = field(default_factory=dict)

    @property
    def searched(self) -> bool:
        return bool(self.kinds) or sum(len(t.rows) for t in self.tables) >= SEARCHED

    def markdown(self) -> str:
        """The section as Markdown; pictures by their file names, see `file_name`."""
        parts = [f"## {tables.cell(self.title)}", *([f"**Failed:** {tables.cell(self.error)}"] if self.error else [])]
        parts += [tables.prose(t) for t in self.text]
        parts += [f"![{tables.cell(p.heading)}]({file_name(p.heading)}.png)\n\n{tables.prose(p.note)}".strip()
                  for p in self.pictures]
        parts += [t.markdown() for t in self.tables]
        parts += [part for k in self.kinds for part in status_tables.shown(k, 3)]
        said = [f"- *{tables.cell(term)}*: {tables.prose(text)}." for term, text in self.terms.items()]
        parts += ["\n".join(said)] if said else []
        return "\n\n".join(parts) + "\n"


def file_name(text: str) -> str:
    """A name that is safe in every file system."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:80] or "unnamed"


def data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def code(text: object) -> Any:
    """The text escaped, what stands between backticks as code."""
    import markupsafe

    return markupsafe.Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(markupsafe.escape(text))))


def camel(text: object) -> Any:
    """The text escaped, with places where a narrow column may break a name: CrossAttention."""
    import markupsafe

    if isinstance(text, tables.Link):
        return markupsafe.escape(text)
    return markupsafe.Markup(re.sub(r"(?<=[a-z0-9_.])(?=[A-Z_])", "<wbr>", str(markupsafe.escape(text))))


def render(title: str, lead: Sequence[str], sections: Sequence[Section], verdict: Sequence[str] = (),
           up: str = "") -> str:
    """The page: the verdict on top, then the sections, then how it was made (`lead`); `up`: the page that lists it.
    Every text is escaped by the template.
    """
    import jinja2
    import markupsafe

    environment = jinja2.Environment(loader=jinja2.PackageLoader("clnet.workbench", FOLDER), autoescape=True,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"data_uri": data_uri, "slug": file_name, "code": code, "camel": camel}
    style, script = (markupsafe.Markup(_source(name)) for name in ("page.css", "page.js"))
    # The hash is of all that stands between the tags, and nothing else may run.
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    return environment.get_template("page.html").render(
        title=title, verdict=list(verdict), lead=[*lead, f"Made with {tables.versions()}."], sections=sections, up=up,
        style=style, script=script, script_hash=f"sha256-{digest}")


def _source(name: str) -> str:
    return (importlib.resources.files(__package__) / FOLDER / name).read_text(encoding="utf-8")


def parity_section(found: Parity) -> Section:
    """What `parity.compare` found, as a section."""
    rows = [p.row() for p in found.places]
    parts = [Table(title, [{k: v for k, v in r.items() if k != "pass"} for r in rows if r["pass"] == name], found.BELOW)
             for name, title in found.PASSES.items()]
    return Section("Parity", [f"{found}."], [t for t in parts if t.rows], list(found.plots().values()),
                   terms=found.TERMS)


def status_section(rows: Sequence[StatusRow]) -> Section:
    """Rows of status as a section: by kind and family, what is there and what is to come."""
    return Section("Status", [f"{status_tables.counts(rows)}.", LEGEND], kinds=status_tables.kinds(rows),
                   terms=status_tables.MEANING, rows=rows)


def bench_section(rows: Sequence[Any], pictures: Mapping[str, Picture]) -> Section:
    """Rows of the bench on one device as a section; what several tables have in common is said once."""
    found = [(title.partition(": ")[2], legend, [_by_work(r) for r in some]) for title, legend, some in sections(rows)]
    legends = {legend: [title for title, other, _ in found if other == legend] for _, legend, _ in found}
    text = [f"{', '.join(titles).capitalize()}. {legend}" for legend, titles in legends.items()]
    return Section("Bench", text, [Table(title.capitalize(), some, BELOW) for title, _, some in found],
                   list(pictures.values()), rows=rows)


def _by_work(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the name of its work in front, and without what the section says of all."""
    return {"work": row["work"], **{k: v for k, v in row.items() if k not in ("work", "suite", "device")}}


# columns of the bench that stand under each row
BELOW = ("arithmetic", "threads", "tuning", "note", "launches", "kernels' MB", "peak MB")
