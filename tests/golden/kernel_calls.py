"""What one call of an op is to the choice of kernels, and the devices that it is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clnet.core.op import OPS

Shape = tuple[int, ...]
FLOATS = ("float32", "float64", "bfloat16", "float16")
PRECISIONS = ("fp32x3", "tf32", "bf16", "fp16")


@dataclass(frozen=True)
class Given:
    """One operand: `strides` in elements ((): contiguous), `offset` elements into its buffer."""

    dtype: str
    shape: Shape
    strides: Shape = ()
    offset: int = 0

    def __str__(self) -> str:
        text = f"{self.dtype}[{_commas(self.shape)}]"
        return text + (f"/{_commas(self.strides)}" if self.strides else "") + (f"+{self.offset}" if self.offset else "")


@dataclass(frozen=True)
class Problem:
    """One call. Its text is its key in the golden file."""

    op: str
    operands: tuple[Given, ...]
    attrs: Mapping[str, object] = field(default_factory=dict)
    both: bool = False

    def __str__(self) -> str:
        twin = OPS[self.op].twin if self.both else None
        name = f"{self.op} + {twin.name}" if twin else self.op
        attrs = (f"{k}={_commas(v) if isinstance(v, tuple) else v}" for k, v in sorted(self.attrs.items()))
        return " ".join([name, *map(str, self.operands), *attrs])


def _commas(values: Sequence[object]) -> str:
    return ",".join(map(str, values))
