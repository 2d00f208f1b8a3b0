"""A work that is measured in a process of its own, with empty caches of programs and plans on both sides.

`python -m clnet.workbench.bench.shapes.apart` measures the works that it is asked for.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from ....engine import engine_for
from ....engine.device.devices import select
from ....errors import ConfigError
from ...child import Child, serve
from .. import peers, suites
from ..compare import Setting
from ..peers import Torch
from ..row import Row, as_dicts
from ..trust import Watch, seen_by

MODULE = __name__  # as itself, also where it runs as __main__
PATIENCE = 3600.0  # [s]
CACHES = ("CLNET_CACHE_DIR", "POCL_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


class Apart(ABC):
    """A work whose rows another process measures: what was compiled before, here or in an earlier run, is not there.
    `again`: one more process measures it with the caches that the first one left.

    With the NumPy engine, which compiles nothing, a row says so.
    """

    suite: ClassVar[str] = "shapes"
    again: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def measure(self, setting: Setting) -> list[Row]:
        """The rows, measured in this process. Raises what the work raises."""

    def rows(self, setting: Setting) -> list[Row]:
        if setting.engine.device.is_host:
            return [setting.row(self.suite, self.name, note="needs a device that compiles")]
        question = {"suite": self.suite, "work": self.name, "device": setting.engine.device.key,
                    "quick": setting.quick, "torch": isinstance(setting.torch, Torch)}
        with tempfile.TemporaryDirectory(prefix="clnet-bench-") as folder:
            return [replace(row, work=row.work + words) for words in ("", ", warm cache")[: 1 + self.again]
                    for row in (Row(**found) for found in asked("apart", question, folder)["rows"])]


def asked(module: str, question: dict[str, Any], caches: str) -> dict[str, Any]:
    """The answer of a new process of a module of this package, whose caches of programs are in that folder.
    Raises RuntimeError with how the process ended.
    """
    child = Child(f"{__package__}.{module}", PATIENCE, dict.fromkeys(CACHES, caches))
    try:
        answer = child.ask(question)
    finally:
        child.stop()
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return answer


@contextmanager
def opened(question: dict[str, Any]) -> Iterator[Setting]:
    """What works have in common in the process that was asked."""
    engine = engine_for(select(question["device"])[0])
    torch = peers.torch_for(engine.device) if question["torch"] else None
    with peers.equal_threads(engine.device, torch) as threads:
        yield Setting(engine, torch or "not installed", "", question["quick"], threads)


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """{"rows": those of the work that is asked for}. Raises ConfigError for a work that is not there."""
    found = [w for w in suites.find(question["suite"]).works() if w.name == question["work"]]
    if not found or not isinstance(found[0], Apart):
        raise ConfigError(f"bench: expected a work of the suite {question['suite']}; got {question['work']!r}.")
    with opened(question) as setting:
        watch = Watch()
        return {"rows": as_dicts(seen_by(watch, found[0].measure(setting)))}


if __name__ == "__main__":
    # Not this file as __main__, whose Apart would be another class than that of the suite's works.
    from . import apart

    serve(apart.answer)
