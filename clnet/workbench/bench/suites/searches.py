"""A step of L-BFGS over a million parameters, twenty iterations from the same start: Rosenbrock's function, where the
vectors are all there is, and a network, where its gradient is most.

Both sides search by strong Wolfe conditions, or take fixed steps, where the evaluations are as many on both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import ops as F
from ....core.state import Parameter, Variable
from ....core.tensor import Tensor, tensor
from ....engine import on
from ....engine.record import Recorded
from ....optimizers import LBFGS
from ....optimizers.closure import Given, Search
from ..compare import Work
from ..peers import Run, Torch
from . import Suite

if TYPE_CHECKING:
    from ....engine.protocol import Engine

COUNT = 1_000_000
ITERATIONS, HISTORY, BATCH = 20, 10, 64
Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Problem:
    """A loss of parameters that start at `start`; `data` are its other inputs. loss(tensors, data) is ours,
    theirs(torch, tensors, data) PyTorch's.
    """

    start: Arrays
    data: Arrays
    loss: Callable[[list[Any], list[Any]], Tensor]
    theirs: Callable[[Any, list[Any], list[Any]], Any]


def valley() -> Problem:
    """Σ 100 (w_{i+1} − w_i²)² + (1 − w_i)²"""
    start = np.where(np.arange(COUNT) % 2, 1.0, -1.2).astype(np.float32)

    def loss(w: list[Any], _: list[Any]) -> Tensor:
        total: Tensor = F.sum(100 * (w[0][1:] - w[0][:-1] ** 2) ** 2 + (1 - w[0][:-1]) ** 2)
        return total

    return Problem([start], [], loss, lambda torch, w, _: (
        100 * (w[0][1:] - w[0][:-1] ** 2) ** 2 + (1 - w[0][:-1]) ** 2).sum())


def network() -> Problem:
    """tanh(xW₁ᵀ) W₂ᵀ against targets: a million weights, 64 samples."""
    rng = np.random.default_rng(0)
    shapes = (1000, 968), (32, 1000)
    start = [(rng.standard_normal(s) / s[1] ** 0.5).astype(np.float32) for s in shapes]
    data = [rng.standard_normal((BATCH, n)).astype(np.float32) for n in (968, 32)]
    return Problem(start, data, lambda w, d: F.mean((F.tanh(d[0] @ w[0].T) @ w[1].T - d[1]) ** 2),
                   lambda torch, w, d: ((torch.tanh(d[0] @ w[0].T) @ w[1].T - d[1]) ** 2).mean())


def _ours(make: Callable[[], Problem], fields: Mapping[str, Any]) -> Callable[[Engine], Run]:
    def prepare(engine: Engine) -> Run:
        with on(engine):
            problem = make()
            params = [Parameter(a, f"w{k}") for k, a in enumerate(problem.start)]
            optimizer = LBFGS(max_iter=ITERATIONS, history=HISTORY, tol_grad=0.0, tol_change=0.0, **fields)
            optimizer.attach(params)
            data = [tensor(a) for a in problem.data]
            search = Search(optimizer, Given(lambda: problem.loss([p.tensor for p in params], data)), Recorded)
            flat, start = optimizer.arenas[0].flat, Variable(optimizer.arenas[0].flat.numpy(), "start")

            def back() -> tuple[()]:
                flat.assign(start.tensor)
                return ()

        again = Recorded(back, "back to the start")

        def step() -> None:
            again()
            optimizer.restart()
            search.step(())

        return step

    return prepare


def _theirs(make: Callable[[], Problem], fields: Mapping[str, Any]) -> Callable[[Torch], Run]:
    def prepare(peer: Torch) -> Run:
        torch, problem = peer.torch, make()
        start, data = [peer.array(a) for a in problem.start], [peer.array(a) for a in problem.data]
        params = [peer.array(a, True) for a in problem.start]

        def step() -> None:
            with torch.no_grad():
                for p, a in zip(params, start, strict=True):
                    p.copy_(a)
            optimizer = torch.optim.LBFGS(params, max_iter=ITERATIONS, max_eval=100, history_size=HISTORY,
                                          tolerance_grad=0.0, tolerance_change=0.0, **fields)

            def closure() -> Any:
                optimizer.zero_grad()
                loss = problem.theirs(torch, params, data)
                loss.backward()
                return loss

            optimizer.step(closure)

        return step

    return prepare


def works() -> list[Work]:
    """Two problems, with and without a line search."""
    wolfe, fixed = {"line_search_fn": "strong_wolfe"}, {"lr": 0.1}
    return [Work("searches", f"L-BFGS {what}", _ours(make, mine), _theirs(make, its), quick, numpy=False)
            for what, make, mine, its, quick in (
                ("Rosenbrock 1M", valley, {}, wolfe, True), ("network 1M", network, {}, wolfe, False),
                ("network 1M, fixed steps", network, {**fixed, "line_search": None}, fixed, False))]


SUITE = Suite(works)
