"""Every notebook opens in JupyterLab and runs whole, as a person sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1200)]
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_runs_in_the_browser(path: Path, opened: Callable[[str, Any], Any]) -> None:
    bare = nbformat.read(path, as_version=4)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    book = opened(path.stem, bare)
    book.run_all()
    book.ended()
    assert book.problems() == []
    ran = [cell for cell in book.save().cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in ran] == list(range(1, len(ran) + 1))
    assert not [o.evalue for cell in ran for o in cell.outputs if o.output_type == "error"]
    for width in (1280, 390):
        book.look(path.stem, width, whole=True)
