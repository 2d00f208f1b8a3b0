"""Text in widgets."""

from __future__ import annotations

import html


def escape(text: object) -> str:
    """Any text as HTML that shows it: widgets.HTML runs what it is given."""
    return html.escape(str(text), quote=True)
