"""The OpenCL runtimes that clnet knows, a row each: adding a device is adding a row.

A runtime that no row knows is "other": it is taken to do what OpenCL promises and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

RANKS = {"gpu": 0, "cpu": 2, "accelerator": 3}
LAST = dict.fromkeys(RANKS, 9)


class Runtime(NamedTuple):
    """What is particular to one runtime.

    words         one of them in the name of the platform or its vendor, in lower case, tells it
    title         for readers, {} is the kind in capitals; "" where the platform's own name is the best
    usual         the kind that its keys don't mention: "intel" is the CPU, "intel-gpu" the GPU
    ranks         kind -> place in the automatic choice, the smallest first
    simulator     it checks kernels, a thousand times slower: never an automatic choice
    inline_ptx    kernels may hold NVIDIA's instructions, and the driver tells its compute capability
    cast_loads    vectors are read through a pointer to vectors, because vloadN becomes N loads
    fma           fma() of CPUs is an instruction, not a call; that of GPUs always is
    half_vectors  vload_half and vstore_half of vectors take any address (PoCL 3.0 dies of odd row lengths)
    cache_hints   CPUs heed clang's built-ins for stores past the caches and for loads ahead
    keeps         it keeps compiled kernels itself; asking it for a binary compiles all a second time (0.3 s a program)
    compacts      a program read back from its binary takes a quarter of the memory of one just built
    registers     of 32 bits, of a GPU's work-group; 0 where they are not known to be many
    joins         its compiler joins work-items of a group into vectors unless told not to
    plain_loads   its compiler spends 0.05 ms on each call of a built-in: vectors are read through pointers
    words64       groups that started go on, and words of 64 bits that one writes reach others that wait for them
    cache_level   of the cache whose size it tells of a CPU; 0: unknown
    gathers       it compiles one program at a time in a process, and 30 ms go by for the smallest: several are compiled
                  as one, in several processes
    """

    name: str
    words: tuple[str, ...] = ()
    title: str = ""
    usual: str = "gpu"
    ranks: Mapping[str, int] = RANKS
    simulator: bool = False
    inline_ptx: bool = False
    cast_loads: bool = False
    fma: bool = True
    half_vectors: bool = True
    cache_hints: bool = False
    keeps: bool = False
    compacts: bool = False
    registers: int = 0
    joins: bool = False
    plain_loads: bool = False
    gathers: bool = False
    words64: bool = False
    cache_level: int = 0


# The first row one of whose words is found: Oclgrind's and PoCL's platforms may name a maker of processors too.
RUNTIMES = (
    Runtime("oclgrind", ("oclgrind",), ranks=LAST, simulator=True),
    Runtime("pocl", ("portable computing", "pocl"), "PoCL", "cpu", RANKS | {"cpu": 4, "accelerator": 4},
            fma=False, half_vectors=False, keeps=True, cache_level=3),
    Runtime("nvidia", ("nvidia",), "NVIDIA's driver", inline_ptx=True, cast_loads=True, registers=1 << 16,
            words64=True),
    Runtime("amd", ("advanced micro", "amd "), "AMD's driver"),
    Runtime("intel", ("intel",), "Intel's {} runtime", "cpu", RANKS | {"cpu": 1},
            cache_hints=True, compacts=True, joins=True, plain_loads=True, gathers=True, cache_level=2),
    Runtime("numpy", title="the host", usual="host", ranks={"host": 10}),
)
OTHER = Runtime("other")
BY_NAME = {r.name: r for r in RUNTIMES}


def runtime_of(platform: str, vendor: str = "") -> Runtime:
    """The row that knows a platform by its name and its vendor's."""
    text = f"{platform} {vendor}".lower()
    return next((r for r in RUNTIMES if any(word in text for word in r.words)), OTHER)


def named(name: str) -> Runtime:
    """The row of this name; a runtime without one is as `other`."""
    return BY_NAME.get(name, OTHER)
