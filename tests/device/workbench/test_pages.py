"""The code of the README and of the pages of docs/ that need a device runs, from top to bottom."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "docs" / "site"))
prose = importlib.import_module("prose")
QUICK = ("start.md", "data.md", "training.md")  # tests/host/workbench/test_documentation.py runs these on NumPy


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in prose.with_code() if p.name not in QUICK], ids=lambda p: p.name)
def test_code_of_a_page_runs(page: Path, engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)  # where it saves models
    prose.run(page)
