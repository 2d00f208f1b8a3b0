"""What the project's prose holds: its files, links, anchors, and code that runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (*(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *sorted((ROOT / "docs").glob("*.md")))
FRAGMENTS = ("adding.md",)  # pages whose code is parts of files: tests/host/workbench/test_recipes.py follows them
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```.*?^```)", re.S | re.M)


def blocks(page: Path) -> list[str]:
    """The Python of a page, block by block; the later ones go on from the earlier ones."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


def with_code() -> list[Path]:
    """The pages whose code runs as it stands."""
    return [p for p in PAGES if p.name not in FRAGMENTS and blocks(p)]


def run(page: Path) -> None:
    """Runs a page from top to bottom; a traceback names the page and its line."""
    text = page.read_text(encoding="utf-8")
    scope = {"__name__": page.stem}
    for block in blocks(page):
        first = text[: text.index(block)].count("\n")
        exec(compile("\n" * first + block, str(page), "exec"), scope)


def links(page: Path) -> list[str]:
    """Links that stay in the project, outside code."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [link for _, _, link in LINK.findall(text) if ":" not in link.partition("#")[0]]


def anchors(page: Path) -> set[str]:
    """The anchors that a forge makes of a page's headings."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def broken(page: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or anchor and target.suffix == ".md" and anchor not in anchors(target):
            found.append(f"{page.name}: {link}")
    return found
