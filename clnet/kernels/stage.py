"""What a hand-written kernel is asked to do: one launch of one function of a .cl file."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from ..core.size import settled


@dataclass
class Stage:
    """One kernel of a hand-written .cl file, as a variant asks for it.

    kernel    function name in the file           file      of cl_kernels; "": the op's own
    defines   macros, printed in order
    grid      global size                         group     local size or None
    domain    coordinates of the result that EPILOGUE takes; their row-major number is the element
    lanes     width of EPILOGUE_V (1: none)       scratch   name -> bytes of temporary memory shared by the op's stages
    kept      name -> bytes of memory of this stage alone, a number that does not vary: zero at first, from then on as
              the run before left it, in words of 64 bits
    also      coordinates that EPILOGUE_ALSO takes, of a second result (Kernel.launch_with) of another size; one of the
              same goes through EPILOGUE, and so does a second result that a stage without a domain gives alone
    final     whether this stage writes the result
    stepped   whether the last coordinate that EPILOGUE_V takes is always a multiple of lanes
    note      the arithmetic, where it is not that of the dtype: plans print it
    free      macros that may be numbers known at the launch alone: the kernel uses them in no condition of the
              preprocessor, in no length of an array and in no function that does not take SIZES
    scalars   name -> (dtype, number) of what the text takes as numbers; they may vary
    """

    kernel: str
    defines: dict[str, Any]
    grid: tuple[int, ...]
    group: tuple[int, ...] | None = None
    _: KW_ONLY
    domain: tuple[int, ...] = ()
    lanes: int = 1
    scratch: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    final: bool = True
    file: str = ""
    stepped: bool = False
    note: str = ""
    also: tuple[int, ...] = ()
    free: frozenset[str] = frozenset()
    scalars: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Sizes that vary become the numbers of this shape, where the kernel has to know them."""
        for name, value in self.defines.items():
            if name.partition("(")[0] not in self.free:
                self.defines[name] = settled(value, f"{self.kernel} has to know {name}")
        self.group = self.group and tuple(map(settled, self.group))
        self.lanes = settled(self.lanes)
