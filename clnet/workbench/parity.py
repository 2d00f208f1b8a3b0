"""A model or layer on a device and on the float64 reference, side by side:
every layer's output and gradient, and where they part first.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops as F
from ..core.autodiff import gradients
from ..core.spec import is_float, np_dtype
from ..core.state import Parameter, Variable, capture
from ..core.tensor import Tensor, tensor
from ..engine import current
from ..errors import ConfigError
from ..layers.base import Layer, no_tape
from ..model.network import _Network
from ..model.sequential import Sequential
from ..names import ending
from ..show import Table
from ..train import data, examples
from ..train.examples import MODELS
from . import page, plots, tables, terminal
from .evidence import catalog, checks, registry
from .evidence import step as probe
from .marks import Mark

if TYPE_CHECKING:
    from ..engine.protocol import Engine

Array = np.ndarray[Any, Any]
BATCH = 3  # samples, where the model says the shape of one
WORST = 10  # places that a notebook shows at first


@dataclass(frozen=True)
class Place:
    """One value of the network on both engines. error: |a − b| / (1 + |b|), over its elements; ulp likewise.

    got, want   the values themselves, where they were to be kept
    """

    pass_: str
    name: str
    shape: tuple[int, ...]
    error: Array = field(repr=False)
    ulp: Array = field(repr=False)
    allowed: float
    got: Array | None = field(default=None, repr=False)
    want: Array | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        return bool(np.max(self.error, initial=0.0) <= self.allowed)

    @property
    def worst(self) -> float:
        return float(np.max(self.error, initial=0.0))

    def row(self) -> dict[str, Any]:
        """Numbers for a table."""
        share = ""
        if self.allowed:
            share = f"{100 * self.worst / self.allowed:.2g} %" if np.isfinite(self.worst) else "inf"
        return {"pass": self.pass_, "where": self.name, "shape": "×".join(map(str, self.shape)) or "scalar",
                "largest error": f"{self.worst:.2g}", "of allowed": share, "within": Mark(self.ok),
                "median error": f"{np.median(self.error) if self.error.size else 0.0:.2g}",
                "allowed": f"{self.allowed:.2g}", "median ulp": f"{np.median(self.ulp) if self.ulp.size else 0.0:.2g}"}


@dataclass(frozen=True)
class Parity:
    """All places in the order they are computed:
    outputs forward, then gradients backward. Shows itself as a table in a notebook.
    """

    PASSES = {"forward": "Outputs, first to last", "backward": "Gradients, last to first"}
    BELOW = ("median error", "allowed", "median ulp")
    TERMS = {"error": "|a − b| / (1 + |b|) of an element, a from the device and b from the float64 reference",
             "of allowed": "the largest error's share of what rounding explains: the tolerance of one operation, "
                           "times the root of the longest sum's terms",
             "median ulp": "the median distance in units of the last place; far larger at elements near 0, where one "
                           "unit is tiny, so the largest says nothing"}

    name: str
    device: str
    places: list[Place]

    @property
    def first(self) -> Place | None:
        """Where device and reference part first; None if they do not."""
        return next((p for p in self.places if not p.ok), None)

    def __str__(self) -> str:
        p = self.first
        verdict = ("no divergence" if p is None
                   else f"first divergence: {p.name}, {p.pass_}, error {p.worst:.2g} (allowed {p.allowed:.2g})")
        return f"{self.name} on {self.device}: {len(self.places)} values compared, {verdict}"

    def markdown(self) -> str:
        return tables.markdown(p.row() for p in self.places)

    def __repr__(self) -> str:
        return str(self)

    def table(self, most: int | None = None) -> Table:
        """The places as a table, in their order; with `most` so many, those that come nearest to what is allowed, or
        go beyond it, first. What is too far off is marked.
        """
        places = self.places
        if most is not None:
            places = sorted(places, key=lambda p: -p.worst / (p.allowed or 1.0))[:most]
        rows = [p.row() for p in places]
        wrong = [k for k, p in enumerate(places) if not p.ok]
        return Table(list(rows[0]) if rows else [], [list(r.values()) for r in rows], marked=wrong)

    def _repr_html_(self) -> str:
        terms = "".join(f"<div><i>{escape(term)}</i>: {escape(text)}.</div>" for term, text in self.TERMS.items())
        if len(self.places) <= WORST:
            return f"<p>{escape(str(self))}.</p>{self.table().html()}{terms}"
        whole = (f"<details><summary>All {len(self.places)} values, in the order in which they are computed</summary>"
                 f"{self.table().html()}</details>")
        return (f"<p>{escape(str(self))}. The {WORST} nearest to what is allowed:</p>{self.table(WORST).html()}{whole}"
                f"{terms}")

    def plots(self) -> dict[str, plots.Picture]:
        """PNG histograms of the errors, forward and backward."""
        some = {name: [p for p in self.places if p.pass_ == name] for name in self.PASSES}
        return {name: plots.histograms({p.name: p.error for p in found}, f"{self.name}, errors {name}",
                                       max(p.allowed for p in found))
                for name, found in some.items() if found}


@contextlib.contextmanager
def listening(root: Layer) -> Iterator[list[tuple[str, Tensor]]]:
    """Collects (path, output) of every call of the root and of layers below it, in order."""
    names = {id(layer): path for path, layer in descendants(root)}
    heard: list[tuple[str, Tensor]] = []
    original = Layer.__call__

    def call(self: Layer, *inputs: Any) -> Any:
        y = original(self, *inputs)
        if id(self) in names:
            outputs = probe.outputs_of(y)
            heard.extend((names[id(self)] + (f"[{k}]" if len(outputs) > 1 else ""), t) for k, t in enumerate(outputs))
        return y

    Layer.__call__ = call  # type: ignore[method-assign]
    try:
        yield heard
    finally:
        Layer.__call__ = original  # type: ignore[method-assign]


def descendants(root: Layer, prefix: str = "") -> list[tuple[str, Layer]]:
    """The root and every layer in it, by path and class."""
    found = [(f"{prefix} {type(root).__name__}".lstrip(), root)]
    for name, child in root.children().items():
        path = prefix.split(" ")[0] if prefix else ""
        found += descendants(child, f"{path}.{name}" if path else name)
    return found


def compare(model: Layer, inputs: Sequence[Array], engine: Engine | None = None, name: str = "",
            keep: bool = False) -> Parity:
    """Runs the model on the engine and on the reference from the same weights and inputs;
    nothing of the model changes. `keep`: with the values of both.
    """
    engine = engine if engine is not None else current()
    xs = [tensor(x, "float32" if np.asarray(x).dtype == np.float64 else None) for x in inputs]
    changed: Mapping[Variable, Tensor] = {}
    try:
        with listening(model) as heard, no_tape(), capture() as changed:
            y = model(*xs)
            heard = _distinct(heard)
            total = _total(probe.outputs_of(y))
            backward = _gradients(total, heard, xs, model) if total is not None else []
            places = _compared([("forward", n, t) for n, t in heard] + [("backward", n, g) for n, g in backward],
                               engine, keep)
    finally:
        for variable, old in changed.items():
            variable._tensor = old
    return Parity(name or type(model).__name__, tables.device_words(engine.device), places)


def of_function(function: Callable[..., Any], inputs: Sequence[Array], names: Sequence[str], engine: Engine,
                name: str) -> Parity:
    """The same of a function of tensors: its outputs, and the gradients to those inputs (`names`) that are floats."""
    xs = [tensor(x, "float32" if np.asarray(x).dtype == np.float64 else None) for x in inputs]
    with no_tape(), capture():
        ys = probe.outputs_of(function(*xs))
        total = _total(ys)
        floats = [(f"∂ {n}", x) for n, x in zip(names, xs, strict=True) if is_float(x.dtype)]
        pulled = gradients(total, [x for _, x in floats], allow_unused=True) if total is not None and floats else []
        backward = [("backward", n, g) for (n, _), g in zip(floats, pulled, strict=bool(pulled)) if g is not None]
        forward = [("forward", f"output {k}" if len(ys) > 1 else "output", y) for k, y in enumerate(ys)]
        return Parity(name, tables.device_words(engine.device), _compared([*forward, *backward], engine, True))


def _compared(values: Sequence[tuple[str, str, Tensor]], engine: Engine, keep: bool) -> list[Place]:
    """(pass, name, tensor) of each, on the engine and on the reference."""
    tensors = [t for _, _, t in values]
    got, want = engine.values(tensors), checks.oracle().values(tensors)
    return [_place(p, n, g, w, t, keep) for (p, n, t), g, w in zip(values, got, want, strict=True)]


def _distinct(heard: list[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """One entry a tensor: a wrapper that returns its child's output adds nothing.
    Several calls of a layer are numbered.
    """
    seen: dict[int, str] = {}
    counts: dict[str, int] = {}
    out = []
    for name, t in heard:
        if id(t) not in seen:
            seen[id(t)] = name
            counts[name] = counts.get(name, 0) + 1
            out.append((name if counts[name] == 1 else f"{name} call {counts[name]}", t))
    return out


def _total(ys: Sequence[Tensor]) -> Tensor | None:
    """Σ u · y for fixed random u: a scalar through which every output is differentiated."""
    rng = np.random.default_rng(5)
    parts = [F.sum(y * tensor(rng.standard_normal(y.shape), y.dtype)) for y in ys if is_float(y.dtype)]
    return sum(parts[1:], parts[0]) if parts else None


def _gradients(total: Tensor, heard: list[tuple[str, Tensor]], xs: Sequence[Tensor],
               model: Layer) -> list[tuple[str, Tensor]]:
    """Gradients of every layer's output from the last to the first, then of parameters and inputs."""
    found = []
    for name, t in reversed(heard):
        # One target at a time: the walk stops at its targets, and would never see what lies behind them.
        g = gradients(total, [t], allow_unused=True)[0] if is_float(t.dtype) else None
        if g is not None:
            found.append((f"∂ {name}", g))
    leaves = [(f"∂ {n}", v.tensor) for n, v in model.variables().items() if isinstance(v, Parameter) and v.trainable]
    leaves += [(f"∂ input {k}", x) for k, x in enumerate(xs) if is_float(x.dtype)]
    pulled = gradients(total, [t for _, t in leaves], allow_unused=True)
    return found + [(n, g) for (n, _), g in zip(leaves, pulled, strict=True) if g is not None]


def _place(pass_: str, name: str, got: Array, want: Array, t: Tensor, keep: bool) -> Place:
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), np.asarray(want, np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.nan_to_num(np.abs(a - b) / (1 + np.abs(b)), nan=np.inf))
        if is_float(t.dtype):
            known = np_dtype(t.dtype) if t.dtype != "bfloat16" else np.float32
            step = np.spacing(np.maximum(np.abs(b), 1e-30).astype(known)).astype(np.float64)
            ulp = np.where(same, 0.0, np.nan_to_num(np.abs(a - b) / step, nan=np.inf))
        else:
            ulp = np.zeros_like(error)
    both = (got, np.asarray(want)) if keep else (None, None)
    return Place(pass_, name, t.shape, error, ulp, checks.allowance([t]) if is_float(t.dtype) else 0.0, *both)


# --- what is compared
def resolve(what: str, shape: Sequence[int] | None = None) -> tuple[Layer, list[Array]]:
    """A model and inputs for it: "digits-cnn" (mlp, lstm, transformer),
    a layer's name, or a JSON file. ConfigError otherwise.
    """
    if what.removeprefix("digits-") in MODELS and what.startswith("digits-"):
        return digits(what.removeprefix("digits-"))
    if what.endswith(".json"):
        return _from_json(Path(what), shape)
    subject = registry.find(what, ["layer"])
    if subject is None:
        names = [*(f"digits-{m}" for m in MODELS), *(s.name for s in registry.subjects(["layer"]))]
        raise ConfigError(
            f"parity: expected digits-cnn, the name of a layer or a .json file; got {what!r}{_hint(what, names)}")
    if not subject.thing.examples:
        raise ConfigError(
            f"parity: expected a layer with an example; got {subject.name}, which has none; "
            "write it as a .json model and pass --shape.")
    return registry.make_layer(subject.thing)


def _hint(what: str, names: list[str]) -> str:
    """How the refusal ends: the nearest name, that the layer is not there yet, or where the layers are."""
    if any(what.lower() in (g.name.lower(), g.spec_name.lower()) for g in catalog.goals("layer")):
        return ", which is not there yet."
    return end if (end := ending(what, names)) != "." else "; `clnet status` lists the layers."


def digits(model: str) -> tuple[Layer, list[Array]]:
    """An example network of `train_digits` and a batch of digits."""
    network = examples.digits_model(model)
    batch = np.asarray(data.load("digits").x[:32], np.float32)
    return network, [batch]


def _from_json(path: Path, shape: Sequence[int] | None) -> tuple[Layer, list[Array]]:
    """A model in any dialect, and inputs of its own shapes or of the one given."""
    network = Sequential.from_json(path.read_text(encoding="utf-8"))
    if shape:
        return network, registry.draw([tuple(shape)], path.stem)
    known: list[Any] = network.specs_of_inputs() if isinstance(network, _Network) else [None]
    if None in known:
        raise ConfigError(
            f"parity: expected the shape of an input for {path.name}, which does not say it; got none; "
            "pass --shape 32,1,8,8, say.")
    wanted = [(BATCH, *s.shape) if is_float(s.dtype) else np.zeros((BATCH, *s.shape), np_dtype(s.dtype)) for s in known]
    return network, registry.draw(wanted, path.stem)


LESS = ("median ulp", "median error", "shape", "pass", "allowed")


def main(what: str, engine: Engine, folder: Path, *, html: bool = False, shape: Sequence[int] | None = None,
         json_file: Path | None = None, report_file: Path | None = None) -> int:
    """Shows the table and what it comes to; writes rows, table or a page with plots.
    Exit status 1 where device and reference part.
    """
    registry.load_all()
    model, inputs = resolve(what, shape)
    found = compare(model, inputs, engine, what)
    rows = [p.row() for p in found.places]
    if json_file != terminal.STDOUT:
        terminal.table(rows, less=LESS, whole="all of it: --report FILE.md")
        for word in ("error", "of allowed"):
            terminal.say(f"{word}: {found.TERMS[word]}", "dim")
        terminal.say(str(found))
    if json_file:
        terminal.save_json(rows, json_file)
    if report_file:
        report_file.parent.mkdir(parents=True, exist_ok=True)
        text = [tables.header(f"Parity of {what}", f"clnet parity {what}"), tables.cell(found), found.markdown()]
        report_file.write_text("\n\n".join(text) + "\n", encoding="utf-8")
    if html:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"parity-{page.file_name(what)}.html"
        path.write_text(page.render(f"Parity of {what}", [tables.device_words(engine.device)],
                                    [page.parity_section(found)], [f"{found}."]), encoding="utf-8")
        print(f"written: {path.absolute()}", file=sys.stderr)
    return int(found.first is not None)
