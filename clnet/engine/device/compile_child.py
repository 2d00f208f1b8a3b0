"""The process in which a program is built first: `compile_probe` starts it and looks at how it ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ...errors import KernelBuildError
from .devices import select
from .programs import ProgramCache


def main() -> None:
    """Builds the program that standard input describes; a compiler that dies takes this process alone."""
    request = json.load(sys.stdin)
    device, _ = select(request["device"])
    cache = ProgramCache(device, folder=Path(request["folder"]))
    try:
        program = cache.get(request["source"], request["options"], name=request["name"])
    except KernelBuildError:
        return  # the parent builds it again and reports the log
    # PoCL generates machine code late; asking for the binary makes it happen here.
    cache.binary(program)


if __name__ == "__main__":
    main()
