"""docs/kernels.md: which hand-written kernels there are, who serves when, and the numbers that decide. Made from the
table of variants: `python -m clnet.workbench.kernel_page` writes it, a test holds it against the code.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import kernels
from ..core.op import OPS, Kernel, Op
from ..core.spec import Spec
from ..kernels import tuning
from ..kernels.choosers import Chooser
from ..kernels.operand import Operand, row_major
from ..kernels.variant import VARIANTS, Choice
from .evidence.cases import every_op
from .played import device
from .tables import markdown

PAGE = "docs/kernels.md"
SHOWN = {"avx2": "CPU, AVX2", "avx512": "CPU, AVX-512", "h200": "NVIDIA H200", "a100": "NVIDIA A100",
         "amd": "AMD gfx90a", "arc": "Intel Arc"}
_PLAIN: dict[str, Any] = dict(stride=(1, 1), low=(1, 1), high=(1, 1), dilation=(1, 1), groups=1)
_HEADS: dict[str, Any] = dict(causal=True, scale=0.125)
# op, operands, attributes: calls that networks make.
EXAMPLES: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("matmul", ("float32 64x784", "float32 784x512"), {}),
    ("matmul", ("float32 2048x2048", "float32 2048x2048"), {}),
    ("matmul", ("float32 2048x2048", "float32 2048x2048"), {"precision": "tf32"}),
    ("matmul", ("bfloat16 2048x2048", "bfloat16 2048x2048"), {}),
    ("matmul", ("float32 1x4096", "float32 4096x4096"), {}),
    ("conv", ("float32 32x64x56x56", "float32 64x64x3x3"), _PLAIN),
    ("conv", ("float32 32x3x224x224", "float32 64x3x7x7"), {**_PLAIN, "stride": (2, 2), "low": (3, 3), "high": (3, 3)}),
    ("conv", ("float32 32x64x56x56", "float32 64x1x3x3"), {**_PLAIN, "groups": 64}),
    ("conv", ("bfloat16 32x64x56x56", "bfloat16 64x64x3x3"), _PLAIN),
    ("conv_weight_gradient", ("float32 32x64x56x56", "float32 32x64x56x56"), {**_PLAIN, "size": (3, 3)}),
    ("conv_weight_gradient", ("bfloat16 32x64x56x56", "bfloat16 32x64x56x56"), {**_PLAIN, "size": (3, 3)}),
    ("attention", ("float32 8x12x1024x64",) * 3, _HEADS),
    ("attention", ("float32 8x12x1024x64",) * 3, {**_HEADS, "precision": "bf16"}),
    ("attention", ("bfloat16 8x12x1024x64",) * 3, {**_HEADS, "narrow": "bfloat16"}),
    ("softmax", ("float32 4096x1024",), {"axis": -1}),
    ("softmax", ("float32 4x1048576",), {"axis": -1}),
    ("max_pool", ("float32 32x64x112x112",),
     {k: _PLAIN[k] for k in ("stride", "low", "high", "dilation")} | {"size": (3, 3)}),
    ("recurrence", ("float32 28x128x512", "float32 2x128x128", "float32 512x128", "float32 512"),
     {"cell": "lstm", "reverse": False}),
    ("recurrence", ("float32 28x128x4096", "float32 2x128x1024", "float32 4096x1024", "float32 4096"),
     {"cell": "lstm", "reverse": False}),
]
SAID = ("precision", "stride", "groups", "size", "cell")  # attributes that a row names
HEAD = """# Kernels: who serves when

Made by `python -m clnet.workbench.kernel_page`. Not written by hand.

A kernel is a file of `cl_kernels/` and a Python file of the same stem in `clnet/kernels/`, which holds its *variants*:
functions that are asked whether they serve a problem on a device. They answer with an offer (the launches, and how long
they take by estimate) or a refusal with its reason. Variants are asked rank by rank; the first rank with an offer
serves, by its shortest offer. Where all refuse, the op's formula serves, from simpler kernels.
`clnet.explain(y).choices` says it for the ops of one's own on the device in use.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD, *(part for family in families() for part in _family(family)), "## Numbers\n", *_numbers()]
    return "\n".join(parts).rstrip() + "\n"


def families() -> list[str]:
    """All families of kernels, with the choosers that ask them."""
    every_op()  # all modules of ops are imported: their choosers are there
    for package in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"{kernels.__name__}.{package.name}")
    return sorted(VARIANTS)


def _family(family: str) -> Iterator[str]:
    served = [name for name, op in sorted(OPS.items()) if any(c.family == family for c in _choosers(op))]
    yield f"## {family}\n"
    yield f"Serves {', '.join(f'`{name}`' for name in served)}.\n"
    yield markdown({"rank": v.rank, "variant": v.name, "file": v.cl, "serves": v.serves}
                   for v in VARIANTS[family]) + "\n"
    if rows := [_row(op, shapes, attrs) for op, shapes, attrs in EXAMPLES if op in served]:
        yield markdown(rows) + "\n"


def _choosers(op: Op) -> list[Chooser]:
    return [c for c in (op.launch, op.launch_both) if isinstance(c, Chooser)] if isinstance(op, Kernel) else []


def _row(op: str, shapes: Sequence[str], attrs: Mapping[str, Any]) -> dict[str, str]:
    said = ", ".join([*shapes, *(f"{k}={v}" for k, v in attrs.items() if k in SAID)])
    return {"call": f"{op}({said})",
            **{words: _taken(choice(op, shapes, attrs, profile)) for profile, words in SHOWN.items()}}


def choice(op: str, shapes: Sequence[str], attrs: Mapping[str, Any], profile: str) -> Choice:
    """Who serves contiguous operands, written as "float32 64x32", on a played device."""
    known = OPS[op]
    assert isinstance(known, Kernel) and isinstance(known.launch, Chooser)
    chooser = known.launch
    specs = [Spec(tuple(map(int, sizes.split("x"))), dtype) for dtype, sizes in (s.split(" ") for s in shapes)]
    return chooser.choice(device(profile), [Operand(s, row_major(s.shape)) for s in specs], **attrs)


def _taken(found: Choice) -> str:
    return found.taken.name if found.taken is not None else "formula"


def _numbers() -> Iterator[str]:
    yield ("Defaults for every device (`clnet/kernels/defaults.json`); a table of `cl_kernels/tuning/`, or what "
           "`clnet tune` found, goes before.\n")
    for section in tuning.sections():
        about, values = tuning.meanings(section), tuning.defaults(section)
        yield f"<details><summary>{section}</summary>\n"
        yield markdown({"number": name, "default": _short(values[name]), "meaning": about[name]}
                       for name in values) + "\n"
        yield "</details>\n"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:56]} ..."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m clnet.workbench.kernel_page",
                                     description="Writes docs/kernels.md.")
    parser.add_argument("path", nargs="?", default=PAGE, help="where to (default: %(default)s)")
    path = Path(parser.parse_args().path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(), encoding="utf-8")
    print(f"{path}: {len(VARIANTS)} families, {sum(map(len, VARIANTS.values()))} variants")


if __name__ == "__main__":
    main()
