"""A process that times works of ours, in whatever state of the project it runs: {"device", "suite", "quick", "only"} is
answered by {"works"}, {"prepare": a work's name} by {"repeats", "launches"}, {"time": repeats} by {"seconds"} a call.

`against` hands its text to the Python of another checkout, which may be older: it asks for little there.
"""

from __future__ import annotations

from typing import Any

from ...engine import current, use
from ..child import serve
from . import compare
from .command import works


class Side:
    """The works by their names, and the one that is timed."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.mine: Any = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if "device" in question:
            use(question["device"])
            found = works(question["suite"], question["quick"], question["only"], current().device.is_gpu, "")
            self.known = {w.name: w for w in found if isinstance(w, compare.Work) and not w.needs}
            return {"works": list(self.known)}
        if "prepare" in question:
            self.mine = None  # its memory goes before the next one's comes
            self.mine, facts = compare.ours(self.known[question["prepare"]], current())
            self.mine.pause = 0.0  # there is no other library whose threads spin
            if "cores" in vars(self.mine):  # not in older states: whoever asks waits for the pace, for both
                self.mine.cores.rate = None
            return {"repeats": self.mine.repeats, "launches": facts.get("launches")}
        return {"seconds": self.mine.sample(question["time"])}


if __name__ == "__main__":
    serve(Side().answer)
