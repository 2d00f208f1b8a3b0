"""The README as an index of packages shows it, where links into the project and its pictures lead nowhere: of a link
its words stay and the file that it leads to, pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)#]*)[^)]*\)")


def description(readme: str) -> str:
    """The README's text for a reader who has none of the other files."""
    return LINK.sub(lambda found: found[1] if found[1] == found[2] else f"{found[1]} (`{found[2]}`)",
                    PICTURE.sub("", readme))


class Description(MetadataHookInterface):
    """Hatchling's hook for `dynamic` metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}
