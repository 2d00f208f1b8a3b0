"""What a new shape costs: the first run of a batch size or length, processes that start, lengths at random, planning by
depth, and serving; each measured in processes of its own.
"""

from __future__ import annotations

from ..row import Row, number, shown_ratio, spread, timed
from ..shapes import argument, cold, lengths, new, planning, serving
from ..shapes.networks import large, tasks
from . import Curve, Measurable, Suite

LEGEND = ("ours, peer: [ms] of the first run of a shape (planning: to record, plan and bind a step); where shapes are "
          "at random, of a step or a request. of steady: that / the same in shapes that are known. ratio: the peer's "
          "time / ours, the median of sizes, chunks or rounds, and their spread. built: programs that we compiled "
          "meanwhile; of random lengths after the first ten, of serving after the warm-up. pool: our buffers in use, "
          "before → after. warm cache: in one more process, with the programs and plans that the first one kept.")
CURVES = {"planning, residual blocks": Curve("residual blocks", "time to record, plan and bind a step"),
          "planning, plan on disk, residual blocks": Curve("residual blocks", "the same, planned in another process"),
          "planning, plan in memory, residual blocks": Curve("residual blocks", "the same, planned in this one")}


def works() -> list[Measurable]:
    """All of them; those that end soon first."""
    found = tasks()
    return [*new.works(found, large()), *argument.works(), *cold.works(), *lengths.works(), *planning.works(),
            *serving.works()]


def cells(r: Row) -> dict[str, object]:
    """A row as it stands in tables."""
    pool = "" if r.pool_after is None else f"{number(r.pool_before, '.0f', 1e6)} → {number(r.pool_after, '.0f', 1e6)}"
    # Three digits, not two places: a new shape may take us hundreds of times the peer's time.
    return {**timed(r), "ratio": shown_ratio(r, ".3g"), "spread": spread(r, ".3g"),
            "of steady": _share(r.ours_ms, r.steady_ms), "its of steady": _share(r.peer_ms, r.peer_steady_ms),
            "built": number(r.built, "d"), "launches": number(r.launches, "d"), "pool [MB]": pool, "note": r.remarks}


def _share(new: float | None, steady: float | None) -> str:
    return f"{new / steady:.2f}" if new and steady else ""


SUITE = Suite(works, legend=LEGEND, cells=cells, rates=False, narrow=False, curves=CURVES)
