"""Pictures of graphs: nothing is drawn over anything, and launches are what the scheduler says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet.core.tensor import tensor
from clnet.engine import current, on
from clnet.engine.compile.graph import build
from clnet.errors import DataError, NoDeviceError
from clnet.workbench import draw


@pytest.fixture(autouse=True)
def planner(engine: Any) -> None:
    if engine.device.is_host:
        pytest.skip("NumPy plans nothing that could be drawn")


def nodes_of(*tensors: Any) -> Any:
    return build(list(tensors), lambda t: t.op is None, current().device).nodes


def network(depth: int) -> tuple[Any, list[Any]]:
    x = tensor(np.ones((4, 3), np.float32), name="x")
    weights = [tensor(np.ones((3, 3), np.float32), name=f"w{k}") for k in range(depth)]
    for w in weights:
        x = clnet.ops.relu(x @ w) + x
    return x, weights


def test_boxes_lie_apart_and_arrows_go_right_between_them() -> None:
    y, weights = network(3)
    loss = clnet.ops.mean(y)
    nodes = nodes_of(loss, *clnet.gradients(loss, weights))
    ways = draw._ways(nodes)
    places = draw._places(nodes, ways)
    assert len({(x, round(y, 6)) for x, y in places.values()}) == len(places), "two things in one place"
    columns: dict[float, list[float]] = {}
    for x, y in places.values():
        columns.setdefault(x, []).append(y)
    assert all(np.diff(sorted(ys)).min() > draw.HIGH for ys in columns.values() if len(ys) > 1)
    for way in ways:
        assert np.allclose(np.diff([places[p][0] for p in way]), draw.ACROSS), "a place in every column on the way"


def test_a_picture_names_what_was_given_and_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    box = draw._box
    monkeypatch.setattr(draw, "_box", lambda axes, place, name, *more: said.append(name)
                        or box(axes, place, name, *more))
    x = tensor(np.ones((4, 3), np.float32), name="x")
    picture = draw.graph(clnet.ops.relu(x * 2) @ tensor(np.ones((3, 2), np.float32)))
    assert picture.startswith(b"\x89PNG")
    assert sorted(said) == ["leaf", "matmul", "mul(·, 2)", "relu", "x"]


def test_launches_are_the_schedulers() -> None:
    """A product with its epilogue is one launch; what is read from memory belongs to the launch that wrote it."""
    from clnet.engine.compile.pipeline import fused

    x, w = tensor(np.ones((8, 4), np.float32)), tensor(np.ones((4, 4), np.float32))
    h = clnet.ops.relu(x @ w)
    graph = build([h @ w + 1], lambda t: t.op is None, current().device)
    done = fused(graph, current().device)
    found = {n.op.name + str(k): k for n, k in draw._launches(done).items() if n.op}
    assert len(done.fusions) == 2 and {"matmul0", "relu0", "matmul1", "add1"} <= found.keys()


def test_too_much_for_a_picture() -> None:
    with pytest.raises(DataError, match="at most 60 nodes; got"):
        draw.graph(network(30)[0])
    with on("numpy"), pytest.raises(NoDeviceError, match="which launches nothing"):
        draw.graph(network(1)[0])


def test_an_explanation_shows_its_memory_in_a_notebook(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("clnet.show.in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda kinds, raw: shown.append(kinds))
    x = clnet.tensor(np.ones((64, 64), np.float32))
    made = clnet.explain((x @ x) @ x)  # the first product lies between
    assert made.held == [64 * 64 * 4, 64 * 64 * 4] and made.plan.arena == 64 * 64 * 4
    made._ipython_display_()
    clnet.explain(x + 1)._ipython_display_()  # nothing lies between
    assert [next(iter(kinds)) for kinds in shown] == ["image/svg+xml", "text/html", "text/html"]
    assert ">memory [KiB]<" in shown[0]["image/svg+xml"] and shown[1]["text/plain"] == repr(made)
