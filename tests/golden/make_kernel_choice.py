"""Writes kernel_choice.txt beside this file: which kernels, with which geometry, the launch function of every op
chooses
on the devices of clnet.workbench.played.PROFILES.

    python tests/golden/make_kernel_choice.py                      writes the file and says what changed
    python tests/golden/make_kernel_choice.py show PROBLEM DEVICE  prints one choice in full, by the code as it is

No OpenCL is needed. A line of the file without indent is a problem; below it stand the choices: the devices that get
it ("all" of them, or all of "nvidia"), then the kernels in their order, as file/kernel,kernel, and a digest of all that
the stages say; or `refused`.
A change of the file is a change of what runs: look at the stages of both sides with `show` before writing it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernel_calls import Problem
from kernel_problems import problems

from clnet.core.op import OPS
from clnet.core.spec import Spec
from clnet.engine.device.devices import Device
from clnet.kernels.operand import Operand, row_major
from clnet.kernels.stage import Stage
from clnet.workbench.played import PROFILES, device

FILE = Path(__file__).with_name("kernel_choice.txt")
COMMAND = "python tests/golden/make_kernel_choice.py"
REFUSED = "refused"
TOGETHER = {"all": [*PROFILES], "nvidia": [p for p, facts in PROFILES.items() if facts["runtime"] == "nvidia"]}
Told = dict[str, object]  # what one stage says, in a form that doesn't depend on the order in which it was said


def stages(problem: Problem, device: Device) -> Sequence[Stage] | None:
    """What the op asks the engine to run, None where it refuses.

    The only place that calls launch functions: as engine.graph does, and engine.pairs for twins.
    """
    op = OPS[problem.op]
    operands = [Operand(Spec(g.shape, g.dtype), g.strides or row_major(g.shape), g.offset) for g in problem.operands]
    launch = op.launch_both if problem.both else op.launch
    assert launch is not None
    found: Sequence[Stage] | None = launch(device, operands, **problem.attrs)
    return found


@contextlib.contextmanager
def no_own_numbers() -> Iterator[None]:
    """Inside, the user's folder is empty: no number that was measured on this machine counts."""
    before = os.environ.get("CLNET_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CLNET_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("CLNET_CACHE_DIR")
            if before is not None:
                os.environ["CLNET_CACHE_DIR"] = before


def told(problem: Problem, profile: str) -> list[Told] | None:
    """The stages as plain values: all that sources and plans read of them."""
    found = stages(problem, device(profile))
    return None if found is None else [_told(problem, stage) for stage in found]


def _told(problem: Problem, stage: Stage) -> Told:
    return {
        "kernel": stage.kernel,
        "file": stage.file or OPS[problem.op].cl,
        "defines": {k: str(v) for k, v in sorted(stage.defines.items())},
        "grid": tuple(map(int, stage.grid)),
        "group": stage.group and tuple(map(int, stage.group)),
        "domain": tuple(map(int, stage.domain)),
        "lanes": int(stage.lanes),
        "scratch": {k: int(v) for k, v in sorted(stage.scratch.items())},
        "final": bool(stage.final),
        "stepped": bool(stage.stepped),
        "note": stage.note,
        "also": tuple(map(int, stage.also)),
        **({"kept": {k: int(v) for k, v in sorted(stage.kept.items())}} if stage.kept else {}),
    }


def line(choice: list[Told] | None) -> str:
    """A choice as the file has it."""
    if choice is None:
        return REFUSED
    files = [
        f"{str(file).removesuffix('.cl')}/{','.join(str(s['kernel']) for s in same)}"
        for file, same in itertools.groupby(choice, lambda s: s["file"])
    ]
    return " ".join([*files, hashlib.sha256(repr(choice).encode()).hexdigest()[:8]])


def shown(choice: list[Told] | None) -> str:
    """A choice in full, for people."""
    if choice is None:
        return f"    {REFUSED}"
    return "\n".join(
        f"    {name:8} {value!r}" if name != "kernel" else f"  {value}"
        for stage in choice
        for name, value in stage.items()
    )


def read(text: str) -> dict[tuple[str, str], str]:
    """(problem, profile) -> choice, of the file's text."""
    found, key = {}, ""
    for row in text.splitlines():
        if row.startswith(" "):
            profiles, choice = row.split(": ", 1)
            there = itertools.chain.from_iterable(TOGETHER.get(name, [name]) for name in profiles.split())
            found.update({(key, profile): choice for profile in there})
        else:
            key = row
    return found


def written(choices: Mapping[tuple[str, str], str]) -> str:
    """The file's text: profiles of one choice share a line."""
    rows: dict[str, dict[str, list[str]]] = {}
    for (key, profile), choice in choices.items():
        rows.setdefault(key, {}).setdefault(choice, []).append(profile)
    return "".join(
        f"{key}\n" + "".join(f" {named(p)}: {choice}\n" for choice, p in same.items()) for key, same in rows.items()
    )


def named(profiles: Sequence[str]) -> str:
    """The profiles of one choice, those that go together by one name."""
    text = " ".join(profiles)
    for name, together in TOGETHER.items():
        text = text.replace(" ".join(together), name)
    return text


def choices() -> Iterator[tuple[Problem, str, list[Told] | None]]:
    """(problem, profile, choice) of all problems on all profiles, in the order of the file."""
    with no_own_numbers():
        for problem in problems().values():
            for profile in PROFILES:
                yield problem, profile, told(problem, profile)


def main(arguments: Sequence[str]) -> None:
    if arguments[:1] == ["show"]:
        with no_own_numbers():
            print(shown(told(problems()[arguments[1]], arguments[2])))
        return
    before = read(FILE.read_text("utf-8")) if FILE.exists() else {}
    now = {(str(problem), profile): line(choice) for problem, profile, choice in choices()}
    FILE.write_text(written(now), "utf-8")
    changed, new, gone = (
        sum(map(f, s))
        for f, s in (
            (lambda k: k in before and before[k] != now[k], now),
            (lambda k: k not in before, now),
            (lambda k: k not in now, before),
        )
    )
    print(
        f"{len(now)} choices, {len(problems())} problems, {FILE.stat().st_size >> 10} KiB: "
        f"{changed} changed, {new} new, {gone} gone"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
