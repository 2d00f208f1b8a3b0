"""Ops of one's own on a device: they fuse, are recorded, replaced, tuned, checked; errors point at their lines."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.engine.record import Recorded
from clnet.errors import ConfigError, KernelBuildError
from clnet.ops import custom
from clnet.workbench.check import check

SCALE = """
__kernel void scale(__global const float* x, __global float* y, const float a, const uint n) {
    const size_t i = get_global_id(0);
    if (i < n) y[i] = STEP * a * x[i];
}"""


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    yield
    for name in custom.defined():
        custom.remove(name)


def scale(**more: Any) -> Any:
    options: dict[str, Any] = dict(
        parameters={"a": 2.0, "n": lambda x: x.size}, global_size=lambda n: -(-n // 8) * 8, macros={"STEP": 1},
        gradient=lambda g, out, x, a: g * a, reference=lambda x, a: a * x)
    return custom.kernel("my_scale", SCALE, lambda x: x.shape, **{**options, **more})


def test_own_ops_fuse_run_and_are_replaced(engine: Any) -> None:
    x = np.linspace(-3, 3, 37).astype(np.float32)
    own = custom.elementwise("my_own", "x > 0 ? x * b : .5 * x - 1e-3", parameters={"b": 2.0}, gradient=True,
                             reference=lambda x, b: np.where(x > 0, b * x, x / 2 - 1e-3))
    most = custom.reduction("my_most", "fmax(a, b)", "-INFINITY", map="fabs(x)",
                            reference=lambda x, axis: np.abs(x).max(axis))
    kernel, t = scale(), clnet.tensor(x)
    y = most(own(kernel(t * 3, a=0.5)) + 1)  # the kernel reads memory; all that follows is one fold
    assert [ops[0] for _, ops in clnet.explain(y).launches] == ["mul", "my_scale", "my_most.fold"]
    np.testing.assert_allclose(y.numpy(), np.abs(np.where(x > 0, 3 * x, 0.75 * x - 1e-3) + 1).max(), rtol=1e-6)
    assert [ops[0] for _, ops in clnet.explain(own(t) * 2).launches] == ["mul"]
    plans, old = len(engine.plans), weakref.ref(own)
    del own, y
    again = custom.elementwise("my_own", "x + b", parameters={"b": 2.0}, reference=lambda x, b: x + b)
    gc.collect()
    assert old() is None and len(engine.plans) < plans, "plans of what was replaced are let go"
    np.testing.assert_array_equal(again(t).numpy(), x + 2)


def test_programs_of_gpus_have_the_functions_that_they_call(engine: Any, as_gpu: Any) -> None:
    if not engine.compiles:
        pytest.skip("NumPy writes no programs")
    most = custom.reduction("my_most", "fmax(a, b)", "-INFINITY", map="fabs(x)")
    with clnet.on(as_gpu(engine)) as gpu:
        for axes in (0, 1):
            x = clnet.tensor(np.zeros((1000, 64), np.float32)).reshape((64, 1000) if axes else (1000, 64))
            for launch in gpu.plan_for([most(x, axes=axes)])[0].launches:
                called = set(re.findall(r"\bg_my_most_\w+", launch.text))
                assert called and all(re.search(rf"inline \w+ {name}\(", launch.text) for name in called), launch.name


def test_a_recorded_kernel_takes_other_shapes_and_what_tune_found(engine: Any) -> None:
    op = scale(macros={}, tune={"STEP": (1, 2, "nothing")})
    step = Recorded(lambda x: op(x, a=0.5) + 1, "step")
    for n in (5, 9, 12):
        np.testing.assert_array_equal(step(np.ones(n, np.float32)).numpy(), np.full(n, 1.5, np.float32))
    if not engine.compiles:
        with pytest.raises(ConfigError, match="expected tunables and an OpenCL device"):
            op.tune(np.ones(8, np.float32))
        return
    found = op.tune(np.ones(8, np.float32))
    assert found.kept == {"STEP": 1} and "gives other values than the first" in str(found)
    assert "undeclared" in found.rows[2][2] and op(np.ones(2, np.float32)).numpy().tolist() == [2, 2]


def test_check_says_what_holds_and_what_does_not(engine: Any) -> None:
    right = check(scale(), (40,), roofs=False, show=False)
    assert right and {f.aspect: f.verdict for f in right.findings} == {
        "parity": "yes", "gradient": "yes", "extremes": "yes", "range": "yes", "deterministic": "yes",
        "recorded": "yes", "resident": "yes", "launches": "yes" if engine.compiles else "n/a",
        "time": "yes" if engine.compiles else "n/a"}
    assert "1 forward (scale)" in right["launches"].found or not engine.compiles
    wrong = check(scale(gradient=lambda g, out, x, a: g), (40,), roofs=False, show=False)
    assert not wrong and wrong["gradient"].verdict == "no" and wrong["parity"].verdict == "yes"
    if engine.compiles:
        off = check(scale(reference=lambda x, a: a * x + 1), (40,), roofs=False, show=False)
        assert off["parity"].verdict == "no" and "my_scale" in str(off) and "<table" in off._repr_html_()


def test_errors_of_the_compiler_point_at_what_was_written(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("NumPy compiles nothing")
    slip = custom.kernel("my_slip", SCALE.replace("x[i]", "xx[i]"), lambda x: x.shape, parameters={"a": 1.0, "n": 1},
                         global_size=8, macros={"STEP": 1})
    with pytest.raises(KernelBuildError, match=r"my_slip: expected OpenCL C that builds.*line 4.*\n.*xx\[i\]\;\n +\^"):
        slip(np.ones(8, np.float32)).numpy()
