"""Every registered loss on every device: value and slope, independent values, training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet.core.tensor import tensor
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss, Loss, MSELoss, SparseCategoricalCrossEntropyLoss
from clnet.model import Sequential
from clnet.optimizers import Adam
from clnet.train import Trainer
from clnet.workbench.evidence.golden import compare as golden_values
from clnet.workbench.evidence.layer_checks import loss_parity, slope
from clnet.workbench.evidence.registry import load_all, make_loss, subjects

load_all()
LOSSES = sorted(Loss.registry)
EXAMPLES = [pytest.param(Loss.registry[name], k, id=f"{name}-{k}") for name in LOSSES
            for k in range(len(Loss.registry[name].examples))]
ALL = [pytest.param(Loss.registry[name], id=name) for name in LOSSES]


def given(loss: Loss, inputs: list[Any]) -> list[Any]:
    return [tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]


# --- values and slopes
@pytest.mark.parametrize(("cls", "k"), EXAMPLES)
def test_value_and_slope(cls: type[Loss], k: int, engine: Any) -> None:
    if k and engine.device.runtime == "pocl":
        pytest.skip("first example only: its compiler is slow")
    result = loss_parity(cls, k, engine)
    assert result, str(result)


@pytest.mark.parametrize("cls", ALL)
def test_independent_values(cls: type[Loss], engine: Any) -> None:
    (subject,) = subjects(["loss"], cls.__name__)
    found = golden_values(subject, engine)
    assert len(found) >= 2
    assert all(found), "; ".join(str(r) for r in found if not r)


@pytest.mark.parametrize("cls", ALL)
def test_value_and_grad_is_one_with_the_separate_calls(cls: type[Loss], engine: Any) -> None:
    loss, inputs = make_loss(cls)
    got = slope(loss, *given(loss, inputs), engine=engine)
    want = slope(loss, *given(loss, inputs))
    assert len(got) == 1 + (loss.differentiated if isinstance(inputs[0], np.ndarray) else len(inputs[0].parameters()))
    np.testing.assert_allclose(got[0], loss(*given(loss, inputs)).numpy(), rtol=1e-6)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


# --- training
RNG = np.random.default_rng(0)
X = RNG.standard_normal((48, 4)).astype(np.float32)
SCORE = (X @ np.array([1.0, -2.0, 0.5, 1.5], np.float32))[:, None]
TRAINED: dict[str, tuple[dict[str, Any], int, str | None, Any]] = {  # fields, outputs, last activation, target
    **dict.fromkeys(("MSELoss", "MAELoss", "RMSELoss", "HuberLoss", "LogCoshLoss", "QuantileLoss", "CharbonnierLoss",
                     "ElasticNetLoss"), ({}, 1, None, SCORE)),
    **dict.fromkeys(("HingeLoss", "SquaredHingeLoss", "ExponentialLoss", "ModifiedHuberLoss", "WassersteinLoss"),
                    ({}, 1, None, np.sign(SCORE))),
    **dict.fromkeys(("BCELoss", "FocalLoss"), (dict(from_logits=True), 1, None, (SCORE > 0).astype(np.float32))),
    **dict.fromkeys(("WeightedCrossEntropyLoss", "DiceLoss", "JaccardLoss"),
                    ({}, 1, "sigmoid", (SCORE > 0).astype(np.float32))),
    "CrossEntropyLoss": ({}, 3, None, np.digitize(SCORE[:, 0], (-1, 1))),
    "MarginLoss": ({}, 3, "sigmoid", np.digitize(SCORE[:, 0], (-1, 1))),
    "SparseCategoricalCrossEntropyLoss": ({}, 3, "softmax", np.digitize(SCORE[:, 0], (-1, 1))),
    "OrdinalRegressionLoss": (dict(num_classes=3), 1, None, np.digitize(SCORE[:, 0], (-1, 1))),
    **dict.fromkeys(("CategoricalCrossEntropyLoss", "KLDivLoss"),
                    ({}, 3, "softmax", np.eye(3, dtype=np.float32)[np.digitize(SCORE[:, 0], (-1, 1))])),
    "PoissonLoss": (dict(log_input=True), 1, None, np.floor(np.exp(SCORE.clip(-1, 2)))),
    "ScaleInvariantDepthLoss": ({}, 4, "softplus", np.exp(X)),
    "CosineSimilarityLoss": ({}, 3, None, X[:, :3]), "QuantumLoss": ({}, 4, None, X),
}


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_a_trainer_makes_it_smaller(name: str, engine: Any) -> None:
    if engine.device.runtime == "pocl" and name not in ("HingeLoss", "OrdinalRegressionLoss"):
        pytest.skip("two of them: its compiler is slow")
    fields, outputs, last, target = TRAINED[name]
    loss = Loss.registry[name](**fields)
    trainer = Trainer(Sequential(Dense(out_features=outputs, activation=last)), loss, Adam(lr=0.05), metrics=())
    history = trainer.fit((X, target), epochs=6, batch_size=16, verbose=False)
    losses = history["loss"]
    assert losses[-1] < losses[0]
    assert np.isfinite(losses).all()


# --- data and fields that cannot be
def test_a_label_only_the_device_has_gives_nan(engine: Any) -> None:
    labels = tensor(np.array([1, 3], np.int32)) + 0
    for loss in (CrossEntropyLoss(reduction="none"), SparseCategoricalCrossEntropyLoss(reduction="none")):
        value = loss(np.full((2, 3), 0.3, np.float32), labels).numpy()
        assert np.isfinite(value[0])
        assert np.isnan(value[1])


def test_float64_targets_do_not_widen_the_loss(engine: Any) -> None:
    p = tensor(np.zeros((2, 3), np.float32))
    assert MSELoss()(p, np.ones((2, 3))).dtype == "float32"
    assert MSELoss()(p, np.ones((2, 3), np.int64)).item() == 1.0
