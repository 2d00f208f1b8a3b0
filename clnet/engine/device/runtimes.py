"""Makes the OpenCL runtimes that pip installed visible in this process, and keeps the system's.

The loader in pyopencl's Linux wheel (ocl-icd) reads, when OCL_ICD_VENDORS names a folder, every .icd in it and those in
pyopencl/.libs (PoCL), but then no longer /etc/OpenCL/vendors. So one private folder gets copies of the system's .icd
files plus one for Intel. The loader reads the list once, at the first clGetPlatformIDs: `prepare()` comes before that.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from . import pocl
from .folders import cache_root, private_folder, write_atomically

MARK = "clnet-icd-"
SYSTEM_FOLDER = Path("/etc/OpenCL/vendors")
DRIVERS = {"intel-opencl-rt": "libintelocl.so"}
# How Intel's CPU runtime deals work-items to threads, by both of its names.
SCHEDULE = ("DPCPP_CPU_SCHEDULE", "SYCL_CPU_SCHEDULE")
# Containers get NVIDIA's library and its device node from the host, but nobody registers it with the loader.
NVIDIA_NODE, NVIDIA_LIBRARY = Path("/dev/nvidiactl"), "libnvidia-opencl.so.1"


@dataclass
class Runtimes:
    """What `prepare` found and did, for `clnet doctor`."""

    folder: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    chosen: set[str] = field(default_factory=set)  # variables that another clnet in a child process is to choose itself
    pocl: pocl.Mend = field(default_factory=pocl.Mend)


_lock = threading.Lock()
_done: Runtimes | None = None


def chosen() -> set[str]:
    """The variables that `prepare` set by a choice of its own."""
    return set() if _done is None else _done.chosen


def prepare() -> Runtimes:
    """Once per process; later calls return what the first one did."""
    global _done
    with _lock:
        if _done is None:
            found = Runtimes()
            # Without the variable a damaged entry of pyopencl's own cache surfaces as KeyError of this very name.
            os.environ.setdefault("PYOPENCL_CACHE_FAILURE_FATAL", "")
            # A core gets the work-items that it had in the launch before, whose results are in its cache.
            if not any(name in os.environ for name in SCHEDULE):
                os.environ[SCHEDULE[0]] = "affinity"
                found.chosen.add(SCHEDULE[0])
            if sys.platform == "win32":
                _prepare_windows(found)
            elif sys.platform.startswith("linux"):
                _give_pocl_a_cache(found)
                _prepare_linux(found)
                found.pocl = pocl.mend()
            _done = found
        return _done


def _prepare_windows(found: Runtimes) -> None:
    library = Path(sys.prefix, "Library", "bin", "intelocl64.dll")
    if library.exists() and "OCL_ICD_FILENAMES" not in os.environ:
        os.environ["OCL_ICD_FILENAMES"] = str(library)
        found.sources["intel-opencl-rt"] = str(library)


def _temporary_folder(prefix: str) -> Path:
    path, owner = Path(tempfile.mkdtemp(prefix=prefix)), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def _give_pocl_a_cache(found: Runtimes) -> None:
    """PoCL lists no device, silently, where its kernel cache cannot be written (pocl issue #1669)."""
    if "POCL_CACHE_DIR" in os.environ:
        return
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pocl")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return
    except OSError:
        pass
    os.environ["POCL_CACHE_DIR"] = str(_temporary_folder("clnet-pocl-"))
    found.notes.append(f"{folder} cannot be written, PoCL caches in {os.environ['POCL_CACHE_DIR']} until exit")


def find_library(distribution: str, name: str) -> Path | None:
    """<prefix>/lib (venv, conda, system), else where the distribution's RECORD says (--user, --target)."""
    path = Path(sys.prefix, "lib", name)
    if path.exists():
        return path.resolve()
    try:
        files = metadata.files(distribution) or ()
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name != name:
            continue
        located = Path(str(file.locate()))
        # pip --target moves .data/data/lib after RECORD was written.
        for candidate in (located, *(parent / "lib" / name for parent in located.parents)):
            if candidate.exists():
                return candidate.resolve()
    return None


def _vendor_folders(found: Runtimes) -> list[Path] | None:
    """Folders whose .icd files stay visible; None where the user or a parent process has decided already."""
    user = os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH") or ""
    if MARK in user and Path(user).is_dir():
        found.folder = user
        found.sources = {path.name: path.read_text().strip() for path in sorted(Path(user).glob("*.icd"))}
        found.notes.append("vendor list inherited from the parent process")
        return None
    if user and MARK not in user:
        if not Path(user).is_dir():
            there = Path(user).exists() or os.sep not in user
            found.notes.append(f"OCL_ICD_VENDORS={user} pins one runtime: nothing added" if there else
                               f"OCL_ICD_VENDORS={user} is not there, so that no runtime is listed: unset it")
            return None
        return [Path(user)]
    conda = os.environ.get("CONDA_PREFIX")
    return [SYSTEM_FOLDER, *([Path(conda, "etc/OpenCL/vendors")] if conda else [])]


def _read_vendors(folders: list[Path], found: Runtimes) -> dict[str, str]:
    entries: dict[str, str] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.icd")) if folder.is_dir() else ():
            try:
                text = path.read_text().strip()
            except (OSError, UnicodeDecodeError):
                found.notes.append(f"{path} cannot be read")
                continue
            if os.path.isabs(text) and not os.path.exists(text):
                found.notes.append(f"{path} names {text}, which is not there")
                continue
            entries[path.name] = text
            found.sources[path.name] = str(path)
    return entries


def _stem(library: str) -> str:
    return Path(library).name.split(".so")[0]


def _unregistered(found: Runtimes) -> dict[str, str]:
    """Libraries that are here whether or not an .icd file names them."""
    libraries = {name: str(path) for name, file in DRIVERS.items() if (path := find_library(name, file))}
    found.notes += [f"{name} is not installed in {sys.prefix}" for name in DRIVERS if name not in libraries]
    if NVIDIA_NODE.exists():
        libraries["nvidia"] = NVIDIA_LIBRARY
    return libraries


def _prepare_linux(found: Runtimes) -> None:
    folders = _vendor_folders(found)
    if folders is None:
        return
    entries = _read_vendors(folders, found)
    stems = {_stem(text) for text in entries.values()}
    # A registered copy wins: two copies in one process show the device twice.
    missing = {name: library for name, library in _unregistered(found).items() if _stem(library) not in stems}
    if not missing:
        return
    for name, library in missing.items():
        entries[f"{name}.icd"] = found.sources[f"{name}.icd"] = library
    found.folder = _write_vendors(entries, found)
    # The process's real environment: the loader reads it with C getenv, and child processes inherit it.
    os.environ["OCL_ICD_VENDORS"] = found.folder


def _write_vendors(entries: dict[str, str], found: Runtimes) -> str:
    key = hashlib.sha256(repr(sorted(entries.items())).encode()).hexdigest()[:16]
    try:
        folder = private_folder(cache_root() / (MARK + key))
        _fill(folder, entries)
    except OSError as error:
        found.notes.append(f"vendor list kept in a temporary folder: {error}")
        folder = _temporary_folder(MARK)
        _fill(folder, entries)
    return str(folder)


def _fill(folder: Path, entries: dict[str, str]) -> None:
    for name, text in entries.items():
        path = folder / name
        if not path.exists() or path.read_text().strip() != text:
            write_atomically(path, (text + "\n").encode())
