"""What was probably wrong with an input that does not fit a layer's signature, and how to write it:
guessed in this one place for all layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Shape = tuple[int, ...]


def fits(axes: Sequence[str], sizes: Mapping[str, int | None], shape: Shape) -> bool:
    """Whether a shape has these axes, in sizes that are known. "..." stands for any axes."""
    named = [a for a in axes if a != "..."]
    if len(shape) < len(named) or (len(shape) > len(named) and "..." not in axes):
        return False
    return all(sizes.get(a) in (None, n) for a, n in paired(axes, shape))


def paired(axes: Sequence[str], shape: Shape) -> list[tuple[str, int]]:
    """Axes with their lengths: those before "..." from the left, those after it from the right."""
    split = axes.index("...") if "..." in axes else len(axes)
    return [*zip(axes[:split], shape, strict=False), *zip(reversed(axes[split + 1 :]), reversed(shape), strict=False)]


def way_out(axes: Sequence[str], sizes: Mapping[str, int | None], shape: Shape) -> str:
    """`images have no axis for channels: write x[:, None]`: the smallest change after which the shape fits;
    "" where none is known.

    axes    of the input in the layer's signature
    sizes   of the axes that are fields of the layer, None where the first call is to bind them
    """
    repairs = [*_fewer(axes, sizes, shape), *_same(axes, sizes, shape)]
    good = [(text, new) for text, new in repairs if fits(axes, sizes, new)]
    # A size that is known and met says more than one that anything would meet.
    good.sort(key=lambda r: -sum(sizes.get(a) == n != 1 for a, n in paired(axes, r[1])))
    if good:
        return good[0][0]
    if len(shape) == 1 and "..." in axes:
        known = next((n for a in axes if (n := sizes.get(a))), None)
        return f"one axis is one sample, of {shape[0]} numbers: give (samples, {known or 'numbers'})"
    return ""


def turned(axes: Sequence[str], sizes: Mapping[str, int | None], shape: Shape) -> str:
    """Of an input that fits but fails: whether its last axis looks like the channels."""
    if len(axes) > 2 and axes[1] in sizes and len(shape) == len(axes) and shape[-1] <= 4 < shape[1]:
        return "channels come before the places: write np.moveaxis(x, -1, 1)"
    return ""


def misread(axes: Sequence[str], sizes: Mapping[str, int | None], shape: Shape) -> str:
    """Of an input that fits: whether the layer would take the height of an image for its channels, which are last.
    Whoever states the channels is not asked.
    """
    if len(axes) != 4 or len(shape) != 4 or "channel" not in axes[1] or sizes.get(axes[1], 0) is not None:
        return ""
    _, channels, height, width = shape
    narrow = width in (3, 4) and channels > 4 and height >= 8 * width
    if not narrow and not (width == 1 and channels == height >= 8):
        return ""
    return (f"shape {shape} is read as {channels} channels of {height} x {width} places; where channels come last, "
            f"write np.moveaxis(x, -1, 1); where it is meant, say {axes[1]}={channels}")


def _fewer(axes: Sequence[str], sizes: Mapping[str, int | None], shape: Shape) -> list[tuple[str, Shape]]:
    """For an axis too few: (what to write, the shape that it makes)."""
    found: list[tuple[str, Shape]] = []
    field = next((k for k, a in enumerate(axes) if a in sizes), None)
    short = len(shape) + 1 == len(axes) if "..." not in axes else len(shape) == 1
    if not short:
        if len(shape) + 2 == len(axes) and field == 1 and sizes[axes[1]] in (None, 1):
            found.append(("one sample has axes for the batch and for the channels too: write x[None, None]",
                          (1, 1, *shape)))
        return found
    if field is not None and sizes[axes[field]] in (None, 1):
        last = field == len(axes) - 1
        what = "channels" if "channel" in axes[field] else "features"
        found.append((f"there is no axis of {what}: write {'x[..., None]' if last and len(axes) > 2 else 'x[:, None]'}",
                      (*shape, 1) if last else (*shape[:field], 1, *shape[field:])))
    if axes[0] == "N" or len(shape) == 1:
        found.append(("one sample has an axis for the batch too: write x[None]", (1, *shape)))
    return found


def _same(axes: Sequence[str], sizes: Mapping[str, int | None], shape: Shape) -> list[tuple[str, Shape]]:
    """For axes enough, in another order or not merged."""
    found: list[tuple[str, Shape]] = []
    if len(axes) > 2 and axes[1] in sizes and len(shape) > 2:
        found.append(("channels come before the places: write np.moveaxis(x, -1, 1)",
                      (shape[0], shape[-1], *shape[1:-1])))
    if len(axes) == 3 and axes[2] in sizes and len(shape) == 3:
        found.append(("features come after the steps: write np.swapaxes(x, 1, 2)", (shape[0], shape[2], shape[1])))
    if axes[0] == "..." and len(axes) == 2 and len(shape) > 2:
        found.append(("put a Flatten() in front", (shape[0], math.prod(shape[1:]))))
    return found
