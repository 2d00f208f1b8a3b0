"""The commands' help as a page."""

from __future__ import annotations

import os

from clnet import cli
from clnet.commands import COMMANDS


def page() -> str:
    """What `clnet --help` and `clnet COMMAND --help` print, in 100 columns and without colours."""
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    top = cli.parser()
    subs = next(a.choices for a in top._actions if a.dest == "command")
    parts = ["# Commands", f"```text\n{top.format_help().strip()}\n```"]
    parts += [f"## clnet {c.name}\n\n```text\n{subs[c.name].format_help().strip()}\n```" for c in COMMANDS]
    return "\n\n".join(parts) + "\n"
