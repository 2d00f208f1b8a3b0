"""Data sets: the bundled one, files that lie, and orders that come out the same."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clnet.errors import DataError
from clnet.train import Batches, Dataset, data


def test_digits() -> None:
    digits = data.load("digits")
    assert (digits.x.shape, digits.x.dtype, digits.y.dtype) == ((1797, 1, 8, 8), np.float32, np.int32)
    assert (digits.x.min(), digits.x.max()) == (0.0, 1.0)
    assert digits.names == tuple("0123456789")
    assert digits.description


def test_split_is_fixed_and_complete() -> None:
    digits = data.load("digits")
    train, test = digits.split(0.2, seed=0)
    again = digits.split(0.2, seed=0)
    assert (len(train), len(test)) == (1437, 360)
    assert np.array_equal(train.x, again[0].x)
    assert np.array_equal(test.y, again[1].y)
    assert np.array_equal(np.sort(np.concatenate([train.y, test.y])), np.sort(digits.y))
    assert not np.array_equal(test.y, digits.split(0.2, seed=1)[1].y)


@pytest.mark.parametrize("part", [0.0, 1.0])
def test_split_with_an_empty_side(part: float) -> None:
    with pytest.raises(DataError, match="both sides"):
        data.load("digits").split(part)


@pytest.mark.parametrize(("x", "y"), [(np.zeros((0, 3)), np.zeros(0)), (np.zeros((2, 3)), np.zeros(3)), (np.array([object()]), np.zeros(1)),
                                      (np.float32(1), np.float32(1)), (np.array(["a"]), np.zeros(1))])
def test_what_is_no_data(x: np.ndarray, y: np.ndarray) -> None:
    with pytest.raises(DataError):
        data.from_arrays(x, y)


def test_arrays_enter_in_single_precision_and_c_order() -> None:
    found = data.from_arrays(np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array([1, 2], ">i8"))
    assert (found.x.dtype, found.y.dtype) == (np.float32, np.int32)
    assert found.x.flags.c_contiguous
    assert np.array_equal(found.x, np.arange(6.0).reshape(2, 3))


def test_several_inputs() -> None:
    found = data.from_arrays((np.zeros((4, 2)), np.ones((4, 3))), np.arange(4))
    (a, b), y = next(iter(Batches(found, 3, shuffle=False)))
    assert (a.shape, b.shape, y.tolist()) == ((3, 2), (3, 3), [0, 1, 2])


def idx(array: np.ndarray, code: int = 8) -> bytes:
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_read_idx(tmp_path: Path, pack: type) -> None:
    images = np.random.default_rng(0).integers(0, 255, (5, 4, 3), dtype=np.uint8)
    (tmp_path / "images").write_bytes(pack(idx(images)))
    assert np.array_equal(data.read_idx(tmp_path / "images"), images)


def test_read_idx_of_big_endian_numbers(tmp_path: Path) -> None:
    values = np.array([[1, -2, 70000]], ">i4")
    (tmp_path / "v").write_bytes(idx(values, 12))
    assert data.read_idx(tmp_path / "v").tolist() == values.tolist()


WHOLE = idx(np.zeros((3, 4), np.uint8))
DAMAGED = {"empty": b"", "magic": b"\x01" + WHOLE[1:], "type": WHOLE[:2] + b"\x07" + WHOLE[3:], "cut": WHOLE[:-1],
           "header cut": WHOLE[:6], "longer": WHOLE + b"\0",
           "claims 4 TiB": bytes([0, 0, 8, 1]) + struct.pack(">I", 2**32 - 1) + b"\0", "nothing inside": idx(np.zeros((0, 4), np.uint8)),
           "gzip cut": gzip.compress(WHOLE)[:-9], "gzip of nothing": b"\x1f\x8b", "rank 0": b"\0\0\x08\0"}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_idx(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(DAMAGED[name])
    with pytest.raises(DataError):
        data.read_idx(tmp_path / "file")


def test_missing_files(tmp_path: Path) -> None:
    for read in (data.read_idx, data.read_npz):
        with pytest.raises(DataError):
            read(tmp_path / "nothing")


def test_read_npz(tmp_path: Path) -> None:
    x, y = np.asfortranarray(np.arange(12.0).reshape(4, 3)), np.arange(4)
    np.savez(tmp_path / "a.npz", images=x, labels=y)
    np.savez_compressed(tmp_path / "b.npz", images=x, labels=y)
    for name in ("a.npz", "b.npz"):
        found = data.read_npz(tmp_path / name, x="images", y="labels")
        assert np.array_equal(found.x, x)
        assert np.array_equal(found.y, y)
    with pytest.raises(DataError, match="images, labels"):
        data.read_npz(tmp_path / "a.npz")


def test_npz_with_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], object), y=np.zeros(1))
    with pytest.raises(DataError, match="run code"):
        data.read_npz(tmp_path / "a.npz")


def test_npz_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**39,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
        archive.writestr("y.npy", header.getvalue())
    with pytest.raises(DataError, match="fits the file"):
        data.read_npz(tmp_path / "a.npz")


def test_npz_bomb(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1 << 24,), np.float64), y=np.zeros(3))
    with pytest.raises(DataError, match="fits the file"):
        data.read_npz(tmp_path / "a.npz")


def test_batches_cover_everything_once() -> None:
    batches = Batches((np.arange(10), np.arange(10)), 4, seed=3)
    parts = [y for _, y in batches.epoch(0)]
    assert [len(p) for p in parts] == [4, 4, 2] == [4] * (len(batches) - 1) + [2]
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))


def test_batches_come_out_the_same_from_anywhere() -> None:
    found = Dataset(np.arange(50), np.arange(50))
    whole = [y.tolist() for _, y in Batches(found, 8, seed=7).epoch(4)]
    assert whole[3:] == [y.tolist() for _, y in Batches(found, 8, seed=7).epoch(4, start=3)]
    assert whole != [y.tolist() for _, y in Batches(found, 8, seed=7).epoch(5)]
    assert whole != [y.tolist() for _, y in Batches(found, 8, seed=8).epoch(4)]


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_batches_of_no_size(size: int) -> None:
    with pytest.raises(DataError):
        Batches((np.zeros(3), np.zeros(3)), size)


def test_unknown_data() -> None:
    with pytest.raises(DataError, match="digits"):
        data.load("mnist")
    with pytest.raises(DataError, match="pair"):
        Batches(3, 4)
