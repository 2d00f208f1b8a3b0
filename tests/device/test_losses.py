"""Every registered loss on every device: value and slope, PyTorch's values, reductions, extremes, data that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clnet.errors import ConfigError, DataError, DTypeError, ShapeError
from clnet.losses import BCELoss, CategoricalCrossEntropyLoss, CrossEntropyLoss, Loss, MSELoss
from clnet.tensor import tensor
from clnet.workbench.layer_checks import loss_parity, round_trip, slope
from clnet.workbench.registry import draw, load_all

load_all()
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "loss"
EXAMPLES = [pytest.param(cls, k, id=f"{name}-{k}") for name, cls in sorted(Loss.registry.items()) for k in range(len(cls.examples))]
FIRST = [p for p in EXAMPLES if p.values[1] == 0]
KEPT = [p for p in EXAMPLES if (GOLDEN / f"{p.values[0].__name__}.npz").is_file()]


@pytest.mark.device
@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_value_and_slope(cls: type[Loss], k: int, device: Any) -> None:
    if k and device.device.runtime == "pocl":
        pytest.skip("first example only: its compiler is slow")
    result = loss_parity(cls, k, device)
    assert result, str(result)


@pytest.mark.parametrize(("cls", "k"), KEPT)
def test_golden(cls: type[Loss], k: int) -> None:
    kept = np.load(GOLDEN / f"{cls.__name__}.npz")
    target = kept[f"{k}.target"]
    target = target.astype(np.float64) if target.dtype.kind == "f" else target
    value, g = slope(cls(**cls.examples[k][0]), kept[f"{k}.in.0"].astype(np.float64), target)
    np.testing.assert_allclose(value, kept[f"{k}.out.0"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(g, kept[f"{k}.grad.0"], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("cls", "k"), FIRST)
def test_reductions_agree(cls: type[Loss], k: int) -> None:
    fields, *wanted = cls.examples[k]
    prediction, *targets = draw(wanted, cls.__name__)
    each, total = (cls(**{**fields, "reduction": r})(prediction, *targets).numpy() for r in ("none", "sum"))
    assert total.shape == ()
    np.testing.assert_allclose(each.sum(), total, rtol=1e-5)


@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_configuration_round_trip(cls: type[Loss], k: int) -> None:
    loss = cls(**cls.examples[k][0])
    result = round_trip(loss)
    assert result, str(result)
    assert all(Loss.lookup(name) is cls for name in (cls.__name__, cls.spec_name, *cls.aliases))


@pytest.mark.device
@pytest.mark.parametrize(("cls", "k"), FIRST)
def test_value_and_grad(cls: type[Loss], k: int, device: Any) -> None:
    fields, *wanted = cls.examples[k]
    prediction, *targets = draw(wanted, cls.__name__)
    value, g = cls(**fields).value_and_grad(prediction, *targets)
    want = slope(cls(**fields), prediction, *targets)
    np.testing.assert_allclose(value.numpy(), want[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(g.numpy(), want[1], rtol=1e-5, atol=1e-6)


# --- extremes
@pytest.mark.device
def test_logits_of_any_size(device: Any) -> None:
    z = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [200.0, 88.0, -88.0]], np.float32)
    value, g = slope(CrossEntropyLoss(reduction="none"), z, np.array([1, 0, 2]), device)
    np.testing.assert_allclose(value, [2e4, np.log(3), 288], rtol=1e-6)
    assert np.isfinite(g).all()
    np.testing.assert_allclose(g[0], [1, -1, 0], atol=1e-6)
    value, g = slope(BCELoss(from_logits=True, reduction="none"), z, (z > 0).astype(np.float32), device)
    assert np.isfinite(value).all() and np.isfinite(g).all()
    np.testing.assert_allclose(value[0], [0, 0, np.log(2)], atol=1e-6)
    value, g = slope(BCELoss(from_logits=True, reduction="none", pos_weight=(2.0,)), z, (z < 0).astype(np.float32), device)
    np.testing.assert_allclose(value[0], [1e4, 2e4, np.log(2)], rtol=1e-6)
    assert np.isfinite(g).all()


@pytest.mark.device
def test_probabilities_0_and_1(device: Any) -> None:
    p = np.array([0.0, 1.0, 0.0, 1.0], np.float32)
    y = np.array([0.0, 1.0, 1.0, 0.0], np.float32)
    value, g = slope(BCELoss(reduction="none"), p, y, device)
    np.testing.assert_allclose(value, [0, 0, 100, 100], atol=1e-5)
    assert np.isfinite(g).all()
    rows = np.eye(3, dtype=np.float32)
    value, g = slope(CategoricalCrossEntropyLoss(reduction="none"), rows, np.roll(rows, 1, 1), device)
    np.testing.assert_allclose(value, -np.log([1e-12] * 3), rtol=1e-5)
    assert np.isfinite(g).all()


@pytest.mark.device
def test_nothing_left_is_zero(device: Any) -> None:
    z = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    for loss in (CrossEntropyLoss(), CrossEntropyLoss(weight=(1.0, 2.0, 3.0, 4.0), label_smoothing=0.1)):
        value, g = slope(loss, z, np.full(3, -100), device)
        assert value == 0 and (g == 0).all()


@pytest.mark.device
def test_a_label_only_the_device_has_gives_nan(device: Any) -> None:
    z, labels = np.zeros((2, 3), np.float32), tensor(np.array([1, 3], np.int32)) + 0
    value = CrossEntropyLoss(reduction="none")(z, labels).numpy()
    assert np.isfinite(value[0]) and np.isnan(value[1])


@pytest.mark.device
def test_float64_targets_do_not_widen_the_loss(device: Any) -> None:
    p = tensor(np.zeros((2, 3), np.float32))
    assert MSELoss()(p, np.ones((2, 3))).dtype == "float32"
    assert MSELoss()(p, np.ones((2, 3), np.int64)).item() == 1.0


# --- data and fields that cannot be
@pytest.mark.parametrize(("loss", "prediction", "target", "error", "words"), [
    (CrossEntropyLoss(), np.zeros((3, 4)), np.array([0, 4, 1]), DataError, "got 4 at index 1"),
    (CrossEntropyLoss(), np.zeros((3, 4)), np.array([0, 1, -1]), DataError, "got -1 at index 2"),
    (CrossEntropyLoss(), np.zeros((2, 3, 2)), np.array([[0, 1], [9, 0]]), DataError, r"got 9 at index \(1, 0\)"),
    (CrossEntropyLoss(), np.zeros((3, 4)), np.array([0.0, 1.0, 2.0]), DTypeError, "integer labels"),
    (CrossEntropyLoss(), np.zeros((3, 4)), np.array([0, 1]), ShapeError, "classes go on axis 1"),
    (CrossEntropyLoss(weight=(1.0, 2.0)), np.zeros((3, 4)), np.array([0, 1, 2]), ConfigError, "one weight per class, 4; got 2"),
    (BCELoss(), np.full((2,), 1.5), np.ones(2), DataError, "from_logits=True"),
    (BCELoss(), np.full((2,), 0.5), np.array([1.0, 2.0]), DataError, "target in"),
    (CategoricalCrossEntropyLoss(), np.zeros(3), np.zeros(3), ShapeError, "classes go on axis 1"),
    (MSELoss(), np.zeros((3, 1)), np.zeros(3), ShapeError, "reshape one of them"),
])
def test_errors(loss: Loss, prediction: Any, target: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        loss(prediction, target)
