"""Values as text, read no further than they are shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..called import CALLED
from ..habits import TENSOR
from ..names import PACKAGES, public
from .recording import recording
from .spec import Spec, np_dtype

if TYPE_CHECKING:
    from .tensor import Tensor

Read = Callable[[int, int], np.ndarray[Any, Any]]  # (first element, how many) of a contiguous array -> a vector

WHOLE = 64 << 10  # [bytes] of a block that is read in one piece rather than by its edges

_CHANGE = ("a tensor is a value and never changes; make a new one (clnet.ops.where, x.at[i].set(v), + and the like), "
           "or keep what changes in a clnet.Variable")


def meant(name: str) -> str | None:
    """How the sentence about an attribute that tensors lack ends, where it is known what was meant."""
    if name in TENSOR:
        return TENSOR[name]
    if name in public(PACKAGES["ops"]):
        return f"write clnet.ops.{name}(x)."
    if CALLED.get(name, "").startswith("ops."):
        return f"write clnet.{CALLED[name]}."
    return f"{_CHANGE}." if name.endswith("_") else None


def unchanging(kind: str) -> str:
    """Why x[0] = 1 is refused."""
    return f"{kind}: expected no assignment to elements; got one; {_CHANGE}."


# --- text
def reader(t: Tensor) -> Read | None:
    """How elements of a tensor that has been computed are read; None for one that has not."""
    if t.value is not None:
        flat = np.asarray(t.value).reshape(-1)
        return lambda start, count: flat[start : start + count]
    read: Read | None = t.storage.read if t.storage is not None else None
    return read


def shown(t: Tensor, head: str, spec: Spec, facts: Sequence[str], start: int = 0) -> str:
    """Text for the elements of t from `start` on, as far as they have been computed.
    Nothing runs, nothing is read while a step is recorded.
    """
    if t.storage is not None:
        facts = [*facts, f"device={t.storage.engine.device.key}"]
    if recording() and t.storage is not None:
        return f"<Tensor {spec}{''.join(f', {f}' for f in facts)}: not read while a step is recorded>"
    return text(head, t, spec, facts, start)


def text(head: str, source: Tensor, spec: Spec, facts: Sequence[str], start: int = 0) -> str:
    """head + values as NumPy prints them, then shape, dtype and facts.
    `source` is the tensor whose elements from `start` on are meant.

    Nothing runs. What has not been computed says what it is recorded as; values that cannot be read, why.
    """
    read = reader(source)
    if read is None:
        return _pending(source, spec, facts)
    try:
        values = _printed(read, spec, start, head)
    except Exception as error:  # the device is gone, say: whoever looks at a value must not get a traceback for it
        return f"<{head.rstrip('(')} {spec}: its values cannot be read: {' '.join(str(error).split())}>"
    if not spec.size:
        values = "[]"
    return f"{head}{values}, {', '.join((f'shape={spec.shape}', f'dtype={spec.dtype}', *facts))})"


def _printed(read: Read, spec: Spec, start: int, head: str) -> str:
    options = np.get_printoptions()
    keep = options["edgeitems"]
    if spec.size <= options["threshold"]:
        return np.array2string(read(start, spec.size).reshape(spec.shape), separator=", ", prefix=head)
    return np.array2string(edges(read, spec.shape, start, keep, np_dtype(spec.dtype).itemsize), separator=", ",
                           prefix=head, threshold=0, edgeitems=keep)


def edges(read: Read, shape: Sequence[int], start: int, keep: int, itemsize: int) -> np.ndarray[Any, Any]:
    """The array with at most 2 keep + 1 indices an axis, of which NumPy prints the outer `keep` on either side."""
    size = math.prod(shape)
    if not shape:
        return read(start, 1).reshape(())
    if size * itemsize <= WHOLE:
        return read(start, size).reshape(shape)[np.ix_(*(_outer(n, keep) for n in shape))]
    if len(shape) == 1:
        return np.concatenate([read(start, keep + 1), read(start + size - keep, keep)])
    step = size // shape[0]
    return np.stack([edges(read, shape[1:], start + k * step, keep, itemsize) for k in _outer(shape[0], keep)])


def _outer(n: int, keep: int) -> list[int]:
    return list(range(n)) if n <= 2 * keep + 1 else [*range(keep + 1), *range(n - keep, n)]


def _pending(t: Tensor, spec: Spec, facts: Sequence[str]) -> str:
    more = "".join(f", {f}" for f in facts)
    if t.op is None:
        return f"<Tensor {spec}{more}: a placeholder, which has no value of its own>"
    call = f"{t.op.name}({', '.join(map(_named, t.inputs))})"
    return f"<Tensor {spec}{more}: recorded as {call}, not computed yet; .numpy() computes it>"


def _named(t: Tensor) -> str:
    if t.name:
        return str(t.name)
    if t.op is not None and t.op.name == "full":
        return f"{t.attrs['value']}"
    return f"{t.op.name} {t.spec}" if t.op is not None else str(t.spec)
