"""The text of a program, made of files of cl_kernels and of what is written for one fusion."""

from __future__ import annotations

import functools
import importlib.resources
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.size import MARKED, Size, divides, in_text, same
from . import c_types as ct
from .emit import DECLARED, PASSED, Params, integer_helpers
from .fusion import Fusion

if TYPE_CHECKING:
    from ..device.devices import Device


@dataclass
class Source:
    """A program to build and how to launch it; `sizes` are its last arguments."""

    name: str
    text: str
    params: Params
    grid: tuple[int, ...]
    group: tuple[int, ...] | None
    note: str = ""
    sizes: tuple[Size, ...] = ()

    def __post_init__(self) -> None:
        """Sizes that vary leave the text: they become arguments, in the order in which they stand there."""
        sizes = in_text(self.text)
        if not sizes and DECLARED not in self.text:
            return
        names = {str(s): f"g_size{k}" for k, s in enumerate(sizes)}
        text = MARKED.sub(lambda m: names[m[0]], self.text)
        text = text.replace(DECLARED, "".join(f", const int {name}" for name in names.values()))
        self.text = text.replace(PASSED, "".join(f", {name}" for name in names.values()))
        self.sizes = tuple(sizes)


@functools.cache
def kernel_file(name: str) -> str:
    """The text of a file of cl_kernels, with what it includes from there in place."""
    text = importlib.resources.files("cl_kernels").joinpath(name).read_text("utf-8")
    return re.sub(r'^#include "(.+)"$', lambda m: kernel_file(m[1]), text, flags=re.MULTILINE)


def template(stem: str, **fields: object) -> str:
    """A skeleton from cl_kernels/templates with its fields filled in."""
    return string.Template(kernel_file(f"templates/{stem}.cl")).substitute({k: str(v) for k, v in fields.items()})


def share(name: str, at: int, step: int, size: int) -> str:
    """C that declares the ends name0 and name1 of a work-item's share of [0, size), `step` numbers: that of its place
    along dimension `at` of the grid.
    """
    start = "0" if same(step, size) else f"get_global_id({at}) * {step}"
    return f"const size_t {name}0 = {start}, {name}1 = {until(f'{name}0', step, size)};"


def until(start: str, step: int, size: int) -> str:
    """The end in C of the `step` numbers of [0, size) from `start` on, a multiple of step. Without min: a call."""
    if same(step, size):
        return str(size)
    end = f"{start} + {step}"
    return end if divides(step, size) else f"({end} < {size} ? {end} : {size})"


def indent(lines: list[str], depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines)


def finish(text: str, device: Device, params: Params) -> str:
    """Puts the definitions that the text needs in front of it: helpers, and functions of ops of somebody's own."""
    text = "\n".join([*params.functions.values(), text])
    integers, sums = integer_helpers(text), kernel_file("include/sums.h") if "TWO_SUM(" in text else ""
    tiles = kernel_file("include/transpose.h") if "TRANSPOSE(" in text else ""
    parts = (ct.helpers(text + integers, device), _functions(text, device), integers, sums, tiles, text)
    return "\n".join(part for part in parts if part)


def _functions(text: str, device: Device) -> str:
    """include/functions.h for each type that the text calls its functions with."""
    types = {t for _, t in ct.mentions(text, ct.FUNCTIONS, r"((?:float|double)\d*)\(")}
    return "\n".join(_functions_of(t, device.is_cpu) for t in sorted(types))


def _functions_of(real: str, slow_calls: bool) -> str:
    as_int = re.sub("float|double", "as_int", real)
    body = kernel_file("include/functions.h").replace("REAL", real).replace("as_INT", as_int)
    defines = {"SINGLE": int(real.startswith("float")), "SLOW_CALLS": int(slow_calls)}
    return "".join([*(f"#define {name} {value}\n" for name, value in defines.items()), body,
                    "\n".join(f"#undef {name}" for name in defines)])


def kernel_name(fusion: Fusion) -> str:
    """A readable kernel name: the ops it computes, cores first."""
    names = [n.op.name for n in (*fusion.cores, *fusion.stores) if n.op]
    return re.sub(r"\W", "_", "_".join(dict.fromkeys(names))[:48]) or "copy"
