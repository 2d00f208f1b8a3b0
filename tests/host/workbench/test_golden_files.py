"""The files of independent values: part of the package, small, made one at a time and only where they change."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.workbench.evidence import golden, registry

MAKERS = Path(__file__).resolve().parents[2] / "golden"


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module beside the makers."""
    monkeypatch.syspath_prepend(str(MAKERS))
    return importlib.import_module


def test_every_file_is_of_something_small_and_says_its_source() -> None:
    have = {(s.kind, s.name) for s in registry.subjects()}
    files = [(kind, name) for kind in ("op", "layer", "loss", "optimizer") for name in golden.names(kind)]
    assert len(files) > 300 and not set(files) - have, "values of nothing"
    sizes = [golden.path(*file).stat().st_size for file in files]
    assert max(sizes) < 350_000 and sum(sizes) < 6_000_000, "the package carries them: make the examples smaller"
    assert all(str(golden.read(*file)["source"]) for file in files)
    assert {p.suffix for p in golden.HERE.rglob("*") if p.is_file() and "__pycache__" not in p.parts} == {".npz", ".py"}


def test_the_same_values_are_not_written_again(maker: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(golden, "HERE", tmp_path)
    files = maker("files")
    kept = {"0.out.0": np.array([np.nan, -0.0]), "source": np.array("a library")}
    assert files.write("op", "some", kept) and not files.write("op", "some", dict(kept))
    stamp = golden.path("op", "some").read_bytes()
    assert not files.write("op", "some", {**kept}) and golden.path("op", "some").read_bytes() == stamp
    for other in ({**kept, "0.out.0": np.array([np.nan, 0.0])}, {**kept, "0.out.0": np.array([[np.nan, -0.0]])},
                  {"source": kept["source"]}):
        assert files.write("op", "some", other), "a change is written, of a sign of zero too"
    assert golden.names("op") == ["some"] and "files: 1, 0 kB; changed: none" in files.said("op", [])


@pytest.mark.parametrize("name", ["FTRL", "LARS", "Adam8bit", "ProximalGradientDescent"])
def test_one_subject_is_made_again(name: str, maker: Any) -> None:
    """What needs no other library: the maker gives the package's values still."""
    rows = {row[0]: row[1:] for row in maker("make_optimizers").ROWS}
    made, kept = maker("make_optimizers").kept(*rows[name]), golden.read("optimizer", name)
    assert made.keys() == kept.keys()
    for n in kept:
        if kept[n].dtype.kind == "f":
            np.testing.assert_allclose(made[n], kept[n], rtol=1e-10, atol=1e-12)
        else:
            assert str(made[n]) == str(kept[n])
