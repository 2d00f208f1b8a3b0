"""Notebooks as they were run, as pages."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.png)\)")
STYLE = re.compile(r"<style.*?</style>\s*", re.S)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """(Markdown, the pictures that it shows by file name). Pictures in the prose stay as they are, in the text."""
    book = nbformat.read(path, as_version=4)
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(
        book, resources={"output_files_dir": "", "unique_key": path.stem})
    text = text.replace("```python\n%%opencl", "```text\n%%opencl")  # which is OpenCL C
    return ESCAPES.sub("", STYLE.sub("", text)), dict(resources.get("outputs", {}))


def entry(text: str, uri: str) -> str:
    """What the gallery shows of a page: its title as a link, what it begins with, its first picture."""
    title, _, rest = text.partition("# ")[2].partition("\n")
    first, picture = rest.strip().split("\n\n")[0], PICTURE.search(rest)
    shown = f"[![{title}](notebooks/{picture[1]}){{width=420px}}]({uri})" if picture else ""
    return f"### [{title}]({uri})\n\n{first}\n\n{shown}\n"
