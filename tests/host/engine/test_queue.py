"""Waits for what runs on a device."""

from __future__ import annotations

import threading
import time

import pytest

from clnet.engine.device.commands import _aside


def test_long_waits_share_a_thread_and_pass_errors_on() -> None:
    def fail() -> None:
        raise ValueError("the wait failed")

    def waiters() -> set[int | None]:
        return {t.ident for t in threading.enumerate() if t.name == "clnet wait"}

    with pytest.raises(ValueError, match="the wait failed"):
        _aside(fail)
    before = waiters()
    for _ in range(3):
        _aside(lambda: time.sleep(0.01))
    assert waiters() == before != set()
