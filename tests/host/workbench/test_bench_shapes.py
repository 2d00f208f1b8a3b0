"""The suite shapes: which shapes are new, what rows say of times that are given, how runs end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from clnet.engine import engine_for
from clnet.engine.device.devices import HOST
from clnet.errors import OutOfDeviceMemory
from clnet.workbench.bench import command as bench
from clnet.workbench.bench import compare, suites
from clnet.workbench.bench import report as bench_report
from clnet.workbench.bench.row import Row
from clnet.workbench.bench.shapes import lengths, new, serving
from clnet.workbench.bench.shapes.networks import large, ragged, tasks
from clnet.workbench.bench.shapes.runners import Attempts, Runner, against, shaped
from clnet.workbench.bench.suites import steps as bench_steps
from clnet.workbench.bench.suites.steps import Task


@dataclass
class Known(Runner):
    """Somebody whose times are given as a function of the task; `seen` is what was run, in order."""

    seconds: Callable[[Task], float] = lambda task: 1.0
    seen: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def first(self, task: Task) -> float:
        self.seen.append(("first", task.x))
        return 4 * self.seconds(task)

    def steady(self, task: Task) -> float:
        self.seen.append(("steady", task.x))
        return self.seconds(task)

    def timed(self, call: Callable[[], Any]) -> float:
        return float(call())


def known(name: str, seconds: Callable[[Task], float]) -> Known:
    return Known(name, lambda task: lambda: seconds(task), lambda: None, seconds=seconds)


@pytest.fixture
def setting() -> compare.Setting:
    return compare.Setting(engine_for(HOST))


def use(monkeypatch: pytest.MonkeyPatch, module: Any, mine: Runner, *others: Runner) -> None:
    monkeypatch.setattr(module, "ours", lambda *about: mine)
    monkeypatch.setattr(module, "peers_of", lambda *about: list(others))


def named(name: str) -> Task:
    return next(t for t in tasks() if t.name.startswith(name))


def test_works_are_those_of_four_networks_and_quick_is_a_part() -> None:
    works = bench.works("shapes")
    names = [w.name for w in works]
    assert len(set(names)) == len(names)
    assert {n for n in names if "new batch" in n} == {
        *(f"{net} {kind}, new batch" for net in ("cnn", "lstm", "resnet20", "gpt") for kind in ("training", "predict")),
        "resnet20 b256 training, new batch"}
    assert {n.split()[0] for n in names if "new length" in n} == {"lstm", "gpt"}
    assert [w.name for w in works if getattr(w, "large", False)] == [
        "resnet20 b256 training, new batch", "gpt d768 L12 h12 t1024 b8 v8192 training, new length"]
    assert {n for n in names if "argument" in n} == {f"{t.name}, batch as an argument"
                                                     for t in (*bench_steps.tasks(), *bench_steps.gpu_tasks())}
    assert 0 < len(bench.works("shapes", quick=True)) < len(works) / 2
    assert "shapes" not in suites.ALL, "it takes longer than all others"


def test_a_task_of_another_batch_or_length() -> None:
    assert (shaped(named("cnn"), batch=7).x, shaped(named("cnn"), batch=7).y) == ((7, 1, 28, 28), (7,))
    assert (shaped(named("lstm"), length=9).x, shaped(named("lstm"), length=9).y) == ((32, 9, 64), (32,))
    assert (shaped(named("gpt"), length=9).x, shaped(named("gpt"), length=9).y) == ((16, 9), (16, 9))
    assert (shaped(named("gpt"), batch=3).x, shaped(named("gpt"), batch=3).y) == ((3, 128), (3, 128))


def test_new_sizes_are_new_and_all_different() -> None:
    for work in new.works(tasks(), large()):
        seen, fresh = ([t.x for t in new.sizes(work.axis, work.task, s)] for s in (new.SEEN, new.NEW))
        assert len({*seen, *fresh}) == len(seen) + len(fresh), work.name
        assert all(t.x[0] > 0 for t in new.sizes(work.axis, work.task, new.NEW))


def test_the_first_run_of_a_new_size_is_its_first(monkeypatch: pytest.MonkeyPatch, setting: compare.Setting) -> None:
    mine, peer = known("clnet", lambda t: 2.0), known("torch", lambda t: 0.5)
    use(monkeypatch, new, mine, peer)
    (row,) = new.NewShape(named("lstm"), "training", "length").measure(setting)
    assert (row.ours_ms, row.steady_ms, row.peer_ms, row.peer_steady_ms) == (8000, 2000, 2000, 500)
    assert (row.ratio, row.min, row.max, row.rounds, row.doubt) == (0.25, 0.25, 0.25, len(new.NEW), "")
    assert mine.seen == peer.seen
    for how, x in mine.seen:
        assert how == "first" or ("first", x) in mine.seen[: mine.seen.index((how, x))]
    assert [x for how, x in mine.seen if how == "steady"] == [t.x for t in new.sizes("length", named("lstm"), new.NEW)]


def test_a_peer_that_breaks_says_so_and_is_asked_no_more(monkeypatch: pytest.MonkeyPatch,
                                                         setting: compare.Setting) -> None:
    def broken(task: Task) -> float:
        raise RuntimeError("no C++ compiler")

    peer = known("torch (compiled)", broken)
    use(monkeypatch, new, known("clnet", lambda t: 2.0), peer)
    (row,) = new.NewShape(named("cnn"), "predict", "batch").measure(setting)
    assert (row.ours_ms, row.peer, row.peer_ms, row.failed) == (8000, "torch (compiled)", None, False)
    assert "RuntimeError: no C++ compiler" in row.note
    assert len(peer.seen) == 1


def test_ratios_of_few_rounds_are_doubted() -> None:
    bare = Row("shapes", "work", "float32", "intel", "", 1.0)
    row = against(bare, Attempts("torch"), [(1.0, 2.0), (1.0, 3.0)], 0.5)
    assert (row.ratio, row.peer_ms, row.peer_steady_ms, row.doubt) == (2.5, 2500, 500, "2 of 3 rounds")
    assert against(bare, Attempts("torch"), ()).note == "not run"


def test_random_lengths_are_the_same_in_every_run_and_the_first_ten_differ() -> None:
    found = lengths.drawn(1000)
    assert found == lengths.drawn(1000) and min(found) >= 8 and max(found) <= 512
    assert len(set(found[: lengths.CHUNK])) == lengths.CHUNK == 10


def test_known_lengths_are_interpolated(monkeypatch: pytest.MonkeyPatch, setting: compare.Setting) -> None:
    """Whoever takes a millisecond a step of the sequence takes as long for known lengths as for lengths at random."""
    use(monkeypatch, lengths, known("clnet", lambda t: t.x[1] / 1e3), known("torch", lambda t: t.x[1] / 2e3))
    (row,) = lengths.RandomLengths(ragged()[0], "predict").measure(setting)
    done = lengths.drawn(lengths.STEPS)[: lengths.CHUNK * (row.rounds or 0)]
    mean, early = sum(done) / len(done), done[: lengths.CHUNK * lengths.EARLY]
    steady = sum(min(max(n, min(early)), max(early)) for n in done) / len(done)
    assert row.ours_ms == pytest.approx(mean) and row.steady_ms == pytest.approx(steady)
    assert steady == pytest.approx(mean, rel=5e-3), "there are nearly none"
    assert row.peer_ms == pytest.approx(mean / 2) and row.peer_steady_ms == pytest.approx(steady / 2)
    assert row.ratio == 0.5 and not row.failed
    # A second is over after 4 steps, the budget after some hundred.
    assert sum(done[: -lengths.CHUNK]) / 1e3 <= lengths.BUDGET < sum(done) / 1e3
    assert f"{len(done)} steps of 1000" in row.note and "ended after 120 s" in row.note


def test_known_lengths_are_timed_between_the_others(
        monkeypatch: pytest.MonkeyPatch, setting: compare.Setting) -> None:
    """A machine that slows down slows what is known as much, so that it says nothing of what a new length costs."""
    count = iter(range(1 << 30))
    use(monkeypatch, lengths, known("clnet", lambda t: 1e-3 * (1 + next(count) / 1000)))
    (row,) = lengths.RandomLengths(ragged()[0], "training").measure(setting)
    assert (row.ours_ms or 0) > 1.9 and (row.steady_ms or 0) == pytest.approx(row.ours_ms, rel=0.03)


def test_memory_that_is_full_is_a_row_that_failed(monkeypatch: pytest.MonkeyPatch, setting: compare.Setting) -> None:
    count = iter(range(1 << 30))

    def seconds(task: Task) -> float:
        if next(count) == 25:
            raise OutOfDeviceMemory("the pool: no more")
        return 1e-3

    use(monkeypatch, lengths, known("clnet", seconds))
    (row,) = lengths.RandomLengths(ragged()[1], "training").measure(setting)
    assert row.failed and "20 steps of 1000" in row.note and "the pool: no more" in row.note
    assert row.ours_ms == row.steady_ms == pytest.approx(1.0)


@pytest.mark.parametrize("last", [15, 45])
def test_memory_that_stays_full_is_one_too(
        monkeypatch: pytest.MonkeyPatch, setting: compare.Setting, last: int) -> None:
    """Before a known length was timed, and while one is."""
    count = iter(range(1 << 30))

    def seconds(task: Task) -> float:
        if next(count) >= last:
            raise OutOfDeviceMemory("the pool: no more")
        return 1e-3

    use(monkeypatch, lengths, known("clnet", seconds))
    (row,) = lengths.RandomLengths(ragged()[1], "training").measure(setting)
    assert row.failed and "the pool: no more" in row.note and row.ours_ms == pytest.approx(1.0)
    assert row.steady_ms is None


def test_requests_are_served_by_threads_that_stay(monkeypatch: pytest.MonkeyPatch, setting: compare.Setting) -> None:
    threads, asked = set[int](), list[int]()

    def prepare(task: Task) -> Callable[[], None]:
        def call() -> None:
            threads.add(threading.get_ident())
            asked.append(task.x[0])
            time.sleep(2e-3)

        return call

    use(monkeypatch, serving, Runner("clnet", prepare, lambda: None))
    (work, _) = serving.works()
    quick = compare.Setting(setting.engine, quick=True)
    p50, p99, mean = work.measure(quick)
    assert 2 <= (p50.ours_ms or 0) <= (p99.ours_ms or 0)
    assert (mean.ours_ms or 0) == pytest.approx(1e3 / float(mean.note.split()[0]), rel=0.05)
    assert len(threads) == serving.THREADS
    fresh = asked[: -serving.QUICK_REQUESTS - 2 * serving.THREADS]
    drawn = serving.drawn(len(fresh) - len(serving.EVERY))
    assert sorted(fresh) == sorted([*drawn, *serving.EVERY]) and min(fresh) >= 1 and max(fresh) <= serving.LARGEST
    assert set(asked[len(fresh):]) == {serving.USUAL}


def test_requests_end_with_the_budget() -> None:
    def prepare(task: Task) -> Callable[[], None]:
        return lambda: time.sleep(0.02)

    with serving.ThreadPoolExecutor(2) as threads:
        found = serving.served(Runner("clnet", prepare, lambda: None), threads, [named("cnn")] * 400, 0.1)
    assert 1 <= len(found.latencies) <= 20 and found.rate == len(found.latencies) / found.seconds


def test_a_report_shows_rows_as_they_are_and_a_curve_of_planning() -> None:
    rows = [Row("shapes", "cnn training, new batch", "float32", "intel", "torch", 500.0, 25.0, 0.05, 0.04, 0.06, 5,
                steady_ms=5.0, peer_steady_ms=25.0, built=27, pool_before=1_000_000, pool_after=5_000_000),
            *(Row("shapes", f"planning, residual blocks {n}", "float32", "intel", "", 100.0 * n, launches=30 * n)
              for n in (1, 4))]
    text = bench_report.block(rows, {})
    (line,) = (at for at in text.splitlines() if at.startswith("| cnn training"))
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[:10] == ["cnn training, new batch", "torch", "500.000", "25.000", "0.05", "0.04 to 0.06", "100.00",
                          "1.00", "27", ""]
    assert "1 → 5" in cells
    assert "shapes against torch: cnn training, new batch 0.05." in text
    assert bench.pictures(rows).keys() == {"intel-planning, residual blocks"}


def test_a_device_that_compiles_nothing_says_so(setting: compare.Setting) -> None:
    for work in bench.works("shapes"):
        (row,) = work.rows(setting)  # the large ones, too
        assert row.note == "needs a device that compiles" and not row.failed
