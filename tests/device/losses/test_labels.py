"""Labels of every integer type, and of bool: the loss and its slope are those of int64 labels, wherever the labels are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import losses
from clnet import ops as F
from clnet.core.spec import INTS
from clnet.core.tensor import tensor
from clnet.errors import DataError, DTypeError
from clnet.losses import Loss

DRAW = np.random.default_rng(5)
LOSSES: dict[str, Any] = {name: cls for name, cls in Loss.registry.items() if cls.labels}


def drawn(value: Any) -> Any:
    return np.abs(DRAW.uniform(0.1, 1.0, value)).astype(np.float32) if isinstance(value, tuple) else np.asarray(value)


def example(cls: Any) -> tuple[Loss, list[Any]]:
    """The first example with labels: the loss and its inputs."""
    for fields, *inputs in cls.examples:
        arrays = [drawn(v) for v in inputs]
        if any(a.dtype.kind == "i" for a in arrays):
            return cls(**fields), arrays
    raise AssertionError(f"{cls.__name__}: expected an example with labels")


def test_losses_with_labels_say_so() -> None:
    assert {"CrossEntropyLoss", "SparseCategoricalCrossEntropyLoss", "MarginLoss", "OrdinalRegressionLoss",
            "DistillationLoss", "CTCLoss"} <= LOSSES.keys()


@pytest.mark.parametrize("on_device", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_any_integers(name: str, on_device: bool, engine: Any) -> None:
    """One graph for all dtypes, so that it is planned once."""
    loss, inputs = example(LOSSES[name])
    found: list[Any] = []
    for dtype in ("int64", *INTS):
        given = [(tensor(a.astype(dtype)) + 0 if on_device else a.astype(dtype)) if a.dtype.kind == "i" else a
                 for a in inputs]
        found += [*loss.value_and_grad(*given)]
    values = engine.values(found)
    for k, dtype in enumerate(INTS, 1):
        assert np.isfinite(values[0]).all(), name
        np.testing.assert_allclose(values[2 * k], values[0], rtol=1e-6, err_msg=dtype)
        np.testing.assert_allclose(values[2 * k + 1], values[1], rtol=1e-5, atol=1e-7, err_msg=dtype)


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - {"CTCLoss"}))
def test_bools(name: str, engine: Any) -> None:
    loss, inputs = example(LOSSES[name])
    whole = [a % 2 if a.dtype.kind == "i" else a for a in inputs]
    truth = [a.astype(bool) if a.dtype.kind == "i" else a for a in whole]
    a, da, b, db = engine.values([*loss.value_and_grad(*whole), *loss.value_and_grad(*truth)])
    np.testing.assert_allclose(b, a, rtol=1e-6)
    np.testing.assert_allclose(db, da, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64", "uint64"])
def test_weights_smoothing_and_what_is_ignored(dtype: str, engine: Any) -> None:
    z, labels = tensor(DRAW.normal(size=(6, 4)).astype(np.float32)), np.array([0, 3, 1, 3, 2, 0])
    for fields in (dict(weight=(1.0, 2.0, 0.5, 3.0)), dict(weight=(1.0, 2.0, 0.5, 3.0), label_smoothing=0.1),
                   dict(ignore_index=3), dict(ignore_index=255)):
        loss = losses.CrossEntropyLoss(**fields)
        a, b = engine.values([loss(z, labels), loss(z, labels.astype(dtype))])
        np.testing.assert_allclose(b, a, rtol=1e-6)


def test_labels_that_are_no_class_are_none_in_64_bits_either(engine: Any) -> None:
    """2³² + 1 is not class 1, where only the device knows the labels."""
    z, far = tensor(np.zeros((2, 3), np.float32)), tensor(np.array([1, (1 << 32) + 1])) + 0
    rows = [F.cross_entropy(z, far), F.cross_entropy(z, far, smoothing=0.1, weight=np.ones(3, np.float32)),
            F.cross_entropy(z[:, :1], far)]
    assert [np.isnan(v).tolist() for v in engine.values(rows)] == [[False, True], [False, True], [True, True]]
    with pytest.raises(DataError, match="expected labels in"):
        F.cross_entropy(z, np.array([1, (1 << 32) + 1]))
    with pytest.raises(DTypeError, match="expected integer labels"):
        losses.SparseCategoricalCrossEntropyLoss()(z, np.float32([0, 1]))
