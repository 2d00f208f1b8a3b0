"""A child process answers, and what ends it is the answer to one question alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clnet.engine.device.compilers import environment
from clnet.workbench.child import Child
from clnet.workbench.evidence import registry
from clnet.workbench.status import run as status
from clnet.workbench.status import workers as status_workers

ANSWERS = """
import os, signal, sys, time
from clnet.workbench.child import serve

def answer(question):
    print("chatter")
    match question["name"]:
        case "HuberLoss": os.kill(os.getpid(), signal.SIGSEGV)
        case "leave": sys.exit("LLVM ERROR: cannot select")
        case "hang": time.sleep(60)
        case "setting": return {"setting": os.environ.get("SETTING_OF_A_CHILD")}
        case "raise": raise ValueError("on purpose")
    return {"unknown": True, "process": os.getpid()}

serve(answer)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "some_answers.py").write_text(ANSWERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "some_answers"


@pytest.fixture
def child(module: str) -> Iterator[Child]:
    found = Child(module, patience=20.0)
    yield found
    found.stop()


def test_a_child_answers_and_what_it_prints_is_no_answer(child: Child) -> None:
    first, second = child.ask({"name": "a"}), child.ask({"name": "b"})
    assert first == second  # one process
    assert child.ask({"name": "raise"}) == {"failed": "ValueError: on purpose"}
    assert child.ask({"name": "c"}) == first


def test_a_child_has_settings_of_its_own(module: str) -> None:
    found = Child(module, 20.0, {"SETTING_OF_A_CHILD": "its"})
    try:
        assert found.ask({"name": "setting"}) == {"setting": "its"}
    finally:
        found.stop()
    assert "SETTING_OF_A_CHILD" not in os.environ


def test_the_end_of_a_child_is_told_and_another_takes_its_place(child: Child) -> None:
    before = child.ask({"name": "a"})
    assert child.ask({"name": "HuberLoss"}) == {"failed": "its process ended (SIGSEGV): chatter"}
    assert child.ask({"name": "a"})["process"] != before["process"]
    assert child.ask({"name": "leave"}) == {"failed": "its process ended (exit status 1): LLVM ERROR: cannot select"}


def test_a_child_that_hangs_is_given_up(child: Child) -> None:
    child.ask({"name": "a"})
    child.patience = 0.2
    assert child.ask({"name": "hang"}) == {"failed": "no answer within 0.2 s"}
    child.patience = 20.0
    assert child.ask({"name": "a"})["unknown"]


def test_a_crash_costs_one_row_of_status(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_workers, "Child", lambda name, patience: Child(module, patience))
    monkeypatch.setattr(status_workers, "FEW", 0)
    monkeypatch.setattr(status_workers, "threads_of", lambda device: 2)
    found: list[Any] = [s for s in registry.subjects(["loss"]) if s.name in ("HuberLoss", "MAELoss", "MSELoss")]
    rows = status.run(["numpy"], subjects=found, progress=False)
    assert [(r.name, r.forward, r.resident) for r in rows] == [("HuberLoss", "no", "no"), ("MAELoss", "yes", "yes"),
                                                               ("MSELoss", "yes", "yes")]
    assert "SIGSEGV" in rows[0].note
    assert rows[0].time_ms is None
    assert all(r.time_ms for r in rows[1:])


def test_children_find_what_their_parent_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    root, rest = environment()["PYTHONPATH"].split(os.pathsep)
    assert (Path(root) / "clnet").is_dir()
    assert rest == "elsewhere"
