"""Products on GPUs whose sizes vary: one set of programs for a class of sizes, on GPUs, and on CPUs that play one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
import clnet.ops as F
from clnet.core.autodiff import gradients
from clnet.core.tensor import tensor
from clnet.engine.explain import explain
from clnet.kernels import tuning as tune

# What rounding the operands costs beside the largest result; sums in float32 cost less than the first.
ROUNDING = {"fp32": 5e-6, "fp32x3": 5e-6, "tf32": 4e-3, "fp16": 4e-3, "bf16": 3e-2}
SMALL, MIDDLE, LARGE = (5, 2, 3, 7, 15, 16), (33, 17, 31, 64, 127, 255, 256), (300, 257, 511, 1000, 1024)
FEW = 1e-5  # of sums that a plan for the shape alone may take in another order


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


@pytest.fixture
def gpu(engine: Any, as_gpu: Callable[..., Any]) -> Any:
    if not engine.compiles or engine.device.runtime == "pocl":
        pytest.skip("kernels of GPUs are built where they build quickly")
    return engine if engine.device.is_gpu else as_gpu(engine, max_work_group=256, compute_units=4)


def layer(x: Any, w: Any, b: Any) -> tuple[Any, ...]:
    """A layer, and the gradients of all that it takes."""
    y = F.relu(x @ w + b)
    return y, *gradients(F.sum(y * y), [x, w, b])


@pytest.mark.parametrize("sizes", [MIDDLE, SMALL, LARGE], ids=["middle", "small", "large"])
@pytest.mark.parametrize(("k", "n"), [(65, 24), (64, 48), (30, 7)])
def test_every_number_of_rows(gpu: Any, serves_all: Any, sizes: tuple[int, ...], k: int, n: int) -> None:
    """Forward along M, backward along M and K; 7 columns are a thin product."""
    with clnet.on(gpu):
        serves_all(layer, [(normal(m, k), normal(k, n), normal(n)) for m in sizes], FEW, ROUNDING["fp32"])


@pytest.mark.parametrize("sizes", [MIDDLE, SMALL], ids=["middle", "small"])
def test_every_length_of_a_batch(gpu: Any, serves_all: Any, sizes: tuple[int, ...]) -> None:
    """Both operands vary, in batch, rows, columns and the distance of their lines."""
    def scores(q: Any, k: Any) -> tuple[Any, ...]:
        s = q @ F.transpose(k)
        return s, s @ k, *gradients(F.mean(s * s), [q, k])

    batches = (2, 4, 3, 7, 5, 2, 6)
    with clnet.on(gpu):
        given = [(normal(b, t, 20), normal(b, t, 20, seed=1)) for b, t in zip(batches, sizes, strict=False)]
        serves_all(scores, given, FEW, ROUNDING["fp32"])


def test_sizes_that_are_multiples_are_read_in_vectors(gpu: Any, serves_all: Any) -> None:
    """Columns are four times an axis: whole vectors for every shape, whatever its number."""
    def fn(x: Any, w: Any) -> tuple[Any, ...]:
        y = x @ F.reshape(w, (w.shape[0], -1))
        return y, *gradients(F.mean(y * y), [x, w])

    with clnet.on(gpu):
        given = [(normal(48, 40), normal(40, n, 4, seed=1)) for n in (20, 33, 17, 64, 100)]
        serves_all(fn, given, FEW, ROUNDING["fp32"])


@pytest.mark.parametrize("split", [2, 5])
def test_parts_of_a_sum_may_be_empty(gpu: Any, serves_all: Any, split: int) -> None:
    """K is cut into as many parts for every size of a class, of which a short one leaves some with nothing."""
    def fn(x: Any, g: Any) -> Any:
        return F.transpose(x) @ g

    with clnet.on(gpu), tune.overriding(("matmul gpu", ""), {"split": (split,), "part": 1, "launch": 0}):
        given = [(normal(k, 30), normal(k, 20, seed=1)) for k in (40, 17, 25, 33, 100, 256)]
        serves_all(fn, given, FEW, ROUNDING["fp32"])


@pytest.fixture(params=["its own", "those before Hopper's"])
def cores(engine: Any, as_gpu: Callable[..., Any], request: Any) -> Any:
    """A device with tensor cores; Hopper's knows the instructions of those before it."""
    if not engine.device.ampere or (request.param != "its own" and not engine.device.hopper):
        pytest.skip("no such tensor cores that clnet can use")
    return engine if request.param == "its own" else as_gpu(engine, compute_capability=80)


@pytest.mark.parametrize("precision", ["bf16", "tf32", "fp16", "fp32x3"])
def test_tensor_cores(cores: Any, serves_all: Any, precision: str) -> None:
    """Every number of rows, on tensor cores; few products go there, too."""
    free = tune.overriding(("matmul_tensor", ""), {"launch": -1e12})
    with clnet.on(cores), free, tune.overriding(("matmul_mma", ""), {"rival": 1e12}), clnet.precision(precision):
        for k, n in ((64, 72), (130, 65)):
            given = [(normal(m, k), normal(k, n), normal(n)) for m in MIDDLE]
            serves_all(layer, given, 10 * FEW + ROUNDING[precision], ROUNDING[precision])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("form", ["NN", "NT", "TN"])
def test_operands_of_16_bits_where_they_lie(cores: Any, serves_all: Any, dtype: str, form: str) -> None:
    """Lines of whole pieces, along k and across it; rows and k vary."""
    def fn(x: Any, w: Any) -> Any:
        narrow, v = F.cast(x, dtype), F.cast(w, dtype)
        if form == "TN":
            return F.cast(F.transpose(narrow) @ narrow, "float32")
        return F.cast(narrow @ (v if form == "NN" else F.transpose(F.cast(F.transpose(w), dtype))), "float32")

    with clnet.on(cores):
        serves_all(fn, [(normal(m, 64), normal(64, 80)) for m in MIDDLE], 2e-2, 2e-2)


@pytest.mark.parametrize(("precision", "k", "n"), [("bf16", 72, 40), ("tf32", 33, 65), ("fp16", 130, 64)])
def test_a_cpu_plays_tensor_cores(tensor_cores: Any, serves_all: Any, precision: str, k: int, n: int) -> None:
    """Those before Hopper's: operands that are rounded first, or on their way; whole tiles and edges."""
    engine = tensor_cores(True, compute_units=4)
    with clnet.on(engine), tune.overriding(("matmul_mma", ""), {"rival": 1e12, "least": 1}), clnet.precision(precision):
        given = [(normal(m, k), normal(k, n), normal(n)) for m in (33, 17, 65, 128)]
        serves_all(layer, given, 10 * FEW + ROUNDING[precision], ROUNDING[precision])
        launches = [name for name, _ in explain(*layer(*map(tensor, given[0]))).launches]
    assert ("matmul_round" in launches) == (precision != "tf32")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_cpu_plays_operands_of_16_bits(tensor_cores: Any, serves_all: Any, dtype: str) -> None:
    """As they are, and K in parts, of which short sums leave some empty."""
    engine = tensor_cores(True, compute_units=16)

    def fn(x: Any, w: Any) -> tuple[Any, ...]:
        narrow = F.cast(x, dtype)
        return F.cast(narrow @ F.cast(w, dtype), "float32"), F.cast(F.transpose(narrow) @ narrow, "float32")

    cut = {"rival": 1e12, "split": (1, 3), "part": 1, "lead": 0, "launch": 0, "cache": 1e9}
    with clnet.on(engine), tune.overriding(("matmul_mma", ""), cut):
        given = [(normal(m, 72), normal(72, 40)) for m in (33, 17, 65, 128)]
        recorded = serves_all(fn, given, 2e-2, 2e-2)
        names = [launch.name for launch in recorded.prepare(*given[-1]).plan.launches]
    assert "matmul_sum" in names
