"""Which kernels run, with which tiles and grids, is as tests/golden/kernel_choice.txt has it.

The devices are only described, so that every machine sees the choices of all. The file changes only with a choice that
was meant to change.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.resources
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from clnet.core.op import OPS, Kernel
from clnet.core.spec import Spec
from clnet.workbench.played import device

MAKERS = Path(__file__).resolve().parents[2] / "golden"
SHOWN = 3  # choices that a failure prints in full
NOT_OF_OPS = {"peak.cl", "self_test.cl"}  # kernels that measure and check a device: no op launches them


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that writes the file."""
    monkeypatch.syspath_prepend(str(MAKERS))
    return importlib.import_module("make_kernel_choice")


def differences(maker: ModuleType, wanted: Mapping[tuple[str, str], str]) -> str:
    """What is chosen otherwise than `wanted` says, for people; "" where all is the same."""
    texts, counts = list[str](), Counter[str]()
    for problem, profile, choice in maker.choices():
        before = wanted.get((str(problem), profile))
        if maker.line(choice) != before:
            counts[problem.op] += 1
            texts.append(f"{problem}\n  on {profile}: {before or 'not in the file'}\n"
                         f"  now: {maker.line(choice)}\n{maker.shown(choice)}")
    if not texts:
        return ""
    return "\n\n".join([
        f"{counts.total()} choices of kernels are not those of {maker.FILE.name}: {dict(counts)}. The first:",
        *texts[:SHOWN],
        f"If they are meant to change, write the file anew with `{maker.COMMAND}`, and look at its diff."])


def test_the_same_kernels_are_chosen(maker: ModuleType) -> None:
    assert not (found := differences(maker, maker.read(maker.FILE.read_text("utf-8")))), found


def test_an_accelerator_is_taken_for_a_cpu(maker: ModuleType) -> None:
    cpu = device("avx512")
    accelerator = dataclasses.replace(cpu, kind="accelerator")
    with maker.no_own_numbers():
        assert [str(p) for p in maker.problems().values() if maker.stages(p, cpu) != maker.stages(p, accelerator)] == []


def test_the_file_is_of_these_problems_and_devices(maker: ModuleType) -> None:
    kept, wanted = maker.read(maker.FILE.read_text("utf-8")), set(itertools.product(maker.problems(), maker.PROFILES))
    assert kept.keys() == wanted, f"write it anew with `{maker.COMMAND}`"
    assert maker.FILE.read_text("utf-8") == maker.written(kept) and maker.FILE.stat().st_size < 1_000_000


def test_problems_are_calls_of_every_op_with_kernels(maker: ModuleType) -> None:
    problems, kernels = maker.problems().values(), [op for op in OPS.values() if isinstance(op, Kernel)]
    assert len(problems) > 500 and len(maker.PROFILES) > 6
    assert {p.op for p in problems} == {op.name for op in kernels if op.launch is not None}
    assert {p.op for p in problems if p.both} == {op.name for op in kernels if op.launch_both is not None}
    for p in problems:
        specs = [Spec(g.shape, g.dtype) for g in p.operands]
        OPS[p.op].infer(*specs, **p.attrs)  # raises where the op does not take them


def test_every_kernel_is_chosen_somewhere(maker: ModuleType) -> None:
    chosen = {(f"{file}.cl", kernel) for choice in maker.read(maker.FILE.read_text("utf-8")).values()
              for file, kernels in re.findall(r"(\w+)/([\w,]+)", choice) for kernel in kernels.split(",")}
    files = {f.name: f.read_text("utf-8") for f in importlib.resources.files("cl_kernels").iterdir()
             if f.name.endswith(".cl")}
    there = {(name, kernel) for name, text in files.items() if name not in NOT_OF_OPS
             for kernel in re.findall(r"__kernel\s+(?:.*\s)?void\s+(\w+)\(", text)}
    assert {name for name, _ in chosen} == files.keys() - NOT_OF_OPS
    assert not there - chosen, "no problem takes these kernels"


@pytest.mark.parametrize("change", [dict(defines="one more"), dict(grid=(12345,)), dict(note="another"),
                                    dict(scratch={"partial": 4}), dict(lanes=3)], ids=str)
def test_a_change_is_found(maker: ModuleType, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]) -> None:
    few = {k: p for k, p in maker.problems().items() if p.op in ("softmax", "sum_pool")}
    wanted = maker.read(maker.FILE.read_text("utf-8"))
    monkeypatch.setattr(maker, "problems", lambda: few)
    assert not differences(maker, wanted)
    monkeypatch.setattr(OPS["softmax"], "launch", _changed(OPS["softmax"].launch, change))
    found = differences(maker, wanted)
    assert "{'softmax': " in found and "sum_pool" not in found, "of all that changed, and nothing else"
    assert "softmax float32[5,7] axis=-1\n  on avx2: normalize/rows " in found and "'N': '7'" in found
    assert maker.COMMAND in found


def _changed(launch: Callable[..., object] | None, change: dict[str, object]) -> Callable[..., object]:
    """The launch function with one thing changed in the first stage of all that it gives back."""

    def other(*args: object, **attrs: object) -> object:
        assert launch is not None
        stages = launch(*args, **attrs)
        if not isinstance(stages, list):
            return stages
        mine = {"defines": {**stages[0].defines, "CHUNK": 12345}} if "defines" in change else change
        return [dataclasses.replace(stages[0], **mine), *stages[1:]]

    return other


def test_numbers_of_this_machine_do_not_count(maker: ModuleType, monkeypatch: pytest.MonkeyPatch,
                                              tmp_path: Path) -> None:
    (tmp_path / "tuning").mkdir()
    (tmp_path / "tuning" / "nvidia-h200.json").write_text('{"ops": {"matmul": {"": {"thin": 100000}}}}')
    key, kept = "matmul float32[1024,1024] float32[1024,1024]", maker.read(maker.FILE.read_text("utf-8"))
    problem = maker.problems()[key]
    again = {**maker.PROFILES["h200"], "name": "nvidia   h200"}  # a name whose table has not been read yet
    monkeypatch.setattr(maker, "problems", lambda: {key: problem})
    monkeypatch.setitem(maker.PROFILES, "h200 again", again)
    monkeypatch.setattr(maker, "PROFILES", {"h200 again": again})
    monkeypatch.setenv("CLNET_CACHE_DIR", str(tmp_path))
    assert not differences(maker, {(key, "h200 again"): kept[key, "h200"]})
