"""Where the makers of golden values write: the package's files, one a subject."""

from __future__ import annotations

from typing import Any

import numpy as np

from clnet.workbench.evidence import golden


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether two files' arrays are alike to the bit: names, dtypes, shapes, elements."""
    return a.keys() == b.keys() and all((x := np.asarray(a[n])).dtype == (y := np.asarray(b[n])).dtype
                                        and x.shape == y.shape
                                        and x.tobytes() == y.tobytes() for n in a)


def write(kind: str, name: str, arrays: dict[str, Any]) -> bool:
    """Keeps the arrays under a name; False if they are kept already (a zip file carries its time: writing it again
    would be a change).
    """
    if same(arrays, golden.read(kind, name)):
        return False
    file = golden.path(kind, name)
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, **arrays)
    return True


def said(kind: str, changed: list[str]) -> str:
    """What a maker prints in the end."""
    sizes = [golden.path(kind, name).stat().st_size for name in golden.names(kind)]
    return f"files: {len(sizes)}, {sum(sizes) // 1024} kB; changed: {', '.join(changed) or 'none'}"
