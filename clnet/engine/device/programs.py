"""OpenCL programs, built once: memory, then disk, then the compiler."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from ...errors import KernelBuildError
from ...show import plural
from .device import TARGET, Device, check_not_forked
from .faults import translate
from .folders import cache_root
from .pocl import cpu_flags
from .program_files import MARK, Store, referred
from .runtimes import prepare as find_runtimes

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
SMALLEST = "__kernel void smallest(__global int *a) { a[0] = 0; }"
EARLY = 3  # processes that are started before it is known how much there is to compile
IN_MEMORY = 512  # programs kept: each is up to a few megabytes of compiled code and compiler state


@dataclass
class Counters:
    """How programs came about since the last reset; `seconds` spent on disk hits and builds."""

    memory_hits: int = 0
    disk_hits: int = 0
    builds: int = 0
    seconds: float = 0.0


def package_version() -> str:
    try:
        return metadata.version("clnet")
    except metadata.PackageNotFoundError:
        return "0"


def _instructions(device: Device) -> list[str]:
    # Two processors may share a marketing name and a home folder, but not their instruction sets.
    return [*sorted(cpu_flags()), os.environ.get(TARGET, "")] if not device.has_own_memory else []


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
        self._groups: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._fresh: set[str] = set()  # on disk since this process had them built, and not asked for yet
        self._ahead: set[str] = set()  # made by `helped`, and not asked for yet
        self._busy: dict[str, threading.Lock] = {}
        self._lock, self._preparing = threading.Lock(), threading.RLock()
        self._key = functools.lru_cache(IN_MEMORY)(self._digest)
        facts = (device.name, device.driver, device.version, device.platform, device.platform_version)
        forced = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")
        self._facts = [LAYOUT, *facts, find_runtimes().pocl.now, package_version(), forced, _instructions(device)]
        import pyopencl as cl

        _living.add(self)
        # Attributed to the caller's caller, so this hides only warnings of builds that clnet makes.
        warnings.filterwarnings("ignore", category=cl.CompilerWarning, module=__name__.replace(".", r"\."))

    @staticmethod
    def living() -> list[ProgramCache]:
        """The caches of this process, for `clnet doctor`."""
        return sorted(_living, key=lambda cache: cache.device.key)

    def key(self, source: str, options: Sequence[str] = ()) -> str:
        return self._key(source, tuple(options))

    def _digest(self, source: str, options: tuple[str, ...]) -> str:
        text = json.dumps([self._facts, list(options), source])
        return hashlib.sha256(text.encode()).hexdigest()

    def prepare(self, wanted: Mapping[str, Sequence[str]], options: Sequence[str] = (),
                tell: Callable[[int, int], None] | None = None) -> bool:
        """Has the sources compiled that are neither in memory nor on disk: side by side, several as one program, into
        the store; whether there was something to do. `wanted`: source -> the kernels that are asked of it.

        Calls tell(ready, of how many) as they become ready. Only where the driver is known to gain by it; what the
        compiler refuses is left to `get`, which says why.
        """
        if not self.device.known.gathers or self.store.problem or len(wanted) < 2:
            return False
        if not any(self.lacks(self.key(text, options), text) for text in wanted):
            return False  # nor does it wait for a thread that has something to do
        with self._preparing:
            check_not_forked()
            from .together import prepare

            start = time.perf_counter()
            found = prepare(self, wanted, options, tell)
            if found:
                self._count(seconds=time.perf_counter() - start)
                self.store.trim()
            return found

    @contextlib.contextmanager
    def helped(self, wanted: Mapping[str, Sequence[str]], options: Sequence[str] = ()) -> Iterator[None]:
        """Within the block a thread makes those of the programs that are not in memory, the last first, while this one
        begins with the first: the driver loads them outside of Python. What fails is left to `get`, which says why.
        `wanted` as for `prepare`.
        """
        gathers, ended = self.device.known.gathers, threading.Event()
        lacking = [text for text in wanted if gathers and self.key(text, options) not in self._programs]
        if len(lacking) < 2:
            yield
            return

        def make() -> None:
            with contextlib.suppress(Exception):
                while lacking and not ended.is_set():
                    text = lacking.pop()
                    self._had(text, options, wanted[text][0], asked=False)

        helper = threading.Thread(target=make, name="clnet programs", daemon=True)
        helper.start()
        try:
            yield
        finally:
            ended.set()
            helper.join()

    def expect(self) -> None:
        """Where nothing is on disk yet, much will be compiled: what takes part in that starts meanwhile, and has its
        compiler loaded.
        """
        if self.device.known.gathers and not self.store.problem and self.store.empty():
            from . import compilers

            compilers.start(EARLY, compilers.Job(self.question(SMALLEST, ()), 0.0, bool))

    def question(self, source: str, options: Sequence[str]) -> dict[str, Any]:
        """What a process is asked that compiles for this one."""
        d = self.device
        return {"facts": [d.name, d.driver, d.version, d.platform, d.platform_version], "source": self.written(source),
                "options": self.options_text(options)}

    def lacks(self, key: str, source: str) -> bool:
        """Whether it would have to be compiled, and can be kept on disk."""
        if LATER in source or self.device.known.keeps:
            return False
        with self._lock:
            there = key in self._programs or self.store.path(key).exists()
        return not there and self._lasting(source)

    def get(self, source: str, options: Sequence[str] = (), *, name: str = "program") -> Any:
        """The built cl.Program; `name` is that of its kernel. KernelBuildError."""
        return self._recent(self.key(source, options)) or self._had(source, options, name)

    def _had(self, source: str, options: Sequence[str], name: str, asked: bool = True) -> Any:
        """The program, made by one thread alone; `asked`: whether somebody wants it already."""
        key = self.key(source, options)
        with self._alone(key):
            program = self._recent(key, asked)
            if program is not None:
                return program
            check_not_forked()
            start = time.perf_counter()
            try:
                program = self._make(key, source, options, name)
            finally:
                self._count(seconds=time.perf_counter() - start)
            with self._lock:
                self._programs[key] = program
                self._busy.pop(key, None)
                if not asked:
                    self._ahead.add(key)
                while len(self._programs) > IN_MEMORY:
                    self._programs.popitem(last=False)
            return program

    @contextlib.contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """One thread at a time makes what has the key; those behind it find it made."""
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            yield

    def _recent(self, key: str, asked: bool = True) -> Any:
        with self._lock:
            program = self._programs.get(key)
            if program is not None and asked:
                self._programs.move_to_end(key)
                self._counters.memory_hits += key not in self._ahead
                self._ahead.discard(key)
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
            self._fresh.clear()
            self._ahead.clear()
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

    def _lasting(self, source: str) -> bool:
        # The key knows the source, not the files it includes: such programs are compiled once per process.
        return not self.device.known.keeps and not ("include" in source and INCLUDE.search(source))

    def _make(self, key: str, source: str, options: Sequence[str], name: str) -> Any:
        program = self._from_disk(key, options, name)  # where only what lasts lies: the text is long to look through
        if program is not None:
            if key in self._fresh:
                self._fresh.discard(key)
            else:
                self._count(disk_hits=1)
            return program
        program = self.build(source, options, name)
        self._count(builds=1)
        if not self._lasting(source):
            self._unkept += 1
            return program
        self.keep(key, program)
        if self._counters.builds % TRIM_EVERY == 0:
            self.store.trim()
        return (self._from_disk(key, options, name) if self.device.known.compacts else None) or program

    def built(self, keys: Sequence[str]) -> None:
        """Notes that these were built for this process, into the store."""
        self._fresh.update(keys)
        self._count(builds=len(keys))

    def _from_disk(self, key: str, options: Sequence[str], kernel: str) -> Any:
        """None where there is no entry, or none that the driver still takes, or one without this kernel."""
        data = self.store.read(key)
        if data is None or not data.startswith(MARK):
            return self._loaded(data, options)
        group = referred(data, kernel)
        if not group:
            return None
        with self._alone(group):
            program = self._groups.get(group)
            if program is None:
                program = self._loaded(self.store.read(group), options)
                if program is not None:
                    self._groups[group] = program
        return program

    def _loaded(self, data: bytes | None, options: Sequence[str]) -> Any:
        if data is None:
            return None
        import pyopencl as cl

        try:
            program = cl.Program(self.context, [self.device.handle], [data])
            self._compile(program._prg, options)
        except cl.Error:
            return None
        return program

    def keep(self, key: str, program: Any) -> None:
        """Puts a program on disk."""
        import pyopencl as cl

        try:
            self.store.write(key, self.binary(program))
        except (cl.Error, IndexError):
            self._unkept += 1

    def written(self, source: str) -> str:
        """The source as the compiler is to see it."""
        return ALONE.sub(UNJOINED, source) if self.device.known.joins else source

    def options_text(self, options: Sequence[str]) -> str:
        """The options as the compiler is to see them."""
        forced = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")
        return " ".join([*options, *([forced] if forced else [])])

    def build(self, source: str, options: Sequence[str], name: str) -> Any:
        """The compiler's own work, nothing kept. KernelBuildError."""
        import pyopencl as cl

        source = self.written(source)
        # cl.Program's own build would leave failing sources in temporary files.
        raw: Any = cl._cl._Program(self.context, source)
        try:
            self._compile(raw, options)
        except cl.Error as error:
            if error.code not in BUILD_FAILED:
                raise translate(error, name) from error
            log = raw.get_build_info(self.device.handle, cl.program_build_info.LOG) or str(error)
            raise _refused(name, source, options, log) from None
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
            raise _refused(name, source, options, log) from None
        return cl.Program(raw)

    def _compile(self, raw: Any, options: Sequence[str]) -> None:
        _call(raw, self.options_text(options).encode())


def _refused(name: str, source: str, options: Sequence[str], log: str) -> KernelBuildError:
    from .build_log import explain

    return KernelBuildError(explain(name, source, options, log))


def _call(raw: Any, options: bytes) -> None:
    # pyopencl's own `build` turns every remark of the compiler into a warning,
    # which a filter of the caller's makes an error of the build.
    if hasattr(raw, "_build"):
        raw._build(options=options, devices=None)
    else:
        raw.build(options, None)


_living: weakref.WeakSet[ProgramCache] = weakref.WeakSet()
