"""How products on CPUs are dealt out: the busiest core's share by counting, and never far above an equal one."""

from __future__ import annotations

import dataclasses
import itertools
from math import ceil, log2, prod
from typing import Any

import pytest

from clnet.core.spec import Spec
from clnet.core.varying import Varying
from clnet.kernels.dealing import _most, busiest, share
from clnet.kernels.matmul.matmul import panel
from clnet.kernels.matmul.problem import product
from clnet.kernels.operand import Operand
from clnet.kernels.sequence.problem import Loop
from clnet.kernels.sequence.recurrent import _tile
from clnet.kernels.sequence.recurrent_gpu import in_registers
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
        found, counted = busiest(across, down, batch, cores), dealt(across, down, batch, cores)
        item = 1 / (across * down * batch)
        assert 1 / cores - 1e-9 <= found <= counted + item, (across, down, batch)
        assert found >= counted - item * (1 - 1 / cores), (across, down, batch)


def test_work_items_cut_a_little_cost_no_more_than_whole_ones() -> None:
    """341.3 tiles in work-items of 86 by 32 panels: eight turns of sixteen cores, of which the last is nearly whole."""
    assert busiest(32, 2048 / 6 / 86, 1, 16) == pytest.approx(8 / (32 * 2048 / 6 / 86))


def most_by_halving(grid: tuple[int, ...], cores: int) -> int:
    """Work-items of the core that has most, where the largest parts are halved along their longest side by turns."""
    parts = [grid]
    for _ in range(ceil(log2(cores))):
        halves = []
        for part in parts:
            axis = part.index(max(part))
            for size in {part[axis] // 2, part[axis] - part[axis] // 2} - {0}:
                halves.append((*part[:axis], size, *part[axis + 1:]))
        parts = halves
    return max(prod(part) for part in parts)


@pytest.mark.parametrize("cores", [3, 8, 16, 64])
def test_a_core_of_many_has_what_halving_finds(cores: int) -> None:
    for down, across, batch in itertools.product((1, 2, 3, 5, 8, 12), (1, 3, 4, 6, 16), (1, 2, 7)):
        assert _most(down, across, batch, cores) == most_by_halving((down, across, batch), cores), (down, across, batch)


def test_many_cores_end_sooner_with_more_than_two_work_items_each_than_with_two() -> None:
    """On sixteen cores of a Xeon products in 24 work-items took 1.2 times as long as in 16, in 32 as long, in 48 0.9
    times.
    """
    grids = (4, 4), (3, 8), (4, 8), (6, 8), (8, 8)
    by_count = {down * across: share(across, down, 1, 16, 4) for down, across in grids}
    assert by_count[24] > 1.2 * by_count[16] and by_count[32] == pytest.approx(by_count[16])
    assert 1 / 16 < by_count[64] < by_count[48] < 0.95 * by_count[32]


def test_columns_of_many_pages_are_packed_where_that_was_measured() -> None:
    """On a Xeon 64 rows by columns read where they lie took a third longer than by packed ones, with K of 784."""
    def packed(maker: str, k: int) -> int:
        found = product([Operand(Spec((64, k), "float32"), (k, 1)), Operand(Spec((k, 512), "float32"), (512, 1))])
        offer = panel.ask(found, dataclasses.replace(device("avx512"), name=f"{maker} processor (played)"))
        assert isinstance(offer, Offer)
        return int(offer.build()[-1].defines["COLS_PACKED"])

    assert [packed(maker, k) for maker in ("amd", "intel(r)") for k in (512, 784)] == [0, 0, 0, 1]


@pytest.mark.parametrize("cores", [2, 16])
@pytest.mark.parametrize("turned", [False, True])
def test_many_cores_have_more_and_smaller_work_items_of_a_large_product(cores: int, turned: bool) -> None:
    """The slowest of sixteen is further behind than that of two."""
    w = Operand(Spec((2048, 2048), "float32"), (1, 2048) if turned else (2048, 1))
    found = product([Operand(Spec((2048, 2048), "float32"), (2048, 1)), w])
    offer = panel.ask(found, dataclasses.replace(device("avx512"), compute_units=cores))
    assert isinstance(offer, Offer)
    grid = offer.build()[-1].grid
    assert grid[0] * grid[1] >= 2 * cores * max(1, log2(cores))


@pytest.mark.parametrize(("m", "n", "k"), [(64, 512, 512), (4096, 64, 64), (784, 64, 512), (64, 784, 512)])
def test_no_core_has_much_more_than_the_other(m: int, n: int, k: int) -> None:
    """Columns of 64 in panels of 48 left one core a quarter of the work, and it waited for the other."""
    found = product([Operand(Spec((m, k), "float32"), (k, 1)), Operand(Spec((k, n), "float32"), (1, k))])
    offer = panel.ask(found, device("avx512"))
    assert isinstance(offer, Offer)
    stage = offer.build()[-1]
    rows, cols = (n, m) if stage.defines["SWAP"] else (m, n)
    assert dealt(cols / stage.defines["JC"], rows / stage.defines["IC"], 1, 2) < 0.6


def free(m: Any, n: Any, k: Any, cores: int) -> dict[str, Any]:
    """The last stage of a product of sizes that vary, and its grid."""
    found = product([Operand(Spec((m, k), "float32"), (k, 1)), Operand(Spec((k, n), "float32"), (1, k))])
    offer = panel.ask(found, dataclasses.replace(device("avx512"), compute_units=cores))
    assert isinstance(offer, Offer)
    stage = offer.build()[-1]
    return stage.defines | {"grid": stage.grid}


def gradient(k: Any, profile: str, m: int, n: int) -> dict[str, Any]:
    """The last stage of x' g, x (k, m) and g (k, n), of two of AMD's cores."""
    found = product([Operand(Spec((m, k), "float32"), (1, m)), Operand(Spec((k, n), "float32"), (n, 1))])
    amd = dataclasses.replace(device(profile), name="amd processor (played)", compute_units=2)
    offer = panel.ask(found, amd)
    assert isinstance(offer, Offer)
    return offer.build()[-1].defines


@pytest.mark.parametrize("cores", [2, 8, 64])
@pytest.mark.parametrize("n", [256, 10])
def test_every_core_has_a_piece_of_few_rows(cores: int, n: int) -> None:
    """A plan for up to 256 · 50 rows had one work-item for 1600, and one core."""
    varying = Varying((32,))
    found = free(varying.axes[0] * 50, n, 64, cores)
    for batch in (17, 32, 100, 256):
        numbers = varying.at((batch,))
        share, pieces = numbers(found["IC"]), [numbers(g) for g in found["grid"][:2]]
        assert share <= found["IC_MOST"] and share % found["MR"] == 0
        assert share * pieces[0] >= batch * 50 > share * (pieces[0] - 1)
        assert pieces[0] * pieces[1] > min(cores, batch * 50 // found["MR"]) / 2


@pytest.mark.parametrize(("profile", "m", "n", "copied"), [
    ("avx512", 512, 64, False), ("avx2", 48, 512, False), ("avx2", 1024, 200, False), ("avx512", 1024, 784, True)])
def test_where_only_the_inner_size_varies_the_columns_may_be_m(profile: str, m: int, n: int, copied: bool) -> None:
    """The gradient of a recurrent layer's weights."""
    varying = Varying((32,))
    alone, among = (gradient(k, profile, m, n) for k in (12800, varying.axes[0] * 50))
    assert alone["SWAP"] == among["SWAP"] == 1
    assert ("PITCH" in alone) == ("PITCH" in among) == copied


@pytest.mark.parametrize(("across", "size"), [(1, 32), (1, 64), (4, 32), (4, 64)])
def test_sequences_are_dealt_to_tiles_that_suit_few_of_them_too(across: int, size: int) -> None:
    """Of up to 128 a core: 16 are computed with no more than a tenth of padding, and as 16 alone would be."""
    mr, n = _tile([128, 64, 32, 16], 8, across, size)
    assert ceil(16 / mr) * mr <= 1.1 * 16
    assert (mr, n) == _tile([16], 8, across, size)


def test_few_sequences_of_a_class_have_a_work_group_each() -> None:
    """On GPUs: 32 sequences took 1.3 times as long in groups of two, which suit the class's largest number, 256."""
    def rows(batch: Any) -> int:
        offer = in_registers.ask(Loop("lstm", False, 50, batch, 128, "float32"), device("h200"))
        assert isinstance(offer, Offer)
        return int(offer.build()[-1].defines["ROWS"])

    assert [rows(n) for n in (1, 32, 132, 133, 256, 1000)] == [1, 1, 1, 2, 2, 4]
    assert [rows(Varying((n,)).axes[0]) for n in (10, 32, 256, 300)] == [1, 1, 1, 2]
