"""The process that `compilers` starts: it compiles what a line of its input describes, into the store."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from . import devices
from .device import Device
from .program_files import Store

IDLE = 120.0  # [s] without a question, after which nobody is taken to be there any more


def main() -> None:
    """Answers line by line: {"failed": ""} where the store has the binary. Ends with its input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and closes the pipe
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a compiler prints is no answer
    built: dict[str, Device] = {}
    while os.name != "posix" or select.select([sys.stdin], [], [], IDLE)[0]:
        line = sys.stdin.buffer.readline()
        if not line:
            return
        try:
            failed = _answer(json.loads(line), built)
        except Exception as error:  # the parent compiles it itself and says what is wrong
            failed = f"{type(error).__name__}: {str(error)[:200]}"
        print(json.dumps({"failed": failed}), file=out, flush=True)


def _answer(asked: dict[str, Any], known: dict[str, Device]) -> str:
    import pyopencl as cl

    device = known.get(asked["device"]) or known.setdefault(asked["device"], devices.select(asked["device"])[0])
    if [device.name, device.driver, device.version, device.platform, device.platform_version] != asked["facts"]:
        return "it is another device here"
    raw: Any = cl._cl._Program(device.context, asked["source"])
    (raw._build if hasattr(raw, "_build") else raw.build)(asked["options"].encode(), None)
    binaries: Any = cl.Program(raw).get_info(cl.program_info.BINARIES)
    store = Store(Path(asked["folder"]))
    store.write(asked["key"], bytes(binaries[0]))
    return store.problem


if __name__ == "__main__":
    main()
