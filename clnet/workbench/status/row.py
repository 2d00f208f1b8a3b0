"""A row of status: what is known of one name on one device, and what a table claims beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..marks import NO, NONE, PARTIAL, YES, green

ASPECTS = ("forward", "backward", "update", "resident", "parity", "deterministic", "fp16")
TO_COME = "not there yet"  # the note of a row that nothing answers
RANK = {NO: 0, PARTIAL: 1, NONE: 2, YES: 2}


@dataclass(frozen=True)
class Row:
    """What is known of one name on one device. The aspects are yes, partial, no or n/a; `note` says why not yes."""

    kind: str
    name: str
    spec_name: str
    family: str
    device: str
    forward: str = NO
    backward: str = NO
    update: str = NO
    resident: str = NO
    parity: str = NO
    deterministic: str = NO
    fp16: str = NO
    kernels: int | None = None
    time_ms: float | None = None
    note: str = ""
    driver: str = ""
    date: str = ""
    device_name: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What no other row of a table has."""
        return self.kind, self.name, self.spec_name, self.device

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each aspect."""
        return {aspect: getattr(self, aspect) for aspect in ASPECTS}

    @property
    def there(self) -> bool:
        """Whether something is registered under the name."""
        return self.note != TO_COME

    @property
    def green(self) -> bool:
        """Whether it is there, and every verdict is yes or has nothing to be about."""
        return self.there and green(self.verdicts.values())


def from_dicts(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows of what `as_dicts` gave; what a later version says beyond them is left out."""
    known = [f.name for f in fields(Row)]
    return [Row(**{name: row[name] for name in known if name in row}) for row in rows]


def as_dicts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [asdict(r) for r in rows]


def inflated(claimed: Iterable[Row], fresh: Iterable[Row]) -> list[str]:
    """What the claimed rows say that the fresh ones do not show: better verdicts, or rows for what is gone. Times and
    launches do not count.
    """
    measured = {r.key: r for r in fresh}
    lies = []
    for row in claimed:
        now = measured.get(row.key)
        for aspect, claim in row.verdicts.items():
            seen = now.verdicts[aspect] if now else NO
            if RANK.get(claim, 3) > RANK[seen] or (claim == YES and seen == NONE):
                why = (now.note if now else "") or "nothing registered answers to the name"
                lies.append(f"{row.kind} {row.name} on {row.device}: {aspect} is claimed {claim!r}, a run shows "
                            f"{seen!r} ({why[:160]})")
    return lies
