"""Pictures from files: turned, cut and named as they should be, in memory and batch by batch."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import clnet
from clnet.errors import ConfigError, DataError
from clnet.layers import Dense, Flatten

data = clnet.data


def folder(tmp_path: Path, size: tuple[int, int] = (6, 4)) -> Path:
    """Four red and four grey pictures (height, width), of which one is broken."""
    for k in range(4):
        for name, pixels in (("red", np.full((*size, 3), (200 + k, 10, 0), np.uint8)),
                             ("grey", np.full(size, 60 + k, np.uint8))):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / name / f"{k}.png")
    (tmp_path / "red" / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden").mkdir()
    return tmp_path


@pytest.mark.parametrize("budget", [1 << 20, 0])
def test_a_folder_is_classes_of_pictures(tmp_path: Path, budget: int) -> None:
    images = data.read_images(folder(tmp_path), budget=budget)
    assert (images.x.shape, images.x.dtype, images.classes) == ((8, 3, 6, 4), np.float32, ("grey", "red"))
    assert images.y.tolist() == [0] * 4 + [1] * 4 and (images.x.bytes is None) == (budget == 0)
    np.testing.assert_allclose(images.x[:][5], np.broadcast_to(np.array([201, 10, 0])[:, None, None] / 255, (3, 6, 4)),
                               rtol=1e-6)
    train, test = images.split(0.25, seed=0, stratify=True)
    assert len(test) == 2 and test.rows(slice(None))[0][0].shape == (2, 3, 6, 4)
    with clnet.on("numpy"):
        trainer = clnet.Trainer(clnet.Sequential(Flatten(), Dense(out_features=2)), "cross_entropy",
                                clnet.optimizers.Adam(lr=0.1))
        assert trainer.fit(train, epochs=10, validation=test, verbose=False)["val_accuracy"][-1] == 1.0
        alike = trainer.predict(tmp_path / "red")
        assert trainer.preparation is not None and set(trainer.preparation.labels(alike)) == {"red"}
        np.testing.assert_allclose(trainer.predict([tmp_path / "red" / "1.png"]), alike[1:2], rtol=1e-6)
    shown = images._repr_html_()
    assert shown.count("<img alt") == 8 and ">grey</figcaption>" in shown and len(shown) < 8000
    images.preparation.save(tmp_path / "p.json")
    again = data.load_preparation(tmp_path / "p.json")
    assert again == images.preparation
    np.testing.assert_array_equal(again.apply(tmp_path).x[:], images.x[:])


def test_pictures_are_turned_as_the_camera_says_and_brought_to_a_size(tmp_path: Path) -> None:
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, :8, 0], pixels[:, 8:, 1] = 255, 255  # red on the left, green on the right
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn it clockwise, red comes to the top
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    (x,) = data.read_images([tmp_path / "turned.png"]).x[:]
    assert x.shape == (3, 16, 8) and (x[0, :8] == 1).all() and (x[1, 8:] == 1).all() and not x[1, :8].any()
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    read = {fit: data.read_images([tmp_path / "wide.png"], 8, fit=fit).x[:][0] for fit in ("crop", "pad", "stretch")}
    assert (read["crop"][0, :, :4] == 1).all() and (read["crop"][1, :, 4:] == 1).all()
    assert not read["pad"][:, :2].any() and not read["pad"][:, 6:].any() and (read["pad"][0, 2:6, :3] == 1).all()
    assert (read["stretch"][0, :, :3] == 1).all() and (read["stretch"][1, :, 5:] == 1).all()


def test_grey_transparent_and_deep_pictures(tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 2), 51, np.uint8)).save(tmp_path / "a.png")
    Image.fromarray(np.full((2, 2), 51 * 256, np.uint16)).save(tmp_path / "b.png")
    grey = data.read_images(tmp_path)
    np.testing.assert_allclose(grey.x[:], np.full((2, 1, 2, 2), 0.2), rtol=1e-6)
    assert not grey.labelled and data.read_images(tmp_path, mode="RGB").x.shape == (2, 3, 2, 2)
    Image.fromarray(np.zeros((2, 2, 4), np.uint8)).save(tmp_path / "a.png")
    np.testing.assert_array_equal(data.read_images([tmp_path / "a.png"]).x[:], np.ones((1, 3, 2, 2)))


def test_broken_files_are_named_together(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "red" / "9.png").write_bytes(b"no png")
    with pytest.warns(UserWarning, match=r"1 broken file: 'red/9\.png'; left out"):
        assert len(data.read_images(tmp_path)) == 8
    with pytest.raises(DataError, match=r"1 broken file: 'red/9\.png'"):
        data.read_images(tmp_path, broken="raise")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)).save(tmp_path / "red" / "9.png")
    whole = (tmp_path / "red" / "9.png").read_bytes()
    (tmp_path / "red" / "9.png").write_bytes(whole[: len(whole) // 2])  # the header is fine
    later = data.read_images(tmp_path, (6, 4), budget=0)
    with pytest.raises(DataError, match=r"9\.png: expected a picture that Pillow reads"):
        later.rows(slice(None))


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda f: data.read_images(f / "nope"), "not there"),
    (lambda f: data.read_images(f, 0), "size to be an integer of at least 1"),
    (lambda f: data.read_images(f, fit="cut"), "fit='crop'"),
    (lambda f: data.read_images(f / ".hidden"), "got none"),
    (lambda f: data.read_images([*f.glob("*/*.png"), folder(f / "red", (2, 3)) / "red" / "1.png"]), "2 sizes, 2 x 3"),
    (lambda f: data.read_images((f / "red").rename(f / "train").parent.joinpath("grey").rename(f / "test").parent),
     "a folder for each class; got 'test', 'train'"),
    (lambda f: data.read_images(f).preparation.apply((f / "red").rename(f / "blue").parent), "got 'blue'"),
])
def test_slips_are_named(tmp_path: Path, wrong: Any, says: str) -> None:
    with pytest.raises((DataError, ConfigError), match=says):
        wrong(folder(tmp_path))


def test_files_of_mnist(tmp_path: Path) -> None:
    pixels = np.arange(3 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2)
    with gzip.open(tmp_path / "train-images-idx3-ubyte.gz", "wb") as file:
        file.write(bytes([0, 0, 8, 3]) + struct.pack(">3I", 3, 2, 2) + pixels.tobytes())
    with gzip.open(tmp_path / "train-labels-idx1-ubyte.gz", "wb") as file:
        file.write(bytes([0, 0, 8, 1]) + struct.pack(">I", 3) + bytes([2, 0, 1]))
    digits = data.read(tmp_path / "train-images-idx3-ubyte.gz")
    np.testing.assert_allclose(digits.x[:], pixels[:, None] / 255, rtol=1e-6)
    assert digits.y.tolist() == [2, 0, 1] and digits.classes == ("0", "1", "2")


def test_mapped_files_are_read_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from clnet.train.lazy import Mapped
    np.save(tmp_path / "x.npy", np.arange(2000.0).reshape(500, 4))
    samples = data.Dataset(np.load(tmp_path / "x.npy", mmap_mode="r"), np.arange(500) % 2)
    assert isinstance(samples.x, Mapped) and samples.x.dtype == np.float32
    read: list[int] = []
    usual = Mapped.read
    monkeypatch.setattr(Mapped, "read", lambda self, numbers: read.append(len(numbers)) or usual(self, numbers))
    train, test = samples.split(0.5, seed=0)
    assert not read and np.array_equal(np.sort(np.concatenate([train.x[:], test.x[:]])[:, 0]), np.arange(500) * 4)
    read.clear()
    with clnet.on("numpy"):
        trainer = clnet.Trainer(clnet.Sequential(Dense(out_features=2)), "cross_entropy", "adam")
        trainer.fit(train, epochs=1, batch_size=50, validation=test, verbose=False)
        assert trainer.predict(test.x, batch_size=50).shape == (250, 2)
    assert max(read) <= 256 and sum(read) == 750


def test_the_scale_of_deep_pictures_is_that_of_the_file_not_of_what_it_holds(tmp_path: Path) -> None:
    for k, value in enumerate((100, 10_000)):  # a dark one among them
        Image.fromarray(np.full((2, 2), value, np.uint16)).save(tmp_path / f"{k}.png")
    dark, light = data.read_images(tmp_path).x[:2]
    np.testing.assert_allclose([dark.max(), light.max()], [0, 39 / 255], atol=1e-6)
    for half, ending in ((1, "tif"), (2, "tiff")):
        Image.fromarray(np.full((2, 2), half / 2, np.float32)).save(tmp_path / f"f.{ending}")
    floats = data.read_images([tmp_path / "f.tif", tmp_path / "f.tiff"])
    np.testing.assert_allclose(floats.x[:, 0, 0, 0], [0.5, 1], atol=1 / 255)
    for wrong in (np.float32(7.5), np.int32(70_000)):
        Image.fromarray(np.full((2, 2), wrong)).save(tmp_path / "w.tif")
        with pytest.raises(DataError, match="are taken; make an array of them with your scale"):
            data.read_images([tmp_path / "w.tif"])


def test_what_is_no_class_and_no_picture_is_said(tmp_path: Path) -> None:
    (tmp_path / "outer" / "data").mkdir(parents=True)
    one = folder(tmp_path / "outer" / "data")
    for hidden in (one / next(iter(data.read_images(one).classes)) / ".ipynb_checkpoints", one / "__MACOSX"):
        hidden.mkdir()
        Image.new("RGB", (4, 6)).save(hidden / "again.png")
    count = len(data.read_images(one))
    assert count == 8  # copies that an editor keeps are no samples
    (one / "empty").mkdir()
    Image.new("RGB", (4, 6)).save(one / "beside.png")
    with pytest.warns(UserWarning, match="no classes: 'empty'; 1 picture beside the folders of classes left out"):
        assert len(data.read_images(one)) == count
    with pytest.warns(UserWarning, match=r"got one class, 'data'; if its folders are the classes, read '.*data'"):
        data.read_images(tmp_path / "outer")


@pytest.mark.parametrize(("files", "says"), (
    (["a/x.heic", "a/y.heic", "b/z.txt"], r"files with .heic \(2\), .txt \(1\)"), ([], "got none"),
    (["train-images-idx3-ubyte"], r"files of MNIST; read one: read\('")))
def test_a_folder_without_pictures_is_told_what_is_there(files: list[str], says: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=says):
        data.read_images(tmp_path)
    for wrong in (None, 3, [3]):
        with pytest.raises(DataError, match="expected a folder of pictures, a file or a list of files"):
            data.read_images(wrong)  # type: ignore[arg-type]


def test_pictures_are_indexed_as_an_array_is(tmp_path: Path) -> None:
    x = data.read_images(folder(tmp_path)).x
    whole = np.asarray(x)
    for index in (0, -1, slice(1, 3), [0, 2], (slice(None), 0), (0, 1, 2), (..., 0), (slice(2), slice(None), 1, 1)):
        np.testing.assert_array_equal(x[index], whole[index])
