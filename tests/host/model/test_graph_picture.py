"""model.graph(): boxes with what they read, where they stand, and the picture of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import models
from clnet.errors import ConfigError
from clnet.layers import LSTM, Add, Bidirectional, Concatenate, Dense, Dropout, Residual
from clnet.layers.base import Layer
from clnet.model import Input, Model, Sequential
from clnet.model.diagram import _Sheet
from clnet.model.lanes import cuts, lanes

NETWORKS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "mlp": (models.mlp, ((1, 8, 8),), "float32"), "lenet": (models.lenet, ((1, 28, 28),), "float32"),
    "resnet20": (models.resnet20, ((3, 32, 32),), "float32"),
    "resnet50": (models.resnet50, ((3, 32, 32),), "float32"),
    "mobilenet": (models.mobilenet, ((3, 32, 32),), "float32"),
    "densenet": (models.densenet, ((3, 32, 32),), "float32"), "unet": (models.unet, (), "float32"),
    "vit": (models.vit, ((1, 8, 8),), "float32"), "bilstm": (models.bilstm, ((1, 8, 8),), "float32"),
    "gpt": (models.gpt, ((16,),), "int32")}


@pytest.fixture(autouse=True)
def on_host() -> Iterator[None]:
    with clnet.on("numpy"):
        yield


def reads(found: Any) -> dict[str, list[str]]:
    return {b.name: [i.name for i in b.inputs] for b in found.boxes}


def hits(a: tuple[float, float], b: tuple[float, float], middle: tuple[float, float], wide: float, high: float) -> bool:
    """Whether a level or upright line goes through a box."""
    low, top = (min(p, q) for p, q in zip(a, b, strict=True)), (max(p, q) for p, q in zip(a, b, strict=True))
    sizes = (wide / 2 - 1e-6, high / 2 - 1e-6)
    return all(lo < m + s and hi > m - s for lo, hi, m, s in zip(low, top, middle, sizes, strict=True))


@pytest.mark.parametrize("name", NETWORKS)
def test_boxes_and_lines_keep_apart(name: str) -> None:
    """No two boxes in one place, no line through a box, nothing outside the sheet, all parameters counted once."""
    make, shapes, dtype = NETWORKS[name]
    model = make()
    found = model.graph(*shapes, dtype=dtype)
    assert sum(b.parameters for b in found.boxes) == sum(p.size for p in model.parameters())
    sheet = _Sheet(lanes(found.boxes), found.boxes)
    places = [sheet.place(b) for b in found.boxes]
    for (x, y), (u, v) in itertools.combinations(places, 2):
        assert abs(x - u) >= 2.1 or abs(y - v) >= 0.6, name
    assert all(1 < x < sheet.width - 1 and -sheet.height < y < 0 for x, y in places)
    for b in found.boxes:
        for i in b.inputs:
            way = sheet.way(i, b)
            assert all(0 < x < sheet.width and -sheet.height < y < 0 for x, y in way)
            for p, q in itertools.pairwise(way):
                assert p[0] == q[0] or p[1] == q[1], "level or upright"
                assert not any(hits(p, q, m, 0.5, 0.29) for m in places), (name, i.name, b.name)
    assert found.boxes[-1].kind == "output" and found.boxes[0].kind == "input"


def test_residuals_branches_and_joins() -> None:
    model = Sequential(Dense(4, 8), Residual(layer=[Dense(8, 8), Dense(8, 8)]), Dense(8, 2))
    found = model.graph((4,))
    assert reads(found) == {
        "input": [], "layers.0": ["input"], "layers.1.layer.0": ["layers.0"], "layers.1.layer.1": ["layers.1.layer.0"],
        "+": ["layers.0", "layers.1.layer.1"], "layers.2": ["+"], "output": ["layers.2"]}
    assert [b.gives for b in found.boxes][:2] == ["(N, 4)", "(N, 8)"]
    closed = model.graph((4,), depth=0)
    assert reads(closed)["layers.2"] == ["layers.1"] and [b.type for b in closed.boxes][2] == "Residual"
    spot = lanes(found.boxes)
    assert {spot.lane[b] for b in found.boxes} == {0} and spot.lane[found.boxes[1], found.boxes[4]] == 1
    wrongs: list[Any] = [-1, True, 1.5]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="expected a whole number of at least 0"):
            model.graph((4,), depth=wrong)
    assert "forward" not in vars(model[0]) and "reads" in repr(found) and "Residual" in repr(closed)


def test_shared_layers_several_inputs_and_outputs() -> None:
    a, b, shared = Input((3,), name="a"), Input((3,), name="b"), Dense(out_features=4)
    one, two = shared(a), shared(b)
    both = Concatenate()(one, two)
    model = Model([a, b], [Dense(out_features=2)(both), Add()(one, two)])
    found = model.graph()
    assert [x.shared for x in found.boxes if x.type == "Dense"] == [False, True, False]
    assert sum(x.parameters for x in found.boxes) == 16 + 18
    assert reads(found)["concatenate"] == ["dense", "dense"] and reads(found)["output"] == ["dense3", "add"]
    assert "shared" in repr(found) and found.boxes[-1].gives == "(N, 2), (N, 4)"


def test_what_a_user_writes_is_opened() -> None:
    class Two(Layer):
        def setup(self, new: Any) -> None:
            self.a, self.b = Dense(out_features=3), Dense(out_features=3)

        def forward(self, x: Any) -> Any:
            return self.a(x) * self.b(x)

    found = Sequential(Two(), Dense(out_features=2)).graph((5,))
    assert reads(found)["×"] == ["layers.0.a", "layers.0.b"]
    where = lanes(found.boxes)
    assert sorted(where.lane[b] for b in found.boxes if b.name.startswith("layers.0.")) == [0, 1]


def test_recurrent_layers_are_one_box() -> None:
    found = Sequential(Bidirectional(layer=LSTM(hidden_size=3)), Dense(out_features=2)).graph((7, 5))
    assert reads(found) == {"input": [], "layers.0": ["input"], "layers.1": ["layers.0"], "output": ["layers.1"]}


def test_a_model_without_shapes_is_drawn_as_it_is_written() -> None:
    assert reads(models.gcn(8, 3).graph()) == {
        "nodes": [], "edges": [], "dropout": ["nodes"], "graphconvolution": ["dropout", "edges"],
        "dropout2": ["graphconvolution"], "graphconvolution2": ["dropout2", "edges"], "output": ["graphconvolution2"]}
    assert reads(Sequential(Dense(out_features=2), Dropout(0.5)).graph()) == {
        "input": [], "layers.0": ["input"], "layers.1": ["layers.0"], "output": ["layers.1"]}
    called = models.gcn(8, 3).eval()
    called(np.ones((6, 8), np.float32), np.array([[0, 1, 2], [1, 2, 3]], np.int32))
    assert called.graph().boxes[-1].gives == "(6, 3)"


def test_long_networks_fold_where_few_lines_are_cut() -> None:
    model = Sequential(*[Residual(layer=[Dense(4, 4), Dense(4, 4), Dense(4, 4)]) for _ in range(8)])
    found = model.graph((4,))
    spot = lanes(found.boxes)
    begins = cuts(spot, found.boxes, 3)
    above = {spot.row[b]: b for b in found.boxes}
    assert len(begins) == 3 and all(above[r - 1].name == "+" for r in begins[1:]), "behind a sum one value goes on"


def test_pictures_are_written_and_shown(tmp_path: Path) -> None:
    found = models.unet().graph()
    bundle = found._repr_mimebundle_()
    assert bundle["image/svg+xml"].count("<text") > 60 and "BatchNorm" in bundle["text/plain"]
    assert set(bundle) == {"image/svg+xml", "text/plain"} and not hasattr(found, "_repr_html_"), "HTML would go before"
    assert bundle == found._repr_mimebundle_(), "the same every time"
    for end, start in (("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert found.save(tmp_path / f"unet.{end}").read_bytes().startswith(start)
    with pytest.raises(ConfigError, match=r"expected a name that ends in \.svg, \.png, \.pdf; got 'unet\.doc'"):
        found.save(tmp_path / "unet.doc")
