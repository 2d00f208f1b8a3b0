"""Numbers of kernels are data. For an op on a device they come, later ones over earlier, from

    clnet/kernels/defaults.json     for every device, with what each number means: {"ops": {section: {number: {value,
                                    about}}}}; a section is an op's name, or that and the kind of device ("matmul cpu"),
                                    over which go that of a CPU's instructions ("matmul cpu avx2") and of its maker
                                    ("matmul cpu avx512 intel"). A number with
                                    "l2": share is at most so much of a core's second-level cache, if its size is known
    cl_kernels/tuning/<name>.json   shipped: by the device's name ("NVIDIA H200" -> nvidia-h200), or for CPUs by runtime
                                    and vector width ("intel-cpu-16"), since a CPU's name says little, before it that of
                                    the processor's maker ("intel-cpu-16-intel")
    the user's folder               written by `clnet tune`
    overriding(...)                 what a search is trying

A file: {"device": name, "driver": ..., "made": how, "ops": {op: {"": {tunable: value}, shape class: {tunable:
value}}}}; "" holds for all shapes. Unknown devices get none, and the heuristics of the geometries serve. The user's has
"gains", too: by the same names the call that was timed, its times before and after, and the numbers of before.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..engine.device.folders import cache_root, private_folder, write_atomically

if TYPE_CHECKING:
    from ..engine.device.devices import Device

Numbers = dict[str, Any]
FOLDER = importlib.resources.files("cl_kernels").joinpath("tuning")
Tables = dict[tuple[str, str], tuple[str, Numbers]]
_shipped: Tables = {}
_own: Tables = {}
_tried: dict[tuple[str, str], Numbers] = {}
_served: set[str] | None = None
_read: list[tuple[str, str]] | None = None
_rules_alone = False


def slug(device: Device) -> str:
    """The name of a device's file."""
    name = f"{device.runtime} cpu {device.vector_width}" if device.is_cpu else device.name
    return "-".join(name.lower().split())


@functools.cache
def defaults(section: str) -> Mapping[str, Any]:
    """The numbers of a section of defaults.json, by name; read-only."""
    return MappingProxyType({name: frozen(number["value"]) for name, number in _defaults()[section].items()})


def sections() -> list[str]:
    """The sections of defaults.json."""
    return list(_defaults())


def meanings(section: str) -> dict[str, str]:
    """What each number of a section means, with its unit in brackets."""
    return {name: number.get("about", "") for name, number in _defaults()[section].items()}


@functools.cache
def _of_machine(section: str, instructions: str, maker: str, l2: int) -> Numbers:
    """Those for a maker's processors with these instructions and so many bytes of second-level cache (0: unknown)."""
    found: Numbers = {}
    for name in (section, f"{section} {instructions}", f"{section} {instructions} {maker}"):
        for number, row in _defaults().get(name, {}).items():
            most = int(l2 * row["l2"]) if "l2" in row else 0
            found[number] = min(row["value"], most) if most else frozen(row["value"])
    return found


@functools.cache
def _defaults() -> dict[str, Any]:
    text = importlib.resources.files(__package__).joinpath("defaults.json").read_text("utf-8")
    return dict(json.loads(text)["ops"])


def numbers(device: Device, section: str, shape: str = "") -> Numbers:
    """The numbers that hold for a section ("matmul cpu") on a device: defaults, overridden by what was measured."""
    if _read is not None:
        _read.append((section, shape))
    return {**_of_machine(section, device.instructions, device.maker, device.l2_cache),
            **tuned(device, section.partition(" ")[0], shape)}


def tuned(device: Any, op: str, shape: str = "") -> Numbers:
    """What was measured for an op on a device:
    its numbers for all shapes, overridden by those of a shape class, if any.
    """
    found: Numbers = {}
    places = () if _rules_alone else (("shipped", _shipped, shipped), ("own", _own, own_file))
    for where, tables, place in places:
        name, table = _read_once(tables, device, place)
        for part in dict.fromkeys(("", shape)):
            if numbers := table.get(op, {}).get(part):
                found |= numbers
                if _served is not None:
                    _served.add(f"{where} {name} {op} {part}".strip())
    return found | _tried.get((op, ""), {}) | _tried.get((op, shape), {})


def sources(device: Any, op: str, shape: str = "") -> dict[str, str]:
    """Which of an op's numbers come from a table, and from which: "shipped" or "own"."""
    return {name: where for where, tables, place in (("shipped", _shipped, shipped), ("own", _own, own_file))
            for part in ("", shape) for name in _read_once(tables, device, place)[1].get(op, {}).get(part, {})}


def _read_once(tables: Tables, device: Any, place: Callable[[Any], Any]) -> tuple[str, Numbers]:
    """The name of the device's file and its numbers."""
    key = (slug(device), device.name)
    if key not in tables:
        file = place(device)
        tables[key] = file.name.removesuffix(".json"), read(file).get("ops", {})
    return tables[key]


def shipped(device: Device) -> Any:
    """The table of this maker's processors, where one ships."""
    own = FOLDER.joinpath(f"{slug(device)}-{device.maker}.json")
    return own if device.is_cpu and own.is_file() else FOLDER.joinpath(f"{slug(device)}.json")


def own_file(device: Device) -> Path:
    return cache_root() / "tuning" / f"{slug(device)}.json"


def read(file: Any) -> dict[str, Any]:
    """A table; {} where there is none or it is damaged: speed is lost then, nothing else."""
    try:
        table = json.loads(file.read_text("utf-8"))
        ops = {str(op): {str(c): {str(k): frozen(v) for k, v in n.items()} for c, n in classes.items()}
               for op, classes in table["ops"].items()}
        return {**table, "ops": ops}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def frozen(value: Any) -> Any:
    """Lists as tuples: geometries are cached by their numbers."""
    if isinstance(value, dict):
        return {k: frozen(v) for k, v in value.items()}
    return tuple(frozen(v) for v in value) if isinstance(value, list) else value


def keep(device: Any, entry: tuple[str, str], numbers: Numbers, made: str, path: Path | None = None,
         gain: Mapping[str, Any] | None = None) -> Path:
    """Writes the numbers of (op, shape class) into the user's table, or the one given, over those of that class that
    are there; they hold from now on. `gain` says what was timed: "call", "before_ms", "after_ms".
    """
    path = path or own_file(device)
    table = read(path)
    classes = table.setdefault("ops", {}).setdefault(entry[0], {})
    before = classes.get(entry[1], {})
    classes[entry[1]] = {**before, **numbers}
    gains = table.setdefault("gains", {}).setdefault(entry[0], {})
    gains[entry[1]] = {**(gain or {}), "made": made, "numbers": numbers, "before": before}
    return _write(path, {**table, "device": device.name, "driver": device.driver, "made": made})


def undo(device: Any, entry: tuple[str, str], path: Path | None = None) -> Path:
    """Takes back what was written last for (op, shape class): the numbers of before hold from now on. KeyError where
    nothing was.
    """
    path = path or own_file(device)
    table = read(path)
    before = table.get("gains", {}).get(entry[0], {}).pop(entry[1], {}).get("before")
    del table["ops"][entry[0]][entry[1]]
    if before:
        table["ops"][entry[0]][entry[1]] = before
    return _write(path, table)


def _write(path: Path, table: dict[str, Any]) -> Path:
    parts = {part: {op: dict(sorted(c.items())) for op, c in sorted(table.get(part, {}).items()) if c}
             for part in ("ops", "gains")}
    private_folder(path.parent)
    write_atomically(path, (json.dumps({**table, **parts}, indent=1) + "\n").encode())
    _own.clear()
    _shipped.clear()
    return path


@contextlib.contextmanager
def reading() -> Iterator[list[tuple[str, str]]]:
    """Collects (section, shape class) of the numbers that are asked for inside."""
    global _read
    before, _read = _read, []
    try:
        yield _read
    finally:
        _read = before


def trying() -> bool:
    """Whether numbers serve just now that are in no table."""
    return bool(_tried)


@contextlib.contextmanager
def overriding(entry: tuple[str, str], numbers: Numbers) -> Iterator[None]:
    """Inside, these numbers serve (op, shape class) before all others. Plans made before know nothing of it."""
    before = _tried.get(entry)
    _tried[entry] = numbers
    try:
        yield
    finally:
        _tried.pop(entry)
        if before is not None:
            _tried[entry] = before


@contextlib.contextmanager
def serving() -> Iterator[set[str]]:
    """Collects the entries that plans made inside take numbers from."""
    global _served
    before, _served = _served, set()
    try:
        yield _served
    finally:
        inner, _served = _served, before
        if before is not None:
            before |= inner


@contextlib.contextmanager
def rules_alone() -> Iterator[None]:
    """Inside, no table serves, shipped or the user's: what the rules choose."""
    global _rules_alone
    before, _rules_alone = _rules_alone, True
    try:
        yield
    finally:
        _rules_alone = before
