"""Arrays as people have them: numbers in any wrapping are numbers, what is none has a way out."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import pytest

from clnet.core.arrays import as_array, column_names
from clnet.engine import on
from clnet.errors import ClnetError, DataError
from clnet.layers import Dense
from clnet.train import Trainer
from clnet.train.samples import from_arrays

X = np.random.default_rng(0).normal(size=(12, 3))


@pytest.mark.parametrize("given, wanted", (
    (np.array([1, 2, 3], object), [1, 2, 3]), (np.array([1, None, 2.5], object), [1, np.nan, 2.5]),
    (np.array([Decimal("0.5"), 2], object), [0.5, 2]), (np.array([True, False], object), [True, False]),
    (np.array([1, 2], ml_dtypes.float8_e4m3fn), [1, 2]), (np.array([1, 2], ml_dtypes.bfloat16), [1, 2]),
    (np.array([1, 2], ml_dtypes.int4), [1, 2]), (np.array([[1, 2]], ">i4"), [[1, 2]]),
    (pd.DataFrame({"a": pd.Series([1, None], dtype=object), "b": [1, 2]}), [[1, 1], [np.nan, 2]])))
def test_numbers_in_any_wrapping_are_numbers(given: Any, wanted: Any) -> None:
    found = as_array(given)
    assert found.dtype.kind in "biuf" and np.array_equal(found.astype(float), wanted, equal_nan=True)


@pytest.mark.parametrize("given, text", (
    (np.array(["1.5", "2"]), "they are numbers: x.astype(float)"), (np.array(["a", "2"]), "number them first"),
    (np.array([1, "a"], object), "convert them first"), (np.array(["1", "2"], np.dtypes.StringDType()), "got text"),
    (np.zeros(2, [("a", "f4")]), "stack the columns first"), (None, "got NoneType"), ({1, 2}, "got set")))
def test_all_else_is_named_with_its_way_out(given: Any, text: str) -> None:
    with pytest.raises(DataError) as raised:
        as_array(given)
    assert text in str(raised.value)


class PolarsType:
    """A dtype as Polars has it, which is no NumPy's and has no kind."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_numeric(self) -> bool:
        return self.name.startswith(("Int", "Float"))

    def __str__(self) -> str:
        return self.name


class PolarsSeries:
    def __init__(self, name: str, dtype: str, values: Any) -> None:
        self.name, self.dtype, self.values = name, PolarsType(dtype), np.asarray(values)

    def to_numpy(self) -> Any:
        return self.values

    def __len__(self) -> int:
        return len(self.values)


class PolarsFrame:
    def __init__(self, *columns: PolarsSeries) -> None:
        self.held, self.columns = columns, [c.name for c in columns]
        self.shape = len(columns[0]), len(columns)

    def get_columns(self) -> list[PolarsSeries]:
        return list(self.held)


def test_frames_and_series_of_polars_are_taken_and_their_columns_named() -> None:
    numbers = PolarsSeries("a", "Int64", [1, 2]), PolarsSeries("b", "Boolean", np.array([True, None], object))
    frame = PolarsFrame(*numbers)
    assert np.array_equal(as_array(frame), np.array([[1, 1], [2, np.nan]]), equal_nan=True)
    assert column_names(frame) == ("a", "b") and as_array(numbers[0]).tolist() == [1, 2]
    with pytest.raises(DataError, match=r"got 'c' \(text\), 'd' \(dates\); leave them out: frame.drop\(\['c', 'd'\]\)"):
        as_array(PolarsFrame(*numbers, PolarsSeries("c", "String", ["x", "y"]),
                             PolarsSeries("d", "Datetime(time_unit='us')", ["x", "y"])))


@pytest.mark.parametrize("x, text", (
    (X[:, :0], r"expected at least one feature a sample; got shape \(12, 0\)"),
    (X * 1e200, r"expected numbers up to 3.4e\+38, which single precision holds; got -?[\d.]+e\+200 at \[\d+, \d\]")))
def test_samples_that_no_network_takes_are_refused_at_once(x: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        from_arrays(x, np.zeros(len(x), int))
    assert np.isinf(from_arrays(np.where(X > 1, np.inf, X), np.zeros(len(X), int)).x).any()  # said where it is used


@pytest.mark.parametrize("y, text", (
    (np.arange(12) % 2 + 1, "They go from 1 to 2, where 0 is the first class: y - 1."),
    (np.arange(12) % 2 * 2 - 1, r"Of -1 and 1 make 0 and 1: \(y > 0\).astype\(int\)."),
    (np.arange(12) % 2 * 50, "np.unique"), (np.where(np.arange(12) == 5, np.nan, 1.0), "the target of sample 5 is nan"),
    (-np.eye(2)[np.arange(12) % 2], "numbers to predict are for MSELoss")))
def test_labels_that_are_numbered_otherwise_are_told_how_to_begin_at_0(y: Any, text: str) -> None:
    with on("numpy"), pytest.raises(ClnetError, match=text):
        Trainer(Dense(out_features=2), "cross_entropy").fit(X, y, verbose=False)


def test_inputs_in_a_list_are_told_to_be_a_tuple() -> None:
    with pytest.raises(DataError, match=r"got shapes \(2, 12, 3\) and \(12,\); several inputs are a tuple.*tuple\(x\)"):
        from_arrays([X, X], np.zeros(12, int))
    assert len(from_arrays((X, X), np.zeros(12, int)).inputs()) == 2


def test_several_classes_at_once_are_no_probabilities() -> None:
    y = np.eye(2)[np.arange(12) % 2]
    y[4] = 1
    with on("numpy"), pytest.warns(UserWarning, match="of sample 4 are 2; several classes at once are for BCELoss"):
        Trainer(Dense(out_features=2), "cross_entropy").fit(X, y, verbose=False)


@pytest.mark.parametrize("path", ["houses.csv", Path("houses.csv")])
def test_a_path_where_samples_are_expected_is_told_how_files_are_read(path: Any) -> None:
    with pytest.raises(DataError, match=r"predict: expected arrays of numbers; got text .*clnet\.data\.read\(path"):
        as_array(path, "predict")
