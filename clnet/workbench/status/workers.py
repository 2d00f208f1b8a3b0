"""Rows of status from several processes, `worker`s:
a compiler takes one core, and one that dies takes its row along, not the table.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ...engine.device.devices import Device
from ..bench.peers import threads_of
from ..child import Child
from ..evidence.registry import Subject

WORKER = "clnet.workbench.status.worker"
MOST = 4  # processes, one a core: each grows to about 1 GB
FEW = 12  # subjects that are done before processes have started
PATIENCE = 600.0  # [s] for one row


def each(subjects: Sequence[Subject], device: Device, quick: bool,
         skip: Sequence[str] = ()) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number of the subject, answer), as they come; nothing where processes of their own would not pay."""
    processes = min(MOST, threads_of(device))
    if len(subjects) <= FEW or processes == 1:
        return
    todo: queue.SimpleQueue[tuple[int, Subject]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
    for pair in enumerate(subjects):
        todo.put(pair)
    children = [Child(WORKER, PATIENCE) for _ in range(processes)]
    threads = [threading.Thread(target=_work, args=(c, device.key, quick, skip, todo, done), daemon=True)
               for c in children]
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
