"""A recorded function on an engine without plans: the graph is evaluated at each call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.recording import eager
from ..core.spec import Spec
from ..core.state import capture
from ..core.tensor import Tensor, as_tensor
from .replay import tracing

if TYPE_CHECKING:
    from .protocol import Engine


class Evaluation:
    """The recorded graph on an engine that evaluates graphs directly."""

    turns: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()

    def __init__(self, fn: Callable[..., Any], specs: Sequence[Spec], engine: Engine) -> None:
        self.fn, self.engine = fn, engine

    def __call__(self, *inputs: Any) -> Any:
        with tracing:
            return self._run(inputs)

    def values(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """The results as arrays."""
        found = self(*inputs)
        return tuple(np.asarray(t.numpy()) for t in (found if isinstance(found, tuple) else (found,)))

    def _run(self, inputs: Sequence[Any]) -> Any:
        with eager(False), capture(again=True) as before:
            try:
                result = self.fn(*(as_tensor(i) for i in inputs))
                single = not isinstance(result, (tuple, list))
                outputs = [as_tensor(t) for t in ([result] if single else result)]
                self.engine.run([*outputs, *(v.tensor for v in before)])
            except BaseException:
                for v, old in before.items():
                    v._tensor = old
                raise
        for v in before:
            v.settle()
        leaves = [Tensor(None, (), {}, t.spec, t.value, t.storage) if t.op is not None else t for t in outputs]
        return leaves[0] if single else tuple(leaves)
