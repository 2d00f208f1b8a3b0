"""`clnet tune`: measures what geometry and placement should be on this machine and keeps it in the user's folder."""

from __future__ import annotations

import sys
from typing import Any

from ..engine import place


def placement(engine: Any, only: str = "") -> int:
    """Times every op on host and device over growing sizes; each threshold is saved as soon as it is known. Exit status."""
    from tqdm.auto import tqdm

    calls = {name: call for name, call in place.examples().items() if only in name}
    if not calls:
        print(f"tune: no op's name contains {only!r}", file=sys.stderr)
        return 1
    try:
        with tqdm(total=len(calls), desc=f"placement {engine.device.key}") as bar:
            for name, elements in place.measure(engine, calls):
                bar.set_postfix_str(f"{name}: host up to {elements}")
                bar.update()
    except KeyboardInterrupt:
        print("tune: stopped; what was measured is kept", file=sys.stderr)
    found = place.thresholds(engine.device)
    on_host = sum(n > 0 for n in found.values())
    print(f"{len(found)} ops measured, {on_host} run on the host for small arrays; kept in {place._file(engine.device)}")
    return 0
