"""Gradient checkpointing: a region of the graph whose inner values are computed again where the gradient needs them.

Memory is what it saves: between forward and backward only the region's inputs and its output wait. The second
computation is the first one repeated, op by op, over the same inputs, weights and random counters: same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import arguments
from ..core.op import Case, view
from ..core.recording import recorded
from ..core.state import reading
from ..core.tensor import Operators, Tensor, as_tensor, walk
from ..errors import ConfigError, ShapeError

_after = view(
    "after", lambda x, first: x, lambda x, first: x, lambda g, y, x, first: (g, None), lambda ix, ins, outs: (ix, []),
    lambda: [Case(((2, 3), (4,))), Case(((5,), (2, 2)))],
    "y = x, which nobody computes with before the second operand is there", args=("x", "first"), shows="part")


class Region:
    """What lies between `boundary` and `output`. All regions are equal: two graphs that differ in nothing
    else are the same work.
    """

    def __init__(self, boundary: list[Tensor], output: Tensor) -> None:
        self.boundary, self.output = boundary, output

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region)

    def __hash__(self) -> int:
        return hash(Region)

    def again(self, g: Tensor) -> tuple[Tensor, list[Tensor]]:
        """(the output, the boundary) of a copy that waits for g, the cotangent of the output."""
        twins = {id(b): _after(b, g) for b in self.boundary}
        edges = set(twins)
        for t in walk([self.output], stop=lambda t: id(t) in edges):
            if id(t) not in edges:
                copied = tuple(twins[id(i)] for i in t.inputs)
                twins[id(t)] = Tensor(t.op, copied, _moved(t.attrs, twins), t.spec) if copied else t
        return twins[id(self.output)], [twins[id(b)] for b in self.boundary]


def _moved(attrs: dict[str, Any], twins: dict[int, Tensor]) -> dict[str, Any]:
    """A region inside lies between the copies of its boundary and of its output."""
    inner = attrs.get("region")
    if inner is None:
        return attrs
    return {**attrs, "region": Region([twins.get(id(b), b) for b in inner.boundary], twins[id(inner.output)])}


_checkpoint = view(
    "checkpoint", lambda x, *, region: x, lambda x, *, region: x, lambda g, y, x, *, region: g,
    lambda ix, ins, outs, *, region: (ix, []), lambda: [Case(((2, 3),), dict(region=None))],
    "y = x, the output of a region that is computed again for its gradient")


def checkpoint(function: Callable[..., Any], *inputs: Any) -> Tensor:
    """y = function(*inputs), whose inner values are not kept for the gradient but computed again from the inputs.

    function   from tensors to one tensor, written in ops; variables and tensors that it uses count as inputs
    Costs one more forward of the region; saves the memory of what lies inside. Same bits as without.
    Raises ShapeError for a function with several outputs.
    Paper: Chen et al. 2016, arXiv:1604.06174.
    """
    if not callable(function):
        raise ConfigError(f"checkpoint: expected a function of tensors first; got {arguments.shown(function)}.")
    tensors = [as_tensor(x) if isinstance(x, Operators) else x for x in inputs]
    with reading() as variables, recorded() as inside:
        y = function(*tensors)
    if not isinstance(y, Operators):
        raise ShapeError(
            "checkpoint: expected a function with one output; "
            f"got {type(y).__name__}; stack the outputs, or checkpoint each part.")
    output = as_tensor(y)
    boundary = {id(t): t for t in [t for t in tensors if isinstance(t, Tensor)] + [v.tensor for v in variables]}
    if id(output) in boundary:
        return output
    made = {id(t) for t in inside}
    for t in walk([output], stop=lambda t: id(t) in boundary or id(t) not in made):
        if id(t) not in made and (t.inputs or t.op is None):
            boundary.setdefault(id(t), t)
    return _checkpoint(output, region=Region(list(boundary.values()), output))
