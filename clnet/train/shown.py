"""What a data set shows of itself in a notebook: shapes, how many of each class, the first samples, as pictures where
they are some.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from ..show import Table, escaped, plural

if TYPE_CHECKING:
    from .samples import Dataset

Array = np.ndarray[Any, Any]
PICTURES, ROWS, COLUMNS, CLASSES = 10, 5, 12, 20  # shown of each
SMALLEST, LARGEST = 4, 512  # [pixels] a side of what is taken for a picture
WIDE = 72  # [CSS pixels] of a picture on the page


def page(data: Dataset) -> str:
    """The data set in HTML, self-contained."""
    first = data.rows(slice(0, max(PICTURES, ROWS)))
    x = [a for a in first[0] if _is_picture(a)]
    head = f'<div style="margin:0.3em 0"><b>{escaped(data.title)}</b>: {plural(len(data), "sample")}</div>'
    return "".join([head, _shapes(data).html(), _counts(data),
                    _pictures(data, x[0], first[1]) if x else _first(data, first)])


def _shapes(data: Dataset) -> Table:
    several = isinstance(data.x, tuple)
    arrays = [(f"x[{k}]" if several else "x", a) for k, a in enumerate(data.x if several else (data.x,))]
    rows = [(n, str(a.dtype), " x ".join(map(str, a.shape[1:])) or "a number") for n, a in arrays]
    target = getattr(getattr(data.preparation, "target", None), "names", ())
    rows += [("y" + (f": {', '.join(target)}" if target else ""), str(data.y.dtype),
              " x ".join(map(str, data.y.shape[1:])) or "a number")] if data.labelled else []
    return Table(("", "dtype", "a sample"), rows, align="lll")


def _counts(data: Dataset) -> str:
    """How many of each class."""
    if not data.labelled or data.y.ndim != 1 or data.y.dtype.kind not in "iu" or data.y.min() < 0:
        return ""
    counts = np.bincount(data.y, minlength=len(data.classes))
    if len(counts) > CLASSES:
        return f'<div style="margin:0.3em 0">{len(counts)} classes, {counts.min()} to {counts.max()} samples each</div>'
    names = data.classes if len(data.classes) == len(counts) else tuple(map(str, range(len(counts))))
    return Table(("class", "samples"), list(zip(names, counts.tolist(), strict=True)), align="lr").html()


def _is_picture(a: Array) -> bool:
    """(N, 1 or 3, height, width)"""
    return a.ndim == 4 and a.shape[1] in (1, 3) and all(SMALLEST <= n <= LARGEST for n in a.shape[2:])


def _pictures(data: Dataset, x: Array, y: Array) -> str:
    whole = x[:PICTURES].astype(np.float32)
    least, most = (0.0, 1.0) if 0 <= whole.min() and whole.max() <= 1 else (float(whole.min()), float(whole.max()))
    pixels = np.clip((whole - least) / max(most - least, 1e-12) * 255, 0, 255).astype(np.uint8)
    found = [f'<figure style="margin:0;text-align:center"><img alt="{c}" src="{_png(a)}" style="width:{WIDE}px;'
             f'image-rendering:pixelated"><figcaption>{c}</figcaption></figure>'
             for a, c in zip(pixels, _captions(data, y), strict=False)]
    return f'<div style="display:flex;flex-wrap:wrap;gap:0.5em;margin-bottom:0.8em">{"".join(found)}</div>'


def _captions(data: Dataset, y: Array) -> list[str]:
    if not data.labelled:
        return [""] * PICTURES
    named = data.classes and y.ndim == 1 and y.dtype.kind in "iu"
    return [escaped(data.classes[v] if named else str(v)) for v in y[:PICTURES]]


def _png(pixels: Array) -> str:
    """A picture (1 or 3, height, width) of bytes as a URI."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _first(data: Dataset, first: tuple[tuple[Array, ...], Array]) -> str:
    """The first rows of a table as it came, or of x."""
    frame = getattr(data, "frame", None)
    if frame is not None:
        return _table([str(c) for c in frame.columns], frame[:ROWS].astype(object).to_numpy().tolist())
    x = first[0][0]
    if x.ndim != 2:
        return ""
    names = list(data.columns[0]) if data.columns and data.columns[0] else [str(k) for k in range(x.shape[1])]
    return _table(names, x[:ROWS].tolist())


def _table(names: list[str], rows: list[list[Any]]) -> str:
    """The first columns; numbers and text as they are, anything else as text, what is missing as nothing."""
    def cell(v: Any) -> Any:
        if v is None or v != v:
            return None
        return v if isinstance(v, (bool, int, float, str)) else str(v)

    more = ["…"] if len(names) > COLUMNS else []
    return Table([*names[:COLUMNS], *more], [[*map(cell, r[:COLUMNS]), *more] for r in rows]).html()
