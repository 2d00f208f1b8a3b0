"""Python's collector rests while a plan is made, and never longer."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from clnet.collector import paused


def test_it_goes_on_behind_the_block_also_after_an_error() -> None:
    with paused():
        assert not gc.isenabled()
        with paused():
            assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_it_stays_off_where_somebody_turned_it_off() -> None:
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_a_block_keeps_is_not_walked_at_its_end_but_collected_when_it_is_dropped() -> None:
    gc.collect()
    with paused(keeps=True):
        made = [Cycle() for _ in range(1000)]
    young, dropped = gc.get_count()[0], weakref.ref(made[0])
    assert young < 1000
    assert any(found is made for found in gc.get_objects(generation=2))
    del made
    gc.collect()
    assert dropped() is None


def test_what_a_program_froze_stays_frozen() -> None:
    script = """
import gc
from clnet.collector import paused
gc.freeze()
frozen = gc.get_freeze_count()
with paused(keeps=True):
    pass
assert gc.get_freeze_count() == frozen > 0, (gc.get_freeze_count(), frozen)
"""  # in a process of its own: here threads of other tests drop what was frozen
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
