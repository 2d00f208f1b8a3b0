"""How far compiling has come: in a terminal, after a while, and then gone without a trace."""

from __future__ import annotations

import io

import pytest

from clnet.engine.device import compile_line
from clnet.engine.device.compile_line import Line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, patience: float) -> str:
    monkeypatch.setattr(compile_line, "PATIENCE", patience)
    line = Line(stream)
    line(3, 45)
    line(45, 45)
    line.end()
    return stream.getvalue()


def test_a_terminal_is_told_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    *told, blank, end = said(Terminal(), monkeypatch, 0.0).split("\r")
    assert told[1].startswith("compiling kernels 3/45") and told[2].startswith("compiling kernels 45/45")
    assert blank == " " * len(told[2].rstrip()) and end == ""


def test_what_is_quick_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(Terminal(), monkeypatch, 1e9) == ""


def test_a_pipe_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(io.StringIO(), monkeypatch, 0.0) == ""


def test_a_closed_stream_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(compile_line, "PATIENCE", 0.0)
    line = Line(stream)
    monkeypatch.setattr(Terminal, "isatty", lambda _: (_ for _ in ()).throw(ValueError("closed")))
    line(1, 2)
    line.end()
    assert stream.getvalue() == ""
