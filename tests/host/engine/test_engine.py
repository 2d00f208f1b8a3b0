"""Tensors that no engine has computed show what they are; bad calls say who, what and the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet
from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.spec import np_dtype
from clnet.core.tensor import Tensor, tensor
from clnet.engine import on


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_tensors_show_what_they_are():
    assert "float32[2, 2]" in repr(Tensor(None, (), {}, tensor(np.zeros((2, 2), np.float32)).spec))


@pytest.mark.parametrize("call, words", [
    (lambda: tensor(normal(2, 3)) + tensor(normal(2, 4)), ("add", "(2, 3)", "(2, 4)")),
    (lambda: tensor(normal(2, 3)) @ tensor(normal(4, 5)), ("matmul", "'k'", "3", "4")),
    (lambda: F.exp(tensor(np.ones(3, np.int32))), ("exp", "int32", "cast")),
    (lambda: tensor(normal(2, 3)).reshape(4, 2), ("reshape", "(4, 2)")),
    (lambda: F.sum(tensor(normal(2, 3)), 2), ("sum", "axes")),
    (lambda: tensor(np.array(["a"])), ("dtype",)),
    (lambda: gradients(tensor(normal(3)) * 2, []), ("gradients", "scalar")),
    (lambda: F.einsum("ij,jk", tensor(normal(2, 3)), tensor(normal(2, 2))), ("einsum", "'j'", "3 and 2")),
    (lambda: F.concat([]), ("concat",)),
    (lambda: clnet.on("no such device").__enter__(), ("no such device",)),
])
def test_bad_calls_name_who_what_and_the_way_out(call, words):
    with pytest.raises(clnet.ClnetError) as error:
        call()
    assert all(w in str(error.value) for w in words), error.value


def test_a_placeholder_cannot_be_read():
    from clnet.core.tensor import placeholder

    with pytest.raises(ValueError, match=r"use clnet\.ops"):
        (placeholder((3,)) + 1).numpy()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_values_on_numpy_have_the_dtype_that_tensors_say(dtype: str) -> None:
    third = clnet.tensor([1.0, 0.0, 0.0], dtype)
    with clnet.on("numpy") as engine:
        mean = F.mean(third)
        for value in (mean.numpy(), *engine.values([mean])):
            assert value.dtype == np_dtype(mean.dtype) == np_dtype(dtype)
            assert value == np.asarray(1 / 3, np_dtype(dtype)), "each digit that the dtype has is there"
