"""What `clnet tune` found on one machine, as a file for another: `--share FILE` writes it, `--from FILE` takes it.

A file holds the device as its driver names it, its caches and lanes, the version of clnet, the day and the calls with
times and numbers; nothing of who or where. What it brings is held against the values that a search tries, for numbers
become part of kernels.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...errors import ConfigError, DataError
from ...kernels import tuning as tune
from ...show import plural
from .. import tables, terminal
from ..bench.row import BUSY
from .tasks import OPS, space

if TYPE_CHECKING:
    from ...engine.device.devices import Device

FORM = "clnet tune 1"  # what a file says that it is
FACTS = ("kind", "name", "platform", "driver", "runtime", "compute_units", "vector_width", "instructions", "l1_cache",
         "l2_cache", "l3_cache")
NEEDED = {"op", "shapes", "call", "before_ms", "after_ms", "numbers"}
MOST = 1 << 20  # [bytes] of a file
LETTERS = 80  # of the name of a class of shapes


def document(device: Device, rows: Sequence[Mapping[str, Any]], made: str, busy: float | None) -> dict[str, Any]:
    """What a file holds. `rows`: op, class of shapes, call, times in ms and the numbers that win, {} for none; `busy`:
    share of the CPU time that was others' meanwhile.
    """
    return {"form": FORM, "clnet": __version__, "day": datetime.date.today().isoformat(), "made": made,
            "table": tune.slug(device), "device": {name: getattr(device, name) for name in FACTS},
            "busy": None if busy is None else round(busy, 2), "gain": round(gain(rows), 4),
            "calls": [dict(r) for r in rows]}


def gain(rows: Sequence[Mapping[str, Any]]) -> float:
    """How many times sooner the calls are, the geometric mean of all that were searched; 1 for none."""
    logs = [math.log(r["before_ms"] / r["after_ms"]) for r in rows]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def write(file: Path, device: Device, rows: Sequence[Mapping[str, Any]], made: str, busy: float | None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    tables.save(file, json.dumps(document(device, rows, made, busy), indent=1) + "\n")
    terminal.say(f"what was found, to be sent in: {file}")


def take(file: Path, device: Device, path: Path | None = None) -> int:
    """Keeps the numbers of a file, in the user's folder or that table. DataError for a file that holds something else,
    ConfigError for one of another kind of device. Exit status.
    """
    found = read(file)
    if found["table"] != tune.slug(device):
        raise ConfigError(f"tune: expected numbers for {tune.slug(device)} in {file}; got those of {found['table']} "
                          f"({found['device'].get('name', 'unnamed')}); choose that device by --device, or search "
                          "here: clnet tune.")
    calls = [r for r in found["calls"] if r["numbers"]]
    for k, r in enumerate(calls):
        _allowed(file, r, device)
        calls[k] = {**r, "numbers": tune.frozen(r["numbers"])}
    made = f"{found['made']} of clnet {found['clnet']} on {found['day']}, taken from {file.name}"
    for r in calls:
        tune.keep(device, (r["op"], r["shapes"]), r["numbers"], made, path)
    if calls:
        show(calls, f"taken from {file}: {found['device'].get('name', 'unnamed')}, clnet {found['clnet']}, "
                    f"{found['day']}")
    if words := disturbed(found.get("busy")):
        terminal.say(words, "bold yellow")
    terminal.say(f"{plural(len(calls), 'call')} of {len(found['calls'])} with other numbers"
                 + (f", kept in {path or tune.own_file(device)}; measured there, not here: clnet tune." if calls
                    else "; nothing changed."))
    return 0


def disturbed(busy: Any) -> str:
    """What is to be said of a search that other work disturbed; "" for others."""
    if not isinstance(busy, float) or not BUSY < busy <= 1:
        return ""
    return (f"The machine was busy with other work ({busy:.0%} of its CPU time): few calls are reached then, and gains "
            "are doubtful.")


def show(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """The calls that gained, as a table."""
    terminal.table([{"call": r["call"], "op": r["op"], "before [ms]": f"{r['before_ms']:.3f}",
                     "now [ms]": f"{r['after_ms']:.3f}", "times as fast": f"{r['before_ms'] / r['after_ms']:.2f}",
                     "numbers": ", ".join(f"{k}={v}" for k, v in r["numbers"].items())} for r in rows], title=title,
                   less=("numbers", "op"))


def read(file: Path) -> dict[str, Any]:
    """The document of a file. DataError for one that is none."""
    try:
        if file.stat().st_size > MOST:
            raise ValueError(f"more than {MOST >> 20} MiB")
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(file, error.strerror or str(error)) from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise _refused(file, "something that is no JSON") from None
    except ValueError as error:
        raise _refused(file, str(error)) from None
    if not isinstance(found, dict) or found.get("form") != FORM:
        raise _refused(file, f"no {{\"form\": {FORM!r}, ...}}")
    kinds = {"table": str, "clnet": str, "day": str, "made": str, "device": dict, "calls": list}
    if wrong := [name for name, kind in kinds.items() if not isinstance(found.get(name), kind)]:
        raise _refused(file, f"one whose {wrong[0]} is no {kinds[wrong[0]].__name__}")
    if not all(map(_sound, found["calls"])):
        raise _refused(file, "calls without op, class of shapes, times and numbers")
    return found


def _sound(row: Any) -> bool:
    """Whether that is a call."""
    if not isinstance(row, dict) or not row.keys() >= NEEDED or not isinstance(row["numbers"], dict):
        return False
    words = all(isinstance(row[name], str) and len(row[name]) <= LETTERS for name in ("op", "shapes", "call"))
    return words and all(isinstance(t, (int, float)) and 0 < t < math.inf for t in (row["before_ms"], row["after_ms"]))


def _allowed(file: Path, row: Mapping[str, Any], device: Device) -> None:
    """DataError where a number of the call is none that a search on this device would try."""
    known = space(row["op"], device) if row["op"] in OPS else {}
    for name, value in row["numbers"].items():
        if tune.frozen(value) not in [tune.frozen(v) for v in known.get(name, ())]:
            raise _refused(file, f"{row['op']} with {name}={value!r}, which no search tries")


def _refused(file: Path, got: str) -> DataError:
    return DataError(f"tune: expected a file of clnet tune --share in {file}; got {got}; make one by clnet tune "
                     "--share numbers.json.")
