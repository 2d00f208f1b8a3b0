"""`clnet train` on one's own table or pictures: what it infers, says and keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from PIL import Image

import clnet
from clnet import cli

Capture = pytest.CaptureFixture[str]


def train(*arguments: object) -> int:
    return cli.main(["train", *map(str, arguments), "--device", "numpy", "--epochs", "1"])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    draws = np.random.default_rng(0)
    frame = pandas.DataFrame({"size": draws.uniform(20, 90, 60), "town": draws.choice(["Oslo", "Rome", "Bern"], 60)})
    frame.assign(price=3e3 * frame["size"], one=1).to_csv(tmp_path / "houses.csv", index=False)
    return tmp_path / "houses.csv"


def test_a_table_of_numbers(table: Path, capsys: Capture) -> None:
    save = table.with_name("m.safetensors")
    assert train(table, "--target", "price", "--save", save) == 0
    out = capsys.readouterr().out
    for said in ("note: houses.csv: 'one' holds one value, 1 (left out)", "60 samples: 48 to train with, 12 held out",
                 "input: 4 features of 2 columns", "target: price: regression", "loss: mse", "network: mlp, 1 output",
                 "on 12 samples held out: loss", "RMSE in units of price", "m.preparation.json"):
        assert said in out
    new = clnet.data.load_preparation(save).apply({"size": [50.0], "town": ["Ulm"]})
    assert clnet.load(save)(new.x).shape == (1, 1)


def test_a_model_of_ones_own_and_classes(table: Path, capsys: Capture) -> None:
    model = table.with_name("m.json")
    model.write_text('{"type": "Sequential", "layers": [{"type": "Dense", "out_features": 3}]}')
    assert train(model, "--data", table, "--target", "town", "--validation", "0.25") == 0
    out = capsys.readouterr().out
    assert "loss: cross_entropy\nnetwork: m.json, 3 outputs" in out and "on 15 samples held out: loss" in out
    model.write_text('{"type": "Sequential", "layers": [{"type": "Dense", "out_features": 2}]}')
    assert train(model, "--data", table, "--target", "town") == 2
    assert "expected 3 outputs of m.json for houses.csv, one for each class (Bern, Oslo, Rome); got 2" in \
        capsys.readouterr().err


def test_a_folder_of_pictures(tmp_path: Path, capsys: Capture) -> None:
    for name, grey in (("dark", 20), ("light", 220)):
        (tmp_path / "shades" / name).mkdir(parents=True)
        for k in range(5):
            Image.fromarray(np.full((9, 9), grey + k, np.uint8)).save(tmp_path / "shades" / name / f"{k}.png")
    assert train(tmp_path / "shades", "--size", "4,4", "--model", "mlp") == 0
    out = capsys.readouterr().out
    assert "input: 1 x 4 x 4" in out and "target: 2 classes, dark, light" in out and "on 2 samples held out" in out
    assert train(tmp_path / "shades", "--size", "4,4", "--model", "mlp", "--augment", "flip, crop") == 0
    assert "augment: flip, crop\n" in capsys.readouterr().out


@pytest.mark.full
def test_a_text(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "t.txt").write_text("the cat sat on the mat. " * 60)
    save = tmp_path / "m.safetensors"
    assert train(tmp_path / "t.txt", "--batch-size", 4, "--save", save) == 0
    out = capsys.readouterr().out
    assert "target: the next of 12 characters" in out and "12 outputs" in out and "next_letter_accuracy" in out
    assert clnet.data.load_preparation(save).decode(clnet.data.load_preparation(save).encode("cat")) == "cat"


@pytest.mark.parametrize(("arguments", "says"), [
    ((), "expected --target, the column to predict, one of 'size', 'town'"),
    (("--target", "Price"), "did you mean 'price'?"),
    (("--target", "price", "--model", "cnn"), "expected mlp, or a model's file"),
    (("--target", "price", "--size", "4,4"), "expected --size with folders of pictures alone"),
    (("--target", "price", "--encoding", "utf-9"), "unknown encoding: utf-9"),
    (("--target", "price", "--augment", "flp"), "did you mean 'flip'?"),
    (("--target", "price", "--augment", "flip"), "expected images (N, channels, height, width); got shape"),
    (("--target", "price", "--save", "m.pt"), "expected a name that ends in .safetensors"),
])
def test_slips_are_named(table: Path, arguments: tuple[str, ...], says: str, capsys: Capture) -> None:
    assert train(table, *arguments) == 2 and says in capsys.readouterr().err


def test_slips_in_files_are_named(table: Path, capsys: Capture) -> None:
    assert train(table.with_name("hauses.csv"), "--target", "price") == 2
    assert "which is not there; did you mean 'houses.csv'?" in capsys.readouterr().err
    frame = pandas.read_csv(table).astype(object)
    frame.loc[3, "price"] = "?"
    frame.to_csv(table, index=False)
    assert train(table, "--target", "price") == 2
    err = capsys.readouterr().err
    assert "got '?' among numbers; read it as missing: --na-values '?'; or say --task classes." in err
    assert train(table, "--target", "price", "--na-values", "?") == 0
    assert "1 row without a target left out" in capsys.readouterr().out
    Image.new("L", (4, 4)).save(table.with_name("1.png"))
    (table.parent / "some" / "cats").mkdir(parents=True)
    table.with_name("1.png").rename(table.parent / "some" / "cats" / "1.png")
    assert train(table.parent / "some") == 2
    assert "each of at least two classes in some; got 'cats' alone" in capsys.readouterr().err


def test_the_digits_take_none_of_it(capsys: Capture, tmp_path: Path) -> None:
    assert train("digits", "--target", "y") == 2 and "expected --data with --target" in capsys.readouterr().err
    (tmp_path / "m.json").write_text("{}")
    assert train(tmp_path / "m.json") == 2 and "expected --data, a table" in capsys.readouterr().err
