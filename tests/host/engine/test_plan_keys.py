"""What layers record is plain values, so that their plans are found again, in this process and in the next."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.core.autodiff import gradients
from clnet.core.recording import eager
from clnet.core.tensor import Tensor
from clnet.engine.compile.signature import signature
from clnet.engine.plan_files import told
from clnet.engine.plan_values import Unkept
from clnet.layers import LSTM, Layer
from clnet.ops import sum as total
from clnet.workbench.evidence.registry import load_all, make_layer

load_all()
FUNCTIONS = {("Lambda", 1), *(("Spiking", k) for k in range(6))}  # ops with a function: of this process alone


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, cls in sorted(Layer.registry.items())
                                         for k in range(len(cls.examples))])
def test_what_a_layer_and_its_gradients_record_has_a_name_on_disk(name: str, k: int) -> None:
    def key() -> str:
        layer, inputs = make_layer(Layer.registry[name], k)
        with eager(False):
            y = layer(*inputs)
            found = [t for t in (y.values() if isinstance(y, dict) else y if isinstance(y, (tuple, list)) else [y])
                     if isinstance(t, Tensor)]
            smooth = next((t for t in found if t.dtype == "float32"), None)
            if smooth is not None and layer.parameters():
                found += [g for g in gradients(total(smooth), [p.tensor for p in layer.parameters()]) if g is not None]
            return told(signature(found, lambda t: t.op is None)[0])

    if (name, k) in FUNCTIONS:
        with pytest.raises(Unkept):
            key()
    else:
        assert key() == key()


@pytest.mark.parametrize("flag", [True, np.True_, 1], ids=repr)
def test_flags_are_no_tensors_however_they_are_written(flag: object) -> None:
    layer = LSTM(hidden_size=2)
    x = np.ones((1, 3, 2), np.float32)
    layer(x)  # has its sizes from here on

    def key(how: object) -> str:
        with eager(False):
            return told(signature([layer(x, reverse=how)], lambda t: t.op is None)[0])

    assert key(flag) == key(True) != key(False)
