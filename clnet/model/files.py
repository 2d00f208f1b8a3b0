"""Models and checkpoints as safetensors files: never a pickle, a checksum for every tensor,
old or new file but never half of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import reprlib
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..config.fields import parse_json
from ..core.spec import dtype_name, is_float, np_dtype
from ..core.state import Arena, Parameter, Variable, changed
from ..core.tensor import Operators, TensorLike, tensor
from ..errors import CheckpointError, ClnetError, ConfigError
from ..layers.base import Layer
from ..names import ending_of_path
from ..names import guide as _guide

NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
# Suffixes of other programs' files: what is written here is safetensors, whatever the name says.
OTHERS = {".h5": "HDF5", ".hdf5": "HDF5", ".keras": "Keras", ".pt": "PyTorch", ".pth": "PyTorch", ".bin": "PyTorch",
          ".ckpt": "PyTorch", ".onnx": "ONNX", ".pkl": "pickle", ".pickle": "pickle", ".joblib": "joblib",
          ".npz": "NumPy", ".npy": "NumPy", ".json": "JSON", ".pb": "TensorFlow"}
STALE = 3600.0  # [s] a temporary file this old has no writer any more
FROM_FILE = {"BOOL": "bool", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
             **{f"{u}{n}": f"{'u' if u == 'U' else ''}int{n}" for u in "IU" for n in (8, 16, 32, 64)}}


# --- the container
def write(path: str | Path, arrays: Mapping[str, np.ndarray[Any, Any]], meta: Mapping[str, str]) -> None:
    """Arrays and texts into one file, atomically. Raises CheckpointError when it cannot be written."""
    import safetensors.numpy

    path = _path(path, "save")
    whole = {}
    for name, array in arrays.items():
        if not NAME.match(name):
            raise CheckpointError(
                f"save: expected names of letters, digits, '_', '.' and '-'; got {name!r}; rename the layer or node.")
        # safetensors writes what lies in memory, whatever the strides
        whole[name] = np.asarray(array, np_dtype(dtype_name(array.dtype)), order="C")
    sums = {name: _digest(array) for name, array in whole.items()}
    data = safetensors.numpy.save(whole, {**meta, "sha256": json.dumps(sums)})
    _refuse_special(path)
    try:
        _write_atomically(path, data)
    except OSError as error:
        raise CheckpointError(f"save({path.name}): {_unwritable(path, error)}") from None


def _path(path: str | Path, who: str) -> Path:
    try:
        found = Path(path)
    except TypeError:
        found = Path()
    if not found.name:
        raise CheckpointError(f"{who}: expected the path of a file; got {reprlib.repr(path)}.")
    return found


def _refuse_special(path: Path) -> None:
    """A file that replaces a device or a pipe would take it from every other program."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):  # a name too long is none
        raise CheckpointError(f"save({path.name}): expected a file, or a new name; got a device, pipe or socket, "
                              f"{str(path)!r}; give another name.")


def _unwritable(path: Path, error: OSError) -> str:
    if not path.parent.is_dir():
        folder = repr(str(path.parent))
        return f"expected a folder that exists; got {folder}; create it: Path({folder}).mkdir(parents=True)."
    if os.path.isdir(path):
        return f"expected the path of a file; got a folder; give it a name: {str(path / 'model.safetensors')!r}."
    left = "; the old file is as it was." if os.path.exists(path) else "."
    return f"expected a place to write to; got: {error.strerror or error}{left}"


def _digest(array: np.ndarray[Any, Any]) -> str:
    """Of dtype and shape too: a header that reads the same bytes another way is as wrong as other bytes."""
    found = hashlib.sha256(f"{dtype_name(array.dtype)}{list(array.shape)}".encode())
    # bfloat16 has no buffer protocol; bytes have.
    found.update(np.asarray(array, order="C").reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def _write_atomically(path: Path, data: bytes) -> None:
    _sweep(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    # O_EXCL: a name that somebody put there before us is not followed and not overwritten.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sweep(path: Path) -> None:
    """Removes what a killed process left of this file."""
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE:
                left.unlink()


def read(path: str | Path) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """(arrays, texts) of a file that `write` made. Raises CheckpointError for anything else, or a single changed bit.
    """
    import safetensors

    path = _path(path, "load")
    who = f"load({path.name})"
    try:
        data = path.read_bytes()
        found = safetensors.deserialize(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        meta = header.get("__metadata__", {})
        if "sha256" not in meta:
            raise CheckpointError(
                f"{who}: expected a file that clnet wrote; got tensors without checksums; "
                "give them to model.load as arrays by name: model.load(safetensors.numpy.load_file(path)).")
        sums = json.loads(meta["sha256"])
    except OSError as error:
        raise CheckpointError(f"{who}: {_unreadable(path, error)}") from None
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{who}: expected a whole safetensors file with checksums; "
            f"got {_what(path, data)}: {str(error)[:200]}; it is damaged or not ours.") from None
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, entry in found:
        if entry["dtype"] not in FROM_FILE:
            raise CheckpointError(f"{who}: expected dtypes {', '.join(FROM_FILE)}; got {entry['dtype']} for {name!r}.")
        array = np.frombuffer(entry["data"], np_dtype(FROM_FILE[entry["dtype"]])).reshape(entry["shape"])
        if not isinstance(sums, dict) or name in arrays or sums.get(name) != _digest(array):
            raise CheckpointError(
                f"{who}: expected tensor {name!r} as its checksum says; got something else; the file is damaged.")
        arrays[name] = array
    if missing := sums.keys() - arrays.keys():
        raise CheckpointError(
            f"{who}: expected tensors {', '.join(sorted(missing))}; got a file without them; it is damaged.")
    return arrays, {k: v for k, v in meta.items() if k != "sha256"}


def _unreadable(path: Path, error: OSError) -> str:
    if not path.parent.is_dir():
        return f"expected a readable file; got a folder that does not exist, {str(path.parent)!r}."
    if not path.exists():
        return f"expected a readable file; got a name that is not in {str(path.parent)!r}{ending_of_path(path)}"
    return f"expected a readable file; got: {error.strerror or error}."


def _what(path: Path, data: bytes) -> str:
    if path.suffix in OTHERS:
        return f"a file named as {OTHERS[path.suffix]}'s"
    return "an error" if data else "an empty file"


# --- the values of a model
class Holder(Protocol):
    """What has variables by name: a model, or a loss that is trained."""

    def variables(self) -> Mapping[str, Variable]:
        """Parameters and buffers by their path."""


def values(model: Holder) -> dict[str, np.ndarray[Any, Any]]:
    """Every parameter and buffer on the host, by path; an arena comes over in one piece."""
    flat: dict[int, np.ndarray[Any, Any]] = {}
    found = {}
    for name, v in model.variables().items():
        arena: Arena | None = getattr(v, "arena", None)
        if arena is None:
            found[name] = np.array(v.numpy(), np_dtype(v.dtype))
            continue
        if id(arena) not in flat:
            flat[id(arena)] = np.asarray(arena.flat.numpy(), np_dtype(arena.dtype))
        start = arena.offsets[v.part]  # type: ignore[attr-defined]
        found[name] = flat[id(arena)][start : start + v.size].reshape(v.shape).copy()
    return found


def set_values(model: Holder, arrays: Mapping[str, np.ndarray[Any, Any]], who: str = "load",
               source: str = "the file") -> None:
    """Gives every parameter and buffer its value. Raises one CheckpointError that lists all names missing,
    extra or of another shape or dtype.
    """
    variables = model.variables()
    check(variables, arrays, who, source)
    arenas: dict[int, tuple[Arena, dict[int, Any]]] = {}
    for name, v in variables.items():
        arena: Arena | None = getattr(v, "arena", None)
        if arena is None:
            put(v, arrays[name])
        else:
            arenas.setdefault(id(arena), (arena, {}))[1][v.part] = arrays[name]  # type: ignore[attr-defined]
    for arena, parts in arenas.values():
        arena.load([parts.get(k, value) for k, value in enumerate(arena.values())])


def put(v: Variable, array: np.ndarray[Any, Any]) -> None:
    """A loaded value: a leaf, so nothing is recorded."""
    v.assign(tensor(np.array(array), v.dtype))


def check(variables: Mapping[str, Any], arrays: Mapping[str, Any], who: str, source: str = "the file") -> None:
    """Raises CheckpointError unless names, shapes and dtypes agree."""
    wrong = []
    if missing := [n for n in variables if n not in arrays]:
        wrong.append(f"missing {', '.join(sorted(missing))}")
    if extra := [n for n in arrays if n not in variables]:
        wrong.append(f"not in the model {', '.join(sorted(extra))}")
    for name, v in variables.items():
        if name in arrays:
            shape, dtype = arrays[name].shape, dtype_name(arrays[name].dtype)
            if (shape, dtype) != (v.shape, v.dtype):
                wrong.append(f"{name} is {v.dtype}{list(v.shape)} in the model and {dtype}{list(shape)} in {source}")
    if wrong:
        raise CheckpointError(
            f"{who}: expected the tensors of this model; "
            f"got {'; '.join(wrong)}; load it into the model that it was saved from.")


def held(model: Layer) -> list[Variable]:
    """Everything that changes when the model trains: arenas with what optimizers keep beside them,
    other variables, random counters.
    """
    found: dict[int, Variable] = {}
    for v in model.variables().values():
        arena: Arena | None = getattr(v, "arena", None)
        found |= {id(w): w for w in ([v] if arena is None else [arena.flat, *arena.memory.values()])}
    return [*found.values(), *(g.counter for g in model.generators()), *states(model).values()]


def states(model: Layer) -> dict[str, Variable]:
    """What calls leave for later ones, by path: variables in dicts of layers. It belongs to a run, which checkpoints
    hold, and not to the model, which files hold.
    """
    return {f"{path}.{n}": v for path, kept in _dicts(model) for n, v in kept.items() if isinstance(v, Variable)}


def set_states(model: Layer, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """The inverse of `states`, also where no call has made them yet."""
    for path, kept in _dicts(model):
        for name, array in arrays.items():
            n = name.removeprefix(f"{path}.")
            if n == name:
                continue
            if n in kept and kept[n].shape == array.shape:
                put(kept[n], array)
            else:
                kept[n] = Variable(array, n)
                changed()


def _dicts(model: Layer) -> list[tuple[str, dict[str, Any]]]:
    """The dicts of layers that hold variables or nothing yet, by path."""
    return [(f"{path}.{name}".lstrip("."), value) for path, layer in layers(model).items()
            for name, value in vars(layer).items()
            if isinstance(value, dict) and all(isinstance(v, Variable) for v in value.values())]


# --- models
def check_name(path: Path) -> None:
    """CheckpointError for a name that says another format than that which `save` writes."""
    if path.suffix.lower() in OTHERS:
        raise CheckpointError(
            f"save({path.name}): expected a name that ends in .safetensors, which the file is; got {path.suffix}, as "
            f"{OTHERS[path.suffix.lower()]} has it; write {path.with_suffix('.safetensors').name!r}.")


def save(model: Layer, path: str | Path) -> None:
    """The model's configuration and values in one file. Raises ConfigError where the model has
    no size yet, CheckpointError.
    """
    path = _path(path, "save")
    check_name(path)
    if unbuilt := _unbuilt(model):
        raise ConfigError(
            f"save: expected a built model; got {unbuilt} without sizes; call it once, or model.build(shape).")
    write(path, values(model), {"format": "clnet 1", "config": json.dumps(model.config(), separators=(",", ":"))})


def load_into(model: Layer, source: str | Path | Mapping[str, TensorLike]) -> None:
    """Values from a file, or arrays by path, into a model of the same structure. Raises CheckpointError."""
    if isinstance(source, Mapping):
        if unbuilt := _unbuilt(model):
            raise ConfigError(
                f"load: expected a built model; got {unbuilt} without sizes; call it once, or model.build(shape).")
        set_values(model, _arrays(source, model.variables()), "load", "what was given")
        return
    if hasattr(source, "variables"):
        raise CheckpointError("load: expected the path of a file, or arrays by name; got a network; "
                              "model.load_weights(other) takes its values.")
    path = _path(source, "load")
    arrays, meta = read(path)
    if "config" not in meta:
        raise CheckpointError(
            f"load({Path(path).name}): expected a saved model; "
            f"got {meta.get('format', 'another file')!r}; checkpoints go to fit(resume=).")
    set_values(model, arrays, f"load({Path(path).name})")


def _arrays(given: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """On the host; floats in the precision in which the model keeps them."""
    found = {}
    for name, value in given.items():
        try:
            array = np.asarray(value.numpy() if isinstance(value, Operators) else value)
        except (TypeError, ValueError, RuntimeError) as error:
            # another library's tensor that is on its device, or records gradients
            raise CheckpointError(
                f"load: expected arrays by name; got {type(value).__name__} for {name!r} ({error}).") from None
        wanted = variables[name].dtype if name in variables else ""
        floats = is_float(wanted) and is_float(dtype_name(array.dtype))
        found[str(name)] = array.astype(np_dtype(wanted)) if floats else array
    return found


def _unbuilt(model: Layer) -> str:
    return ", ".join(n for n, layer in layers(model).items() if not layer.built)


def load(path: str | Path) -> Layer:
    """The model in a file, rebuilt from the configuration inside. Raises CheckpointError;
    runs nothing that the file says.
    """
    arrays, meta = read(path)
    who = f"load({Path(path).name})"
    try:
        model: Layer = Layer.from_config(parse_json(meta["config"], who))
    except KeyError:
        raise CheckpointError(
            f"{who}: expected a configuration inside; got none; make the model and call model.load(path).") from None
    except ClnetError as error:
        raise CheckpointError(f"{who}: expected a configuration that this version reads; got: {error}") from None
    for name, v in model.variables().items():
        if isinstance(v, Parameter) and name in arrays and is_float(kept := dtype_name(arrays[name].dtype)):
            v.convert(kept)
    set_values(model, arrays, who)
    return model


def layers(model: Layer, prefix: str = "") -> dict[str, Layer]:
    """Every layer in the model by its path, the model itself under "" first, shared ones once."""
    found: dict[str, Layer] = {prefix.rstrip("."): model}
    for name, child in model.children().items():
        for path, layer in layers(child, f"{prefix}{name}.").items():
            if not any(layer is known for known in found.values()):
                found[path] = layer
    return found


_guide(__name__)
