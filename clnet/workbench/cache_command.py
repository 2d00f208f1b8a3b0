"""`clnet cache`: where compiled programs and plans are kept, how much they take, and how they are deleted."""

from __future__ import annotations

from pathlib import Path

from ..show import plural
from . import terminal
from .doctor import cache_lines, cache_rows, stores


def main(action: str | None, json_file: Path | None = None) -> int:
    """Says it, or with "clear" deletes them. Exit status."""
    if json_file:
        terminal.save_json(cache_rows(), json_file)
    if json_file == terminal.STDOUT and not action:
        return 0
    if action == "clear":
        for what, store in stores().items():
            print(f"{plural(store.clear(), what)} deleted from {store.folder}")
    else:
        print("\n".join(cache_lines()))
        print("`clnet cache clear` deletes them; they are made again when they are needed.")
    return 0
