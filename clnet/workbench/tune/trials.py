"""A number of a kernel, changed and timed: what the program becomes, whether its values are right, how long it takes in
turn with the present one, and the user's table, where it is kept or taken back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from ...engine import current
from ...errors import ConfigError, NoDeviceError
from ...kernels import tuning
from ...names import ending
from ...show import Shown, Table, duration
from ..child import Child
from .call import Call, product
from .command import CONFIRM, PATIENCE, TRIES, WORSE, Search
from .tasks import space

if TYPE_CHECKING:
    from ...engine.device.devices import Device
    from ...engine.protocol import Engine

ROUNDS = 9  # times in turn
Numbers = Mapping[str, Any]


class Tunable(NamedTuple):
    """A number of a section ("matmul cpu"): its value here, that of the rules, where the value comes from ("rules",
    "shipped", "own"), the values that `clnet tune` tries, and what it means.
    """

    section: str
    name: str
    value: Any
    default: Any
    source: str
    tried: tuple[Any, ...]
    meaning: str

    def check(self, value: Any) -> Any:
        """The value as kernels take it. ConfigError for one of another kind than those that it has or is tried with."""
        found, known = tuning.frozen(value), [self.value, self.default, *self.tried]
        if not any(_alike(found, k) for k in known):
            raise ConfigError(f"tune: expected {self.name} of {self.section} as in {_some(known)}; got {value!r}.")
        if _least(found) < min(0, *map(_least, known)):
            raise ConfigError(f"tune: expected {self.name} of {self.section} of at least 0; got {value!r}.")
        return found


class Tunables(Shown, list[Tunable]):
    """The numbers that a call's kernel takes."""

    def __init__(self, call: Call, device: Device, rows: list[Tunable]) -> None:
        super().__init__(rows)
        self.call, self.device = call, device

    def table(self) -> Table:
        rows = [(t.name, _short(t.value), _short(t.default), t.source, ", ".join(map(_short, t.tried)), t.meaning)
                for t in self]
        return Table(("number", "here", "rules", "from", "tried by clnet tune", "meaning"), rows, align="llllll",
                     title=f"Numbers of {self.call} on {self.device.key}")


@dataclass(repr=False)
class Trial(Shown):
    """`numbers` instead of the `present` ones, timed in turn: `before` and `after` [s], a pair a round. `changes` are
    (what, before, after) of the kernels' macros and grids; with none it is the same program, and nothing was timed.
    """

    call: Call
    device: Device
    entry: tuple[str, str]
    numbers: Numbers
    present: Numbers
    changes: list[tuple[str, Any, Any]] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    error: float = 0.0
    allowed: float = 0.0

    @property
    def gains(self) -> list[float]:
        """How many times as fast, a round each."""
        return [a / b for a, b in zip(self.before, self.after, strict=True)]

    @property
    def said(self) -> str:
        """What came of it, in a line."""
        if not self.before:
            return f"{_said(self.numbers)}: the same program" if self.numbers else "nothing that was tried is faster"
        g = self.gains
        unclear = ", which may be chance" if min(g) < 1 < max(g) else ""
        return f"{_said(self.numbers)}: {median(g):.2f} times as fast ({min(g):.2f} to {max(g):.2f}){unclear}"

    def table(self) -> Table:
        said = _said(self.numbers) or "no other numbers"
        rows: list[tuple[Any, ...]] = [(what, _short(a), _short(b)) for what, a, b in self.changes]
        notes = [] if self.before else [f"{self.said}; nothing was timed."]
        if self.before:
            rows.append(("time, median", duration(median(self.before)), duration(median(self.after))))
            rows.append(("least to most", *(f"{duration(min(s))} to {duration(max(s))}"
                                            for s in (self.before, self.after))))
            notes = [f"{self.said}, {len(self.before)} rounds in turn; error {self.error:.2g}, allowed "
                     f"{self.allowed:.2g}."]
        return Table(("", "present", said), rows, title=f"{self.call} on {self.device.key}", notes=notes, align="lll")

    def keep(self, path: Path | None = None) -> Path:
        """Writes the numbers into the user's table, which `clnet tune` writes, too: plans made from now on use them.
        ConfigError where there is nothing to keep.
        """
        if not self.before:
            raise ConfigError(f"keep: expected numbers that change the program; got {_said(self.numbers)}.")
        made = f"clnet.tune.trial({str(self.call)!r}, {_said(self.numbers)})"
        gain = {"call": str(self.call), "before_ms": median(self.before) * 1e3, "after_ms": median(self.after) * 1e3}
        return tuning.keep(self.device, self.entry, dict(self.numbers), made, path, gain)

    def undo(self, path: Path | None = None) -> Path:
        """Takes back what was kept last for calls of this class."""
        return undo(self.entry, self.device, path)


def tunables(call: Call | str, engine: Engine | None = None) -> Tunables:
    """The numbers that the kernel takes that serves a call here: their values, where those come from, and what may be
    tried. A product may be spelled: "NN 64x784x512". ConfigError where its kernel takes none.
    """
    call, device = _call(call), _engine(engine).device
    op, shape = call.entry(device)
    sources, found = tuning.sources(device, op, shape), []
    for section, own in call.sections(device):
        values, rules = tuning.numbers(device, section, own), tuning.defaults(section)
        tried = _space(section.partition(" ")[0], device)
        found += [Tunable(section, name, values[name], rules[name], sources.get(name, "rules"),
                          tuple(tried.get(name, ())), about) for name, about in tuning.meanings(section).items()]
    return Tunables(call, device, found)


def _space(op: str, device: Device) -> Mapping[str, Sequence[Any]]:
    """The values that a search tries; none where there is no search."""
    try:
        return space(op, device)
    except (ConfigError, KeyError):
        return {}


def trial(call: Call | str, numbers: Numbers | None = None, *, rounds: int = ROUNDS, engine: Engine | None = None,
          **more: Any) -> Trial:
    """`trial("NN 64x784x512", tile=(8, 3))`: the call with these numbers, beside the present ones. In a process of its
    own, so that what crashes or hangs ends there, and the values are compared with the float64 reference first.

    call      one of `calls(...)`, or a product that is spelled
    rounds    times that are taken of both, in turn
    Raises ConfigError for a number that the kernel does not take, for a value of another kind, and where the program
    does not build or run, or gives other values.
    """
    call, engine = _call(call), _engine(engine)
    values = _checked(tunables(call, engine), {**(numbers or {}), **more})
    found = _prepared(call, engine.device, values)
    if rounds < 1:
        raise ConfigError(f"trial(rounds={rounds!r}): expected at least 1.")
    child = Child(TRIES, PATIENCE)
    try:
        if found.changes:
            _timed(found, child, rounds)
    finally:
        child.stop()
    return found


def search(call: Call | str, budget: float = 20.0, *, rounds: int = ROUNDS, engine: Engine | None = None) -> Trial:
    """The numbers that `clnet tune` finds for a call in about `budget` seconds, timed in turn with the present ones.
    ConfigError where there is nothing to search.
    """
    call, engine = _call(call), _engine(engine)
    entry, device = call.entry(engine.device), engine.device
    if not _space(entry[0], device):
        raise ConfigError(f"search: expected a call whose numbers `clnet tune` searches; got {call}; "
                          "trial(call, number=value) times one value.")
    child, end = Child(TRIES, PATIENCE), time.monotonic() + budget
    try:
        looking = Search(child, device, entry[0], call.task)
        if "seconds" not in looking.start:
            raise ConfigError(f"search: expected a call that runs; got {call}: {looking.start['failed']}.")
        for _ in looking.run(end - (1 - CONFIRM) * budget):
            pass
        found = _prepared(call, device, looking.best)
        if found.changes:
            _timed(found, child, rounds)
        return found
    finally:
        child.stop()


def undo(entry: tuple[str, str], device: Device | None = None, path: Path | None = None) -> Path:
    """Takes back what was kept last for (op, shape class). ConfigError where the user's table has nothing there."""
    device = device if device is not None else current().device
    try:
        return tuning.undo(device, entry, path)
    except KeyError:
        raise ConfigError(f"undo: expected numbers that were kept; got {' '.join(entry)}, of which "
                          f"{path or tuning.own_file(device)} has none.") from None


# --- how
def _engine(engine: Engine | None) -> Engine:
    engine = engine if engine is not None else current()
    if not engine.compiles:
        raise NoDeviceError(f"tune: expected an OpenCL device; got {engine.device}, which has no kernels; "
                            'try `with clnet.on("opencl"):`.')
    return engine


def _call(call: Call | str) -> Call:
    return product(call) if isinstance(call, str) else call


def _checked(known: Tunables, numbers: Numbers) -> dict[str, Any]:
    names = {t.name: t for t in known}
    for name in numbers:
        if name not in names:
            raise ConfigError(f"tune: expected numbers among {', '.join(names)}; got {name!r}{ending(name, names)}")
    if not numbers:
        raise ConfigError("trial: expected a number to change, tile=(8, 3) say; got none; tunables(call) lists them.")
    return {name: names[name].check(value) for name, value in numbers.items()}


def _prepared(call: Call, device: Device, values: Numbers) -> Trial:
    """The trial with what changes, before anything has run."""
    entry = call.entry(device)
    before = macros(call, device)
    known = {name: value for section, shape in call.sections(device)
             for name, value in tuning.numbers(device, section, shape).items()}
    try:
        with tuning.overriding(entry, dict(values)):
            after = macros(call, device)
    except Exception as error:  # a geometry that cannot do with a number says so in its own way
        raise ConfigError(f"trial: expected numbers with which {call} can be planned; got {_said(values)}: "
                          f"{type(error).__name__}: {error}.") from error
    changes = [(name, before.get(name, ""), after.get(name, "")) for name in dict.fromkeys((*before, *after))
               if before.get(name) != after.get(name)]
    return Trial(call, device, entry, dict(values), {n: known.get(n) for n in values}, changes)


def macros(call: Call, device: Device) -> dict[str, Any]:
    """Kernel, macros, grid and group of each stage."""
    choice = call.choice(device)
    found: dict[str, Any] = {"kernel": choice.taken.name if choice.taken is not None else "formula"}
    for stage in choice.stages or ():
        found |= {f"{stage.kernel} {name}": value for name, value in stage.defines.items()}
        found |= {f"{stage.kernel} grid": stage.grid, f"{stage.kernel} group": stage.group}
    return found


def _timed(found: Trial, child: Child, rounds: int) -> None:
    """Times both in turn, after their values were compared. ConfigError where one fails, or the values differ."""
    always = {"device": found.device.key, "op": found.entry[0], "label": str(found.call), "alone": False,
              "call": found.call.as_json(), "give_up": 1e9, "fresh": True}

    def ask(values: Numbers, **more: Any) -> dict[str, Any]:
        answer = child.ask({**always, "values": dict(values), **more})
        if "failed" in answer:
            raise ConfigError(f"trial: expected numbers with which {found.call} builds and runs; got "
                              f"{_said(values) or 'the present ones'}: {answer['failed']}.")
        return answer

    present = ask({})
    found.allowed = max(present["allowed"], WORSE * present["error"])
    changed = ask(found.numbers, most=found.allowed)
    found.error = changed["error"]
    if "seconds" not in changed:
        raise ConfigError(f"trial: expected the values of the present kernel; got with {_said(found.numbers)} an error "
                          f"of {changed['error']:.2g} (allowed {found.allowed:.2g}); it was not timed.")
    if changed["source"] == present["source"]:
        found.changes = []
        return
    for _ in range(rounds):
        found.before.append(ask({})["seconds"])
        found.after.append(ask(found.numbers)["seconds"])


# --- words
def _said(numbers: Numbers) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in numbers.items())


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:56]} ..."


def _some(values: list[Any]) -> str:
    return ", ".join(list(dict.fromkeys(map(_short, values)))[:5])


def _alike(value: Any, known: Any) -> bool:
    """Whether both are numbers, or lists of as many of the same kind."""
    if isinstance(known, tuple):
        return isinstance(value, tuple) and len(value) == len(known) and all(map(_alike, value, known))
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18


def _least(value: Any) -> float:
    return min(map(_least, value), default=0.0) if isinstance(value, tuple) else float(value)
