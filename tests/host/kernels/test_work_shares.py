"""How products on CPUs are dealt out: the busiest core's share by counting, and never far above an equal one."""

from __future__ import annotations

import itertools
from math import ceil

import pytest

from clnet.core.spec import Spec
from clnet.kernels.matmul.matmul import _busiest, panel
from clnet.kernels.matmul.problem import product
from clnet.kernels.operand import Operand
from clnet.kernels.variant import Offer
from clnet.workbench.played import device


def dealt(across: float, down: float, batch: int, cores: int) -> float:
    """The busiest core's share where each core takes the next work-item as it becomes free."""
    parts = [[min(1.0, n - k) / n for k in range(ceil(n))] for n in (across, down)]
    free = [0.0] * cores
    for _, a, b in itertools.product(range(batch), *parts):
        free[free.index(min(free))] += a * b / batch
    return max(free)


@pytest.mark.parametrize("cores", [2, 6])
def test_the_busiest_core_has_what_counting_finds(cores: int) -> None:
    for across, down, batch in itertools.product((1, 1.33, 2, 2.5, 5.1, 16), (1, 1.99, 3, 7.25), (1, 3)):
        found, counted = _busiest(across, down, batch, cores), dealt(across, down, batch, cores)
        item = 1 / (across * down * batch)
        assert 1 / cores - 1e-9 <= found <= counted + item, (across, down, batch)
        assert found >= counted - item * (1 - 1 / cores), (across, down, batch)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 512, 512), (4096, 64, 64), (784, 64, 512), (64, 784, 512)])
def test_no_core_has_much_more_than_the_other(m: int, n: int, k: int) -> None:
    """Columns of 64 in panels of 48 left one core a quarter of the work, and it waited for the other."""
    found = product([Operand(Spec((m, k), "float32"), (k, 1)), Operand(Spec((k, n), "float32"), (1, k))])
    offer = panel.ask(found, device("avx512"))
    assert isinstance(offer, Offer)
    stage = offer.build()[-1]
    rows, cols = (n, m) if stage.defines["SWAP"] else (m, n)
    assert dealt(cols / stage.defines["JC"], rows / stage.defines["IC"], 1, 2) < 0.6
