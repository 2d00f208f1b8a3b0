"""Programs as one text, groups of them, and jobs that come back: without a device."""

from __future__ import annotations

from typing import Any

import pytest

from clnet.engine.device import compilers
from clnet.engine.device.compilers import Job, Work
from clnet.engine.device.joined import joined, outer
from clnet.engine.device.program_files import reference, referred
from clnet.engine.device.together import LONGER, USUAL, Wanted, grouped
from clnet.errors import ConfigError

FIRST = """// adds
#define STEP 2 // of what
inline float more(float x) { return x + STEP; }
__constant uint source[] = {1, 2};
typedef float row[4];
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void add(__global float *a) { for (int k = 0; k < 4; ++k) { a[k] = more(a[k]); } }
"""
SECOND = FIRST.replace("add(", "multiply(").replace("x + STEP", "x * STEP")


def test_what_a_program_names_at_its_top_level_is_found() -> None:
    assert outer(FIRST) == {"more", "source", "row", "add"}


@pytest.mark.parametrize("text", [
    FIRST + "#pragma OPENCL FP_CONTRACT OFF\n", '#include "other.h"\n' + FIRST, FIRST + "enum { A, B };\n",
    FIRST + "struct pair { int a; };\n", FIRST + "float x\n", FIRST + "}\n", FIRST.replace("{ return", "return")])
def test_what_is_not_understood_stands_alone(text: str) -> None:
    assert outer(text) is None


def test_joined_programs_keep_their_kernels_and_end_their_macros() -> None:
    text = joined([(FIRST, ["add"]), (SECOND, ["multiply"])])
    assert "#define more more_0" in text and "#define more more_1" in text
    assert text.count("#undef STEP") == text.count("#undef more") == 2
    assert "#define add " not in text and "#define multiply " not in text


def test_a_kernel_that_nobody_asks_for_is_in_nobodys_way() -> None:
    both = FIRST + "__kernel void other(__global float *a) { a[0] = 1; }\n"
    assert "#define other other_0" in joined([(both, ["add"]), (both, ["add"])])


def wanted(names: list[str], text: str = FIRST) -> list[Wanted]:
    return [Wanted(text, f"{name}{k}", (name,)) for k, name in enumerate(names)]


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_groups_hold_all_once_and_no_name_twice_and_the_longest_come_first(workers: int) -> None:
    asked = wanted(["map", "fold", "winograd", "map", "winograd", "pool", "conv", "matmul"] * 3)
    groups = grouped(asked, workers)
    assert sorted(w.key for g in groups for w in g) == sorted(w.key for w in asked)
    assert all(len({w.kernels for w in g}) == len(g) for g in groups)
    assert groups[0][0].seconds == max(LONGER.values()) or groups[0][0].kernels == ("winograd",)
    assert len(groups) < len(asked)


def test_many_workers_get_something_each() -> None:
    assert len(grouped(wanted([f"winograd{k}" for k in range(4)]), 4)) >= 1
    long = [Wanted(FIRST, str(k), ("winograd",)) for k in range(8)]
    assert len(grouped(long, 4)) == 8


def test_what_does_not_join_has_a_group_of_its_own() -> None:
    asked = wanted(["a", "b"]) + wanted(["c", "d"], FIRST + "enum { A };\n")
    assert sorted(len(g) for g in grouped(asked, 1)) == [1, 1, 2]
    assert asked[0].seconds == USUAL


def test_a_reference_names_the_kernels_that_it_serves() -> None:
    entry = reference("ab" * 32, ["add", "multiply"])
    assert referred(entry, "add") == "ab" * 32
    assert referred(entry, "other") is None
    assert referred(entry[:-4], "add") is None


def jobs(count: int) -> list[Job]:
    return [Job({"key": str(k)}, 1.0, lambda binary: True) for k in range(count)]


def test_jobs_are_done_once_each_and_told_of() -> None:
    made, told = list[Job](), list[Any]()
    work = Work(all_ := jobs(3))
    work.each(made.append, told.append)
    assert made == told == all_


def test_what_a_process_could_not_do_comes_back_and_no_other_process_gets_it() -> None:
    work, made, told = Work(jobs(2)), list[Job](), list[Any]()
    first, second = work.take(helper=True), work.take(helper=True)
    assert first and second and work.take(helper=True) is None
    work.give(first, done=True)
    work.give(second, done=False)
    assert work.take(helper=True) is None
    work.each(made.append, told.append)
    assert made == [second]
    assert set(map(id, told)) == {id(first), id(second)}


def test_work_that_is_interrupted_leaves_nothing_to_take() -> None:
    work = Work(jobs(3))

    def interrupted(_: Job) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.each(interrupted, lambda _: None)
    assert work.take() is None


def test_no_process_is_started_where_python_is_not_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compilers.VARIABLE, "2")
    assert compilers.allowed() == 2
    monkeypatch.setattr("sys.executable", "/opt/editor/editor")
    assert compilers.allowed() == 0
    monkeypatch.undo()
    monkeypatch.setattr("sys.frozen", True, raising=False)
    assert compilers.allowed() == 0
    monkeypatch.undo()
    monkeypatch.setenv(compilers.VARIABLE, "0")
    compilers.stop()  # those that other tests have left
    assert compilers.allowed() == compilers.start(3) == 0


@pytest.mark.parametrize("text", ["abc", "-1", "2.5"])
def test_a_count_of_compilers_that_is_none_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compilers.VARIABLE, text)
    with pytest.raises(ConfigError, match=f"CLNET_COMPILERS: expected a whole number of processes.*got '{text}'"):
        compilers.allowed()
