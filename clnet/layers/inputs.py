"""What a layer is called with: arrays and what can become one, or values of a model that is being written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..core.arrays import as_array
from ..core.spec import DTYPES
from ..core.tensor import Operators, as_tensor, tensor
from ..errors import UseError


class Symbolic:
    """A value of a model that is being written down, not computed: a layer called with one notes
    the call (see clnet.model).
    """

    def wire(self, layer: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        """Ops and NumPy ask for it; what else is done with an array ends here, too. Raises UseError."""
        raise UseError(
            "Input: expected layers on what is wired into a model; got an op, an index or a method; write "
            "Lambda(function)(x), as Lambda(lambda x: x[:, -1])(x), or a Layer class with the formula as its forward.")

    __getitem__ = __neg__ = __abs__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __array__
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __iter__ = __array__

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__array__()


def spread(inputs: tuple[Any, ...], merges: bool) -> tuple[Any, ...]:
    """Several inputs in one list, as Keras has them, as several: Concatenate()([a, b])."""
    if len(inputs) != 1 or type(inputs[0]) not in (list, tuple):
        return inputs
    several = (Symbolic, Operators, np.ndarray) if merges else Symbolic
    return tuple(inputs[0]) if any(isinstance(x, several) for x in inputs[0]) else inputs


def read(x: object, who: str) -> Any:
    """Arrays and frames enter as float32 where they are float64: a network computes in single precision unless told
    otherwise. Raises DataError.
    """
    if isinstance(x, Operators):
        return as_tensor(x)
    if isinstance(x, np.ndarray) and x.dtype.name in DTYPES:
        return tensor(x, "float32" if x.dtype == np.float64 else None)
    foreign = any(getattr(x, name, None) is not None for name in ("__array__", "toarray"))
    if foreign or isinstance(x, (list, tuple, float, int, str, dict)):
        array = as_array(x, who)
        return tensor(array, "float32" if array.dtype == np.float64 else None)
    return x
