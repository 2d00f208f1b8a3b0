"""What was found on this machine: the user's table of numbers, with the gains of the calls that were timed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...engine import current
from ...kernels import tuning
from ...picture import Picture
from ...show import Shown, Table, duration
from .. import plots

if TYPE_CHECKING:
    from ...engine.device.devices import Device


class Kept(NamedTuple):
    """Numbers of (op, shape class), the call that was timed with its times [ms] before and after, and how they were
    made; of tables that were written before gains were kept, the numbers alone.
    """

    entry: tuple[str, str]
    numbers: dict[str, Any]
    call: str = ""
    before_ms: float | None = None
    after_ms: float | None = None
    made: str = ""

    @property
    def gain(self) -> float | None:
        """How many times as fast."""
        return self.before_ms / self.after_ms if self.before_ms and self.after_ms else None


    def facts(self) -> list[tuple[str, str]]:
        """What there is to say of it."""
        return [("call", self.call), ("numbers", _words(self.numbers)), ("before", _time(self.before_ms)),
                ("after", _time(self.after_ms)), ("made by", self.made)]


class Found(Shown, list[Kept]):
    """What was kept, an entry a class of shapes."""

    def __init__(self, device: Device, path: Path, rows: list[Kept]) -> None:
        super().__init__(rows)
        self.device, self.path = device, path

    HEADS = ("op", "shapes", "call", "numbers", "before", "after", "gain")

    @staticmethod
    def cells(k: Kept) -> list[str]:
        return [k.entry[0], k.entry[1] or "all", k.call, _words(k.numbers), _time(k.before_ms), _time(k.after_ms),
                "" if k.gain is None else f"{k.gain:.2f}"]

    def table(self) -> Table:
        notes = [] if self else ["Nothing was kept: `clnet tune --op conv` searches, clnet.tune.trial(...) tries one."]
        return Table(self.HEADS, map(self.cells, self), align="llllrrr",
                     title=f"Tuned on {self.device}", notes=[*notes, f"The table: {self.path}"])

    def picture(self) -> Picture:
        """Gains as bars, the largest first."""
        gains = sorted(((k.gain, k.call or " ".join(k.entry)) for k in self if k.gain), reverse=True)
        return plots.groups({call: {"gain": gain} for gain, call in gains}, f"Tuned on {self.device.key}",
                            "time before / time now")


def found(device: Device | None = None, path: Path | None = None) -> Found:
    """What `clnet tune`, `clnet.tune.search` and `trial(...).keep()` keep for a device (default: the one in use)."""
    device = device if device is not None else current().device
    path = path or tuning.own_file(device)
    table = tuning.read(path)
    rows = []
    for op, classes in table.get("ops", {}).items():
        for shape, numbers in classes.items():
            gain = table.get("gains", {}).get(op, {}).get(shape, {})
            rows.append(Kept((op, shape), numbers, gain.get("call", ""), gain.get("before_ms"), gain.get("after_ms"),
                             gain.get("made", table.get("made", ""))))
    return Found(device, path, rows)


def _words(numbers: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in numbers.items())


def _time(ms: float | None) -> str:
    return "" if ms is None else duration(ms * 1e-3)
