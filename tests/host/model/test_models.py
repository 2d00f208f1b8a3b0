"""Networks of the literature: as large as published, JSON both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import models
from clnet.errors import ConfigError
from clnet.layers import Layer

LARGE, SMALL = (3, 224, 224), (3, 32, 32)
# Counts of torchvision, of the papers, or by hand from their tables; made anew they are heavy.
COUNTS: list[Any] = [
    ("lenet", (1, 28, 28), 61_706), ("resnet20", SMALL, 272_474), ("mobilenet_v2", LARGE, 3_504_872),
    *(pytest.param(*row, marks=pytest.mark.slow) for row in (
        ("resnet32", SMALL, 466_906), ("resnet44", SMALL, 661_338), ("resnet56", SMALL, 855_770),
        ("resnet18", LARGE, 11_689_512), ("resnet34", LARGE, 21_797_672), ("resnet50", LARGE, 25_557_032),
        ("densenet121", LARGE, 7_978_856), ("vit_b_16", LARGE, 86_567_656)))]


@pytest.mark.parametrize(("name", "shape", "count"), COUNTS)
def test_parameters_are_as_many_as_published(name: str, shape: tuple[int, ...], count: int) -> None:
    with clnet.on("numpy"):
        model = getattr(models, name)().build(shape)
        assert sum(p.size for p in model.parameters()) == count


SIZES: dict[str, Any] = {
    "mlp": (models.mlp(3, (5,), dropout=0.5), [(2, 2, 3)], (2, 3)),
    "lenet": (models.lenet(4), [(2, 1, 28, 28)], (2, 4)),
    "resnet": (models.resnet(1, 2, 3), [(2, 3, 8, 8)], (2, 3)),
    "mobilenet": (models.mobilenet(2, 1, 2, 5), [(2, 3, 8, 8)], (2, 5)),
    "densenet": (models.densenet(2, 2, 2, 3), [(2, 1, 8, 8)], (2, 3)),
    "unet": (models.unet(2, 1, (3, 8, 8), 2), [(2, 3, 8, 8)], (2, 2, 8, 8)),
    "vit": (models.vit(8, 1, 2, 4, (3, 8, 8), 3), [(2, 3, 8, 8)], (2, 3)),
    "lstm": (models.lstm(3, 4, 2, dropout=0.1), [(2, 5, 6)], (2, 3)),
    "gpt": (models.gpt(8, 1, 2, 11, 6), [np.zeros((2, 6), np.int32)], (2, 6, 11)),
    "words": (models.lstm(3, 4, words=9, width=5), [np.zeros((2, 7), np.int32)], (2, 3)),
    "bilstm": (models.bilstm(4, (8, 6), 3), [(2, 1, 8, 6)], (2, 3)),
    "gcn": (models.gcn(4, 3, 5), [(6, 4), np.array([[0, 1, 2], [1, 2, 0]], np.int32)], (6, 3)),
}


@pytest.mark.parametrize("name", SIZES)
def test_json_both_ways_and_shapes(name: str) -> None:
    model, inputs, shape = SIZES[name]
    again = Layer.from_config(model.config())
    assert again.config() == model.config() and type(again) is type(model)
    with clnet.on("numpy"):
        arrays = [np.ones(x, np.float32) if isinstance(x, tuple) else x for x in inputs]
        assert again.eval()(*arrays).numpy().shape == shape


def test_the_vision_transformer_reads_its_class_token() -> None:
    with clnet.on("numpy"):
        model = models.vit_b_16(3, 32)
        assert [repr(x) for x in model.layers[-3:-1]] == ["Crop2d(crop=((0, 4), (0, 0)))", "Flatten()"]
        x = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)
        assert (clnet.Sequential(*model.layers[-3:-1])(x).numpy() == x[:, 0]).all()


def test_cora_is_as_large_as_its_paper_says() -> None:
    with clnet.on("numpy"):
        model = models.gcn(1433, 7)
        model(np.zeros((3, 1433), np.float32), np.array([[0, 1], [1, 2]], np.int32))
        assert sum(p.size for p in model.parameters()) == 23_063


def test_unet_says_which_sizes_fit() -> None:
    with pytest.raises(ConfigError, match=r"multiples of 2\^depth = 4; got 9 x 10; pad them to 12 x 12"):
        models.unet(image=(1, 9, 10))
    for wrong in (dict(image=9), dict(image=(1, "8", 8)), dict(image=(1, None, None)), dict(image=(8, 8)),
                  dict(depth=-1), dict(depth="2")):
        with pytest.raises(ConfigError, match=r"unet: expected (image|depth)"):
            models.unet(**wrong)
