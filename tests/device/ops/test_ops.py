"""Every declared op on every device: the formula, its derivative, its adjoint, extreme values, equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

from clnet import ops as F
from clnet.core.op import Case, Concatenation, Kernel, Op, Reduction, View
from clnet.engine import on
from clnet.workbench.evidence import checks
from clnet.workbench.evidence.cases import arrays, cases, every_op

OPS = [pytest.param(op, id=op.name) for op in every_op()]
LINEAR_KINDS = (View, Concatenation, Kernel, Reduction)
on_every_op = pytest.mark.parametrize("op", OPS)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
def every(request: pytest.FixtureRequest) -> bool:
    """Whether all cases are run, or the first: each compiles programs of its own."""
    return bool(request.param)


def assert_all(found: list[tuple[Case, checks.Result]]) -> None:
    wrong = [f"{case}: {result}" for case, result in found if not result]
    assert not wrong, "\n".join(wrong)


@on_every_op
def test_parity(op: Op, engine: Any, every: bool) -> None:
    assert_all([(case, checks.parity(op, case, engine)) for case in cases(op)[: 12 if every else 4]])


@on_every_op
def test_gradient(op: Op, engine: Any, every: bool) -> None:
    some = cases(op)[: 3 if every else 1]
    assert_all([(case, checks.gradient(op, case, engine, order=2 if k == 0 else 1)) for k, case in enumerate(some)])


@pytest.mark.parametrize("op", [p for p in OPS if isinstance(p.values[0], LINEAR_KINDS)])
def test_adjoint(op: Op, engine: Any, every: bool) -> None:
    assert_all([(case, checks.adjoint(op, case, engine)) for case in cases(op)[: 2 if every else 1]])


@on_every_op
def test_extremes(op: Op, engine: Any) -> None:
    result = checks.extremes(op, engine)
    if not result and engine.device.runtime == "pocl" and op.name in ("sin", "cos", "tan"):
        pytest.xfail("PoCL (3.0, 5): sin, cos and tan of tiny values are wrong beside a huge one or an infinity")
    assert result, str(result)


@on_every_op
def test_engine_behaviour(op: Op, engine: Any) -> None:
    case = cases(op)[0]
    function, inputs = checks.case_function(op, case), arrays(op, case)
    for check in (checks.determinism, checks.residency, checks.leaks):
        result = check(function, inputs, engine)
        assert result, str(result)


def test_erfinv_keeps_its_digits_up_to_its_ends(engine: Any) -> None:
    """Close to ±1 a float32 erf has too few digits for a step of Newton's."""
    ends = 1 - np.logspace(-6, -1, 400)
    x = np.concatenate([np.linspace(-0.999, 0.999, 3000), ends, -ends]).astype(np.float32)
    with on(engine):
        y = F.erfinv(x).numpy().astype(np.float64)
        assert F.erfinv(x.astype(np.float16)).dtype == "float16"
    np.testing.assert_allclose(y, scipy.special.erfinv(x.astype(np.float64)), rtol=4e-7)
