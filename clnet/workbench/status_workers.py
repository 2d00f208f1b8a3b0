"""Rows of status from several processes: a compiler takes one core, and one that dies takes its row along, not the table.

As a module it is such a process: {"device", "kind", "name", "quick"} a line, answered by {"row"}, or {"unknown"} for what is registered
only where the question comes from.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from .child import Child, serve
from .peers import threads_of
from .registry import Subject

MOST = 4  # processes, one a core: each grows to about 1 GB
FEW = 12  # subjects that are done before processes have started
PATIENCE = 600.0  # [s] for one row


def each(subjects: Sequence[Subject], device: Any, quick: bool, skip: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the subject, answer), as they come; nothing where processes of their own would not pay."""
    processes = min(MOST, threads_of(device))
    if len(subjects) <= FEW or processes == 1:
        return
    todo: queue.SimpleQueue[tuple[int, Subject]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
    for pair in enumerate(subjects):
        todo.put(pair)
    children = [Child(__name__, PATIENCE) for _ in range(processes)]
    threads = [threading.Thread(target=_work, args=(c, device.key, quick, skip, todo, done), daemon=True) for c in children]
    for t in threads:
        t.start()
    try:
        for _ in subjects:
            yield done.get()
    finally:
        while not todo.empty():  # left early: nobody shall begin another
            todo.get()
        for child, t in zip(children, threads, strict=True):
            child.interrupt()
            t.join()
            child.stop()


def _work(child: Child, device: str, quick: bool, skip: Sequence[str], todo: queue.SimpleQueue[tuple[int, Subject]],
          done: queue.SimpleQueue[tuple[int, dict[str, Any]]]) -> None:
    while True:
        try:
            k, s = todo.get_nowait()
        except queue.Empty:
            return
        done.put((k, child.ask({"device": device, "kind": s.kind, "name": s.name, "quick": quick, "skip": list(skip)})))


def main() -> None:
    from ..engine import on
    from . import registry, status

    known: dict[tuple[str, str], Subject] = {}

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        if not known:
            known.update({(s.kind, s.name): s for s in registry.subjects()})
        subject = known.get((question["kind"], question["name"]))
        if subject is None:
            return {"unknown": True}
        with on(question["device"]) as engine:
            return {"row": asdict(status.check(subject, engine, question["quick"], question["skip"]))}

    serve(answer)


if __name__ == "__main__":
    main()
