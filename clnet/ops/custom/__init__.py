"""Ops of one's own, from a script or the cell of a notebook.

    elementwise      an expression in OpenCL C, element by element, like CuPy's ElementwiseKernel
    reduction        a fold over axes from three expressions, like CuPy's ReductionKernel
    kernel           a whole kernel from a string or a file, like CuPy's RawKernel
    custom_gradient  a function over ops whose gradient is given, like JAX's custom_vjp

What they give is an op like clnet's own: it is called with tensors or arrays, recorded, planned, fused with its
neighbours (a whole kernel: with what it reads, not with what follows), differentiated by the gradient that was stated,
held to its NumPy reference by `clnet.check(op, ...)` and `clnet status --only NAME` in the same process, and shown by
`clnet.explain`. A definition of a name that was defined before replaces it: plans of the old one are let go.
"""

from typing import TYPE_CHECKING

from ...names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
    from . import prototype
    from .gradient import custom_gradient
    from .kernels import kernel
    from .own import defined, remove
    from .rows import elementwise, reduction

__all__ = _offer(__name__, {
    "gradient": "custom_gradient",
    "kernels": "kernel",
    "own": "defined remove",
    "rows": "elementwise reduction",
}, "prototype")
