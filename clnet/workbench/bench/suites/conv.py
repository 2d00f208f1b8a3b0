"""The bench's convolutions: on a GPU those of a ResNet at the batch of training, in every arithmetic that the user may
ask for; on a CPU what `--suite ops` leaves out, depthwise ones and those of stride 2, forward and backward alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import ops as F
from ....core.autodiff import gradients
from ....core.precision import precision
from ....core.tensor import Tensor, tensor
from ....engine import on
from ....engine.record import Recorded
from ..call import Shape, function, normal, size
from ..compare import Step, Work
from ..peers import Run, Torch
from . import Suite
from .matmul import ARITHMETIC

if TYPE_CHECKING:
    from ....engine.protocol import Engine

BATCH = 256
SHAPES = ((64, 56), (128, 28), (256, 14))  # channels in and out, side; 3×3, padding 1
HOW = {"float32": ("fp32", "float32", "float32", False),
       **{name: how for name, how in ARITHMETIC.items() if name != "fp32x3"}}
# On CPUs: images, channels in and out, side, kernel, stride, groups; padded by half the kernel
DEPTHWISE = tuple((16, c, c, side, kernel, 1, c) for c, side in ((64, 56), (128, 28), (256, 14), (512, 7))
                  for kernel in (3, 5, 7))
STRIDED = ((16, 64, 64, 56, 5, 2, 64), (16, 256, 256, 14, 5, 2, 256), (16, 3, 64, 112, 7, 2, 1),
           (16, 64, 128, 56, 3, 2, 1), (16, 128, 256, 28, 3, 2, 1), (16, 256, 512, 14, 3, 2, 1),
           (16, 64, 128, 56, 1, 2, 1), (32, 16, 32, 32, 3, 2, 1))
DEEP = ((8, 512, 512, 3, 3, 1, 1), (4, 512, 512, 2, 3, 1, 1), (1, 512, 512, 7, 3, 1, 1), (32, 256, 256, 3, 3, 1, 1),
        (1, 256, 512, 14, 3, 2, 1), (8, 512, 2048, 7, 1, 1, 1), (8, 2048, 512, 3, 1, 1, 1))


def works(gpu: bool = False) -> list[Work]:
    """All of them: on GPUs forward, and forward with both gradients; on CPUs forward, and both gradients alone."""
    if gpu:
        return [_work(shape, name, both) for name in HOW for shape in SHAPES for both in (False, True)]
    return [_plain(shape, backward) for shape in (*DEPTHWISE, *STRIDED, *DEEP) for backward in (False, True)]


SUITE = Suite(works, kinds=True)


def _plain(shape: tuple[int, ...], backward: bool) -> Work:
    n, i, o, side, kernel, stride, groups = shape
    out = (side - 1) // stride + 1
    x, w, y = (n, i, side, side), (o, i // groups, kernel, kernel), (n, o, out, out)
    how = {"stride": stride, "padding": kernel // 2, "groups": groups}

    def forward(x: Tensor, w: Tensor, g: Tensor) -> Any:
        return F.conv(x, w, **how)

    def both(x: Tensor, w: Tensor, g: Tensor) -> Any:
        return tuple(gradients(F.conv(x, w, **how), [x, w], g))

    def torch(peer: Torch) -> Run:
        a, b, g = (peer.array(v, backward and k < 2) for k, v in enumerate(normal(x, w, y)))
        conv = peer.torch.nn.functional.conv2d
        if not backward:
            return lambda: conv(a, b, **how)
        result = conv(a, b, **how)
        return lambda: peer.torch.autograd.grad(result, (a, b), g, retain_graph=True)

    meeting = sum(0 <= at * stride + tap - kernel // 2 < side for at in range(out) for tap in range(kernel))
    title = (f"conv {i}→{o} {kernel}×{kernel} {side}² b{n}{' depthwise' * (groups > 1)}"
             f"{' stride 2' * (stride == 2)} {'backward' if backward else 'forward'}")
    return Work("conv", title, function(both if backward else forward, x, w, y), torch, side <= 14, numpy=False,
                flops=(4.0 if backward else 2.0) * n * o * w[1] * meeting**2,  # of taps that meet data
                nbytes=size(x, w, y) + backward * size(x, w))


def _work(shape: tuple[int, int], name: str, both: bool) -> Work:
    (channels, side), (arithmetic, dtype, _, _) = shape, HOW[name]
    x, w = (BATCH, channels, side, side), (channels, channels, 3, 3)

    def run(x: Tensor, w: Tensor, g: Tensor) -> Any:
        with precision(arithmetic):
            y = F.conv(x, w, padding=1)
        return (y, *gradients(y, [x, w], g)) if both else y

    def ours(engine: Engine) -> Run:
        with on(engine):
            arrays = [tensor(a, dtype) for a in normal(x, w, x)]
            engine.run(arrays)
            return Step(Recorded(run, "bench"), lambda: tuple(arrays))

    data, weights = BATCH * channels * side**2, channels**2 * 9
    nbytes = (2 if dtype == "bfloat16" else 4) * ((4 * data + 2 * weights) if both else (2 * data + weights))
    title = f"conv {channels}→{channels} 3×3 {side}² b{BATCH} {'forward and gradients' if both else 'forward'} {name}"
    return Work("conv", title, ours, _theirs((x, w, x), HOW[name], both), arithmetic=name, numpy=False,
                flops=2.0 * data * channels * 9 * (3 if both else 1), nbytes=nbytes)


def _theirs(shapes: Sequence[Shape], how: tuple[str, str, str, bool], both: bool) -> Callable[[Torch], Run]:
    """PyTorch's, with the fastest of cuDNN's algorithms; float32 operands are rounded in the timed call where the
    arithmetic is narrower, as ours are.
    """
    _, dtype, arithmetic, tf32 = how

    def prepare(peer: Torch) -> Run:
        torch = peer.torch
        x, w, g = (peer.array(a).to(getattr(torch, dtype)) for a in normal(*shapes))
        x.requires_grad_(both), w.requires_grad_(both)
        kind, back, flags = getattr(torch, arithmetic), getattr(torch, dtype), torch.backends.cudnn.flags

        def call() -> Any:
            with flags(enabled=True, benchmark=True, allow_tf32=tf32):
                y = torch.nn.functional.conv2d(x.to(kind), w.to(kind), padding=1).to(back)
                return (y, *torch.autograd.grad(y, (x, w), g)) if both else y

        return call

    return prepare
