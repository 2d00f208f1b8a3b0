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
from clnet.ops.scan import gru_cell


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def draw(*shape: int) -> Tensor:
    return tensor(np.linspace(0.1, 0.9, int(np.prod(shape)), dtype=np.float32).reshape(shape))


X, IMAGE, INDEX = draw(2, 3), draw(2, 4, 5, 6), np.array([1, 0], np.int32)

# A call of every function; ops (F.exp, say) are called with X for each operand.
CALLS: dict[str, dict[str, Any]] = {
    "activation": dict(what="relu"), "adaptive_avg_pool": dict(x=IMAGE, size=(2, 3)),
    "affine_grid": dict(theta=draw(1, 2, 3), size=(2, 3)), "arange": dict(n=3, dtype="int32"),
    **{n: dict(x=X, axes=(0, 1), keepdims=True) for n in ("argmax", "argmin", "max", "min", "sum", "mean", "prod",
                                                          "logsumexp")},
    "attention": dict(q=draw(1, 2, 3, 4), k=draw(1, 2, 5, 4), v=draw(1, 2, 5, 3), mask=None, causal=False, scale=None),
    "packed_attention": dict(q=draw(5, 2, 4), k=draw(6, 1, 4), v=draw(6, 1, 3), offsets=np.array([0, 3, 5]),
                             key_offsets=np.array([0, 2, 6]), causal=False, scale=None),
    "packed_steps": dict(offsets=np.array([0, 2, 3]), longest=2),
    "pad_packed": dict(x=X, steps=np.array([[0, -1], [1, -1]])),
    "pack_padded": dict(x=X, steps=np.array([[0, 1, -1], [2, -1, -1]]), count=3),
    **{n: dict(x=X, axes=(0, 1), keepdims=True) for n in ("any", "all", "norm")},
    "std": dict(x=X, axes=1, keepdims=False, ddof=1), "log_variance": dict(x=X, axis=1, keepdims=False, eps=0.1),
    "squash": dict(x=X, axis=0, eps=0.1), "bilinear": dict(x=IMAGE, px=draw(2, 3), py=draw(2, 3), padding="border"),
    "segment_sum": dict(x=draw(3, 4), offsets=np.array([0, 1, 3])),
    **{n: dict(x=X, axis=1, descending=True) for n in ("sort", "argsort")},
    "topk": dict(x=X, k=2, axis=1, largest=False),
    **{n: dict(x=X, axis=1) for n in ("cumsum", "cumprod", "cummax", "logcumsumexp")},
    "clamp": dict(x=X, low=0.2, high=0.7), "digamma": dict(x=X), "lerp": dict(x=X, y=X, weight=0.5),
    "tril": dict(x=X, k=1), "triu": dict(x=X, k=0), "diag": dict(x=X, k=1), "roll": dict(x=X, shift=1, axis=0),
    "tile": dict(x=X, repeats=(2, 1)), "repeat": dict(x=X, repeats=2, axis=0), "squeeze": dict(x=draw(1, 3), axis=0),
    "unsqueeze": dict(x=X, axis=0), "swapaxes": dict(x=X, a=0, b=1), "moveaxis": dict(x=X, source=0, target=1),
    "outer": dict(x=X, y=X), "meshgrid": {"*": (draw(2), draw(3))}, "linspace": dict(start=0.0, stop=1.0, num=3,
                                                                                     dtype="float32"),
    "eye": dict(n=2, m=3, k=0, dtype="float32"), "masked_fill": dict(x=X, mask=np.array([[True], [False]]), value=0.5),
    "index_select": dict(x=X, axis=0, index=INDEX), "searchsorted": dict(row=draw(3), values=X, side="right"),
    "nonzero": dict(x=X), "unique": dict(x=X, return_inverse=True, return_counts=True),
    "bincount": dict(x=INDEX, weights=None, length=3), "histogram": dict(x=X, bins=3, range=(0.0, 1.0)),
    "diagonal": dict(x=X, k=1, a=0, b=1), "flatten": dict(x=X, start=0, end=-1), "expand_as": dict(x=draw(3), other=X),
    "narrow": dict(x=X, axis=1, start=0, length=2), "rot90": dict(x=X, k=1, a=0, b=1),
    **{n: dict(x=X, dtype="int32") for n in ("zeros_like", "ones_like")},
    "full_like": dict(x=X, value=2, dtype="int32"),
    "chunk": dict(x=X, parts=2, axis=1), "unbind": dict(x=X, axis=0), "interp": dict(x=X, xs=draw(3), ys=draw(3)),
    "tensordot": dict(x=X, y=draw(3, 2), axes=1), "kron": dict(x=X, y=X), "cross": dict(x=X, y=X, axis=-1),
    "trace": dict(x=X, k=0, a=0, b=1),
    **{n: dict(x=X) for n in ("isinf", "logit", "corrcoef")}, "cov": dict(x=X, ddof=1), "diff": dict(x=X, n=1, axis=0),
    **{n: dict(x=X, y=X) for n in ("logical_and", "logical_or", "logical_xor")},
    **{n: dict(x=X, y=X, rtol=0.1, atol=0.1, equal_nan=True) for n in ("isclose", "allclose")},
    "array_equal": dict(x=X, y=X, equal_nan=True), "nan_to_num": dict(x=X, nan=0.0, posinf=None, neginf=None),
    **{n: dict(x=X, axes=1, keepdims=True)
       for n in ("nansum", "nanmean", "nanmax", "nanmin", "median", "count_nonzero")},
    "quantile": dict(x=X, q=0.25, axes=1, keepdims=True),
    "avg_pool": dict(x=IMAGE, size=2, stride=1, padding=1, ceil_mode=True),
    "max_pool": dict(x=IMAGE, size=2, stride=1, padding=1, dilation=1),
    "max_pool_indices": dict(x=IMAGE, size=2, stride=1, padding=1, dilation=1),
    "batch_norm": dict(x=IMAGE, gamma=None, beta=None, mean=draw(4), var=draw(4), eps=1e-5, axis=1),
    "batch_norm_train": dict(x=IMAGE, gamma=draw(4), beta=None, eps=1e-5, axis=1),
    "bernoulli": dict(p=0.5, shape=(2, 3), key=1, counter=0),
    "cast": dict(x=X, dtype="int32"), "celu": dict(x=X, alpha=1.0), "clip": dict(x=X, low=0.2, high=0.7),
    "concat": dict(parts=[X, X], axis=0),
    "conv": dict(x=IMAGE, weight=draw(2, 2, 3, 3), bias=draw(2), stride=1, padding=1, dilation=1, groups=2),
    "conv_transpose": dict(x=IMAGE, weight=draw(4, 1, 3, 3), bias=draw(2), stride=2, padding=1, output_padding=1,
                           dilation=1, groups=2),
    "cross_entropy": dict(logits=X, target=INDEX, smoothing=0.1, ignore_index=-100, weight=None),
    "ctc": dict(log_probs=draw(4, 2, 3), targets=np.array([[1, 2], [2, 1]]), input_lengths=np.array([4, 3]),
                target_lengths=np.array([2, 1]), blank=0),
    "deform_conv": dict(x=IMAGE, offset=draw(2, 8, 4, 5), weight=draw(3, 4, 2, 2), bias=None, mask=None, stride=1,
                        padding=0, dilation=1),
    "div": dict(x=X, y=2), "einsum": {"equation": "ij,kj->ik", "*": (X, X)}, "elu": dict(x=X, alpha=1.0),
    "expand": {"x": X, "*": (4, 2, 3)},
    "expect_indices": dict(name="rows", index=INDEX, n=3), "flip": dict(x=X, axes=(0, 1)),
    "fold_windows": dict(x=draw(2, 4, 2), n=(5,), size=(2,), stride=(1,), dilation=(1,)),
    "full": dict(shape=(2, 3), value=1.5, dtype="float32"),
    "gather": dict(x=X, index=INDEX, axis=0), "getitem": dict(x=X, key=(0, slice(None, None, 2))),
    "gather_nd": dict(x=X, index=np.array([[1, 0], [0, 2]])),
    "put_along_axis": dict(x=X, index=np.array([[1, 0, 1]]), values=draw(1, 3), axis=0, how="add"),
    "scatter_nd": dict(index=np.array([[1], [0]]), values=X, shape=(2, 3)),
    "global_pool": dict(x=IMAGE, mode="max"),
    "group_norm": dict(x=IMAGE, num_groups=2, gamma=draw(4), beta=None, eps=1e-5),
    "gru_cell": dict(xp=draw(2, 9), h=draw(2, 3), w_hh=draw(9, 3), b_hh=draw(9)),
    **{n: dict(x=X) for n in ("hard_sigmoid", "hard_swish", "hard_tanh", "relu6", "selu", "logical_not")},
    "instance_norm": dict(x=IMAGE, gamma=None, beta=draw(4), eps=1e-5),
    "layer_norm": dict(x=X, gamma=draw(3), beta=None, eps=1e-5),
    "leaky_relu": dict(x=X, slope=0.1), "linear": dict(x=X, weight=draw(4, 3), bias=draw(4)),
    "log_softmax": dict(x=X, axis=0),
    "lstm_cell": dict(xp=draw(2, 12), state=(draw(2, 3), draw(2, 3)), w_hh=draw(12, 3), b_hh=None),
    "matmul": dict(x=X, w=draw(3, 4), alpha=2.0, beta=1.0, c=draw(2, 4)),
    "one_hot": dict(labels=INDEX, classes=3, dtype="float32"),
    "ones": dict(shape=(2, 3), dtype="float32"), "zeros": dict(shape=(2, 3), dtype="float32"),
    "pad": dict(x=X, low=(1, 0), high=(0, 1), inner=None, value=0),
    "permute": {"x": X, "*": (1, 0)}, "philox": dict(key=1, counter=0, n=5), "pixel_shuffle": dict(x=IMAGE, factor=2),
    "positions": dict(shape=(2, 3), axes=(1,)), "pow": dict(x=X, y=2),
    "recur": dict(cell=gru_cell, x=draw(2, 1, 4), state=draw(1, 3), w_ih=draw(9, 4), w_hh=draw(9, 3), b_ih=None,
                  b_hh=None, reverse=False, lengths=None),
    "reshape": {"x": X, "*": (3, -1)}, "resize": dict(x=IMAGE, size=(3, 4), mode="linear"),
    "rms_norm": dict(x=X, gamma=None, eps=1e-5),
    "rnn_cell": dict(xp=draw(2, 3), h=draw(2, 3), w_hh=draw(3, 3), b_hh=None, nonlinearity="relu"),
    "scan": dict(step=lambda s, x: (s + x, s), init=draw(3), xs=X, reverse=False, lengths=None),
    **{n: dict(source=X, index=INDEX, v=3, axis=0) for n in ("scatter_add", "scatter_max", "scatter_mean")},
    "segment_dot": dict(x=draw(3), y=draw(3), offsets=np.array([0, 1, 3])),
    "segment_spread": dict(v=draw(2), offsets=np.array([0, 1, 3]), size=3),
    "softmax": dict(x=X, axis=1, temperature=2.0, mask=None),
    "sparse_matmul": dict(values=draw(2), row=INDEX, column=INDEX, x=X, rows=2),
    "split": dict(x=X, sizes=[1, 2], axis=1), "stack": dict(parts=[X, X], axis=0),
    "take_along_axis": dict(x=X, index=np.array([[1, 0, 1]]), axis=0),
    "transpose": dict(x=X, a=0, b=1), "var": dict(x=X, axes=1, keepdims=False, ddof=1),
    "warp": dict(x=IMAGE, flow=draw(2, 2, 5, 6)),
    "windows": dict(x=IMAGE, size=(2, 2), stride=(1, 1), dilation=(1, 1)),
}
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
        return own or {a: X if op.accepts in ("any", "float", "number") else np.array([[1, 2, 3]], np.int32)
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
