"""`make docs`: the documentation as pages in site/, any warning an error.

Gathers the project's prose (README, docs/, CONTRIBUTING, CHANGELOG), the tables of status/ and reports/, the notebooks
as they were run, the commands' help and the reference in build/docs/, and lets Sphinx make pages of them. Links are
written as they work in a checkout and on a forge: those to a file that is a page lead there, those to what is none
(source code) keep their text.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

import commands_page
import flowchart
import notebook
import reference
from prose import FENCE, LINK

ROOT = Path(__file__).parents[2]
SOURCES, SITE = ROOT / "build" / "docs", ROOT / "site"
FIXED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
TABLES = ("status/*.md", "reports/*.md", "reports/*/*.md")
FOREIGN = re.compile(r"""(?:<(?:script|img|iframe)[^>]*\bsrc=|<link[^>]*\bhref=|@import\s*|url\()["']?"""
                     r"""(?:https?:)?//[^"'>)]+""")
GUIDES = ("start", "data", "training", "graphs", "performance", "runtimes", "commands")
INSIDE = ("architecture", "adding", "custom", "kernels", "benchmarks", "contributing", "changelog")


def published() -> dict[str, str]:
    """Path in the project: path among the sources, of every text that becomes a page."""
    found = dict(FIXED)
    found |= {f"docs/{p.name}": p.name for p in (ROOT / "docs").glob("*.md")}
    found |= {str(p.relative_to(ROOT)): str(p.relative_to(ROOT)) for pattern in TABLES
              for p in sorted(ROOT.glob(pattern))}
    found |= {f"notebooks/{p.name}": f"notebooks/{p.stem}.md" for p in sorted((ROOT / "notebooks").glob("*.ipynb"))}
    return found


def relinked(text: str, source: str, known: dict[str, str]) -> tuple[str, set[str]]:
    """(the text of the file `source` with its relative links turned, the pictures that it shows)."""
    uri, pictures = known[source], set[str]()

    def turned(found: re.Match[str]) -> str:
        bang, label, link = found.groups()
        target, mark, anchor = link.partition("#")
        if not target or ":" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if bang and (ROOT / path).exists():
            pictures.add(path)
        elif path not in known:
            return label if (ROOT / path).exists() else found[0]  # Sphinx says what is nowhere
        to = posixpath.relpath(known.get(path, path), posixpath.dirname(uri) or ".")
        return f"{bang}[{label}]({to}{mark}{anchor})"

    return "".join(_block(part) if part.startswith("```") else LINK.sub(turned, part)
                   for part in FENCE.split(text)), pictures


def _block(text: str) -> str:
    language, _, body = text.partition("\n")
    return flowchart.svg(body.removesuffix("```")) if language == "```mermaid" else text


def sources() -> dict[str, str | bytes]:
    """Everything that Sphinx reads, by its path."""
    known, found = published(), dict[str, str | bytes]()
    for path, uri in known.items():
        if path.endswith(".ipynb"):
            text, drawn = notebook.page(ROOT / path)
            found |= {f"notebooks/{name}": data for name, data in drawn.items()}
        else:
            text = (ROOT / path).read_text(encoding="utf-8")
        found[uri], pictures = relinked(text, path, known)
        found |= {p: (ROOT / p).read_bytes() for p in pictures}
    found |= {f"reference/{name}.md": reference.page(name) for name in reference.modules()}
    found["commands.md"] = commands_page.page()
    books = [uri for path, uri in known.items() if path.endswith(".ipynb")]
    shown = "\n".join(notebook.entry(str(found[uri]), uri) for uri in books)
    found |= {"notebooks.md": _list("Notebooks", f"Executed, with what they showed; `clnet lab` opens them.\n\n{shown}",
                                    books, ":hidden:\n:maxdepth: 1\n"),
              "reference.md": _list("Reference", "What `help` shows, a page a module.",
                                    [f"reference/{name}.md" for name in reference.modules()]),
              "tables.md": _list("Tables and reports", "Made by commands, which they name.",
                                 [uri for uri in known.values() if uri.startswith(("status/", "reports/"))])}
    found["index.md"] = str(found["index.md"]) + "".join(
        _tree(pages, f":hidden:\n:caption: {title}\n") for title, pages in (
            ("Guides", GUIDES), ("Inside", INSIDE), ("More", ("notebooks", "reference", "tables"))))
    return found


def _tree(pages: list[str] | tuple[str, ...], options: str) -> str:
    return "\n\n```{toctree}\n" + options + "\n" + "\n".join(p.removesuffix(".md") for p in pages) + "\n```\n"


def _list(title: str, lead: str, pages: list[str], options: str = ":maxdepth: 1\n") -> str:
    return f"# {title}\n\n{lead}" + _tree(pages, options)


def gather() -> None:
    """Writes what differs, so that Sphinx makes anew what changed; deletes what is no longer there."""
    wanted = sources()
    for path, data in wanted.items():
        file, raw = SOURCES / path, data.encode() if isinstance(data, str) else data
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_bytes() != raw:
            file.write_bytes(raw)
    for file in SOURCES.rglob("*"):
        if file.is_file() and str(file.relative_to(SOURCES)) not in wanted:
            file.unlink()


def foreign() -> list[str]:
    """What pages of the site would load from another host."""
    return [f"{file.relative_to(SITE)}: {found[0]}" for kind in ("*.html", "*.css")
            for file in SITE.rglob(kind) for found in FOREIGN.finditer(file.read_text(encoding="utf-8"))]


def main() -> int:
    """Exit status: 1 where Sphinx warned, or a page would load something from elsewhere."""
    from sphinx.cmd.build import main as sphinx

    gather()
    failed = sphinx(["-q", "-W", "--keep-going", "-j", "auto", "-c", str(Path(__file__).parent), "-d",
                     str(SOURCES.parent / "doctrees"), str(SOURCES), str(SITE)])
    loads = foreign()
    print("\n".join(f"docs: {line}" for line in loads) if loads else f"docs: {SITE / 'index.html'}")
    return int(bool(failed or loads))


if __name__ == "__main__":
    sys.exit(main())
