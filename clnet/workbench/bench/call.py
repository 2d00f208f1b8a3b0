"""Functions as works of the bench: ours recorded once and replayed,
PyTorch's as its users call them; forward, or with gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.autodiff import gradients
from ...core.tensor import tensor
from ...engine import on
from ...engine.record import Recorded
from .compare import Step, Work
from .peers import Run, Torch

if TYPE_CHECKING:
    from ...engine.protocol import Engine

Shape = tuple[int, ...]
Input = Shape | np.ndarray[Any, Any]  # a shape, or the array itself


def normal(*inputs: Input) -> list[np.ndarray[Any, Any]]:
    """float32 arrays of normal values of these shapes; arrays as they are."""
    rng = np.random.default_rng(0)
    return [a if isinstance(a, np.ndarray) else rng.standard_normal(a, np.float32) for a in inputs]


def function(f: Callable[..., Any], *shapes: Input) -> Callable[[Engine], Run]:
    """Ours: f recorded once, its inputs on the device; a call starts one replay."""

    def prepare(engine: Engine) -> Run:
        with on(engine):
            xs = [tensor(a) for a in normal(*shapes)]
            engine.run(xs)
            return Step(Recorded(f, "bench"), lambda: tuple(xs))

    return prepare


def theirs(f: Callable[..., Any], *shapes: Input) -> Callable[[Torch], Run]:
    """PyTorch's: f(torch, *inputs) without recording gradients."""

    def prepare(peer: Torch) -> Run:
        xs = [peer.array(a) for a in normal(*shapes)]

        def call() -> Any:
            with peer.torch.no_grad():
                return f(peer.torch, *xs)

        return call

    return prepare


def with_gradients(f: Callable[..., Any], *shapes: Input) -> Callable[[Engine], Run]:
    """Ours: y = f(*inputs) and the gradients of its float inputs. The last shape is y's, and that of its gradient."""

    def both(*arrays: Any) -> Any:
        *xs, g = arrays
        y = f(*xs)
        return (y, *gradients(y, [x for x in xs if x.dtype == "float32"], g))

    return function(both, *shapes)


def their_gradients(f: Callable[..., Any], *shapes: Input) -> Callable[[Torch], Run]:
    """PyTorch's counterpart of `with_gradients`."""

    def prepare(peer: Torch) -> Run:
        *inputs, last = normal(*shapes)
        xs, g = [peer.array(a, a.dtype == np.float32) for a in inputs], peer.array(last)
        leaves = [x for x in xs if x.requires_grad]

        def call() -> Any:
            y = f(peer.torch, *xs)
            return y, peer.torch.autograd.grad(y, leaves, g)

        return call

    return prepare


def size(*inputs: Input) -> int:
    """[bytes] of float32 arrays of these shapes, of arrays their own."""
    return int(sum(a.nbytes if isinstance(a, np.ndarray) else 4 * np.prod(a) for a in inputs))


def pair(name: str, ours: Callable[..., Any], torch: Callable[..., Any], inputs: Sequence[Input], output: Shape,
         flops: tuple[float, float], quick: bool = False, suite: str = "ops", **more: Any) -> list[Work]:
    """Two works: f, and f with the gradients of its inputs. `flops` of both;
    bytes: with gradients g is read and a gradient an input written.
    """
    x, g, back = size(*inputs), size(output), size(*(a for a in inputs if not isinstance(a, np.ndarray)))
    return [
        Work(suite, f"{name} forward", function(ours, *inputs), theirs(torch, *inputs), quick, flops=flops[0],
             nbytes=x + g, **more),
        Work(suite, f"{name} forward and gradients", with_gradients(ours, *inputs, output),
             their_gradients(torch, *inputs, output), flops=flops[1], nbytes=x + back + 2 * g, **more),
    ]
