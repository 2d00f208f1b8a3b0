"""The example networks on real handwritten digits: accuracy,
agreement with the reference, and equal bits, on every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import init
from clnet.engine import on
from clnet.engine.compile.plan import by_fusion
from clnet.layers import Dense
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.optimizers import Adam, CosineAnnealingLR
from clnet.train import Trainer, data
from clnet.train.examples import BATCH, EPOCHS, TARGET, digits_model, train_digits


def skip_slow(engine: Any, kind: str) -> None:
    """The larger networks take minutes of PoCL's compiler."""
    if kind != "mlp" and engine.device.runtime == "pocl":
        pytest.skip("PoCL compiles slowly; pytest -m full runs it")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in EPOCHS if k != "mlp"])
def test_digits_target_with_a_slow_compiler(kind: str, engine: Any, request: pytest.FixtureRequest) -> None:
    if engine.device.runtime != "pocl" or "slow" not in (request.config.option.markexpr or ""):
        pytest.skip("for PoCL, with pytest -m slow")
    assert train_digits(kind).passed


@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.slow) if k in ("cnn", "transformer") else k
                                  for k in EPOCHS])
def test_digits_target(kind: str, engine: Any) -> None:
    skip_slow(engine, kind)
    result = train_digits(kind)
    assert result.accuracy >= TARGET[kind], result
    assert not getattr(engine, "fallbacks", {}), engine.fallbacks


def test_state_in_bfloat16_trains_as_well(engine: Any) -> None:
    skip_slow(engine, "mlp")
    wide, narrow = (train_digits("mlp", state_dtype=d) for d in (None, "bfloat16"))
    assert narrow.trainer.optimizer.memories[0]["v"].dtype == "bfloat16"
    assert narrow.accuracy >= max(TARGET["mlp"], wide.accuracy - 0.005), (wide, narrow)


@pytest.mark.parametrize("kind", list(EPOCHS))
def test_losses_of_the_oracle_and_equal_bits(kind: str, engine: Any) -> None:
    skip_slow(engine, kind)
    train, _ = data.load("digits").split(0.2, 0)
    part = train.take(slice(20 * BATCH))

    def losses() -> list[float]:
        trainer = Trainer(digits_model(kind), CrossEntropyLoss(), Adam(lr=CosineAnnealingLR(1000, lr=1e-3)))
        return trainer.fit(part, 1, BATCH, verbose=False).steps

    first, again = losses(), losses()
    with on("numpy"):
        oracle = losses()
    assert len(first) == 20
    assert first == again
    np.testing.assert_allclose(first, oracle, rtol=1e-4)


def test_launches_of_an_mlp_step(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("the host launches nothing")
    init.seed(0)
    model = Sequential(Dense(out_features=512, activation="relu"), Dense(out_features=512, activation="relu"),
                       Dense(out_features=10)).build((784,))
    trainer = Trainer(model, CrossEntropyLoss(), Adam(), metrics=())
    rng = np.random.default_rng(0)
    trainer.fit((rng.normal(size=(64, 784)), rng.integers(0, 10, 64)), 1, 64, verbose=False)
    plan = next(iter(trainer.steps.train.replays.values())).plan
    # Stages of one op (a product that is cut along its inner axis for cores that would idle) count once.
    assert len(by_fusion(plan.launches)) <= 16, str(plan)
