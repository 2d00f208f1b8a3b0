"""Random changes of images on every device: the values of the NumPy engine, steps that are recorded once, runs that
repeat, and networks that read what they were never shown as it stood.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.ndimage

import clnet
from clnet.augment import Compose, RandomAffine, RandomCrop, RandomRotation
from clnet.layers import Activation, Conv2d, Dense, Flatten, MaxPool2d
from clnet.train import Checkpoint

X = np.random.default_rng(0).random((7, 3, 9, 10)).astype(np.float32)
Y = np.arange(7) % 3
Array = np.ndarray[Any, Any]
NAMES = ["flip", "vertical_flip", "crop", "resized_crop", "affine", "rotate", "color", "grayscale", "erase", "mixup",
         "cutmix"]


def test_all_change_images_as_on_the_host(engine: Any) -> None:
    whole = [Compose(part) for part in (NAMES[:4], [RandomAffine(translate=0.2, scale=(0.8, 1.2), shear=10)],
                                        NAMES[5:])]
    found = [np.asarray(t(X, 3).numpy()) for t in whole]
    with clnet.on("numpy"):
        for t, got in zip(whole, found, strict=True):
            wanted = t(X, 3).numpy()
            # a point that rounding moves over the edge of a pixel reads another one
            assert (np.abs(got - wanted) < 2e-4).mean() > 0.995, t
            np.testing.assert_allclose(got.mean(), wanted.mean(), atol=1e-3)


def trained(**named: Any) -> tuple[Any, Any]:
    clnet.seed(0)
    model = clnet.Sequential(Conv2d(3, 4, 3), Flatten(), Dense(out_features=3))
    trainer = clnet.Trainer(model, "cross_entropy", clnet.optimizers.Adam(lr=1e-2))
    trainer.fit(X, Y, **{"epochs": 4, "batch_size": 3, "verbose": False, "augment": ["crop", "flip", "mixup"], **named})
    return np.concatenate([p.numpy().ravel() for p in model.parameters()]), trainer


def test_a_run_repeats_and_is_taken_up_to_the_last_bit(engine: Any, tmp_path: Path) -> None:
    whole, trainer = trained()
    assert trainer.steps.train.recorded <= 2, "for whole batches, and for the last one"
    np.testing.assert_array_equal(trained()[0], whole)
    trained(epochs=2, callbacks=Checkpoint(tmp_path / "run.ckpt"))
    np.testing.assert_array_equal(trained(resume=tmp_path / "run.ckpt")[0], whole)


def test_batches_of_any_size_share_a_plan(engine: Any) -> None:
    trainer = trained(epochs=0)[1]
    for size in (7, 3, 5, 6):
        x, y = np.concatenate([X] * 6)[: 6 * size], np.arange(6 * size) % 3
        trainer.fit(x, y, epochs=1, batch_size=size, verbose=False, augment=NAMES)
    assert trainer.steps.train.recorded <= 2 and not trainer.steps.train.refused


def test_a_step_moves_nothing_more_between_host_and_device(engine: Any) -> None:
    plain, changed = (trained(augment=a)[1].history.transfers for a in (None, ["crop", "flip", "mixup"]))
    assert changed.bytes_to_device - plain.bytes_to_device <= 64, "once, for the counter of the draws"
    assert changed.copies_to_device - plain.copies_to_device <= 4 and changed.bytes_to_host == plain.bytes_to_host


def shifted(x: Array, draws: np.random.Generator) -> Array:
    """Images shifted by up to a pixel each way."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.stack([image[:, i : i + 8, j : j + 8] for image, (i, j) in zip(padded, draws.integers(0, 3, (len(x), 2)),
                                                                             strict=True)])


def turned(x: Array, draws: np.random.Generator) -> Array:
    """Images turned by up to 25 degrees, by SciPy."""
    found = [scipy.ndimage.rotate(image, draws.uniform(-25, 25), reshape=False, order=1, mode="grid-constant")
             for image in x[:, 0]]
    return np.stack(found)[:, None].astype(np.float32)


def test_digits_that_were_moved_are_read_by_whoever_learnt_of_moved_ones(engine: Any) -> None:
    """Of digits that were shifted, turned, and neither, on Intel's runtime 0.50, 0.87 and 0.98 are read without changes
    in training, 0.93, 0.95 and 0.96 with them.
    """
    train, test = clnet.data.load("digits").split(0.3, 0)
    sets = [made(np.asarray(test.x), np.random.default_rng(0)) for made in (shifted, turned)]
    reached = []
    for augment in (None, [RandomRotation(degrees=25), RandomCrop(padding=1)]):
        clnet.seed(0)
        model = clnet.Sequential(Conv2d(1, 16, 3, padding=1), Activation("relu"), MaxPool2d(2),
                                 Conv2d(16, 32, 3, padding=1), Activation("relu"), Flatten(), Dense(out_features=10))
        trainer = clnet.Trainer(model, "cross_entropy", clnet.optimizers.Adam(lr=3e-3))
        trainer.fit(train, epochs=30, verbose=False, augment=augment)
        reached.append([trainer.evaluate(x, test.y)["accuracy"] for x in (*sets, test.x)])
    without, within = reached
    assert within[0] > without[0] + 0.3 and within[1] > without[1] + 0.03 and min(within) > 0.85
