"""Every public op is called with each argument replaced by what makes no sense: it says so in clnet's words, or its
shape and values are the formula's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.op import Op
from clnet.core.tensor import Operators, Tensor, as_tensor, tensor
from clnet.engine import on
from clnet.engine.reference import NumpyEngine
from clnet.errors import ClnetError
from clnet.facade import OPERATIONS
from clnet.facade.operation import Operation
from clnet.workbench.evidence.calls import CALLS, IMAGE, X, draw


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


FUNCTIONS = {n: f for n in dir(F) if not n.startswith("_") and n != "checkpoint"
             and (isinstance(f := getattr(F, n), Op) or inspect.isfunction(f))}
PLAIN = [7, -9, -1, 0, 2.5, 1.0, True, np.int64(1), float("nan"), 1 << 80, (), [], (7,), (-1, 2), (0, 0), (2.5, 1),
         (1, 1, 1), "axis", None, np.array([1, 2]), np.array(1)]
TENSORS = [tensor(np.float32(2)), draw(0), draw(0, 3), draw(2, 0), draw(1, 1, 1, 1, 1, 1),
           tensor(np.array([[1, -7, 3], [0, 9, 2]], np.int32)), np.array([True, False]), np.array([], np.int64),
           "text", None, [], [[1.0, 2.0], [3.0]], 1 << 80]
# whatever is true is True
FLAGS = {"keepdims", "equal_nan", "descending", "largest", "return_inverse", "return_counts",
         "causal", "ceil_mode", "reverse", "training", "transpose", "transpose_a", "transpose_b"}


def calls(name: str) -> dict[str, Any]:
    op = FUNCTIONS[name]
    if isinstance(op, Op):
        own = {"grid_sample": dict(x=IMAGE, grid=draw(2, 3, 3, 2))}.get(name)
        return own or {a: X if op.accepts in ("any", "float", "single", "number") else np.array([[1, 2, 3]], np.int32)
                       for a in op.args}
    return CALLS[name]


def call(name: str, arguments: dict[str, Any]) -> Any:
    function = FUNCTIONS[name]
    if isinstance(function, Op):
        return function(*arguments.values())
    named = {k: v for k, v in arguments.items() if k != "*"}
    if "*" not in arguments:
        return function(**named)
    more = arguments["*"]
    return function(*named.values(), *(more if isinstance(more, tuple) else (more,)))


def outputs(y: Any) -> list[Tensor]:
    """The tensors of a result, of tuples in it too."""
    parts = y if isinstance(y, (tuple, list)) else [y]
    inner = [p for part in parts for p in (part if isinstance(part, (tuple, list)) else (part,))]
    return [as_tensor(p) for p in inner if isinstance(p, Operators)]


def is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) or (isinstance(value, (tuple, list))
                                                       and any(isinstance(v, Tensor) for v in value))


def slips(function: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> list[str]:
    """What goes wrong for an argument of function(arguments), one line a slip."""
    found = []
    for argument, good in given.items():
        if argument in FLAGS or callable(good):
            continue
        for odd in TENSORS if is_tensor(good) else [*TENSORS, *PLAIN] if good is None else PLAIN:
            try:
                tensors = outputs(function({**given, argument: odd}))
                for t, value in zip(tensors, NumpyEngine().values(tensors), strict=True):
                    if value.shape != t.shape:
                        found.append(f"{argument}={odd!r}: recorded {t.shape}, computed {value.shape}")
            except ClnetError as error:
                if ": " not in str(error):
                    found.append(f"{argument}={odd!r}: who said {error}?")
            except Exception as error:
                found.append(f"{argument}={odd!r}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_arguments_that_make_no_sense(name: str) -> None:
    outputs(call(name, calls(name)))
    assert not (wrong := slips(lambda arguments: call(name, arguments), calls(name))), "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(n for n, o in OPERATIONS.items() if isinstance(o, Operation)))
def test_operations_of_the_facade(name: str) -> None:
    operation = OPERATIONS[name]
    tensors, attributes = operation.examples[-1]
    names = [p.name for p in inspect.signature(operation.function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    optional = {n: inspect.signature(operation.function).parameters[n].default for n in names}
    given = {str(k): draw(*t) if isinstance(t, tuple) else t for k, t in enumerate(tensors)} | optional | attributes

    def function(arguments: dict[str, Any]) -> Any:
        return operation(*(arguments[str(k)] for k in range(len(tensors))), **{n: arguments[n] for n in names})

    outputs(function(given))
    assert not (wrong := slips(function, given)), "\n".join(wrong)
