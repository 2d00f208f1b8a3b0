"""Every registered layer on every device: parity, gradients, learning, train and eval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clnet import layers
from clnet.core.tensor import tensor
from clnet.layers import Layer
from clnet.workbench.evidence import checks, golden
from clnet.workbench.evidence.layer_checks import layer_gradient, layer_parity, learns
from clnet.workbench.evidence.registry import load_all, make_layer

load_all()
EXAMPLES = [pytest.param(cls, k, id=f"{name}-{k}") for name, cls in sorted(Layer.registry.items())
            for k in range(len(cls.examples))]
# On devices the first example of each; the others have golden values, and are run there with -m slow.
HEAVY = [pytest.param(*p.values, id=p.id, marks=[pytest.mark.slow] if p.values[1] else []) for p in EXAMPLES]
FIRST = [p for p in EXAMPLES if p.values[1] == 0]
# What evaluation does otherwise than training.
MODES = [p for p in EXAMPLES if p.values[0].__name__ in ("BatchNorm", "Dropout")
         or any("dropout" in f for f, _ in p.values[0].examples)]


@pytest.mark.parametrize(("cls", "k"), HEAVY)
def test_parity(cls: type[Layer], k: int, engine: Any) -> None:
    result = layer_parity(cls, k, engine)
    assert result, str(result)


@pytest.mark.parametrize(("cls", "k"), HEAVY)
def test_gradient(cls: type[Layer], k: int, engine: Any) -> None:
    result = layer_gradient(cls, k, engine)
    assert result, str(result)


@pytest.mark.parametrize(("cls", "k"), FIRST)
def test_update_changes_every_parameter(cls: type[Layer], k: int, engine: Any) -> None:
    if not make_layer(cls, k)[0].parameters():
        pytest.skip("no parameters")
    result = learns(cls, k)
    assert result, str(result)


@pytest.mark.parametrize(("cls", "k"), MODES)
def test_evaluation_parity(cls: type[Layer], k: int, engine: Any) -> None:
    result = layer_parity(cls, k, engine, train=False)
    assert result, str(result)


# --- against PyTorch's values
@pytest.mark.parametrize("k", [0, 1])
def test_batch_norm_keeps_statistics(k: int, engine: Any) -> None:
    kept = golden.read("layer", "BatchNorm")
    layer, inputs = make_layer(layers.BatchNorm, k)
    layer(*inputs)
    np.testing.assert_allclose(layer.running_mean.numpy(), kept[f"{k}.running_mean"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), kept[f"{k}.running_var"], rtol=1e-5, atol=1e-6)
    before = layer.running_mean.numpy()
    np.testing.assert_allclose(layer.eval()(*inputs).numpy(), kept[f"{k}.eval"], rtol=1e-5, atol=1e-5)
    assert (layer.running_mean.numpy() == before).all()


# --- single layers
def test_dropout_drops_a_share_and_scales_the_rest(engine: Any) -> None:
    layer = layers.Dropout(p=0.25)
    x = np.ones((100, 200), np.float32)
    a, b = layer(x).numpy(), layer(x).numpy()
    assert set(np.unique(a)) == {0.0, np.float32(4 / 3)}
    assert abs((a == 0).mean() - 0.25) < 0.015 and abs((b == 0).mean() - 0.25) < 0.015
    assert (a != b).any(), "every call draws another mask"
    assert (layer.eval()(x).numpy() == 1).all()


def test_dropout_backward_uses_the_mask_of_forward(engine: Any) -> None:
    layer = layers.Dropout(p=0.5)
    y = layer(np.ones((40, 9), np.float32))
    assert (layer.backward(tensor(np.ones((40, 9), np.float32))).numpy() == y.numpy()).all()


def test_dropout_is_the_same_on_every_engine(engine: Any) -> None:
    layer = layers.Dropout(p=0.5)
    y = layer(np.ones((7, 9), np.float32))
    assert (y.numpy(checks.oracle()) == y.numpy()).all()
