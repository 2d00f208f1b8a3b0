"""Plans on disk: the same plan comes back, for the same structure on the same device by the same files alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.op import OPS
from clnet.core.state import Variable
from clnet.core.tensor import Tensor, tensor
from clnet.engine import plan_files
from clnet.engine.compile import pipeline
from clnet.engine.explain import explain_replay
from clnet.engine.plan_files import WAYS, PlanFiles, told
from clnet.engine.plan_values import Unkept
from clnet.engine.record import Recorded
from clnet.kernels import tuning
from clnet.ops.custom import custom_gradient

RNG = np.random.default_rng(3)
X, W, B = (RNG.standard_normal(shape).astype(np.float32) for shape in ((20, 30), (30, 40), (40,)))


@pytest.fixture
def files(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The engine, which keeps every plan, in a folder of the test's own."""
    if not engine.compiles:
        pytest.skip("plans are an OpenCL engine's")
    monkeypatch.setenv("CLNET_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(plan_files, "WORTH", 0.0)
    monkeypatch.setattr(engine, "plan_files", PlanFiles(engine.device, engine.options))
    monkeypatch.setattr(engine.plan_files, "active", True)
    engine.plans.clear()
    yield engine
    engine.plans.clear()


def made() -> Recorded:
    """A step with a product, a fold, an update in place, and a view as a result."""
    w, b = Variable(W.copy()), tensor(B)

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.tanh(x @ w.tensor + b)
        w.assign(w.tensor * 0.5)
        return F.sum(y, 0), y[2:5]

    return Recorded(step, "step")


def built(monkeypatch: pytest.MonkeyPatch, engine: Any, step: Callable[..., Any]) -> tuple[int, list[Any]]:
    """(graphs that two runs of a step built, results of the second) where this process has planned nothing yet."""
    graphs, build = list[Any](), pipeline.build
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "build", lambda *args: graphs.append(args) or build(*args))
        engine.plans.clear()
        step(X)
        return len(graphs), [t.numpy() for t in step(X)]


def test_another_process_reads_the_plan_and_computes_the_same(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = made(), made()
    count, want = built(monkeypatch, files, first)
    assert count == 1 and len(files.plan_files.store.entries()) == 1
    count, found = built(monkeypatch, files, second)
    assert count == 0 and all(np.array_equal(a, b) for a, b in zip(found, want, strict=True))
    assert np.allclose(want[0], np.tanh(X.astype(np.float64) @ (W * 0.5) + B).sum(0), atol=1e-4)
    one, other = (next(iter(step.recordings.values())).template for step in (first, second))
    assert str(one) == str(other) and [v.flops for v in one.launches] == [v.flops for v in other.launches]
    assert [(label, str(c)) for label, c in one.choices] == [(label, str(c)) for label, c in other.choices]
    assert [v.args for v in one.launches] == [v.args for v in other.launches]
    assert str(clnet.explain(first)) == str(clnet.explain(second))


def sized(*looked: int) -> Recorded:
    """A step for all batches: with a product, a fold, a state, joined parts of which the second's place varies; it
    looks at whether there are so many.
    """
    w, b, v = Variable(W.copy()), tensor(B), Variable(np.zeros(40, np.float32))

    def step(x: Tensor) -> tuple[Tensor, ...]:
        y = F.tanh(x @ w.tensor + b)
        v.assign(v.tensor + F.mean(y, 0))
        joined = F.concat([F.cumsum(y, 0), y * 2], 0)
        assert all(x.shape[0] >= n or x.shape[0] < n for n in looked)
        return F.cumsum(joined, 0), F.softmax(F.transpose(y))

    return Recorded(step, "step")


def batches(*counts: int) -> list[Any]:
    return [np.random.default_rng(n).standard_normal((n, 30)).astype(np.float32) for n in counts]


def known(*counts: int, looked: tuple[int, ...] = ()) -> Recorded:
    """The step after batches of these sizes, of which the first has its numbers compiled in."""
    step = sized(*looked)
    for x in batches(*counts):
        step(x)
    return step


def test_a_plan_for_many_shapes_is_read_too(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And serves other sizes than the process had that wrote it, larger ones among them, which move the arena."""
    first = known(30, 20, 31, 200, 17)
    assert len(files.plan_files.store.entries()) == 2 and first.recorded == 2
    for reader in ((30, 31, 20, 17), (30, 250, 18)):
        files.plans.clear()
        second, made = sized(), list[Any]()
        with monkeypatch.context() as patch:
            build = pipeline.build
            patch.setattr(pipeline, "build", lambda *args, made=made, build=build: made.append(args) or build(*args))
            found = [second(x) for x in batches(*reader)]
        assert made == [] and second.recorded == 2
        for x, results in zip(batches(*reader), found, strict=True):
            y = np.tanh(x.astype(np.float64) @ W + B)
            want = np.concatenate([y.cumsum(0), 2 * y]).cumsum(0)
            assert np.abs(results[0].numpy() - want).max() <= 2e-6 * np.abs(want).max()
            assert np.allclose(results[1].numpy().sum(1), 1, atol=1e-5)
        one, other = (list(step.recordings.values())[1] for step in (first, second))
        for n in (25, 40):  # of the classes 17..256
            x = batches(n)[0]
            first(x), second(x)
            a, b = (r.plan((tensor(x).spec,)) for r in (one, other))
            assert [(v.grid, v.nbytes, v.flops, v.ops, v.text) for v in a.launches] == \
                   [(v.grid, v.nbytes, v.flops, v.ops, v.text) for v in b.launches]
            assert a.specs == b.specs and a.blocks == b.blocks
    assert [str(r) for r in first.recordings.values()] == [str(r) for r in second.recordings.values()]
    assert clnet.explain(first).choices.keys() == clnet.explain(second).choices.keys()
    one, other = (explain_replay(step, list(step.replays.values())[-1].replay) for step in (first, second))
    assert one.sources == other.sources and one.launches == other.launches
    assert [(v.name, v.first, v.last) for v in one.lives] == [(v.name, v.first, v.last) for v in other.lives]


def test_each_decision_by_sizes_has_an_entry(files: Any) -> None:
    """Of one structure, up to so many: the last one's place is taken by what comes then."""
    for order in ((30, 20, 40), (30, 100, 80), (30, 20, 100, 40, 80)):
        assert known(*order, looked=(64,)).recorded == len({x >= 64 for x in order[1:]}) + 1
        files.plans.clear()
    entries = files.plan_files.store.entries()
    assert sorted("-" in path.stem for path in entries) == [False, False, True]  # one shape; both sides of 64
    files.plan_files.store.clear()
    for n in range(25, 250, 20):
        known(30, n, looked=tuple(range(20, 256, 20)))
        files.plans.clear()
    assert len(files.plan_files.store.entries()) == 1 + WAYS


def test_what_a_plan_is_made_of_is_in_its_name(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, structure = files.plan_files, ("add", (0, 1), 0.0)
    assert kept.key(("crop", tensor(X).size, (tensor(X).size,))) == kept.key(("crop", 600, (600,)))
    names = {kept.key(structure), kept.key(("add", (0, 1), -0.0)), kept.key(("add", (0, 1), 0)),
             kept.key(("add", (0, True), 0.0))}
    monkeypatch.setattr(plan_files, "stamps", lambda: "other files")
    names.add(kept.key(structure))
    tuning.keep(files.device, ("matmul", ""), {"TM": 4}, "by hand")
    names.add(kept.key(structure))
    assert len(names) == 6 and None not in names
    with tuning.overriding(("matmul", ""), {"TM": 2}):
        assert kept.key(structure) is None
    tuning.own_file(files.device).unlink()
    tuning._own.clear()


def test_what_only_this_process_understands_is_planned_anew(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (print, X, object(), {1: 2}, [1], (1, (lambda x: x,))):
        with pytest.raises(Unkept):
            told(value)
    step = Recorded(lambda x: custom_gradient(x, F.tanh, lambda x, g: g), "step")
    step(X)
    assert files.plan_files.store.entries() == []
    own = made()
    monkeypatch.setattr(OPS["tanh"], "builtin", False)  # as of an op that a user declared
    own(X)
    assert files.plan_files.store.entries() == []
    monkeypatch.undo()
    assert all(op.builtin for op in OPS.values())


def test_damaged_entries_are_absent(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    built(monkeypatch, files, made())
    (path,) = files.plan_files.store.entries()
    key = path.stem
    assert files.plan_files.read(key) is not None
    sizes, texts, plan, *more = json.loads(zlib.decompress(files.plan_files.store.read(key)))
    for wrong in ({}, [1, 2], [sizes, texts, plan[:-1], *more], [sizes, [], plan, *more], [sizes, texts, plan]):
        files.plan_files.store.write(key, zlib.compress(json.dumps(wrong).encode()))
        assert files.plan_files.read(key) is None
    for data in (b"{}", bytes(9)):
        files.plan_files.store.write(key, data)
        assert files.plan_files.read(key) is None
    path.write_bytes(path.read_bytes()[:-1])
    assert files.plan_files.read(key) is None


def test_a_plan_that_took_no_time_is_not_kept(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_files, "WORTH", 1e9)
    made()(X)
    assert files.plan_files.store.entries() == []
    monkeypatch.setattr(plan_files, "WORTH", 0.0)
    monkeypatch.setenv(plan_files.VARIABLE, "0")
    assert PlanFiles(files.device, files.options).key(("add", ())) is None


def test_a_process_that_finds_all_on_disk_loads_neither_planner_nor_compilers(files: Any, tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
import clnet
from clnet.engine import plan_files
plan_files.WORTH = 0.0  # however fast the machine plans
model = clnet.Sequential(clnet.layers.Dense(6, 5, activation="relu"), clnet.layers.Dense(5, 3))
trainer = clnet.Trainer(model, clnet.losses.CrossEntropyLoss(), clnet.optimizers.Adam())
trainer.fit((np.zeros((8, 6), "float32"), np.zeros(8, "int32")), epochs=1, batch_size=8, verbose=False)
print(*sys.modules)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CLNET_CACHE_DIR": str(tmp_path),
           "CLNET_DEVICE": files.device.key, plan_files.VARIABLE: "1"}
    first, second = (set(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                                        timeout=120, check=True).stdout.split()) for _ in "ab")
    planner = {f"clnet.engine.compile.{name}" for name in ("graph", "schedule", "emit", "memory_map")}
    building = {f"clnet.engine.device.{name}" for name in ("together", "joined", "compilers", "build_log")}
    assert planner <= first and not (planner | building) & second
