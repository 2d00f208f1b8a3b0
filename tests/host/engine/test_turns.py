"""Threads that share a device: they compute in turns, first come, first served, and leave what they had to others."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from clnet.engine.device.turns import Seats, Turns


def until(there: Callable[[], Any]) -> None:
    """Waits for it; a minute without is a failure."""
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(1e-3)


def run(*work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=w) for w in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def test_no_more_than_so_many_at_one_time() -> None:
    turns, inside, most, full = Turns(2), [], [], threading.Barrier(2)

    def work() -> None:
        with turns:
            inside.append(1)
            most.append(len(inside))
            full.wait(60)  # comes only if there are two
            inside.pop()

    run(*[work] * 12)
    assert max(most) == 2 and not inside
    with turns, turns:
        pass


def test_whoever_came_first_is_next() -> None:
    turns, order = Turns(1), []

    def work(k: int) -> None:
        with turns:
            order.append(k)

    threads = []
    with turns:
        for k in range(5):
            threads.append(threading.Thread(target=work, args=(k,)))
            threads[-1].start()
            until(lambda: len(turns._line) == len(threads))
    for t in threads:
        t.join()
    assert order == list(range(5))


@pytest.mark.skipif(sys.platform == "win32", reason="signals to a thread are POSIX's")
def test_an_interrupt_in_the_line_leaves_the_line() -> None:
    turns, held, over = Turns(1), threading.Event(), threading.Event()

    def hold() -> None:
        with turns:
            held.set()
            over.wait(60)

    def interrupt() -> None:
        until(lambda: turns._line)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    others = [threading.Thread(target=hold), threading.Thread(target=interrupt)]
    others[0].start()
    assert held.wait(60)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        others[1].start()
        with pytest.raises(KeyboardInterrupt), turns:
            raise AssertionError("it was somebody else's turn")
    finally:
        signal.signal(signal.SIGINT, before)
        over.set()
        for t in others:
            t.join()
    assert not turns._line
    with turns:  # whoever was interrupted holds none
        pass


def test_a_turn_that_comes_to_an_interrupted_thread_is_handed_on() -> None:
    turns, gone = Turns(1), threading.Lock()
    gone.acquire()
    with turns:
        turns._line.append(gone)
    turns._leave(gone)  # its turn had come before it could leave
    with turns:
        pass


def test_errors_inside_give_the_turn_back() -> None:
    turns = Turns(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"), turns:
            raise ValueError("inside")


def test_living_threads_have_seats_of_their_own_and_the_dead_leave_theirs() -> None:
    seats, found, meeting = Seats(), [], threading.Barrier(4)

    def sit() -> None:
        mine = seats.mine()
        meeting.wait(60)
        found.append((mine, seats.mine()))

    run(*[sit] * 4)
    assert all(a == b for a, b in found) and len({a for a, _ in found}) == 4
    until(lambda: len(seats.free) == 4)
    for _ in range(20):  # a thread a request
        run(lambda: found.append((seats.mine(), 0)))
        until(lambda: len(seats.free) == 4)
    assert len({a for a, _ in found}) == 4
