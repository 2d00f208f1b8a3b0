"""Python's collector rests while a plan is made, and never longer."""

from __future__ import annotations

import gc

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
