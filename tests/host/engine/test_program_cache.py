"""The program cache's folder, and compilers' logs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clnet.engine.device.build_log import error_line, explain
from clnet.engine.device.program_files import Store


def test_a_store_knows_whether_it_is_empty(tmp_path: Path) -> None:
    store = Store(tmp_path / "programs")
    assert store.empty() and store.entries() == []
    (store.folder / "half.tmp").write_bytes(b"an entry that is being written")
    assert store.empty()
    assert store.write("a", b"x") and not store.empty()
    assert store.clear() == 1 and store.empty()
    assert Store(tmp_path / "programs" / "half.tmp").empty(), "a folder that cannot be"


def test_trimming_drops_the_oldest(tmp_path: Path) -> None:
    store = Store(tmp_path / "programs", limit=3000)
    for age, key in enumerate(["c", "b", "a"]):
        store.write(key, bytes(1000))
        os.utime(store.path(key), (1000 + age, 1000 + age))
    store.trim()
    assert [path.stem for path in store.entries()] == ["a", "b"]


@pytest.mark.parametrize(
    ("log", "line"),
    [("2:3:10: error: x", 3), ("<kernel>:7:1: error: x", 7), ("error: /a/tempfile_x.cl:12:4: x", 12), ("fine", 0),
     ("1:9:2: warning: y\n1:4:2: error: x", 4)],
)  # fmt: skip
def test_places_in_logs(log: str, line: int) -> None:
    assert error_line(log) == line


def test_a_long_log_is_cut() -> None:
    text = explain("op", "source", [], "\n".join(f"line {n}" for n in range(100)))
    assert "line 39" in text
    assert "line 40" not in text
    assert "60 more lines" in text
