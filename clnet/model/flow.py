"""What flows through a model: its layers as boxes with what they read, found by a call that computes nothing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.spec import Spec
from ..core.state import Parameter, Variable
from ..core.tensor import Tensor, walk
from ..engine.replay import Trace
from ..layers.base import Layer
from .files import layers

OPENED = ("network", "sequential", "graph", "blocks", "residual", "transformer", "densenet")  # families
SIGNS = {"add": "+", "sub": "−", "mul": "×", "div": "÷", "concat": "concatenate"}


@dataclass(eq=False)
class Box:
    """A call of a layer, an op that joins several of these, an input or the output: `inputs` are the boxes it reads.

    kind        "layer", "op", "input" or "output"
    name        the layer's path, or what the op or input is called
    type        the layer's class, "" for others
    family      of the layer, for colours
    parameters  of the layer, 0 where it was called before; `shared`: whether it was
    shapes      of what it gives; `gives`: these in words
    """

    kind: str
    name: str
    type: str = ""
    family: str = ""
    parameters: int = 0
    shared: bool = False
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    inputs: list[Box] = field(default_factory=list)
    gives: str = ""


def depth_of(model: Layer) -> int:
    """How many levels of layers with layers inside there are below the model."""
    return max((1 + depth_of(x) for x in model.children().values() if opens(x)), default=0)


def opens(layer: Layer) -> bool:
    """Whether a layer can be shown by those inside: it calls them one by one, as models, blocks and what users write do
    (a recurrent layer does not), and has no variables of its own.
    """
    calls = layer.family in OPENED or not type(layer).__module__.startswith(__name__.partition(".")[0] + ".")
    return bool(calls and layer.children()) and not any(isinstance(v, Variable) for v in vars(layer).values())


class Flow:
    """The boxes of a model, layers opened down to `depth` levels below it, in the order of their calls."""

    def __init__(self, model: Layer, specs: Sequence[Spec], names: Sequence[str], depth: int) -> None:
        self.boxes: list[Box] = []
        self._of: dict[int, Box | None] = {}  # by the id of a tensor, what it comes from
        self._kept: list[Tensor] = []  # whose ids are in use
        self._seen: set[int] = set()
        self._inside = False
        self._closed = self._boxed(model, depth)

        def call(*inputs: Tensor) -> Any:
            for name, t in zip(names, inputs, strict=True):
                self._add(Box("input", name, shapes=[t.shape]), [t])
            return model(*inputs)

        with self._watched():
            outputs = Trace(call, specs).outputs
        self._add(Box("output", "output", shapes=[t.shape for t in outputs], inputs=self._sources(outputs)), [])

    @staticmethod
    def _boxed(model: Layer, depth: int) -> dict[str, Layer]:
        """What is a box, by path: layers that have no others inside, or lie as deep."""
        found, todo = dict[str, Layer](), [("", model, depth)]
        while todo:
            path, layer, left = todo.pop()
            for name, child in layer.children().items():
                inner = f"{path}.{name}" if path else name
                if left and opens(child):
                    todo.append((inner, child, left - 1))
                else:
                    found[inner] = child
        return found if model.children() and opens(model) else {type(model).__name__: model}

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        every = {id(x): (name, x) for name, x in reversed(self._closed.items())}
        for name, x in every.values():
            vars(x)["forward"] = functools.partial(self._called, name, x, x.forward)
        try:
            yield
        finally:
            for _, x in every.values():
                del vars(x)["forward"]

    def _called(self, name: str, layer: Layer, forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
        if self._inside:
            return forward(*inputs, **named)
        sources = self._sources([t for t in (*inputs, *named.values()) if isinstance(t, Tensor)])
        self._inside = True
        try:
            found = forward(*inputs, **named)
        finally:
            self._inside = False
        outputs = [t for t in (found if isinstance(found, (tuple, list)) else (found,)) if isinstance(t, Tensor)]
        count = sum(v.size for v in layer.variables().values() if isinstance(v, Parameter))
        shared = id(layer) in self._seen
        self._seen.add(id(layer))
        self._add(Box("layer", name, type(layer).__name__, layer.family, 0 if shared else count, shared,
                      [t.shape for t in outputs], sources), outputs)
        return found

    def _add(self, box: Box, outputs: Sequence[Tensor]) -> Box:
        self.boxes.append(box)
        self._of |= {id(t): box for t in outputs}
        self._kept += outputs
        return box

    def _sources(self, tensors: Sequence[Tensor]) -> list[Box]:
        """The boxes that tensors come from; what joins several between layers becomes one."""
        for t in walk(tensors, lambda t: id(t) in self._of):
            if id(t) not in self._of:
                self._kept.append(t)
                known = list(dict.fromkeys(b for i in t.inputs if (b := self._of[id(i)]) is not None))
                name = t.op.name if t.op is not None else ""
                self._of[id(t)] = known[0] if len(known) == 1 else None if not known else self._add(
                    Box("op", SIGNS.get(name, name), shapes=[t.shape], inputs=known), [t])
        return list(dict.fromkeys(b for t in tensors if (b := self._of[id(t)]) is not None))


def written(model: Any) -> list[Box]:
    """The boxes of a model as it is written down, of one whose shapes are not known: nothing is opened."""
    boxes: dict[str, Box] = {}
    seen, last, paths = set[int](), "input", {id(x): path for path, x in layers(model).items()}
    for name in getattr(model, "inputs", ["input"]):
        boxes[name] = Box("input", name)
    for name, layer, given in model.lines():
        sources = [s.partition(":")[0] if s not in boxes else s for s in given.split(", ")] if given else [last]
        count = sum(v.size for v in layer.variables().values() if isinstance(v, Parameter))
        boxes[name] = Box("layer", paths[id(layer)], type(layer).__name__, layer.family,
                          0 if id(layer) in seen else count, id(layer) in seen, [], [boxes[s] for s in sources])
        seen.add(id(layer))
        last = name
    ends = [o.partition(":")[0] if o not in boxes else o for o in getattr(model, "outputs", [last])]
    return [*boxes.values(), Box("output", "output", inputs=list(dict.fromkeys(boxes[o] for o in ends)))]
