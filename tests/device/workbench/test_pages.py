"""The code of the README and of the pages of docs/ that need a device runs, from top to bottom."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas
import pytest
from PIL import Image

import clnet

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "docs" / "site"))
prose = importlib.import_module("prose")
QUICK = ("start.md", "data.md", "training.md")  # tests/host/workbench/test_documentation.py runs these on NumPy


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in prose.with_code() if p.name not in QUICK], ids=lambda p: p.name)
def test_code_of_a_page_runs(page: Path, engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)  # where it saves models
    if page.name == "README.md":
        files()
    prose.run(page)


def files() -> None:
    """What the README reads."""
    draws = np.random.default_rng(0)
    houses = pandas.DataFrame({"area": draws.uniform(20, 90, 60), "town": draws.choice(["Oslo", "Rome", "Bern"], 60)})
    houses.to_csv("new_houses.csv", index=False)
    houses.assign(price=3e3 * houses["area"]).to_csv("houses.csv", index=False)
    for name in ("cats", "dogs"):
        Path("folder", name).mkdir(parents=True)
        Image.fromarray(draws.integers(0, 255, (40, 40, 3)).astype(np.uint8)).save(Path("folder", name, "1.png"))
    Path("book.txt").write_text("the cat sat on the mat. " * 60)
    clnet.models.resnet18(classes=1000).build((3, 224, 224)).save("resnet18.safetensors")
