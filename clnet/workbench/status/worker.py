"""A process that checks subjects: {"device", "kind", "name", "quick", "skip"} a line, answered by {"row"}, or
{"unknown"} for what is registered only where the question comes from.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...engine import on
from ..child import serve
from ..evidence import registry
from ..evidence.registry import Subject
from .verdict import check


def main() -> None:
    known: dict[tuple[str, str], Subject] = {}

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        if not known:
            known.update({(s.kind, s.name): s for s in registry.subjects()})
        subject = known.get((question["kind"], question["name"]))
        if subject is None:
            return {"unknown": True}
        with on(question["device"]) as engine:
            return {"row": asdict(check(subject, engine, question["quick"], question["skip"]))}

    serve(answer)


if __name__ == "__main__":
    main()
