"""Equal structures are written once: what serves a fusion in another's place is what would be written for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.precision import autocast
from clnet.core.tensor import Tensor, tensor
from clnet.engine.compile import graph, pipeline, sources
from clnet.engine.compile.frozen import frozen
from clnet.engine.compile.fusion import Fusion, Schedule
from clnet.engine.compile.source import Source
from clnet.engine.compile.structure import Structure
from clnet.layers import LSTM, BatchNorm, Conv2d, Dense, Flatten, Layer, MaxPool2d, Residual, TransformerEncoderBlock
from clnet.layers.base import no_tape
from clnet.optimizers import Adam
from clnet.workbench import played

RNG = np.random.default_rng(0)


def residual(blocks: int) -> Layer:
    inner = [Residual([Dense(16, 16, activation="relu"), Dense(16, 16)]) for _ in range(blocks)]
    return clnet.Sequential(Dense(16, 16), *inner, Dense(16, 5))


def images() -> Layer:
    blocks = [Residual([Conv2d(8, 8, 3, padding=1, bias=False), BatchNorm(8)], activation="relu") for _ in range(3)]
    return clnet.Sequential(Conv2d(1, 8, 3, padding=1), *blocks, MaxPool2d(2), Flatten(), Dense(128, 5))


def sequences() -> Layer:
    return clnet.Sequential(*[TransformerEncoderBlock(16, num_heads=2, d_ff=32, dropout=0.0) for _ in range(3)],
                            LSTM(16, 8), LSTM(8, 8, return_sequences=False), Dense(8, 5))


NETWORKS: dict[str, tuple[Callable[[], Layer], tuple[int, ...]]] = {
    "residual": (lambda: residual(4), (6, 16)), "images": (images, (4, 1, 8, 8)), "sequences": (sequences, (3, 7, 16))}


def compiled(model: Any, shape: tuple[int, ...], profile: str, arithmetic: str = "fp32") -> None:
    """A training step's plan on a described device."""
    model.build(shape[1:])
    Adam(lr=1e-3).attach(model.parameters())  # parameters are parts of one vector from here on
    device = played.device(profile)
    with autocast(arithmetic), no_tape():
        out = model(tensor(RNG.normal(size=shape).astype(np.float32)))
        loss = F.mean(F.cross_entropy(out, tensor(np.zeros(shape[0], np.int32))))
        slopes = gradients(loss, [p.tensor for p in model.parameters()])
    pipeline.compiled(graph.build([loss, *slopes], lambda t: t.op is None, device), device)


def described(source: Source) -> object:
    return (source.name, source.text, source.grid, source.group, source.note, list(source.params.reads.items()),
            list(source.params.writes.items()), repr(source.params.scalars), source.params.scratch)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many fusions were written, and how many served in another's place, each held against its own."""
    found, write, adapt = Counter[str](), sources._sources, Structure.adapted
    devices = list[Any]()

    def writing(schedule: Schedule, fusion: Fusion, device: Any) -> list[Source]:
        found["written"] += 1
        devices.append(device)
        return write(schedule, fusion, device)

    def adapted(self: Structure, taken: list[Source], first: Structure) -> list[Source]:
        found["served"] += 1
        got = adapt(self, taken, first)
        fusion = next(f for f in self.schedule.fusions if set(f.stores) == self.stores)
        assert [*map(described, got)] == [*map(described, write(self.schedule, fusion, devices[-1]))]
        return got

    monkeypatch.setattr(sources, "_sources", writing)
    monkeypatch.setattr(Structure, "adapted", adapted)
    return found


@pytest.mark.parametrize("profile", ["avx2", "avx512", "pocl", "h200", "a100", "amd"])
@pytest.mark.parametrize("arithmetic", ["fp32", "bf16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_serves_another_is_what_it_would_be_itself(name: str, arithmetic: str, profile: str,
                                                        counts: Counter[str]) -> None:
    make, shape = NETWORKS[name]
    with clnet.on("numpy"):
        compiled(make(), shape, profile, arithmetic)
    assert counts["served"] > 0


def test_a_deeper_network_writes_no_more(counts: Counter[str]) -> None:
    written = []
    for blocks in (6, 12):
        counts.clear()
        with clnet.on("numpy"):
            compiled(residual(blocks), (6, 16), "avx2")
        written.append(counts["written"])
    assert written[0] == written[1] < counts["served"]


def plans(outputs: list[Tensor]) -> None:
    device = played.device("avx2")
    pipeline.compiled(graph.build(outputs, lambda t: t.op is None, device), device)


def test_a_padded_window_has_its_place_in_the_text(counts: Counter[str]) -> None:
    """A guard is an index written out: such sources serve nobody else."""
    x = tensor(np.arange(60, dtype=np.float32))
    plans([F.pad(F.exp(x[10 * k : 10 * k + 8]), [2], [1]) for k in range(1, 5)])
    assert counts["served"] == 0 < counts["written"]


def test_parts_of_one_vector_are_arguments(counts: Counter[str]) -> None:
    x = tensor(np.arange(2048, dtype=np.float32))
    plans([F.softmax(x[128 * k : 128 * k + 100].reshape(10, 10)) for k in range(1, 5)])
    assert counts == {"written": 1, "served": 3}
    counts.clear()
    plans([F.softmax(x[128 * k : 128 * k + 100 + k]) for k in range(1, 5)])
    assert counts == {"written": 4}  # other sizes


def test_numbers_that_compare_equal_are_told_apart() -> None:
    assert len({frozen(v) for v in (0.0, -0.0, 0, False, np.float32(0.0))}) == 5
    assert frozen({"a": [1, (2.0,)]}) == frozen({"a": (1, [2.0])})
