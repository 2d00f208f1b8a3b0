"""Tables as other programs write them: dates and numbers in text, every dtype, bytes that say their encoding."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from clnet.errors import DataError
from clnet.train import data
from clnet.train.preparing import load_preparation
from clnet.train.readers.columns import kind_of

ROWS = 40
DAYS = pd.date_range("2024-01-01", periods=ROWS, freq="11D")
PLAIN = pd.DataFrame({"a": np.random.default_rng(0).normal(size=ROWS), "y": np.arange(ROWS) % 2})


def table(c: Any, **more: Any) -> Any:
    return data.from_frame(PLAIN.assign(c=c), target="y", **more)


@pytest.mark.parametrize("form, given", (("%d.%m.%Y", ()), ("%d/%m/%Y", ()), ("%m/%d/%Y", ()), ("%m-%d-%Y", ()),
                                         ("%d.%m.%Y %H:%M", ()), ("%Y-%m-%d", ())))
def test_dates_in_text_are_dates_however_they_are_written(form: str, given: Any, tmp_path: Path) -> None:
    wanted, found = table(DAYS), table(DAYS.strftime(form))
    assert np.array_equal(found.x, wanted.x) and found.columns == wanted.columns
    found.preparation.save(tmp_path / "p.json")
    again = load_preparation(tmp_path / "p.json")
    few = PLAIN[:1].assign(c=pd.DatetimeIndex(["2024-03-05"]).strftime(form))  # which says nothing of its order
    assert np.array_equal(again.apply(few).x, wanted.preparation.apply(few.assign(c=pd.Timestamp("2024-03-05"))).x)


def test_dates_whose_order_nobody_can_tell_are_left_out_and_said() -> None:
    with pytest.warns(UserWarning, match="'c' may be dates with the day or the month first, as '01/02/2024'"):
        found = table([f"{k % 12 + 1:02}/{k % 11 + 2:02}/2024" for k in range(ROWS)])
    assert found.columns == (("a",),)
    both = ["13/01/2024", "01/13/2024"] * 20
    assert table(both).columns == (("a", "c=01/13/2024", "c=13/01/2024"),)


@pytest.mark.parametrize("form, first", (("${:,.2f}", "'$0.00' as 0.00"), ("{:,.2f} €", "'0.00 €' as 0.00"),
                                         ("{:.1f}%", "'0.0%' as 0.0"), ("{:,.0f}", r"'1,096' as 1096")))
def test_numbers_with_currency_percent_and_thousands_are_numbers_and_said(form: str, first: str) -> None:
    numbers = np.arange(ROWS) * 137.0
    with pytest.warns(UserWarning, match=rf"'c' is read as numbers, {first.replace('$', '[$]')}"):
        found = table([form.format(n) for n in numbers])
    np.testing.assert_allclose(found.x, table(numbers).x, atol=1e-5)
    with pytest.warns(UserWarning, match="'a' is read as numbers"):
        prices: Any = data.from_frame({"a": ["$1"] * 19 + ["$2"], "y": [f"{k},000" for k in range(1, 21)]}, target="y")
    assert prices.preparation.target.mean == (10500.0,)


def comma(n: float) -> str:
    return f"{n:,.2f}".translate(str.maketrans(",.", ".,"))


@pytest.mark.parametrize("spelt, first", (
    (lambda n: f"{comma(n)} €", "'0,00 €' as 0.00"), (lambda n: f"{n:.1f}".replace(".", ","), "'0,0' as 0.0"),
    (lambda n: f"{n:,.0f}".replace(",", "\u202f"), r"'1.u202f096' as 1096"),
    (lambda n: f"CHF {n:,.2f}".replace(",", "'"), "'CHF 0.00' as 0.00"),
    (lambda n: f"({n:,.2f})", r"'\(0.00\)' as -0.00"),
    (lambda n: f"{n:.6e}", "'0.000000e\\+00' as 0.000000e"), (lambda n: f"{n:.1f} kg", "'0.0 kg' as 0.0"),
    (lambda n: f"{n:.0f} day{'s' * int(n != 1)}", "'0 days' as 0"), (lambda n: f"{n:.2f}", "'0.00' as 0.00"),
    (lambda n: f"−{n:.1f} °C", "'−0.0 °C' as -0.0")))
def test_numbers_as_countries_and_units_write_them_are_numbers_and_said(spelt: Any, first: str, tmp_path: Path) -> None:
    numbers = np.arange(ROWS) * 137.0
    sign = -1 if "as -" in first else 1
    with pytest.warns(UserWarning, match=f"'c' is read as numbers, {first}"):
        found = table([spelt(n) for n in numbers])
    wanted = table(numbers * sign)
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-5)
    found.preparation.save(tmp_path / "p.json")
    again = load_preparation(tmp_path / "p.json")
    assert again == found.preparation
    row = PLAIN[:1].assign(c=spelt(1024.0))
    np.testing.assert_allclose(again.apply(row).x, wanted.preparation.apply(row.assign(c=sign * 1024.0)).x, atol=1e-5)


def test_another_unit_is_no_number() -> None:
    with pytest.warns(UserWarning, match="is read as numbers"):
        weights = table([f"{k}.5 kg" for k in range(ROWS)]).preparation
    with pytest.raises(DataError, match="expected numbers in kg in column 'c'; got '82 g'"):
        weights.apply(PLAIN[:1].assign(c="82 g"))
    assert len(table(["5 kg", "500 g"] * 20).columns[0]) == 3  # categories
    with pytest.warns(UserWarning, match="'y' is read as numbers, '0,5 €' as 0.5"):
        prices: Any = data.from_frame({"a": np.sqrt(range(ROWS)), "y": [f"{k},5 €" for k in range(ROWS)]}, target="y")
    assert prices.preparation.target.mean == (20.0,)


@pytest.mark.parametrize("codes", (
    [f"{k:05}" for k in range(ROWS)], [f"10.0.0.{k}" for k in range(ROWS)], [f"{k}A" for k in range(ROWS)],
    [f"555 123 {k + 100}" for k in range(ROWS)], [f"030 {k + 100}" for k in range(ROWS)],
    [f"192.168.100.{k + 100}" for k in range(ROWS)], [f"Q{k}" for k in range(ROWS)], [f"{k}:30" for k in range(ROWS)],
    [f"{k % 12 + 1:02}.2024" for k in range(ROWS)], ["1.234,5", "1,234.5"] * 20, ["$5", "€5"] * 20),
    ids=lambda codes: codes[0])
def test_codes_are_no_numbers(codes: list[str]) -> None:
    assert kind_of(pd.Series(codes)) == "category"


def test_numbers_stay_strict() -> None:
    with pytest.raises(DataError, match="expected numbers in column 'c'; got '1,234'"):
        table(np.arange(ROWS) * 2.5).preparation.apply(PLAIN[:1].assign(c="1,234"))


def test_categories_and_classes_that_differ_in_blanks_or_capitals_are_said() -> None:
    with pytest.warns(UserWarning, match="'c' has .* the same but for blanks or capitals: 'Yes', 'yes '"):
        table(["Yes", "yes ", "no", "no"] * 10)
    with pytest.warns(UserWarning, match="'y' has classes that are the same but for blanks or capitals"):
        data.from_frame({"a": range(0, 60, 3), "y": ["in", "out", "In", "out"] * 5}, target="y")


@pytest.mark.parametrize("c, wanted", (
    ([d.date() for d in DAYS], DAYS), (np.arange(ROWS, dtype=np.float16) % 7, np.arange(ROWS) % 7),
    ([b"u", b"v"] * 20, ["u", "v"] * 20), (pd.period_range("2020-01", periods=ROWS, freq="D"), None)))
def test_every_kind_of_column_is_taken(c: Any, wanted: Any) -> None:
    found = table(c)
    again = found.preparation.apply(found.frame).x
    assert np.array_equal(found.x, again) and (wanted is None or np.array_equal(found.x, table(wanted).x))


@pytest.mark.parametrize("c", ([[1, 2]] * ROWS, [{"a": 1}] * ROWS, [np.zeros(2)] * ROWS))
def test_several_values_in_a_cell_are_refused_with_two_ways_out(c: Any) -> None:
    frame = PLAIN.assign(c=pd.Series(c))
    for target in ("y", "c"):
        with pytest.raises(DataError, match=r"expected one value a row in column 'c'; got a .*drop=\['c'\]"):
            data.from_frame(frame, target=target)
    assert data.from_frame(frame, target="y", drop=["c"]).columns == (("a",),)


def test_columns_are_named_by_numbers_and_by_names_over_names() -> None:
    bare = pd.DataFrame(PLAIN.to_numpy())
    assert data.from_frame(bare, target=1).classes == ("0", "1")
    over = PLAIN.set_axis(pd.MultiIndex.from_tuples([("in", "a"), ("out", "y")]), axis=1)
    assert data.from_frame(over, target=("out", "y")).classes == ("0", "1")
    records = PLAIN.to_records(index=False)
    assert np.array_equal(data.from_frame(records, target="y").x, data.from_frame(PLAIN, target="y").x)
    with pytest.raises(DataError, match=r"from_frame\(pandas.read_csv\(path, header=None\), target=0\)"):
        data.from_frame(bare, target="y")
    with pytest.raises(DataError, match=r"got dates; make numbers of them: \(frame\['c'\] - day\).dt.days"):
        data.from_frame(PLAIN.assign(c=[datetime.datetime(2024, 1, 1)] * ROWS), target="c")


@pytest.mark.parametrize("encoding", ("utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom"))
@pytest.mark.parametrize("sep", (",", ";", "\t", "|"))
def test_files_say_their_encoding_and_what_separates_cells(encoding: str, sep: str, tmp_path: Path) -> None:
    path, bom = tmp_path / "t.csv", b"\xff\xfe" if encoding.endswith("bom") else b""
    text = PLAIN.assign(c=["a;b", "ü,|"] * 20).to_csv(sep=sep, index=False, quoting=2)  # text in quotes
    path.write_bytes(bom + text.encode("utf-16-le" if bom else encoding))
    assert data.read(path, target="y").columns == (("a", "c=a;b", "c=ü,|"),)


@pytest.mark.parametrize("name, way", (("t.xlsx", r"from_frame\(pandas.read_excel\(path\), target=...\)"),
                                       ("t.npy", r"x = numpy.load\(path\)"), ("t.csvv", "did you mean '.csv'")))
def test_files_that_others_read_are_shown_the_way(name: str, way: str) -> None:
    with pytest.raises(DataError, match=way):
        data.read(name, target="y")


def test_new_rows_come_as_a_program_has_them() -> None:
    """A row of a frame or of a web request, records, columns, an array with names."""
    frame = PLAIN.assign(town=["Bern", "Ulm"] * 20)
    made: Any = data.from_frame(frame, target="y").preparation
    rows, wanted = frame.drop(columns="y"), made.apply(frame).x
    for one in (rows.iloc[0], rows.iloc[0].to_dict(), [rows.iloc[0].to_dict()]):
        assert made.takes(one) and np.array_equal(made.apply(one).x, wanted[:1])
    for several in (rows.to_dict("records"), rows.to_dict("list"), rows.to_records(index=False)):
        assert made.takes(several) and np.array_equal(made.apply(several).x, wanted)
    assert not any(map(made.takes, (np.zeros((2, 2)), [], {}, [[1.0, 2.0]], pd.Series([1.0, 2.0]))))


def test_texts_of_which_no_word_comes_twice_are_refused() -> None:
    with pytest.raises(DataError, match="expected words that are there 2 times or more; got none in 4 texts; least=1"):
        data.read_texts(pd.DataFrame({"text": ["ab", "cd", "ef", "gh"], "label": ["a", "b", "a", "b"]}))
