"""OpenCL programs, built once: memory, then disk, then the compiler."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from ...errors import KernelBuildError
from ...show import plural
from .build_log import explain
from .compile_probe import probe
from .device import Device, check_not_forked
from .faults import translate
from .folders import cache_root
from .pocl import cpu_flags
from .program_files import Store
from .runtimes import prepare

LAYOUT = 1  # of the entries on disk
# Marks PTX that the OpenCL compiler of NVIDIA's driver cannot know:
# a comment until the compiled PTX is assembled for the very device.
LATER = "//@"
# Intel's compiler tries to join work-items into vectors, where a group is one work-item too: told not to, it builds
# sooner, and the kernels, which state their vectors themselves, run as fast.
ALONE = re.compile(r"\breqd_work_group_size\(1, 1, 1\)")
UNJOINED = r"\g<0>, intel_vec_len_hint(1)"
INCLUDE = re.compile(r"^\s*#\s*include\b", re.MULTILINE)
BUILD_FAILED = {-11, -43, -44, -45}
TRIM_EVERY = 64
IN_MEMORY = 512  # programs kept: each is up to a few megabytes of compiled code and compiler state


@dataclass
class Counters:
    """How programs came about since the last reset; `seconds` spent on disk hits, probes and builds."""

    memory_hits: int = 0
    disk_hits: int = 0
    builds: int = 0
    probes: int = 0
    seconds: float = 0.0


def package_version() -> str:
    try:
        return metadata.version("clnet")
    except metadata.PackageNotFoundError:
        return "0"


def _instructions(device: Device) -> list[str]:
    # Two processors may share a marketing name and a home folder, but not their instruction sets.
    return sorted(cpu_flags()) if not device.has_own_memory else []


class ProgramCache:
    """Programs for one device. Thread safe; two threads that want the same program wait for one build.

    A cl.Program may be shared by threads, a cl.Kernel may not: each thread makes its own.
    """

    def __init__(self, device: Device, folder: Path | None = None) -> None:
        self.device = device
        self.context = device.context
        self.store = Store(folder or cache_root() / "programs")
        self._counters = Counters()
        self._unkept = 0  # programs of this process that are not on disk
        self._programs: OrderedDict[str, Any] = OrderedDict()
        self._busy: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        facts = (device.name, device.driver, device.version, device.platform, device.platform_version)
        forced = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")
        self._facts = [LAYOUT, *facts, prepare().pocl.now, package_version(), forced, _instructions(device)]
        import pyopencl as cl

        _living.add(self)
        # Attributed to the caller's caller, so this hides only warnings of builds that clnet makes.
        warnings.filterwarnings("ignore", category=cl.CompilerWarning, module=__name__.replace(".", r"\."))

    @staticmethod
    def living() -> list[ProgramCache]:
        """The caches of this process, for `clnet doctor`."""
        return sorted(_living, key=lambda cache: cache.device.key)

    def key(self, source: str, options: Sequence[str] = ()) -> str:
        text = json.dumps([self._facts, list(options), source])
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, source: str, options: Sequence[str] = (), *, name: str = "program", risky: bool = False) -> Any:
        """The built cl.Program. `risky` sources meet the compiler in a child process first. KernelBuildError."""
        key = self.key(source, options)
        program = self._recent(key)
        if program is not None:
            return program
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            program = self._recent(key)
            if program is not None:
                return program
            check_not_forked()
            start = time.perf_counter()
            try:
                program = self._make(key, source, options, name, risky)
            finally:
                self._count(seconds=time.perf_counter() - start)
            with self._lock:
                self._programs[key] = program
                self._busy.pop(key, None)
                while len(self._programs) > IN_MEMORY:
                    self._programs.popitem(last=False)
            return program

    def _recent(self, key: str) -> Any:
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
                self._counters.memory_hits += 1
            return program

    def counters(self) -> Counters:
        """A copy."""
        with self._lock:
            return replace(self._counters)

    def reset(self) -> None:
        with self._lock:
            self._counters = Counters()

    def keeps(self) -> str:
        """A sentence on what the next process will find compiled."""
        if self.device.known.keeps:
            return f"{self.device.platform} keeps what it compiled in a folder of its own."
        if self.store.problem:
            return f"Nothing is kept on disk, so every process compiles again: {self.store.problem}."
        if self._unkept:
            return (f"{plural(self._unkept, 'program')} could not be kept and will be compiled again; the others are "
                    f"in {self.store.folder}.")
        return f"All of them are kept in {self.store.folder}: the next start compiles none of them."

    def clear(self, disk: bool = True) -> None:
        """Forgets every program, on disk too (of all devices)."""
        with self._lock:
            self._programs.clear()
        if disk:
            self.store.clear()
            self._unkept = self._counters.builds + self._counters.disk_hits

    def binary(self, program: Any) -> bytes:
        import pyopencl as cl

        binaries: list[bytes] = program.get_info(cl.program_info.BINARIES)
        return bytes(binaries[0])

    def _count(self, **more: float) -> None:
        with self._lock:
            for name, value in more.items():
                setattr(self._counters, name, getattr(self._counters, name) + value)

    def _make(self, key: str, source: str, options: Sequence[str], name: str, risky: bool) -> Any:
        # The key knows the source, not the files it includes: such programs are compiled once per process.
        lasting = not self.device.known.keeps and not INCLUDE.search(source)
        program = self._from_disk(key, options) if lasting else None
        if program is not None:
            self._count(disk_hits=1)
            return program
        if risky:
            self._probe(key, source, options, name)
            program = self._from_disk(key, options) if lasting else None
        if program is None:
            program = self._build(source, options, name)
            self._count(builds=1)
            if not lasting:
                self._unkept += 1
            else:
                self._keep(key, program)
                program = (self._from_disk(key, options) if self.device.known.compacts else None) or program
        return program

    def _from_disk(self, key: str, options: Sequence[str]) -> Any:
        """None where there is no entry, or none that the driver still takes."""
        data = self.store.read(key)
        if data is None:
            return None
        import pyopencl as cl

        try:
            program = cl.Program(self.context, [self.device.handle], [data])
            self._compile(program._prg, options)
        except cl.Error:
            return None
        return program

    def _keep(self, key: str, program: Any) -> None:
        import pyopencl as cl

        try:
            self.store.write(key, self.binary(program))
        except (cl.Error, IndexError):
            self._unkept += 1
            return
        if self._counters.builds % TRIM_EVERY == 0:
            self.store.trim()

    def _probe(self, key: str, source: str, options: Sequence[str], name: str) -> None:
        """KernelBuildError if the child died of it, now or in an earlier process."""
        verdict = self.store.read(f"{key}-probe")
        if verdict is None:
            verdict = probe(source, options, self.device.key, name, self.store.folder).encode()
            self._count(probes=1)
            self.store.write(f"{key}-probe", verdict)
        if verdict:
            raise KernelBuildError(
                f"{name}: expected a program that {self.device.key} can compile, got one where {verdict.decode()}; "
                "choose another device or narrower vectors.")

    def _build(self, source: str, options: Sequence[str], name: str) -> Any:
        import pyopencl as cl

        if self.device.known.joins:
            source = ALONE.sub(UNJOINED, source)
        # cl.Program's own build would leave failing sources in temporary files.
        raw: Any = cl._cl._Program(self.context, source)
        try:
            self._compile(raw, options)
        except cl.Error as error:
            if error.code not in BUILD_FAILED:
                raise translate(error, name) from error
            log = raw.get_build_info(self.device.handle, cl.program_build_info.LOG) or str(error)
            raise KernelBuildError(explain(name, source, options, log)) from None
        program = cl.Program(raw)
        return self._assemble(program, source, options, name) if LATER in source and self.device.inline_ptx else program

    def _assemble(self, program: Any, source: str, options: Sequence[str], name: str) -> Any:
        """The same program with the instructions that were comments, for the architecture
        that has them (sm_90a for sm_90).
        """
        import pyopencl as cl

        text = self.binary(program).rstrip(b"\0").decode().replace(LATER, "")
        text = re.sub(r"(\.target sm_\d+)\b", r"\1a", text, count=1)
        raw: Any = cl._cl._Program(self.context, [self.device.handle], [text.encode()])
        try:
            self._compile(raw, options)
        except cl.Error as error:
            log = raw.get_build_info(self.device.handle, cl.program_build_info.LOG) or str(error)
            raise KernelBuildError(explain(name, source, options, log)) from None
        return cl.Program(raw)

    def _compile(self, raw: Any, options: Sequence[str]) -> None:
        forced = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")
        text = " ".join([*options, *([forced] if forced else [])])
        _call(raw, text.encode())


def _call(raw: Any, options: bytes) -> None:
    # pyopencl's own `build` turns every remark of the compiler into a warning,
    # which a filter of the caller's makes an error of the build.
    if hasattr(raw, "_build"):
        raw._build(options=options, devices=None)
    else:
        raw.build(options, None)


_living: weakref.WeakSet[ProgramCache] = weakref.WeakSet()
