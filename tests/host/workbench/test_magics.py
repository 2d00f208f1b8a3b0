"""%load_ext clnet: %%opencl, %%clprofile and %clbench, as a shell runs them; on NumPy, which compiles nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import clnet
from clnet.ops import custom


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    found = InteractiveShell()
    with clnet.on("numpy"):
        found.run_cell("%load_ext clnet\nimport numpy as np, clnet\na = np.arange(6, dtype=np.float32)")
        yield found
        found.run_cell("%unload_ext clnet")
    assert found.find_cell_magic("opencl") is None
    for name in custom.defined():
        custom.remove(name)


def ran(shell: Any, cell: str) -> Any:
    result = shell.run_cell(cell)
    assert result.success, result.error_in_exec or result.error_before_exec
    return result.result


def test_a_cell_becomes_an_op_with_what_is_found_under_it(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ran(shell, '%%opencl my_half -p b=2.0 -r "lambda x, b: x / b" -d "g / b" -x "(3, 4)" --no-roof\nx / b')
    out = capsys.readouterr().out
    assert "my_half on numpy" in out and "parity" in out and "NO" not in out
    assert ran(shell, "my_half(a, b=4.0).numpy()[2]") == 0.5
    ran(shell, '%%opencl my_scale -p a=3.0 -r "lambda x, a: a * x" -d "lambda g, out, x, a: a * g" -x a --no-roof\n'
               "__kernel void s(__global const float* x, __global float* y, const float a) {\n"
               "    y[get_global_id(0)] = a * x[get_global_id(0)];\n}")
    out = capsys.readouterr().out
    assert "gradient       yes" in out and ran(shell, "my_scale(a).numpy()[2]") == 6
    op = shell.user_ns["my_scale"]
    assert op.origin.place(2).startswith("cell In[") and op.origin.place(2).endswith("line 3")


def test_a_cell_without_a_reference_says_so_once(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ran(shell, "%%opencl my_bare --no-roof\nx + 1")
    out = capsys.readouterr().out
    assert out.count("expected a reference to run on NumPy") == 1 and "as parity" in out


def test_an_op_without_a_gradient_is_right_by_its_values(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ran(shell, '%%opencl my_double -r "lambda x: 2 * x" --no-roof\n2 * x')
    ran(shell, '%%opencl my_double_kernel -r "lambda x: 2 * x" -x "(3, 4)" --no-roof\n'
               "__kernel void d(__global const float* x, __global float* y) {\n"
               "    y[get_global_id(0)] = 2 * x[get_global_id(0)];\n}")
    out = capsys.readouterr().out
    assert out.count("not differentiable") == out.count("extremes       yes") == 2 and "NO" not in out


def test_an_op_knows_the_number_beside_its_cell(shell: Any) -> None:
    assert shell.run_cell("%%opencl my_numbered --no-roof\nx + 2", store_history=True).success
    assert shell.user_ns["my_numbered"].origin.place(0).startswith(f"cell In[{len(shell.user_ns['In']) - 1}]")


@pytest.mark.parametrize(("cell", "message"), [
    ("%%opencl f -x nothing\nx", "got 'nothing': NameError: name 'nothing' is not"), ("%%opencl\nx", "required: name"),
    ("%%opencl f -p b\nx * b", "expected NAME=VALUE"),
    ("%%opencl relu\nx", "no op of clnet has; got 'relu'"), ("%clbench", "expected a statement")])
def test_lines_that_cannot_be(shell: Any, capsys: pytest.CaptureFixture[str], cell: str, message: str) -> None:
    result = shell.run_cell(cell)
    said = capsys.readouterr()
    assert not result.success and message in f"{result.error_in_exec}{said.out}{said.err}"


def test_statements_are_timed_in_turn(shell: Any) -> None:
    found = ran(shell, '%clbench -r 2 -a numpy -v "np.tanh(a)" clnet.ops.tanh(clnet.tensor(a))')
    assert [len(s) for _, s in found.samples] == [2, 2, 2] and found.samples[2][0] == "np.tanh(a)"
    assert "times the first" in str(found) and "1.00" in str(found)


def test_profiles_show_what_ran(shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(shell, "%%clprofile\nprint(clnet.ops.exp(clnet.tensor(a)).numpy()[0])")
    out = capsys.readouterr().out
    assert "1.0" in out and "No kernel was launched" in out
    ran(shell, f"%%clprofile --trace {tmp_path / 'step.json'}\nclnet.ops.exp(clnet.tensor(a)).numpy()")
    assert "traceEvents" in (tmp_path / "step.json").read_text() and "trace: " in capsys.readouterr().out
