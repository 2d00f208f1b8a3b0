"""Devices, values on two engines and benchmarks, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...engine import on
from ...engine.device import roof
from ...engine.device.devices import Device
from ...engine.device.devices import devices as found_devices
from ...errors import DataError
from ...show import Table, duration, size
from .. import parity as compared
from ..bench import report as bench_report
from ..bench.plots import pictures
from ..bench.row import Row as BenchRow
from ..bench.row import number, shown_ratio
from ..marks import Mark
from ..plots import maps
from .explorer import Explorer
from .rows import Part

if TYPE_CHECKING:
    from ...layers.base import Layer

WORST = 8  # elements that a page of two values lists


def devices() -> Explorer[Device]:
    """The devices found: runtime, driver, cores, memory; "measure now" finds what one reaches at best."""
    reached: dict[str, roof.Peak] = {}

    def measured(device: Device) -> Device:
        if device.is_host:
            raise DataError(f"explore.devices: expected an OpenCL device to measure; got {device}.")
        with on(device) as engine:
            reached[device.key] = roof.measure(engine)
        return device

    def detail(device: Device) -> Iterator[Part]:
        yield device.profile()
        if top := reached.get(device.key):
            yield f"It reaches {top.gflops:,.0f} GFLOP/s and {top.gbytes:,.1f} GB/s."

    return Explorer("Devices", ("", "device", "kind", "runtime", "units", "memory", "driver"), list(found_devices()),
                    lambda d: (d.key, d.name, d.kind, d.runtime, d.compute_units, size(d.global_memory), d.driver),
                    detail, {"kind": lambda d: d.kind}, {"measure now": measured})


def parity(model: Layer, inputs: np.ndarray[Any, Any] | Sequence[np.ndarray[Any, Any]],
           name: str = "") -> Explorer[compared.Place]:
    """Every value of a model on this device beside the float64 reference, forward and backward: maps of both and of
    their error, the worst elements, and the first divergence in the title. An array is the one input.
    """
    given = [inputs] if isinstance(inputs, np.ndarray) else inputs
    found = compared.compare(model, given, name=name, keep=True)

    def detail(place: compared.Place) -> Iterator[Part]:
        yield Table(["", place.name], [(k, v) for k, v in place.row().items()], align="ll")
        if place.got is not None and place.want is not None:
            yield maps({"device": place.got, "float64": place.want, "error": place.error}, place.name)
            yield _worst(place)

    return Explorer(str(found), ("pass", "value", "shape", "largest error", "of allowed", "within"), found.places,
                    lambda p: [p.row()[k] for k in ("pass", "where", "shape", "largest error", "of allowed")]
                    + [Mark(p.ok).text], detail, {"pass": lambda p: p.pass_, "within": lambda p: Mark(p.ok).text})


def _worst(place: compared.Place) -> Table:
    """The elements that are furthest apart."""
    assert place.got is not None and place.want is not None
    order = np.argsort(-place.error, axis=None, kind="stable")[:WORST]
    rows = [(", ".join(map(str, np.unravel_index(k, place.error.shape))), f"{place.got.flat[k]:.9g}",
             f"{place.want.flat[k]:.9g}", f"{place.error.flat[k]:.2g}", f"{place.ulp.flat[k]:.3g}") for k in order]
    return Table(("element", "device", "float64", "error", "ulp"), rows, title="The worst elements", align="lrrrr")


def benchmarks(*files: str | Path) -> Explorer[BenchRow]:
    """The rows of `clnet bench --json`: our time, the peer's, the ratio (above 1 we are faster); a row shows the
    pictures of its suite. Raises DataError for a file that holds no such rows.
    """
    rows = bench_report.read([Path(f) for f in files])

    def detail(row: BenchRow) -> Iterator[Part]:
        said = [("our time", duration((row.ours_ms or 0) / 1e3)), ("device", row.machine or row.device),
                ("remarks", row.remarks)]
        if row.peer:
            said.insert(1, (row.peer, duration((row.peer_ms or 0) / 1e3)))
        yield Table(("", row.work), [(k, v) for k, v in said if v], align="ll")
        yield from pictures([r for r in rows if (r.suite, r.device) == (row.suite, row.device)]).values()

    return Explorer("Benchmarks", ("suite", "work", "peer", "ours [ms]", "peer [ms]", "ratio", "device"), rows,
                    lambda r: (r.suite, r.work, r.peer, number(r.ours_ms, ".3f"), number(r.peer_ms, ".3f"),
                               shown_ratio(r), r.device),
                    detail, {"suite": lambda r: r.suite, "peer": lambda r: r.peer, "device": lambda r: r.device})
