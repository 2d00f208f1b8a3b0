"""Random changes of images in a training: of what is trained with alone, by a seed, taken up to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import clnet
from clnet import ops as F
from clnet.augment import (
    RandomCrop,
    Transform,
)
from clnet.errors import CheckpointError, ConfigError, DataError, ShapeError
from clnet.layers import Conv2d, Dense, Flatten
from clnet.train import Checkpoint

DRAWS = np.random.default_rng(0)
X = DRAWS.random((8, 3, 9, 12)).astype(np.float32)
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _on_the_host() -> Iterator[None]:
    with clnet.on("numpy"):
        yield


def trained(augment: Any, y: Any = None, loss: Any = "cross_entropy", data: Any = None, lr: float = 0.3,
            optimizer: Any = None, layers: Any = None, **named: Any) -> tuple[Array, Any]:
    clnet.seed(0)
    model = clnet.Sequential(layers or [Conv2d(3, 4, 3), Flatten(), Dense(out_features=4)])
    trainer = clnet.Trainer(model, loss, optimizer or clnet.optimizers.SGD(lr=lr))
    data = (X, np.arange(8) % 4 if y is None else y) if data is None else data
    trainer.fit(data, **{"epochs": 2, "batch_size": 3, "verbose": False, "augment": augment, **named})
    return np.concatenate([p.numpy().ravel() for p in model.parameters()]), trainer


class Negative(Transform):
    """y = 1 − x"""

    def forward(self, x: Any, *u: Any) -> Any:
        return 1.0 - x


def test_only_what_is_trained_with_changes() -> None:
    plain, before = trained(None, lr=1e-30, validation=(X, np.arange(8) % 4))
    same, trainer = trained(Negative(), lr=1e-30, validation=(X, np.arange(8) % 4))
    np.testing.assert_array_equal(plain, same)
    assert trainer.history["val_loss"][-1] == before.history["val_loss"][-1]
    assert trainer.evaluate(X, np.arange(8) % 4) == before.evaluate(X, np.arange(8) % 4)
    np.testing.assert_array_equal(trainer.predict(X), before.predict(X))
    assert trainer.history["loss"][-1] != before.history["loss"][-1]
    given, turned = trained(Negative())[0], trained(None, data=clnet.data.from_arrays(1 - X, np.arange(8) % 4))[0]
    np.testing.assert_allclose(given, turned, atol=1e-6)


ALL = ["flip", "crop", "rotate", "erase", "cutmix", "mixup"]


def test_seeds_make_it_and_a_second_fit_draws_on() -> None:
    first, trainer = trained(ALL)
    np.testing.assert_array_equal(first, trained(ALL)[0])
    assert (first != trained(ALL, seed=1)[0]).any()
    counter, recorded = trainer.learning.augmentation.random.counter, trainer.steps.train
    assert int(counter.numpy()) == 6
    trainer.fit(X, np.arange(8) % 4, epochs=1, batch_size=3, verbose=False, augment=ALL)
    assert int(counter.numpy()) == 9 and trainer.steps.train is recorded
    trainer.fit(X, np.arange(8) % 4, epochs=1, batch_size=3, verbose=False)
    assert trainer.learning.augmentation is None


def test_a_run_is_taken_up_where_it_was(tmp_path: Path) -> None:
    whole, _ = trained(ALL, epochs=4)
    trained(ALL, epochs=2, callbacks=Checkpoint(tmp_path / "run.ckpt"))
    np.testing.assert_array_equal(trained(ALL, epochs=4, resume=tmp_path / "run.ckpt")[0], whole)
    with pytest.raises(CheckpointError, match=r"expected augment .*RandomHorizontalFlip.*; got None"):
        trained(None, epochs=4, resume=tmp_path / "run.ckpt")


def test_a_step_that_is_left_out_takes_its_numbers_back() -> None:
    y = np.eye(4, dtype=np.float32)[np.arange(8) % 4]
    broken = X.copy()
    broken[5] = np.inf
    with pytest.warns(RuntimeWarning, match="left out"):
        left, trainer = trained(["crop", "flip"], data=(broken, y), on_nan="skip", batch_size=1, epochs=1)
    assert np.isfinite(left).all() and int(trainer.learning.augmentation.random.counter.numpy()) == 7


def test_pieces_weights_bytes_streams_and_searches_take_it() -> None:
    whole, pieces = trained("flip", batch_size=8)[0], trained("flip", batch_size=4, accumulate=2)[0]
    assert np.isfinite(pieces).all() and (whole != pieces).any()
    weight = np.array([1, 0, 1, 1, 0, 1, 1, 1])
    assert np.isfinite(trained(["crop", "mixup"], sample_weight=weight, class_weight="balanced")[0]).all()
    x, y = (X * 255).astype(np.uint8), np.arange(8) % 4
    assert np.isfinite(trained(["color", "cutmix"], data=clnet.data.from_arrays(x, y), lr=1e-4)[0]).all()
    stream = clnet.data.Stream(lambda: zip(X, y, strict=True), length=8)
    np.testing.assert_array_equal(*(trained(["crop", "mixup"], data=stream)[0] for _ in range(2)))
    assert np.isfinite(trained("mixup", optimizer=clnet.optimizers.LBFGS(), batch_size=8)[0]).all()


def test_a_folder_of_pictures_changes_batch_by_batch(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for k in range(4):
            Image.fromarray((X[k].transpose(1, 2, 0) * 255).astype(np.uint8)).save(tmp_path / name / f"{k}.png")
    found = [trained(ALL, data=clnet.data.read_images(tmp_path, budget=budget))[0] for budget in (1 << 20, 0)]
    np.testing.assert_array_equal(*found)


def test_masks_learn_from_pictures_that_move_with_them() -> None:
    y = (X[:, :1] > 0.5).astype(np.float32)

    def error(augment: Any) -> float:
        clnet.seed(0)
        model = clnet.Sequential(Conv2d(3, 1, 1))
        trainer = clnet.Trainer(model, clnet.losses.BCELoss(from_logits=True), clnet.optimizers.Adam(lr=0.3))
        trainer.fit(X, y, epochs=40, batch_size=8, verbose=False, augment=augment)
        return float(trainer.evaluate(X, y)["loss"])

    assert error(["flip", "vertical_flip", RandomCrop(padding=2, mode="reflect"), "cutmix"]) < 1.3 * error(None)


@pytest.mark.parametrize(("named", "says"), [
    ({"augment": "mixup", "loss": lambda o, t: F.mean(o)}, "a loss of clnet.losses, which weighs.*np.eye"),
    ({"augment": "color", "data": (X * 4 - 2, np.arange(8) % 4)}, r"pixels in \[0, 1\], or bytes; got values from -"),
    ({"augment": ["crop", "flp"]}, "did you mean 'flip'"),
    ({"augment": "flip", "data": (X.reshape(8, -1), np.arange(8) % 4), "layers": [Dense(out_features=4)]},
     r"\(N, channels, height, width\); got shape \(8, 324\)"),
    ({"augment": "flip", "layers": [Dense(out_features=4)],
      "data": clnet.data.Sequences([np.ones((3, 2))] * 8, [np.zeros(3, int)] * 8)}, "expected images.*got Sequences"),
    ({"augment": "mixup", "y": np.ones((8, 4), np.float32), "loss": "mse",
      "optimizer": clnet.optimizers.LevenbergMarquardt()}, "of mixed samples"),
])
def test_a_fit_says_what_does_not_go(named: dict[str, Any], says: str) -> None:
    with pytest.raises((ConfigError, ShapeError, DataError), match=says):
        trained(**named)
