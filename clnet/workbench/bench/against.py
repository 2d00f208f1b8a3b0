"""Two states of the project beside each other: our times of a suite, by turns, each state in a process of its own.

A change of some per cent is lost between two runs of the bench on a machine that others use; round by round it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, DataError
from ...names import ending
from .. import terminal
from ..child import Child
from ..cores import WAITS, Cores, cores_of
from . import side

if TYPE_CHECKING:
    from ...engine.protocol import Engine

ROUNDS, QUICK_ROUNDS = 15, 5
PATIENCE = 300.0  # [s] for a work to be compiled
LEGEND = ("before / now: how many times sooner the present state is done, the median of the rounds' ratios, and their "
          "middle half. Both states by turns, each in a process of its own; tuned numbers are the same for both.")
RUNS = ("import sys; exec(compile(sys.argv[1], 'side', 'exec'), "
        "{'__name__': '__main__', '__package__': 'clnet.workbench.bench'})")


def main(engine: Engine, tree: Path, suite: str, *, quick: bool = False, only: str = "",
         json_file: Path | None = None) -> int:
    """Prints the table, writes JSON. Exit status 1 if a work failed.
    Raises ConfigError where there is none of the name, DataError where there is no such state.
    """
    rows = list(compared(engine.device.key, tree, suite, quick, only, cores=cores_of(engine)))
    terminal.table(rows, title=f"{suite}: before ({tree}) and now", notes="note", by="work", less=("launches",))
    terminal.say(LEGEND, "dim")
    if ratios := [row["before / now"] for row in rows if not row["note"]]:
        terminal.say(f"In the geometric mean of {len(ratios)}: {geometric_mean(ratios):.3f}.")
    if json_file:
        terminal.save_json(rows, json_file)
    return int(any(row["note"] for row in rows))


def compared(key: str, tree: Path, suite: str, quick: bool, only: str, rounds: int = 0,
             cores: Cores | None = None) -> Iterator[dict[str, Any]]:
    """A row a work that both states have, timed while these cores work at their pace."""
    if not (tree / "clnet" / "__init__.py").is_file():
        raise DataError(f"bench: expected a checkout of clnet with --against; got {str(tree)!r}; "
                        "make one: git worktree add ../before COMMIT.")
    sides = {"before": _side(tree), "now": _side(Path(__file__).parents[3])}
    try:
        found = {k: _asked(s, {"device": key, "suite": suite, "quick": quick, "only": only})["works"]
                 for k, s in sides.items()}
        both = [name for name in found["now"] if name in found["before"]]
        if not both:
            raise ConfigError(f"bench: expected a work of --suite {suite} that both states have; "
                              f"got {only!r}{ending(only, found['now'])}")
        for name in terminal.bar(both, desc=f"bench {key}"):
            yield {"work": name} | _timed(sides, name, rounds or (QUICK_ROUNDS if quick else ROUNDS),
                                            cores or Cores())
    finally:
        for child in sides.values():
            child.stop()


def _side(tree: Path) -> Child:
    """A process in that state, which runs this one's text."""
    return Child(side.__name__, PATIENCE, folder=tree, program=("-c", RUNS, Path(side.__file__).read_text("utf-8")))


def _asked(child: Child, question: dict[str, Any]) -> dict[str, Any]:
    answer = child.ask(question)
    if "failed" in answer:
        raise DataError(f"bench: expected the state in {child.folder} to time its works; got: {answer['failed']}")
    return answer


def _seconds(child: Child, repeats: int) -> float:
    return float(_asked(child, {"time": repeats})["seconds"])


def _timed(sides: dict[str, Child], name: str, rounds: int, cores: Cores) -> dict[str, Any]:
    """The columns of a work; where a state cannot run it, the note says why."""
    columns = dict.fromkeys(("before [ms]", "now [ms]", "before / now", "middle half", "launches"))
    try:
        facts, cores.left = {k: _asked(child, {"prepare": name}) for k, child in sides.items()}, WAITS
        repeats, times = max(f["repeats"] for f in facts.values()), {k: list[float]() for k in sides}
        for k in range(rounds):
            for state in list(sides)[:: 1 if k % 2 else -1]:
                times[state].append(cores.steady(partial(_seconds, sides[state], repeats)))
    except DataError as error:
        return {**columns, "note": str(error)}
    ratios = sorted(a / b for a, b in zip(times["before"], times["now"], strict=True))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    cells = (*(round(1e3 * median(t), 4) for t in times.values()), round(median(ratios), 3), f"{low:.3f} to {high:.3f}",
             " -> ".join(dict.fromkeys(str(f["launches"]) for f in facts.values())))
    return {**dict(zip(columns, cells, strict=True)), "note": ""}
