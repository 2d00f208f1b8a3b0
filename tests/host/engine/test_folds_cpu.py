"""Sums across rows on CPUs: how many vectors of a row a work-item takes, so that no core is left without any."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from clnet.engine.compile.folds_cpu import _CpuWriter
from clnet.workbench.played import device


@pytest.mark.parametrize(("columns", "length", "cores", "many"), [
    (128, 2048, 2, 4), (128, 2048, 16, 1), (512, 2048, 16, 2), (1024, 2048, 16, 4), (128, 16, 16, 4), (64, 4096, 2, 2)])
def test_neighbouring_vectors_are_shared_out_to_many_cores(columns: int, length: int, cores: int, many: int) -> None:
    """Sixteen cores of a Xeon took 1.3 times as long for 128 columns where two work-items had them all."""
    writer: Any = object.__new__(_CpuWriter)
    writer.device = dataclasses.replace(device("avx512"), compute_units=cores)
    writer.dims = SimpleNamespace(results=columns, length=length)
    assert writer._side_by_side(columns // writer.device.vector_width, 1) == many
