"""What launches the ops that have kernels: a family of variants, and who makes the problem of operands and attributes.

A family is imported when the first of its ops is asked for, so that `import clnet` does not read kernels that a script
does not need.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .variant import VARIANTS, Choice, Refusal, choose

if TYPE_CHECKING:
    from ..engine.device.devices import Device
    from .operand import Operand
    from .stage import Stage


class Chooser(NamedTuple):
    """Who serves an op.

    problem   "module.function" of clnet.kernels: (*first, operands, **attrs) -> the value that the variants of `family`
              are asked about, or a Refusal that holds for all of them
    refused   "module.function": (problem, device) -> why none of them serves there, or None; "": nobody is asked
    """

    family: str
    problem: str
    first: tuple[Any, ...] = ()
    refused: str = ""

    def choice(self, device: Device, operands: Sequence[Operand], **attrs: Any) -> Choice:
        """Who serves these operands (shapes, strides, dtypes) on the device, and why not the others."""
        problem = self.asked(operands, **attrs)
        refused = problem if isinstance(problem, Refusal) else self._all_refuse(problem, device)
        if refused is not None:
            return Choice(self.family, None, None, tuple((v, refused.why) for v in VARIANTS[self.family]))
        return choose(self.family, problem, device)

    def _all_refuse(self, problem: Any, device: Device) -> Refusal | None:
        found: Refusal | None = _function(self.refused)(problem, device) if self.refused else None
        return found

    def asked(self, operands: Sequence[Operand], **attrs: Any) -> Any:
        """What its variants are asked about, or a Refusal."""
        return _function(self.problem)(*self.first, operands, **attrs)

    def __call__(self, device: Device, operands: Sequence[Operand], **attrs: Any) -> list[Stage] | None:
        return self.choice(device, operands, **attrs).stages


def _function(path: str) -> Callable[..., Any]:
    """The function of clnet.kernels at "module.function"."""
    module, _, name = path.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return found


MATMUL = Chooser("matmul", "matmul.problem.product")
CONVOLUTION = Chooser("conv", "conv.problem.convolution", refused="conv.problem.by_product")
CONVOLUTION_WEIGHTS = Chooser("conv_weight_gradient", "conv.problem.weight_gradient")
ATTENTION = Chooser("attention", "attention.problem.forward")
ATTENTION_GRADIENT = Chooser("attention", "attention.problem.gradient")
PACKED_ATTENTION = Chooser("attention", "attention.problem.packed")
PACKED_ATTENTION_GRADIENT = Chooser("attention", "attention.problem.packed_gradient")
GATHER = Chooser("gather", "rows.index.gather_problem")
SCATTER_ADD = Chooser("scatter", "rows.index.scatter_problem", ("SUM",))
SCATTER_ARGMAX = Chooser("scatter", "rows.index.scatter_problem", ("ARGMAX",))
GATHER_ELEMENTS = Chooser("gather_elements", "rows.elements.gather_problem")
SCATTER_ELEMENTS = Chooser("scatter_elements", "rows.elements.scatter_problem")
SEGMENT_DOT = Chooser("segment_dot", "rows.segment.dot_problem")
SEGMENT_SPREAD = Chooser("segment_spread", "rows.segment.spread_problem")
SEGMENT_SUM = Chooser("segment_sum", "rows.segment.sum_problem")
CUMULATIVE = Chooser("cumulative", "rows.cumulative.problem")
SORTED = Chooser("sort", "rows.sort.sort_problem", ("VALUES",))
SORTED_NUMBERS = Chooser("sort", "rows.sort.sort_problem", ("INDEX",))
SORTED_BOTH = Chooser("sort", "rows.sort.sort_problem", ("BOTH",))
TOP = Chooser("top", "rows.sort.top_problem")
PLACED = Chooser("placed", "rows.sort.places_problem")
SPARSE_PRODUCT = Chooser("sparse_matmul", "rows.sparse.product_problem")
SPARSE_PLACES = Chooser("sparse_places", "rows.sparse.places_problem")
EDGE_SUM = Chooser("edge_sums", "rows.edges.sum_problem")
EDGE_TOTAL = Chooser("edge_sums", "rows.edges.edge_problem", ("TOTAL",))
EDGE_ARGMAX = Chooser("edge_sums", "rows.edges.edge_problem", ("ARGMAX",))
EDGE_DOT = Chooser("edge_sums", "rows.edges.dot_problem")
EDGE_ORDER = Chooser("edge_order", "rows.edges.order_problem")
EDGE_OFFSETS = Chooser("edge_offsets", "rows.edges.order_problem")
MESH_COLLAPSE = Chooser("mesh_collapse", "rows.mesh.collapse_problem")
MESH_MERGE = Chooser("mesh_merge", "rows.mesh.merge_problem")
RECURRENCE = Chooser("recurrence", "sequence.problem.loop")
RECURRENCE_GRADIENT = Chooser("recurrence", "sequence.problem.gradient")
CTC = Chooser("ctc", "sequence.ctc.alignment")
CTC_SLOPE = Chooser("ctc_slope", "sequence.ctc.alignment")


def row_kernel(kind: str) -> Chooser:
    """What launches an op that is a KIND of normalize.cl."""
    return Chooser("rows", "rows.problem.over_rows", (kind,))


def column_kernel(kind: str, outputs: int) -> Chooser:
    """The same for `outputs` sums over the rows."""
    return Chooser("columns", "rows.problem.over_columns", (kind, outputs))


def pool_kernel(variant: str) -> Chooser:
    """What launches an op that is a VARIANT of pool.cl."""
    return Chooser("pool", "images.problem.pooling", (variant,))


def resample_kernel(adjoint: bool) -> Chooser:
    """What launches the resizing of an axis, or its adjoint."""
    return Chooser("resample", "images.resample.resampling", (adjoint,))


def bilinear_kernel(stage: str) -> Chooser:
    """What launches an op that is a STAGE of bilinear.cl."""
    return Chooser("bilinear", "images.bilinear.sampling", (stage,))
