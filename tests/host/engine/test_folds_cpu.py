"""Folds on CPUs: how many vectors of a row a work-item takes, so that no core is left without any, and which folds have
two stages.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from clnet import ops as F
from clnet.core.tensor import placeholder
from clnet.engine.compile.folds_cpu import _CpuWriter
from clnet.engine.compile.split import in_stages
from clnet.workbench.played import device


@pytest.mark.parametrize(("columns", "length", "cores", "many"), [
    (128, 2048, 2, 4), (128, 2048, 16, 1), (512, 2048, 16, 2), (1024, 2048, 16, 4), (128, 16, 16, 4), (64, 4096, 2, 2)])
def test_neighbouring_vectors_are_shared_out_to_many_cores(columns: int, length: int, cores: int, many: int) -> None:
    """Sixteen cores of a Xeon took 1.3 times as long for 128 columns where two work-items had them all."""
    writer: Any = object.__new__(_CpuWriter)
    writer.device = dataclasses.replace(device("avx512"), compute_units=cores)
    writer.dims = SimpleNamespace(results=columns, length=length)
    assert writer._side_by_side(columns // writer.device.vector_width, 1) == many


@pytest.mark.parametrize(("shape", "axes", "cores", "first", "last"), [
    ((32, 16, 32, 32), (0, 2, 3), 2, (2, 3), 0),  # channels of images
    ((32, 16, 32, 32), (0, 2, 3), 16, (2, 3), 0),
    ((32, 16, 32, 32), (0, 2, 3), 1, None, None),  # nobody else wrote
    ((32, 16, 32, 32), (0, 2, 3), 33, None, None),  # fewer images than cores
    ((32, 16, 8, 8), (0, 2, 3), 2, None, None),  # little
    ((32, 16, 32, 32), (2, 3), 2, None, None),  # what a core wrote is a result of its own
    ((16, 128, 512), (0, 1), 2, (1,), 0),
    ((4096, 1024), (0,), 2, (1,), 0),  # columns: rows in two halves
    ((4093, 1024), (0,), 2, None, None),  # which a prime has not
    ((4096, 1024), (1,), 2, None, None),
    ((1 << 20,), (0,), 2, (1,), 0),  # a single result
])
def test_large_folds_have_two_stages_where_cores_would_read_what_others_wrote(
        shape: Any, axes: Any, cores: int, first: Any, last: Any) -> None:
    fold = F.sum(placeholder(shape), axes, keepdims=True)
    found = in_stages(fold, dataclasses.replace(device("avx512"), compute_units=cores))
    if first is None:
        assert found is None
        return
    stages = []
    while found.op is not None:
        stages += [found.attrs["axes"]] if found.op.name == "sum" else []
        found = found.inputs[0]
    assert stages == [(last,), first]


def test_folds_of_gpus_and_of_places_have_one_stage() -> None:
    x = placeholder((32, 16, 32, 32))
    assert in_stages(F.sum(x, (0, 2, 3), keepdims=True), device("h200")) is None
    assert in_stages(F.argmax(x, (0, 2, 3), keepdims=True), device("avx512")) is None


@pytest.mark.parametrize(("dtype", "fp64", "between"), [
    ("float32", True, "float64"), ("float32", False, "float32"), ("float16", True, "float64"),
    ("bfloat16", False, "float32"), ("int32", True, "int64")])
def test_partial_sums_meet_in_what_keeps_their_digits(dtype: str, fp64: bool, between: str) -> None:
    """float64 where the device has it; 16 bits are nowhere between."""
    fold: Any = F.sum(placeholder((32, 16, 32, 32), dtype), (0, 2, 3), keepdims=True)
    found: Any = in_stages(fold, dataclasses.replace(device("avx512"), fp64=fp64))
    assert found.dtype == fold.dtype
    while found.op.name != "sum":
        found = found.inputs[0]
    assert found.inputs[0].dtype == between
