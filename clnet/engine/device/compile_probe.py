"""Builds a program in a child process first, because a compiler may take the process with it (PoCL 3.0 does)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 120.0  # [s]


def environment() -> dict[str, str]:
    """Variables for a child process that must find this very clnet, and whatever else this one finds."""
    root = str(Path(__file__).resolve().parents[3])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}


def probe(source: str, options: Sequence[str], device: str, name: str, folder: Path) -> str:
    """Why this program must not be built in this process: "" if nothing speaks against it."""
    request = {"source": source, "options": list(options), "device": device, "name": name, "folder": str(folder)}
    try:
        child = subprocess.run([sys.executable, "-m", "clnet.engine.device.compile_child"],
                               input=json.dumps(request).encode(), capture_output=True, timeout=PATIENCE, check=False,
                               env=environment())
    except subprocess.TimeoutExpired:
        return f"its compilation did not end within {PATIENCE:.0f} s"
    if child.returncode == 0:
        return ""
    last = child.stderr.decode(errors="replace").strip().split("\n")[-1]
    return f"the compiler died of it (exit status {child.returncode}) {last}".strip()
