"""Text becomes numbers and comes back, windows hold the next token, texts with classes are trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import clnet
from clnet.errors import ConfigError, DataError
from clnet.layers import Dense, Embedding
from clnet.train.networks import next_letter_loss

data = clnet.data
TEXT = "Übung macht\nden Meister; das weiß der Meister."


@pytest.mark.parametrize("tokens", ["bytes", "characters", "words"])
def test_windows_hold_the_token_after_each(tmp_path: Path, tokens: Any) -> None:
    (tmp_path / "t.txt").write_text(TEXT, "utf-8")
    windows = data.read_text(tmp_path / "t.txt", tokens, length=4, stride=1)
    made: Any = windows.preparation
    whole = made.encode(TEXT)
    assert made.decode(whole) == (TEXT if tokens != "words" else "übung macht den meister ; das weiß der meister .")
    np.testing.assert_array_equal(windows.x[2], whole[2:6])
    np.testing.assert_array_equal(windows.y[2], whole[3:7])
    assert len(windows) == len(whole) - 4 and len(data.read_text(tmp_path / "t.txt", tokens, length=4)) == \
        (len(whole) - 1) // 4
    made.save(tmp_path / "p.json")
    assert data.load_preparation(tmp_path / "p.json") == made
    if tokens == "bytes":
        assert whole.tolist() == list(TEXT.encode()) and made.size == 256
    else:
        assert made.encode("€")[0] == 0 and made.size == 1 + len(set(made._parts(TEXT)))


def test_a_language_model_learns_from_windows(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("abcab" * 40)
    windows = data.read_text(tmp_path, "characters", length=8)
    with clnet.on("numpy"):
        model = clnet.Sequential(Embedding(num_embeddings=windows.preparation.size, embedding_dim=8),
                                 Dense(out_features=windows.preparation.size))
        trainer = clnet.Trainer(model, next_letter_loss, clnet.optimizers.Adam(lr=0.1), metrics=None)
        assert trainer.fit(windows, epochs=15, verbose=False)["loss"][-1] < 0.5
        assert windows.preparation.decode(trainer.predict("ca")[0].argmax(-1))[0] == "a"


def test_texts_with_classes_are_sequences(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"review": ["good good film", "bad film", "good story", "bad bad bad story"] * 6,
                              "stars": ["up", "down", "up", "down"] * 6})
    frame.to_csv(tmp_path / "r.csv", index=False)
    texts = data.read_texts(tmp_path / "r.csv", "review", "stars", length=3)
    made: Any = texts.preparation
    assert texts.classes == ("down", "up") and texts.y.tolist()[:3] == [1, 0, 1] and texts.lengths.max() == 3
    assert made.tokeniser.vocabulary[1:] == ("bad", "film", "good", "story")
    for name, group in frame.groupby("stars"):
        (tmp_path / "f" / str(name)).mkdir(parents=True)
        for k, text in enumerate(group.review):
            (tmp_path / "f" / str(name) / f"{k}.txt").write_text(text)
    assert sorted(map(len, data.read_texts(tmp_path / "f").x)) == sorted(len(t.split()) for t in frame.review)
    made.save(tmp_path / "p.json")
    assert data.load_preparation(tmp_path / "p.json") == made
    with clnet.on("numpy"):
        words, lengths = clnet.Input(), clnet.Input()
        state = clnet.layers.GRU(hidden_size=8, return_sequences=False)(Embedding(5, 4)(words), lengths)
        trainer = clnet.Trainer(clnet.Model([words, lengths], [Dense(out_features=2)(state)]), "cross_entropy",
                                clnet.optimizers.Adam(lr=0.05))
        train, test = texts.split(0.25, stratify=True)
        assert train.preparation is made
        assert trainer.fit(train, epochs=12, validation=test, verbose=False)["val_accuracy"][-1] == 1.0
        assert made.labels(trainer.predict(["a good film", "bad"])).tolist() == ["up", "down"]
        np.testing.assert_array_equal(trainer.predict(frame[:2]), trainer.predict(frame.review[:2].tolist()))


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda f: data.read_text(f / "nope.txt"), "readable text in nope.txt"),
    (lambda f: data.read_text(f / "t.txt", "letters"), "'bytes', 'characters', 'words'"),
    (lambda f: data.read_text(f / "t.txt", length=99), "more than 99 characters; got 46 at most"),
    (lambda f: data.read_text(f / "t.txt", encoding="ascii"), "say encoding="),
    (lambda f: data.read_texts({"a": ["x"], "label": ["y"]}), r"text='text'\): expected a column, one of 'a'"),
    (lambda f: data.read_texts({"text": ["x", None], "label": ["y", "z"]}), "got none at row 1"),
    (lambda f: data.read_texts(f), "a folder for each class"),
    (lambda f: data.Tokeniser.fitted("characters", ["ab"]).decode([7]), "from 0 to 2; got 7"),
])
def test_slips_are_named(tmp_path: Path, wrong: Any, says: str) -> None:
    (tmp_path / "t.txt").write_text(TEXT, "utf-8")
    with pytest.raises((DataError, ConfigError), match=says):
        wrong(tmp_path)
