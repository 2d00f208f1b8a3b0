"""Files that the workbench writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clnet.workbench import tables


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX's")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """It stands for /dev/stdout."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        tables.save_rows(pipe, [{"work": "a"}])
        assert b'"work": "a"' in os.read(reader, 1000)
    finally:
        os.close(reader)
    assert pipe.is_fifo() and os.listdir(tmp_path) == ["pipe"]
