"""The rules for products on CPUs, asked without a device: what was measured where other choices took longer."""

from __future__ import annotations

from typing import Any

import pytest

from clnet.kernels import tuning
from clnet.kernels.dealing import _most
from clnet.kernels.matmul.matmul import _cpu, _planned
from clnet.workbench import played
from clnet.workbench.tune.tasks import strides


def chosen(profile: str, m: int, k: int, n: int, cores: int = 2) -> dict[str, Any]:
    """Of xᵀ @ w."""
    device = played.device(profile)
    with tuning.rules_alone():
        table = tuple(sorted(tuning.numbers(device, "matmul cpu", "").items()))
    plan = _cpu(device.vector_width, cores, 1, m, n, k, *strides("TN", m, k, n), 4, table, (False, False))
    return dict(plan["defines"])


@pytest.mark.parametrize(("profile", "m", "k", "copied"), [
    ("avx2", 2048, 128, True), ("avx2", 1024, 32, True), ("avx2", 3072, 256, True), ("avx2", 2048, 8, False),
    ("avx2", 2560, 128, False), ("avx2", 1536, 128, False), ("avx2", 512, 128, False), ("avx512", 2048, 128, False)])
def test_rows_across_k_whose_lines_share_a_set_are_copied_where_tiles_share_lines(profile: str, m: int, k: int,
                                                                                  copied: bool) -> None:
    found = chosen(profile, m, k, 512)
    assert ("PITCH" in found) == copied, found


@pytest.mark.parametrize(("m", "k", "n"), [
    (4096, 64, 64), (2048, 40, 64), (2048, 64, 64), (1024, 128, 32), (4096, 4096, 8)])
def test_lines_of_rows_across_k_are_not_fetched_for_each_tile_again(m: int, k: int, n: int) -> None:
    """Tiles of 14 rows by one vector, whose lines are gone before the next tile, took 1.05 to 1.7 times as long."""
    found = chosen("avx2", m, k, n)
    assert found["SWAP"] or found["ROWS_PACKED"] or "PITCH" in found, found


@pytest.mark.parametrize("sizes", [(128, 1024, 128), (100, 512, 100), (128, 300, 100)], ids=str)
def test_few_rows_do_not_read_a_panel_from_the_second_cache_again_and_again(sizes: tuple[int, int, int]) -> None:
    """Tiles of two rows by 128 columns pack no rows, but load as much as they compute."""
    assert chosen("epyc", *sizes)["MR"] >= 6
    found = chosen("avx512", *sizes)
    assert found["MR"] >= 6 or found["MR"] * found["NV"] >= 2 * (found["MR"] + found["NV"])


@pytest.mark.parametrize(("profile", "block"), [("avx2", {128}), ("epyc", {128, 4096}), ("avx512", {64})])
@pytest.mark.parametrize("m", [10, 64, 128, 256, 400])
def test_rows_across_k_are_read_where_they_lie(profile: str, block: set[int], m: int) -> None:
    """The gradient of a layer of ten classes took 1.3 to 1.5 times as long with a copy of its rows in every tile."""
    found = chosen(profile, m, 4096, m)
    assert found["KC"] in block and (found["ROWS_PACKED"], "PITCH" in found) == (0, False), found


@pytest.mark.parametrize(("sizes", "uncut"), [
    ((512, 512, 512), True), ((784, 512, 512), True), ((1024, 256, 128), True), ((900, 900, 900), False),
    ((512, 2048, 512), False)], ids=str)
def test_rows_across_k_in_few_pages_are_one_block_of_one_panel(sizes: tuple[int, int, int], uncut: bool) -> None:
    """On two cores of a Zen 4 1.03 times as fast at the mean; where rows lie in many pages up to twice as slow, as on a
    Xeon and with AVX2.
    """
    for profile, one in (("epyc", uncut), ("avx512", False), ("avx2", False)):
        found = chosen(profile, *sizes, 2)
        assert (found["KC"] == sizes[1] and found["JC"] == found["NV"] * 16 and "PITCH" not in found) == one, found


@pytest.mark.parametrize("k", [65, 100, 128])
def test_rows_across_k_are_no_two_blocks_for_few_steps(k: int) -> None:
    """On sixteen cores of a Xeon two blocks took 1.05 to 1.08 times as long as one."""
    assert chosen("avx512", 512, k, 512)["KC"] == k


@pytest.mark.parametrize("size", [512, 1152])
@pytest.mark.parametrize("cores", [2, 16])
def test_intels_cores_take_tiles_that_broadcast_less(size: int, cores: int) -> None:
    """13x2 took 1.05 to 1.1 times as long as 6x4 on two cores of a Xeon, 1.06 on sixteen. AMD's choose as before."""
    vectors = [chosen(profile, size, size, size, cores)["NV"] for profile in ("avx512", "epyc")]
    assert vectors[0] > 2 == vectors[1], vectors


@pytest.mark.parametrize("profile", ["avx2", "avx512"])
def test_many_rows_across_k_are_copied_for_many_columns(profile: str) -> None:
    assert "PITCH" in chosen(profile, 1500, 2048, 1000)


@pytest.mark.parametrize(("profile", "m", "k", "n"), [
    ("avx2", 512, 512, 512), ("avx2", 640, 4096, 640), ("avx2", 784, 512, 512)])
def test_rows_whose_block_the_nearest_memories_do_not_hold_are_copied(profile: str, m: int, k: int, n: int) -> None:
    """Lines 2048 and 2560 bytes apart share sets of the L1, those 3136 apart take more pages than its TLB holds: in
    place they took 1.05 to 1.19 times as long (Zen 4).
    """
    assert "PITCH" in chosen(profile, m, k, n)


@pytest.mark.parametrize(("profile", "m", "k", "n"), [
    ("avx512", 640, 4096, 640), ("avx512", 784, 512, 512), ("avx512", 300, 300, 1500)])
def test_rows_are_not_copied_for_few_columns_nor_where_their_block_stays(profile: str, m: int, k: int, n: int) -> None:
    """A copy took 1.02 to 1.05 times as long (Zen 4)."""
    assert "PITCH" not in chosen(profile, m, k, n)


@pytest.mark.parametrize(("m", "k", "n"), [(10, 1024, 96), (32, 2048, 96), (8, 1024, 128)])
def test_cores_have_as_much_to_do(m: int, k: int, n: int) -> None:
    """Three panels of 32 columns take two cores as long as four would."""
    found = chosen("avx512", m, k, n)
    assert -(-n // found["JC"]) * -(-m // found["IC"]) % 2 == 0, found


@pytest.mark.parametrize("cores", [8, 64])
def test_small_products_are_not_dealt_to_more_cores_than_it_is_worth(cores: int) -> None:
    """Tiles of a few rows would give each of many cores something to do, at half the rate (4x4: 0.92 of 6x4's)."""
    for size in (64, 512):
        found = chosen("avx512", size, size, size, cores)
        assert found["MR"] >= 4 and found["MR"] * found["NV"] >= 16, found


def planned(form: str, m: int, k: int, n: int, cores: int) -> dict[str, Any]:
    device = played.device("avx512")
    with tuning.rules_alone():
        table = tuple(sorted(tuning.numbers(device, "matmul cpu", "").items()))
    return _planned(device.vector_width, cores, 1, m, n, k, *strides(form, m, k, n), 4, table, (False, False))


@pytest.mark.parametrize(("form", "m", "k", "n", "cores", "cut"), [
    ("TN", 128, 2048, 128, 16, True), ("NT", 128, 2048, 128, 16, True), ("NN", 64, 4096, 64, 16, True),
    ("TN", 512, 2048, 128, 16, True), ("TN", 64, 1024, 64, 16, False), ("TN", 1024, 512, 512, 16, False),
    ("TN", 512, 512, 8, 16, False), ("TN", 1024, 64, 1024, 16, False), ("NN", 2048, 2048, 2048, 16, False),
    ("NN", 64, 784, 512, 16, False), ("NN", 8, 100000, 8, 2, True), ("TN", 16, 8192, 16, 2, True),
    ("TN", 128, 2048, 128, 2, False), ("TN", 512, 2048, 128, 2, False), ("TN", 16, 8192, 16, 1, False)])
def test_k_is_cut_where_results_are_too_few_for_the_cores(form: str, m: int, k: int, n: int, cores: int,
                                                          cut: bool) -> None:
    """As measured on sixteen cores of a Xeon and two of a Zen 5; sums take half of the operands' memory at most."""
    found = planned(form, m, k, n, cores)["defines"].get("PARTS", 1)
    assert (found > 1) == cut
    assert found == 1 or cores % found == 0 and 2 * found * m * n <= k * (m + n)


@pytest.mark.parametrize("form", ["NN", "NT", "TN"])
@pytest.mark.parametrize(("m", "k", "n"), [(300, 300, 300), (784, 512, 100), (512, 512, 512), (1024, 256, 768)])
def test_no_core_of_many_has_twice_what_others_have(form: str, m: int, k: int, n: int) -> None:
    """Fifteen work-items, three by five, took 1.4 times as long on sixteen cores as eight by two, and 24 took 1.2 times
    as long as 16 (Xeon).
    """
    down, across, _ = planned(form, m, k, n, 16)["grid"]
    dealt = _most(down, across, 1, 16)
    assert dealt > 2 or dealt * 16 <= 1.15 * down * across, (down, across)


@pytest.mark.parametrize(("form", "m", "k", "n", "rows"), [("NN", 784, 64, 512, True), ("NT", 784, 64, 512, True),
                                                           ("NN", 64, 64, 64, True), ("NN", 256, 256, 256, False)])
def test_two_cores_share_no_rows_of_a_result_that_are_written_fast(form: str, m: int, k: int, n: int,
                                                                   rows: bool) -> None:
    """Halves of the columns took 1.05 to 1.13 times as long as halves of the rows with 64 steps along k, and as long
    with 256 (Zen 4).
    """
    down, across, _ = planned(form, m, k, n, 2)["grid"]
    assert (down, across) == ((2, 1) if rows else (1, 2))


@pytest.mark.parametrize(("m", "k", "n", "cores", "least"), [
    (768, 768, 768, 16, 32), (1000, 1000, 1000, 16, 48), (2048, 128, 512, 16, 48), (2048, 2048, 2048, 2, 8),
    (1152, 1152, 1152, 2, 8)])
def test_uneven_cores_have_several_work_items_each_of_large_products(m: int, k: int, n: int, cores: int,
                                                                     least: int) -> None:
    """One each took 1.1 to 1.4 times as long as four or more on sixteen cores, a part of which others took."""
    across, down, _ = planned("NN", m, k, n, cores)["grid"]
    assert across * down >= least


def test_the_register_tile_suits_how_the_product_is_divided() -> None:
    """768 columns are six work-items of 128 for two cores, and eight of 96; 768 rows are two of 384 with tiles of 12
    rows, which 13 do not divide.
    """
    found = planned("TN", 768, 768, 768, 2)["defines"]
    assert found["IC"] % found["MR"] == 0 == 768 % found["IC"]
