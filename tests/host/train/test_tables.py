"""Tables: columns become what scikit-learn makes of them, what is held out has no say, and slips are named."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import clnet
from clnet.errors import ConfigError, DataError, UseError
from clnet.layers import Activation, Dense
from clnet.train.readers.columns import PARTS
from clnet.train.readers.frames import read_frame
from clnet.train.readers.targets import task_of

data = clnet.data
ROWS = 200


def houses() -> pandas.DataFrame:
    draws = np.random.default_rng(0)
    frame = pandas.DataFrame({
        "rooms": draws.integers(1, 9, ROWS), "age": draws.uniform(0, 50, ROWS),
        "town": draws.choice(["Oslo", "Rome", "Bern"], ROWS), "garden": draws.random(ROWS) > 0.5,
        "sold": pandas.date_range("2023-11-05", periods=ROWS, freq="17h")})
    frame["price"] = 5e4 * frame.rooms - 1e3 * frame.age + 8e4 * (frame.town == "Oslo")
    frame.loc[::17, "age"] = np.nan
    return frame


def test_columns_are_what_scikit_learn_makes_of_them() -> None:
    frame = houses()
    table = data.from_frame(frame, target="price", drop=["sold", "garden"])
    theirs = make_column_transformer(
        (StandardScaler(), ["rooms"]), (SimpleImputer(strategy="median", add_indicator=True), ["age"]),
        (OneHotEncoder(sparse_output=False), ["town"])).fit_transform(frame)
    theirs[:, 1] = (theirs[:, 1] - np.nanmean(frame.age)) / np.nanstd(frame.age)
    np.testing.assert_allclose(table.x, theirs, rtol=1e-6, atol=1e-6)
    assert table.columns == (("rooms", "age", "age missing", "town=Bern", "town=Oslo", "town=Rome"),)
    np.testing.assert_allclose(table.y, StandardScaler().fit_transform(frame[["price"]]), rtol=1e-5, atol=1e-6)
    plain = data.from_frame(frame, target="price", standardise=False, standardise_target=False)
    np.testing.assert_array_equal(plain.x[:, 0], frame.rooms)
    np.testing.assert_allclose(plain.y[:, 0], frame.price, rtol=1e-6)


def test_dates_are_parts_and_flags_are_one_and_zero() -> None:
    frame = houses()
    table = data.from_frame(frame, target="price", standardise=False)
    found = dict(zip(table.columns[0], table.x.T, strict=True))
    for part, theirs in PARTS.items():
        np.testing.assert_array_equal(found[f"sold {part}"], getattr(frame.sold.dt, theirs))
    np.testing.assert_array_equal(found["garden"], frame.garden)
    assert repr(data.from_frame(frame, target="town")).endswith("y int32[], 3 classes>")
    shown = data.from_frame(frame, target="town")._repr_html_()
    assert "y: town" in shown and "2023-11-05" in shown and f">{(frame.town == 'Rome').sum()}</td>" in shown


def test_what_is_held_out_has_no_say() -> None:
    frame = houses()
    frame.loc[::7, "town"] = [f"T{k}" for k in range(len(frame.town[::7]))]
    table = data.from_frame(frame, target="price")
    train, test = table.split(0.25, seed=3)
    alone = data.from_frame(train.frame, target="price")
    assert train.preparation == alone.preparation == test.preparation != table.preparation
    np.testing.assert_array_equal(train.x, alone.x)
    np.testing.assert_array_equal(test.x, alone.preparation.apply(test.frame).x)
    own = [k for k, n in enumerate(train.columns[0]) if n.startswith("town=")]
    unseen = ~test.frame.town.isin(train.frame.town).to_numpy()
    assert unseen.any() and not test.x[unseen][:, own].any() and test.x[~unseen][:, own].any(1).all()
    assert train[:5].preparation is train.preparation and len(train[[1, 2]].frame) == 2


@pytest.mark.parametrize("encode", ["onehot", "codes"])
def test_a_preparation_is_kept_as_json(encode: Any, tmp_path: Path) -> None:
    frame = houses()
    frame.loc[3, "town"] = None
    with pytest.warns(UserWarning, match="5 keep their own"):
        table = data.from_frame(frame, target="price", encode=encode, categorical=["rooms"], max_categories=5)
    table.preparation.save(tmp_path / "p.json")
    again = data.load_preparation(tmp_path / "p.json")
    assert again == table.preparation and repr(again) == repr(table.preparation)
    new = frame[:3].assign(town=["Paris", "Rome", None]).drop(columns="price")
    np.testing.assert_array_equal(again.apply(new).rows([1])[0][0], table.preparation.apply(new).rows([1])[0][0])
    if encode == "codes":
        assert again.codes == {"rooms": 6, "town": 5}
        assert again.apply(new).x[2].tolist() == [0, 3, 4] and again.apply(new).x[2].dtype == np.int32
    else:
        assert "rooms=other" in again.names and "town=missing" in again.names


def test_a_rule_tells_classes_from_numbers() -> None:
    series = pandas.Series
    assert task_of(series(["a", "b"])) == task_of(series([True, False])) == "classes"
    assert task_of(series([0, 1, 2] * 5)) == task_of(series([0.0, 1.0, None] * 5)) == "classes"
    assert task_of(series([0.5, 1.0] * 9)) == task_of(series(range(300))) == task_of(series([1, 2, 3])) == "regression"
    frame = pandas.DataFrame({"x": np.arange(12.0) ** 2, "y": [3, 10, 3, 2] * 3})
    assert data.from_frame(frame, target="y", task="regression").classes == ()
    table = data.from_frame(frame, target="y", task="classes")
    assert table.classes == ("2", "3", "10") and table.y.tolist()[:4] == [1, 2, 1, 0]
    assert table.preparation.labels(np.eye(3)[[2, 0]]).tolist() == ["10", "2"]


def test_columns_that_tell_nothing_are_named_once() -> None:
    frame = houses().assign(one=1, row=np.arange(ROWS), key=[f"k{k}" for k in range(ROWS)])
    frame.loc[5, "price"] = np.nan
    with pytest.warns(UserWarning, match="1 row without a target left out; 'one' holds one value, 1 .*'row' counts"):
        table = data.from_frame(frame, target="price")
    assert list(table.preparation.left_out) == ["one", "row", "key"] and len(table) == ROWS - 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.split(0.5)[0].columns == table.columns
        data.from_frame(frame[6:], target="price", drop=["one", "row", "key"])
    with pytest.warns(UserWarning, match="read '\\?' as missing"):
        data.from_frame(frame[6:].assign(age=[*frame.age[6:-1].fillna(0).astype(str), "?"]), target="price",
                        drop=["one", "row", "key"])


def test_a_table_from_file_to_predictions_in_units(tmp_path: Path) -> None:
    frame = houses()
    frame.to_csv(tmp_path / "houses.csv", sep=";", decimal=",", index=False)
    with clnet.on("numpy"):
        table = data.read(tmp_path / "houses.csv", target="price", decimal=",")
        np.testing.assert_allclose(table.x, data.from_frame(frame, target="price").x, atol=1e-6)
        model = clnet.Sequential(Dense(out_features=16), Activation("relu"), Dense(out_features=1))
        trainer = clnet.Trainer(model, "mse", clnet.optimizers.Adam(lr=0.02))
        history = trainer.fit(table, epochs=20, validation=0.25, verbose=False)
        assert history["val_r2"][-1] > 0.9
        held = table.split(0.25, seed=0)[1]
        predicted = trainer.predict(held.frame.drop(columns="price"))
        assert np.corrcoef(predicted[:, 0], held.frame.price)[0, 1] > 0.95
        assert abs(predicted.mean() / held.frame.price.mean() - 1) < 0.1
        np.testing.assert_array_equal(trainer.predict(held), predicted)
        np.testing.assert_array_equal(trainer.predict(tmp_path / "houses.csv")[:5], trainer.predict(frame[:5]))
        for wrong, says in ((frame[:0], "at least one row"), (frame.drop(columns="age"), "'age', as in training"),
                            (tmp_path / "houses.odt", "a file ending in .csv")):
            with pytest.raises(DataError, match=f"^predict: .*{says}"):
                trainer.predict(wrong)
        assert trainer.evaluate(table[held.frame.index])["loss"] != trainer.evaluate(held)["loss"]
        trainer.save(tmp_path / "m.safetensors")
        assert data.load_preparation(tmp_path / "m.safetensors") == trainer.preparation == held.preparation


@pytest.mark.parametrize(("wrong", "says"), [
    (lambda f: data.from_frame(f, target="Price"), r"target='Price'.*did you mean 'price'\?"),
    (lambda f: data.from_frame(f, target="price", drop=["rom"]), r"drop='rom'.*did you mean 'rooms'\?"),
    (lambda f: data.from_frame(f, target="age", task="classes"), "different values.*task=\"regression\""),
    (lambda f: data.from_frame(f.assign(rooms=np.inf), target="price"), "finite numbers in column 'rooms'; got inf at"),
    (lambda f: data.from_frame(f.to_numpy(), target="price"), "a frame of pandas or Polars.*got ndarray"),
    (lambda f: data.from_frame(f[["price"]], target="price"), "a column that tells rows apart"),
    (lambda f: data.from_frame({"a": [1, 2], "b": [1]}), "columns of one length"),
    (lambda f: data.from_frame(f, target="price").preparation.apply(f.drop(columns="age")), "'age', as in training"),
    (lambda f: data.from_frame(f, target="price").preparation.apply(f.assign(age="old")), "'age'; got 'old' at row 0"),
    (lambda f: data.from_frame(f, target="town").preparation.apply(f.assign(town="Ulm")), "'Ulm' at row 0, and 200"),
    (lambda f: data.from_frame(f, target="price").split(0.2, stratify=True), "bin them"),
    (lambda f: data.read("houses.xlsx", target="price"), "a file ending in .csv"),
    (lambda f: data.read("houses.csv", target="price"), "a table; got 'houses.csv', which is not there"),
    (lambda f: data.from_frame(f, target="price", task="class"), "task='class'"),
    (lambda f: data.from_frame(f.assign(price=["?", *map(str, f.price[1:])]), target="price"),
     r"got '\?' among numbers; read it as missing: na_values=\['\?'\]"),
    (lambda f: data.from_frame(f, targt="price"), "did you mean 'target'"),
])
def test_slips_are_named(wrong: Any, says: str) -> None:
    with pytest.raises((DataError, ConfigError, UseError), match=says):
        wrong(houses())


@pytest.mark.parametrize(("text", "columns"), [
    ("a;b\n1,5;x\n-2,25;y\n", {"a": [1.5, -2.25], "b": ["x", "y"]}),
    ("\ufeffa;b\n1,5;\n;3\n", {"a": [1.5, np.nan], "b": [np.nan, 3.0]}),  # as Excel writes it
    ("a\tb\n1,5\t0.5\n", {"a": ["1,5"], "b": [0.5]}),
    ("a;b\n1,234;2\n5,678;3\n", {"a": ["1,234", "5,678"], "b": [2, 3]}),  # thousands, for all one knows
])
def test_commas_in_numbers_are_seen_where_nothing_else_can_be_meant(text: str, columns: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    found = read_frame(tmp_path / "t.csv", None, None, (), "utf-8", "read")
    np.testing.assert_equal(found.to_dict("list"), columns)


@pytest.mark.parametrize(("content", "says"), [
    (b"", "a head and rows; got an empty file"),
    (b"a,b\n1,2,3\n", "as many cells in each row as in the head, 2; got 3"),
    ("a,b\nZürich,2\n".encode("cp1252"), "text in utf-8; got other bytes, the first at 5; .*encoding='cp1252'"),
])
def test_files_that_are_no_tables(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=says):
        data.read(tmp_path / "t.csv", target="b")
    with pytest.raises(DataError, match=r"a file ending in \.csv"):
        data.read(tmp_path / "t.cvs", target="b")


def test_other_files_hold_the_same_table(tmp_path: Path) -> None:
    frame = houses()[:40]
    wanted = data.from_frame(frame, target="price")
    frame.to_json(tmp_path / "h.jsonl", orient="records", lines=True, date_format="iso")
    frame.to_csv(tmp_path / "h.tsv.gz", sep="\t", index=False)
    for name in ("h.jsonl", "h.tsv.gz"):
        np.testing.assert_allclose(data.read(tmp_path / name, target="price").x, wanted.x, atol=1e-6)
    np.savez(tmp_path / "h.npz", x=wanted.x, y=wanted.y)
    np.testing.assert_array_equal(data.read(tmp_path / "h.npz").x, wanted.x)
    try:
        frame.to_parquet(tmp_path / "h.parquet")
    except ImportError:
        (tmp_path / "h.parquet").write_bytes(b"PAR1")
        with pytest.raises(ImportError, match="pip install"):
            data.read(tmp_path / "h.parquet", target="price")
    else:
        np.testing.assert_allclose(data.read(tmp_path / "h.parquet", target="price").x, wanted.x, atol=1e-6)


def test_splits_keep_shares_or_groups() -> None:
    y = np.repeat([0, 1, 2], [70, 20, 10])
    samples = data.Dataset(np.arange(100.0)[:, None], y)
    train, test = samples.split(0.3, seed=1, stratify=True)
    assert np.bincount(test.y).tolist() == [21, 6, 3] and np.bincount(train.y).tolist() == [49, 14, 7]
    assert not set(train.x[:, 0]) & set(test.x[:, 0])
    people = np.arange(100) // 8
    train, test = samples.split(0.3, groups=people)
    assert not set(people[train.x[:, 0].astype(int)]) & set(people[test.x[:, 0].astype(int)]) and 30 <= len(test) < 38
    same = samples.split(0.3, seed=1, stratify=y)[1].x, samples.split(0.3, seed=1, stratify=True)[1].x
    np.testing.assert_array_equal(*same)
    with pytest.raises(DataError, match="got both"):
        samples.split(0.3, stratify=y, groups=people)
