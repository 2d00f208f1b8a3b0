"""What is printed where no device is needed: ops, choices that cannot be, explaining on NumPy."""

from __future__ import annotations

from typing import Any

import pytest

import clnet
from clnet import ops as F
from clnet.core.op import OPS, Op
from clnet.core.tensor import tensor


def test_a_choice_that_cannot_be_is_said_below_the_list(monkeypatch):
    from clnet.engine import active

    def unable() -> Any:
        raise clnet.NoDeviceError("CLNET_DEVICE: expected a device; got 'x'; take another.")

    monkeypatch.setattr(active, "chosen", unable)
    assert repr(clnet.devices()).splitlines()[-1].startswith("CLNET_DEVICE: expected")


def test_explaining_on_numpy_says_where_there_is_something_to_explain():
    with clnet.on("numpy"), pytest.raises(clnet.NoDeviceError, match="expected an OpenCL device; got numpy"):
        clnet.explain(tensor([1.0]) @ tensor([1.0]))


@pytest.mark.parametrize(("op", "text"), [(F.relu, "<pointwise relu>"), (OPS["permute"], "<view permute>"),
                                          (OPS["matmul"], "<kernel matmul>"), (OPS["conv"], "<kernel conv>")])
def test_an_op_says_its_kind_and_name(op: Op, text: str) -> None:
    assert repr(op) == text
