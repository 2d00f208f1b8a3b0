"""Where a step's time goes: its launches timed one by one,
those of one formula together, beside what the device's roof allows them.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine import on
from ...engine.compile.plan import by_fusion
from ...engine.device import roof as peak
from ...engine.device.roof import Peak
from ...engine.profiling import profile
from ...train.batches import Batches
from ...train.samples import as_dataset
from .. import tables, terminal
from .compare import Step
from .row import command

if TYPE_CHECKING:
    from ...engine.protocol import Engine
    from ...train.trainer import Trainer

ROUNDS = 5
SHOWN = 12  # parts in the terminal
NAMED = 4  # kinds of kernels that a sentence names
LESS = ("GFLOP", "MB", "grid", "GFLOP/s", "GB/s", "ops", "roof")
LEGEND = ("ms: of all these launches in a step, each timed alone by the device's clock (median of the rounds). "
          "MB: what they read and write; FLOP: of the formula. roof: the time that the measured peak allows for both / "
          "the time taken; above 1 where caches serve what is counted as memory.")


@dataclass(frozen=True)
class Part:
    """The launches of a step that do the same: kernels (the stages of one op together), how many times, and all times,
    bytes and flops in sum.
    """

    kernels: str
    ops: str
    grid: str
    calls: int
    ms: float
    nbytes: int
    flops: float
    roof: float | None = None


@dataclass(frozen=True)
class StepProfile:
    """parts, the longest first; ms: the step as it is replayed;
    kernels_ms: the sum of its launches; launches: how many.
    """

    work: str
    device: str
    ms: float
    kernels_ms: float
    launches: int
    parts: tuple[Part, ...]

    def as_rows(self) -> list[dict[str, Any]]:
        whole = max(self.kernels_ms, 1e-9)
        return [{"kernels": p.kernels, "ops": p.ops[:80], "grid": p.grid, "calls": p.calls, "ms": f"{p.ms:.4f}",
                 "share": f"{p.ms / whole:.1%}", "MB": f"{p.nbytes / 1e6:.1f}",
                 "GB/s": f"{p.nbytes / p.ms / 1e6:.0f}" if p.ms else "", "GFLOP": f"{p.flops / 1e9:.2f}",
                 "GFLOP/s": f"{p.flops / p.ms / 1e6:.0f}" if p.ms else "",
                 "roof": "" if p.roof is None else f"{p.roof:.2f}"} for p in self.parts]

    @property
    def lead(self) -> str:
        return f"{self.ms:.3f} ms a step, {self.launches} launches of {self.kernels_ms:.3f} ms in sum."

    @property
    def short(self) -> str:
        """The step's time, and the kernels that most of its launches' time goes to."""
        of: dict[str, float] = {}
        for p in self.parts:
            of[p.kernels] = of.get(p.kernels, 0.0) + p.ms / max(self.kernels_ms, 1e-9)
        most = sorted(of.items(), key=lambda kind: -kind[1])[:NAMED]
        said = ", ".join(f"{kernels} {share:.0%}" for kernels, share in most)
        return f"{self.work}: {self.ms:.3f} ms a step; of its launches' time {said}."

    def markdown(self) -> str:
        return f"### {self.work} on {self.device}\n\n{self.lead}\n\n{tables.markdown(self.as_rows())}\n"

    def show(self) -> None:
        """The longest parts in the terminal."""
        terminal.table(self.as_rows()[:SHOWN], title=f"{self.work} on {self.device}: {self.lead}", less=LESS,
                       whole="all of it is in the file")


def in_short(found: Sequence[StepProfile]) -> str:
    """What the profiles say in words, a sentence each."""
    return "\n".join(["In short:", "", *(f"- {tables.cell(p.short)}" for p in found)])


def profiled(name: str, step: Step, engine: Engine, peak: Peak | None = None) -> StepProfile:
    """The profile of a recorded step on an OpenCL engine."""
    with on(engine):
        step()
        engine.finish()
        seconds = _replayed(step, engine)
        times = []
        for _ in range(ROUNDS):
            with profile() as rows:
                step()
            times.append([ms for _, _, ms, _ in rows])
    steps = [s for s in step.plan.launches if s.host is None]
    alone = [statistics.median(t) for t in zip(*times, strict=True)]
    return StepProfile(name, engine.device.key, seconds * 1e3, sum(alone), len(steps),
                       tuple(_parts(steps, alone, peak)))


def one_step(trainer: Trainer, data: object, batch_size: int | None = None) -> Any:
    """The launches of one training step, each timed alone:
    what `clnet.profile()` gives, of the first batch and nothing else.

    The model is trained by two steps more: the first records.
    """
    whole = as_dataset(data)
    size = trainer.optimizer.batch(len(whole)) if batch_size is None else batch_size
    batch = whole.take(slice(size))
    trainer.fit(batch, epochs=1, batch_size=size, verbose=False)
    inputs, y = next(iter(Batches(batch, size).epoch()))
    arguments = (*inputs, y, trainer.steps.arguments(trainer.optimizer.t + 1, 0))
    step = trainer.steps.train.prepare(*arguments)
    with profile() as found:
        step(*arguments)
    trainer.optimizer.t += 1
    return found


def _replayed(step: Step, engine: Engine) -> float:
    """[s] a step, the wait for some of them shared."""
    samples = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(4):
            step()
        engine.finish()
        samples.append((time.perf_counter() - start) / 4)
    return statistics.median(samples)


def _parts(steps: Sequence[Any], times: Sequence[float], peak: Peak | None) -> list[Part]:
    """Stages that write the same result are one launch of an op; equal ones are added up."""
    numbers = iter(range(len(steps)))
    launches = [[next(numbers) for _ in stages] for stages in by_fusion(steps)]
    alike: dict[Any, list[list[int]]] = {}
    for stages in launches:
        alike.setdefault(tuple((steps[k].name, steps[k].text, steps[k].grid) for k in stages), []).append(stages)
    found = [_part(steps, times, same, peak) for same in alike.values()]
    return sorted(found, key=lambda p: -p.ms)


def _part(steps: Sequence[Any], times: Sequence[float], same: list[list[int]], peak: Peak | None) -> Part:
    first = [steps[k] for k in same[0]]
    ms, nbytes, flops = (sum(times[k] for stages in same for k in stages), sum(steps[s[0]].nbytes for s in same),
                         sum(steps[k].flops for s in same for k in s))
    roof = max(flops / peak.gflops, nbytes / peak.gbytes) / 1e6 / ms if peak and ms else None
    names = "+".join(dict.fromkeys(s.name for s in first)) + (f" ({first[-1].note})" if first[-1].note else "")
    grid = " ".join("×".join(map(str, s.grid)) + ("" if s.group is None else "/" + "×".join(map(str, s.group)))
                    for s in first)
    return Part(names, " ".join(dict.fromkeys(first[-1].ops)), grid, len(same), ms, nbytes, flops, roof)


def main(engine: Engine, works: Callable[..., list[Any]], suite: str, only: str, file: Path,
         precision: str = "") -> int:
    """Profiles the works of ours that are recorded steps; writes `file` and its numbers beside it as .json. Exit status
    1 if there is none.
    """
    roof = peak.measure(engine)
    found = []
    for work in works(suite, only=only, gpu=engine.device.is_gpu, precision=precision):
        call = work.ours(engine) if getattr(work, "ours", None) else None
        if isinstance(call, Step):
            with on(engine):
                call()
            if call.plan is not None:
                found.append(profiled(work.name, call, engine, roof))
                found[-1].show()
    if not found:
        print(f"bench: no work of {suite!r} named {only!r} has launches to profile on {engine.device.key}",
              file=sys.stderr)
        return 1
    made = command({"--suite": suite, "--only": only, "--precision": precision, "--profile": file,
                    "--device": engine.device.key})
    lead = (f"{engine.device.name}, driver {engine.device.driver}. Measured peak: {roof.gflops:.0f} GFLOP/s (float32), "
            f"{roof.gbytes:.1f} GB/s (triad).")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n\n".join([tables.header("Where the steps' time goes", made), in_short(found), lead, LEGEND,
                                 *(p.markdown() for p in found)]), encoding="utf-8")
    file.with_suffix(".json").write_text(json.dumps([asdict(p) for p in found], indent=1) + "\n", encoding="utf-8")
    return 0
