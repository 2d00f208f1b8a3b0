"""Ops of one's own on NumPy: their references, gradients, and what definitions and calls that cannot be are told."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet.core.op import OPS
from clnet.core.origin import ORIGINS, Origin, located
from clnet.engine.device.build_log import explain
from clnet.errors import ClnetError, ConfigError, DTypeError, ShapeError, UseError
from clnet.ops import custom
from clnet.ops.custom.expression import Formula
from clnet.ops.custom.prototype import read
from clnet.workbench.evidence import checks

X = np.linspace(-2, 2, 7).astype(np.float32)
AXPY = """
__kernel void axpy(__global const float* x, __global const float* y,
                   __global float* z, const float a, const uint n) {
    const size_t i = get_global_id(0);
    if (i < n) z[i] = a * x[i] + y[i];
}"""


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    with clnet.on("numpy"):
        yield
    for name in custom.defined():
        custom.remove(name)


def axpy(name: str = "my_axpy", source: Any = AXPY, **more: Any) -> Any:
    options: dict[str, Any] = dict(parameters={"a": 2.0, "n": lambda x: x.size}, global_size=lambda x: x.size,
                                   shapes="n, n -> n", gradient=lambda g, out, x, y, a: (a * g, g),
                                   reference=lambda x, y, a: a * x + y)
    return custom.kernel(name, source, **{**options, **more})


# --- expressions
@pytest.mark.parametrize(("text", "want"), [
    ("x * 2 - -x", lambda x: 3 * x), ("x > 0 && !(x > 1) ? x : 0.5f", lambda x: np.where((x > 0) & ~(x > 1), x, 0.5)),
    ("exp(-x) / (1 + exp(-x))", lambda x: 1 / (1 + np.exp(x))), ("1 / 2 * x + 1.0 / 2", lambda x: 0 * x + 0.5),
    ("fma(x, x, pow(fabs(x) + 1, 2))", lambda x: x * x + (np.abs(x) + 1) ** 2),
    ("x < -1 || x >= 1 ? (T)1 : (T)(2)", lambda x: np.where((x < -1) | (x >= 1), 1, 2)),
    ("clamp(x, -1.0f, 1e0) + native_exp(x) * M_PI_F", lambda x: np.clip(x, -1, 1) + np.exp(x) * np.pi),
    ("mix(x, 3, .5) - step(0, x)", lambda x: x + (3 - x) / 2 - (x >= 0)),
    ("atan2(x, 2) + hypot(x, 1) + log10(x * x + 1)",
     lambda x: np.arctan2(x, 2) + np.hypot(x, 1) + np.log10(x * x + 1))])
def test_expressions_mean_what_they_mean_in_c(text: str, want: Any) -> None:
    wide = X.astype(np.float64)
    (got,) = checks.oracle().values([Formula("f", text, ["x"])(x=clnet.tensor(wide)) + 0])
    np.testing.assert_allclose(got, want(wide), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("text", "message"), [
    ("x *", "got its end"), ("x + yy", "got 'yy'"), ("exq(x)", "did you mean 'exp'"),
    ("exp(x, x)", "2 arguments of exp"), ("x # 2", "got '#'"), ("x x", "got 'x'"), ("(x", "in place of")])
def test_expressions_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        Formula("f", text, ["x"])
    assert str(error.value).endswith("^")


# --- elementwise and reductions
def test_elementwise_runs_its_reference_and_has_the_gradient_that_was_stated() -> None:
    def sigmoid(x: Any, b: Any) -> Any:
        return 1 / (1 + np.exp(-b * x))

    shared: dict[str, Any] = dict(parameters={"b": 1.0}, reference=lambda x, b: x * sigmoid(x, b))
    by_rule = custom.elementwise("my_swish", "x / (1 + exp(-b * x))", gradient=True, **shared)
    slope = "g / (1 + exp(-b * x)) * (1 + b * x * (1 - 1 / (1 + exp(-b * x))))"
    by_text = custom.elementwise("my_swish2", "x / (1 + exp(-b * x))", gradient=slope, **shared)
    by_function = custom.elementwise(
        "my_swish3", "x / (1 + exp(-b * x))", **shared,
        gradient=lambda g, out, x, b: g * (b * out + clnet.ops.sigmoid(b * x) * (1 - b * out)))
    np.testing.assert_allclose(by_rule(X, b=2.0).numpy(), X * sigmoid(X, 2), rtol=1e-6)
    for op in (by_rule, by_text, by_function):
        result = checks.check_gradient(lambda x, op=op: op(x, 1.5), [X])
        assert result, (op, result)
    b = clnet.tensor(np.float32(1.5))
    assert clnet.gradients(clnet.ops.sum(by_rule(X, b)), [b])[0].numpy() != 0, "a parameter may be trained"
    with pytest.raises(ClnetError, match="gradient of my_swish2 with respect to b"):
        clnet.gradients(clnet.ops.sum(by_text(X, b)), [b])


def test_several_inputs_broadcast_and_state_their_gradients_by_name_or_in_order() -> None:
    a, b = np.ones((3, 1), np.float32) * 2, X[:4]
    for gradient in ({"x": "g * y", "y": "g * x"}, ["g * y", "g * x"], lambda g, out, x, y: (g * y, g * x)):
        product = custom.elementwise("my_product", "x * y", "x, y", gradient=gradient, reference=np.multiply)
        assert product(a, b).shape == (3, 4) and checks.check_gradient(product, [a, b])


def test_reductions_fold_any_axes() -> None:
    norm = custom.reduction("my_norm", "a + b", 0, map="x * x", finish="sqrt(a)", gradient="g * x / out",
                            reference=lambda x, axis: np.sqrt(np.sum(x * x, axis)))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1
    for axes in (None, 1, (0, 2)):
        got, keep = norm(x, axes), norm(x, axes=axes, keepdims=True)
        np.testing.assert_allclose(got.numpy(), np.sqrt(np.sum(x * x, axes)), rtol=1e-6)
        assert keep.shape == np.sum(x, axes, keepdims=True).shape
        assert checks.check_gradient(lambda x, axes=axes: norm(x, axes), [x])
    with pytest.raises(ShapeError, match="my_norm: expected distinct axes"):
        norm(x, axes=3)


def test_a_name_that_is_defined_again_replaces_the_old_op_and_lets_it_go() -> None:
    old = weakref.ref(custom.elementwise("my_op", "x + 1", reference=lambda x: x + 1))
    count = len(OPS)
    new = custom.elementwise("my_op", "x + 2", reference=lambda x: x + 2)
    assert len(OPS) == count and custom.defined() == {"my_op": new} and new(X).numpy()[0] == 0
    gc.collect()
    assert old() is None
    custom.reduction("my_op", "a + b", 0, map="x * x", reference=lambda x, axis: np.sum(x * x, axis))
    custom.remove("my_op")
    assert not [n for n in OPS if n.startswith("my_op")]
    with pytest.raises(ConfigError, match="the name of an op of one's own"):
        custom.remove("my_op")


@pytest.mark.parametrize(("make", "message"), [
    (lambda: custom.elementwise("swish", "x"), "no op of clnet has; got 'swish'; call it 'my_swish'"),
    (lambda: custom.elementwise("no name", "x"), "a name that Python can say"),
    (lambda: custom.elementwise("f", ""), "expected an expression in OpenCL C"),
    (lambda: custom.elementwise("f", "x", "x, y"), "got one without y"),
    (lambda: custom.elementwise("f", "g + x", "x, g"), "g is the cotangent"),
    (lambda: custom.elementwise("f", "x", "x", parameters={"x": 1}), "other than x"),
    (lambda: custom.elementwise("f", "x", gradient={"z": "g"}), "a gradient for each of x"),
    (lambda: custom.elementwise("f", "return x;", gradient=True), "to derive the gradient of"),
    (lambda: custom.elementwise("f", "x", accepts="text"), "expected accepts to be one of"),
    (lambda: custom.reduction("f", "a * 2", 0), "got one without b"),
    (lambda: custom.reduction("f", "a + b", 0, map="n", inputs="n"), "means something here")])
def test_definitions_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_calls_that_do_not_fit() -> None:
    op = custom.elementwise("f2", "x * y + a", "x, y", parameters={"a": 1.0}, reference=lambda x, y, a: x * y + a)
    for call, error, message in (
            (lambda: op(X), UseError, "missing a required argument: 'y'"),
            (lambda: op(X, X, aa=2), UseError, "did you mean 'a'"),
            (lambda: op(X, X[:3]), ShapeError, "do not broadcast"),
            (lambda: op(np.arange(3), np.arange(3)), DTypeError, "expected float dtypes")):
        with pytest.raises(error, match=message):
            call()  # type: ignore[no-untyped-call]
    bare = custom.elementwise("f3", "x + 1")
    with pytest.raises(ConfigError, match="f3: expected a reference to run on NumPy"):
        bare(X).numpy()
    with pytest.raises(ClnetError, match="gradient of f3 with respect to x"):
        clnet.gradients(clnet.ops.sum(bare(x := clnet.tensor(X))), [x])
    wrong = custom.elementwise("f4", "x + 1", reference=lambda x: x[:2])
    with pytest.raises(ShapeError, match="its reference to give shape"):
        wrong(X).numpy()


# --- kernels
def test_the_head_of_a_kernel_says_what_it_reads_and_writes() -> None:
    source = AXPY.replace("__global const float* x", "const __global float *restrict x /* , int q */")
    head = read("k", source + "\n__kernel void other(__global int* p) {}", "axpy")
    assert [(p.name, p.dtype, p.buffer, p.written) for p in head.parameters] == [
        ("x", "float32", True, False), ("y", "float32", True, False), ("z", "float32", True, True),
        ("a", "float32", False, False), ("n", "uint32", False, False)]
    assert "(PARAMS\n) { BEGIN" in head.text and head.text.count("\n") == source.count("\n") + 1


def test_a_kernel_runs_its_reference(tmp_path: Path) -> None:
    (tmp_path / "axpy.cl").write_text(AXPY)
    for op in (axpy(), axpy("from_file", tmp_path / "axpy.cl")):
        assert op(X, X).numpy().tolist() == (3 * X).tolist() and (op(X, X, a=0.5).numpy() == 1.5 * X).all()
        assert checks.check_gradient(op, [X, X + 1])
    both = custom.kernel("both", "__kernel void b(__global const T* x, __global T* s, __global T* p) {}",
                         {"s": lambda x: x.shape, "p": (2, 2)}, global_size=1,
                         reference=lambda x: (x + 1, np.full((2, 2), x.sum())),
                         gradient=lambda g, out, x: g[0] + clnet.ops.sum(g[1]))
    s, p = both(X)
    assert s.shape == (7,) and p.shape == (2, 2) and s.numpy()[0] == -1
    assert checks.check_gradient(lambda x: clnet.ops.sum(both(x)[0] * 3) + clnet.ops.sum(both(x)[1]), [X])


@pytest.mark.parametrize(("make", "message"), [
    (lambda: axpy(source="__kernel int f() {}"), "one __kernel void function"),
    (lambda: axpy(source="axpy.cl"), "pass pathlib.Path"),
    (lambda: axpy(source=Path("nowhere.cl")), "a file of OpenCL C"),
    (lambda: axpy(parameters={"a": 1.0}), "expected parameters= to say what n is"),
    (lambda: axpy(parameters={"a": 1.0, "n": 1, "m": 1}), "parameters that the kernel takes"),
    (lambda: axpy(source="__kernel void f(__global const float* x) {}", parameters={}), "writes to a `__global`"),
    (lambda: axpy(source="__kernel void f(__global const float* x, __local float* z) {}"), "declare local memory"),
    (lambda: axpy(source="__kernel void f(__global const image* x) {}"), "types are float"),
    (lambda: axpy(shapes=""), "expected outputs to be the shapes of z"),
    (lambda: axpy(tune={"GROUP": ()}), "expected tune to name values"),
    (lambda: axpy(dtypes={"x": "int32"}), "dtypes that the kernel's C types store")])
def test_kernels_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_calls_of_kernels_that_do_not_fit() -> None:
    op = axpy()
    for call, error, message in (
            (lambda: op(X), UseError, "missing a required argument: 'y'"),
            (lambda: op(X, X, n=3), UseError, "unexpected keyword argument 'n'"),
            (lambda: op(X, X, a="two"), DTypeError, "my_axpy, a: expected a number"),
            (lambda: op(X, X[:3]), ShapeError, "axis 'n' is 7 in x"),
            (lambda: op(X.astype(int), X), DTypeError, r"expected x of float32; got int64\[7\]; cast it"),
            (lambda: axpy(global_size=lambda w: w.size)(X, X), ConfigError, "function of some of x, y"),
            (lambda: axpy(global_size=lambda x: x.shape[4])(X, X), ShapeError, "that its global_size is defined"),
            (lambda: axpy(global_size=0)(X, X), ConfigError, "one to three numbers of at least 1"),
            (lambda: axpy(local_size=4)(X, X), ConfigError, "local_size to divide global_size")):
        with pytest.raises(error, match=message):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(ConfigError, match="expected tunables and an OpenCL device"):
        op.tune(X, X)


# --- where errors are
def test_errors_of_the_compiler_are_shown_where_they_were_written() -> None:
    op = custom.elementwise("my_slip", """x +
        expp(x)""")
    assert op.origin is not None
    program = f"float f(float x) {{ return (\n{op.origin.marked(op.origin.text.replace('x', 'g_1'))}\n); }}"
    line = program.split("\n").index("        eg_1pp(g_1)") + 1
    found = located(program, line, 9)
    assert found is not None and (found.line, found.text) == (2, "        expp(x)") and found.column == 9
    assert located(program, 1, 1) is None and located(program, len(program.split("\n")), 1) is None
    message = explain("map", program, [], f"1:{line}:9: error: use of undeclared identifier 'expp'")
    here = next(k for k, text in enumerate(Path(__file__).read_text().split("\n"), 1) if text.endswith('expp(x)""")'))
    assert message.split("\n") == [
        f"my_slip: expected OpenCL C that builds; got a compiler error in {__file__}:{here}: "
        "use of undeclared identifier 'expp'", "            expp(x)", "            ^"]
    cell = Origin("f", "a\nb", "cell In[3]", 2)
    assert cell.place(2) == "cell In[3], line 3" and Origin("f", "a").place(1) == "line 1 of its source"
    mark = cell.mark
    del cell
    gc.collect()
    assert mark not in ORIGINS
