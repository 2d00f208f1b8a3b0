"""Peers of training steps: the same network from the same values, or not timed; those that are not there are said once.
No device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.workbench.bench import columns, peers
from clnet.workbench.bench import command as bench
from clnet.workbench.bench.suites import steps as bench_steps
from clnet.workbench.evidence import registry

HEAVY = ("resnet20", "gpt")  # seconds of compiling


@pytest.fixture(scope="module", autouse=True)
def host() -> Iterator[NumpyEngine]:
    registry.load_all()
    with on(engine := NumpyEngine("float32")):
        yield engine


def small(name: str) -> bench_steps.Task:
    """The task on few samples."""
    task = next(t for t in bench_steps.tasks() if t.name.startswith(name))
    return dataclasses.replace(task, x=(3, *task.x[1:]), y=(3, *task.y[1:]))


@pytest.fixture
def jax() -> peers.Jax:
    for name in ("jax", "optax"):
        pytest.importorskip(name)
    found = peers.jax_for(dataclasses.replace(NumpyEngine("float32").device, kind="cpu"))
    assert isinstance(found, peers.Jax)
    return found


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in HEAVY else n
                                  for n in ("mlp b64", "cnn", "lstm", *HEAVY)])
def test_jax_trains_the_same_network(name: str, jax: peers.Jax) -> None:
    """`beside_jax` holds its first losses against ours; it learns on."""
    run = bench_steps.beside_jax(small(name))(jax)
    later = [float(run()) for _ in range(4)]
    jax.finish()
    assert jax.name.startswith("jax cpu ") and np.all(np.diff(later) < 0)


def test_a_jax_network_that_is_another_is_not_timed(jax: peers.Jax) -> None:
    def other(modules: Any, p: dict[str, Any], x: Any, found: dict[str, Any]) -> Any:
        for k in range(3):
            x = x @ p[f"layers.{k}.weight"].T + p[f"layers.{k}.bias"]
        return x

    task = dataclasses.replace(small("mlp b64"), jax=other)
    with pytest.raises(ArithmeticError, match=r"its first losses are .*, ours .*: not the same network, not timed"):
        bench_steps.beside_jax(task)(jax)


@pytest.mark.parametrize("name", ["mlp b64", "cnn", "resnet20", "lstm", "gpt"])
def test_pytorch_begins_with_our_values(name: str) -> None:
    torch = pytest.importorskip("torch")
    task = small(name)
    values = bench_steps.first(task)
    model = task.torch(torch)
    state = bench_steps.bench_torch.state(model, values)
    expected = {k: tuple(v.shape) for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    assert {k: v.shape for k, v in state.items()} == expected
    assert sum(v.size for v in state.values()) == sum(v.size for v in values.values())


def test_pytorch_s_step_is_ours_or_not_timed() -> None:
    torch = pytest.importorskip("torch")
    peer, task = peers.Torch(torch, "cpu"), small("mlp b64")
    assert float(bench_steps.checked(task, fused=True)(peer)().detach()) > 0
    without = dataclasses.replace(task, torch=lambda t: t.nn.Sequential(
        t.nn.Linear(784, 512), t.nn.Tanh(), t.nn.Linear(512, 512), t.nn.ReLU(), t.nn.Linear(512, 10)))
    with pytest.raises(ArithmeticError, match="not the same network"):
        bench_steps.checked(without)(peer)


def test_jax_is_a_peer_of_all_steps_in_float32_and_of_cpus_alone() -> None:
    assert all(w.jax for w in bench.works("steps")) and not any(w.jax for w in bench.works("steps", precision="bf16"))
    assert not any(getattr(w, "jax", None) for w in bench.works("scaling"))
    gpu: Any = dataclasses.replace(NumpyEngine("float32").device, kind="gpu")
    assert peers.jax_for(gpu) == "not timed beside GPUs"


def test_a_peer_that_is_nowhere_is_one_line(monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    cpu: Any = dataclasses.replace(NumpyEngine("float32").device, kind="cpu")
    why = peers.jax_for(cpu)
    assert isinstance(why, str) and 'pip install "jax[cpu]" optax' in why
    rows = [bench.Row("steps", work, "float32", "intel", peer, 1.0, peer_ms, ratio=peer_ms, note=note)
            for work in ("mlp", "cnn") for peer, peer_ms, note in (("torch", 2.0, ""), ("jax", None, why))]
    assert columns.absent(rows) == {"jax": why}
    bench.show(rows)
    said = capsys.readouterr().out
    assert said.count("jax") == 2 and f"Left out: jax ({why})." in said, "once as the peer, once in the package's name"
    assert columns.absent([*rows, bench.Row("steps", "lstm", "float32", "intel", "jax", 1.0, 2.0)]) == {}
