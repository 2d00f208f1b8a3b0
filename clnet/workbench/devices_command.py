"""`clnet devices`: what there is, and which is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..engine.device.devices import Device, devices, select
from ..errors import NoDeviceError
from ..show import size
from . import terminal


def driver(device: Device) -> str:
    """The platform with its driver; of the host, the version of NumPy."""
    return f"NumPy {device.driver}" if device.is_host else f"{device.platform}, driver {device.driver}"


def as_row(device: Device) -> dict[str, Any]:
    """All that is known of a device, as JSON takes it."""
    return {f.name: getattr(device, f.name) for f in fields(device) if f.name != "handle"}


def main(json_file: Path | None = None) -> int:
    """The devices as a table, the chosen one marked, and the reason for the choice; all fields as JSON into a file
    ("-": to standard output).
    """
    found = devices()
    if json_file is not None:
        terminal.save_json([as_row(d) for d in found], json_file)
    if json_file == terminal.STDOUT:
        return 0
    try:
        chosen, why = select()
    except NoDeviceError:  # CLNET_DEVICE names none: what there is helps
        _show(found, None)
        raise
    _show(found, chosen)
    terminal.say(f"* chosen: {why}")
    return 0


def _show(found: Sequence[Device], chosen: Device | None) -> None:
    rows = [{"#": f"{k}", "key": d.key + " *" * (d == chosen),
             "name": "the host, and the float64 reference" if d.is_host else d.name, "driver": driver(d),
             "kind": d.kind, "units": d.compute_units, "memory": size(d.global_memory)} for k, d in enumerate(found)]
    terminal.table(rows, less=("#", "memory", "units", "kind"), whole="`clnet doctor` says all")
