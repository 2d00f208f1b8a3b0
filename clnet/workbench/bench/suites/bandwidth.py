"""The bench's works that memory bounds: streams, rows, channels, an optimizer's update; small for CPUs, in the suite
bandwidth as GPUs need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import ops as F
from ....core.state import Parameter
from ....core.tensor import Tensor, tensor
from ....engine import on
from ....engine.record import Recorded
from ....optimizers import Adam
from ..call import function, normal, pair, size, theirs
from ..compare import Step, Work
from ..peers import Run, TheirTensor, Torch
from . import Suite

if TYPE_CHECKING:
    from types import ModuleType

    from ....engine.protocol import Engine


@dataclass(frozen=True)
class Sizes:
    """Of a suite's works. rows: (rows, columns); images: (batch, channels, height, width);
    the others count elements.
    """

    suite: str
    rows: tuple[int, int]
    images: tuple[int, int, int, int]
    gelu: int
    stream: int
    adam: int

    @property
    def of(self) -> dict[str, Any]:
        """What all its works have in common. NumPy would take seconds for the large ones."""
        return {"suite": self.suite, "numpy": self.suite == "ops"}


SMALL = Sizes("ops", (4096, 1024), (16, 64, 56, 56), 4_000_000, 1 << 25, 10_000_000)
LARGE = Sizes("bandwidth", (65536, 1024), (256, 64, 112, 112), 1 << 26, 1 << 27, 100_000_000)


def works(sizes: Sizes = LARGE) -> list[Work]:
    """All of them."""
    return [*_streams(sizes), *_rows(sizes), *_sums(sizes), *_channels(sizes), adam(sizes, sizes.suite)]


SUITE = Suite(works)


def short(count: int) -> str:
    """4000000 -> "4M"; powers of two by 2²⁰."""
    unit = 1 << 20 if count % (1 << 20) == 0 else 1_000_000
    return f"{count // unit}M"


def _streams(sizes: Sizes) -> list[Work]:
    shape, many = (sizes.stream,), (sizes.gelu,)
    array, label = size(shape), short(sizes.stream)
    return [
        Work(name=f"scale {label}", ours=function(lambda x: x * 0.5, shape), torch=theirs(lambda t, x: x * 0.5, shape),
             flops=sizes.stream, nbytes=2 * array, **sizes.of),
        Work(name=f"triad {label}", ours=function(lambda x, z: x + 0.5 * z, shape, shape),
             torch=theirs(lambda t, x, z: t.add(x, z, alpha=0.5), shape, shape),
             flops=2 * sizes.stream, nbytes=3 * array, **sizes.of),
        *pair(f"gelu {short(sizes.gelu)}", lambda x: F.gelu(x), lambda t, x: t.nn.functional.gelu(x),
              [many], many, (5.0 * sizes.gelu, 14.0 * sizes.gelu), **sizes.of),
    ]


def _rows(sizes: Sizes) -> list[Work]:
    # Flops an element, as the formulas are written: softmax subtracts, divides, ... and its gradient g y - y sum(g y).
    shape, n = sizes.rows, sizes.rows[1:]
    elements, label = shape[0] * shape[1], f"{shape[0]}×{shape[1]}"
    labels = (np.arange(shape[0]) * 7919 % shape[1]).astype(np.int64)
    return [
        *pair(f"softmax {label}", lambda x: F.softmax(x), lambda t, x: t.softmax(x, -1),
              [shape], shape, (5.0 * elements, 9.0 * elements), True, **sizes.of),
        *pair(f"layer norm {label}", lambda x, g, b: F.layer_norm(x, g, b),
              lambda t, x, g, b: t.nn.functional.layer_norm(x, n, g, b),
              [shape, n, n], shape, (8.0 * elements, 20.0 * elements), True, **sizes.of),
        *pair(f"cross entropy {label}", lambda x, c: F.cross_entropy(x, c),
              lambda t, x, c: t.nn.functional.cross_entropy(x, c, reduction="none"),
              [shape, labels], shape[:1], (4.0 * elements, 7.0 * elements), **sizes.of),
    ]


def _sums(sizes: Sizes) -> list[Work]:
    shape, found = sizes.rows, []
    for axis in (0, 1):
        def ours(x: Tensor, axis: int = axis) -> Any:
            return F.sum(x, axis)

        def torch(t: ModuleType, x: TheirTensor, axis: int = axis) -> Any:
            return t.sum(x, axis)

        found.append(Work(name=f"sum of {shape[0]}×{shape[1]} over axis {axis}", ours=function(ours, shape),
                          torch=theirs(torch, shape), flops=shape[0] * shape[1],
                          nbytes=size(shape, shape[1 - axis:2 - axis]), **sizes.of))
    return found


def _channels(sizes: Sizes) -> list[Work]:
    shape, (batch, channels, height, width) = sizes.images, sizes.images
    half = batch, channels, height // 2, width // 2
    elements, label = batch * channels * height * width, "×".join(map(str, shape))
    return [
        *pair(f"batch norm {label}", lambda x, g, b: F.batch_norm_train(x, g, b)[0],
              lambda t, x, g, b: t.nn.functional.batch_norm(x, None, None, g, b, training=True),
              [shape, (channels,), (channels,)], shape, (8.0 * elements, 20.0 * elements), **sizes.of),
        *pair(f"max pool 2×2 {label}", lambda x: F.max_pool(x, 2), lambda t, x: t.nn.functional.max_pool2d(x, 2),
              [shape], half, (1.0 * elements, 2.0 * elements), **sizes.of),
    ]


def adam(sizes: Sizes, suite: str, state_dtype: str | None = None) -> Work:
    """A step of Adam; with its state in 16 bits beside ourselves with float32."""
    shape = (sizes.adam,)

    def ours(engine: Engine, state_dtype: str | None = state_dtype) -> Run:
        with on(engine):
            values, grads = normal(shape, shape)
            optimizer = Adam(state_dtype=state_dtype)
            optimizer.attach([Parameter(values, "w")])
            g = tensor(grads)
            engine.run([g])

            def body(g: Tensor, h: Tensor) -> tuple[()]:
                optimizer.apply([g], h)
                return ()

        count = iter(range(1, 1 << 30))
        return Step(Recorded(body, "bench"), lambda: (g, optimizer.hyper(next(count))))

    def torch(**mode: Any) -> Callable[[Torch], Run]:
        def prepare(peer: Torch) -> Run:
            values, grads = normal(shape, shape)
            w = peer.array(values, True)
            w.grad = peer.array(grads)
            return peer.torch.optim.Adam([w], **mode).step  # type: ignore[no-any-return]

        return prepare

    modes = {"foreach": torch(foreach=True), "fused": torch(fused=True)}
    # Reads w, g, m, v and writes w, m, v.
    return Work(suite, f"Adam {short(sizes.adam)}{f', state in {state_dtype}' if state_dtype else ''}", ours=ours,
                torch=torch(), modes=modes, flops=14.0 * sizes.adam, numpy=sizes.suite == "ops" and not state_dtype,
                nbytes=(5 if state_dtype else 7) * size(shape),
                ourselves={"float32": lambda engine: ours(engine, None)} if state_dtype else {})
