"""Spans of queues, and the file that viewers of traces open."""

from __future__ import annotations

import json
from pathlib import Path

import clnet
from clnet.engine import on
from clnet.engine.compile.plan import Launch
from clnet.engine.profiling import Span, write_trace

PRODUCT = Launch("matmul", "", [], (4, 2), (1, 1), ("matmul", "relu", "relu"), nbytes=4000, work=lambda of: 1e6)
SPANS = [Span("to device", "uploads", 0.0, 2.5, 1000), Span("matmul", "commands", 3.0, 13.0, 4000, PRODUCT)]


def test_a_trace_is_what_viewers_read(tmp_path: Path) -> None:
    """Trace Event Format: an object with traceEvents; complete events ("X") with ts and dur in µs, names by "M"."""
    path = write_trace(tmp_path / "step.json", SPANS, "a device", Span.facts)
    events = json.loads(path.read_text())["traceEvents"]
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert names == {(1, None): "a device", (1, 2): "queue: commands", (1, 3): "queue: uploads"}
    copy, product = (e for e in events if e["ph"] == "X")
    assert (copy["ts"], copy["dur"], names[1, copy["tid"]], copy["cat"]) == (0.0, 2.5, "queue: uploads", "copy")
    assert (product["ts"], product["dur"], product["name"], product["tid"]) == (3.0, 10.0, "matmul", 2)
    assert product["args"] == {"bytes": 4000, "ops": ["matmul", "relu"], "grid": [4, 2], "group": [1, 1], "flops": 1e6,
                               "GFLOP/s": 100.0, "GB/s": 0.4}


def test_on_the_host_there_is_nothing_to_time(tmp_path: Path) -> None:
    with on("numpy"), clnet.profile(alone=False) as found:
        clnet.ops.exp(clnet.tensor([1.0])).numpy()
    assert found.spans == [] and "No kernel was launched" in repr(found)
    assert len(json.loads(found.trace(tmp_path / "empty.json").read_text())["traceEvents"]) == 2
