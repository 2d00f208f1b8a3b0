"""The suite that says what a stolen core costs, from times that are given; its thief. No device."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from clnet.engine.reference import NumpyEngine
from clnet.workbench import played
from clnet.workbench.bench import columns, compare
from clnet.workbench.bench.compare import Contender, Setting
from clnet.workbench.bench.suites import stolen
from clnet.workbench.evidence import registry


def setting(engine: Any) -> Setting:
    return Setting(engine, quick=True)


def test_each_peer_stands_beside_what_it_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours 10 -> 11 ms, PyTorch 20 -> 30: costs of 1.1 and 1.5, a ratio of their quotient."""
    registry.load_all()
    times = {"clnet": (10e-3, 11e-3), "torch": (20e-3, 30e-3)}
    who = [Contender(name, lambda: None, lambda: None) for name in times]
    broken = Contender("jax", lambda: None, lambda: None, problem="not installed")
    monkeypatch.setattr(compare, "ours", lambda work, engine: (who[0], {}))
    monkeypatch.setattr(compare, "peers_of", lambda work, setting: [who[1], broken])
    monkeypatch.setattr(stolen, "pair", lambda one: times[one.name])
    monkeypatch.setattr(stolen.os, "cpu_count", lambda: 2)
    torch, jax = stolen.works()[0].rows(setting(SimpleNamespace(device=played.device("avx2"))))
    cells = columns.shown(torch)
    assert (cells["undisturbed"], cells["stolen"], cells["cost"]) == ("10.000", "11.000", "1.10")
    assert (cells["its undisturbed"], cells["its stolen"], cells["its cost"]) == ("20.000", "30.000", "1.50")
    assert torch.ratio == pytest.approx(1.5 / 1.1, abs=1e-3) and cells["ratio"] == (torch.unfit or "1.36")
    assert (jax.note, jax.ratio, jax.ours_ms) == ("not installed", None, 11.0)


def test_a_host_and_a_gpu_say_why_there_is_no_table() -> None:
    registry.load_all()
    (host,) = stolen.works()[0].rows(setting(NumpyEngine("float32")))
    (gpu,) = stolen.works()[0].rows(setting(SimpleNamespace(device=played.device("h200"))))
    assert "needs a CPU's runtime" in host.note == gpu.note


def test_samples_hold_many_of_the_thief_s_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    who = Contender("clnet", lambda: None, lambda: None)
    monkeypatch.setattr(who, "sample", lambda repeats, disturbed=False: asked.append(repeats) or 0.03, raising=False)
    monkeypatch.setattr(stolen, "thief", lambda: pytest.MonkeyPatch.context())
    assert stolen.pair(who) == (0.03, 0.03)
    assert asked == [1, 14, 14] and 14 * 0.03 >= stolen.SAMPLE > 5 * stolen.PERIOD


def test_the_thief_is_there_within_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen
    monkeypatch.setattr(stolen.subprocess, "Popen", lambda *a, **k: made.append(start(*a, **k)) or made[-1])
    with stolen.thief():
        assert made[0].poll() is None, "it computes, and sleeps, and computes"
    assert made[0].poll() is not None
    with pytest.raises(RuntimeError), stolen.thief():
        raise RuntimeError
    assert made[1].poll() is not None
