"""Kernels with the numbers that they take: one changed, timed beside the present one, and kept or taken back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import ipywidgets as widgets

from ...core.op import OPS
from ...core.spec import Spec
from ...engine import current, on
from ...engine.compile.listing import Listing
from ...errors import ConfigError, NoDeviceError
from ...kernels import tuning
from ...kernels.operand import row_major
from ...kernels.variant import VARIANTS, Variant
from ...show import Table, plural
from .. import kernel_page
from ..tune.call import Call, calls, product
from ..tune.kept import Kept, found
from ..tune.trials import Trial, Tunable, macros, search, trial, tunables, undo
from ..widgets import escape
from .explorer import Explorer, Panel
from .rows import Part

if TYPE_CHECKING:
    from ...engine.device.devices import Device
    from ...engine.protocol import Engine

HEADS = ("family", "kernel", "file", "call", "numbers", "tried")
BUDGET = 20.0  # [s] of a search by a click
SERVED = ("NN 64x784x512", "NT 8x512x512")  # products beside the examples of docs/kernels.md


class Row(NamedTuple):
    """A variant, with a call that it serves on the device, and what was said of a trial of that."""

    variant: Variant
    call: Call | None
    said: str = ""


class Kernels(Explorer[Row]):
    """Hand-written kernels. `tunables(row)` are the numbers that a row's kernel takes, `try_(row, tile=(8, 3))` times
    others in turn with the present ones, `search(row)` looks for the best; `keep(row)` writes what was tried last into
    the user's table, and `undo(row)` takes it back. A row may be its number.
    """

    def __init__(self, title: str, rows: list[Row], engine: Engine) -> None:
        self.engine, self.trials = engine, dict[Call, Trial]()
        super().__init__(title, HEADS, rows, self._cells, self._detail,
                         {"family": lambda r: r.variant.family, "file": lambda r: r.variant.cl,
                          "numbers": lambda r: "with numbers" if self._sections(r) else "none"})

    def panel(self) -> KernelPanel:
        return KernelPanel(self)

    def tunables(self, row: Row | int) -> list[Tunable]:
        """The numbers that the kernel takes; none where it takes none here."""
        found = self._row(row)
        return list(tunables(found.call, self.engine)) if found.call is not None and self._sections(found) else []

    def try_(self, row: Row | int, **numbers: Any) -> Trial:
        """Times the call with these numbers, as `clnet.tune.trial` does; raises what that raises."""
        return self._tried(row, trial(self._called(row), numbers, engine=self.engine))

    def search(self, row: Row | int, budget: float = BUDGET) -> Trial:
        """Looks for better numbers for about `budget` seconds, as `clnet tune` does."""
        return self._tried(row, search(self._called(row), budget, engine=self.engine))

    def keep(self, row: Row | int) -> str:
        """Keeps what was tried last, and says where."""
        call = self._called(row)
        if call not in self.trials:
            raise ConfigError(f"kernels: expected numbers that were tried; got none of {call}; time some first.")
        path = self.trials[call].keep()
        self.engine.plans.clear()
        return f"kept in {path}; plans made from now on use it"

    def undo(self, row: Row | int) -> str:
        """Takes back what was kept last for calls of this class, and says where."""
        device = self.engine.device
        path = undo(self._called(row).entry(device), device)
        self.engine.plans.clear()
        return f"taken back in {path}"

    def _row(self, row: Row | int) -> Row:
        return self.rows[row] if isinstance(row, int) else row

    def _called(self, row: Row | int) -> Call:
        found = self._row(row)
        if found.call is None:
            raise ConfigError(f"kernels: expected a kernel that serves a call on {self.engine.device.key}; got "
                              f"{found.variant.name} of {found.variant.cl}, {found.variant.serves}.")
        return found.call

    def _tried(self, row: Row | int, made: Trial) -> Trial:
        self.trials[made.call] = made
        old = self._row(row)
        k = next(k for k, r in enumerate(self.rows) if r.variant is old.variant and r.call == old.call)
        self.rows[k] = old._replace(said=made.said)
        return made

    def _sections(self, row: Row) -> list[tuple[str, str]]:
        return row.call.sections(self.engine.device) if row.call is not None else []

    def _cells(self, row: Row) -> list[object]:
        return [row.variant.family, row.variant.name, row.variant.cl, str(row.call or ""),
                ", ".join(section for section, _ in self._sections(row)), row.said]

    def _detail(self, row: Row) -> Iterator[Part]:
        yield f"{row.variant.name} of {row.variant.cl} serves: {row.variant.serves}."
        if row.call is None:
            yield Listing(files("cl_kernels").joinpath(row.variant.cl).read_text("utf-8"))
            return
        if made := self.trials.get(row.call):
            yield made
        if self._sections(row):
            yield tunables(row.call, self.engine).table()
        chosen = list(macros(row.call, self.engine.device).items())
        yield Table(("chosen", ""), chosen, align="ll", title=f"What the rules make of {row.call}")
        yield from self._sources(row.call, made.numbers if made else {})

    def _sources(self, call: Call, numbers: Any) -> Iterator[Part]:
        """The kernels as they are built, with what was tried, if anything."""
        entry = call.entry(self.engine.device) if numbers else ("", "")
        with on(self.engine), tuning.overriding(entry, dict(numbers)):
            if numbers:
                yield "As it is built with what was tried:"
            stages = call.explained()
            yield from (stages.kernel(k) for k in range(len(stages.launches)))


class KernelPanel(Panel[Row]):
    """The list, and below it a number, its value, and buttons that time, keep, take back and search."""

    def __init__(self, explorer: Kernels) -> None:
        self.kernels = explorer
        wide = {"description_width": "initial"}
        self.number = widgets.Dropdown(description="number", style=wide, layout={"width": "max-content"})
        self.value = widgets.Combobox(description="value", ensure_option=False, style=wide, layout={"width": "20em"})
        self.does = {"time it": self._time, "keep it": lambda: explorer.keep(self._chosen),
                     "take it back": lambda: explorer.undo(self._chosen), f"search {BUDGET:g} s": self._search}
        self.tries = {name: widgets.Button(description=name, layout={"width": "max-content"}) for name in self.does}
        super().__init__(explorer)
        self.number.observe(self._values, "value")
        for name, button in self.tries.items():
            button.on_click(lambda _, name=name: self._do(name))
        self.number.add_class("clnet-number")
        self.value.add_class("clnet-value")
        line = widgets.HBox([self.number, self.value, *self.tries.values()],
                            layout={"flex_flow": "row wrap", "align_items": "center"})
        *above, page, over = self.box.children
        self.box.children = (*above, line, page, over)

    @property
    def _chosen(self) -> Row:
        if (row := self.row) is None:
            raise ConfigError("kernels: expected a row that is chosen; got none.")
        return row

    def _open(self, _: object = None) -> None:
        super()._open()
        if (row := self.row) is not None:
            with self._saying():
                known = self.kernels.tunables(row)
                self.number.options = [t.name for t in known]
                self.number.value = next((t.name for t in known if t.tried), known[0].name if known else None)
                self._values()

    def _values(self, _: object = None) -> None:
        """The value here, and what may be tried instead."""
        known = {t.name: t for t in self.kernels.tunables(self.row)} if self.row is not None else {}
        t = known.get(str(self.number.value))
        self.value.options, self.value.value = ([str(v) for v in t.tried], str(t.value)) if t else ([], "")

    def _do(self, name: str) -> None:
        index, number, value = self.list.index, self.number.value, self.value.value
        self.said.value = escape(f"{name} …")
        with self._saying():
            said = self.does[name]()
            self._filter()
            self.list.index = index
            self.number.value, self.value.value = number, value
            self.said.value = escape(f"{name}: {said}")

    def _time(self) -> str:
        try:
            value = ast.literal_eval(self.value.value)
        except (ValueError, SyntaxError):
            raise ConfigError("kernels: expected a value as 4 or (8, 3); got "
                              f"{self.value.value or 'nothing'}.") from None
        return self.kernels.try_(self._chosen, **{str(self.number.value): value}).said

    def _search(self) -> str:
        return self.kernels.search(self._chosen).said


def kernels(what: Any = None, *inputs: Any) -> Kernels:
    """Hand-written kernels with the numbers that they take: source in colours, what the rules chose, one number
    changed, timed, kept. Without arguments all of them, each with a call that it serves on the device in use; else
    those of the launches of a step.

    what     a Trainer, a recorded function, a model or a function with inputs, tensors; or a product that is spelled,
             "NN 64x784x512"
    Raises NoDeviceError on NumPy, which has no kernels.
    """
    engine = current()
    if not engine.compiles:
        raise NoDeviceError(f"kernels: expected an OpenCL device; got {engine.device}, which has none; "
                            'try `with clnet.on("opencl"):`.')
    if what is None:
        rows = _all(engine.device)
        return Kernels(f"{plural(len(rows), 'kernel')}, as they serve {engine.device}", rows, engine)
    known = [product(what)] if isinstance(what, str) else calls(what, *inputs)
    rows = [Row(v, c) for c in known if (v := c.choice(engine.device).taken) is not None]
    return Kernels(f"{plural(len(rows), 'call')} with numbers on {engine.device}", rows, engine)


def _all(device: Device) -> list[Row]:
    """Every variant, with the first call that it serves."""
    families, served = kernel_page.families(), dict[str, Call]()
    examples = [Call(op, tuple(_operand(o) for o in operands), tuple(attributes.items()))
                for op, operands, attributes in kernel_page.EXAMPLES if op in OPS]
    for call in (*examples, *map(product, SERVED)):
        if (taken := call.choice(device).taken) is not None:
            served.setdefault(f"{taken.family} {taken.name}", call)
    return [Row(v, served.get(f"{v.family} {v.name}")) for family in families for v in VARIANTS[family]]


def _operand(text: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Of "float32 64x32"."""
    dtype, sizes = text.split(" ")
    spec = Spec(tuple(map(int, sizes.split("x"))), dtype)
    return dtype, spec.shape, row_major(spec.shape)


def tuner(device: Device | None = None) -> Explorer[Kept]:
    """What was tuned on this machine, by `clnet tune` or by hand: numbers of each class of shapes, with the gain of the
    call that was timed; "take it back" gives what served before. `clnet.explore.kernels(trainer)` tunes the launches of
    a step.
    """
    known = found(device)

    def back(row: Kept) -> Kept:
        undo(row.entry, known.device, known.path)
        return row._replace(numbers={}, before_ms=None, after_ms=None, made="taken back")

    nothing = "" if known else ": nothing yet; `clnet tune` searches, clnet.explore.kernels() tries one number"
    return Explorer(f"Tuned on {known.device}{nothing}", known.HEADS, list(known), known.cells,
                    lambda row: [Table(("", " ".join(row.entry)), row.facts(), align="ll")],
                    {"op": lambda r: r.entry[0]}, {"take it back": back},
                    lambda: [found(known.device, known.path).picture()] if any(k.gain for k in known) else [])
