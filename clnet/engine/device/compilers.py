"""Processes that compile for this one, where a driver compiles one program at a time in a process.

They start when there is enough to compile, take jobs as this process does, and end when there has been nothing to do
for a while. Whatever goes wrong with one of them, its job comes back to the process that asked.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from .runtimes import chosen

VARIABLE = "CLNET_COMPILERS"  # how many such processes there may be; 0: none
MOST = 7
CHILD = str(Path(__file__).with_name("compile_child.py"))
IDLE = 20.0  # [s] without a job, after which one ends
PATIENCE = 120.0  # [s] that a job may take


def environment() -> dict[str, str]:
    """Variables for a child process that must find this very clnet, and whatever else this one finds."""
    root = str(Path(__file__).resolve().parents[3])
    kept = {name: value for name, value in os.environ.items() if name not in chosen()}
    return {**kept, "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}


def allowed() -> int:
    """How many processes may compile beside this one: a core each, and none where Python cannot be started again.
    Raises ConfigError where CLNET_COMPILERS is no count.
    """
    wish = os.environ.get(VARIABLE, "").strip()
    if wish and not wish.isdecimal():
        raise ConfigError(f"{VARIABLE}: expected a whole number of processes, 0 for none; got {wish!r}.")
    name = Path(sys.executable or "").name.lower()
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        return 0
    if wish:
        return int(wish)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores - 1, MOST)


@functools.cache
def loader() -> str:
    """The OpenCL library that pyopencl brought into this process. Raises OSError where that is not to be seen."""
    import pyopencl  # noqa: F401

    if os.name == "nt":
        return "OpenCL.dll"
    with open("/proc/self/maps") as maps:
        paths = [line.split(maxsplit=5)[-1].strip() for line in maps if "libOpenCL" in line]
    if not paths:
        raise OSError("expected OpenCL's loader among the libraries of this process")
    return paths[0]


@dataclass(eq=False)
class Job:
    """A program to compile: what a process is asked, about how long it takes [s], and what is done with its binary;
    `keep` says whether that went well.
    """

    question: dict[str, Any]
    seconds: float
    keep: Callable[[bytes], bool]
    of: Any = None
    returned: bool = False


class Work:
    """Jobs that are taken by whoever is free. What a process could not do comes back, for this one alone."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self.todo = deque(jobs)
        self.done: deque[Job] = deque()
        self.away = 0  # jobs that processes have
        self.changed = threading.Condition()

    def take(self, helper: bool = False) -> Job | None:
        """The next job; None where there is none for whoever asks."""
        with self.changed:
            if not self.todo or helper and self.todo[0].returned:
                return None
            self.away += helper
            return self.todo.popleft()

    def give(self, job: Job, done: bool) -> None:
        """A process says what became of its job."""
        with self.changed:
            self.away -= 1
            job.returned = not done
            if done:
                self.done.append(job)
            else:
                self.todo.append(job)
            self.changed.notify_all()

    def each(self, make: Callable[[Job], None], tell: Callable[[Job | None], None]) -> None:
        """Does what there is with `make`, until all is done; tells of each job that is, and now and then of none."""
        since = time.monotonic()
        try:
            while True:
                while self.done:
                    tell(self.done.popleft())
                    since = time.monotonic()
                if job := self.take():
                    make(job)
                    tell(job)
                    since = time.monotonic()
                    continue
                with self.changed:
                    if not (self.todo or self.done or self.away):
                        return
                    if not (self.todo or self.done):
                        self.changed.wait(0.1)
                tell(None)
                if time.monotonic() - since > PATIENCE:
                    stop()
        finally:
            with self.changed:
                self.todo.clear()


class Helper(threading.Thread):
    """A process that compiles, and the thread that talks to it; `first`: what it is asked before there is work."""

    def __init__(self, first: Job | None = None) -> None:
        super().__init__(name="clnet compiler", daemon=True)
        self.first = first
        self.work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        # Neither variables nor packages of the user's: it needs Python's own library.
        self.process = subprocess.Popen([sys.executable, "-I", "-S", CHILD, loader()],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        start_new_session=True)
        self.start()

    def run(self) -> None:
        """Takes jobs until there are none for a while, or the process has ended."""
        if self.first is not None:
            self._ask(self.first)
        with contextlib.suppress(queue.Empty):
            while (work := self.work.get(timeout=IDLE)) is not None and self._serves(work):
                pass
        self.end()

    def _serves(self, work: Work) -> bool:
        while job := work.take(helper=True):
            done = self._ask(job)
            work.give(job, done)
            if not done:
                return False
        return True

    def _ask(self, job: Job) -> bool:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(job.question).encode() + b"\n")
            self.process.stdin.flush()
            said = json.loads(self.process.stdout.readline())
            binary = self.process.stdout.read(said["bytes"])
            return said["failed"] == "" and len(binary) == said["bytes"] and job.keep(binary)
        except (OSError, ValueError, KeyError, TypeError):  # it has died, or said what is no answer
            return False

    def end(self) -> None:
        """Ends the process, and waits until it is gone."""
        with _lock:
            if self in _helpers:
                _helpers.remove(self)
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.close()  # type: ignore[union-attr]


_lock = threading.Lock()
_helpers: list[Helper] = []
_owner = os.getpid()


def start(count: int, first: Job | None = None) -> int:
    """Sees to it that there are `count` processes, or as many as may be; how many there are. New ones do the `first`
    job, which nobody waits for.
    """
    if os.getpid() != _owner:
        return 0
    with _lock:
        try:
            while len(_helpers) < min(count, allowed()):
                _helpers.append(Helper(first))
        except (ImportError, OSError, RuntimeError):  # no OpenCL, no memory, too many processes or threads
            pass
        return len(_helpers)


def offer(work: Work) -> None:
    """Lets the processes that there are take part."""
    with _lock:
        for helper in _helpers if os.getpid() == _owner else ():
            helper.work.put(work)


def running() -> list[int]:
    """The processes that compile for this one."""
    with _lock:
        return [helper.process.pid for helper in _helpers]


def stop() -> None:
    """Ends all of them; what they have not done comes back."""
    if os.getpid() != _owner:
        return
    with _lock:
        helpers = list(_helpers)
    for helper in helpers:
        helper.work.put(None)
        helper.process.kill()
    for helper in helpers:
        if helper is not threading.current_thread():
            helper.join(5)


def _forked() -> None:
    # The threads are the parent's, and so are the processes.
    global _lock, _helpers
    _lock, _helpers = threading.Lock(), []


atexit.register(stop)
if os.name == "posix":
    os.register_at_fork(after_in_child=_forked)
