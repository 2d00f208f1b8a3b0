"""`clnet warm` compiles what a network takes: who trains it afterwards compiles nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clnet
from clnet.engine.device.compilers import environment
from clnet.errors import ConfigError
from clnet.layers import Dense
from clnet.workbench import warm_command

AFTER = """
import clnet, numpy as np
from clnet.train.trainer import Trainer
model = clnet.load({path!r})
trainer = Trainer(model, "cross_entropy", "adam")
x, y = np.ones((20, 6), "float32"), np.zeros(20, "int32")
trainer.fit(x, y, epochs=1, batch_size=8, verbose=False)
trainer.predict(np.ones((256, 6), "float32"))
trainer.predict(x[:3])
print(clnet.cache.counters().builds, clnet.cache.counters().disk_hits)
"""


@pytest.fixture
def model(quick: Any, tmp_path: Path) -> str:
    """A model's file."""
    path = str(tmp_path / "small.safetensors")
    clnet.Sequential(Dense(6, 5, activation="relu"), Dense(5, 3)).save(path)
    return path


def test_nothing_is_compiled_after_it(model: str, quick: Any, tmp_path: Path) -> None:
    env = environment() | {"CLNET_DEVICE": quick.device.key, "CLNET_CACHE_DIR": str(tmp_path / "cache")}

    def run(*command: str) -> str:
        return subprocess.run([sys.executable, "-W", "ignore", *command], env=env, capture_output=True, text=True,
                              timeout=240, check=True, cwd=tmp_path).stdout

    if quick.device.known.keeps:
        pytest.skip("its driver keeps what it compiled")
    warm = ("-m", "clnet", "warm", model, "--batch", "8", "--shape", "6", "--loss", "cross_entropy", "--json", "-")
    (first,), (again,) = (json.loads(run(*warm)) for _ in "ab")
    assert first["compiled"] == first["kernels"] > 0
    assert (again["compiled"], again["kernels"]) == (0, first["kernels"])
    assert Path(first["folder"]) == tmp_path / "cache" / "programs"
    builds, hits = map(int, run("-c", AFTER.format(path=model)).split())
    assert builds == 0 < hits


def test_a_model_that_does_not_say_its_shape_is_asked_for_it(quick: Any, tmp_path: Path) -> None:
    path = tmp_path / "open.json"
    path.write_text(json.dumps({"type": "Sequential", "layers": [{"type": "Dense", "out_features": 3}]}))
    with pytest.raises(ConfigError, match=r"shape of a sample for open\.json.*--shape"):
        warm_command.work(str(path), 8)()


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_labels_are_found_for_the_loss(model: str, loss: str) -> None:
    warm_command.work(model, 4, [6], loss)()


def test_a_loss_that_takes_other_labels_is_refused(model: str) -> None:
    with pytest.raises(ConfigError, match=r"^warm: expected a loss whose labels"):
        warm_command.work(model, 4, [6], "ctc")()


def test_a_network_that_comes_with_clnet_is_trained_by_its_recipe(quick: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[int, int]]()
    monkeypatch.setattr(warm_command, "_train", lambda trainer, samples, batch: seen.append((len(samples), batch)))
    for name in ("digits-mlp", "bilstm"):
        warm_command.work(name, 16)()
    assert [batch for _, batch in seen] == [16, 16]
    assert all(count > warm_command.SIZES[0] for count, _ in seen)
