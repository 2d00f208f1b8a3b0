"""Samples count where the cores work at their pace: played by rates that tests give."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from clnet.engine.device import roof
from clnet.engine.reference import NumpyEngine
from clnet.workbench import cores as module
from clnet.workbench import played
from clnet.workbench.bench.compare import Contender, Setting, Work, compare
from clnet.workbench.cores import WHOLE, Cores, Pace, cores_of


class Machine:
    """Cores that do `now` of their pace; each sample takes the next of `after`, which is what they do from then on."""

    def __init__(self, now: float, after: tuple[float, ...] = ()) -> None:
        self.now, self.after, self.taken, self.rests = now, list(after), 0, 0

    def sample(self) -> float:
        self.taken += 1
        self.now = self.after.pop(0) if self.after else self.now
        return float(self.taken)

    def rest(self) -> None:
        self.rests += 1

    def cores(self) -> Cores:
        return Cores(lambda: 100 * self.now, Pace(100.0, 100.0))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    monkeypatch.setattr(module, "SETTLE", 0.005)


def test_a_sample_at_the_whole_pace_counts() -> None:
    machine = Machine(0.97)
    cores = machine.cores()
    assert (cores.steady(machine.sample, machine.rest), machine.rests, cores.share) == (1.0, 1, pytest.approx(0.97))


def test_a_sample_after_which_cores_are_slow_is_taken_again() -> None:
    machine = Machine(1.0, (0.5, 1.0))

    def rest() -> None:  # they have moved meanwhile
        machine.rest()
        machine.now = 1.0

    cores = machine.cores()
    assert cores.steady(machine.sample, rest) == 2.0
    assert machine.rests == 2 and cores.share == 1.0


def test_cores_are_kept_busy_until_they_are_at_their_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, machine = list[float](), Machine(1.0)

    def rate() -> float:
        asked.append(0)
        return 50.0 if len(asked) < 30 else 100.0

    cores = Cores(rate, Pace(100.0, 100.0))
    monkeypatch.setattr(module, "PATIENCE", 60.0)  # it is over when they are fast
    assert cores.steady(machine.sample) == 1.0
    assert len(asked) >= 30 and cores.share == 1.0


def test_cores_that_stay_slow_are_taken_as_they_are_until_they_are_faster() -> None:
    machine = Machine(0.6)
    cores = machine.cores()
    assert cores.steady(machine.sample) == 1.0
    assert (cores.pace.best, cores.pace.asked, cores.share) == (100.0, 60.0, 0.6)
    assert cores.steady(machine.sample) == 2.0, "once, not again after each sample"
    machine.now = 1.0
    assert cores.steady(machine.sample) == 3.0
    assert cores.pace.asked == 100.0
    machine.after = [0.6, 0.6, 0.6, 0.6]
    assert cores.steady(machine.sample) == 5.0, "the first is taken again, and the second is of a pace that has stayed"


def test_a_pace_that_comes_and_goes_ends_after_some_samples() -> None:
    machine = Machine(1.0, (0.5,) * 99)

    def rest() -> None:
        machine.now = 1.0

    assert machine.cores().steady(machine.sample, rest) == module.TRIES


def test_waits_end_when_they_have_taken_too_long_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial of `clnet tune` that answers late is taken for one that hangs."""
    monkeypatch.setattr(module, "PATIENCE", 60.0)
    machine = Machine(0.5)
    cores = machine.cores()
    cores.left = 0.01
    assert cores.steady(machine.sample) == 1.0, "not after a minute"
    assert cores.left <= 0
    machine.now, machine.after = 1.0, [0.5, 0.5]
    assert cores.steady(machine.sample) == 2.0, "nothing is left to wait, so nothing is taken again"


@pytest.mark.parametrize("which", [NumpyEngine("float32"),
                                   SimpleNamespace(device=played.device("h200"), compiles=True)], ids=["host", "gpu"])
def test_hosts_and_gpus_have_nothing_to_wait_for(which: Any) -> None:
    cores, machine = cores_of(which), Machine(0.1)
    assert (cores.steady(machine.sample), cores.share) == (1.0, None)


def test_cpus_are_asked_against_the_peak_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_paces", {})
    monkeypatch.setattr(roof, "known", lambda engine: roof.Peak(200.0, 10.0))
    monkeypatch.setattr(roof, "at_once", lambda engine, seconds: lambda: 190.0)
    engine: Any = SimpleNamespace(device=played.device("avx2"), compiles=True)
    cores = cores_of(engine)
    assert cores.steady(lambda: 1.0) == 1.0
    assert cores.share == pytest.approx(0.95) and cores_of(engine).pace is cores.pace


def test_rows_say_at_which_pace_they_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = NumpyEngine("float32")
    compared = "clnet.workbench.bench.compare"
    monkeypatch.setattr(f"{compared}.SAMPLE", 0.0)
    monkeypatch.setattr(f"{compared}.PAUSE", 0.0)
    monkeypatch.setattr(f"{compared}.Watch.others", lambda watch: None)  # other tests may be at work

    def at(*paces: float) -> Callable[[Any], Cores]:
        rates = list(paces)
        return lambda engine: Cores(lambda: 100 * rates[0], Pace(100.0, 100 * min(rates)))

    work = Work("ops", "nothing", lambda engine: lambda: None, numpy=False)
    for pace, words in ((0.5, "cores at 50% of their pace"), (0.95, "")):
        monkeypatch.setattr(f"{compared}.cores_of", at(pace))
        (row,) = compare(work, Setting(engine, quick=True))
        assert (row.pace, row.remarks) == (pace, words)
    monkeypatch.setattr(f"{compared}.cores_of", lambda engine: Cores())
    (row,) = compare(work, Setting(engine, quick=True))
    assert (row.pace, row.remarks) == (None, "")


def test_beside_a_thief_nobody_waits_for_the_cores() -> None:
    asked = list[int]()
    who = Contender("clnet", lambda: None, lambda: None, pause=0.0, cores=Cores(lambda: float(asked.append(1) or 1)))
    who.sample(1, disturbed=True)
    assert not asked and not who.shares
    who.sample(1)
    assert asked and who.pace == 1.0 > WHOLE
