"""Variants of kernels: a row of the table is a function in a Python file beside a .cl file,
and says why it does not serve.
"""

from __future__ import annotations

import re

import pytest

from clnet.core.spec import Spec
from clnet.engine.device.devices import Device
from clnet.kernels import attention, conv, matmul
from clnet.kernels.choosers import CONVOLUTION
from clnet.kernels.operand import Operand, row_major
from clnet.kernels.variant import VARIANTS, Choice, Refusal
from clnet.workbench.played import device

HOW: dict[str, object] = dict(stride=(1, 1), low=(1, 1), high=(1, 1), dilation=(1, 1), groups=1)


def operands(*given: str) -> list[Operand]:
    """Of texts as "float32 2x16x8x8"."""
    specs = [Spec(tuple(map(int, shape.split("x"))), dtype) for dtype, shape in (text.split() for text in given)]
    return [Operand(spec, row_major(spec.shape)) for spec in specs]


def chosen(profile: str, *given: str, **how: object) -> Choice:
    """Who serves conv."""
    played: Device = device(profile)
    return CONVOLUTION.choice(played, operands(*given), **HOW | how)


@pytest.mark.parametrize(("package", "families"), [(conv, ("conv", "conv_weight_gradient")), (matmul, ("matmul",)),
                                                   (attention, ("attention",))], ids=["conv", "matmul", "attention"])
def test_a_package_says_who_serves_when(package: object, families: tuple[str, ...]) -> None:
    rank, told = "", list[tuple[int, str, str]]()
    for given, name, file in re.findall(r"^ +(\d?) +(\w+) +(\w+\.cl)", package.__doc__ or "", re.MULTILINE):
        rank = given or rank
        told.append((int(rank), name, file))
    assert sorted(told) == sorted((v.rank, v.name, v.cl) for family in families for v in VARIANTS[family])


@pytest.mark.parametrize(
    ("profile", "given", "how", "name"),
    [
        ("avx512", ("float32 8x64x28x28", "float32 64x64x3x3"), {}, "winograd"),
        ("avx512", ("float32 8x512x3x3", "float32 512x512x3x3"), {}, "deep"),  # more weights than results
        ("avx512", ("float32 32x512x4x4", "float32 512x512x3x3"), {}, "winograd"),
        ("avx512", ("float32 8x64x28x28", "float32 64x1x3x3"), {"groups": 64}, "plane"),
        ("avx512", ("float32 8x64x28x28", "float32 64x64x3x3"), {"stride": (2, 2)}, "blocks"),
        ("h200", ("bfloat16 8x16x28x28", "bfloat16 16x16x3x3"), {}, "mma"),
        ("h200", ("bfloat16 8x128x28x28", "bfloat16 128x128x3x3"), {}, "wgmma"),
        ("amd", ("float32 8x64x28x28", "float32 64x1x3x3"), {"groups": 64}, "direct"),
        ("amd", ("float32 8x64x28x28", "float32 64x64x3x3"), {"stride": (2, 2)}, "tiles"),
    ],
    ids=str,
)
def test_who_serves_convolutions(profile: str, given: tuple[str, str], how: dict[str, object], name: str) -> None:
    found = chosen(profile, *given, **how)
    assert found.taken is not None and found.taken.name == name and found.stages
    assert {v.name for v, _ in found.others} == {v.name for v in VARIANTS["conv"]} - {name}


def test_refusals_are_in_words() -> None:
    why = {v.name: text for v, text in chosen("amd", "float64 8x64x28x28", "float64 64x64x3x3").others}
    assert why["mma"] == "needs tensor cores of compute capability 8.0 or more"
    assert why["winograd_gpu"] == "float32 only" and why["blocks"] == "tiles goes before"
    assert why["direct"] == "more than 8 result channels a group: tiles are faster"
    assert "cycles, winograd" in str(chosen("amd", "float32 8x64x28x28", "float32 64x64x3x3"))
    nobody = chosen("avx2", "float32 8x64x28x28", "float32 64x64x1x1", low=(0, 0), high=(0, 0))
    assert nobody.stages is None and "1x1 without steps or border" in str(nobody)
    few = "float32 8x512x3x3", "float32 512x512x1x1"  # nine pixels: a product leaves lanes empty
    assert chosen("avx512", *few, low=(0, 0), high=(0, 0)).taken is not None
    for profile, data in (("avx512", "float32 1x512x3x3"), ("avx512", "float32 2x64x3x3"), ("h200", few[0])):
        weight = f"float32 512x{data.split('x')[1]}x1x1"
        assert chosen(profile, data, weight, low=(0, 0), high=(0, 0)).taken is None
    taps = conv.weight_gradient(operands("float32 1x4x9x9", "float32 1x4x20x20"), size=(12, 12), **HOW)
    assert taps == Refusal("more than 128 taps")
