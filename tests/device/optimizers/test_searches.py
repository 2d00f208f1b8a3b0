"""Optimizers that search a minimum, on every device: the reference's minima, one plan a formula, runs that are resumed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet import ops as F
from clnet.core.state import Parameter
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded
from clnet.layers import Activation, BatchNorm, Dense, Dropout
from clnet.model import Sequential
from clnet.model import files as model_io
from clnet.optimizers import LBFGS, Group, LevenbergMarquardt, NewtonMethod, Optimizer, StepLR
from clnet.optimizers.closure import ClosureOptimizer, Given, Search
from clnet.train import Trainer
from clnet.train.callbacks import Checkpoint
from clnet.workbench.evidence import checks, golden, registry
from clnet.workbench.evidence import step as probe

SUBJECTS = [pytest.param(s, id=s.name) for s in registry.subjects()
            if s.kind == "optimizer" and issubclass(s.thing, ClosureOptimizer)]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_values_of_other_libraries(subject: Any, engine: Any) -> None:
    """SciPy's minimum; of LBFGS without a line search every step of PyTorch's."""
    if engine.device.runtime == "pocl" and subject.name != "LBFGS":
        pytest.skip("its compiler is slow, and the status table holds all")
    result = checks.worst(subject.name, golden.compare(subject, engine))
    assert result, str(result)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_three_iterations_are_the_reference_s_and_leave_nothing_on_the_host(subject: Any, engine: Any) -> None:
    (_, got), (_, want) = (probe.step_of(subject).run(e, 3) for e in (engine, checks.oracle()))
    for n, w in want.items():
        np.testing.assert_allclose(got[n], w, rtol=1e-5, atol=1e-5)
    result = probe.resident(probe.step_of(subject), engine)
    assert result, str(result)


@pytest.mark.parametrize("name", ["ConjugateGradient", "BFGS", "LBFGS", "NewtonMethod", "TrustRegion"])
def test_rosenbrock_s_valley_in_single_precision(name: str, engine: Any) -> None:
    p = Parameter(np.array([-1.2, 1.0], np.float32), "w")
    optimizer = Optimizer.registry[name]()
    optimizer.attach([p])
    search = Search(optimizer, Given(lambda: 100 * (p.tensor[1] - p.tensor[0] ** 2) ** 2 + (1 - p.tensor[0]) ** 2),
                    Recorded)
    for _ in range(10):
        search.step(())
        optimizer.t += 1
    np.testing.assert_allclose(p.numpy(), [1.0, 1.0], atol=1e-5)
    assert search.reason, "in ten steps of twenty iterations it says that it is there"


def test_l_bfgs_s_directions_are_those_of_the_two_loops(engine: Any, monkeypatch: Any) -> None:
    """Over the pairs with yᵀs > 0 of those in memory: steps of fixed length through hills and valleys, where many have
    none, over three steps of the optimizer. A pair that is refused has taken the place of the oldest.
    """
    p, history, seen = Parameter(np.linspace(-2, 2.5, 7).astype(np.float32), "w"), 3, []
    optimizer = LBFGS(history=history, max_iter=9, lr=0.7, line_search=None, tol_grad=0.0, tol_change=0.0)
    optimizer.attach([p])
    scale = tensor(np.linspace(0.5, 3, 7).astype(np.float32))
    search = Search(optimizer, Given(lambda: F.sum(F.sin(p.tensor * scale) + 0.05 * p.tensor**2)), Recorded)
    turn = LBFGS.turn

    def watched(self: Any, search: Search, pair: bool, reset: bool = False) -> float:
        slope = turn(self, search, pair, reset)
        w, g, d = (v.numpy().astype(np.float64) for v in (p, search.at.variables["g"], search.at.variables["d"]))
        seen.append((w, g, d, bool(self.kept["learned"])))
        assert slope == pytest.approx(d @ g, rel=1e-4)
        return slope

    monkeypatch.setattr(LBFGS, "turn", watched)
    for _ in range(3):
        search.step(())
        optimizer.t += 1
    pairs: list[Any] = []
    refused = checked = 0
    for k, (w, g, d, learned) in enumerate(seen):
        if k:
            s, y = w - seen[k - 1][0], g - seen[k - 1][1]
            if s.any():  # else a step of the optimizer begins where the last one ended
                pairs = pairs[-(history - 1):]
                refused += y @ s <= 1e-10
                pairs += [(s, y)] if y @ s > 1e-10 else []
        if not learned:
            pairs = []
        np.testing.assert_allclose(d, -two_loops(pairs, g), rtol=2e-3, atol=2e-3 * np.abs(d).max())
        checked += len(pairs) == history
    assert refused and checked, "the walk met both: a pair that is refused, and a memory that is full"


def two_loops(pairs: Any, g: Any) -> Any:
    """H g of Nocedal & Wright 2006, algorithm 7.4."""
    q, steps = g.copy(), []
    for s, y in reversed(pairs):
        steps.append(s @ q / (y @ s))
        q -= steps[-1] * y
    if pairs:
        s, y = pairs[-1]
        q *= s @ y / (y @ y)
    for (s, y), a in zip(pairs, reversed(steps), strict=True):
        q += (a - y @ q / (y @ s)) * s
    return q


def test_levenberg_marquardt_goes_on_where_the_loss_has_no_more_digits(engine: Any) -> None:
    """Residuals that stay leave their rounding in the equations: no more gradients conjugate to it may spoil a step."""
    made = probe.optimizer_step(LevenbergMarquardt())
    made.step(engine)
    assert isinstance(made, probe.SearchProbe)
    w = np.concatenate([np.ravel(p.numpy()) for p in made.params.values()]).astype(np.float64)
    t = np.concatenate([np.ravel(g) for g in made.inputs]).astype(np.float64)
    slope = (w - t) + 0.3 * w * w * 0.6 * w + 0.01 * w.sum()  # of ½ Σ r² of the Valley
    assert np.abs(slope).max() < 2e-6


# --- in a Trainer
def data(count: int = 20) -> tuple[Any, Any]:
    x = np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32)
    return x, np.tanh(x[:, :1] - x[:, 1:2]).astype(np.float32)


def trainer(optimizer: Any) -> Trainer:
    """A network that draws random numbers and keeps statistics."""
    init.seed(0)
    model = Sequential(Dense(in_features=4, out_features=6), BatchNorm(6), Activation("tanh"), Dropout(0.2),
                       Dense(in_features=6, out_features=1))
    for k, g in enumerate(model.generators()):
        g.seed(k)
    return Trainer(model, "mse", optimizer, ())


@pytest.mark.parametrize("name", ["LBFGS", "TrustRegion", *(
    pytest.param(n, marks=pytest.mark.slow) for n in ("BFGS", "ConjugateGradient", "LevenbergMarquardt"))])
def test_a_resumed_run_has_the_same_bits(name: str, engine: Any, tmp_path: Path) -> None:
    """From the middle of an epoch too, with a short last batch, dropout and running statistics."""
    x, y = data()

    def make() -> Trainer:
        return trainer(Optimizer.registry[name](max_iter=3))

    whole = make()
    history = whole.fit(x, y, epochs=3, batch_size=12, verbose=False)
    first, second = make(), make()
    first.fit(x, y, epochs=2, batch_size=12, verbose=False, callbacks=Checkpoint(tmp_path / "run", every=9, steps=3))
    again = second.fit(x, y, epochs=3, batch_size=12, verbose=False, resume=tmp_path / "run")
    assert again.steps == history.steps
    for n, a in model_io.values(whole.model).items():
        assert a.tobytes() == model_io.values(second.model)[n].tobytes(), n


def test_nothing_is_compiled_after_the_first_steps(engine: Any) -> None:
    """Each formula is recorded once, whatever the rate; pairs of LBFGS are one a place."""
    x, y = data()
    made = trainer(LBFGS(lr=StepLR(1, 0.9, lr=1.0), history=2))
    made.fit(x, y, epochs=2, verbose=False)
    search = made.steps.search
    assert search is not None
    builds, pieces = engine.programs.counters().builds, {n: p.recorded for n, p in search.pieces.items()}
    assert set(pieces.values()) == {1}
    history = made.fit(x, y, epochs=2, verbose=False)
    assert made.steps.search is search and {n: p.recorded for n, p in search.pieces.items()} == pieces
    assert engine.programs.counters().builds == builds and made.optimizer.t == 4
    assert history["lr"] == pytest.approx([0.81, 0.729])
    if engine.compiles and history.transfers is not None:
        reads = sum(history["evaluations"]) + 2 * sum(history["iterations"]) + 8 * len(history)
        assert history.transfers.bytes_to_host < 64 * reads, "the host reads a few numbers an evaluation"


def test_random_layers_draw_once_a_step(engine: Any) -> None:
    """All evaluations of a step see one dropout mask, the next step sees another."""
    model = Sequential(Dropout(0.5), Dense(in_features=64, out_features=1, bias=False))
    x, y = np.ones((1, 64), np.float32), np.zeros((1, 1), np.float32)
    # A loss without a minimum: at one, gradients are 0 whatever the mask is.
    made = Trainer(model, lambda output, target: F.exp(output * 0.1).mean(), LBFGS(max_iter=1), ())
    gradients = []
    for _ in range(3):
        made.fit(x, y + 1, epochs=1, verbose=False)
        search = made.steps.search
        assert search is not None
        gradients.append(search.at.variables["g0"].numpy() != 0)
        last = search.at.variables["g"].numpy() != 0
        assert (last == gradients[-1]).all(), "another mask within a step"
    assert not (gradients[0] == gradients[1]).all() and not (gradients[1] == gradients[2]).all()


def test_frozen_parameters_stay(engine: Any) -> None:
    x, y = data()
    made = trainer(NewtonMethod(max_iter=2, groups=(Group(names=("layers.0.*",), frozen=True),)))
    before = model_io.values(made.model.build((4,)))
    made.fit(x, y, epochs=1, verbose=False)
    after = model_io.values(made.model)
    same = {n for n in before if np.array_equal(before[n], after[n])}
    assert {"layers.0.weight", "layers.0.bias"} <= same and "layers.4.weight" not in same


def test_batches_of_several_sizes_share_plans(engine: Any) -> None:
    """As those of any training step: one plan for the first, one a class of sizes."""
    model = Sequential(Dense(in_features=4, out_features=6, activation="tanh"), Dense(in_features=6, out_features=1))
    made = Trainer(model, "mse", LBFGS(max_iter=1, history=2), ())
    for count in (20, 17, 13, 11):
        made.fit(*data(count), epochs=1, verbose=False)
    search = made.steps.search
    assert search is not None
    assert search.pieces["loss"].recorded == (3 if engine.compiles else 4)
