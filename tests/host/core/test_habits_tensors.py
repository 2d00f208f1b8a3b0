"""Arguments of ops and methods by names that none has."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from clnet import ops
from clnet.core.operators import Operators
from clnet.core.tensor import tensor
from clnet.errors import UseError

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(12, 6)).astype(np.float32)  # samples of six numbers


def public(things: dict[str, Any]) -> list[str]:
    return [n for n, f in things.items() if inspect.isfunction(f) and not n.startswith("_")]


def test_every_op_and_method_says_which_arguments_it_has() -> None:
    x = tensor(TABLE)
    calls = {f"{n} of {type(thing).__name__}": getattr(thing, n)
             for thing, names in ((ops, public(vars(ops))), (x, public(vars(Operators)))) for n in names}
    assert len(calls) > 50
    for name, call in calls.items():
        with pytest.raises(UseError, match=r"^\w+: expected arguments \(.*\); got 'nonsense'\.$"):
            call(nonsense=1)
            pytest.fail(name)


def test_a_slip_inside_of_an_op_stays_what_it_is() -> None:
    def cell() -> None: ...

    with pytest.raises(TypeError, match=r"takes \d+ positional arguments? but") as caught:
        ops.scan(cell, TABLE, [TABLE[0]])
    assert not isinstance(caught.value, UseError)


@pytest.mark.parametrize(("a", "b"), [(np.array([5, -7]), 2), (7, np.array([5, -7])), (np.array([5.5, -7.0]), 2.0)])
def test_divmod_is_the_quotient_and_the_rest(a: Any, b: Any) -> None:
    mine = divmod(*(tensor(n) if isinstance(n, np.ndarray) else n for n in (a, b)))
    for found, want in zip(mine, np.divmod(a, b), strict=True):
        assert found.numpy().tolist() == want.tolist()
