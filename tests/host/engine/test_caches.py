"""Sizes of caches, as Linux tells them, and what they do to the numbers of kernels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from clnet.engine.device.caches import Caches, of_the_system
from clnet.kernels import tuning
from clnet.workbench.played import device

TOLD = {"index0": ("Data", "1", "48K"), "index1": ("Instruction", "1", "32K"), "index2": ("Unified", "2", "2M"),
        "index3": ("Unified", "3", "unknown")}


def test_the_system_is_asked(tmp_path: Path) -> None:
    assert of_the_system(tmp_path / "nothing") == Caches()
    for index, texts in TOLD.items():
        (tmp_path / index).mkdir()
        for name, text in zip(("type", "level", "size"), texts, strict=True):
            (tmp_path / index / name).write_text(text + "\n")
    (tmp_path / "index4").mkdir()  # a machine that tells less
    assert of_the_system(tmp_path) == Caches(48 << 10, 2 << 20, 0)


def test_what_the_runtime_tells_fills_what_is_unknown() -> None:
    assert Caches(32 << 10).known(2, 512 << 10) == Caches(32 << 10, 512 << 10)
    assert Caches(l2=1 << 20).known(2, 512 << 10) == Caches(l2=1 << 20)
    assert Caches().known(0, 512 << 10) == Caches(), "the runtime's level is not known"


@pytest.mark.parametrize(("l2", "scratch"), [(512 << 10, 256 << 10), (2 << 20, 512 << 10), (0, 512 << 10)])
def test_private_memory_of_products_is_half_a_cache_at_most(l2: int, scratch: int) -> None:
    played = dataclasses.replace(device("avx2"), l2_cache=l2)
    assert tuning.numbers(played, "matmul cpu")["scratch"] == scratch


def test_numbers_of_instructions_go_over_those_of_all_cpus() -> None:
    with tuning.rules_alone():
        few, many = (tuning.numbers(device(name), "matmul cpu") for name in ("avx2", "epyc"))
    assert (device("avx2").instructions, device("avx512").instructions, device("arm").instructions,
            device("h200").instructions) == ("avx2", "avx512", "", "")
    assert few["broadcast"] > many["broadcast"] == 0
    assert few.keys() == many.keys()
