"""One work timed by everybody in turn: us, NumPy, PyTorch in its modes, JAX, tinygrad."""

from __future__ import annotations

import contextlib
import functools
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...engine import on
from ...engine.compile.plan import by_fusion
from ...engine.device.roof import Peak
from ...engine.record import Recorded
from ...engine.reference import NumpyEngine
from ...kernels.tuning import serving
from .. import tables
from ..cores import Cores, cores_of
from .peers import Jax, Run, Tinygrad, Torch
from .row import ARITHMETIC, Row
from .trust import NEEDED, Watch, doubt, wide

if TYPE_CHECKING:
    from ...engine.protocol import Engine

ROUNDS, QUICK_ROUNDS = 7, 3
# [s] a sample repeats a call until it is this long, or once;
# before it, calls run as long, until cores that slept are awake
SAMPLE = 0.03
PAUSE = 0.15  # [s] OpenBLAS threads spin for about 0.1 s after a product and would take a core from whoever comes next
RULES = "rules"  # what serves where nobody measured
# [s] a peer that has used this much is not run again in later rounds, once there are enough
PATIENCE, QUICK_PATIENCE = 6.0, 1.0
PATIENT = 6  # times that, until there are enough
CONVOLUTIONS = {"conv", "conv_data_gradient", "conv_weight_gradient"}
# First letters of kernels' names -> products that they make of those that are counted,
# in tiles of 2 x 2 and of 4 x 4 results.
WINOGRAD = {"winograd": 16 / 36, "winograd4": 36 / 144, "transform_": 36 / 144}
HOST_FLOPS = 2e10  # of a call: NumPy would take seconds for more


@dataclass(frozen=True)
class Setting:
    """What all works of a run have in common.
    `torch`, `tinygrad`, `jax`: the peers, or why they are not there; "" where nobody wants them.
    """

    engine: Engine
    torch: Torch | str = ""
    tinygrad: Tinygrad | str = ""
    quick: bool = False
    threads: int = 1
    peak: Peak | None = None
    jax: Jax | str = ""

    @property
    def rounds(self) -> int:
        return QUICK_ROUNDS if self.quick else ROUNDS

    def row(self, suite: str, work: str, peer: str = "", **facts: Any) -> Row:
        device, peak = self.engine.device, self.peak
        roof = {"peak_gflops": round(peak.gflops, 1), "peak_gbytes": round(peak.gbytes, 1)} if peak else {}
        return Row(suite, work, ARITHMETIC, device.key, peer,
                   **{"threads": self.threads, "machine": tables.device_words(device), **roof, **facts})


@dataclass(frozen=True)
class Work:
    """Something to time.
    `ours(engine)`, `torch(peer)`, `jax(peer)` and `tinygrad(peer)` prepare it and give a call that starts one run of
    it; peers are prepared within our engine, beside which they may check what they compute.

    modes    PyTorch's other modes by name ("fused", "compiled"); not in the quick form
    needs    what is missing for it here, if anything; then there is a row that says so in place of times
    numpy    whether NumPy runs it too (in the quick form only of ops)
    flops    of the formula; an addition, a product and a function count one each
    nbytes   inputs and outputs, each once; 0: what our kernels read and write
    arithmetic  of products and sums, on both sides
    ourselves   other ways of ours to do it, by name: "clnet (float32)" is a peer like the others
    """

    suite: str
    name: str
    ours: Callable[[Engine], Run]
    torch: Callable[[Torch], Run] | None = None
    quick: bool = False
    needs: str = ""
    modes: Mapping[str, Callable[[Torch], Run]] = field(default_factory=dict)
    tinygrad: Callable[[Tinygrad], Run] | None = None
    numpy: bool = True
    flops: float = 0.0
    nbytes: float = 0.0
    arithmetic: str = ARITHMETIC
    jax: Callable[[Jax], Run] | None = None
    ourselves: Mapping[str, Callable[[Engine], Run]] = field(default_factory=dict)

    def rows(self, setting: Setting) -> list[Row]:
        """One row a peer."""
        if self.needs:
            return [setting.row(self.suite, self.name, note=self.needs)]
        return compare(self, setting)


class Step:
    """A recorded step of ours and what gives its arguments: a call starts one replay."""

    def __init__(self, step: Recorded, arguments: Callable[[], tuple[Any, ...]]) -> None:
        self.step, self.arguments = step, arguments

    def __call__(self) -> Any:
        return self.step(*self.arguments())

    @property
    def plan(self) -> Any:
        """The plan that was last prepared; None on engines without plans."""
        return next((getattr(r, "plan", None) for r in reversed(self.step.replays.values())), None)

    @property
    def launches(self) -> int:
        return len(self.plan.launches)

    @property
    def nbytes(self) -> int:
        """[bytes] that the kernels of a step read and write; the stages of one op count once together, without what
        they hand each other.
        """
        return int(sum(stages[0].nbytes for stages in by_fusion(self.plan.launches)))

    @property
    def winograd(self) -> dict[str, Any]:
        """What rates count that no kernel makes,
        and what share of the convolutions' products is made: {} where all are.
        """
        found = [stages for stages in by_fusion(self.plan.launches) if CONVOLUTIONS & set(stages[0].ops)]
        flops = [sum(s.flops for s in stages) for stages in found]
        made = [min([share for word, share in WINOGRAD.items() if any(s.name.startswith(word) for s in stages)],
                    default=1.0) for stages in found]
        few = sum(share < 1 for share in made)
        if not few:
            return {}
        share = sum(m * f for m, f in zip(made, flops, strict=True)) / max(sum(flops), 1.0)
        return {"counted": f"as direct: Winograd's kernels make {few} of {len(made)} convolutions",
                "made": round(share, 3)}


@dataclass
class Contender:
    """Someone who runs a work; `problem`: why it could not.
    `pairs`: samples of a round, ours and its, in seconds a call; `shares`: of the cores' pace, a sample each.
    """

    name: str
    call: Run
    finish: Callable[[], None]
    repeats: int = 1
    pairs: list[tuple[float, float]] = field(default_factory=list)
    problem: str = ""
    pause: float = PAUSE
    cores: Cores = field(default_factory=Cores)
    shares: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Its time / ours, a round each."""
        return [its / mine for mine, its in self.pairs]

    def affords(self, patience: float) -> bool:
        """Whether it runs again:
        a slow peer's spread is worth less than the wait for it, a ratio of one round is worth nothing.
        """
        spent = sum(its for _, its in self.pairs) * self.repeats
        return not self.problem and spent < (patience if len(self.pairs) >= NEEDED else PATIENT * patience)

    def warm(self) -> None:
        """The first call compiles; a sample then tells how often to repeat."""
        self.call()
        self.finish()
        self.repeats = max(1, int(SAMPLE / max(self.sample(1), 1e-6)))

    def sample(self, repeats: int, disturbed: bool = False) -> float:
        """Seconds a call, over some calls and the wait for them. `disturbed`: whatever the pace of the cores."""
        with _entered(self.call) as call:
            cores = Cores() if disturbed else self.cores
            seconds = cores.steady(lambda: self._timed(call, repeats), lambda: time.sleep(self.pause))
        self.shares += [] if cores.share is None else [cores.share]
        return seconds

    def _timed(self, call: Run, repeats: int) -> float:
        rouse(call, self.finish)
        start = time.perf_counter()
        for _ in range(repeats):
            out = call()
        self.finish()
        seconds = (time.perf_counter() - start) / repeats
        del out
        return seconds

    @property
    def pace(self) -> float | None:
        """The share of their pace at which cores worked, the median of the samples."""
        return round(statistics.median(self.shares), 2) if self.shares else None


def rouse(call: Run, finish: Callable[[], None]) -> None:
    """Calls that wake the threads, after a pause in which the others' stopped spinning."""
    awake = time.perf_counter() + SAMPLE
    while time.perf_counter() < awake:
        call()
        finish()


def ours(work: Work, engine: Engine) -> tuple[Contender, dict[str, Any]]:
    """Us, warmed, with the facts of the step: launches, bytes, peak of the buffers."""
    pool = getattr(engine, "pool", None)
    cores = cores_of(engine)
    before = _settled(pool)
    with serving() as served:
        call = work.ours(engine)
        me = Contender("clnet", Within(engine, call), getattr(engine, "finish", _nothing), pause=pause_of(engine),
                       cores=cores)
        me.warm()
    facts: dict[str, Any] = {"tuning": "; ".join(sorted(served)) or RULES}
    if pool is not None:
        facts["peak_bytes"] = pool.statistics().peak - before
    if isinstance(call, Step) and call.plan is not None:
        facts |= {"launches": call.launches, "kernel_bytes": call.nbytes, **call.winograd}
    return me, facts


def _settled(pool: Any) -> int:
    """[bytes] in use, with nothing cached, so that what follows gets buffers of the size it asks for."""
    if pool is None:
        return 0
    gc.collect()
    pool.trim()
    pool.reset_peak()
    return int(pool.statistics().active)


def peers_of(work: Work, setting: Setting) -> list[Contender]:
    """The peers, warmed; one that cannot run has a `problem`."""
    wanted: list[tuple[str, Callable[[], Run], Callable[[], None]]] = []
    engine, torch, tiny = setting.engine, setting.torch, setting.tinygrad
    if work.numpy and engine.compiles and (work.suite == "ops" or not setting.quick):
        host = NumpyEngine("float32")
        slow = f"not run: {work.flops / 1e9:.0f} GFLOP a call take NumPy seconds" if work.flops > HOST_FLOPS else ""
        wanted.append(("numpy", lambda: _absent(slow) if slow else Within(host, work.ours(host)), _nothing))
    wanted += [(f"clnet ({name})", functools.partial(_otherwise, form, engine), getattr(engine, "finish", _nothing))
               for name, form in work.ourselves.items()]
    if isinstance(torch, Torch) and work.torch:
        for mode, prepare in {"": work.torch, **({} if setting.quick else work.modes)}.items():
            name = f"{torch.name} ({mode})" if mode else torch.name
            wanted.append((name, functools.partial(prepare, torch), torch.finish))
    if isinstance(setting.jax, Jax) and work.jax:
        wanted.append((setting.jax.name, functools.partial(work.jax, setting.jax), setting.jax.finish))
    if work.tinygrad and isinstance(tiny, Tinygrad):
        wanted.append((tiny.name, functools.partial(work.tinygrad, tiny), tiny.finish))
    for name, peer in (("jax", setting.jax if work.jax else ""), ("tinygrad", tiny if work.tinygrad else "")):
        if peer and isinstance(peer, str):
            wanted.append((name, functools.partial(_absent, peer), _nothing))
    cores = cores_of(engine)
    with on(engine):
        return [_contender(*w, pause_of(engine), cores) for w in wanted]


def _otherwise(form: Callable[[Engine], Run], engine: Engine) -> Run:
    return Within(engine, form(engine))


def pause_of(engine: Engine) -> float:
    """[s] Nobody takes a core from a GPU."""
    return 0.0 if engine.device.is_gpu else PAUSE


def _absent(why: str) -> Run:
    raise LookupError(why)


def _contender(name: str, prepare: Callable[[], Run], finish: Callable[[], None], pause: float,
               cores: Cores) -> Contender:
    found = Contender(name, _nothing, finish, pause=pause, cores=cores)
    try:
        found.call = prepare()
        found.warm()
    except LookupError as error:
        found.problem = str(error)
    except Exception as error:  # a peer that breaks here says nothing about us
        found.problem = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return found


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Within:
    """A call for which this engine is the current one."""

    engine: Engine
    call: Run

    def __call__(self) -> Any:
        with on(self.engine):
            return self.call()


@contextlib.contextmanager
def _entered(call: Run) -> Iterator[Run]:
    """What a sample calls: the device is chosen once, as by users, not at each call (0.5 µs, of 8 of a small one)."""
    if isinstance(call, Within):
        with on(call.engine):
            yield call.call
    else:
        yield call


def compare(work: Work, setting: Setting) -> list[Row]:
    """Rows of a work, one a peer: all take a sample in turn, so that a busy moment hits all alike, each while the cores
    work at their pace; rounds that differ much are followed by as many.
    """
    me, facts = ours(work, setting.engine)
    others = peers_of(work, setting)
    watch, samples = Watch(), list[float]()
    _rounds(setting, me, others, samples)
    if again := [o for o in others if wide(o.ratios)]:
        _rounds(setting, me, again, samples)
    mine, busy = statistics.median(samples), watch.others()
    facts |= {"ours_ms": round(mine * 1e3, 5), "ours_min": round(min(samples) * 1e3, 5),
              "ours_max": round(max(samples) * 1e3, 5), "arithmetic": work.arithmetic,
              **rates(work, mine, facts.get("kernel_bytes", 0), setting.peak)}
    bare = setting.row(work.suite, work.name, busy=None if busy is None else round(busy, 2), pace=me.pace, **facts)
    return [_against(bare, o, setting.rounds) for o in others] or [bare]


def _rounds(setting: Setting, me: Contender, others: Sequence[Contender], samples: list[float]) -> None:
    patience = QUICK_PATIENCE if setting.quick else PATIENCE
    before = {id(o): len(o.pairs) for o in others}
    for _ in range(setting.rounds):
        samples.append(me.sample(me.repeats))
        for o in others:
            # Asked for again, a peer is as patient as before.
            if o.affords(patience * (2 if before[id(o)] else 1)):
                o.pairs.append((samples[-1], o.sample(o.repeats)))


def _against(bare: Row, peer: Contender, wanted: int) -> Row:
    if peer.problem:
        return replace(bare, peer=peer.name, note=peer.problem)
    ratios, its = peer.ratios, statistics.median(its for _, its in peer.pairs)
    pace = min(filter(None, (bare.pace, peer.pace)), default=None)
    return replace(bare, peer=peer.name, pace=pace, peer_ms=round(its * 1e3, 5),
                   ratio=round(statistics.median(ratios), 4), min=round(min(ratios), 4), max=round(max(ratios), 4),
                   rounds=len(ratios), doubt=doubt(ratios, wanted))


def rates(work: Work, seconds: float, kernel_bytes: int, peak: Peak | None) -> dict[str, float]:
    """GFLOP/s, GB/s, flops a byte, and the share of what the peak allows there."""
    nbytes = work.nbytes or kernel_bytes
    gflops, gbytes = work.flops / seconds / 1e9, nbytes / seconds / 1e9
    found = ({"gflops": round(gflops, 3)} if work.flops else {}) | ({"gbytes": round(gbytes, 3)} if nbytes else {})
    if not (work.flops and nbytes):
        return found
    found["intensity"] = round(work.flops / nbytes, 4)
    # The peak is that of float32: tensor cores have another.
    if peak and work.arithmetic == ARITHMETIC:
        found["share"] = round(gflops / peak.attainable(work.flops / nbytes, nbytes), 4)
    return found
