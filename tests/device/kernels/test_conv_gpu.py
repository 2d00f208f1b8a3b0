"""Convolution by the tiles of GPUs: on CPUs that play GPU, with little local memory too, and cut into parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clnet.ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS
from clnet.core.tensor import placeholder, tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.kernels.tuning import defaults, overriding

RNG = np.random.default_rng(11)

# x, w, stride, padding, dilation, groups: channels that blocks divide and that they do not,
# one tap and several a tile, phases
CASES = [
    ((3, 16, 9, 13), (40, 16, 3, 3), 1, 1, 1, 1),
    ((2, 5, 8, 7), (17, 5, 3, 2), 1, (1, 0), 1, 1),
    ((5, 32, 6, 5), (64, 32, 3, 3), 1, 1, 1, 1),
    ((2, 64, 5, 5), (70, 64, 2, 2), 2, 0, 1, 1),
    ((9, 64, 2, 1), (64, 64, 1, 1), 1, 0, 1, 1),
    ((2, 128, 4, 6), (20, 128, 3, 3), (2, 1), 1, (1, 2), 1),
    ((1, 3, 11, 11), (24, 3, 5, 5), 3, 2, 1, 1),
    ((2, 32, 5, 6), (48, 16, 3, 3), 1, 1, 1, 2),
    ((2, 12, 7, 6), (12, 1, 3, 3), 2, 1, 1, 12),
    ((2, 6, 7, 6), (30, 2, 3, 3), 1, 1, 1, 3),
    ((2, 16, 3, 4, 5), (16, 16, 2, 3, 1), 1, (1, 1, 0), 1, 1),
    ((2, 16, 4), (32, 16, 1), 4, 0, 1, 1),
]


@pytest.fixture(params=[16384, 32768, 65536], ids="{} bytes".format)
def gpu(engine: Any, as_gpu: Any, request: pytest.FixtureRequest) -> Any:
    """An engine over a small GPU that is this CPU, or over the GPU itself."""
    profile = engine.device
    if profile.kind == "gpu":
        return engine
    if profile.kind != "cpu" or profile.runtime == "pocl":
        pytest.skip("a CPU that compiles fast plays the GPU")
    return as_gpu(engine, key="small gpu", compute_units=20, local_memory=request.param, max_work_group=256)


@pytest.fixture
def player(engine: Any, as_gpu: Any) -> Any:
    """(local, work_group, real) -> an engine over the GPU itself where it has `real` (None: `local`) bytes of local
    memory, or over this CPU as a GPU with `local`.
    """

    def made(local: int, work_group: int, real: int | None = None) -> Any:
        profile = engine.device
        if profile.kind == "gpu":
            if profile.largest_local < (local if real is None else real):
                pytest.skip(f"the kernel needs {local} bytes of local memory")
            return engine
        if profile.runtime != "intel":
            pytest.skip("a CPU that compiles fast plays the GPU")
        return as_gpu(engine, key=f"gpu {local} {work_group}", compute_units=20, local_memory=local,
                      max_work_group=work_group)

    return made


def launched(case: Any, dtype: str, engine: Any) -> None:
    """conv and its gradients against the float64 reference, twice to the same bits."""
    xs, ws, stride, padding, dilation, groups = case
    inputs = [tensor(RNG.standard_normal(s).astype(dtype)) for s in (xs, ws)]
    outputs = []
    for _ in range(2):
        y = F.conv(*inputs, stride=stride, padding=padding, dilation=dilation, groups=groups)
        g = tensor(np.cos(np.arange(y.size, dtype=dtype)).reshape(y.shape))
        outputs.append([F.relu(y + 0.5), *gradients(y, inputs, g)])
    values, again = engine.values(outputs[0]), engine.values(outputs[1])
    for value, repeat, expected in zip(values, again, NumpyEngine().values(outputs[0]), strict=True):
        assert np.abs(value - expected).max() <= 1e-5 * (1 + np.abs(expected).max())
        np.testing.assert_array_equal(value, repeat)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tiles_at_their_edges(gpu: Any, case: Any) -> None:
    with on(gpu), overriding(("conv", ""), {"part": 16, "launch": 0}):
        launched(case, "float32", gpu)


@pytest.mark.parametrize("kind", ["tiles", "weights"])
def test_every_tile(gpu: Any, kind: str) -> None:
    for tile in defaults("conv gpu")[kind]:
        with on(gpu), overriding(("conv", ""), {kind: (tile,)}):
            gpu.plans.clear()  # the tile before is in them
            launched(CASES[2], "float32", gpu)


@pytest.mark.parametrize(("side", "tiles"), [(2, 32), (2, 64), (4, 32)])
def test_transformed_patches(player: Any, side: int, tiles: int) -> None:
    engine = player(tiles * (side + 2) ** 2 * 128, 576)
    with overriding(("conv", ""), {"winograd": ((side, tiles, 1e9),)}):
        transformed_patches(engine, {2: "winograd_gpu", 4: "winograd4_gpu"}[side])


def transformed_patches(engine: Any, name: str) -> None:
    for case in (CASES[0], CASES[2], CASES[7], ((2, 21, 8, 7), (19, 21, 3, 3), 1, (1, 0), 1, 1),
                 ((3, 16, 13, 16), (33, 16, 3, 3), 1, 1, 1, 1)):
        xs, ws, _, padding, _, groups = case
        y = F.conv(placeholder(xs), placeholder(ws), padding=padding, groups=groups)
        assert [s.kernel for s in OPS["conv"].launch(engine.device, y.inputs, **y.attrs)] == ["winograd_gpu_pack", name]
        with on(engine):
            launched(case, "float32", engine)
    x, w = RNG.standard_normal((1, 16, 6, 19)).astype("float32"), RNG.standard_normal((30, 16, 3, 3)).astype("float32")
    x[0, 0, 2, 5], x[0, 1, 4, 17] = np.nan, np.inf
    y = F.conv(tensor(x), tensor(w), padding=1)
    np.testing.assert_array_equal(np.isfinite(engine.values([y])[0]), np.isfinite(NumpyEngine().values([y])[0]))


def test_weight_gradients_of_transformed_patches(player: Any) -> None:
    engine = player(150000, 576)
    for case in (CASES[0], CASES[2], CASES[7], ((2, 21, 8, 7), (19, 21, 3, 3), 1, (1, 0), 1, 1),
                 ((40, 16, 13, 16), (33, 16, 3, 3), 1, 1, 1, 1)):
        xs, ws, _, padding, _, groups = case
        x, y = placeholder(xs), F.conv(placeholder(xs), placeholder(ws), padding=padding, groups=groups)
        with on(engine), overriding(("conv", ""), {"winograd_weights": 1e9}):
            stages = OPS["conv_weight_gradient"].launch(engine.device, (y, x), size=ws[2:], **y.attrs)
            assert [s.kernel for s in stages] == ["winograd4_gpu_weights", "conv_sum"]
            launched(case, "float32", engine)


# Images one below, at and one above whole tiles of 4 x 4; result rows of whole vectors, pairs and single elements;
# channels that lines do not divide.
@pytest.mark.parametrize("case", [
    ((7, 16, 8, 8), (24, 16, 3, 3), 1, 1, 1, 1),
    ((4, 24, 7, 9), (33, 24, 3, 3), 1, 1, 1, 1),
    ((5, 21, 9, 14), (19, 21, 3, 3), 1, (1, 0), 1, 1),
    ((7, 32, 5, 6), (48, 16, 3, 3), 1, 1, 1, 2),
    ((6, 16, 13, 16), (33, 16, 3, 3), 1, 1, 1, 1),
    ((30, 130, 6, 4), (66, 130, 3, 3), 1, (0, 1), 1, 1),
], ids=str)
@pytest.mark.parametrize("chunks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_products_of_transformed_patches(player: Any, case: Any, chunks: int) -> None:
    engine = player(65536, 256, real=0)
    xs, ws, _, padding, _, groups = case
    y = F.conv(placeholder(xs), placeholder(ws), padding=padding, groups=groups)
    tiles = -(-y.shape[2] // 4) * -(-y.shape[3] // 4) * -(-xs[0] // chunks)
    most = 144 * tiles * (-(-xs[1] // 4) * 4 + -(-ws[0] // 4) * 4)
    with overriding(("conv", ""), {"transform_bytes": 1e9, "transform_launch": -1e9, "transform_most": most}):
        products_of_transformed_patches(engine, case, chunks, most)


def products_of_transformed_patches(engine: Any, case: Any, chunks: int, most: int) -> None:
    xs, ws, _, padding, _, groups = case
    x, y = placeholder(xs), F.conv(placeholder(xs), placeholder(ws), padding=padding, groups=groups)
    calls = (("conv", y.inputs, {}, ("weight", "data", "result")),
             ("conv_data_gradient", (y, y.inputs[1]), {"size": xs[2:]}, ("weight", "data", "result")),
             ("conv_weight_gradient", (y, x), {"size": (3, 3)}, ("gradient", "data", "weights")))
    for name, operands, more, stages in calls:
        launches = OPS[name].launch(engine.device, operands, **y.attrs, **more)
        found = [s.kernel for s in launches]
        assert launches[0].scratch["turned_w"] <= most
        assert set(found) == {"matmul", *(f"transform_{s}" for s in stages)}
        assert found.count("matmul") == chunks or name == "conv_data_gradient"
    with on(engine):
        launched(case, "float32", engine)
    x, w = RNG.standard_normal(xs).astype("float32"), RNG.standard_normal(ws).astype("float32")
    x[0, 0, 2, 3], x[1, 1, 4, 1] = np.nan, np.inf
    y = F.conv(tensor(x), tensor(w), padding=padding, groups=groups)
    np.testing.assert_array_equal(np.isfinite(engine.values([y])[0]), np.isfinite(NumpyEngine().values([y])[0]))


def test_double_precision(gpu: Any) -> None:
    if not gpu.device.fp64:
        pytest.skip("the device has no doubles")
    with on(gpu):
        for case in (CASES[0], CASES[1], CASES[7]):
            launched(case, "float64", gpu)


def test_no_patches_are_stored(gpu: Any) -> None:
    x, w = placeholder((64, 64, 28, 28)), placeholder((64, 64, 3, 3))
    y = F.conv(x, w, padding=1)
    for name, operands, more in (("conv", (x, w), {}), ("conv_data_gradient", (y, w), {"size": (28, 28)}),
                                 ("conv_weight_gradient", (y, x), {"size": (3, 3)})):
        with overriding(("conv", ""), {"transform_launch": 1e12}):  # transformed, they are, within transform_most
            stages = OPS[name].launch(gpu.device, operands, **y.attrs, **more)
        assert 0 < max(sum(s.scratch.values()) for s in stages) < 4 * x.size  # patches would be nine times the data
