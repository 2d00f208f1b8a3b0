"""What becomes of images, as a picture: the first row as they are, and rows of what a transform makes of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import arguments
from ..core.arrays import Array, as_array
from ..core.state import Generator
from ..errors import ShapeError
from ..picture import FINE, Picture

COLUMNS = 8
CELL = 76 * FINE  # [pixels] of an image with the gap beside it
GAP = 4 * FINE


def drawn(transform: Callable[[Array, Generator], Any], images: Any, rows: int, seed: int) -> Picture:
    """Some images and `rows` rows of draws, each of new random numbers. Raises ShapeError, ConfigError."""
    who = f"{type(transform).__name__}.preview"
    rows = arguments.integer(who, "rows", rows, 1)
    x = _first(images, who)
    random = Generator(arguments.integer(who, "seed", seed, 0))
    found = [x, *(np.asarray(transform(x, random).numpy(), np.float32) for _ in range(rows))]
    return Picture(_png(_mosaic(found, *_range(x))), repr(transform),
                   f"The first row as they are; below, {rows} draws of each.")


def _first(images: Any, who: str) -> Array:
    """As many as a row has: the first of an array or stream, of a data set some from its first to its last."""
    if getattr(images, "counted", False):
        some = np.unique(np.linspace(0, len(images) - 1, COLUMNS).astype(int))
        x = images.rows(some)[0][0]
    else:
        rows = getattr(images, "rows", None)
        x = rows(slice(0, COLUMNS))[0][0] if rows is not None else as_array(images, who)[:COLUMNS]
    if x.ndim != 4 or x.shape[1] not in (1, 3) or not x.size:
        raise ShapeError(f"{who}: expected images (N, 1 or 3, height, width); got shape {x.shape}"
                         f"{'; grey ones need an axis: x[:, None]' if x.ndim == 3 else ''}.")
    return np.asarray(x)


def _range(x: Array) -> tuple[float, float]:
    """What is black and what is white."""
    if x.dtype.kind != "f":
        return 0.0, 255.0
    least, most = float(x.min()), float(x.max())
    return (0.0, 1.0) if least >= 0 and most <= 1 else (least, most)


def _mosaic(rows: list[Array], black: float, white: float) -> Array:
    """(height, width, channels) of bytes, white between the images."""
    height, width = rows[0].shape[2:]
    size = CELL - GAP
    down, across = (_nearest(n, max(1, round(size * n / max(height, width)))) for n in (height, width))
    lines = []
    for row in rows:
        x = np.clip((row.astype(np.float32) - black) / max(white - black, 1e-12) * 255, 0, 255).astype(np.uint8)
        x = x[:, :, down][:, :, :, across].transpose(0, 2, 3, 1)
        x = np.pad(x, ((0, 0), (GAP // 2, GAP // 2), (GAP // 2, GAP // 2), (0, 0)), constant_values=255)
        lines.append(np.concatenate(list(x), 1))
    return np.concatenate(lines, 0)


def _nearest(n: int, size: int) -> Array:
    """Which of n pixels are seen in each of `size`."""
    return np.arange(size) * n // size


def _png(pixels: Array) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(out, format="png", optimize=True)
    return out.getvalue()
