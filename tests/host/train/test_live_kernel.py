"""Buttons of the live view in a kernel whose main thread trains: they are heard on the shell channel, where front ends
without subshells send what is pressed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[3]
TRAINING = """
import clnet, numpy as np
from clnet.layers import Dense
clnet.use("numpy")
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
trainer = clnet.Trainer(clnet.Sequential(Dense(out_features=2)), "cross_entropy", "sgd")
history = trainer.fit(x, (x[:, 0] > 0).astype("int32"), epochs=10_000_000)
"""
AFTER = """
from ipywidgets.widgets import widget
print(history.stopped, len(history.steps) > 0, len(widget._instances), len(get_ipython().kernel.comm_manager.comms))
"""


def message(client: Any, kind: str, **content: Any) -> Any:
    """The next one of this kind on the iopub channel that has these."""
    while True:
        found = client.get_iopub_msg(timeout=60)
        body = found["content"]
        assert found["msg_type"] != "error", body
        if found["msg_type"] == kind and all(body.get(k) == v for k, v in content.items()):
            return body


def press(client: Any, button: str) -> None:
    data = {"method": "custom", "content": {"event": "click"}}
    client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": button, "data": data}))


@pytest.mark.timeout(120)
def test_buttons_are_heard_while_the_cell_runs() -> None:
    manager = KernelManager(transport="ipc")
    manager.start_kernel(env=os.environ | {"PYTHONPATH": str(ROOT)})
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        client.execute(TRAINING)
        buttons = {}
        while {"Pause", "Stop"} - set(buttons):
            opened = message(client, "comm_open")
            buttons[opened["data"]["state"].get("description")] = opened["comm_id"]
        while "epoch " not in str(message(client, "comm_msg")["data"].get("state", {}).get("value")):
            pass
        after = client.execute(AFTER)  # waits for its turn, before the buttons and after
        press(client, buttons["Pause"])
        while message(client, "comm_msg")["data"].get("state", {}).get("description") != "Resume":
            pass
        press(client, buttons["Stop"])
        assert "image/svg+xml" in message(client, "update_display_data")["data"]
        assert message(client, "stream")["text"] == "Stop was pressed True 0 0\n"
        while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != after:
            assert reply["content"]["status"] == "ok"
        assert reply["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
