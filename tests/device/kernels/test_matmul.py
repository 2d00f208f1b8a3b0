"""Matrix products at the edges of tiles, in every arithmetic, cut along K,
few rows, batched; on GPUs, and on CPUs that play GPU.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clnet
import clnet.ops as F
from clnet.core.precision import PRECISIONS, current_precision
from clnet.engine import on
from clnet.engine.explain import explain
from clnet.errors import ConfigError
from clnet.kernels import tuning as tune

# What rounding the operands costs in |error| / |result| (Frobenius norms,
# against float64); float32 sums cost 2⁻²⁴ √k more.
ROUNDING = {"fp32": 1e-7, "fp32x3": 6e-7, "tf32": 4e-4, "fp16": 4e-4, "bf16": 3e-3, "float16": 4e-4, "bfloat16": 3e-3}
FORMS = ("NN", "NT", "TN", "TT")


def operands(form: str, m: int, n: int, k: int, batch: tuple[int, ...] = (), seed: int = 0) -> tuple[Any, ...]:
    """x, w as tensors, transposed views where the form says T, and their product in float64."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((*batch, m, k), np.float32), rng.standard_normal((*batch, k, n), np.float32)
    tx, tw = (clnet.tensor(a) if f == "N" else clnet.tensor(a.swapaxes(-1, -2).copy()).mT
              for a, f in zip((x, w), form, strict=True))
    return tx, tw, x.astype(np.float64) @ w.astype(np.float64)


def error(y: Any, reference: np.ndarray[Any, Any]) -> float:
    value = y.numpy().astype(np.float64)
    assert value.shape == reference.shape and np.isfinite(value).all()
    return float(np.linalg.norm(value - reference) / np.linalg.norm(reference))


def tolerance(arithmetic: str, k: int) -> float:
    return ROUNDING[arithmetic] + 2**-24 * k**0.5


@pytest.fixture
def always_tensor_cores() -> Iterator[None]:
    """Small products go to tensor cores too, where there are any."""
    free = tune.overriding(("matmul_tensor", ""), {"launch": -1e12})
    with free, tune.overriding(("matmul_mma", ""), {"rival": 1e12}):
        yield


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("form", FORMS)
def test_tile_edges(engine, always_tensor_cores, precision, form):
    for m, n, k in ((127, 255, 63), (128, 256, 64), (129, 257, 65), (300, 72, 130)):
        x, w, reference = operands(form, m, n, k)
        with clnet.precision(precision):
            y = x @ w
        assert error(y, reference) < tolerance(precision, k), (m, n, k)


@pytest.mark.parametrize("form", FORMS)
def test_many_terms_are_summed_in_blocks_on_cpus(engine, form):
    if engine.device.kind != "cpu" or engine.device.is_host:
        pytest.skip("CPUs cut K where panels would not fit the cache")
    for m, n in ((96, 256), (300, 40)):
        x, w, reference = operands(form, m, n, 16384)
        assert error(x @ w, reference) < 5e-7, (m, n)  # 2.3e-6 where each term is added to the sum of all before it


@pytest.mark.parametrize("precision", ["fp32", "fp32x3", "bf16"])
def test_batches_and_fused_epilogues(engine, always_tensor_cores, precision):
    x, w, reference = operands("NT", 70, 90, 100, (3,))
    bias = clnet.tensor(np.linspace(-1, 1, 90, dtype=np.float32))
    scale = clnet.tensor(np.full((3, 70, 90), 0.5, np.float32))
    y = F.relu(F.matmul(x, w, precision=precision) * scale + bias)
    assert error(y, np.maximum(reference * 0.5 + bias.numpy(), 0)) < tolerance(precision, 100)
    x, w, reference = operands("TN", 40, 130, 64)
    y = F.matmul(F.expand(x, 4, 40, 64), w, precision=precision)
    assert error(y, np.broadcast_to(reference, (4, 40, 130))) < tolerance(precision, 64)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 777, 555), (5, 1000, 300), (777, 1, 556), (8, 513, 1024), (33, 40, 5000),
                                           (2, 3, 9), (40, 36, 1), (12, 20, 2)])
def test_few_rows_and_long_sums_repeat_to_the_bit(engine, m, n, k):
    for form in FORMS:
        x, w, reference = operands(form, m, n, k)
        y = x @ w
        assert error(y, reference) < tolerance("fp32", k)
        assert np.array_equal((x @ w + 0).numpy(), y.numpy())


@pytest.mark.parametrize("tile", [(8, 3), (14, 2)])
def test_rows_that_a_cpu_packs(engine, tile):
    """At the edges of row tiles and of what is packed at once, K cut, in either order."""
    if engine.device.kind != "cpu" or not engine.compiles:
        pytest.skip("the kernel of CPUs")
    numbers = {"tile": tile, "strided": 16, "uncut": 16, "many": 1, "turn": 0, "pages": 0, "panel": 0, "depth": 16,
               "line": 1e3, "direct_depth": 0, "item": 1e9, "far": 0}
    for rows in (0, tile[0] * 16 * 4 * 3):
        engine.plans.clear()
        with tune.overriding(("matmul", ""), numbers | {"rows": rows}):
            for form, m, k in (("TN", tile[0] * 3 - 1, 40), ("TN", tile[0] * 9 + 1, 32), ("TT", tile[0] * 3, 17),
                               ("NN", tile[0] * 3 + 1, 40)):
                x, w, reference = operands(form, m, 203, k)
                assert error(x @ w, reference) < tolerance("fp32", k), (form, m, k)
            # several row tiles for each core
            x, w, _ = operands("TN", tile[0] * 4 * engine.device.compute_units + 1, 203, 32)
            text = explain(x @ w).sources[0]
            assert "#define ROWS_PACKED 1\n" in text and ("#define RB 1\n" in text) == (not rows), text
            x, w = (t.mT.astype("bfloat16").mT for t in (x, w))
            exact = x.numpy().astype(np.float64) @ w.numpy().astype(np.float64)
            assert error(x @ w, exact) < tolerance("bfloat16", 40)
    engine.plans.clear()


def test_operands_at_odd_places(engine):
    whole = clnet.tensor(np.random.default_rng(1).standard_normal(200 * 200 + 7).astype(np.float32))
    for at in (0, 1, 2, 4):
        x, w = whole[at : at + 100 * 64].reshape(100, 64), whole[at + 3 : at + 3 + 64 * 96].reshape(64, 96)
        assert error(x @ w, x.numpy().astype(np.float64) @ w.numpy().astype(np.float64)) < tolerance("fp32", 64)
    x = (whole[:6400] * 2).reshape(100, 64)
    odd = F.concat([whole[:5], whole[:6400] * 2], 0)[5:].reshape(100, 64)  # computed at an odd place
    reference = x.numpy().astype(np.float64) @ x.numpy().T
    assert error(F.concat([x @ x.mT, odd @ x.mT], 0), np.tile(reference, (2, 1))) < tolerance("fp32", 64)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_operands(engine, always_tensor_cores, dtype):
    x, w, _ = operands("NN", 130, 260, 72)
    for a, b in ((x, w), (F.transpose(x).astype(dtype).mT, w), (x, F.transpose(w).astype(dtype).mT)):
        a, b = a.astype(dtype), b.astype(dtype)
        y = F.relu(a @ b)
        assert y.dtype == dtype
        reference = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
        assert error(y, np.maximum(reference, 0)) < tolerance(dtype, 72)
    assert (x.astype(dtype) @ w).dtype == "float32"


@pytest.mark.parametrize("form", FORMS)
def test_16_bit_operands_where_they_lie(engine, form):
    """Read in place: at the edges of tiles, lines that are whole pieces of 16 bytes and not, few rows, batches,
    broadcast, cut along K.
    """
    for batch, m, n, k in (((), 127, 255, 63), ((), 128, 256, 64), ((), 136, 264, 72), ((), 129, 257, 65),
                           ((), 8, 520, 1032), ((), 64, 72, 4096), ((3, 2), 40, 48, 80), ((3,), 33, 41, 70)):
        x, w, _ = operands(form, m, n, k, batch)
        a, b = ((t if f == "N" else t.mT).astype("bfloat16") for t, f in zip((x, w), form, strict=True))
        engine.run([a, b])
        a, b = (t if f == "N" else t.mT for t, f in zip((a, b), form, strict=True))
        exact = [t.numpy().astype(np.float64) for t in (a, b)]
        y = a @ b
        assert error(y, exact[0] @ exact[1]) < tolerance("bfloat16", k), (batch, m, n, k)
        assert np.array_equal((a @ b).numpy(), y.numpy())
        if batch == (3,):
            assert error(a @ b[0], exact[0] @ exact[1][0]) < tolerance("bfloat16", k)
            assert error(a[1] @ b, exact[0][1] @ exact[1]) < tolerance("bfloat16", k)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("form", FORMS)
def test_float32_rows_with_16_bit_weights(engine, form, dtype):
    """Of what the 16 bits say nothing is lost: sums and results are float32. CPUs read them where they lie."""
    for batch, m, n, k in (((), 1, 300, 1040), ((), 7, 131, 77), ((), 16, 64, 512), ((), 17, 33, 100),
                           ((), 130, 260, 72), ((3,), 5, 41, 70)):
        x, w, _ = operands(form, m, n, k, batch)
        w = clnet.tensor(w.numpy(), dtype) if form[1] == "N" else clnet.tensor(w.mT.numpy(), dtype).mT
        left, right = x.numpy().astype(np.float64), w.numpy().astype(np.float64)
        y, turned = x @ w, w.mT @ x.mT
        assert y.dtype == turned.dtype == "float32"
        if engine.device.kind == "cpu" and engine.compiles:
            assert not any("cast" in ops for _, ops in explain(y, turned).launches)
        assert error(y, left @ right) < tolerance("fp32", k), (batch, m, n, k)
        assert error(turned, (left @ right).swapaxes(-1, -2)) < tolerance("fp32", k), (batch, m, n, k)


def test_gradients_of_16_bit_weights(engine):
    """dx = g W and dW = gᵀ x of the values that are stored: dx in float32, dW rounded once."""
    x, w, _ = operands("NT", 6, 40, 72)
    w = w.mT.astype("bfloat16")
    g = clnet.tensor(np.random.default_rng(2).standard_normal((6, 40)).astype(np.float32))
    dx, dw = clnet.gradients(F.linear(x, w), [x, w], g)
    assert (dx.dtype, dw.dtype) == ("float32", "bfloat16")
    exact = [t.numpy().astype(np.float64) for t in (g, w, x)]
    assert error(dx, exact[0] @ exact[1]) < tolerance("fp32", 40)
    assert error(dw, exact[0].T @ exact[2]) < tolerance("bfloat16", 6)


def test_16_bit_operands_at_odd_places(engine):
    whole = clnet.tensor(np.random.default_rng(1).standard_normal(200 * 200 + 8).astype(np.float32)).astype("bfloat16")
    exact = whole.numpy().astype(np.float64)
    for at in (0, 1, 4, 8):
        x, w = whole[at : at + 104 * 64].reshape(104, 64), whole[at + 3 : at + 3 + 64 * 96].reshape(64, 96)
        reference = exact[at : at + 104 * 64].reshape(104, 64) @ exact[at + 3 : at + 3 + 64 * 96].reshape(64, 96)
        assert error(x @ w, reference) < tolerance("bfloat16", 64)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_nan_stays_nan(engine, always_tensor_cores, precision):
    x, w = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    x[3, 5], w[7, 9] = np.nan, np.inf
    y = F.matmul(clnet.tensor(x), clnet.tensor(w), precision=precision).numpy()
    assert np.isnan(y[3]).all() and not np.isfinite(y[:, 9]).any()
    assert np.isfinite(np.delete(np.delete(y, 3, 0), 9, 1)).all()


def test_the_wish_is_part_of_the_record(engine):
    x, w, _ = operands("NN", 40, 40, 40)
    assert current_precision() == "fp32"
    with clnet.precision("tf32"):
        y = x @ w
        with clnet.precision("bf16"):
            assert current_precision() == "bf16"
    assert current_precision() == "fp32"
    assert y.attrs == {"precision": "tf32"} and (x @ w).attrs == {}
    for g in clnet.gradients(y, [x, w], clnet.tensor(np.ones((40, 40), np.float32))):
        assert {t.attrs.get("precision") for t in _products(g)} == {"tf32"}
    assert "fp32; tf32 was asked for" in repr(explain(y))  # too small for tensor cores, where there are any
    for bad in (lambda: F.matmul(x, w, precision="tf16"), lambda: clnet.set_precision("half"),
                lambda: clnet.precision("").__enter__()):
        with pytest.raises(ConfigError, match="expected one of fp32, fp32x3, tf32, bf16, fp16"):
            bad()


def _products(t: Any) -> list[Any]:
    from clnet.core.tensor import in_order

    return [n for n in in_order([t]) if n.op is not None and n.op.name == "matmul"]


def test_a_recorded_step_knows_the_precision(engine):
    step = clnet.Recorded(lambda a, b: a @ b, "product")
    x, w, reference = operands("NN", 256, 256, 256)
    before = step(x, w).numpy()
    with clnet.precision("bf16"):
        step(x, w)
    assert len(step.replays) == 2 and np.array_equal(step(x, w).numpy(), before)
    assert error(step(x, w), reference) < tolerance("fp32", 256)


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("sizes", [(16, 64, 17), (65, 17, 33), (130, 70, 70), (1030, 33, 128)], ids=str)
def test_operands_across_k_are_copied_along_it(engine, sizes, swap):
    """Whole blocks and their edges, lines that would collide in the cache,
    batches, an operand that they share, another dtype.
    """
    if engine.device.kind != "cpu" or not engine.compiles:
        pytest.skip("the kernel of CPUs")
    m, n, k = sizes
    numbers = {"turn": 1, "many": 1, "strided": 16, "uncut": 16, "pages": 0, "far": 0, "swap": swap}
    with tune.overriding(("matmul", ""), numbers):
        for batch in ((), (3,)):
            x, w, reference = operands("TN", m, n, k, batch)
            assert sum("#define VARIANT TURN\n" in s for s in explain(x @ w).sources) == 1
            assert error(F.relu(x @ w + 1.0), np.maximum(reference + 1, 0)) < tolerance("fp32", k)
        for shared, other, wanted in ((x[:1], w, x.numpy()[0] @ w.numpy()), (x, w[:1], x.numpy() @ w.numpy()[0])):
            assert error(shared @ other, wanted.astype(np.float64)) < 2 * tolerance("fp32", k)
        x, w, reference = operands("TN", m, n, k)
        assert error(x.astype("float64") @ w.astype("float64"), reference) < 1e-15 * k


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("m, n, k", [(16, 64, 17), (65, 17, 33), (130, 70, 70), (7, 300, 260)])
def test_work_items_of_one_panel_read_rows_across_k_in_one_block(engine, m, n, k, swap):
    if engine.device.kind != "cpu" or not engine.compiles:
        pytest.skip("the kernel of CPUs")
    with tune.overriding(("matmul", ""), {"uncut": 16, "far": 1 << 30, "kept": 1e6, "swap": swap, "parts": 1}):
        for batch in ((), (3,)):
            x, w, reference = operands("TN", m, n, k, batch)
            assert f"#define KC {k}\n" in explain(x @ w).sources[0]
            assert error(F.relu(x @ w + 1.0), np.maximum(reference + 1, 0)) < tolerance("fp32", k)


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("parts", [2, 3, 16])
def test_parts_of_k_are_summed_by_a_second_launch(engine, parts, swap):
    """Whole blocks and their edges, parts of which some are empty, batches, sums through an epilogue, other dtypes."""
    if engine.device.kind != "cpu" or not engine.compiles:
        pytest.skip("the kernel of CPUs")
    with tune.overriding(("matmul", ""), {"parts": parts, "swap": swap, "dot": 0, "depth": 64, "panel": 4096}):
        sizes = ((7, 1, 3, ()), (65, 40, 131, (2,)), (65, 1, 600, ()), (7, 40, 600, (2,)))
        for form, (m, n, k, batch) in itertools.product(FORMS, sizes):
            x, w, reference = operands(form, m, n, k, batch)
            assert error(F.relu(x @ w + 1.0), np.maximum(reference + 1, 0)) < tolerance("fp32", k), (form, m, n, k)
        assert "#define VARIANT SUM\n" in explain(x @ w).sources[-1]
        assert not (F.zeros((5, 0)) @ F.zeros((0, 4))).numpy().any()
        x, w, reference = operands("TN", 33, 20, 500)
        assert error(x.astype("float64") @ w.astype("float64"), reference) < 1e-15 * 500
        x, w = x.astype("bfloat16"), w.astype("bfloat16")
        assert error(x @ w, x.numpy().astype(np.float64) @ w.numpy().astype(np.float64)) < tolerance("bfloat16", 500)


@pytest.mark.parametrize("parts", [2, 5])
def test_parts_of_a_k_that_varies_may_be_empty(engine, serves_all, parts):
    """As many parts for every length of a class, of which a short one leaves some with nothing."""
    if engine.device.kind != "cpu" or not engine.compiles:
        pytest.skip("the kernel of CPUs")

    def fn(x: Any, g: Any) -> Any:
        return x.mT @ g

    rng = np.random.default_rng(0)
    with tune.overriding(("matmul", ""), {"parts": parts, "dot": 0}):
        serves_all(fn, [tuple(rng.standard_normal((k, n)).astype(np.float32) for n in (30, 20))
                        for k in (40, 17, 25, 33, 100, 256)], 1e-5, 5e-6)


def test_what_a_product_is_fused_with_is_fetched_while_it_is_computed(engine):
    """Results' own elements of a sum or a mask, not a bias, which stays in the cache."""
    if engine.device.kind != "cpu" or not engine.compiles:
        pytest.skip("the kernel of CPUs")
    for form, batch in (("NN", ()), ("NT", (3,))):
        x, w, product = operands(form, 70, 150, 96, batch)
        more, bias = (clnet.tensor(np.random.default_rng(5).normal(size=s).astype("float32"))
                      for s in ((*batch, 70, 150), (150,)))
        masked = np.where(more.numpy() > 0, product, 2)
        for y, expected, fetched in ((x @ w + more, product + more.numpy(), True),
                                     (F.where(more > 0, x @ w, 2.0), masked, True),
                                     (x @ w + bias, product + bias.numpy(), False)):
            assert error(y, expected) < tolerance("fp32", 96)
            assert ("#define EPILOGUE_AHEAD(" in explain(y).sources[-1]) == fetched


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("sizes", [(17, 24, 1024), (65, 33, 1000), (130, 70, 1024)], ids=str)
def test_rows_that_collide_in_the_cache(engine, sizes, swap):
    """Rows of x and of wᵀ that begin 4096 bytes apart, whole or cut, also where they begin on no vector:
    a tile of six reads them as they lie, one of more packs them, and is not chosen.
    """
    if engine.device.kind != "cpu" or not engine.compiles:
        pytest.skip("the kernel of CPUs")
    m, n, k = sizes
    rng = np.random.default_rng(0)
    x, w = (clnet.tensor(rng.standard_normal((rows, 1024)).astype(np.float32))[:, 1024 - k :] for rows in (m, n))
    for tile, packed in (((), {"0"}), ((6, 1), {"0"}), ((8, 1), {"0", "1"})):
        with tune.overriding(("matmul", ""), {"turn": 1, "dot": 0, "swap": swap, "tile": tile, "parts": 1}):
            y = x @ w.mT
            (text,) = explain(y).sources
            found = dict(re.findall(r"^#define (MR|NV|JC|VW|ROWS_PACKED) (\d+)$", text, re.MULTILINE))
            several = int(found["JC"]) > int(found["NV"]) * int(found.get("VW", 1))
            assert found["ROWS_PACKED"] == str(int(int(found["MR"]) > 6 and several)) and found["ROWS_PACKED"] in packed
            assert error(y, x.numpy().astype(np.float64) @ w.numpy().T) < tolerance("fp32", k)


@pytest.mark.parametrize("local_memory", [16384, 32768])
def test_a_gpu_with_little_local_memory(engine, as_gpu, local_memory):
    profile = engine.device
    if profile.kind != "cpu" or profile.runtime == "pocl":
        pytest.skip("a CPU that compiles fast plays the GPU")
    small = as_gpu(engine, key="small gpu", compute_units=20, local_memory=local_memory, max_work_group=256)
    with on(small), tune.overriding(("matmul", ""), {"part": 16}):
        for form in FORMS:
            for m, n, k in ((5, 7, 3), (130, 70, 131), (64, 64, 64), (3, 300, 257), (33, 40, 900), (260, 130, 20)):
                x, w, reference = operands(form, m, n, k)
                assert error(x @ w, reference) < tolerance("fp32", k), (form, m, n, k)
        x, w, reference = operands("NT", 40, 50, 60, (2, 3))
        assert error(F.relu(x @ w + 1.0), np.maximum(reference + 1, 0)) < tolerance("fp32", 60)
        assert "fp32; tf32 was asked for" in repr(explain(F.matmul(x, w, precision="tf32")))


@pytest.mark.parametrize("tile", [(64, 64, 16, 8, 4, 4, 8, 3), (32, 64, 8, 4, 4, 4, 8, 4)])
def test_copies_past_the_registers(tensor_cores, tile):
    """Blocks contiguous along k and across, operands at odd places, K cut,
    results that items store themselves and others.
    """
    tiles = tune.overriding(("matmul", ""), {"tiles": ((*tile, 1.0, 100),), "split": (1, 3), "thin": 0})
    with on(tensor_cores(True, local_memory=96 * 1024)), tiles:
        for form in FORMS:
            for m, n, k in ((65, 100, 40), (128, 96, 64), (70, 33, 20), (33, 36, 1000)):
                x, w, reference = operands(form, m, n, k)
                assert error(x @ w, reference) < tolerance("fp32", k), (form, m, n, k)
        whole = clnet.tensor(np.random.default_rng(1).standard_normal(70 * 40 + 1).astype(np.float32))
        x, (_, w, _) = whole[1:].reshape(70, 40), operands("NN", 70, 36, 40)
        reference = x.numpy().astype(np.float64) @ w.numpy() + 1.0
        assert error(F.relu(x @ w + 1.0), np.maximum(reference, 0)) < tolerance("fp32", 40)


def test_one_class_of_sizes_can_have_its_own_tiles(tensor_cores):
    """Numbers of a shape class serve on GPUs too, and the others keep those of all shapes."""
    tiles = tune.overriding(("matmul", "TN 64x64x64"), {"tiles": ((32, 32, 8, 4, 4, 4, 8, 3, 1.0, 100),)})
    with on(tensor_cores(True, local_memory=96 * 1024)), tiles:
        texts = {form: explain(operands(form, 64, 64, 64)[0] @ operands(form, 64, 64, 64)[1]).sources[0]
                 for form in ("TN", "NN")}
    assert "#define BM 32\n#define BN 32\n#define BK 8\n" in texts["TN"] and "#define BK 8\n" not in texts["NN"]


@pytest.mark.parametrize("form", FORMS)
def test_sums_that_vary_grow_beyond_what_they_were_planned_for(engine, form):
    """More blocks of k than the sums had that the plan is made of; the second block replaced the first."""
    step = clnet.Recorded(lambda x, w: (x.mT if form[0] == "T" else x) @ (w.mT if form[1] == "T" else w), "product")
    for k in (300, 400, 513, 1200):
        x, w, _ = operands("NN", 260, 300, k)
        given = [clnet.tensor(np.ascontiguousarray(a.T if turned == "T" else a))
                 for a, turned in zip((x.numpy(), w.numpy()), form, strict=True)]
        reference = x.numpy().astype(np.float64) @ w.numpy().astype(np.float64)
        assert error(step(*given), reference) < tolerance("fp32", k), k
