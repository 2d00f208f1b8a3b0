"""Functions as works of the bench: ours recorded once and replayed, PyTorch's as its users call them; forward, or with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autodiff import gradients
from ..engine import on
from ..engine.record import Recorded
from ..tensor import tensor
from .bench_compare import Step, Work
from .peers import Run, Torch

Shape = tuple[int, ...]


def normal(*shapes: Shape) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, np.float32) for s in shapes]


def function(f: Callable[..., Any], *shapes: Shape) -> Callable[[Any], Run]:
    """Ours: f recorded once, its inputs on the device; a call starts one replay."""

    def prepare(engine: Any) -> Run:
        with on(engine):
            xs = [tensor(a) for a in normal(*shapes)]
            engine.run(xs)
            return Step(Recorded(f, "bench"), lambda: tuple(xs))

    return prepare


def theirs(f: Callable[..., Any], *shapes: Shape) -> Callable[[Torch], Run]:
    """PyTorch's: f(torch, *inputs) without recording gradients."""

    def prepare(peer: Torch) -> Run:
        xs = [peer.array(a) for a in normal(*shapes)]

        def call() -> Any:
            with peer.torch.no_grad():
                return f(peer.torch, *xs)

        return call

    return prepare


def with_gradients(f: Callable[..., Any], *shapes: Shape) -> Callable[[Any], Run]:
    """Ours: y = f(*inputs) and the gradients of all inputs. The last shape is y's, and that of its gradient."""

    def both(*arrays: Any) -> Any:
        *xs, g = arrays
        y = f(*xs)
        return (y, *gradients(y, xs, g))

    return function(both, *shapes)


def their_gradients(f: Callable[..., Any], *shapes: Shape) -> Callable[[Torch], Run]:
    """PyTorch's counterpart of `with_gradients`."""

    def prepare(peer: Torch) -> Run:
        *inputs, last = normal(*shapes)
        xs, g = [peer.array(a, True) for a in inputs], peer.array(last)

        def call() -> Any:
            y = f(peer.torch, *xs)
            return y, peer.torch.autograd.grad(y, xs, g)

        return call

    return prepare


def size(*shapes: Shape) -> int:
    """[bytes] of float32 arrays of these shapes."""
    return 4 * int(sum(np.prod(s) for s in shapes))


def pair(name: str, ours: Callable[..., Any], torch: Callable[..., Any], inputs: Sequence[Shape], output: Shape, flops: tuple[float, float],
         quick: bool = False) -> list[Work]:
    """Two works: f, and f with the gradients of all its inputs. `flops` of both; bytes: with gradients g is read and a gradient an input written."""
    x, g = size(*inputs), size(output)
    return [
        Work("ops", f"{name} forward", function(ours, *inputs), theirs(torch, *inputs), quick, flops=flops[0], nbytes=x + g),
        Work("ops", f"{name} forward and gradients", with_gradients(ours, *inputs, output), their_gradients(torch, *inputs, output), flops=flops[1],
             nbytes=2 * x + 2 * g),
    ]
