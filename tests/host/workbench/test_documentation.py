"""The documentation: links lead somewhere, everything public stands in the reference, the environment's table is whole,
code and examples run.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clnet
from clnet.engine import on
from clnet.names import OFFERED, PACKAGES, public
from clnet.workbench import doctor
from clnet.workbench.evidence import registry, usage

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "docs" / "site"))
build, flowchart, prose, reference = map(importlib.import_module, ("build", "flowchart", "prose", "reference"))

QUICK = ("start.md", "data.md", "training.md")  # on NumPy; tests/device/workbench/test_pages.py runs the others
WITHOUT = {  # what takes functions or layers of the user's, or ends where it is called
    "op": {"activation", "checkpoint", "expect_indices", "recur", "scan"},
    "layer": {"Graph", "MeshPool", "Sequential"}, "loss": {"PhysicsInformedLoss"},
}


@pytest.mark.parametrize("page", prose.PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert prose.broken(page) == []


def test_every_page_is_in_the_navigation() -> None:
    assert {p.stem for p in (ROOT / "docs").glob("*.md")} <= {*build.GUIDES, *build.INSIDE}
    made = {"commands", *(Path(v).stem for v in build.FIXED.values())}
    assert {*build.GUIDES, *build.INSIDE} <= {p.stem for p in (ROOT / "docs").glob("*.md")} | made


def test_everything_public_is_in_the_reference_and_documented() -> None:
    pages = reference.modules()
    listed = {n for m in pages for n in reference.names(m)}
    offered = {n for package in {*PACKAGES.values(), *OFFERED} - {"clnet.workbench"} for n in public(package)
               if not inspect.ismodule(getattr(reference.module(package), n)) and not n.startswith("__")}
    assert len(offered) > 500
    assert offered - listed == set()
    things = {f"{m}.{n}": getattr(reference.module(m), n) for m in pages for n in reference.names(m)}
    assert [name for name, thing in things.items() if callable(thing) and not reference._doc(thing)] == []


def test_a_page_of_the_reference_has_signature_formula_and_example() -> None:
    page = reference.page("clnet.losses")
    entry = page[page.index("## `MSELoss`") :]
    assert entry.index("clnet.losses.MSELoss(reduction") < entry.index("Arguments:") < entry.index(">>> loss(")


def test_the_table_of_the_environment_is_whole() -> None:
    read = {name for path in (ROOT / "clnet").rglob("*.py")
            for name in re.findall(r"CLNET_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8"))}
    table = set(re.findall(r"^\| `(CLNET_\w+)`", (ROOT / "docs" / "runtimes.md").read_text(encoding="utf-8"), re.M))
    assert table == read
    assert table - {"CLNET_DEBUG"} <= set(doctor.VARIABLES)


def test_links_between_pages_are_turned() -> None:
    known = build.published()
    text, pictures = build.relinked("[a](docs/graphs.md#a-graph) ![b](reports/training-on-digits-accuracy.png) "
                                    "[code](clnet/cli.py) [gone](docs/gone.md)", "README.md", known)
    assert text.split() == ["[a](graphs.md#a-graph)", "![b](reports/training-on-digits-accuracy.png)", "code",
                            "[gone](docs/gone.md)"]
    assert pictures == {"reports/training-on-digits-accuracy.png"}


def test_the_flowchart_is_drawn_without_a_script() -> None:
    chart = re.search(r"```mermaid\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.S)
    assert chart is not None
    labels, edges = flowchart.parsed(chart[1])
    drawn = flowchart.svg(chart[1])
    assert drawn.count("<rect") == len(labels) == len(set(re.findall(r"(\w+)\[", chart[1]))) > 10
    assert drawn.count("marker-end") == len(edges) == chart[1].count("->") > 10
    assert all(label.split()[0] in drawn for label in labels.values())
    with pytest.raises(ValueError, match="expected nodes and arrows"):
        flowchart.svg("flowchart TB\n a ==> b")


@pytest.mark.parametrize("name", QUICK)
def test_code_of_a_page_runs(name: str) -> None:
    with on("numpy"):
        prose.run(ROOT / "docs" / name)


# --- examples in docstrings
def every() -> list[tuple[str, str]]:
    """(kind, name) of what should have an example."""
    known = {"layer": clnet.layers.Layer, "loss": clnet.losses.Loss, "optimizer": clnet.optimizers.Optimizer}
    ops = [n for n in public("clnet.ops") if callable(getattr(clnet.ops, n))]
    return [*(("op", n) for n in ops), *((k, n) for k, base in known.items() for n in base.registry
                                         if n in usage.PUBLIC[k])]


def run(kind: str, name: str) -> str:
    """What goes wrong when an example is typed; "" where nothing does."""
    text, said = usage.usage(kind, name), list[str]()
    test = doctest.DocTestParser().get_doctest(text, {"clnet": clnet}, name, None, 0)
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "" if result.attempted and not result.failed else f"{kind} {name}: {''.join(said) or 'no example'}"


def test_examples_run() -> None:
    registry.load_all()
    subjects = [(k, n) for k, n in every() if n not in WITHOUT.get(k, ())]
    assert len(subjects) > 380
    assert [f"{k} {n}" for k, n in subjects if not usage.usage(k, n)] == []
    with on("numpy"):
        assert [found for k, n in subjects[::7] if (found := run(k, n))] == []


@pytest.mark.slow
def test_all_examples_run() -> None:
    with on("numpy"):
        assert [found for k, n in every() if n not in WITHOUT.get(k, ()) and (found := run(k, n))] == []


@pytest.mark.parametrize("thing", [clnet.ops.relu, clnet.ops.softmax, clnet.layers.Dense, clnet.losses.MSELoss,
                                   clnet.optimizers.Adam])
def test_help_shows_formula_then_an_example(thing: Any) -> None:
    text = inspect.getdoc(thing) or ""
    formula, example = text.splitlines()[0], text.index("Example:\n    >>> ")
    assert formula and text.find("Arguments:", 0, example) >= 0 or not isinstance(thing, type)


# --- the site
@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere() -> None:
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "site" / "build.py")], cwd=ROOT, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "site" / "reference" / "clnet.ops.html").exists()
