"""The shape of the house: who may import whom, who may touch OpenCL, how long and how vague things may get."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses ask for the module that they are declared in
    spec.loader.exec_module(module)
    return module


count = _load(ROOT / "tests" / "house.py")
HOUSE = count.House(ROOT)
KERNELS = sorted((ROOT / "cl_kernels").rglob("*.cl"))

# Floors, the lowest first; a floor may have rooms. A module imports from its own room and from floors below, inside
# functions too; of several names that fit a module the longest counts. `clnet` is what `import clnet` runs.
FLOORS: list[list[list[str]]] = [
    [["habits", "called"], ["show"], ["picture"], ["documented"], ["collector"]],
    [["tracebacks"], ["curves"]],
    [["errors"]],
    [["names"]],
    [["core"]],
    # what kernels and the engine have in common: arithmetic of indices, C's types, folders
    [["engine.compile.index"], ["engine.compile.c_types"], ["engine.device.folders"]],
    [["kernels"]],
    [["engine.compile"], ["engine.active"], ["ops"]],
    [["engine.device"]],
    [["engine"]],
    [["clnet"], ["init"], ["config"]],
    [["facade"], ["layers"], ["optimizers"]],
    [["losses"]],
    [["metrics"]],
    [["model"]],
    [["models"], ["augment"]],
    [["train"]],
    [["interpret"], ["data"]],
    [["workbench"], ["sklearn"]],
    [["options"]],
    [["commands"]],
    [["cli"]],
    [["__main__"]],
]
PLACES = {room: (floor, k) for floor, rooms in enumerate(FLOORS) for k, names in enumerate(rooms) for room in names}

# Imports that may stand inside a function, and why.
LAZY = {
    "clnet.commands": "a command starts with what it needs alone",
    "clnet.engine": "`import clnet` looks for no device and loads no OpenCL",
    "clnet.engine.device.programs": "programs that are on disk need nothing that compiles or reads a compiler's log",
    "clnet.engine.opencl": "a process whose plans all come from disk loads no planner",
    "clnet.errors": "only notebooks ask for tracebacks",
    "clnet.model.network": "training needs no summaries, pictures and files of others",
}


def place(name: str) -> tuple[int, int]:
    """(floor, room) of a module."""
    parts = name.split(".")[1:] or ["clnet"]
    return next(PLACES[room] for k in range(len(parts), 0, -1) if (room := ".".join(parts[:k])) in PLACES)


def own() -> list[count.Import]:  # type: ignore[name-defined]
    """The imports of modules of clnet by modules of clnet."""
    return [i for i in HOUSE.imports if i.target in HOUSE.names]


def of(*packages: str) -> list[str]:
    """The modules of some packages."""
    return [n for n in HOUSE.names if any(n == p or n.startswith(f"{p}.") for p in packages)]


def test_no_circle_of_imports() -> None:
    assert HOUSE.circles() == [], "modules that import each other; `python tests/house.py` shows where it is tied"


def test_imports_go_down() -> None:
    up = [str(i) for i in own() if (a := place(i.source)) != (b := place(i.target)) and a[0] <= b[0]]
    assert up == []


def test_imports_inside_functions_are_those_with_a_reason() -> None:
    assert [str(i) for i in own() if i.inside and i.source not in LAZY] == []
    assert [name for name in LAZY if not any(i.inside and i.source == name for i in own())] == [], "no longer lazy"


def test_no_module_is_named_like_one_of_the_standard_library() -> None:
    assert [n for n in HOUSE.names if n.rpartition(".")[2] in sys.stdlib_module_names] == []


def test_only_the_engine_touches_opencl() -> None:
    touching = {i.source for i in HOUSE.imports if i.target.partition(".")[0] == "pyopencl"}
    assert touching <= set(of("clnet.engine"))


def test_layers_losses_and_optimizers_know_no_engine() -> None:
    formulas = of("clnet.layers", "clnet.losses", "clnet.optimizers")
    assert [str(i) for i in own() if i.source in formulas and i.target.startswith("clnet.engine")] == []


def test_parameters_have_types() -> None:
    vague = HOUSE.any_parameters()
    assert len(vague) < 0.08 * sum(1 for _ in HOUSE.parameters())


def test_things_say_what_they_are() -> None:
    assert len(HOUSE.calls("hasattr")) <= 10, "a class, a Protocol or an attribute says it; hasattr guesses"


def test_lines_are_narrow() -> None:
    assert HOUSE.wide() == []


@pytest.mark.parametrize("path", [*HOUSE.paths, *KERNELS], ids=lambda p: str(p.relative_to(ROOT)))
def test_small_or_split(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= 400
    if path.suffix == ".py":
        for node in ast.walk(HOUSE.trees[path]):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = node.end_lineno - body[0].lineno + 1 if body and node.end_lineno else 0
                assert lines <= 40, f"{node.name} has {lines} lines"


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: str(p.relative_to(ROOT)))
def test_kernels_open_with_prose_and_index_in_size_t(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("//"), "a kernel file starts with its formula, layout and grid"
    assert not re.search(r"\bint\s+\w+\s*=\s*get_(global|group)_id", text), "indices are size_t"


def test_kernels_ask_devices_for_facts_not_for_kinds() -> None:
    asked = re.compile(r"\.kind [!=]= \"(cpu|gpu)|\.runtime [!=]=")
    for part in ("clnet.kernels", "clnet.engine.compile", "clnet.workbench.tune"):
        modules = of(part)
        assert modules, f"no {part}"
        assert [n for n in modules if asked.search(HOUSE.text[HOUSE.names[n]])] == []


def test_no_loading_of_code() -> None:
    for path, tree in HOUSE.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), path
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant) and node.value.value is False, path
    loading = {"pickle", "dill", "joblib", "yaml"}
    assert [str(i) for i in HOUSE.imports if i.target.partition(".")[0] in loading] == []


def test_the_page_on_kernels_names_every_file() -> None:
    page = (ROOT / "cl_kernels" / "README.md").read_text("utf-8")
    assert [f.name for f in sorted((ROOT / "cl_kernels").glob("*.cl")) if f"`{f.name}`" not in page] == []


def test_the_counts_find_what_they_look_for(tmp_path: Path) -> None:
    folder = tmp_path / "clnet"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("from typing import Any\nfrom . import b\ndef f(x: Any, y: int): hasattr(x, 'y')\n")
    (folder / "b.py").write_text("def g():\n    from .a import f\n    return f\n" + "#" * 121 + "\n")
    (folder / "c.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import d\n")
    (folder / "d.py").write_text("from . import c\n" + "\n".join(f"v{k} = {k}" for k in range(7)))
    (folder / "e.py").write_text("\n".join(f"v{k} = {k}" for k in range(7)))
    house = count.House(tmp_path)
    assert house.circles() == [["clnet.a", "clnet.b"]], "through a function, but not for type checkers"
    assert [str(i) for i in house.imports if i.inside] == ["clnet.b:2 imports clnet.a inside a function"]
    assert house.any_parameters() == [("clnet.a", "x")] and len(list(house.parameters())) == 2
    assert house.calls("hasattr") == ["clnet.a:3"] and house.wide() == ["clnet.b:4"]
    assert house.copies() == ["clnet.d:2 ~ clnet.e:1 (7 lines)"]
