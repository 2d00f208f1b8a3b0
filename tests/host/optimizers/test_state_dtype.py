"""State vectors in bfloat16, and bfloat16 parameters: rounded up or down by chance, so that nothing is lost on average.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet.ops as F
from clnet.core.tensor import tensor
from clnet.engine import on
from clnet.errors import ConfigError, DTypeError
from clnet.layers import Dense
from clnet.losses import MSELoss
from clnet.model import Sequential
from clnet.ops.rounding import _up_or_down, stochastic_round
from clnet.optimizers import LBFGS, SGD, Adam, AdamW, Optimizer
from clnet.train import Trainer
from clnet.workbench.evidence.layer_checks import trajectory
from clnet.workbench.evidence.registry import load_all

load_all()
WITH_STATE = [pytest.param(cls, id=name) for name, cls in sorted(Optimizer.registry.items())
              if cls(**cls.tried).slots() and not cls.wide_state]
REFUSING = [pytest.param(cls, id=name) for name, cls in sorted(Optimizer.registry.items()) if cls.wide_state]


@pytest.fixture(autouse=True)
def on_the_host() -> Any:
    with on("numpy"):
        yield


def neighbours(x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """bfloat16's values on both sides of x, towards 0 first."""
    bits = x.view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32), (bits + np.uint32(0x10000)).view(np.float32)


def test_rounding_by_chance_is_right_on_average() -> None:
    x = np.random.default_rng(0).standard_normal(500).astype(np.float32)
    draws, others = (np.stack([stochastic_round(tensor(x), t, number).numpy() for t in range(2000)])
                     for number in (2, 3))
    low, high = neighbours(x)
    assert ((draws == low) | (draws == high)).all()
    share = (x - low) / (high - low)  # the expected share of `high`; its standard deviation is at most 0.5 / sqrt(2000)
    assert np.abs((draws == high).mean(0) - share).max() < 4.5 * 0.5 / 2000**0.5
    # Neither following draws nor neighbours nor those that share a hash go together.
    up, too = (draws == high) - share, (others == high) - share
    assert np.abs(too.mean(0)).max() < 4.5 * 0.5 / 2000**0.5
    together = [np.mean(up[1:] * up[:-1]), np.mean(up[:, 1:] * up[:, :-1]), np.mean(up[1:, 1:] * up[:-1, :-1]),
                np.mean(up * too), np.mean(too[1:] * too[:-1]), np.mean(too[:, 1:] * too[:, :-1])]
    assert np.abs(together).max() < 0.003


def test_what_is_no_number_stays() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -2.5], np.float32)
    assert np.array_equal(stochastic_round(x, 5).numpy(), x, equal_nan=True)
    with pytest.raises(DTypeError, match="float32"):
        _up_or_down(tensor(x), tensor(np.zeros(7, np.int32)))


@pytest.mark.parametrize("cls", WITH_STATE)
def test_every_optimizer_takes_nearly_the_same_path(cls: type[Optimizer]) -> None:
    rng = np.random.default_rng(0)
    starts = [rng.standard_normal((30, 20)).astype(np.float32), rng.standard_normal(20).astype(np.float32)]
    ends = [rng.standard_normal(a.shape).astype(np.float32) for a in starts]

    def grads(ws: list[Any], t: int) -> list[Any]:
        noise = np.random.default_rng(t)
        return [(w - end + 0.3 * noise.standard_normal(w.shape)).astype(np.float32)
                for w, end in zip(ws, ends, strict=True)]

    wide, narrow = (trajectory(cls(**cls.tried, **more), starts, grads, 60)[-1]
                    for more in ({}, {"state_dtype": "bfloat16"}))
    apart, moved = (np.concatenate([(a - b).ravel() for a, b in zip(narrow, other, strict=True)])
                    for other in (wide, starts))
    # bfloat16 has steps of 2⁻⁸ to 2⁻⁷; Rprop compares signs, and a step that it takes once more is another path.
    bound = 0.04 if cls.__name__ == "Rprop" else 0.01
    assert np.sqrt(np.mean(apart**2)) < bound * np.sqrt(np.mean(moved**2))


@pytest.mark.parametrize("cls", REFUSING)
def test_who_refuses_says_why(cls: type[Optimizer]) -> None:
    with pytest.raises(ConfigError, match=rf"{cls.__name__}\(state_dtype='bfloat16'\): expected None, for its .*leave"):
        cls(**cls.tried, state_dtype="bfloat16")


def test_a_mean_of_squares_comes_down() -> None:
    """To the nearest, v · 0.999 is v again in bfloat16: it would stay for ever where it once was."""
    ws = [np.zeros(4000, np.float32)]
    adam = Adam(lr=0.0, state_dtype="bfloat16")
    trajectory(adam, ws, lambda _, t: [np.full(4000, 10.0 if t == 1 else 0.0, np.float32)], 700)
    v = adam.memories[0]["v"].numpy().astype(np.float64)
    assert v.dtype == np.float64 and adam.memories[0]["v"].dtype == "bfloat16"
    assert abs(v.mean() / (0.1 * 0.999**699) - 1) < 0.01


def test_small_updates_of_bfloat16_parameters_add_up() -> None:
    """1 - 10⁻⁴ is 1 to the nearest; 200 such updates are 0.98."""
    w = trajectory(SGD(lr=1e-4), [np.ones(4000, F.cast(1.0, "bfloat16").numpy().dtype)],
                   lambda ws, _: [np.ones(4000, ws[0].dtype)], 200)[-1][0].astype(np.float64)
    assert abs(w.mean() - 0.98) < 5e-4 and w.std() < 0.02


def test_state_takes_half_the_bytes() -> None:
    model = Sequential(Dense(in_features=100, out_features=50)).build((100,))
    wide, narrow = ({r[0]: r for r in model.summary(optimizer=o).memory.items()}["optimizer state"][1]
                    for o in (AdamW(), AdamW(state_dtype="bfloat16")))
    assert narrow * 2 == wide == 8 * 5050


def test_a_run_that_is_resumed_gives_the_same_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((64, 6)).astype(np.float32), rng.standard_normal((64, 2)).astype(np.float32)

    def trainer() -> Trainer:
        model = Sequential(Dense(in_features=6, out_features=8, activation="tanh"), Dense(out_features=2))
        model.build((6,)).load({n: np.full(v.shape, 0.1, np.float32) for n, v in model.variables().items()})
        return Trainer(model, MSELoss(), AdamW(lr=1e-2, state_dtype="bfloat16"))

    whole, first, second = trainer(), trainer(), trainer()
    whole.fit(x, y, epochs=4, batch_size=16, verbose=False)
    first.fit(x, y, epochs=2, batch_size=16, verbose=False)
    first.save_checkpoint(tmp_path / "run.safetensors")
    second.fit(x, y, epochs=4, batch_size=16, verbose=False, resume=tmp_path / "run.safetensors")
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert np.array_equal(a.numpy(), b.numpy())
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in
               zip(whole.optimizer.memories[0].values(), second.optimizer.memories[0].values(), strict=True))


def test_other_dtypes_are_named() -> None:
    with pytest.raises(ConfigError, match="state_dtype"):
        Adam(state_dtype="float16")
    assert LBFGS().state_dtype is None
