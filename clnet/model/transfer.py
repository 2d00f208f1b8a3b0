"""Values of other networks: what fits is taken by names or in order, what does not is told; PyTorch's names and layouts
in both directions.
"""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import safetensors.numpy

from ..core.tensor import Operators
from ..errors import CheckpointError, ConfigError
from ..layers.base import Layer
from ..show import Shown, Table, count, plural
from .files import layers, set_values, values

Array = np.ndarray[Any, Any]
# What PyTorch calls the variables of a layer, as ours are called: a recurrent layer's by level and direction,
# attention's three maps in one.
RECURRENT = re.compile(r"^(.*?)(weight|bias)_([ih]h)_l(\d+)(_reverse)?$")
PACKED = re.compile(r"^(.*?)in_proj_(weight|bias)$")
PARTS = re.compile(r"^(.*?)([qkv])_proj_weight$")
PYTORCH = (".pt", ".pth", ".bin", ".ckpt")


@runtime_checkable
class Stateful(Protocol):
    """A network of PyTorch."""

    def state_dict(self) -> Mapping[str, Any]: ...


Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Layer | Stateful


@dataclass(repr=False)
class Loaded(Shown):
    """What `load_weights` did: `loaded` (our name: theirs), `missing` (ours that keep their values), `unexpected`
    (theirs that nothing took), `wrong_shape` (our name: (theirs, our shape, their shape)).
    """

    loaded: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    wrong_shape: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)

    def table(self) -> Table:
        """A row a name: what it was taken from, or why not."""
        rows: list[tuple[str | None, str | None, str]]
        rows = [(ours, theirs, "loaded") for ours, theirs in self.loaded.items()]
        rows += [(ours, theirs, f"shape {mine}, theirs {other}")
                 for ours, (theirs, mine, other) in self.wrong_shape.items()]
        rows += [(ours, None, "missing: keeps its value") for ours in self.missing]
        rows += [(None, theirs, "unexpected: nothing took it") for theirs in self.unexpected]
        return Table(["model", "source", "what became of it"], rows, align="lll", title=self.said())

    def said(self) -> str:
        """`62 variables loaded, 2 of another shape`"""
        more = [f"{count(n)} {text}" for n, text in (
            (len(self.wrong_shape), "of another shape"), (len(self.missing), "missing"),
            (len(self.unexpected), "unexpected")) if n]
        return ", ".join([f"{plural(len(self.loaded), 'variable')} loaded", *more])


def load_weights(model: Layer, source: Source, strict: bool = False,
                 names: Mapping[str, str] | None = None) -> Loaded:
    """See `Sequential.load_weights`."""
    if unbuilt := [n or type(model).__name__ for n, x in layers(model).items() if not x.built]:
        raise ConfigError(
            f"load_weights: expected a built model; got {', '.join(unbuilt)} without sizes; call it once, or "
            "model.build(shape).")
    given, ordered = _read(source)
    theirs = {ours: (name, a) for name, array in given.items() for ours, a in _translated(name, array, given)}
    for start, ours in (names or {}).items():
        theirs = {_moved(n, start, ours): v for n, v in theirs.items()}
    mine = values(model)
    pairs, lost = _paired(mine, {n: a for n, (_, a) in theirs.items()}, ordered, bool(names))
    report = Loaded(wrong_shape={m: (theirs[t][0], mine[m].shape, theirs[t][1].shape) for m, t in lost.items()})
    for m, t in pairs.items():
        report.loaded[m] = theirs[t][0]
        mine[m] = theirs[t][1].astype(mine[m].dtype)
    report.missing = [m for m in mine if m not in pairs and m not in lost]
    taken = {*pairs.values(), *lost.values()}
    report.unexpected = list(dict.fromkeys(theirs[t][0] for t in theirs if t not in taken))
    if not pairs or (strict and (report.missing or report.unexpected or report.wrong_shape)):
        raise CheckpointError(
            f"load_weights: expected {'values for all of the model' if strict else 'values that fit the model'}; "
            f"got {report.said()}; say which belongs to which: names={{'their.prefix': 'layers.0'}}.\n{report}")
    set_values(model, mine, "load_weights", "what was given")
    return report


# --- what is given
def _read(source: Source) -> tuple[dict[str, Array], bool]:
    """The arrays by name, and whether they are in the order in which the layers were made."""
    if isinstance(source, Layer):
        source = values(source)
    elif isinstance(source, Stateful):
        source = source.state_dict()
    if isinstance(source, Mapping):
        found, ordered = dict(source), True
    else:
        if not isinstance(source, (str, os.PathLike)):
            raise ConfigError(
                f"load_weights: expected a file, a network, or arrays by name; got {reprlib.repr(source)}.")
        path = Path(source)
        if not path.is_file():
            raise CheckpointError(f"load_weights: expected a file that exists; got {str(path)!r}.")
        ordered = path.suffix.lower() in PYTORCH
        found = _unpickled(path) if ordered else _safetensors(path)
    arrays = {str(n): _array(str(n), v) for n, v in found.items()}
    return {n: a for n, a in arrays.items() if n.rpartition(".")[2] != "num_batches_tracked"}, ordered


def _safetensors(path: Path) -> dict[str, Any]:
    try:
        return dict(safetensors.numpy.load_file(path))
    except Exception as error:  # of a foreign file anything
        raise CheckpointError(
            f"load_weights({path.name}): expected safetensors, or one of {PYTORCH}; got {error}.") from None


def _unpickled(path: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        raise CheckpointError(
            f"load_weights({path.name}): expected PyTorch for its own format; it is not installed: pip install torch, "
            "or write the state_dict as safetensors.") from None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise CheckpointError(f"load_weights({path.name}): expected a state_dict; got an error: {error}") from None
    for key in ("state_dict", "model_state_dict", "model"):
        found = found[key] if isinstance(found, Mapping) and isinstance(found.get(key), Mapping) else found
    if not isinstance(found, Mapping):
        raise CheckpointError(f"load_weights({path.name}): expected a state_dict; got {type(found).__name__}.")
    return dict(found)


def _array(name: str, value: Any) -> Array:
    """A value of ours, of NumPy or of PyTorch on the host."""
    if isinstance(value, Operators):
        return np.asarray(value.numpy())
    if callable(getattr(value, "detach", None)):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value
    try:
        array = np.asarray(value)
    except Exception as error:
        raise CheckpointError(f"load_weights: expected arrays by name; got {error} for {name!r}.") from None
    if array.dtype.kind not in "biufV":
        raise CheckpointError(f"load_weights: expected arrays by name; got {type(value).__name__} for {name!r}.")
    return array


# --- PyTorch's names
def _translated(name: str, array: Array, every: Mapping[str, Array]) -> list[tuple[str, Array]]:
    """(our name, value) of what PyTorch calls `name`: the prefix is theirs."""
    if found := RECURRENT.match(name):
        start, kind, which, level, back = found.groups()
        two = f"{start}weight_ih_l0_reverse" in every
        way = ("mirror." if back else "layer.") if two else ""
        return [(f"{start}{way}layers.{level}.{kind[0]}_{which}", array)]
    if found := PACKED.match(name):
        start, kind = found.groups()
        return [(f"{start}{kind[0]}_{c}", part) for c, part in zip("qkv", np.split(array, 3), strict=True)]
    if found := PARTS.match(name):
        return [(f"{found[1]}w_{found[2]}", array)]
    start, _, last = name.rpartition(".")
    head = start.removesuffix("out_proj")
    packed = head != start and any(f"{head}{n}" in every for n in ("in_proj_weight", "q_proj_weight"))
    return [(f"{head}{last[0]}_o" if packed else name, array)]


def _moved(name: str, start: str, ours: str) -> str:
    """The name with one prefix in place of another, whole words of it."""
    return ours + name[len(start) :] if name == start or name.startswith(f"{start}.") else name


# --- which belongs to which
def _paired(mine: Mapping[str, Array], theirs: Mapping[str, Array], ordered: bool,
            told: bool) -> tuple[dict[str, str], dict[str, str]]:
    """(ours: theirs that fit, ours: theirs of another shape)"""
    named = [{m: t for t in theirs if (m := start + t) in mine} for start in ("", "layers.")]
    same = max(named, key=len)
    fits = {m: t for m, t in same.items() if mine[m].shape == theirs[t].shape}
    whole = len(same) == min(len(mine), len(theirs))
    # Numbers of layers may be others' by chance: names alone decide where all fit, or all are the same.
    if told or (whole and (len(fits) == len(same) or len(same) == len(mine) == len(theirs))):
        return fits, {m: t for m, t in same.items() if m not in fits}
    return _in_order(mine, theirs, ordered)


def _in_order(mine: Mapping[str, Array], theirs: Mapping[str, Array],
              ordered: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Layer by layer: the next of theirs that has the same variables of the same shapes; of what is left the next that
    has the same variables.
    """
    ours, others = _groups(mine), _groups(theirs if ordered else sorted(theirs, key=_natural))
    if not ordered:
        _unambiguous(others, theirs)
    fits, lost = dict[str, str](), dict[str, str]()
    for shapes, into in ((True, fits), (False, lost)):
        for start, names in list(ours.items()):
            kind = _kind(names, mine, shapes)
            there = next((s for s, n in others.items() if _kind(n, theirs, shapes) == kind), None)
            if there is not None:
                into.update(zip(sorted(ours.pop(start)), sorted(others.pop(there)), strict=True))
    same = {m: t for m, t in lost.items() if mine[m].shape == theirs[t].shape}
    return fits | same, {m: t for m, t in lost.items() if m not in same}


def _groups(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.rpartition(".")[0], []).append(name)
    return found


def _kind(names: list[str], arrays: Mapping[str, Array], shapes: bool) -> tuple[Any, ...]:
    """What a layer has: names of its variables (of one alone the name says nothing), and their shapes."""
    last = sorted(names)
    return tuple((n.rpartition(".")[2] if len(last) > 1 else "", arrays[n].shape if shapes else arrays[n].ndim)
                 for n in last)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _unambiguous(groups: Mapping[str, list[str]], arrays: Mapping[str, Array]) -> None:
    """Raises ConfigError where a file has no order, and two layers alike are told apart by their names alone."""
    alike: dict[Any, list[str]] = {}
    for start, names in groups.items():
        alike.setdefault(_kind(names, arrays, True), []).append(start)
    for found in alike.values():
        words = {re.sub(r"\d+", "#", start): start for start in found}
        if len(words) > 1:
            a, b, *_ = words.values()
            raise ConfigError(
                f"load_weights: expected names that say which layer comes first; got {a!r} and {b!r}, both alike; "
                "safetensors keeps no order: say names={'their.prefix': 'layers.0', ...}, or pass the state_dict.")


# --- and back
def to_torch_state_dict(model: Layer) -> dict[str, Array]:
    """The model's values with PyTorch's names and layouts, in order, as NumPy arrays:
    `theirs.load_state_dict({n: torch.from_numpy(a) for n, a in to_torch_state_dict(ours).items()})`

    The layers of a Sequential are numbered as those of torch.nn.Sequential ("0.weight"), other names stay. Raises
    ConfigError for attention whose keys have other sizes than its queries.
    """
    arrays = values(model)
    flat = not any(not n.startswith("layers.") for n in arrays)
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        start, _, last = name.rpartition(".")
        theirs = _theirs(start, last, arrays)
        if theirs is not None:
            found[theirs.removeprefix("layers.") if flat else theirs] = _packed(start, last, arrays, array)
    return found


def _theirs(start: str, last: str, arrays: Mapping[str, Array]) -> str | None:
    """PyTorch's name of a variable; None of what goes into another's."""
    kind = {"w": "weight", "b": "bias"}.get(last[:1], "")
    head = f"{start}." if start else ""
    if re.fullmatch(r"[wb]_[ih]h", last):
        found = re.fullmatch(r"(.*?)(?:(layer|mirror)\.)?layers\.(\d+)", start)
        two = found is not None and found[2] and f"{found[1]}mirror.layers.0.w_ih" in arrays
        if found is not None:
            before = found[1] if two or not found[2] else f"{found[1]}{found[2]}."
            return f"{before}{kind}_{last[2:]}_l{found[3]}{'_reverse' if two and found[2] == 'mirror' else ''}"
    if re.fullmatch(r"[wb]_[qkvo]", last) and f"{head}w_o" in arrays:
        return (f"{head}out_proj.{kind}" if last[2] == "o" else f"{head}in_proj_{kind}" if last[2] == "q" else None)
    return f"{head}weight" if last == "slope" else f"{head}{last}"


def _packed(start: str, last: str, arrays: Mapping[str, Array], array: Array) -> Array:
    """The value: of attention's queries with the keys' and values' behind them."""
    head = f"{start}." if start else ""
    if last not in ("w_q", "b_q") or f"{head}w_o" not in arrays:
        return array
    parts = [arrays[f"{head}{last[0]}_{c}"] for c in "qkv"]
    if len({p.shape for p in parts}) > 1:
        raise ConfigError(
            f"to_torch_state_dict: expected queries, keys and values of one size at {start!r}; got shapes "
            f"{', '.join(str(p.shape) for p in parts)}.")
    return np.concatenate(parts)
