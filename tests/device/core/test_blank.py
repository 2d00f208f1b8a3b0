"""Leaves and variables that are one number everywhere: no array on the host, filled by the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.core.spec import DTYPES, np_dtype
from clnet.core.state import blank
from clnet.core.tensor import Tensor, filled
from clnet.engine import on
from clnet.engine.record import Recorded
from clnet.errors import DTypeError

SHAPES = [(), (1,), (3,), (129,), (40, 51), (0, 3), (2, 1, 5)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_device_has_the_number_in_every_place(engine: Any, dtype: str) -> None:
    try:
        engine.device.check_dtype(dtype)
    except DTypeError as error:
        pytest.skip(str(error))
    for shape in SHAPES:
        t = filled(shape, dtype, 3)
        found = engine.download(engine.upload(t), t.spec)
        assert found.shape == shape
        np.testing.assert_array_equal(found, np.full(shape, 3).astype(np_dtype(dtype)))


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 200, 257])
def test_a_fill_ends_where_it_should(engine: Any, nbytes: int, count: int) -> None:
    block, size = engine.pool.alloc(4096, "filled"), nbytes * count
    engine.queue.upload(block.buffer, np.full(4096, 7, np.uint8))
    pattern = np.arange(1, nbytes + 1, dtype=np.uint8)
    engine.queue.fill(block.buffer, pattern, count)
    found = engine.queue.download(block.buffer, np.empty(4096, np.uint8))
    np.testing.assert_array_equal(found[:size], np.tile(pattern, count))
    assert (found[size:] == 7).all()


def test_a_variable_takes_no_memory_on_the_host_and_no_transfer(engine: Any) -> None:
    total, before = blank((1000, 1000), "float32", "total", 2.5), engine.queue.transfers.snapshot()
    assert total.tensor.value.strides == (0, 0)

    def add(x: Tensor) -> tuple[()]:
        total.assign(total + x)
        return ()

    step = Recorded(add, "add")
    for _ in range(3):
        step(np.ones(1, np.float32))
    assert (engine.queue.transfers.snapshot() - before).bytes_to_device < 1000
    np.testing.assert_array_equal(total.numpy(), np.full((1000, 1000), 5.5, np.float32))


def test_its_value_is_an_array_as_any_other(engine: Any) -> None:
    for where in (engine, "numpy"):
        with on(where):
            found = blank((4, 6), "float32", "b", -1.0).numpy()
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found.view(np.uint32), np.full((4, 6), 0xBF800000, np.uint32))
