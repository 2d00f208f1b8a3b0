"""CTC against the sum over all alignments, and where targets cannot be written."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from clnet import ops as F
from clnet.core.op import OPS
from clnet.core.tensor import tensor
from clnet.engine.record import Recorded
from clnet.losses import CTCLoss
from clnet.ops.ctc import ctc
from clnet.workbench.evidence import checks
from clnet.workbench.evidence.layer_checks import slope

RNG = np.random.default_rng(3)


def log_softmax(z: Any) -> Any:
    return z - np.log(np.exp(z - z.max(-1, keepdims=True)).sum(-1, keepdims=True)) - z.max(-1, keepdims=True)


def enumerated(lp: Any, y: Any, blank: int = 0) -> tuple[float, Any]:
    """(−ln P, −P(frame t writes c | y)) from all ways to fill the frames."""
    shares, total = np.zeros(lp.shape), 0.0
    for path in itertools.product(range(lp.shape[1]), repeat=len(lp)):
        if [c for c, _ in itertools.groupby(path) if c != blank] == list(y):
            p = np.exp(sum(lp[t, c] for t, c in enumerate(path)))
            total += p
            for t, c in enumerate(path):
                shares[t, c] -= p
    return -np.log(total), shares / total


@pytest.mark.parametrize(("labels", "frames", "blank"), [
    ((), 4, 0), ((1,), 1, 0), ((1,), 5, 0), ((1, 2), 5, 0), ((1, 1), 5, 0), ((2, 2, 2), 5, 0), ((1, 2, 1), 5, 0),
    ((0, 1), 5, 2), ((0, 0), 5, 2)])
def test_all_alignments(labels: tuple[int, ...], frames: int, blank: int, engine: Any) -> None:
    lp = log_softmax(RNG.standard_normal((frames, 3))).astype(np.float32)
    want = enumerated(lp.astype(np.float64), labels, blank)
    value, g = slope(CTCLoss(blank=blank, reduction="sum"), lp[:, None], np.array([labels], np.int32).reshape(1, -1),
                     np.array([frames]), np.array([len(labels)]), engine=engine)
    np.testing.assert_allclose(value, want[0], rtol=1e-6)
    np.testing.assert_allclose(g[:, 0], want[1], rtol=1e-5, atol=1e-6)


def batch() -> tuple[Any, ...]:
    z = RNG.standard_normal((30, 5, 20)).astype(np.float32)
    targets = RNG.integers(1, 20, (5, 9)).astype(np.int32)
    targets[:, 3] = targets[:, 2]
    return z, targets, np.array([30, 22, 30, 12, 25], np.int32), np.array([9, 4, 0, 5, 1], np.int32)


def test_padded_and_concatenated_are_one(engine: Any) -> None:
    z, y, il, tl = batch()
    packed = np.concatenate([row[:n] for row, n in zip(y, tl, strict=True)])
    loss = CTCLoss(from_logits=True)
    first, second = slope(loss, z, y, il, tl, engine=engine), slope(loss, z, packed, il, tl, engine=engine)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (first[1][22:, 1] == 0).all(), "frames beyond a sequence have no slope"
    want = slope(loss, z.astype(np.float64), y, il, tl)
    np.testing.assert_allclose(first[0], want[0], rtol=1e-6)
    np.testing.assert_allclose(first[1], want[1], rtol=1e-5, atol=1e-7)


def test_lengths_that_only_the_device_knows(engine: Any) -> None:
    z, y, il, tl = batch()
    packed = np.concatenate([row[:n] for row, n in zip(y, tl, strict=True)])
    loss = CTCLoss(from_logits=True, reduction="none")
    step = Recorded(lambda *inputs: loss.value_and_grad(*inputs), "ctc")
    for targets in (y, packed):
        value, g = step(z, targets, il, tl)
        want = slope(loss, z, y, il, tl, engine=engine)
        np.testing.assert_allclose(value.numpy(), want[0], rtol=1e-6)
        np.testing.assert_allclose(g.numpy(), want[1], rtol=1e-5, atol=1e-7)


def test_the_mean_divides_by_target_lengths(engine: Any) -> None:
    z, y, il, tl = batch()
    each = CTCLoss(from_logits=True, reduction="none")(z, y, il, tl).numpy()
    assert CTCLoss(from_logits=True)(z, y, il, tl).item() == pytest.approx((each / np.maximum(tl, 1)).mean(), rel=1e-6)
    w = np.array([1.0, 0, 2, 0, 1])
    assert CTCLoss(from_logits=True)(z, y, il, tl, sample_weight=w).item() == pytest.approx(
        (w * each / np.maximum(tl, 1)).sum() / 4, rel=1e-6)


@pytest.mark.parametrize("frames", [0, 1, 2])
def test_what_cannot_be_written(frames: int, engine: Any) -> None:
    """Two equal labels need three frames."""
    lp = log_softmax(RNG.standard_normal((4, 2, 3))).astype(np.float32)
    inputs = lp, np.array([[1, 1], [2, 0]], np.int32), np.array([frames, 4]), np.array([2, 1])
    value, g = slope(CTCLoss(reduction="none"), *inputs, engine=engine)
    assert value[0] == np.inf
    assert (g[:, 0] == 0).all()
    assert np.isfinite(value[1])
    value, g = slope(CTCLoss(zero_infinity=True), *inputs, engine=engine)
    assert value == pytest.approx(CTCLoss(reduction="none")(*inputs).numpy()[1] / 2, rel=1e-6)
    assert np.isfinite(g).all()


def test_no_frames_and_no_labels_is_certain(engine: Any) -> None:
    value, g = slope(CTCLoss(reduction="none"), np.zeros((3, 1, 2), np.float32), np.zeros((1, 1), np.int32),
                     np.array([0]), np.array([0]), engine=engine)
    assert value[0] == 0
    assert (g == 0).all()


def test_certain_frames(engine: Any) -> None:
    """Logits of ±100, and probabilities of exactly 0."""
    z = np.full((4, 1, 3), -100, np.float32)
    z[np.arange(4), 0, [1, 0, 2, 2]] = 100
    inputs = np.array([[1, 2]], np.int32), np.array([4]), np.array([2])
    value, g = slope(CTCLoss(from_logits=True), z, *inputs, engine=engine)
    assert value == pytest.approx(0, abs=1e-6)
    assert np.isfinite(g).all()
    value, g = slope(CTCLoss(from_logits=True), -z, *inputs, engine=engine)
    assert np.isfinite(value)
    assert np.isfinite(g).all()
    with np.errstate(divide="ignore"):
        lp = np.log((z > 0).astype(np.float32))
    value, g = slope(CTCLoss(reduction="sum"), lp, *inputs, engine=engine)
    assert value == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(g, -(z > 0).astype(np.float32), atol=1e-6)


def test_long_sequences_keep_their_digits(engine: Any) -> None:
    z = RNG.standard_normal((600, 2, 12)).astype(np.float32)
    y = RNG.integers(1, 12, (2, 40)).astype(np.int32)
    inputs = y, np.array([600, 450]), np.array([40, 33])
    loss = CTCLoss(from_logits=True)
    got, want = slope(loss, z, *inputs, engine=engine), slope(loss, z.astype(np.float64), *inputs)
    assert got[0] == pytest.approx(want[0], rel=1e-6)
    assert np.abs(got[1] - want[1]).max() < 2e-4 * np.abs(want[1]).max()


@pytest.mark.parametrize("name", ["ctc", "ctc_slope"])
def test_ops_against_their_reference(name: str, engine: Any) -> None:
    samples = OPS[name].samples()
    assert samples
    for case in samples:
        for dtype in ("float32", "float64"):
            args = [a.astype(dtype) if a.dtype.kind == "f" else a for a in case.args]
            result = checks.compare(checks.case_function(OPS[name], case), args, engine, normwise=True)
            assert result, f"{case.attrs} {dtype}: {result}"


def test_half_precision_is_computed_in_single(engine: Any) -> None:
    z, y, il, tl = batch()
    got = ctc(F.log_softmax(tensor(z.astype(np.float16))), y, il, tl)
    assert got.dtype == "float16"
    np.testing.assert_allclose(got.numpy(), ctc(F.log_softmax(tensor(z)), y, il, tl).numpy(), rtol=3e-3)


def test_labels_and_lengths_that_only_the_device_finds_wrong(engine: Any) -> None:
    lp = log_softmax(RNG.standard_normal((4, 3, 3))).astype(np.float32)
    step = Recorded(lambda *inputs: CTCLoss(reduction="none").value_and_grad(*inputs), "ctc")
    value, g = step(lp, np.array([[1, 7], [1, 2], [1, 2]], np.int32), np.array([4, 9, 4], np.int32),
                    np.array([2, 2, 2], np.int32))
    np.testing.assert_array_equal(np.isnan(value.numpy()), [True, True, False])
    np.testing.assert_array_equal(np.isnan(g.numpy()).all((0, 2)), [True, True, False])
    assert np.isfinite(g.numpy()[:, 2]).all()


def test_nan_stays_in_its_sample(engine: Any) -> None:
    lp = log_softmax(RNG.standard_normal((5, 2, 3))).astype(np.float32)
    lp[2, 0, 1] = np.nan
    value = CTCLoss(reduction="none")(lp, np.array([[1, 2], [1, 2]]), np.array([5, 5]), np.array([2, 2])).numpy()
    assert np.isnan(value[0])
    assert np.isfinite(value[1])
