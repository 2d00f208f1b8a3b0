"""A cure for what PoCL 3.0 makes of a processor's name.

PoCL asks LLVM for the processor's name and hands it to clang, and links kernels with a library of built-ins that it
chooses by the processor's features and that was compiled for one processor with them. The two must fit:

- LLVM 14 calls most processors younger than itself "generic", which clang refuses on x86-64, so no program builds (pocl
  issue #1049);
- it takes AMD's Zen 4 for Zen 3, which has no AVX-512: kernels and built-ins pass vectors in different ways, and the
  process dies;
- LLVM inlines a function only into one compiled for all its instruction sets. Under the names of AMD's Zen and of
  younger Xeons without AMX ("icelake-client") vload16 and vstore16 are calls, around which all registers are saved;
  under the names below they are inlined.

The library exports the function that asks for the name; it is overwritten in memory by one that answers with the name
that the built-ins were compiled for. Nothing on disk changes. CLNET_MEND_POCL=0 switches it off.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import os
import platform
import sys
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import NamedTuple

AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
AVX2 = {"avx2", "fma"}
# push rbp; push rbx; sub rsp, 8: how the function of the one binary this was tried on begins.
PROLOGUE = bytes.fromhex("55534883ec08")
READ_WRITE_RUN, READ_RUN = 7, 5

_keep: list[object] = []


class Mend(NamedTuple):
    """What PoCL called this processor, what it calls it now (the same if untouched), and why."""

    was: str = ""
    now: str = ""
    reason: str = "no PoCL from pip here"

    @property
    def done(self) -> bool:
        return self.was != self.now


def library() -> Path | None:
    """The PoCL that `pocl-binary-distribution` puts beside pyopencl."""
    spec = importlib.util.find_spec("pyopencl")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder, ".libs").glob("libpocl*.so*")):
            return path
    return None


def known_name(flags: AbstractSet[str]) -> str:
    """The processor that the built-ins which PoCL chooses for these features were compiled for;
    "" where that was not looked at.
    """
    if AVX512 <= flags:
        return "skylake-avx512"
    return "haswell" if AVX2 <= flags else ""


def misnamed(name: str, flags: AbstractSet[str]) -> str:
    """Why PoCL should not go by LLVM 14's name for a processor with these features;
    "" if it may, or was not asked (no name).
    """
    if name == "generic":
        return "its LLVM 14 does not know this processor (pocl issue #1049)"
    if not name or known_name(flags) in ("", name):
        return ""
    if name.startswith("znver") and AVX512 <= flags:
        return ("its LLVM 14 takes this processor for an older one without AVX-512, whose kernels PoCL's built-ins do "
                "not fit")
    return (f"its built-in functions were compiled for {known_name(flags)!r}, and calls of them would not be inlined: "
            "products ran at a third of the speed")


@cache
def cpu_flags() -> frozenset[str]:
    """The instruction sets of the first core, as Linux names them; empty elsewhere."""
    try:
        with open("/proc/cpuinfo") as file:
            sets = (frozenset(line.split(":", 1)[1].split()) for line in file if line.startswith("flags"))
            return next(sets, frozenset())
    except OSError:
        return frozenset()


def _overwrite(address: int, code: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    first = address & -mmap.PAGESIZE
    span = ctypes.c_size_t(address + len(code) - first)
    if libc.mprotect(ctypes.c_void_p(first), span, READ_WRITE_RUN):
        raise OSError(ctypes.get_errno(), "mprotect refused")
    ctypes.memmove(address, code, len(code))
    libc.mprotect(ctypes.c_void_p(first), span, READ_RUN)


def _answering(text: bytes) -> bytes:
    """mov rdi, text; mov rax, strdup; jmp rax. A copy each time, because the callers free it."""
    kept = ctypes.create_string_buffer(text)
    _keep.append(kept)
    strdup = ctypes.cast(ctypes.CDLL(None).strdup, ctypes.c_void_p).value or 0
    where = ctypes.addressof(kept)
    return b"\x48\xbf%b\x48\xb8%b\xff\xe0" % (where.to_bytes(8, "little"), strdup.to_bytes(8, "little"))


def mend() -> Mend:
    """Must run before the first platform query: PoCL asks for the name once, when it lists its devices."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return Mend()
    path = library()
    if path is None:
        return Mend()
    if os.environ.get("CLNET_MEND_POCL") == "0":
        return Mend(reason="left alone: CLNET_MEND_POCL=0")
    try:
        function = ctypes.CDLL(str(path)).pocl_get_llvm_cpu_name
    except (OSError, AttributeError) as error:
        return Mend(reason=f"left alone: {error}")
    function.restype = ctypes.c_char_p
    _keep.append(function)
    was = (function() or b"").decode()
    fault = misnamed(was, cpu_flags())
    if not fault:
        return Mend(was, was, "left alone: PoCL calls it what its built-ins were compiled for")
    name = known_name(cpu_flags())
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    if not name or ctypes.string_at(address, len(PROLOGUE)) != PROLOGUE:
        return Mend(was, was, "left alone: no AVX2 here" if not name else "left alone: an unknown build of PoCL")
    try:
        _overwrite(address, _answering(name.encode()))
    except OSError as error:
        return Mend(was, was, f"left alone: {error}")
    return Mend(was, (function() or b"").decode(), fault)
