"""Mixed precision: what is rounded and stored in 16 bits, what stays float32,
and that training comes out as in float32.
"""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import autocast, gradients, init, layers
from clnet import ops as F
from clnet.core.spec import np_dtype
from clnet.core.tensor import tensor, walk
from clnet.errors import CheckpointError, NonFiniteError
from clnet.layers import BatchNorm, Conv2d, Dense, Dropout, Embedding, Flatten, LayerNorm, MaxPool2d
from clnet.losses import CrossEntropyLoss
from clnet.model import Sequential
from clnet.optimizers import SGD, Adam, AdamW, CosineAnnealingLR
from clnet.train import Checkpoint, LossScale, Trainer, data
from clnet.train.examples import BATCH, train_digits

STORED = {"bf16": "bfloat16", "fp16": "float16"}
DIGITS = data.load("digits").split(0.2, 0)


def mlp(*hidden: int, seed: int = 0, classes: int = 10) -> Sequential:
    init.seed(seed)
    return Sequential(Flatten(), *(Dense(out_features=n, activation="relu") for n in hidden),
                      Dense(out_features=classes)).build((1, 8, 8))


def trained(precision: str | None, steps: int = 20, model: Any = None, **more: Any) -> Trainer:
    trainer = Trainer(model or mlp(128, 64), CrossEntropyLoss(), Adam(lr=2e-3), precision=precision, **more)
    trainer.fit(DIGITS[0].take(slice(steps * BATCH)), 1, BATCH, verbose=False)
    return trainer


# --- the arithmetic of products
@pytest.mark.parametrize("name", ["tf32", "fp32x3"])
def test_arithmetic_of_products_is_that_of_the_recording(name: str, engine: Any) -> None:
    trainer = trained(name, 2)
    if engine.compiles:
        (replay,) = trainer.steps.train.replays.values()
        assert {t.attrs.get("precision") for t in walk(replay.trace.updates) if t.op is not None
                and t.op.name == "matmul"} == {name}
    np.testing.assert_allclose(trainer.history.steps, trained("fp32", 2).history.steps, rtol=1e-3)


# --- values
def rounded(x: Any, dtype: str) -> Any:
    """x as memory of that dtype holds it, in float64."""
    return np.asarray(x, np.float64).astype(np_dtype(dtype)).astype(np.float64)


@pytest.mark.parametrize("precision", list(STORED))
def test_a_step_of_a_network_against_numpy_with_rounding_written_out(precision: str, engine: Any) -> None:
    """One hidden layer by hand: every product of rounded operands, every stored value rounded, sums exact. Equal but
    for the order of sums.
    """
    rng, dtype = np.random.default_rng(3), STORED[precision]
    x, y = rng.standard_normal((16, 24)).astype(np.float32), rng.integers(0, 5, 16)
    init.seed(0)
    model = Sequential(Dense(out_features=32, activation="relu"), Dense(out_features=5)).build((24,))
    w1, b1, w2, b2 = (np.asarray(p.numpy(), np.float64) for p in model.parameters())
    trainer = Trainer(model, CrossEntropyLoss(), SGD(lr=0.5), metrics=(), precision=precision)
    losses = trainer.fit((x, y), 10, 16, verbose=False).steps
    scale = 2.0**16 if precision == "fp16" else 1.0
    wanted = []
    for _ in range(10):
        a = rounded(rounded(x, dtype) @ rounded(w1, dtype).T, dtype)
        h = rounded(np.maximum(rounded(a + b1, dtype), 0), dtype)
        z = rounded(rounded(h @ rounded(w2, dtype).T, dtype) + b2, dtype)
        e = np.exp(z - z.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        wanted.append(-np.log(p[np.arange(16), y]).mean())
        g = rounded((p - np.eye(5)[y]) / 16 * scale, dtype)
        back = rounded(g @ rounded(w2, dtype), dtype) * (h > 0)
        steps = (back.T @ rounded(x, dtype), back.sum(0), g.T @ h, g.sum(0))
        w1, b1, w2, b2 = (w - 0.5 / scale * s for w, s in zip((w1, b1, w2, b2), steps, strict=True))
    np.testing.assert_allclose(losses[0], wanted[0], rtol=1e-6)
    # From then on sums in another order round some values to their neighbour: 2⁻⁸ or 2⁻¹¹ of a value, a share of that
    # in a loss.
    np.testing.assert_allclose(losses, wanted, rtol=3e-3 if precision == "bf16" else 5e-4)


def test_gradients_of_weights_and_biases_keep_float32(engine: Any) -> None:
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((64, 16), (8, 16), (8,)))
    weight, bias = tensor(w), tensor(b)
    with autocast("bf16"):
        y = F.linear(tensor(x), weight, bias)
    found = gradients(y, [weight, bias], tensor(np.ones((64, 8), np.float32)))
    assert [t.dtype for t in found] == ["float32", "float32"]
    to_w, to_b = engine.values(found)
    want = np.ones((8, 64)) @ rounded(x, "bfloat16")
    np.testing.assert_allclose(to_w, want, rtol=1e-5, atol=1e-5)
    assert np.array_equal(to_b, np.full(8, 64, np.float32))


def test_same_bits_twice(engine: Any) -> None:
    init.seed(0)

    def run(precision: str) -> Any:
        trainer = trained(precision, 6)
        return trainer.history.steps, [p.numpy() for p in trainer.model.parameters()]

    for precision in STORED:
        (a, v), (b, w) = run(precision), run(precision)
        assert a == b and all(np.array_equal(p, q) for p, q in zip(v, w, strict=True))


# --- training
def within(kind: str, precision: str) -> None:
    wide, narrow = (train_digits(kind, precision=p) for p in ("fp32", precision))
    assert narrow.accuracy >= wide.accuracy - 0.005, (wide, narrow)
    assert narrow.trainer.model.parameters()[0].dtype == "float32"


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_digits_within_half_a_percent(precision: str, engine: Any) -> None:
    within("mlp", precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", list(STORED))
@pytest.mark.parametrize("kind", ["cnn", "lstm", "transformer"])
def test_larger_networks_within_half_a_percent(kind: str, precision: str, engine: Any) -> None:
    within(kind, precision)


@pytest.mark.parametrize("precision", list(STORED))
def test_models_are_saved_in_float32_and_evaluate_as_they_train(precision: str, engine: Any, tmp_path: Path) -> None:
    trainer = trained(precision, 10)
    trainer.model.save(tmp_path / "model.clnet")
    again = Trainer(clnet.load(tmp_path / "model.clnet"), CrossEntropyLoss(), SGD(), precision=precision)
    assert all(p.dtype == "float32" for p in again.model.parameters())
    x = DIGITS[1].x[:40]
    y = trainer.predict(x, 16)
    assert y.dtype == np.float32 and np.array_equal(y, rounded(y, STORED[precision]))
    assert np.array_equal(y, again.predict(x, 16))
    assert trainer.evaluate(DIGITS[1]) == again.evaluate(DIGITS[1])


def layer_zoo() -> list[Any]:
    convolution = Conv2d(out_channels=4, kernel_size=3, padding=1)
    block = layers.TransformerEncoderBlock(num_heads=2, d_ff=24, dropout=0.1, causal=True)
    residual = layers.Residual(layer=[Conv2d(out_channels=4, kernel_size=3, padding=1), layers.GroupNorm(num_groups=2)])
    return [Sequential(convolution, BatchNorm(), layers.Activation(name="gelu"), MaxPool2d(kernel_size=2),
                       Dropout(p=0.2), residual, layers.GlobalPool(), Dense(out_features=10)),
            Sequential(layers.Reshape(shape=(8, 8)), layers.LSTM(hidden_size=12, return_sequences=True), LayerNorm(),
                       layers.GRU(hidden_size=9, return_sequences=False), Dense(out_features=10)),
            Sequential(layers.Reshape(shape=(8, 8)), Dense(out_features=16),
                       layers.PositionalEncoding(max_len=8, learned=True), layers.Checkpoint(layer=block), Flatten(),
                       Dense(out_features=10))]


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow),
                                    pytest.param(2, marks=pytest.mark.slow)])
def test_blocks_of_all_kinds_learn_as_in_float32(number: int, engine: Any) -> None:
    if number and engine.device.runtime == "pocl":
        pytest.skip("PoCL compiles slowly")
    found = {}
    for precision in ("fp32", *STORED):
        init.seed(0)
        found[precision] = trained(precision, 8, layer_zoo()[number].build((1, 8, 8))).history.steps
        assert not getattr(engine, "fallbacks", {}), engine.fallbacks
    np.testing.assert_allclose(found["bf16"], found["fp32"], rtol=0.05)
    np.testing.assert_allclose(found["fp16"], found["fp32"], rtol=0.01)


def test_tokens_and_graphs(engine: Any) -> None:
    init.seed(0)
    words = clnet.Input((6,), dtype="int32")
    h = Embedding(num_embeddings=11, embedding_dim=8)(words)
    h = layers.Add()(h, Dense(out_features=8, activation="relu")(h))
    model = clnet.Model(words, Dense(out_features=3)(Flatten()(h)))
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 11, (64, 6)).astype(np.int32), rng.integers(0, 3, 64)
    trainer = Trainer(model, CrossEntropyLoss(), Adam(lr=0.02), precision="bf16")
    steps = trainer.fit((x, y), 30, 32, verbose=False).steps
    assert np.mean(steps[-4:]) < 0.5 * np.mean(steps[:4])


def deep_mlp() -> list[Any]:
    return [Flatten(), *(Dense(out_features=256, activation="gelu") for _ in range(12)), Dense(out_features=10)]


@pytest.mark.slow
@pytest.mark.parametrize("precision", list(STORED))
def test_activations_take_half_the_memory(precision: str, engine: Any) -> None:
    """What the peak grows by from a batch to one eight times as large:
    activations, their gradients, what kernels need beside.
    """
    if not engine.compiles:
        pytest.skip("the host has no pool")

    def peak(how: str, batch: int) -> int:
        init.seed(0)
        model = Sequential(deep_mlp()).build((1, 8, 8))
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((batch, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, batch)
        trainer = Trainer(model, CrossEntropyLoss(), SGD(lr=0.01), metrics=(), precision=how)
        # earlier trainers end now, not in the middle; and no block of theirs serves,
        # which may be twice what is asked for
        gc.collect()
        engine.pool.trim()
        engine.pool.reset_peak()
        before = clnet.memory()["active"]
        trainer.fit((x, y), 1, batch, verbose=False, on_nan="ignore")
        return clnet.memory()["peak"] - before

    wide, narrow = (peak(how, 4096) - peak(how, 512) for how in ("fp32", precision))
    assert narrow <= 0.6 * wide, (narrow, wide, narrow / wide)


def test_one_launch_rounds_all_parameters(engine: Any) -> None:
    if not engine.compiles:
        pytest.skip("the host launches nothing")
    (replay,) = trained("bf16", 1).steps.train.replays.values()
    model_size = sum(p.size for p in mlp(128, 64).parameters())
    rounded_here = [s for s in replay.plan.launches if s.name == "map_cast" and s.nbytes == 6 * model_size]
    assert len(rounded_here) == 1, str(replay.plan)


# --- loss scaling
def test_a_scale_that_overflows_is_halved_until_steps_count(engine: Any) -> None:
    trainer = Trainer(mlp(32), CrossEntropyLoss(), AdamW(lr=CosineAnnealingLR(200, lr=5e-3)), precision="fp16",
                      loss_scale=LossScale(2.0**40))
    before = [p.numpy().copy() for p in trainer.model.parameters()]
    first = DIGITS[0].take(slice(4 * BATCH))
    history = trainer.fit(first, 1, BATCH, verbose=False)
    assert history["skipped"] == [4.0] and history["loss_scale"] == [2.0**36] and trainer.optimizer.t == 0
    assert all(np.array_equal(a, p.numpy()) for a, p in zip(before, trainer.model.parameters(), strict=True))
    assert all(not np.any(v.numpy()) for m in trainer.optimizer.memories for v in m.values())
    history = trainer.fit(DIGITS[0], 6, BATCH, verbose=False)
    left = int(history["skipped"][-1])
    assert 10 < left < 40 and trainer.optimizer.t == len(history.steps) + 4 - left
    assert history["loss_scale"][-1] == 2.0 ** (40 - left)
    assert history["loss"][-1] < 0.5


def test_steps_left_out_are_as_if_they_had_never_been(engine: Any) -> None:
    """Of eight batches none counts at a scale where all overflow, and all do at one where none does."""
    train = DIGITS[0].take(slice(8 * BATCH))

    def run(scale: float) -> Trainer:
        trainer = Trainer(mlp(32), CrossEntropyLoss(), Adam(lr=CosineAnnealingLR(20, lr=5e-3)), precision="fp16",
                          loss_scale=LossScale(scale))
        trainer.fit(train, 1, BATCH, verbose=False)
        return trainer

    late = run(2.0**40)
    assert int(late.history["skipped"][-1]) == 8 and late.optimizer.t == 0
    for moved, start in zip(late.model.parameters(), mlp(32).parameters(), strict=True):
        np.testing.assert_array_equal(moved.numpy(), start.numpy())
    steady = run(2.0**12)
    assert int(steady.history["skipped"][-1]) == 0 and steady.optimizer.t == 8


def test_the_scale_grows_after_good_steps(engine: Any) -> None:
    trainer = Trainer(mlp(32), CrossEntropyLoss(), SGD(lr=0.01), precision="fp16",
                      loss_scale=LossScale(4.0, interval=5))
    history = trainer.fit(DIGITS[0].take(slice(11 * BATCH)), 1, BATCH, verbose=False)
    assert history["loss_scale"] == [16.0] and history["skipped"] == [0.0]


def test_resuming_is_exact_with_a_scale(engine: Any, tmp_path: Path) -> None:
    train = DIGITS[0].take(slice(10 * BATCH))

    def trainer() -> Trainer:
        init.seed(1)
        model = Sequential(Flatten(), Dense(out_features=32, activation="relu"), Dropout(p=0.3),
                           Dense(out_features=10)).build((1, 8, 8))
        return Trainer(model, CrossEntropyLoss(), Adam(lr=CosineAnnealingLR(40, lr=5e-3)), precision="fp16",
                       loss_scale=LossScale(2.0**30, interval=7))

    whole = trainer()
    whole.fit(train, 4, BATCH, verbose=False)
    half = trainer()
    half.fit(train, 2, BATCH, verbose=False, callbacks=[Checkpoint(tmp_path / "half.ckpt")])
    rest = trainer()
    rest.fit(train, 4, BATCH, verbose=False, resume=tmp_path / "half.ckpt")
    assert 0 < whole.history["skipped"][-1] < 40
    assert rest.history.steps == whole.history.steps and rest.optimizer.t == whole.optimizer.t
    for name in ("loss", "loss_scale", "skipped", "lr"):
        assert rest.history[name] == whole.history[name], name
    assert all(np.array_equal(p.numpy(), q.numpy())
               for p, q in zip(rest.model.parameters(), whole.model.parameters(), strict=True))
    with pytest.raises(CheckpointError, match="precision"):
        Trainer(mlp(32), CrossEntropyLoss(), Adam(lr=5e-3)).fit(train, 4, BATCH, verbose=False,
                                                                resume=tmp_path / "half.ckpt")


def test_nan_is_still_told_apart_from_overflow(engine: Any) -> None:
    x, y = DIGITS[0].x[: 4 * BATCH].copy(), DIGITS[0].y[: 4 * BATCH]
    x[70] = math.nan
    for precision in STORED:
        with pytest.raises(NonFiniteError):
            Trainer(mlp(16), CrossEntropyLoss(), Adam(), precision=precision).fit((x, y), 1, BATCH, verbose=False)
        trainer = Trainer(mlp(16), CrossEntropyLoss(), Adam(), precision=precision)
        with pytest.warns(RuntimeWarning, match="left out"):
            history = trainer.fit((x, y), 1, BATCH, verbose=False, on_nan="skip")
        assert len(history.steps) == 3 and trainer.optimizer.t == 3


# --- PyTorch's values
GOLDEN = Path(__file__).parents[2] / "golden" / "mixed.npz"
NETWORKS = {
    "mlp": lambda: [Flatten(), Dense(out_features=96, activation="gelu"), LayerNorm(),
                    Dense(out_features=48, activation="relu"), Dense(out_features=10)],
    "cnn": lambda: [Conv2d(out_channels=8, kernel_size=3, padding=1, activation="relu"), MaxPool2d(kernel_size=2),
                    Conv2d(out_channels=16, kernel_size=3, padding=1, activation="tanh"), Flatten(),
                    Dense(out_features=10)],
}
# Of ten losses. PyTorch's own bf16 and fp16 differ from its float32 by up to 3.4e-4 and 1.1e-4 here; it rounds biases
# and gradients of weights, too.
AGREE = {"fp32": 5e-6, "bf16": 1e-3, "fp16": 4e-4}


@pytest.mark.parametrize("network", [pytest.param(n, marks=pytest.mark.slow) if n == "mlp" else n for n in NETWORKS])
def test_losses_of_ten_steps_are_those_of_pytorch_autocast(network: str, engine: Any) -> None:
    with np.load(GOLDEN) as golden:
        for precision, tolerance in AGREE.items():
            model = Sequential(NETWORKS[network]()).build((1, 8, 8))
            for k, p in enumerate(model.parameters()):
                p.assign(golden[f"{network}.{k}"])
            scale = LossScale(2.0**10) if precision == "fp16" else None
            trainer = Trainer(model, CrossEntropyLoss(), SGD(lr=0.1), metrics=(), precision=precision, loss_scale=scale)
            losses = trainer.fit((golden["x"], golden["y"]), 10, 32, verbose=False).steps
            found, wanted = np.array(losses), golden[f"{precision}.{network}.losses"]
            np.testing.assert_allclose(found, wanted, rtol=tolerance)
