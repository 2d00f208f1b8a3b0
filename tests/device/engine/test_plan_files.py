"""Plans on disk: the same plan comes back, for the same structure on the same device by the same files alone."""

from __future__ import annotations

import json
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
from clnet.engine.compile import graph
from clnet.engine.plan_files import PlanFiles, Unkept, told
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
    graphs, build = list[Any](), graph.build
    with monkeypatch.context() as patch:
        patch.setattr(graph, "build", lambda *args: graphs.append(args) or build(*args))
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
    plan, others = json.loads(zlib.decompress(files.plan_files.store.read(key)))
    for wrong in ({}, [1, 2], [plan[:-1], others], [[plan[0], [], *plan[2:]], others]):  # the last: no texts
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
