"""The shape of the house: who may import whom, who may touch OpenCL, how long things may get."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "clnet").rglob("*.py"))
KERNELS = sorted((ROOT / "cl_kernels").rglob("*.cl"))

# Later layers may import earlier ones. The engine is reached through its protocol from everywhere (and by name in `state`'s users).
ORDER = [["arguments", "arrays", "habits", "names", "spec", "errors", "precision", "show", "tracebacks", "values", "weak"], ["op"],
         ["autocast", "tensor", "autodiff"], ["ops", "state", "init", "config"],
         ["layers", "losses", "optimizers", "facade"], ["model"],
         ["train"], ["workbench", "commands", "cli", "doctor", "__main__"]]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}


def package(path: Path) -> str:
    """The first name below clnet/ that a file belongs to; model_io and summary count as model."""
    name = path.relative_to(ROOT / "clnet").parts[0].removesuffix(".py")
    return "model" if name in ("model_io", "summary", "graph_model", "network", "dialects") else "config" if name in ("schema", "calls") else name


def imports(path: Path) -> list[tuple[str, bool]]:
    """(top-level clnet name or other package, imported at module level) of every import."""
    tree = ast.parse(path.read_text())
    top = {id(n) for n in tree.body}
    depth = len(path.relative_to(ROOT).parts) - 1
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*path.relative_to(ROOT).parts[: depth - node.level + 1], *(node.module or "").split(".")]
            names = [base[1]] if len(base) > 1 and base[1] else [a.name for a in node.names]
            found += [(f"clnet.{n}", id(node) in top) for n in names if n]
        elif isinstance(node, ast.ImportFrom):
            found.append((".".join((node.module or "").split(".")[:2]), id(node) in top))
        elif isinstance(node, ast.Import):
            found += [(".".join(a.name.split(".")[:2]), id(node) in top) for a in node.names]
    return found


@pytest.mark.parametrize("path", [p for p in SOURCES if package(p) in LEVEL], ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path):
    mine = LEVEL[package(path)]
    for name, at_top in imports(path):
        other = package(ROOT / "clnet" / name.removeprefix("clnet.")) if name.startswith("clnet.") else ""
        if at_top and other in LEVEL:
            assert LEVEL[other] <= mine, f"{path.name} imports {name} at module level"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_the_engine_touches_opencl(path):
    if package(path) != "engine":
        assert not any(name.split(".")[0] == "pyopencl" for name, _ in imports(path))


@pytest.mark.parametrize("path", [p for p in SOURCES if package(p) in ("layers", "losses")], ids=lambda p: str(p.relative_to(ROOT)))
def test_layers_and_losses_know_no_engine(path):
    assert not any(name == "clnet.engine" for name, _ in imports(path))


@pytest.mark.parametrize("path", [*SOURCES, *KERNELS], ids=lambda p: str(p.relative_to(ROOT)))
def test_small_or_split(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = node.end_lineno - body[0].lineno + 1 if body and node.end_lineno else 0
                assert lines <= 40, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: str(p.relative_to(ROOT)))
def test_kernels_open_with_prose_and_index_in_size_t(path):
    text = path.read_text()
    assert text.startswith("//"), "a kernel file starts with its formula, layout and grid"
    assert not re.search(r"\bint\s+\w+\s*=\s*get_(global|group)_id", text), "indices are size_t"


def test_no_loading_of_code():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant) and node.value.value is False, path
        assert not any(name in ("pickle", "dill", "joblib", "yaml") for name, _ in imports(path)), path


def test_the_page_on_kernels_names_every_file() -> None:
    page = (ROOT / "cl_kernels" / "README.md").read_text("utf-8")
    assert [f.name for f in sorted((ROOT / "cl_kernels").glob("*.cl")) if f"`{f.name}`" not in page] == []
