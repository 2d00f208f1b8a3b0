"""Optimizers that search a minimum, in float64: SciPy's minima in as many iterations, line searches, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize as theirs

from clnet import init
from clnet import ops as F
from clnet.core.state import Parameter
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.engine.record import Recorded
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError, NonFiniteError, ShapeError
from clnet.layers import Dense
from clnet.losses import CTCLoss, MAELoss, MSELoss
from clnet.model import Sequential
from clnet.optimizers import (
    ADMM,
    BFGS,
    LBFGS,
    SGD,
    CoordinateDescent,
    CosineAnnealingLR,
    Group,
    LevenbergMarquardt,
    NewtonMethod,
    Optimizer,
    StepLR,
    TrustRegion,
)
from clnet.optimizers.closure import ClosureOptimizer, Given, Search
from clnet.optimizers.line_search import Point, backtracking, strong_wolfe
from clnet.train import Trainer
from clnet.workbench.evidence.layer_checks import round_trip
from clnet.workbench.evidence.registry import load_all

load_all()
ALL = [pytest.param(cls, id=name) for name, cls in sorted(Optimizer.registry.items())
       if issubclass(cls, ClosureOptimizer)]


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on(NumpyEngine("float64")) as engine:
        yield engine


# --- functions with known minima, as residuals r of ½ Σ r²; they take tensors and NumPy's arrays
def rosenbrock(w: Any) -> list[Any]:
    return [10 * 2**0.5 * (w[1] - w[0] * w[0]), 2**0.5 * (1 - w[0])]


def beale(w: Any) -> list[Any]:
    return [2**0.5 * (c - w[0] + w[0] * w[1] ** k) for k, c in ((1, 1.5), (2, 2.25), (3, 2.625))]


def powell(w: Any) -> list[Any]:
    return [2**0.5 * (w[0] + 10 * w[1]), 10**0.5 * (w[2] - w[3]), 2**0.5 * (w[1] - 2 * w[2]) ** 2,
            20**0.5 * (w[0] - w[3]) ** 2]


FUNCTIONS: dict[str, tuple[Callable[[Any], list[Any]], list[float]]] = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0]), "beale": (beale, [1.0, 1.0]), "powell": (powell, [3.0, -1.0, 0.0, 1.0])}
METHODS = {"ConjugateGradient": "CG", "BFGS": "BFGS", "DFP": "BFGS", "LBFGS": "L-BFGS-B", "NewtonMethod": "Newton-CG",
           "TrustRegion": "trust-ncg", "LevenbergMarquardt": "lm"}


def search(optimizer: ClosureOptimizer, f: Callable[[Any], Any], start: Any, steps: int = 60) -> tuple[Any, Search]:
    """(where it ended, the search)"""
    p = Parameter(np.array(start), "w", dtype="float64")
    optimizer.attach([p])
    found = Search(optimizer, Given(lambda: f(p.tensor)), Recorded)
    for _ in range(steps):
        found.step(())
        optimizer.t += 1
        if found.reason:
            break
    return p.numpy(), found


def half(r: Any) -> Any:
    return 0.5 * sum((x * x for x in r[1:]), r[0] * r[0])


def by_scipy(name: str, residuals: Any, start: list[float]) -> tuple[Any, int]:
    """(its minimum, iterations) with derivatives by central differences, near enough for both."""
    def f(w: Any) -> float:
        return float(half(residuals(np.asarray(w))))

    def slope(w: Any, h: float = 1e-6) -> Any:
        return np.array([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(len(w))])

    def curvature(w: Any, h: float = 1e-5) -> Any:
        found = np.array([(slope(w + h * e) - slope(w - h * e)) / (2 * h) for e in np.eye(len(w))])
        return 0.5 * (found + found.T)

    if METHODS[name] == "lm":
        found = theirs.least_squares(lambda w: np.array(residuals(w)), start, method="lm", gtol=1e-8)
        return found.x, found.nfev // (len(start) + 1)
    limits = {"L-BFGS-B": {"gtol": 1e-7, "ftol": 0.0}, "Newton-CG": {"xtol": 1e-9}}.get(METHODS[name], {"gtol": 1e-7})
    second = {"hess": curvature} if METHODS[name] in ("Newton-CG", "trust-ncg") else {}
    found = theirs.minimize(f, start, jac=slope, method=METHODS[name], options=limits, **second)
    return found.x, found.nit


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", METHODS)
def test_the_minimum_of_scipy_in_as_many_iterations(name: str, function: str) -> None:
    residuals, start = FUNCTIONS[function]
    wanted, iterations = by_scipy(name, residuals, start)
    squares = name == "LevenbergMarquardt"
    found, made = search(Optimizer.registry[name](), lambda w: F.stack(residuals(w), 0) if squares
                         else half(residuals(w)), start)
    if function == "powell":  # its Hessian is singular at the minimum: how far one comes in w says little
        assert half(powell(found)) < 1e-6 and np.abs(found).max() < 0.03
    else:
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    # our LevenbergMarquardt counts Jacobians, of which SciPy makes as many as steps, and more
    least = 20 if squares else 0
    assert made.iterations <= 1.5 * max(iterations, least), f"{made.iterations} for {iterations}: {made.reason}"


def test_a_fit_by_least_squares() -> None:
    """y = a e^(−bx) + c with noise, as SciPy's MINPACK fits it."""
    x = np.linspace(0, 4, 50)
    y = 2.5 * np.exp(-1.3 * x) + 0.5 + 0.01 * np.random.default_rng(0).standard_normal(50)
    theirs_found = theirs.least_squares(lambda w: w[0] * np.exp(-w[1] * x) + w[2] - y, [1.0, 1.0, 0.0], method="lm",
                                        xtol=1e-14, ftol=1e-14, gtol=1e-14)
    xs, ys = tensor(x), tensor(y)
    for scale in ("diag", "identity"):
        found, made = search(LevenbergMarquardt(scale=scale), lambda w: w[0] * F.exp(-w[1] * xs) + w[2] - ys,
                             [1.0, 1.0, 0.0])
        np.testing.assert_allclose(found, theirs_found.x, rtol=1e-7)
        assert made.iterations <= 1.5 * 7, "MINPACK takes 7"
    wide, _ = search(LevenbergMarquardt(), lambda w: w - ys, np.zeros(50), 2)  # as many residuals: by rows
    np.testing.assert_allclose(wide, y, rtol=1e-9)


def test_a_small_network_as_scipy() -> None:
    """Logistic regression with a weight on the squares, which has one minimum."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((40, 3)), rng.integers(0, 2, 40)
    sign = 2.0 * y - 1

    def loss(w: Any) -> float:
        return float(np.mean(np.log1p(np.exp(-sign * (x @ w[:3] + w[3])))) + 0.05 * (w @ w))

    wanted = theirs.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    xs, signs = tensor(x), tensor(sign)

    def ours(w: Any) -> Any:
        return F.mean(F.softplus(-signs * ((xs @ w[:3].reshape(3, 1)).reshape(-1) + w[3]))) + 0.05 * F.sum(w * w)

    for cls in (LBFGS, BFGS, NewtonMethod, TrustRegion):
        found, _ = search(cls(), ours, np.zeros(4))
        np.testing.assert_allclose(found, wanted, atol=2e-6)


@pytest.mark.parametrize("order", ["cyclic", "random", "greedy"])
def test_coordinate_descent_is_gauss_seidel_and_solves_the_lasso(order: str) -> None:
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
    xs, ys = tensor(x), tensor(y.reshape(-1, 1))

    def error(w: Any) -> Any:
        return F.sum((xs @ w.reshape(-1, 1) - ys) ** 2) / 60.0

    if order == "cyclic":  # one exact sweep is one of Gauss and Seidel
        a, b, w = x.T @ x / 30, x.T @ y / 30, np.zeros(6)
        for i in range(6):
            w[i] = (b[i] - a[i] @ w + a[i, i] * w[i]) / a[i, i]
        np.testing.assert_allclose(search(CoordinateDescent(exact=True), error, np.zeros(6), 1)[0], w, rtol=1e-9)
    fields = dict(lr=0.4) if order == "greedy" else dict(exact=True)
    found, made = search(CoordinateDescent(order=order, l1=0.1, **fields), error, np.ones(6), 200)
    wanted = Lasso(alpha=0.1, fit_intercept=False, tol=1e-12).fit(x, y).coef_
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert "no parameter moves" in made.reason and ((found == 0) == (wanted == 0)).all()


def test_admm_solves_the_lasso() -> None:
    """By gradient steps and by the exact minimiser; it says when it is there."""
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((60, 8)), rng.standard_normal(60)
    y += x @ np.r_[2.0, -3.0, np.zeros(6)]
    wanted = Lasso(alpha=0.1, fit_intercept=False, tol=1e-12).fit(x, y).coef_

    def exact(v: Any, rho: Any) -> Any:
        """argmin ½‖Xw − y‖² / n + ρ/2 ‖w − v‖² for ρ = 1"""
        inverse = tensor(np.linalg.inv(x.T @ x / 60 + np.eye(8)))
        return (inverse @ (tensor(x.T @ y / 60) + v).reshape(-1, 1)).reshape(-1)

    for fields in (dict(lr=0.3), dict(lr=0.3, inner_steps=3), dict(minimizer=exact)):
        optimizer = ADMM(strength=0.1, tol=1e-6, **fields)
        p = Parameter(np.zeros(8), "w", dtype="float64")
        optimizer.attach([p])
        for _ in range(600):
            p.grad = tensor(x.T @ (x @ p.numpy() - y) / 60)
            optimizer.update([p])
        optimizer.use_solution()
        np.testing.assert_allclose(p.numpy(), wanted, atol=1e-5)
        assert "below 1e-06" in optimizer.converged() and ((p.numpy() == 0) == (wanted == 0)).all()


# --- line searches
@pytest.mark.parametrize("first", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("phi", [
    lambda a: ((a - 2) ** 2 - 4, 2 * (a - 2)), lambda a: (-a / (a * a + 2), (a * a - 2) / (a * a + 2) ** 2),
    lambda a: (np.cos(a + 1) + 0.01 * a * a, -np.sin(a + 1) + 0.02 * a),
    lambda a: (np.nan, np.nan) if a > 3 else (-np.log(3.0001 - a) * -1 - a, -1 / (3.0001 - a) - 1)])
def test_strong_wolfe_conditions_hold(phi: Any, first: float) -> None:
    """Where SciPy's line search finds a step, ours does, and both conditions hold of it."""
    start = Point(0.0, *map(float, phi(0.0)))
    theirs_found = theirs.line_search(lambda w: phi(w[0])[0], lambda w: np.array([phi(w[0])[1]]), np.zeros(1),
                                      np.ones(1), c2=0.4, amax=3.0)[0]
    found = strong_wolfe(lambda a: Point(a, *map(float, phi(a))), start, first, 1e-4, 0.4, 0.0)
    assert found is not None and found.f <= start.f + 1e-4 * found.a * start.slope
    if theirs_found is not None:
        assert abs(found.slope) <= -0.4 * start.slope
    lower = backtracking(lambda a: Point(a, *map(float, phi(a))), start, first, 1e-4, 0.0)
    assert lower is not None and lower.f <= start.f + 1e-4 * lower.a * start.slope


def test_no_step_is_none() -> None:
    uphill = Point(0.0, 0.0, -1.0)  # a slope that is not the function's
    assert strong_wolfe(lambda a: Point(a, a, 1.0), uphill, 1.0, 1e-4, 0.9, 0.0) is None
    assert backtracking(lambda a: Point(a, a, 1.0), uphill, 1.0, 1e-4, 0.0) is None


# --- hard places
@pytest.mark.parametrize("cls", ALL)
def test_where_there_is_nothing_to_gain_it_stays_and_says_so(cls: type[ClosureOptimizer]) -> None:
    squares = cls is LevenbergMarquardt
    found, made = search(cls(), lambda w: w - 1.0 if squares else F.sum((w - 1.0) ** 2), np.ones(2))
    np.testing.assert_array_equal(found, np.ones(2))
    assert made.steps == made.ended == 1 and made.reason
    assert "converged" in made.converged()


@pytest.mark.parametrize(("optimizer", "start"), [
    (NewtonMethod(), [0.5, 1e-3]), (NewtonMethod(solver="cholesky"), [0.5, 1e-3]), (TrustRegion(), [0.5, 1e-3]),
    (LBFGS(), [0.5, 1e-3]), (NewtonMethod(solver="cholesky"), [0.0, 1e-3])])
def test_an_indefinite_hessian_is_left_downhill(optimizer: ClosureOptimizer, start: list[float]) -> None:
    """x² − y² + y⁴ / 2 at its saddle: the minima are at y = ±1, where f = −½."""
    found, _ = search(optimizer, lambda w: w[0] ** 2 - w[1] ** 2 + 0.5 * w[1] ** 4, start)
    np.testing.assert_allclose(np.abs(found), [0.0, 1.0], atol=1e-5)


@pytest.mark.parametrize("optimizer", [NewtonMethod(), NewtonMethod(solver="cholesky"), TrustRegion()])
def test_a_singular_hessian_is_no_hindrance(optimizer: ClosureOptimizer) -> None:
    """(x + y − 1)² has a line of minima."""
    found, _ = search(optimizer, lambda w: (w[0] + w[1] - 1) ** 2, [3.0, 1.0])
    assert abs(found.sum() - 1) < 1e-6


def test_a_parameter_without_influence_does_not_disturb_least_squares() -> None:
    found, _ = search(LevenbergMarquardt(), lambda w: F.stack([w[0] - 2.0, 3.0 * w[0] - 6.0, 0.0 * w[1]], 0),
                      [0.0, 7.0])
    np.testing.assert_allclose(found, [2.0, 7.0], rtol=1e-9)


@pytest.mark.parametrize("cls", ALL)
def test_maximize_goes_up(cls: type[ClosureOptimizer]) -> None:
    if cls is LevenbergMarquardt:
        with pytest.raises(ConfigError, match="squares"):
            cls(maximize=True)
        return
    found, _ = search(cls(maximize=True, **({"lr": 0.3} if cls is CoordinateDescent else {})),
                      lambda w: -F.sum((w - 1.0) ** 2), [0.0, 3.0])
    np.testing.assert_allclose(found, [1.0, 1.0], atol=1e-6)


# --- what is refused
@pytest.mark.parametrize(("call", "says"), [
    (lambda: LBFGS(clip_norm=1.0), "no clipping"), (lambda: BFGS(c1=0.4, c2=0.3), "c1 < c2"),
    (lambda: LBFGS(groups=(Group(roles=("bias",), lr=0.1),)), "groups that freeze"),
    (lambda: LBFGS(line_search="armijo"), "strong_wolfe"), (lambda: TrustRegion(lr=0.1), "radius"),
    (lambda: TrustRegion(radius=20.0), "max_radius"), (lambda: LevenbergMarquardt(lr=StepLR(2, lr=1.0)), "damping"),
    (lambda: LevenbergMarquardt(damping=1e13), "damping"),
    (lambda: CoordinateDescent(exact=True, block_size=2), "one parameter"),
    (lambda: ADMM(regularizer="l3"), "l1"), (lambda: ADMM(minimizer=3), "callable"),
    (lambda: LBFGS(history=0), "history"),
])
def test_configuration_errors(call: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        call()


@pytest.mark.parametrize(("optimizer", "size", "says"), [
    (BFGS(), 20_001, r"20000 parameters.*got 20001.*GiB.*LBFGS.*force=True"),
    (NewtonMethod(solver="cholesky"), 20_001, "20000"), (LevenbergMarquardt(), 30_000, "20000"),
    (CoordinateDescent(), 20_001, "block_size=21")])
def test_memory_is_guarded(optimizer: ClosureOptimizer, size: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        optimizer.attach([Parameter(np.zeros(size), "w")])


def test_a_jacobian_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clnet.optimizers.least_squares.LARGEST", 5)
    p = Parameter(np.ones(3), "w")
    with pytest.raises(ConfigError, match=r"3 residuals of 3 parameters.*batches smaller, or take LBFGS"):
        LevenbergMarquardt().update([p], lambda: p.tensor * 2.0)


def test_what_cannot_be_searched_is_refused() -> None:
    p = Parameter(np.zeros(3), "w")
    with pytest.raises(ConfigError, match="closure"):
        LBFGS().update([p])
    with pytest.raises(ShapeError, match=r"scalar loss; got shape \(3,\)"):
        LBFGS().update([p], lambda: p.tensor * 2.0)
    with pytest.raises(ShapeError, match="residuals"):
        LevenbergMarquardt().update([p], lambda: F.sum(p.tensor))
    with pytest.raises(ConfigError, match="float32 or float64; got float16"):
        LBFGS().attach([Parameter(np.zeros(3), "w", dtype="float16")])
    with pytest.raises(ConfigError, match="one dtype"):
        LBFGS().attach([p, Parameter(np.zeros(3), "v", dtype="float64")])


def test_a_loss_without_second_derivatives_is_named() -> None:
    rng = np.random.default_rng(0)
    p = Parameter(rng.standard_normal((5, 1, 3)), "logits")
    target, ctc = tensor(np.array([[1, 2]], np.int32)), CTCLoss()
    lengths, two = (tensor(np.array([n], np.int32)) for n in (5, 2))
    with pytest.raises(ConfigError, match=r"NewtonMethod: expected a loss that is differentiable twice.*LBFGS"):
        NewtonMethod().update([p], lambda: ctc(F.log_softmax(p.tensor, -1), target, lengths, two))


def test_an_explicit_step_is_the_searched_one() -> None:
    def run(optimizer: Any) -> Any:
        p = Parameter(np.array([-1.2, 1.0]), "w", dtype="float64")
        for _ in range(3):
            optimizer.update([p], lambda: half(rosenbrock(p.tensor)))
        return p.numpy()

    wanted, _ = search(LBFGS(), lambda w: half(rosenbrock(w)), [-1.2, 1.0], 3)
    np.testing.assert_array_equal(run(LBFGS()), wanted)


@pytest.mark.parametrize("cls", ALL)
def test_configuration_round_trip(cls: type[ClosureOptimizer]) -> None:
    rate = {} if cls in (TrustRegion, LevenbergMarquardt) else {"lr": CosineAnnealingLR(5, lr=0.1)}
    assert round_trip(cls(max_iter=7, **rate))
    assert all(Optimizer.lookup(name) is cls for name in (cls.__name__, cls.spec_name, *cls.aliases))


# --- in a Trainer
def data() -> tuple[Any, Any]:
    x = np.random.default_rng(0).standard_normal((24, 4)).astype(np.float32)
    return x, np.tanh(x[:, :1] - x[:, 1:2]).astype(np.float32)


def trainer(optimizer: Any, loss: Any = "mse") -> Trainer:
    init.seed(0)
    return Trainer(Sequential(Dense(in_features=4, out_features=3, activation="tanh"),
                              Dense(in_features=3, out_features=1)), loss, optimizer, ())


def test_training_ends_where_there_is_nothing_to_gain_and_says_so() -> None:
    x, _ = data()
    model = Sequential(Dense(in_features=4, out_features=1))
    history = Trainer(model, "mse", LBFGS(tol_grad=1e-5), ()).fit(x, x[:, :1] + 2.0, epochs=30, verbose=False)
    assert history.stopped == "LBFGS converged: no |gradient element| is above 1e-05" and len(history) < 10
    assert history["loss"][-1] < 1e-9 and history["evaluations"][0] >= history["iterations"][0] > 1


def test_the_loss_of_a_step_is_that_at_its_end() -> None:
    x, y = data()
    made = trainer(LBFGS(max_iter=3))
    history = made.fit(x, y, epochs=2, verbose=False)
    assert history["loss"][-1] == pytest.approx(made.evaluate(x, y)["loss"], rel=1e-6)


def test_a_loss_that_is_no_number_stops_with_the_model_as_it_was() -> None:
    x, y = data()
    made = trainer(LBFGS(), lambda o, t: F.mean(F.log(o - t)))
    before = [p.numpy() for p in made.model.build((4,)).parameters()]
    with pytest.raises(NonFiniteError, match="as it was"):
        made.fit(x, y, epochs=2, verbose=False)
    for p, was in zip(made.model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.numpy(), was)


def test_what_a_trainer_refuses() -> None:
    x, y = data()
    with pytest.raises(ConfigError, match=r"sum of squares.*MAELoss.*residuals"):
        trainer(LevenbergMarquardt(), MAELoss()).fit(x, y, verbose=False)
    with pytest.raises(ConfigError, match=r"fp16.*LBFGS.*bf16"):
        Trainer(Sequential(Dense(out_features=1)), MSELoss(), LBFGS(), precision="fp16")
    assert Trainer(Sequential(Dense(out_features=1)), MSELoss(), SGD(), precision="fp16")
