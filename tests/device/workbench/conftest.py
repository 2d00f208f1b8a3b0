"""Tables of numbers of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clnet.kernels import tuning as tune


@pytest.fixture
def cpu(engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A CPU's engine with empty tables."""
    if not engine.compiles or engine.device.kind != "cpu":
        pytest.skip("the numbers here are those of CPUs")
    monkeypatch.setattr(tune, "own_file", lambda d: tmp_path / "own.json")
    monkeypatch.setattr(tune, "shipped", lambda d: tmp_path / "shipped.json")
    for table in (tune._own, tune._shipped):
        table.clear()
    engine.plans.clear()
    yield engine
    engine.plans.clear()
    for table in (tune._own, tune._shipped):
        table.clear()
