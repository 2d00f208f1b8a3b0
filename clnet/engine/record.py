"""A function of tensors that is recorded once, planned, and from then on replayed: per shape of its inputs, or, where
those were seen to vary, for all of them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..collector import paused
from ..core.precision import current_precision, stored_dtype
from ..core.size import Coincidence, Unsettled
from ..core.spec import Spec, dtype_name
from ..core.state import Variable, structure
from ..core.tensor import Tensor
from ..show import Shown, Table, plural, size
from . import current
from .arena import Arena
from .device.turns import Seats
from .evaluation import Evaluation
from .opencl import OpenCLEngine
from .replay import Recording, Replay, Shaped, Trace, tracing
from .shapes import varying_axes

if TYPE_CHECKING:
    from .protocol import Engine


SHAPES = 512  # of which a function keeps what runs them, for each thread
SPARE = 8  # threads that ended, whose kernels and buffers wait for others
RECORDINGS = 32  # that a function keeps: one for each class of sizes, or for each shape where sizes have to be known
COINCIDENCES = 4  # shapes of a function whose sizes happen to equal others; with more it is no chance


class Recorded(Shown):
    """`fn(*tensors) -> tensor or tuple of tensors`, with the variables it assigns as side effects.

    The first call records and plans; later ones upload the inputs and replay. Sizes that differ in a second call are
    what varies from then on: fn is recorded with sizes in their place, and the plan serves every further shape by its
    numbers alone, as far as kernels can. On an engine without plans (NumPy) every call evaluates the recorded graph.
    Raises what fn raises, when it records.
    A layer as fn is recorded for training and for evaluation; of any other fn what it finds when it is recorded counts,
    save that a changed field of a layer, loss or optimizer has everything recorded again.
    """

    def __init__(self, fn: Callable[..., Any], name: str = "") -> None:
        self.fn, self.name = fn, name or getattr(fn, "__name__", "step")
        self.replays: OrderedDict[Any, Any] = OrderedDict()
        self.recorded = 0  # how often it was
        self.fixed: dict[tuple[int, int], str] = {}  # (input, axis) of a size that has to be known -> by whom
        self.refused = ""  # why fn cannot be recorded with sizes in the place of numbers, where it cannot
        # The shape with its numbers compiled in: the first that comes, unless it is said before (a run that is resumed
        # in another place has to take the same plans).
        self.home: tuple[Spec, ...] | None = None
        self.coming: list[tuple[Spec, ...]] = []  # shapes that are said to come, before any did
        self.recordings: OrderedDict[Any, Recording] = OrderedDict()
        self._arenas: dict[Any, Arena] = {}  # by engine and seat: steps of one thread never run at one time
        self._coincidences = 0  # recordings that failed at one
        self._seats = Seats()
        self._tables = threading.Lock()  # held for a look
        self._making = threading.RLock()  # held while fn is recorded and planned; what is known runs meanwhile
        self.structure = structure()

    def __call__(self, *inputs: Any) -> Any:
        return self.prepare(*inputs)(*inputs)

    def expect(self, shapes: Iterable[tuple[Spec, ...]]) -> None:
        """Inputs of these specs will come: where several do, none has its numbers compiled in, as the first otherwise
        has, and what differs among them varies from the first call on.
        """
        self.coming = list(dict.fromkeys(shapes))

    def values(self, *inputs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """What fn gives, as arrays on the host. Of threads that want some at one time, as many compute as the device
        has units; the others wait in line.
        """
        found = self.prepare(*inputs)
        with found.turns:
            return tuple(found.values(*inputs))

    def table(self) -> Table:
        """What it was recorded for, and which sizes are compiled in."""
        rows = [(str(recording), "many" if recording.varies else "one", *recording.numbers())
                for recording in self.recordings.values()]
        notes = [f"axis {a} of input {k} is compiled in: {why}." for (k, a), why in self.fixed.items()]
        notes += [f"It is recorded for every shape anew: {self.refused}"] if self.refused else []
        return Table(("inputs", "shapes", "launches", "arena"), [(*row[:3], size(row[3])) for row in rows],
                     title=f"{self.name}: recorded {plural(self.recorded, 'time')}", notes=notes, align="llrr")

    def prepare(self, *inputs: Any) -> Any:
        """The replay for inputs like these, recorded, planned and built if it was not; nothing runs yet."""
        engine = current()
        specs = tuple([i.spec if type(i) is Tensor else spec_of(i) for i in inputs])  # most are
        if self.structure != structure():
            self._forget()
        if len(self._seats.free) > SPARE:
            self._clear()
        key = self._mode(engine), specs, self._seats.mine()
        found = self.replays.get(key)
        if found is None:
            started, now = time.perf_counter(), self.structure
            found = (self._bound(engine, *key) if isinstance(engine, OpenCLEngine)
                     else Evaluation(self.fn, specs, engine))
            with self._tables:
                if self.structure == now:  # or another thread has seen a change meanwhile
                    self.replays[key] = found
                while len(self.replays) > SHAPES * max(1, len(self._arenas)):
                    self.replays.popitem(last=False)
            _spent.seconds += time.perf_counter() - started
        return found

    def _mode(self, engine: Engine) -> Any:
        """What counts beside the inputs when fn is recorded."""
        return id(engine), current_precision(), stored_dtype(), getattr(self.fn, "training", None)

    def knows(self, specs: tuple[Spec, ...]) -> bool:
        """Whether what was recorded serves inputs of these specs, so that fn takes them."""
        return self.structure == structure() and self._known(self._mode(current()), specs) is not None

    def _forget(self) -> None:
        """What was recorded holds no longer."""
        with self._making, self._tables:
            self.structure, self.fixed, self.refused, self.home = structure(), {}, "", None
            self._coincidences = 0
            self.replays.clear()
            self.recordings.clear()

    def release(self) -> None:
        """Gives back the memory of what was recorded; the next call records anew."""
        self._forget()
        with self._making, self._tables:
            self._arenas.clear()

    def newest(self, since: Mapping[int, int]) -> bool:
        """Whether it holds memory of an engine, by its id, that was handed out after the block of this number."""
        replays = [getattr(r, "replay", r) for r in self.replays.values()]
        return any(block.number > since.get(id(r.engine), 0)
                   for r in replays if isinstance(r, Replay) for block in r.held())

    def _clear(self) -> None:
        """Drops what belongs to seats that nobody has had for long."""
        with self._tables:
            while len(self._seats.free) > SPARE:
                seat = self._seats.free.popleft()
                for table in (self.replays, self._arenas):
                    for key in [k for k in table if k[-1] == seat]:
                        del table[key]
                for recording in self.recordings.values():
                    recording.bound.pop(seat, None)

    @paused()
    def _bound(self, engine: OpenCLEngine, mode: Any, specs: tuple[Spec, ...], seat: int) -> Replay | Shaped:
        """What runs inputs of these specs in the thread that has the seat."""
        recording = self._known(mode, specs) or self._new(engine, mode, specs)
        with self._tables:
            arena = self._arenas.setdefault((mode[0], seat), Arena(engine))
        arena.enter()
        if recording.varies is None:
            return Replay(recording, specs, engine, arena)
        if seat not in recording.bound:
            recording.bound[seat] = Replay(recording, specs, engine, arena)
        return Shaped(recording, recording.bound[seat], specs)

    def _known(self, mode: Any, specs: tuple[Spec, ...]) -> Recording | None:
        """One for all shapes that has served others, or theirs."""
        with self._tables:
            known = [(s, recording) for (m, s), recording in reversed(self.recordings.items()) if m == mode]
        if specs != self.home:
            for _, recording in known:
                if recording.serves(specs):
                    return recording
        return dict(known).get(specs)

    def _new(self, engine: OpenCLEngine, mode: Any, specs: tuple[Spec, ...]) -> Recording:
        """One that nobody made before, or since this thread looked."""
        with self._making:
            found = self._known(mode, specs)
            if found is None:
                self.recorded += 1
                found = self._recorded(engine, mode, specs)
                with self._tables:
                    self.recordings[mode, specs] = found
                    while len(self.recordings) > RECORDINGS:
                        self.recordings.popitem(last=False)
            return found

    def _recorded(self, engine: OpenCLEngine, mode: Any, specs: tuple[Spec, ...]) -> Recording:
        several = len(self.coming) > 1
        self.home = self.home or (None if several else specs)
        with self._tables:
            before = [s for known, s, _ in self.replays if known == mode]
        seen = [*self.coming, *([self.home] if self.home else []), *before, specs]
        fixed = dict(self.fixed)
        while specs != self.home and (varies := varying_axes(seen, fixed)) is not None and not self.refused:
            try:
                return Recording(self.fn, specs, engine, varies)
            except Unsettled as error:
                places = dict.fromkeys(varies.places(error.axes), str(error))
                fixed |= places
                self._coincidences += isinstance(error, Coincidence)
                if not isinstance(error, Coincidence) or self._coincidences > COINCIDENCES:
                    self.fixed |= places
            except Exception as error:  # what is wrong with fn itself shows again when it is recorded with numbers
                self.refused = f"{type(error).__name__}: {error}"
        return Recording(self.fn, specs, engine)


class _Spent(threading.local):
    seconds = 0.0


_spent = _Spent()


def preparing() -> float:
    """[s] that this thread has spent so far on recording, planning and building what is replayed."""
    return _spent.seconds


def alone() -> contextlib.AbstractContextManager[Any]:
    """A block in which no other thread records: a model may be in another mode meanwhile."""
    return tracing


def infer(fn: Callable[..., Any], specs: Sequence[Spec]) -> list[Spec]:
    """The specs of what fn returns for inputs of these specs. Nothing runs, no variable changes. Raises what fn raises.
    """
    return [t.spec for t in Trace(fn, specs).outputs]


def spec_of(x: Any) -> Spec:
    """Shape and dtype of an input."""
    if isinstance(x, (Tensor, Variable)):
        return x.spec
    x = np.asarray(x)
    return Spec(x.shape, dtype_name(x.dtype))
