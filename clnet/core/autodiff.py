"""The walk backwards. VJPs are written in ops, so a gradient is recorded, fused and differentiable like anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ClnetError, ShapeError, UseError
from .autocast import cast, kept_wide
from .op import OPS, Kernel
from .operators import Operators
from .precision import following
from .recording import local
from .spec import is_float
from .tensor import Tensor, as_tensor, constant, joined, walk


def gradients(y: Any, wrt: Sequence[Any], g: Any = None, *, allow_unused: bool = False) -> list[Any]:
    """dy/dw for each w: reverse-mode differentiation of the recorded graph from y.

    y     tensor; a scalar unless `g`, the cotangent of y (same shape), is given
    wrt   tensors (any nodes, not only leaves); a variable whose update
          ran since y was recorded is what it was
    Returns one tensor per w, zeros where y does not depend on it (None with allow_unused).
    Raises ShapeError when y is not a scalar and no g is given, UseError for arrays and functions: y cannot depend on
    them.
    """
    y, targets = _value(y), _targets(wrt)
    if g is None and y.size != 1:
        raise ShapeError(f"gradients: expected a scalar y; got shape {y.shape}; sum it, or pass its cotangent g.")
    if g is not None and as_tensor(g).shape != y.shape:
        raise ShapeError(f"gradients: expected g of shape {y.shape}; got {as_tensor(g).shape}.")
    before = [t.was and t.was() for t in targets]
    stops = {id(t) for t in (*targets, *before) if t is not None}
    order = walk([y], stop=lambda t: id(t) in stops)
    needed = _depends(order, stops)
    cotangents: dict[int, list[Tensor]] = {id(y): [as_tensor(g) if g is not None else constant(1, y.dtype, y.shape)]}
    result: dict[int, Tensor] = {}
    with following():
        for t in reversed(order):
            if id(t) not in needed or id(t) not in cotangents:
                continue
            total = _accumulate(cotangents.pop(id(t)))
            if id(t) in stops:
                result[id(t)] = cast(total, t.dtype)
            elif t.op is not None:
                if local.trail is not None:
                    local.trail.append((len(local.log or ()), t))
                _push(t, total, needed, cotangents)
    if local.trail is not None:
        local.trail.append((len(local.log or ()), y))
    found = [_accumulate(pieces) if (pieces := [result[id(n)] for n in (t, was) if n is not None and id(n) in result])
             else None for t, was in zip(targets, before, strict=True)]
    return [constant(0, t.dtype, t.shape) if p is None and not allow_unused else p
            for t, p in zip(targets, found, strict=True)]


def _value(y: Any) -> Tensor:
    if callable(y) and not isinstance(y, Operators):
        raise UseError("gradients: expected the value to derive; got a function; call it: gradients(f(w), [w]).")
    return as_tensor(y)


def _targets(wrt: Any) -> list[Tensor]:
    """The tensors that are derived by; one alone is itself, not its rows."""
    wanted = [wrt] if isinstance(wrt, Operators) else list(wrt)
    if other := [w for w in wanted if not isinstance(w, Operators)]:
        raise UseError(
            f"gradients: expected tensors and variables to derive by; got {type(other[0]).__name__}, of which y was "
            "made a tensor that nobody has; make it one first: x = clnet.tensor(array), y = f(x), gradients(y, [x]).")
    return [as_tensor(w) for w in wanted]


def _depends(order: list[Tensor], stops: set[int]) -> set[int]:
    """Nodes on a path from a target to y: the only ones whose VJP is worth recording."""
    needed = set()
    for t in order:
        if id(t) in stops or any(id(i) in needed for i in t.inputs):
            needed.add(id(t))
    return needed


def _push(t: Tensor, g: Tensor, needed: set[int], cotangents: dict[int, list[Tensor]]) -> None:
    assert t.op is not None
    if t.attrs.get("region") is not None:
        _repeat(t.attrs["region"], g, needed, cotangents)
        return
    if t.op.vjp is None:
        if isinstance(t.op, Kernel):
            raise ClnetError(
                f"gradients: expected a gradient of {t.op.name}; it has none; use detach() where none should flow.")
        return
    pieces = t.op.vjp(g, t, *t.inputs, **t.attrs)
    for i, piece in zip(t.inputs, pieces if isinstance(pieces, tuple) else (pieces,), strict=True):
        if piece is not None and id(i) in needed and is_float(i.dtype):
            cotangents.setdefault(id(i), []).append(kept_wide(unbroadcast(as_tensor(piece), i.shape), i))


def _repeat(region: Any, g: Tensor, needed: set[int], cotangents: dict[int, list[Tensor]]) -> None:
    """Through a checkpointed region: its values are computed again behind g, and differentiated there."""
    y, twins = region.again(g)
    wanted = [(b, twin) for b, twin in zip(region.boundary, twins, strict=True)
              if id(b) in needed and is_float(b.dtype)]
    for (b, _), piece in zip(wanted, gradients(y, [twin for _, twin in wanted], g, allow_unused=True), strict=True):
        if piece is not None:
            cotangents.setdefault(id(b), []).append(piece)


def _accumulate(pieces: list[Tensor]) -> Tensor:
    """Their sum. Pieces that are zero-padded neighbours (from slices) become one concatenation
    instead of n masked adds.
    """
    if len(pieces) > 2 and (whole := _disjoint(pieces)) is not None:
        return whole
    order = pieces[0].attrs["order"] if len(pieces) > 1 and pieces[0].op is OPS["permute"] else None
    if order is not None and all(p.op is OPS["permute"] and p.attrs["order"] == order for p in pieces):
        # Added before they are transposed, so that each sum melts into the product that computes its piece.
        return _accumulate([p.inputs[0] for p in pieces]).permute(order)
    total = pieces[0]
    for p in pieces[1:]:
        total = total + p
    return total


def _disjoint(pieces: list[Tensor]) -> Tensor | None:
    """concat(pieces) if each is a zero pad along one axis and together they cover it exactly once."""
    spans = []
    for p in pieces:
        if p.op is not OPS["pad"] or p.attrs["value"] != 0 or any(p.attrs["inner"]):
            return None
        axes = [a for a in range(p.ndim) if p.attrs["low"][a] or p.attrs["high"][a]]
        if len(axes) != 1:
            return None
        spans.append((axes[0], p.attrs["low"][axes[0]], p.inputs[0]))
    axis = spans[0][0]
    if any(s[0] != axis for s in spans):
        return None
    spans.sort(key=lambda s: s[1])
    end = 0
    for _, low, x in spans:
        if low != end:
            return None
        end += x.shape[axis]
    if end != pieces[0].shape[axis]:
        return None
    return joined([x for _, _, x in spans], axis)


def unbroadcast(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sums a cotangent down to the shape of the input it belongs to. The one place this happens."""
    lead = g.ndim - len(shape)
    if not lead and g.shape == shape:
        return g
    axes = tuple(i for i, n in enumerate(g.shape) if i < lead or (shape[i - lead] == 1 and n != 1))
    if axes:
        g = OPS["sum"](g, axes=axes)
    if g.shape != shape:
        g = g.expand(shape) if g.ndim == len(shape) else g.reshape(shape)
    return g
