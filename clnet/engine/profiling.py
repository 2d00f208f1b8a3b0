"""What a device did when: each launch and copy with its start and end by the device's clock, as a table of kernels,
as spans on queues, and as a file that Perfetto opens (and chrome://tracing, in browsers that still have it).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..show import Shown, Table, plural
from . import current

if TYPE_CHECKING:
    from .compile.plan import Launch
    from .device.device import Device


class Span(NamedTuple):
    """What a queue did for a while: [µs] from the first start in its profile; of a copy there is no launch."""

    name: str
    queue: str
    start: float
    end: float
    nbytes: int
    launch: Launch | None = None

    @property
    def length(self) -> float:
        """[µs]"""
        return self.end - self.start

    def facts(self) -> dict[str, Any]:
        """What it computes, moves and reaches, as values for JSON."""
        found: dict[str, Any] = {"bytes": int(self.nbytes)}
        if self.launch is not None:
            flops = float(self.launch.flops)
            found |= {"ops": list(dict.fromkeys(self.launch.ops)), "grid": [int(n) for n in self.launch.grid],
                      "group": [int(n) for n in self.launch.group or ()], "flops": flops}
            if self.launch.note:
                found["note"] = self.launch.note
            if flops and self.length:
                found["GFLOP/s"] = round(flops / self.length * 1e-3, 3)
        if self.length:
            found["GB/s"] = round(self.nbytes / self.length * 1e-3, 3)
        return found


class Profile(Shown, list[Any]):
    """`with profile() as p:` every launch inside is timed: (kernel, ops, milliseconds, bytes), in order; shows itself
    as a table of kernels. `spans` say when each launch and copy began and ended; `trace(file)` writes them.
    """

    def __init__(self, alone: bool = True) -> None:
        super().__init__()
        self.alone, self.device = alone, None
        self._waiting: list[tuple[str, str, int, Launch | None, Any]] = []
        self._spans: list[tuple[str, str, int, int, int, Launch | None]] = []

    device: Device | None

    def __enter__(self) -> Profile:
        self._engine = current()
        self._engine.finish()
        self._before, self._engine.profile = self._engine.profile, self
        return self

    def __exit__(self, *_: Any) -> None:
        self._engine.finish()
        self._take()
        self._engine.profile, self.device = self._before, self._engine.device
        del self._before, self._engine

    # --- what the queues tell
    def launched(self, launch: Launch, event: Any) -> None:
        """A launch; what the host computes is between the copies that it takes."""
        if event is not None:
            self._waiting.append((launch.name, "commands", launch.nbytes, launch, event))
        if self.alone:
            self._take()

    def copied(self, what: str, nbytes: int, event: Any, queue: str = "commands") -> None:
        """A copy."""
        self._waiting.append((what, queue, nbytes, None, event))

    def _take(self) -> None:
        """Reads the times of what has ended, and lets go of the events."""
        waiting, self._waiting = self._waiting, []
        for name, queue, nbytes, launch, event in waiting:
            event.wait()
            start, end = event.profile.start, event.profile.end
            self._spans.append((name, queue, start, end, nbytes, launch))
            if launch is not None:
                self.append((name, launch.ops, (end - start) * 1e-6, nbytes))

    @property
    def spans(self) -> list[Span]:
        """Launches and copies in the order in which they began."""
        found = sorted(self._spans, key=lambda s: s[2])
        first = found[0][2] if found else 0
        return [Span(name, queue, (start - first) * 1e-3, (end - first) * 1e-3, nbytes, launch)
                for name, queue, start, end, nbytes, launch in found]

    def trace(self, file: str | Path) -> Path:
        """Writes the spans in the Trace Event Format, for https://ui.perfetto.dev and chrome://tracing."""
        return write_trace(file, self.spans, str(self.device), Span.facts)

    def table(self) -> Table:
        kinds: dict[tuple[str, Any], list[float]] = {}
        for name, ops, ms, nbytes in self:
            row = kinds.setdefault((name, ops), [0, 0.0, 0.0])
            row[0], row[1], row[2] = row[0] + 1, row[1] + ms, row[2] + nbytes
        total = sum(row[1] for row in kinds.values())
        rows = [(name, ", ".join(dict.fromkeys(ops)), int(n), ms, f"{ms / total if total else 0:.1%}", ms / n,
                 f"{nbytes / ms * 1e-6 if ms else 0:.2f}")
                for (name, ops), (n, ms, nbytes) in sorted(kinds.items(), key=lambda kind: -kind[1][1])]
        where = f" on {self.device}" if self.device else ""
        notes = [] if rows else ["No kernel was launched: put what is to be timed into `with clnet.profile() as p:`."]
        foot = ("total", "", len(self), total, "100.0%", total / max(len(self), 1), None) if rows else None
        how = "each timed alone" if self.alone else "one behind the other"
        return Table(("kernel", "computes", "launches", "total [ms]", "share", "mean [ms]", "GB/s"), rows, foot=foot,
                     notes=notes, title=f"{plural(len(self), 'launch')}{where}, {how}")


def profile(alone: bool = True) -> Profile:
    """`with profile() as p:` times every launch inside; p is a list of (kernel, ops, milliseconds, bytes) that shows
    itself as a table, and `p.trace("step.json")` writes when each began and ended, for https://ui.perfetto.dev.

    alone   whether each launch is waited for before the next, so that nothing else runs beside it; without, launches
            follow each other as in a run that is not timed, and the gaps between them are those of the device
    """
    return Profile(alone)


def write_trace(file: str | Path, spans: Sequence[Span], device: str, facts: Callable[[Span], dict[str, Any]]) -> Path:
    """Spans as JSON in the Trace Event Format: a complete event ("X") each, times in µs, a row a queue; `facts` are the
    arguments that are shown for one.

    Source: "Trace Event Format", Google, 2016; https://perfetto.dev/docs/getting-started/other-formats
    """
    queues = list(dict.fromkeys(["commands", *(s.queue for s in spans)]))
    # Numbers of rows begin behind the process's: Perfetto calls a row of the same number its main thread.
    events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": device}}]
    events += [{"name": "thread_name", "ph": "M", "pid": 1, "tid": k, "args": {"name": f"queue: {queue}"}}
               for k, queue in enumerate(queues, 2)]
    events += [{"name": s.name, "cat": "copy" if s.launch is None else "kernel", "ph": "X", "ts": round(s.start, 3),
                "dur": round(s.length, 3), "pid": 1, "tid": 2 + queues.index(s.queue), "args": facts(s)}
               for s in spans]
    path = Path(file)
    lines = ",\n".join(json.dumps(e) for e in events)
    path.write_text(f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n', encoding="utf-8")
    return path
