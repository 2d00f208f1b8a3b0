"""The row kernels and elementwise kernels of GPUs, on whatever device: rows in registers, rows too long for them,
vectors, places between vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.autodiff import gradients
from clnet.core.op import OPS, Kernel
from clnet.core.tensor import Tensor, tensor
from clnet.engine.reference import NumpyEngine
from clnet.kernels.rows.normalize_gpu import FILE
from clnet.workbench.evidence import checks
from clnet.workbench.evidence.cases import cases

ROW_OPS = sorted(name for name, op in OPS.items() if isinstance(op, Kernel) and op.cl == "normalize.cl")
rng = np.random.default_rng(11)


@pytest.fixture
def gpu(engine: Any, as_gpu: Any) -> Any:
    if engine.device.is_host:
        pytest.skip("the host engine has no kernels")
    profile = engine.device
    return engine if profile.kind == "gpu" else as_gpu(engine)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape, np.float32)


def same(gpu: Any, outputs: list[Tensor], tol: float = 2e-5) -> None:
    for mine, oracle in zip(gpu.values(outputs), NumpyEngine().values(outputs), strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=tol, atol=tol)


@pytest.mark.parametrize("name", ROW_OPS)
def test_row_kernels_have_the_formulas_values(name: str, gpu: Any) -> None:
    every = cases(OPS[name])
    assert every
    for case in every:
        result = checks.parity(OPS[name], case, gpu)
        assert result, str(result)


@pytest.mark.parametrize("rows, n", [(12, 1024), (7, 516), (4, 130), (70, 12), (301, 5), (3, 9000), (2, 9002)])
def test_rows_that_fill_and_exceed_the_registers(rows: int, n: int, gpu: Any) -> None:
    x, g, gamma, beta = (tensor(a) for a in (normal(rows, n), normal(rows, n), normal(n), normal(n)))
    soft, layer, rms = F.softmax(x), F.layer_norm(x, gamma, beta), F.rms_norm(x, gamma)
    same(gpu, [soft, layer, rms, F.log_softmax(x), *gradients(soft, [x], g)], 1e-4)
    same(gpu, [*gradients(layer, [x, gamma, beta], g), *gradients(rms, [x, gamma], g)], 1e-4)


def test_the_gpu_file_is_what_runs(gpu: Any) -> None:
    launch = OPS["softmax"].launch
    assert launch is not None
    (stage,) = launch(gpu.device, [tensor(normal(64, 48))], axis=-1)
    assert stage.file == FILE and stage.lanes == 4 and stage.group == (4, 64)


def test_operands_that_begin_between_vectors(gpu: Any) -> None:
    whole = tensor(normal(6 * 64 + 3))
    x = F.reshape(whole[3:], (6, 64))
    same(gpu, [F.softmax(x), F.layer_norm(x, tensor(normal(64)), whole[1:65])])


def test_labels_to_ignore_share_no_group(gpu: Any) -> None:
    rows = np.arange(40)
    x, labels = tensor(normal(40, 20)), tensor(np.where(rows % 3 == 0, -100, rows % 20).astype(np.int64))
    loss = F.sum(F.cross_entropy(x, labels, ignore_index=-100))
    same(gpu, [loss, *gradients(loss, [x])])


def test_elementwise_vectors_of_four(gpu: Any) -> None:
    """Fused loads of every form: whole, shifted by no multiple of 4,
    broadcast over columns and rows, padded, narrow types.
    """
    n = max(64, 4 * gpu.device.compute_units)
    x, row, column, long = (tensor(normal(*shape)) for shape in ((n, 1024), (1024,), (n, 1), (n * 1024 + 1,)))
    half = tensor(normal(n, 1024).astype(np.float16))
    assert n * 1024 >= 4 * 256 * gpu.device.compute_units
    same(gpu, [F.gelu(x * row + column), x + F.reshape(long[1:], (n, 1024)), x + F.reshape(long[:-1], (n, 1024))])
    same(gpu, [half * half], 1e-3)
    same(gpu, [F.pad(x[:, 3:], (0, 1), (0, 2)) * x, x > row, F.transpose(x) * 2.0, F.concat([x, x * 2.0], 0) + 1.0])
