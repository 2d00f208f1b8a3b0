"""What people's files hold, trained on: integers, bytes, bools, frames; and what is refused before a step runs, or
named after one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from clnet import init
from clnet.core.spec import Spec
from clnet.engine import on
from clnet.errors import ConfigError, DataError, DTypeError, NonFiniteError, ShapeError
from clnet.layers import LSTM, BatchNorm, Conv2d, Dense, Embedding, Flatten, Lambda, Layer, Reshape
from clnet.losses import BCELoss, CrossEntropyLoss, MSELoss
from clnet.model import Graph, Sequential, load
from clnet.optimizers import SGD
from clnet.train import Trainer, data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)
IMAGES = RNG.integers(0, 256, (40, 1, 6, 6), dtype=np.uint8)
COUNTS = RNG.integers(0, 9, (40, 4))
FRAME = pd.DataFrame(X, columns=["length", "mean radius", "height", "age"])


def trainer(*layers: Any, loss: Any = None, **more: Any) -> Trainer:
    init.seed(0)
    return Trainer(Sequential(*(layers or (Dense(out_features=3, activation="relu"), Dense(out_features=2)))),
                   loss or CrossEntropyLoss(), SGD(lr=0.01), **more)


def losses(x: Any, y: Any, *layers: Any) -> list[float]:
    return trainer(*layers).fit((x, y), 2, 16, verbose=False).steps


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64", "bool"])
def test_labels_of_any_integer_type(engine: Any, dtype: str) -> None:
    assert losses(X, Y.astype(dtype), Dense(out_features=2)) == losses(X, Y, Dense(out_features=2))


def cnn() -> list[Any]:
    return [Conv2d(out_channels=2, kernel_size=3, activation="tanh"), Flatten(), Dense(out_features=2)]


def test_bytes_of_images_are_numbers_everywhere(engine: Any) -> None:
    """fit, evaluate, predict and a call agree with those on float32, and what travels to the device is bytes."""
    made, same = trainer(*cnn()), trainer(*cnn())
    floats = IMAGES.astype(np.float32)
    for one in (made, same):
        init.seed(0)
        one.model.build((1, 6, 6))
    history = made.fit((IMAGES, Y), 1, 16, verbose=False)
    assert history.steps == same.fit((floats, Y), 1, 16, verbose=False).steps
    assert made.evaluate((IMAGES, Y)) == same.evaluate((floats, Y))
    assert np.array_equal(made.predict(IMAGES), same.predict(floats))
    assert np.array_equal(made.predict(IMAGES), made.model.eval()(IMAGES).numpy())
    assert all(key[1][0] == Spec((16, 1, 6, 6), "uint8") or key[1][0].shape[0] == 8 for key in made.steps.train.replays)


@pytest.mark.parametrize("x", [
    COUNTS, COUNTS.astype(np.uint16), COUNTS > 4, pd.DataFrame(COUNTS), pd.DataFrame(COUNTS).convert_dtypes(),
    COUNTS.tolist()], ids=["int64", "uint16", "bool", "frame", "nullable", "lists"])
def test_whole_numbers_and_bools(engine: Any, x: Any) -> None:
    floats = np.asarray(x, np.float32)
    layers = Dense(out_features=2), BatchNorm(), Reshape(shape=(2,))
    assert losses(x, Y, *layers) == losses(floats, Y, *(Dense(out_features=2), BatchNorm(), Reshape(shape=(2,))))


def test_what_takes_integers_still_gets_them(engine: Any) -> None:
    ids = COUNTS.astype(np.uint8)
    assert losses(ids, Y, Reshape(shape=(4, 1)), Embedding(num_embeddings=9, embedding_dim=2), Flatten(),
                  Dense(out_features=2))

    class Net(Layer):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.table, self.head = Embedding(num_embeddings=9, embedding_dim=2), Dense(in_features=8, out_features=2)

        def forward(self, ids: Any) -> Any:
            return self.head(self.table(ids).reshape(-1, 8))

    init.seed(0)
    Trainer(Net(), CrossEntropyLoss(), SGD()).fit((ids, Y), 1, verbose=False)
    with pytest.raises(DTypeError, match="Embedding: expected integer indices"):
        losses(X, Y, Embedding(num_embeddings=9, embedding_dim=2), Flatten(), Dense(out_features=2))


def test_a_graph_takes_bytes_for_floats(engine: Any) -> None:
    init.seed(0)
    model = Graph({"x": (1, 6, 6)}, [("flat", Flatten(), "x"), ("out", Dense(out_features=2), "flat")], ["out"])
    history = Trainer(model, CrossEntropyLoss(), SGD()).fit((IMAGES, Y), 1, verbose=False)
    assert history.steps and np.isfinite(history["loss"]).all()


def test_frames_of_several_kinds(engine: Any) -> None:
    mixed = FRAME.assign(age=COUNTS[:, 0], height=COUNTS[:, 1] > 4)
    floats = mixed.to_numpy().astype(np.float32)
    assert losses(mixed, pd.Series(Y), Dense(out_features=2)) == losses(floats, Y, Dense(out_features=2))


# --- NaN, by its place in the user's data
def holed() -> pd.DataFrame:
    frame = FRAME.copy()
    frame.loc[17, "mean radius"] = np.nan
    return frame


def test_nan_in_an_input_is_named_by_sample_and_column(engine: Any) -> None:
    words = r"input 0 holds nan at sample 17, column 1 \('mean radius'\); mend the data"
    with pytest.raises(NonFiniteError, match=words) as caught:
        trainer().fit((holed(), Y), 3, 8, verbose=False)
    assert "learning rate" not in str(caught.value)
    nullable = holed().convert_dtypes()
    with pytest.raises(NonFiniteError, match=r"sample 17, column 1 \('mean radius'\)"):
        trainer().fit((nullable, Y), 1, 8, verbose=False)
    part = data.from_arrays(holed(), Y).take(np.arange(10, 40))
    with pytest.raises(NonFiniteError, match=r"sample 7, column 1 \('mean radius'\)"):
        trainer().fit(part, 1, 8, verbose=False)


def test_nan_in_validation_is_said_in_words(engine: Any) -> None:
    words = r"validation: the loss is NaN, for input 0 holds nan at sample 17, column 1 \('mean radius'\)"
    with pytest.warns(RuntimeWarning, match=words):
        history = trainer().fit((X, Y), 1, validation=(holed(), Y), verbose=False)
    assert np.isnan(history["val_loss"]).all()


# --- one check for all: before anything runs, the model as it was
WRONG = {
    "out of range": ((), None, Y + 1, DataError, r"expected labels in \[0, 2\); got 2 at index"),
    "a column": ((), None, Y[:, None], ShapeError, r"y\.ravel\(\)"),
    "floats": ((), None, Y.astype(np.float64), DTypeError,
               r"expected integer labels; got float64 of shape \(40,\); cast them: y\.astype\(int\)"),
    "two classes, one output": ((Dense(in_features=4, out_features=1),), BCELoss(from_logits=True), Y, ShapeError,
                                r"y\[:, None\]"),
    "beyond 1": ((Dense(in_features=4, out_features=1),), BCELoss(from_logits=True), 2 * Y[:, None], DataError,
                 r"target in \[0, 1\]"),
    "numbers in a row": ((Dense(in_features=4, out_features=1),), MSELoss(), X[:, 0], ShapeError, r"y\[:, None\]"),
    "class numbers": ((Dense(in_features=4, out_features=2),), MSELoss(), Y, ShapeError,
                      r"CrossEntropyLoss; one column a class is np\.eye\(2\)\[y\]"),
    "nan": ((Dense(in_features=4, out_features=2),), MSELoss(),
            np.where(np.arange(80).reshape(40, 2) == 9, np.nan, X[:, :2]), DataError,
            "the target of sample 4, column 1 is nan"),
    "too few": ((), None, Y[:30], DataError, "as many samples as targets"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("where", ["fit", "validation", "evaluate"])
def test_wrong_labels_are_refused_everywhere(engine: Any, case: str, where: str) -> None:
    layers, loss, y, error, words = WRONG[case]
    made = trainer(*layers, loss=loss)
    right = Y if loss is None else X[:, : layers[0].out_features] if isinstance(loss, MSELoss) else Y[:, None]
    with pytest.raises(error, match=words) as caught:
        if where == "fit":
            made.fit((X, y), 1, verbose=False)
        elif where == "validation":
            made.fit((X, right), 1, validation=(X, y), verbose=False)
        else:
            made.evaluate((X, y))
    assert case == "too few" or where == "fit" or str(caught.value).startswith(f"{where}: ")
    assert not made.history.steps
    made.fit((X, right), 1, verbose=False)


SLIPS = {
    "samples of one axis": ((), np.arange(40.0), r"x\[:, None\], one sample of 40 numbers is x\[None\]"),
    "a whole sequence": ((LSTM(hidden_size=3), Dense(out_features=2)), RNG.normal(size=(40, 7, 4)),
                         "return_sequences=False"),
    "places of an image": ((Conv2d(out_channels=3, kernel_size=3), Dense(out_features=2)),
                           RNG.normal(size=(40, 1, 6, 6)), r"put Flatten\(\) before"),
    "fewer samples than went in": ((Lambda(fn=lambda x: x[:5]), Dense(out_features=2)), X,
                                   "keep the first axis in every layer"),
}


@pytest.mark.parametrize("case", SLIPS)
def test_slips_in_shapes(engine: Any, case: str) -> None:
    layers, x, words = SLIPS[case]
    made = trainer(*layers)
    with pytest.raises(ShapeError, match=words):
        made.fit((x, Y), 1, verbose=False)
    if not layers:  # and the sizes of the model are still open
        made.fit((x[:, None], Y), 1, verbose=False)


def test_predict_wants_a_batch_axis(engine: Any) -> None:
    made = trainer()
    made.fit((X, Y), 1, verbose=False)
    with pytest.raises(ShapeError, match=r"one sample of 4 numbers is x\[None\]"):
        made.predict(X[0])
    np.testing.assert_allclose(made.predict(X[:1]), made.predict(X)[:1], rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match=r"layers\.0"):
        made.predict(X[:, :3])
    assert np.array_equal(made.predict(FRAME), made.predict(X))


# --- layers of one's own
class WithNumPy(Layer):
    """y = tanh x, written with NumPy"""

    def forward(self, x: Any) -> Any:
        return np.tanh(x)


class Without(Layer):
    """No formula."""


def test_a_forward_that_cannot_be_recorded(engine: Any) -> None:
    words = r"layers\.0: recording: expected ops of clnet\.ops on input 0.*tanh\(x\) for np\.tanh\(x\)"
    with pytest.raises(ShapeError, match=words):
        losses(X, Y, WithNumPy(), Dense(out_features=2))
    with pytest.raises(ConfigError, match=r"Without: expected a method forward\(self, x\)"):
        losses(X, Y, Without(), Dense(out_features=2))


def test_save_is_the_model(engine: Any, tmp_path: Path) -> None:
    made = trainer()
    made.fit(X, Y, verbose=False)
    made.save(tmp_path / "m.safetensors")
    assert np.array_equal(Trainer(load(tmp_path / "m.safetensors"), "cross_entropy", "sgd").predict(X), made.predict(X))


def test_a_held_out_share_is_that_of_the_seed(engine: Any) -> None:
    made = trainer()
    history = made.fit(X, Y, 2, 16, validation=0.25, seed=3, verbose=False)
    _, held = data.from_arrays(X, Y).split(0.25, 3)
    assert len(history.steps) == 2 * 2
    assert made.evaluate(held)["loss"] == history["val_loss"][-1]


@pytest.mark.parametrize(("samples", "size", "recorded"), [(40, 22, 1), (44, 22, 1), (40, 38, 2)],
                         ids=["short", "whole", "far shorter"])
def test_a_short_last_batch_is_compiled_with_whole_ones(engine: Any, samples: int, size: int, recorded: int) -> None:
    """On CPUs, where its size is one of theirs: of 38 and 2 samples each has a plan. Losses are those of NumPy."""
    if not engine.device.is_cpu:
        pytest.skip("GPUs have the size of whole batches compiled in")
    x, y = np.concatenate([X, X])[:samples], np.concatenate([Y, Y])[:samples]
    mine = trainer()
    found = mine.fit((x, y), 2, size, verbose=False).steps
    assert mine.steps.train.recorded == recorded
    with on("numpy"):
        assert np.abs(np.subtract(found, trainer().fit((x, y), 2, size, verbose=False).steps)).max() <= 1e-6
