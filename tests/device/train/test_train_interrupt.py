"""Ctrl-C in the middle of training: the last whole step stands, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = """
import json, sys
sys.path.insert(0, sys.argv[2])
import numpy as np
from clnet.engine import use
use(sys.argv[1])
import test_train as t
class Tell(t.Callback):
    def on_epoch_end(self, trainer, logs):
        if logs["epoch"] == 2:
            print("running", flush=True)
trainer = t.make()
history = trainer.fit(t.toy(), 10**6, 32, callbacks=[Tell()], verbose=False)
steps, epoch = trainer.optimizer.t, trainer.optimizer.epoch
again = t.make()
class Stop(t.Callback):  # where Ctrl-C was heard: behind a step, or behind the epoch that the step ended
    def on_batch_end(self, trainer):
        if (trainer.optimizer.t, trainer.optimizer.epoch) == (steps, epoch):
            raise KeyboardInterrupt
    def on_epoch_end(self, trainer, logs):
        self.on_batch_end(trainer)
same = again.fit(t.toy(), 10**6, 32, callbacks=[Stop()], verbose=False)
t.assert_same(trainer, again)
print(json.dumps([history.interrupted, len(history.steps) == steps, history.steps == same.steps]))
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGINT to a child needs POSIX")
def test_ctrl_c(engine: Any) -> None:
    key = engine.device.key
    child = subprocess.Popen([sys.executable, "-c", CHILD, key, str(Path(__file__).parent)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n", child.communicate()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert json.loads(out) == [True, True, True]
