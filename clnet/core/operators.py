"""The arithmetic of anything that stands for a tensor. Every method records; nothing runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..errors import UseError
from ..names import lacking, unpacked
from .op import OPS
from .running import current, flush
from .spec import Spec
from .values import meant, unchanging

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..engine.device.devices import Device
    from ..engine.protocol import Engine
    from .tensor import Tensor, TensorLike


class Count(int):
    """How many elements there are. PyTorch calls it, and means the shape."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise UseError("size: expected x.size, how many elements there are; got a call; write x.shape, or x.shape[0].")


class Operators:
    """Base of tensors and variables: what is the same for both, in terms of `tensor`, the value at present."""

    __slots__ = ()
    __array_priority__ = 100
    spec: Spec

    @property
    def tensor(self) -> Tensor:
        """The value at present; a tensor itself."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of every axis."""
        return self.spec.shape

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self.spec.dtype

    @property
    def size(self) -> int:
        """How many elements there are."""
        n = self.spec.size
        return Count(n) if type(n) is int else n

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.spec.shape)

    @property
    def T(self) -> Tensor:
        """All axes reversed."""
        return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Tensor:
        """Last two axes swapped."""
        return self.permute(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    def __add__(a, b: TensorLike) -> Tensor: return OPS["add"](a, b)
    def __sub__(a, b: TensorLike) -> Tensor: return OPS["sub"](a, b)
    def __mul__(a, b: TensorLike) -> Tensor: return OPS["mul"](a, b)
    def __truediv__(a, b: TensorLike) -> Tensor: return OPS["div"](a, b)
    def __floordiv__(a, b: TensorLike) -> Tensor: return OPS["floordiv"](a, b)
    def __mod__(a, b: TensorLike) -> Tensor: return OPS["mod"](a, b)
    def __radd__(a, b: TensorLike) -> Tensor: return OPS["add"](b, a)
    def __rsub__(a, b: TensorLike) -> Tensor: return OPS["sub"](b, a)
    def __rmul__(a, b: TensorLike) -> Tensor: return OPS["mul"](b, a)
    def __rtruediv__(a, b: TensorLike) -> Tensor: return OPS["div"](b, a)
    def __rfloordiv__(a, b: TensorLike) -> Tensor: return OPS["floordiv"](b, a)
    def __rmod__(a, b: TensorLike) -> Tensor: return OPS["mod"](b, a)
    def __divmod__(a, b: TensorLike) -> tuple[Tensor, Tensor]: return a // b, a % b
    def __rdivmod__(a, b: TensorLike) -> tuple[Tensor, Tensor]: return b // a, b % a
    def __neg__(a) -> Tensor: return OPS["neg"](a)
    def __abs__(a) -> Tensor: return OPS["abs"](a)
    def __invert__(a) -> Tensor: return OPS["invert"](a)
    def __and__(a, b: TensorLike) -> Tensor: return OPS["bit_and"](a, b)
    def __or__(a, b: TensorLike) -> Tensor: return OPS["bit_or"](a, b)
    def __xor__(a, b: TensorLike) -> Tensor: return OPS["bit_xor"](a, b)
    def __lshift__(a, b: TensorLike) -> Tensor: return OPS["shift_left"](a, b)
    def __rshift__(a, b: TensorLike) -> Tensor: return OPS["shift_right"](a, b)
    def __lt__(a, b: TensorLike) -> Tensor: return OPS["less"](a, b)
    def __le__(a, b: TensorLike) -> Tensor: return OPS["less_equal"](a, b)
    def __gt__(a, b: TensorLike) -> Tensor: return OPS["greater"](a, b)
    def __ge__(a, b: TensorLike) -> Tensor: return OPS["greater_equal"](a, b)
    def __eq__(a, b: TensorLike) -> Tensor: return OPS["equal"](a, b)  # type: ignore[override]
    def __ne__(a, b: TensorLike) -> Tensor: return OPS["not_equal"](a, b)  # type: ignore[override]
    __hash__ = object.__hash__

    if TYPE_CHECKING:  # ops that `clnet.ops.methods` hangs here: they have rules of their own before they record

        def __pow__(a, b: TensorLike) -> Tensor: ...
        def __rpow__(a, b: TensorLike) -> Tensor: ...
        def __matmul__(a, b: TensorLike) -> Tensor: ...
        def __rmatmul__(a, b: TensorLike) -> Tensor: ...
        def __getitem__(self, key: object) -> Tensor: ...
        def reshape(self, *shape: int | Sequence[int]) -> Tensor: ...
        def permute(self, *order: int | Sequence[int]) -> Tensor: ...
        def expand(self, *shape: int | Sequence[int]) -> Tensor: ...
        def astype(self, dtype: object) -> Tensor: ...
        def sum(self, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor: ...
        def mean(self, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor: ...
        def max(self, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor: ...
        def min(self, axes: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor: ...
        def detach(self) -> Tensor: ...

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise UseError(unchanging(type(self).__name__))

    def __getattr__(self, name: str) -> Any:
        raise lacking(self, name, meant)

    def __len__(self) -> int:
        if not self.shape:
            raise UseError("len: expected a tensor with at least one axis; got a scalar; .item() is its value.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        n, wanted = len(self), unpacked(sys._getframe(1))
        if wanted not in (None, n):
            raise UseError(
                f"unpacking: expected {n} names for a tensor of shape {self.shape}, one a row; got {wanted}; an op or "
                "a layer gives one tensor where PyTorch's gives several: argmax(x, axis), argsort(x, axis) say where; "
                "LSTM(..., return_state=True) gives states.")
        return (self[i] for i in range(n))

    def __round__(self, digits: int | None = None) -> Any: return round(self._one("round"), digits)

    def __bool__(self) -> bool:
        return bool(self._one("bool", "; say what is meant: clnet.ops.max(x) for any, clnet.ops.min(x) for all"))

    def __float__(self) -> float: return float(self._one("float"))
    def __int__(self) -> int: return int(self._one("int"))
    def __format__(self, spec: str) -> str: return format(self._one("format"), spec) if spec else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.numpy(), dtype)

    def __dlpack__(self, **_: Any) -> Any: return np.require(self.numpy(), requirements="W").__dlpack__()
    def __dlpack_device__(self) -> tuple[int, int]: return (1, 0)

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number. Raises UseError for another."""
        return self._one("item")

    def tolist(self) -> Any:
        """The values as (nested lists of) Python numbers."""
        return self.numpy().tolist()

    def _one(self, who: str, way_out: str = "; index it, or take all with .tolist() or .numpy()") -> Any:
        if self.size != 1:
            raise UseError(f"{who}: expected a tensor of one element; got {self.spec}{way_out}.")
        return self.numpy().item()

    @property
    def device(self) -> Device:
        """The Device in whose memory the value lies; where it has not been computed, the one that would compute it."""
        t = self.tensor
        engine: Engine = t.storage.engine if t.storage is not None else t.home or current()
        return engine.device

    def numpy(self, engine: Engine | None = None) -> np.ndarray[Any, Any]:
        """The value on the host. Runs what is needed, on the current engine or the one given."""
        t = self.tensor
        if engine is not None:
            return engine.values([t])[0]
        home = t.home or current()
        if t.value is None:
            if (value := home.on_host(t)) is not None:
                return value
            flush([t])
        return home.values([t])[0]

    def realize(self) -> Self:
        """Runs what is needed, leaves the value on the device."""
        flush([self.tensor])
        return self
