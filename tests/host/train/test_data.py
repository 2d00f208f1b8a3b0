"""Data sets: the bundled one, files that lie, and orders that come out the same."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from clnet import init
from clnet.engine import on
from clnet.errors import DataError
from clnet.layers import Layer
from clnet.train import Batches, Dataset, data
from clnet.train.batches import even
from clnet.train.options import held_out, joined
from clnet.train.samples import as_dataset
from clnet.train.stream import Stream, batches_of, samples_of
from clnet.workbench.evidence.registry import load_all


def test_digits_are_scikit_learns_however_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_digits

    theirs, read = load_digits(), data.load("digits")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for ours in (read, data.load("digits")):
        assert (ours.x[:, 0] == (theirs.images / 16).astype(np.float32)).all() and (ours.y == theirs.target).all()
        assert list(ours.names) == [str(n) for n in theirs.target_names]


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


@pytest.mark.parametrize(("x", "y"), [(np.zeros((0, 3)), np.zeros(0)), (np.zeros((2, 3)), np.zeros(3)),
                                      (np.array([object()]), np.zeros(1)),
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


def test_arguments_of_tables_are_refused_where_labels_have_a_file(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((2, 3, 3), np.uint8)))
    with pytest.raises(DataError, match=r"expected neither target= .*; got 'target', 'drop'; labels of MNIST's files"):
        data.read(tmp_path / "train-images-idx3-ubyte", target="y", drop=["a"])
    (tmp_path / "my_idx.csv").write_text("a,b\n1,2\n2,3\n3,5\n4,4\n")
    assert len(data.read(tmp_path / "my_idx.csv", target="b")) == 4
    for path in ("", " "):
        with pytest.raises(DataError, match="expected the path of a file or a folder; got '"):
            data.read(path)


def test_read_idx_of_big_endian_numbers(tmp_path: Path) -> None:
    values = np.array([[1, -2, 70000]], ">i4")
    (tmp_path / "v").write_bytes(idx(values, 12))
    assert data.read_idx(tmp_path / "v").tolist() == values.tolist()


WHOLE = idx(np.zeros((3, 4), np.uint8))
DAMAGED = {"empty": b"", "magic": b"\x01" + WHOLE[1:], "type": WHOLE[:2] + b"\x07" + WHOLE[3:], "cut": WHOLE[:-1],
           "header cut": WHOLE[:6], "longer": WHOLE + b"\0",
           "claims 4 TiB": bytes([0, 0, 8, 1]) + struct.pack(">I", 2**32 - 1) + b"\0",
           "nothing inside": idx(np.zeros((0, 4), np.uint8)),
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
    with pytest.raises(DataError, match="expected an array 'y'; got images, labels"):
        data.read_npz(tmp_path / "a.npz")
    named = data.read(tmp_path / "a.npz", "labels")
    assert (named.x == x).all() and (named.y == y).all(), "what stands beside the target is x"


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


# --- what people have in hand
class Tensor:
    """As a tensor of another library: NumPy cannot read it before it is detached, nor in its narrow type."""

    def __init__(self, array: np.ndarray, dtype: str = "torch.float32", attached: bool = True) -> None:
        self.array, self.dtype, self.attached = array, dtype, attached
        self.shape = array.shape

    def detach(self) -> Tensor:
        return Tensor(self.array, self.dtype, False)

    def cpu(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor(self.array.astype(np.float32), "torch.float32", self.attached)

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        if self.attached or self.dtype == "torch.bfloat16":
            raise RuntimeError("Can't call numpy() on Tensor that requires grad")
        return self.array


class TensorDataset:
    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors


class DataLoader:
    """Batches of tensors, gone through again and again, as PyTorch's gives them."""

    dataset, batch_sampler = TensorDataset(), None

    def __init__(self, batch_size: int | None = 32) -> None:
        self.batch_size = batch_size
        self.x, self.y = np.arange(300, dtype=np.float32).reshape(100, 3), np.arange(100) % 4

    def __len__(self) -> int:
        return 100 if self.batch_size is None else -(-100 // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        if self.batch_size is None:
            yield from zip(self.x, self.y, strict=True)
            return
        for k in range(0, 100, self.batch_size):
            yield Tensor(self.x[k : k + self.batch_size]), Tensor(self.y[k : k + self.batch_size], "torch.int64")


@pytest.mark.parametrize("size", [32, None])
def test_a_loader_is_a_stream_in_its_batches(size: int | None) -> None:
    loader = DataLoader(size)
    for found in (joined(loader, None), held_out(joined(loader, None), loader, 0)[1]):
        assert isinstance(found, Stream)
        batches = list(batches_of(found, None, shuffle=False).epoch())
        assert [len(y) for _, y in batches] == ([32, 32, 32, 4] if size else [64, 36])
        assert np.array_equal(np.concatenate([x[0] for x, _ in batches]), loader.x)
        assert np.array_equal(np.concatenate([y for _, y in batches]), loader.y)
    assert len(list(batches_of(found, 50, shuffle=False).epoch())) == 2
    assert isinstance(samples_of(loader, None), Stream)


def test_tensors_of_other_libraries() -> None:
    x, y = np.ones((4, 3), np.float32), np.arange(4)
    found = as_dataset((Tensor(x), Tensor(y, "torch.int64")))
    assert np.array_equal(found.x, x)
    assert np.array_equal(found.y, y)
    assert data.from_arrays(Tensor(x, "torch.bfloat16"), y).x.dtype == np.float32
    assert data.from_arrays(x.astype(ml_dtypes.bfloat16), y).x.dtype == np.float32
    assert len(as_dataset(TensorDataset(Tensor(x), Tensor(y)))) == 4
    assert len(as_dataset(TensorDataset(Tensor(x), Tensor(x), Tensor(y))).x) == 2


FRAME = pd.DataFrame({"age": [3, 4], "name": ["a", "b"], "born": pd.to_datetime(["2020", "2021"]),
                      "kind": pd.Categorical(["p", "q"])})
REFUSED = {
    "columns of no numbers": ((FRAME, [0, 1]),
                              r"'name' \(text\), 'born' \(dates\), 'kind' \(categories\).*drop\(columns=.*get_dummies"),
    "a series of text": ((FRAME[["age"]], FRAME["name"]),
                         r"got text in 'name'; number them first: codes, names = pandas\.factorize\(y\)"),
    "categories": ((FRAME[["age"]], FRAME["kind"]), r"y\.cat\.codes"),
    "text": ((np.ones((2, 2)), np.array(["a", "b"])), r"got text.*np\.unique\(labels, return_inverse=True\)"),
    "objects of text": ((np.ones((2, 2)), np.array(["a", "b"], object)), r"got text"),
    "dates": ((np.array(["2020", "2021"], "datetime64[D]"), [0, 1]), "got dates"),
    "complex numbers": ((np.ones((2, 2)) * 1j, [0, 1]), r"np\.stack\(\[z\.real, z\.imag\], -1\)"),
    "rows of several lengths": (([[1, 2], [3]], [0, 1]), "rows of one length; got lengths from 1 to 2"),
    "sparse": ((scipy.sparse.eye(3).tocsr(), [0, 1, 2]), r"x\.toarray\(\)"),
    "masked": ((np.ma.masked_invalid([[1.0], [np.nan]]), [0, 1]), r"1 masked; fill it"),
    "a dict": ({"x": [1], "y": [2]}, r"fit\(d\['x'\], d\['y'\]\)"),
    "a generator": ((b for b in [1]), r"np\.concatenate, zip\(\*batches\)"),
    "x alone": (np.ones((4, 2)), r"expected labels too.*fit\(x, y\)"),
    "a loader": (DataLoader(), r"fit\(loader\.dataset, batch_size=32\)"),
    "a number": (3, "a pair"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_way_out(case: str) -> None:
    given, words = REFUSED[case]
    with pytest.raises(DataError, match=words):
        as_dataset(given)


def test_frames() -> None:
    found = data.from_arrays(pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]}),
                             pd.Series([0, 1], dtype="Int64"))
    assert found.x.tolist() == [[1, 0.5, 1], [2, 1.5, 0]]
    assert (found.x.dtype, found.y.dtype, found.columns) == (np.float32, np.int32, (("a", "b", "c"),))
    assert found[:1].columns == found.columns
    missing = data.from_arrays(pd.DataFrame({"a": pd.array([1, None], "Int64")}), [0, 1])
    assert np.array_equal(missing.x, [[1], [np.nan]], equal_nan=True)


def test_a_data_set_is_a_sequence() -> None:
    found = data.from_arrays(np.arange(12.0).reshape(6, 2), np.arange(6))
    assert len(found) == 6
    x, y = found[4]
    assert (x.tolist(), y) == ([8, 9], 4)
    assert found[-1][1] == 5
    assert [y for _, y in found] == list(range(6))
    for part in (found[:2], found[[0, 1]], found[np.array([0, 1])], found[found.y < 2]):
        assert isinstance(part, Dataset)
        assert part.y.tolist() == [0, 1]
    for wrong in (6, -7, "a", [9]):
        with pytest.raises(DataError):
            found[wrong]


def test_split_by_share_or_number() -> None:
    found = data.load("digits")
    assert [len(p) for p in found.split(test=100)] == [1697, 100]
    assert [len(p) for p in found.split(test=np.float64(0.5))] == [898, 899]
    for wrong in (-0.2, 1.5, True, "a", None, 0, 1797):
        with pytest.raises(DataError, match=r"split\(test=.*samples on both sides"):
            found.split(test=wrong)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
def test_every_layer_takes_whole_numbers(dtype: str) -> None:
    """As it takes the same numbers as float32; layers that move numbers or look them up give them back as they are."""
    load_all()
    rng, kept = np.random.default_rng(0), set()
    with on("numpy"):
        for name, cls in sorted(Layer.registry.items()):
            for fields, inputs in cls.examples[:2] if cls.__module__.startswith("clnet.") else ():
                count = len(inputs) if cls.merges else cls.signature.split("->")[0].count(",") + 1
                drawn = [rng.integers(0, 3, i).astype(dtype) if isinstance(i, tuple) and k < count else i
                         for k, i in enumerate(inputs)]
                drawn = [rng.normal(size=i).astype(np.float32) if isinstance(i, tuple) else i for i in drawn]
                floats = [x.astype(np.float32) if isinstance(i, tuple) else x
                          for x, i in zip(drawn, inputs, strict=True)]
                found = []
                for xs in (drawn, floats):
                    init.seed(0)
                    y = cls(**fields).eval()(*xs)
                    found.append(y if isinstance(y, tuple) else (y,))
                for a, b in zip(*found, strict=True):
                    assert np.array_equal(a.numpy(), b.numpy(), equal_nan=True), name
                    kept |= {name} if a.dtype != b.dtype else set()
    assert kept <= {"Crop2d", "Flatten", "Reshape", "Split", "TimeDistributed"}, kept


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_batch_size_that_is_none_is_refused_wherever_batches_are_made(size: object) -> None:
    with pytest.raises(DataError, match="expected a whole number of samples, at least 1"):
        even(10, size)  # type: ignore[arg-type]
