"""What fit and its friends are told: sizes, seeds, weights and names that are none, files that cannot be."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.engine import on
from clnet.errors import CheckpointError, ConfigError, DataError
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.train import Checkpoint, CSVLog, JSONLog, ModelCheckpoint, Trainer
from clnet.train.data import Stream, from_arrays
from clnet.train.weighing import weighing_of

X, Y = np.random.default_rng(0).normal(size=(12, 3)), np.arange(12) % 2


@pytest.fixture(autouse=True)
def numpy() -> Iterator[None]:
    with on("numpy"):
        yield


def fitted(x: Any = X, y: Any = Y, **named: Any) -> Any:
    return Trainer(Dense(out_features=3), "cross_entropy").fit(*([x] if y is None else [x, y]), verbose=False, **named)


@pytest.mark.parametrize(("named", "says"), (
    ({"batch_size": 0}, r"batch_size=0: expected a whole number of samples, at least 1"),
    ({"batch_size": 1.5}, "batch_size=1.5"),
    ({"seed": "a"}, "expected seed to be an integer of at least 0; got 'a'"),
    ({"seed": None}, "seed .* got None"), ({"seed": -1}, "seed .* got -1"), ({"seed": 1.5}, "seed .* got 1.5"),
    ({"validation": 1.5}, r"fit\(validation=1.5\): expected a share"),
    ({"validation": 0.2, "seed": "a"}, "seed .* got 'a'"),
    ({"class_weight": {0: 0, 1: 0}}, "a weight above 0"), ({"class_weight": [1.0]}, "a weight for each class"),
    ({"class_weight": "balanced", "y": np.eye(2)[Y]}, r"number them: y.argmax\(1\)")))
def test_arguments_that_are_none_are_named_as_they_were_written(named: dict[str, Any], says: str) -> None:
    with pytest.raises((ConfigError, DataError), match=says):
        fitted(**named)


@pytest.mark.parametrize("given", ([1.0, 2.0, 5.0], np.array([1.0, 2.0, 5.0]), {0: 1.0, 1: 2.0, 2: 5.0}))
def test_classes_without_a_sample_have_a_weight_too(given: Any) -> None:
    assert weighing_of(from_arrays(X, Y), given, CrossEntropyLoss()).classes == (1.0, 2.0, 5.0)
    assert len(fitted(class_weight=given)) == 1


@pytest.mark.parametrize("names", (["no"], ["no", "no"], ["no", "yes", "no"]))
def test_every_class_has_a_name_of_its_own(names: list[str]) -> None:
    with pytest.raises(DataError, match="expected a name of its own for each class from 0 to 1"):
        from_arrays(X, Y, names)
    assert from_arrays(X, Y, ["no", "yes", "maybe"]).classes == ("no", "yes", "maybe")


def test_streams_that_run_dry_or_do_not_fit_say_so() -> None:
    once = zip(X, Y, strict=True)
    with pytest.raises(DataError, match="expected samples in every pass; got none"):
        fitted(Stream(lambda: once), None, epochs=2)
    with pytest.raises(DataError, match=r"as many samples as targets in a batch; got shapes \(12, 3\) and \(11,\)"):
        Stream(lambda: iter([(X, Y[:-1])]), batched=True)


class Samples:
    """A data set as PyTorch has it: samples by number."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, k: int) -> Any:
        return X[k], Y[k]


def test_data_sets_of_samples_by_number_are_shown_to_a_loader() -> None:
    with pytest.raises(DataError, match=r"DataLoader\(data, batch_size=64, shuffle=True\)"):
        fitted(Samples(), None)


@pytest.mark.parametrize("kind", (Checkpoint, CSVLog, JSONLog, lambda p: ModelCheckpoint(p, "loss")))
def test_files_of_callbacks_are_tried_before_the_training(kind: Any, tmp_path: Path) -> None:
    for path, says in ((tmp_path / "no" / "file", "a folder that exists"), (tmp_path, "the path of a file")):
        trainer = Trainer(Dense(out_features=2), "cross_entropy")
        with pytest.raises(ConfigError, match=says):
            trainer.fit(X, Y, callbacks=kind(path), verbose=False)
        assert not trainer.optimizer.t


@pytest.mark.parametrize("kind", (CSVLog, JSONLog))
def test_a_log_that_cannot_be_written_ends_no_training(kind: Any, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    log = kind(tmp_path / "log")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(fitted(callbacks=log)) == 1 and (tmp_path / "log").read_text().count("\n") == 2 - (kind is JSONLog)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "write", full)
    with pytest.warns(RuntimeWarning, match="epoch 2 is not in it: .*No space left on device; the training goes on"):
        assert len(fitted(epochs=2, callbacks=log)) == 2


@pytest.mark.parametrize("path", ("", ".", None, "x" * 300 + ".safetensors"))
def test_names_that_are_no_files_are_said(path: Any) -> None:
    with pytest.raises(CheckpointError, match=r"save.*expected"):
        Sequential(Dense(3, 2)).save(path)
