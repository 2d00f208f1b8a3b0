"""Models that keep their parameters in 16 bits: values, files, training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.core.spec import np_dtype
from clnet.engine.explain import explain
from clnet.errors import CheckpointError, ConfigError, DTypeError
from clnet.layers import Conv2d, Dense, Embedding, Flatten, LayerNorm
from clnet.model import Sequential
from clnet.optimizers import Adam
from clnet.train import Trainer

rng = np.random.default_rng(4)
X = rng.standard_normal((6, 40)).astype(np.float32)
STEP = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # largest relative error of rounding to the nearest


def mlp() -> Any:
    return Sequential(Dense(out_features=33, activation="relu"), LayerNorm(), Dense(out_features=5)).build((40,))


def values(model: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(p.numpy()).astype(np.float64) for p in model.parameters()]


@pytest.mark.parametrize("dtype", STEP)
def test_values_are_those_of_the_rounded_weights(engine: Any, dtype: str) -> None:
    model = Sequential(Dense(out_features=33), Dense(out_features=5)).build((40,))
    before = values(model)
    assert model.astype(dtype) is model
    assert [p.dtype for p in model.parameters()] == [dtype, "float32", dtype, "float32"]
    for old, new in zip(before, values(model), strict=True):
        assert np.all(np.abs(new - old) <= STEP[dtype] * np.abs(old) + 2.0**-25)
    w, b, v, c = values(model)
    y = model(X)
    assert y.dtype == "float32"
    want = (X @ w.T + b) @ v.T + c
    assert np.abs(y.numpy() - want).max() < 2e-6 * np.abs(want).max()
    if engine.device.kind == "cpu" and engine.compiles:  # read where they lie
        assert [name for name, _ in explain(model(X)).launches] == ["matmul", "matmul"]


def test_rounded_as_pytorch_rounds(engine: Any) -> None:
    torch = pytest.importorskip("torch")
    model = mlp()
    theirs = {n: torch.from_numpy(np.array(p.numpy())) for n, p in model.variables().items()}
    model.astype("bfloat16", "*")
    for n, p in model.variables().items():
        rounded = theirs[n].bfloat16()
        assert np.array_equal(p.numpy().astype(np.float32), rounded.float().numpy())
        theirs[n] = rounded
    other = mlp().astype("bfloat16", "*")
    assert not other.load_weights(theirs).missing
    assert np.array_equal(other(X).numpy(), model(X).numpy())


def test_tables_and_convolutions(engine: Any) -> None:
    table = Sequential(Embedding(num_embeddings=50, embedding_dim=24)).build((7,), dtype="int32").astype("bfloat16")
    i = rng.integers(0, 50, (3, 7)).astype(np.int32)
    assert np.array_equal(table(i).numpy(), table.parameters()[0].numpy()[i])
    images = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    model = Sequential(Conv2d(out_channels=4, kernel_size=3), Flatten(), Dense(out_features=2)).build((3, 8, 8))
    wide = model(images).numpy()
    assert np.abs(model.astype("bfloat16")(images).numpy() - wide).max() < 0.02 * np.abs(wide).max()


def test_files_keep_the_dtype(engine: Any, tmp_path: Path) -> None:
    model = mlp().astype("bfloat16")
    model.save(tmp_path / "narrow.safetensors")
    again = clnet.load(tmp_path / "narrow.safetensors")
    assert [p.dtype for p in again.parameters()] == [p.dtype for p in model.parameters()]
    assert np.array_equal(again(X).numpy(), model(X).numpy())
    assert np.array_equal(mlp().astype("bfloat16").load(tmp_path / "narrow.safetensors")(X).numpy(), model(X).numpy())
    with pytest.raises(CheckpointError, match="bfloat16"):
        mlp().load(tmp_path / "narrow.safetensors")
    wide = again.astype("float32")
    assert {p.dtype for p in wide.parameters()} == {"float32"}
    # no value changes on the way back; sums of the kernels for either may differ in their last bits
    assert np.allclose(wide(X).numpy(), model(X).numpy(), atol=1e-5)


def test_training_goes_on_with_what_is_stored(engine: Any) -> None:
    x = rng.standard_normal((128, 40)).astype(np.float32)
    y = x[:, :5].argmax(1).astype(np.int32)
    trainer = Trainer(mlp(), "cross_entropy", Adam(lr=3e-3))
    trainer.fit(x, y, epochs=2, batch_size=32, verbose=False)
    before = trainer.evaluate(x, y)["loss"]
    trainer.model.astype("bfloat16")
    trainer.fit(x, y, epochs=8, batch_size=32, verbose=False)
    weight = trainer.model.parameters()[0]
    assert trainer.evaluate(x, y)["loss"] < 0.8 * before
    assert weight.dtype == "bfloat16" and weight.arena is not None
    assert {m["m"].dtype for m in trainer.optimizer.memories} == {"float32"}
    assert trainer.predict(x).dtype == np_dtype("float32")


def test_slips_are_named(engine: Any) -> None:
    with pytest.raises(DTypeError, match=r"Sequential\.astype: expected float16, .*; got int32"):
        mlp().astype("int32")
    with pytest.raises(ConfigError, match=r"Sequential\.astype: .*got 'layers\.7'"):
        mlp().astype("bfloat16", "layers.7")
    with pytest.raises(ConfigError, match=r"expected a model with parameters; got none"):
        Sequential(Dense(out_features=3)).astype("bfloat16")
    with pytest.raises(AttributeError, match="astype"):
        mlp().half()
