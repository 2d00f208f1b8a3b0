"""What people write first of tensors and ops, who come from NumPy, Keras or PyTorch: it works, or the sentence says
what does. Rows as in test_habits.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clnet import ops
from clnet.core.tensor import tensor
from clnet.layers import Dense
from clnet.model import Sequential

Row = tuple[str, Callable[[], Any], Any]

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(12, 6)).astype(np.float32)  # samples of six numbers
LABELS = np.arange(12, dtype=np.int32) % 2


# Tensors and what is done with them; arguments of ops.
TENSORS: list[Row] = [
    ("t.tolist()", lambda: (tensor([[1.0, 2.0]]) + 1).tolist(), [[2.0, 3.0]]),
    ("t.item()", lambda: (tensor(2.0) * 3).item(), 6.0),
    ("len(t)", lambda: len(tensor(TABLE)), 12),
    ("for row in t", lambda: [row.tolist() for row in tensor([[1, 2], [3, 4]])], [[1, 2], [3, 4]]),
    ("format(t, '.2f')", lambda: f"{tensor(2.0) / 3:.2f}", lambda text: text == "0.67"),
    ("t.detach()", lambda: (tensor([1.0]) * 2).detach().tolist(), [2.0]),
    ("t.device", lambda: tensor([1.0]).device.key, lambda key: isinstance(key, str)),
    ("hasattr(t, 'cuda')", lambda: hasattr(tensor([1.0]), "cuda"), False),
    ("np.asarray(t)", lambda: np.asarray(tensor([1.0]) + 1).tolist(), [2.0]),
    ("t[0] = 1", lambda: tensor([1.0, 2.0]).__setitem__(0, 1), r"never changes; make a new one \(clnet.ops.where"),
    ("t.add_(1)", lambda: tensor([1.0]).add_(1), "never changes"),
    ("t.backward()", lambda: tensor([1.0]).backward(), r"clnet\.gradients\(y, \[x, w\]\)"),
    ("t.grad", lambda: tensor([1.0]).grad, r"clnet\.gradients"),
    ("t.cuda()", lambda: tensor([1.0]).cuda(), r'clnet\.use\("gpu"\)'),
    ("t.to('cpu')", lambda: tensor([1.0]).to("cpu"), r"model\.use\(\.\.\.\) moves a model"),
    ("t.float()", lambda: tensor([1]).float(), r'x\.astype\("float32"\)'),
    ("t.expand_dims(0)", lambda: tensor([1.0]).expand_dims(0), r"x\[None\]"),
    ("t.gelu()", lambda: tensor([[1.0]]).gelu(), r"write clnet\.ops\.gelu\(x\)"),
    ("t.unsqueeze(0)", lambda: tensor([1.0]).unsqueeze(0).view(1, 1, -1).shape, (1, 1, 1)),
    ("t.std(0)", lambda: tensor([[1.0], [3.0]]).std(0).numpy().tolist(), [1.0]),
    ("t.topk(2)", lambda: tensor([1.0, 3.0, 2.0]).topk(2)[0].numpy().tolist(), [3.0, 2.0]),
    ("t.exp().clamp(1, 2)", lambda: tensor([0.0, 9.0]).exp().clamp(1, 2).numpy().tolist(), [1.0, 2.0]),
    ("t.exp(2)", lambda: tensor([0.0]).exp(2), r"exp: expected arguments \(\); got 1 by position"),
    ("t.reshap(1)", lambda: tensor([1.0]).reshap(1), "did you mean 'reshape'"),
    ("parameter.to('cpu')",
     lambda: Sequential(Dense(out_features=2)).build((6,)).parameters()[0].to("cpu"), r"model\.use"),
    ("float(of two)", lambda: float(tensor([1.0, 2.0])), r"float: expected a tensor of one element; got float32\[2\]"),
    ("bool(of several)", lambda: bool(tensor([1.0, 2.0]) > 1),
     r"bool: expected a tensor of one element; got bool\[2\]; .* any"),
    ("item() of two", lambda: tensor([1.0, 2.0]).item(),
     r"item: expected a tensor of one element; got float32\[2\]; .*tolist"),
    ("len(scalar)", lambda: len(tensor(1.0)), "len: expected a tensor with at least one axis"),
    ("tensor(ragged)", lambda: tensor([[1, 2], [3]]), "expected lists of equal length"),
    ("tensor('text')", lambda: tensor("text"), "dtype: expected one of"),
]

OPS: list[Row] = [
    ("x[x > 0]", lambda: tensor(TABLE)[tensor(TABLE) > 0].numpy().tolist(), TABLE[TABLE > 0].tolist()),
    ("x[labels == 1]", lambda: tensor(TABLE)[LABELS == 1].shape, (6, 6)),
    ("zeros(3)", lambda: ops.zeros(3).shape, (3,)),
    ("labels == -100", lambda: (tensor(LABELS.astype(np.uint8)) == -100).numpy().any(), False),
    ("sum(x, 1.0)", lambda: ops.sum(tensor(TABLE), 1.0), r"got 1\.0; write 1\.$"),
    ("int + 2 ** 40", lambda: tensor(LABELS) + 2**40, "which int32 can hold; .*cast"),
]

# Arguments of functions and methods by other names, too many, too few, twice.
CALLS: list[Row] = [
    ("sum(x, axis=1)", lambda: ops.sum(TABLE, axis=1).tolist(), TABLE.sum(1).tolist()),
    ("sum(x, dim=1)", lambda: ops.sum(TABLE, dim=1).tolist(), TABLE.sum(1).tolist()),
    ("softmax(x, dim=1)", lambda: ops.softmax(TABLE, dim=0).tolist() == ops.softmax(TABLE, 0).tolist(), True),
    ("argmax(x, dim=1)", lambda: ops.argmax(TABLE, dim=1).tolist(), TABLE.argmax(1).tolist()),
    ("sum(x, axsi=1)", lambda: ops.sum(TABLE, axsi=1),
     r"^sum: expected arguments \(x, axes, keepdims\); got 'axsi'; did you mean 'axes'\?$"),
    ("sum(x, axis=1, dim=0)", lambda: ops.sum(TABLE, axis=1, dim=0), r"^sum: .*; got 'dim'; did you mean 'axes'\?$"),
    ("var(x, unbiased=True)", lambda: ops.var(TABLE, unbiased=True), r"did you mean 'ddof'\?$"),
    ("var(x, dim=1)", lambda: ops.var(TABLE, dim=1), r"got 'dim'; PyTorch divides by n - 1, NumPy by n: write axes="),
    ("max(x, keepdim=True)", lambda: ops.max(TABLE, keepdim=True).tolist(), TABLE.max(keepdims=True).tolist()),
    ("x.mean(dim=0)", lambda: tensor(TABLE).mean(dim=0).shape, TABLE.mean(0).shape),
    ("np.mean(x)", lambda: np.mean(tensor(TABLE)).shape, ()),
    ("np.sum(x, axis=0)", lambda: np.sum(tensor(TABLE), axis=0).shape, (6,)),
    ("np.sum(x, out=y)", lambda: np.sum(tensor(TABLE), out=np.zeros(())),
     r"NumPy's functions take arrays: x\.numpy\(\)\.$"),
    ("x.reshape(shape=(6, 12))", lambda: tensor(TABLE).reshape(shape=(6, 12)),
     r"^reshape: .*got 'shape'; write its values without the name\.$"),
    ("x.sum(0, 1, 2)", lambda: tensor(TABLE).sum(0, 1, 2),
     r"got 3 by position, where 2 may be; leave out the others\.$"),
    ("sum(x, 0, axes=0)", lambda: ops.sum(TABLE, 0, axes=0), r"got 'axes' by position and by name; leave one out\.$"),
    ("x.astype()", lambda: tensor(TABLE).astype(), r"^astype: .*got no 'dtype'; pass it, too\.$"),
    ("tensor(x, dtype=x)", lambda: tensor(TABLE, dtype=tensor(TABLE)), r"^dtype: expected one of bool"),
    ("linear(x)", lambda: ops.linear(TABLE), r"^linear: .*got no 'weight'; pass it, too\.$"),
    ("relu(x, inplace=True)", lambda: ops.relu(TABLE, inplace=True),
     r"^relu: expected x and nothing more; got inplace"),
]

ROWS = {f"{subject}: {name}": (call, expected)
        for subject, rows in {"tensors": TENSORS, "ops": OPS, "calls": CALLS}.items() for name, call, expected in rows}


@pytest.mark.cheap
@pytest.mark.parametrize("row", ROWS)
def test_habit(shows: Callable[[Any, Any], None], row: str) -> None:
    shows(*ROWS[row])


def test_every_row_has_a_name_of_its_own() -> None:
    assert len(ROWS) == len(TENSORS) + len(OPS) + len(CALLS)
