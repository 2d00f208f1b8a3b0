"""The second process compiles nothing: its programs come from the disk, and so does its first training step."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, time
start = time.perf_counter()
import clnet
from clnet.layers import Activation, Dense
import numpy as np
model = clnet.Sequential(Dense(64, 128), Activation("relu"), Dense(128, 64), Activation("relu"), Dense(64, 10))
trainer = clnet.Trainer(model, clnet.losses.CrossEntropyLoss(), clnet.optimizers.Adam())
x, y = np.zeros((64, 64), "float32"), np.zeros(64, "int32")
history = trainer.fit(clnet.data.from_arrays(x, y), epochs=1, batch_size=64, verbose=False)
seconds = time.perf_counter() - start
counters = clnet.cache.counters()
loss = float(history.frame.loss.iloc[-1])
print(json.dumps(dict(seconds=seconds, builds=counters.builds, disk=counters.disk_hits, loss=loss)))
"""


def first_step(device: str, folder: str) -> dict[str, float]:
    """What a fresh process says about its first training step."""
    env = os.environ | {"CLNET_DEVICE": device, "CLNET_CACHE_DIR": folder}
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], env=env, capture_output=True, text=True,
                         timeout=240, check=True)
    return json.loads(out.stdout.strip().splitlines()[-1])


def test_a_second_process_builds_nothing(engine, tmp_path):
    if engine.device.runtime == "pocl":
        pytest.skip("PoCL keeps its own kernel cache; asking it for binaries costs more than it saves")
    first = first_step(engine.device.key, str(tmp_path))
    second = first_step(engine.device.key, str(tmp_path))
    assert first["builds"] > 0
    assert second["builds"] == 0
    assert second["disk"] == first["builds"] + first["disk"]
    assert second["loss"] == first["loss"]
    print(f"import to the end of the first step: {first['seconds']:.2f} s cold, {second['seconds']:.2f} s warm")


def test_damaged_entries_are_rebuilt(engine, tmp_path):
    if engine.device.runtime == "pocl":
        pytest.skip("PoCL keeps its own kernel cache")
    first = first_step(engine.device.key, str(tmp_path))
    entries = sorted(p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size > 1000)
    for k, entry in enumerate(entries):
        data = bytearray(entry.read_bytes())
        if k % 2:
            data[len(data) // 2] ^= 0xFF
        else:
            del data[len(data) // 3 :]
        entry.write_bytes(bytes(data))
    again = first_step(engine.device.key, str(tmp_path))
    assert again["builds"] > 0
    assert again["loss"] == first["loss"]
