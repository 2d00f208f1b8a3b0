"""A kernel of one's own as an op: what its launch is for a call, and which of its tunables are fastest."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...core import arguments, running
from ...core.op import Kernel
from ...core.origin import Origin
from ...core.spec import Spec, einshape, result_shape
from ...core.tensor import Tensor, TensorLike, as_tensor
from ...errors import ClnetError, ConfigError, ShapeError
from ...kernels.operand import Operand
from ...kernels.stage import Stage
from ...kernels.variant import Choice, Offer, Refusal, Variant
from ...names import ending
from ...show import Shown, Table
from ..view import reshape
from .own import bound, renew, signature
from .prototype import Parameter

if TYPE_CHECKING:
    from ...engine.device.device import Device

Known = Mapping[str, Any]
Sizes: TypeAlias = "int | Sequence[int] | Callable[..., Any]"
LOCAL = 1 << 16  # work-items of a group that no device has
ROUNDS = 7  # of interleaved times in `tune`
PART = 32  # elements to which results that share memory are aligned
SLIPS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)  # of functions of somebody's own


@dataclass(eq=False, repr=False)
class WholeKernel(Kernel):
    """A kernel of one's own: f(x, y, a=2.0) gives its result, or a tuple of them."""

    _: KW_ONLY
    entry: str = ""
    buffers: tuple[Parameter, ...] = ()
    results: dict[str, Any] = field(default_factory=dict)  # name -> shape, or a function for it
    numbers: dict[str, tuple[str, Any]] = field(default_factory=dict)  # name -> (dtype, number or function)
    global_size: Sizes = 1
    local_size: Sizes | None = None
    macros: dict[str, Any] = field(default_factory=dict)
    tunables: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the device's key
    origin: Origin | None = None
    seen: tuple[Spec, ...] = ()  # inputs of the last call

    @property
    def parameters(self) -> dict[str, Any]:
        """The numbers that a call may state."""
        return {n: value for n, (_, value) in self.numbers.items() if not callable(value)}

    @property
    def __signature__(self) -> Any:
        return signature(self.args, self.parameters)

    def __call__(self, *args: TensorLike, **given: Any) -> Any:
        found = bound(self.name, self.__signature__, args, given)
        attrs = {n: arguments.number(f"{self.name}, {n}", found[n], self.numbers[n][0]) for n in self.parameters}
        y = self.record(tuple(found[n] for n in self.args), attrs)
        if len(self.results) == 1:
            return y
        return self.parts(y, [t.spec for t in y.inputs], attrs)

    def parts(self, whole: Tensor, inputs: Sequence[Spec], attrs: Known) -> tuple[Tensor, ...]:
        """The results, which lie in one vector."""
        starts = self.starts(inputs, attrs)
        return tuple(reshape(whole[at : at + spec.size], spec.shape) for at, spec in starts.values())

    def starts(self, inputs: Sequence[Spec], attrs: Known) -> dict[str, tuple[int, Spec]]:
        """(element of that vector at which it begins, spec) of each result."""
        found, at = dict[str, tuple[int, Spec]](), 0
        for n, spec in self.specs(inputs, attrs).items():
            found[n] = at, spec
            at = at + -(-spec.size // PART) * PART
        return found

    # --- what is known of a call
    def known(self, inputs: Sequence[Spec], attrs: Known, device: Device | None = None) -> dict[str, Any]:
        """What functions of shapes may ask for, by name: specs of inputs, numbers, macros as they are on the device."""
        chosen = {n: values[0] for n, values in self.tunables.items()}
        chosen |= self.tuned.get(device.key, {}) if device is not None else {}
        return {**dict(zip(self.args, inputs, strict=True)), **attrs, **self.macros, **chosen}

    def said(self, what: str, value: Any, known: Known, error: type[ClnetError] = ShapeError) -> Any:
        """A number or shape as it was stated, or by the function that was. Raises `error` where that fails."""
        if not callable(value):
            return value
        taken = list(inspect.signature(value).parameters)
        if unknown := [n for n in taken if n not in known]:
            raise ConfigError(f"{self.name}: expected {what} to be a function of some of {', '.join(known)}; "
                              f"got one of {unknown[0]!r}{ending(unknown[0], known)}")
        try:
            return value(**{n: known[n] for n in taken})
        except SLIPS as slip:
            got = ", ".join(f"{n} {known[n]}" for n in taken)
            raise error(f"{self.name}: expected inputs that its {what} is defined for; got {got}: "
                        f"{type(slip).__name__}: {slip}.") from slip

    def specs(self, inputs: Sequence[Spec], attrs: Known) -> dict[str, Spec]:
        """Of the results, by name."""
        known, real = self.known(inputs, attrs), "float64" if any(s.dtype == "float64" for s in inputs) else "float32"
        if self.signature:
            bind = einshape(self.signature, self.name, self.args)(*inputs)
        found = {}
        for n, shape in self.results.items():
            wanted = result_shape(self.signature, bind) if shape is None else self.said(f"shape of {n}", shape, known)
            dtype = next(b.dtype for b in self.buffers if b.name == n)
            found[n] = Spec(arguments.sizes(self.name, wanted.shape if isinstance(wanted, Spec) else wanted,
                                            f"the shape of {n}"),
                            real if dtype == "T" else dtype)
        return found

    def everything(self, inputs: Sequence[Spec], attrs: Known, device: Device | None = None) -> dict[str, Any]:
        """`known` with the specs of results and the numbers that are functions of shapes."""
        known = {**self.known(inputs, attrs, device), **self.specs(inputs, attrs)}
        return known | {n: self.said(n, value, known) for n, (_, value) in self.numbers.items() if n not in known}

    def sizes(self, known: Known) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """(global, local) of a launch. Raises ConfigError for what cannot be launched."""
        grid = arguments.sizes(self.name, self.said("global_size", self.global_size, known), "global_size", ConfigError)
        local = self.said("local_size", self.local_size, known)
        group = None if local is None else arguments.sizes(self.name, local, "local_size", ConfigError)
        if not 1 <= len(grid) <= 3 or any(n < 1 for n in grid):
            raise ConfigError(f"{self.name}: expected global_size to be one to three numbers of at least 1; "
                              f"got {grid}.")
        if group and (len(group) != len(grid) or any(g < 1 or n % g for n, g in zip(grid, group, strict=True))):
            raise ConfigError(f"{self.name}: expected local_size to divide global_size axis by axis; got {group} for "
                              f"{grid}; round global_size up, and let work-items beyond the end return.")
        return grid, group

    # --- what Kernel asks
    def choice(self, device: Device, operands: Sequence[Operand], **attrs: Any) -> Choice:
        """The one kernel that there is."""
        row = Variant(self.name, self.entry, self.origin.place(1) if self.origin else "", "any", 0, _refused)
        inputs = [Spec(o.shape, o.dtype) for o in operands]
        stage = self.stage(inputs, attrs, device)
        if stage.group and math.prod(stage.group) > device.max_work_group:
            raise ConfigError(f"{self.name}: expected a local_size of at most {device.max_work_group} work-items on "
                              f"{device.name}; got {stage.group}; make it smaller.")
        return Choice(self.name, row, Offer(lambda: [stage]), ())

    def stage(self, inputs: Sequence[Spec], attrs: Known, device: Device) -> Stage:
        """The launch: results that share memory are pointers into it."""
        known = self.everything(inputs, attrs, device)
        grid, group = self.sizes(known)
        macros = {n: known[n] for n in (*self.macros, *self.tunables)}
        numbers = {n: (dtype, known[n]) for n, (dtype, _) in self.numbers.items()}
        starts = {f"g_{n}_at": ("uint64", at) for n, (at, _) in self.starts(inputs, attrs).items()}
        return Stage(self.entry, macros, grid, group, scalars={**(starts if len(starts) > 1 else {}), **numbers})

    # --- tunables
    def tune(self, *args: TensorLike, **given: Any) -> Tuned:
        """Times every combination of the tunables on this call, on the current device, and keeps the fastest for it in
        this process. Raises ConfigError where there are none, on NumPy, and where none can be launched.
        """
        engine = running.current()
        if not self.tunables or not engine.compiles:
            why = "got NumPy, which runs the reference" if self.tunables else "got none; state tune={'GROUP': (32, 64)}"
            raise ConfigError(f"{self.name}.tune: expected tunables and an OpenCL device; {why}.")
        inputs = tuple(x if isinstance(x, (bool, int, float)) else as_tensor(x) for x in args)
        rows = list(_timed(self, engine, inputs, given))
        good = [r for r in rows if not r[2]]
        if not good:
            raise ConfigError(f"{self.name}.tune: expected a combination that can be launched; got {rows[0][2]}")
        self.tuned[engine.device.key] = min(good, key=lambda r: r[1])[0]
        renew(self)
        return Tuned(self.name, str(engine.device), self.tuned[engine.device.key], rows)


Row: TypeAlias = "tuple[dict[str, Any], float, str]"  # values, [ms] at best, why it cannot be


@dataclass(repr=False)
class Tuned(Shown):
    """What `tune` found: the values that are kept, and all that were tried."""

    name: str
    device: str
    kept: dict[str, Any]
    rows: list[Row]

    def table(self) -> Table:
        names = list(self.kept)
        lines = [(*(values[n] for n in names), None if why else ms, why or ("kept" if values == self.kept else ""))
                 for values, ms, why in self.rows]
        return Table((*names, "ms", ""), lines, title=f"{self.name} on {self.device}: least of {ROUNDS} rounds")


def _timed(op: WholeKernel, engine: Any, inputs: tuple[Any, ...], given: Known) -> Iterator[Row]:
    """The least time of each combination, in turn; one that gives other values than the first is none."""
    names, key = list(op.tunables), engine.device.key
    rows = [(dict(zip(names, values, strict=True)), math.inf, "") for values in product(*op.tunables.values())]
    before, wanted = op.tuned.get(key), None
    try:
        for turn in range(ROUNDS + 1):
            for k, (values, best, why) in enumerate(rows):
                if why:
                    continue
                op.tuned[key] = values
                op.key = f"{op.name}#try{k}"
                try:
                    start = time.perf_counter()
                    y = op(*inputs, **given)
                    engine.run(list(y) if isinstance(y, tuple) else [y])
                    engine.finish()
                    ms = (time.perf_counter() - start) * 1e3
                    if not turn:
                        got = engine.values([*y] if isinstance(y, tuple) else [y])
                        wanted = wanted or got
                        same = all(np.allclose(*pair, 1e-4, 1e-5, True) for pair in zip(got, wanted, strict=True))
                        rows[k] = values, math.inf, "" if same else "gives other values than the first"
                    else:
                        rows[k] = values, min(best, ms), ""
                except ClnetError as error:
                    rows[k] = values, math.inf, str(error).split("\n")[0]
    finally:
        for k in range(len(rows)):
            running.replaced(f"{op.name}#try{k}")
        op.tuned = {**op.tuned, key: before} if before else {d: v for d, v in op.tuned.items() if d != key}
        renew(op)
    yield from rows


def _refused(problem: Any, device: Device) -> Refusal:
    return Refusal("it is asked by its op")
