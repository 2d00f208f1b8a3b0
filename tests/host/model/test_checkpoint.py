"""Files of models: whole or refused, old or new but never half; what is in them comes back to the last bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from clnet import init
from clnet.engine import on
from clnet.errors import CheckpointError, ClnetError, ConfigError
from clnet.layers import BatchNorm, Dense, Flatten
from clnet.model import Sequential, load
from clnet.model import files as model_io
from clnet.optimizers import Adam


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def small(seed: int = 0) -> Sequential:
    init.seed(seed)
    return Sequential(Dense(in_features=4, out_features=3, activation="tanh"), BatchNorm(num_features=3),
                      Dense(in_features=3, out_features=2))


def same(a: Any, b: Any) -> bool:
    x, y = model_io.values(a), model_io.values(b)
    return x.keys() == y.keys() and all(np.array_equal(x[n], y[n]) and x[n].dtype == y[n].dtype for n in x)


def test_model_comes_back(tmp_path: Path) -> None:
    model = small()
    model.save(tmp_path / "m.safetensors")
    assert same(load(tmp_path / "m.safetensors"), model)
    assert same(small(1).load(tmp_path / "m.safetensors"), model)
    assert "layers.1.running_mean" in model_io.values(model) or any("mean" in n for n in model_io.values(model))


def test_values_in_an_arena_come_back(tmp_path: Path) -> None:
    model, other = small(), small(1)
    Adam().attach(model.parameters())
    Adam().attach(other.parameters())
    model.save(tmp_path / "m")
    assert same(other.load(tmp_path / "m"), model)


def test_every_dtype_and_stride(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {t: rng.integers(0, 2, (3, 4)).astype(t)
              for t in ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64")}
    arrays |= {"bf16": rng.normal(size=(2, 3)).astype(ml_dtypes.bfloat16), "scalar": np.array(7, np.uint32),
               "empty": np.zeros((0, 3), np.float32)}
    arrays |= {"transposed": rng.normal(size=(4, 5)).astype(np.float32).T, "reversed": np.arange(6.0)[::-1],
               "big": np.arange(3, dtype=">f4")}
    model_io.write(tmp_path / "a", arrays, {"note": "ü"})
    found, meta = model_io.read(tmp_path / "a")
    assert meta == {"note": "ü"}
    for name, array in arrays.items():
        assert np.array_equal(found[name], array), name
        assert found[name].shape == array.shape


def test_other_programs_read_it(tmp_path: Path) -> None:
    model = small()
    model.save(tmp_path / "m")
    found = safetensors.numpy.load_file(tmp_path / "m")
    assert np.array_equal(found["layers.0.weight"], model[0].weight.numpy())


def test_one_error_lists_everything(tmp_path: Path) -> None:
    small().save(tmp_path / "m")
    other = Sequential(Dense(in_features=4, out_features=5), Flatten(),
                       Dense(in_features=5, out_features=2, bias=False))
    with pytest.raises(CheckpointError) as caught:
        other.load(tmp_path / "m")
    shapes = "layers.0.weight is float32[5, 4] in the model and float32[3, 4] in the file"
    for part in ("not in the model layers.1.", shapes, "layers.2.weight", "layers.2.bias"):
        assert part in str(caught.value)


def test_unbuilt_models_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"layers\.0 without sizes"):
        Sequential(Dense(out_features=2)).save(tmp_path / "m")


def test_a_checkpoint_is_no_model(tmp_path: Path) -> None:
    model_io.write(tmp_path / "c", {}, {"format": "clnet checkpoint 1"})
    for read in (load, small().load):
        with pytest.raises(CheckpointError):
            read(tmp_path / "c")


def rewrite(path: Path, config: str) -> None:
    arrays, meta = model_io.read(path)
    model_io.write(path, arrays, {**meta, "config": config})


@pytest.mark.parametrize("config", ["{", "[]", '{"type": "os.system"}', '{"type": "Dense"}', "null",
                                    '{"type": "Sequential", "layers": [' * 2000])
def test_hostile_configurations(tmp_path: Path, config: str) -> None:
    small().save(tmp_path / "m")
    rewrite(tmp_path / "m", config)
    with pytest.raises(CheckpointError):
        load(tmp_path / "m")


def test_every_damage_is_found(tmp_path: Path) -> None:
    path, model = tmp_path / "m", small()
    model.save(path)
    whole, rng = path.read_bytes(), random.Random(0)
    quiet = 0
    for _ in range(2000):
        data = bytearray(whole)
        how = rng.randrange(4)
        if how == 0:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif how == 1:
            del data[rng.randrange(len(data)) :]
        elif how == 2:
            data += rng.randbytes(rng.randrange(1, 9))
        else:
            at = rng.randrange(len(data))
            data[at : at + 8] = rng.randbytes(len(data[at : at + 8]))
        path.write_bytes(data)
        try:
            found = load(path)
        except ClnetError:
            continue
        quiet += 1  # a change that means nothing: a space of the header's padding, say
        assert same(found, model)
    assert quiet < 100


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="readable"):
        load(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="expected a folder that exists"):
        small().save(tmp_path / "no folder" / "m")


def test_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    model.save(tmp_path / "m")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        small(1).save(tmp_path / "m")
    assert same(load(tmp_path / "m"), model)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_stale_files_are_swept_and_young_ones_are_not(tmp_path: Path) -> None:
    old, young = tmp_path / ".m.0123.tmp", tmp_path / ".m.4567.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    small().save(tmp_path / "m")
    assert not old.exists()
    assert young.exists()


@pytest.mark.skipif(os.name != "posix", reason="links need POSIX")
def test_a_link_in_the_way_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "m").symlink_to(tmp_path / "target")
    small().save(tmp_path / "m")
    assert (tmp_path / "target").read_text() == "mine"


KILLED = """
import sys, numpy as np
from clnet.model import files as model_io
k = 0
print("ready", flush=True)
while True:
    k += 1
    model_io.write(sys.argv[1], {"a": np.full(200_000, k, np.float32), "b": np.array(k)}, {})
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL needs POSIX")
def test_killed_while_saving(tmp_path: Path) -> None:
    path = tmp_path / "m"
    model_io.write(path, {"a": np.zeros(200_000, np.float32), "b": np.array(0)}, {})
    for wait in (0.02, 0.05, 0.11, 0.17, 0.23):
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        found, _ = model_io.read(path)
        assert (found["a"] == found["b"]).all()


def test_names_that_are_paths_are_refused(tmp_path: Path) -> None:
    for name in ("../a", "a/b", "", "a b", "a\n"):
        with pytest.raises(CheckpointError, match="names of letters"):
            model_io.write(tmp_path / "m", {name: np.zeros(1)}, {})


def test_checksums_are_in_the_metadata(tmp_path: Path) -> None:
    small().save(tmp_path / "m")
    with safetensors.safe_open(tmp_path / "m", framework="numpy") as file:
        assert json.loads(file.metadata()["sha256"]).keys() == set(file.keys())
        assert json.loads(file.metadata()["config"])["type"] == "Sequential"


@pytest.mark.parametrize(("name", "words"), [
    ("m.h5", r"save\(m\.h5\): expected a name that ends in \.safetensors.*got \.h5, as HDF5 has it; "
             r"write 'm\.safetensors'\."),
    ("m.PT", r"as PyTorch has it"),
    ("runs/last/m.safetensors", r"expected a folder that exists; got '.*runs/last'; .*mkdir\(parents=True\)\."),
    ("", r"expected the path of a file; got a folder; give it a name"),
])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(CheckpointError, match=words) as caught:
        small().save(tmp_path / name)
    assert "old file" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["m", "m.safetensors", "model.v2"])
def test_other_names_are_free(tmp_path: Path, name: str) -> None:
    small().save(tmp_path / name)
    assert same(load(tmp_path / name), small())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    small().save(tmp_path / "digits.safetensors")
    with pytest.raises(CheckpointError, match=r"did you mean 'digits.safetensors'\?$"):
        load(tmp_path / "digit.safetensors")
    with pytest.raises(CheckpointError, match=r"got a folder that does not exist, '.*runs'\.$"):
        load(tmp_path / "runs" / "m.safetensors")
    with pytest.raises(CheckpointError, match="expected the path of a file; got 3"):
        load(3)
    (tmp_path / "m.h5").write_bytes(b"\x89HDF")
    with pytest.raises(CheckpointError, match="a file named as HDF5's"):
        load(tmp_path / "m.h5")


def test_arrays_by_name_are_loaded(tmp_path: Path) -> None:
    model, other = small(), small(1)
    arrays = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in model_io.values(model).items()}
    assert other.load(arrays) is other
    assert same(model, other)
    assert same(small(1).load(dict(model.variables())), model)
    safetensors.numpy.save_file({n: np.ascontiguousarray(a) for n, a in model_io.values(model).items()},
                                tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match=r"tensors without checksums; .*model\.load\(safetensors"):
        small(1).load(tmp_path / "other.safetensors")
    assert same(small(1).load(safetensors.numpy.load_file(tmp_path / "other.safetensors")), model)


def test_arrays_that_do_not_fit_are_all_named() -> None:
    model, before = small(), small()
    arrays = model_io.values(model)
    arrays["layers.0.weight"] = arrays["layers.0.weight"].T
    arrays["fc.weight"] = arrays.pop("layers.2.weight")
    words = r"missing layers.2.weight; not in the model fc.weight; .* float32\[4, 3\] in what was given"
    with pytest.raises(CheckpointError, match=words):
        model.load(arrays)
    assert same(model, before)
    with pytest.raises(ConfigError, match="expected a built model"):
        Sequential(Dense(out_features=2)).load({})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX's")
def test_a_device_or_pipe_is_not_replaced_by_a_file(tmp_path):
    """Its own pipe stands for a device: renaming over /dev/null would take it from the whole machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        with pytest.raises(CheckpointError, match="got a device, pipe or socket"):
            model_io.write(path, {"w": np.zeros(2, np.float32)}, {})
    assert pipe.is_fifo() and (tmp_path / "link").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "pipe"]
