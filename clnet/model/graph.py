"""Models wired as a graph: nodes by name, or layers called with what `Input` gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from ..config.fields import field
from ..config.schema import nodes
from ..core.spec import Spec, dtype_name
from ..core.tensor import walk
from ..engine.record import infer
from ..errors import ConfigError, ShapeError
from ..layers.base import Layer, Symbolic
from ..layers.utility import Add, Multiply
from ..names import told
from .network import TRIAL, _Network, apply, sample_spec

NODE_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")


class Node(NamedTuple):
    """One use of a layer in a Graph: `inputs` are names of inputs or nodes;
    "lstm:1" is the second output of node "lstm".
    """

    name: str
    layer: Any
    inputs: tuple[str, ...]


class Graph(_Network):
    """values[node] = layer(values of its inputs), node after node; y = values[outputs]

    inputs    {name: shape of a sample, or None, or {"shape": …, "dtype": …}},
              in the order in which the model is called with them
    nodes     Node, (name, layer, input or inputs), or {"name", "layer", "inputs"};
              in place of a layer the name of a node whose layer is shared
    outputs   names of what is returned, a tuple where there are several
    Raises ConfigError for names unknown or used twice, cycles, outputs that do not exist.
    """

    aliases = ("graph", "GraphModel")
    inputs: dict[str, Any] = field(doc="name of every input and the shape of one sample of it, or null", min_length=1)
    nodes: tuple[Any, ...] = field(doc="layers with their names and inputs", min_length=1)
    outputs: tuple[str, ...] = field(doc="names of the results", min_length=1)

    def validate(self) -> None:
        self.specs = {name: _input_spec(name, value) for name, value in self.inputs.items()}
        self.inputs = {name: _plain_spec(spec) for name, spec in self.specs.items()}
        self.nodes = _shared(tuple(_node(n, f"nodes[{k}]") for k, n in enumerate(self.nodes)))
        self.order = _order(self.specs, self.nodes, self.outputs)

    def specs_of_inputs(self) -> list[Spec | None]:
        return list(self.specs.values())

    def lines(self) -> list[tuple[str, Layer, str]]:
        return [(n.name, n.layer, ", ".join(n.inputs)) for n in self.order]

    def title(self) -> str:
        inputs = ", ".join(f"{n} {s or ()}".strip(" ()") for n, s in self.specs.items())
        return f"{type(self).__name__} from {inputs} to {', '.join(self.outputs)}"

    def children(self) -> dict[str, Layer]:
        found: dict[str, Layer] = {}
        for node in self.nodes:
            if not any(node.layer is known for known in found.values()):
                found[node.name] = node.layer
        return found

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) != len(self.inputs):
            raise ShapeError(
                f"Graph: expected {len(self.inputs)} inputs ({', '.join(self.inputs)}); got {len(inputs)}.")
        values: dict[str, tuple[Any, ...]] = {name: (x,) for name, x in zip(self.inputs, inputs, strict=True)}
        for node in self.order:
            values[node.name] = apply(node.name, node.layer, tuple(_pick(values, i) for i in node.inputs))
        found = tuple(_pick(values, o) for o in self.outputs)
        return found[0] if len(found) == 1 else found

    def config(self) -> dict[str, Any]:
        first: dict[int, str] = {}
        nodes = []
        for node in self.nodes:
            shared = first.setdefault(id(node.layer), node.name)
            nodes.append({"name": node.name, "layer": node.layer.config() if shared == node.name else shared,
                          "inputs": list(node.inputs)})
        return {"type": type(self).__name__, "inputs": self.inputs, "nodes": nodes, "outputs": list(self.outputs)}

    @classmethod
    def schema(cls) -> dict[str, Any]:
        found = super().schema()
        found["properties"]["nodes"] |= nodes()
        return found

    @classmethod
    def read_field(cls, name: str, value: object, path: str) -> Any:
        if name == "inputs":
            return value
        if name != "nodes" or not isinstance(value, list):
            return super().read_field(name, value, path)
        for k, node in enumerate(value):
            if not isinstance(node, dict) or (unknown := set(node) - {"name", "layer", "inputs"}) or len(node) != 3:
                extra = f"; got {sorted(unknown)[0]!r}" if isinstance(node, dict) and unknown else ""
                raise ConfigError(f'{path}[{k}]: expected an object with "name", "layer" and "inputs"{extra}.')
        return [{**node, "layer": super(Graph, cls).read_field("layer", node["layer"], f"{path}[{k}].layer")}
                for k, node in enumerate(value)]


# --- what a graph is made of
def _input_spec(name: str, value: object) -> Spec | None:
    shape, dtype = value, "float32"
    if isinstance(value, Spec):
        shape, dtype = value.shape, value.dtype
    elif isinstance(value, dict):
        shape, dtype = value.get("shape"), value.get("dtype", "float32")
    if shape is None and dtype == "float32":
        return None
    if (not isinstance(shape, (list, tuple))
            or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in shape)):
        raise ConfigError(
            f"Graph: expected the shape of a sample for input {name!r}, sizes of at least 1, or None; got {shape!r}.")
    return Spec(tuple(shape), dtype_name(dtype))


def _plain_spec(spec: Spec | None) -> Any:
    if spec is None:
        return None
    return list(spec.shape) if spec.dtype == "float32" else {"shape": list(spec.shape), "dtype": spec.dtype}


def _node(value: object, path: str) -> Node:
    if isinstance(value, dict) and set(value) == {"name", "layer", "inputs"}:
        value = (value["name"], value["layer"], value["inputs"])
    if not isinstance(value, tuple) or len(value) != 3:
        raise ConfigError(f"Graph.{path}: expected (name, layer, inputs); got {value!r}.")
    name, layer, inputs = value
    inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs) if isinstance(inputs, (tuple, list)) else inputs
    if not isinstance(name, str) or not NODE_NAME.match(name):
        raise ConfigError(f"Graph.{path}.name: expected a name of letters, digits, '_' and '-'; got {name!r}.")
    if not isinstance(layer, (Layer, str)):
        raise ConfigError(
            f"Graph.{path}.layer: expected a layer, or the name of a node that shares its own; got {layer!r}.")
    if not isinstance(inputs, tuple) or not inputs or not all(isinstance(i, str) for i in inputs):
        raise ConfigError(f"Graph.{path}.inputs: expected names of inputs or nodes; got {inputs!r}.")
    return Node(name, layer, inputs)


def _shared(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Names in place of layers are looked up."""
    layers = {n.name: n.layer for n in nodes if isinstance(n.layer, Layer)}
    for k, n in enumerate(nodes):
        if isinstance(n.layer, str) and n.layer not in layers:
            raise ConfigError(
                f"Graph.nodes[{k}].layer: expected a node with a layer of its own ({', '.join(layers)}); "
                f"got {n.layer!r}.")
    return tuple(n if isinstance(n.layer, Layer) else Node(n.name, layers[n.layer], n.inputs) for n in nodes)


def _order(inputs: dict[str, Any], nodes: tuple[Node, ...], outputs: tuple[str, ...]) -> list[Node]:
    """Nodes after what they read, otherwise as they are written. Raises ConfigError."""
    names = list(inputs) + [n.name for n in nodes]
    if twice := next((n for k, n in enumerate(names) if n in names[:k]), None):
        raise ConfigError(f"Graph: expected every name once; got {twice!r} twice.")
    for who, wanted in [*((f"node {n.name!r}", n.inputs) for n in nodes), ("outputs", outputs)]:
        for w in wanted:
            if _base(w) not in names:
                raise ConfigError(f"Graph: expected names of inputs or nodes ({', '.join(names)}) in {who}; got {w!r}.")
    ready, order, left = set(inputs), [], list(nodes)
    while left:
        found = next((n for n in left if all(_base(i) in ready for i in n.inputs)), None)
        if found is None:
            raise ConfigError(f"Graph: expected no cycle; got one through {', '.join(n.name for n in left)}.")
        ready.add(found.name)
        order.append(found)
        left.remove(found)
    return order


def _base(reference: str) -> str:
    name, _, number = reference.partition(":")
    return name if not number or number.isdecimal() else reference


def _pick(values: dict[str, tuple[Any, ...]], reference: str) -> Any:
    name, _, number = reference.partition(":")
    found = values[name]
    if number and int(number) >= len(found):
        raise ShapeError(f"Graph: expected one of the {len(found)} outputs of {name!r}; got {reference!r}.")
    return found[int(number or 0)]


# --- wiring by calling
class Symbol(Symbolic):
    """A value of a model that is being written down: what `Input` gives and what layers called with one return."""

    def __init__(self, spec: Spec | None, layer: Layer | None = None, parents: tuple[Symbol, ...] = (),
                 use: object = None, output: int = 0, name: str = "") -> None:
        self.spec, self.layer, self.parents, self.use, self.output, self.name = spec, layer, parents, use, output, name

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of one sample; None where the input's was not given."""
        return self.spec.shape if self.spec else None

    def __repr__(self) -> str:
        return f"<Symbol {self.name or type(self.layer).__name__} {self.spec or 'of unknown shape'}>"

    def __add__(self, other: Symbol) -> Any: return Add()(self, other)
    def __mul__(self, other: Symbol) -> Any: return Multiply()(self, other)
    __radd__, __rmul__ = __add__, __mul__

    def wire(self, layer: Layer, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Notes the call of a layer; where the shapes are known it is tried at once,
        so that an error shows up at its line.
        """
        if named:
            raise ConfigError(
                f"{type(layer).__name__}: expected inputs by position in a model being wired; "
                f"got {', '.join(named)} by name.")
        if not all(isinstance(i, Symbol) for i in inputs):
            raise ConfigError(
                f"{type(layer).__name__}: expected values of the model being wired; "
                f"got {[i for i in inputs if not isinstance(i, Symbol)]!r}; "
                "with numbers and arrays write Lambda(lambda x: 2 * x)(x).")
        specs: list[Spec | None] = [None]
        if all(i.spec is not None for i in inputs):
            found = infer(layer, [Spec((TRIAL, *i.spec.shape), i.spec.dtype) for i in inputs])
            # a state may have its batch elsewhere
            specs = [Spec(s.shape[1:], s.dtype) if s.shape[:1] == (TRIAL,) else None for s in found]
        use = object()
        made = tuple(Symbol(s, layer, inputs, use, k) for k, s in enumerate(specs))
        return made[0] if len(made) == 1 else made


@told
def Input(shape: Sequence[int] | int | None = None, dtype: str = "float32", name: str = "") -> Symbol:
    """An input of a model: shape of one sample (None: not known yet). Raises ConfigError."""
    return Symbol(None if shape is None else sample_spec("Input", shape, dtype), name=name)


@told
def Model(inputs: Symbol | Sequence[Symbol], outputs: Symbol | Sequence[Symbol]) -> Graph:
    """The Graph between symbols: `x = Input((8,)); h = Dense(out_features=4)(x); Model([x], [h])`. Raises ConfigError.
    """
    first, last = _symbols(inputs), _symbols(outputs)
    names: dict[int, str] = {}
    used: set[str] = set()
    for s in first:
        names[id(s)] = _fresh(s.name or "input", used)
    nodes: list[Node] = []
    by_use: dict[int, str] = {}
    for s in walk(last, lambda s: id(s) in names, attrgetter("parents")):
        if id(s) in names:
            continue
        if s.layer is None:
            raise ConfigError(f"Model: expected all inputs in the list; got results that depend on {s!r} too.")
        if id(s.use) not in by_use:
            by_use[id(s.use)] = _fresh(type(s.layer).__name__.lower(), used)
            nodes.append(Node(by_use[id(s.use)], s.layer, tuple(names[id(p)] for p in s.parents)))
        names[id(s)] = by_use[id(s.use)] + (f":{s.output}" if s.output else "")
    return Graph(inputs={names[id(s)]: s.spec for s in first}, nodes=nodes, outputs=[names[id(s)] for s in last])


def _symbols(given: object) -> list[Symbol]:
    found: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    for s in found:
        if not isinstance(s, Symbol):
            raise ConfigError(f"Model: expected what Input gave and layers returned; got {s!r}.")
    return found


def _fresh(name: str, used: set[str]) -> str:
    k = 2
    wanted = name
    while name in used:
        name, k = f"{wanted}{k}", k + 1
    used.add(name)
    return name
