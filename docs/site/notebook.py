"""Notebooks as they were run, as pages."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

STYLE = re.compile(r"<style.*?</style>\s*", re.S)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """(Markdown, the pictures that it shows by file name). Pictures in the prose stay as they are, in the text."""
    book = nbformat.read(path, as_version=4)
    exporter = MarkdownExporter()
    text, resources = exporter.from_notebook_node(
        book, resources={"output_files_dir": "", "unique_key": path.stem})
    return ESCAPES.sub("", STYLE.sub("", text)), dict(resources.get("outputs", {}))
