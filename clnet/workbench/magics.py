"""Magics of IPython and Jupyter, after `%load_ext clnet`:

    %%opencl NAME     the kernel, or the expression, in the cell becomes an op, with what `clnet.check` finds under it
    %%clprofile       runs the cell, and shows the device's time by kernel
    %clbench          times a statement here, on other devices and beside other statements, in turn
"""

from __future__ import annotations

import argparse
import ast
import inspect
import statistics
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from ..core.operators import Operators
from ..core.origin import Origin
from ..core.tensor import realize
from ..engine import current, on
from ..engine.profiling import profile
from ..errors import ConfigError
from ..ops import custom
from ..show import Shown, Table, duration
from .bench.compare import Contender, pause_of
from .check import check

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

ROUNDS = 7
DONE = "__clnet_done__"


@magics_class
class ClnetMagics(Magics):
    """The magics of clnet."""

    # --- %%opencl
    @magic_arguments()
    @argument("name", help="of the op, and of the variable that it becomes")
    @argument("-i", "--inputs", default="x", help="names in an expression: x,y (a kernel's head says its own)")
    @argument("-o", "--outputs", help="shape of what a kernel writes, in Python: a tuple, a function of inputs' specs "
              "such as 'lambda x: x.shape[:1]', or a dict of them by name; default: that of the first input")
    @argument("-g", "--global-size", help="work-items, alike; default: one an element of the first output")
    @argument("-l", "--local-size", help="work-items of a group, alike")
    @argument("-p", "--parameter", action="append", default=[], metavar="NAME=VALUE",
              help="a number that the kernel takes, or a function for it: -p a=2.0 -p 'n=lambda x: x.size'")
    @argument("-m", "--macro", action="append", default=[], metavar="NAME=VALUE", help="a macro")
    @argument("-t", "--tune", action="append", default=[], metavar="NAME=V,V,...",
              help="a macro with the values that it may have; the fastest on the call of --on is kept")
    @argument("-r", "--reference", help="the same in NumPy, in Python: a name, or a lambda in quotes")
    @argument("-d", "--gradient", help="as in clnet.ops.custom: an expression in quotes, True, or a function in Python")
    @argument("-x", "--on", help="inputs of a call that is checked, in Python: arrays or shapes: 'a, b' or '(3, 4),'")
    @argument("-s", "--shapes", default="", help="what inputs' shapes have to do with each other: 'm k, k n -> m n'")
    @argument("--no-roof", action="store_true", help="no measurement of what the device reaches at best")
    @cell_magic
    def opencl(self, line: str, cell: str) -> None:
        """The OpenCL C in the cell becomes an op: a `__kernel`, or an expression over the names of --inputs."""
        args = _parsed(self.opencl, line)
        origin = Origin(args.name, cell.rstrip("\n"), f"cell In[{_cell_number(self._shell)}]", 2)
        op = self._kernel(args, origin) if "__kernel" in cell or "kernel void" in cell else self._row(args, origin)
        self._shell.user_ns[args.name] = op
        on_call = self._python(args.on, ()) if args.on else ()
        inputs = on_call if isinstance(on_call, tuple) and not _is_shape(on_call) else (on_call,)
        if args.tune and inputs:
            display(op.tune(*(_ready(x) for x in inputs)))
        try:
            found = check(op, *inputs, roofs=not args.no_roof, show=False)
        except ConfigError as error:
            print(f"{args.name} is defined; it was not checked: {error}")
            return
        display(found)

    def _row(self, args: argparse.Namespace, origin: Origin) -> Any:
        return custom.elementwise(
            args.name, origin, args.inputs, parameters=self._pairs(args.parameter) or None,
            gradient=self._gradient(args.gradient), reference=self._python(args.reference))

    def _kernel(self, args: argparse.Namespace, origin: Origin) -> Any:
        head = custom.prototype.read(f"%%opencl {args.name}", origin.text)
        first, *_ = [p.name for p in head.parameters if p.buffer and not p.written] or [""]
        written = [p.name for p in head.parameters if p.written] or [""]
        outputs = self._python(args.outputs)
        if outputs is None and not args.shapes:
            outputs = dict.fromkeys(written, _shape_of(first)) if len(written) > 1 else _shape_of(first)
        return custom.kernel(
            args.name, origin, outputs, global_size=self._python(args.global_size) or _size_of(written[0]),
            local_size=self._python(args.local_size), parameters=self._pairs(args.parameter),
            macros=self._pairs(args.macro), tune={n: _several(v) for n, v in self._pairs(args.tune).items()},
            shapes=args.shapes, gradient=self._gradient(args.gradient), reference=self._python(args.reference))

    @property
    def _shell(self) -> InteractiveShell:
        assert self.shell is not None
        return self.shell

    def _python(self, text: str | None, default: Any = None) -> Any:
        """What an option says in Python, in the user's names; functions may span nothing but the option."""
        return default if not text else self._value(_unquoted(text))

    def _value(self, text: str) -> Any:
        try:
            return self._shell.ev(text)
        except Exception as error:  # whatever a slip in an option raises; the frames below are IPython's
            raise UsageError(f"%%opencl: expected Python that can be evaluated; got {text!r}: "
                             f"{type(error).__name__}: {error}") from None

    def _gradient(self, text: str | None) -> Any:
        """An expression in OpenCL C, unless Python knows it as a function or as True."""
        if not text:
            return None
        plain = _unquoted(text)
        if plain == "True" or plain.startswith("lambda") or callable(self._shell.user_ns.get(plain)):
            return self._value(plain)
        return plain

    def _pairs(self, texts: Iterable[str]) -> dict[str, Any]:
        found = {}
        for text in map(_unquoted, texts):
            name, sign, value = text.partition("=")
            if not sign or not name.strip().isidentifier():
                raise UsageError(f"%%opencl: expected NAME=VALUE; got {text!r}.")
            found[name.strip()] = self._value(value)
        return found

    # --- %%clprofile
    @magic_arguments()
    @argument("-d", "--device", help="where it runs: a key or a part of a name; default: the device in use")
    @argument("-t", "--trace", metavar="FILE", help="write there when each launch and copy runs, one behind the other, "
              "for https://ui.perfetto.dev")
    @cell_magic
    def clprofile(self, line: str, cell: str) -> None:
        """Runs the cell, and shows the time of each kernel on the device, every launch timed alone."""
        args = _parsed(self.clprofile, line)
        with on(args.device) if args.device else on(current()) as engine, profile(alone=not args.trace) as found:
            result = self._shell.run_cell(cell)
            engine.finish()
        if result.success:
            display(found)
        if args.trace:
            print(f"trace: {found.trace(_unquoted(args.trace)).absolute()}")

    # --- %clbench
    @magic_arguments()
    @argument("-a", "--against", action="append", default=[], metavar="DEVICE",
              help="another device that runs the same statement: pocl, numpy, gpu")
    @argument("-v", "--versus", action="append", default=[], metavar="STATEMENT",
              help="another statement, in quotes, that runs here: 'np.tanh(a)'")
    @argument("-r", "--rounds", type=int, default=ROUNDS, help=f"samples of each, in turn; default: {ROUNDS}")
    @argument("statement", nargs=argparse.REMAINDER, help="what is timed")
    @line_cell_magic
    def clbench(self, line: str, cell: str | None = None) -> Bench:
        """Times a statement, or the cell; a tensor that it gives is computed. Everybody takes a sample in turn, so that
        a busy moment hits all alike.
        """
        args = _parsed(self.clbench, line)
        statement = cell if cell is not None else _unquoted(" ".join(args.statement))
        if not statement.strip() or args.rounds < 1:
            raise UsageError("%clbench: expected a statement and at least one round: %clbench -a numpy f(x)")
        here = current()
        entrants = [(str(here.device), _entrant(str(here.device), statement, here, self._shell.user_ns))]
        for name in args.against:
            with on(name) as engine:
                entrants.append((str(engine.device), _entrant(str(engine.device), statement, engine,
                                                              self._shell.user_ns)))
        entrants += [(_unquoted(s), _entrant(_unquoted(s), _unquoted(s), here, self._shell.user_ns))
                     for s in args.versus]
        for _, c in entrants:
            c.warm()
        samples: list[list[float]] = [[] for _ in entrants]
        for _ in range(args.rounds):
            for (_, c), own in zip(entrants, samples, strict=True):
                own.append(c.sample(c.repeats))
        return Bench(" ".join(statement.split())[:100], [(n, s) for (n, _), s in zip(entrants, samples, strict=True)])


@dataclass(repr=False)
class Bench(Shown):
    """Samples of each entrant, in seconds a call, the first being the one that others are compared with."""

    statement: str
    samples: list[tuple[str, list[float]]]

    def table(self) -> Table:
        mine, rows = self.samples[0][1], list[tuple[Any, ...]]()
        for name, own in self.samples:
            low, middle, high = statistics.quantiles(own, n=4, method="inclusive") if len(own) > 1 else own * 3
            ratio = statistics.median(o / m for o, m in zip(own, mine, strict=True))
            rows.append((name, duration(middle), f"{duration(low)} to {duration(high)}", f"{ratio:.2f}"))
        return Table(("where", "median", "half of the rounds", "times the first"), rows,
                     title=f"{self.statement}: {len(mine)} rounds in turn", align="lrrr")


def _entrant(name: str, statement: str, engine: Any, names: dict[str, Any]) -> Contender:
    """The statement on an engine, with what it gives computed there."""
    try:
        ast.parse(statement.strip(), mode="eval")
        text = f"{DONE}({statement.strip()})"
    except SyntaxError:
        text = statement
    timer = timeit.Timer(text, globals={**names, DONE: _computed})

    def call() -> None:
        with on(engine):
            timer.timeit(1)

    return Contender(name, call, engine.finish, pause=pause_of(engine))


def _computed(value: Any) -> None:
    """Computes the tensors among what a statement gave."""
    if isinstance(value, (tuple, list)):
        for v in value:
            _computed(v)
    elif isinstance(value, Operators):
        realize(value)


# --- words of the line
def _parsed(magic: Callable[..., Any], line: str) -> argparse.Namespace:
    found: argparse.Namespace = parse_argstring(magic, line)
    return found


def _cell_number(shell: InteractiveShell) -> int:
    """The number beside the cell that runs: IPython 9 counts on before it runs a cell, others after it."""
    return len(shell.user_ns.get("In", [""])) - 1 or shell.execution_count


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(n, int) for n in value)


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _ready(x: Any) -> Any:
    return np.ones(x, np.float32) if _is_shape(x) else x


def _shape_of(name: str) -> Any:
    """A function of the input of that name."""
    return _function(name, lambda spec: spec.shape)


def _size_of(name: str) -> Any:
    return _function(name, lambda spec: spec.size)


def _function(name: str, of: Callable[[Any], Any]) -> Any:
    def call(**specs: Any) -> Any:
        return of(specs[name])

    parameter = inspect.Parameter(name or "x", inspect.Parameter.KEYWORD_ONLY)
    vars(call)["__signature__"] = inspect.Signature([parameter])
    return call


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext clnet`"""
    shell.register_magics(ClnetMagics)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext clnet`"""
    for kind in shell.magics_manager.magics.values():
        for name in ("opencl", "clprofile", "clbench"):
            kind.pop(name, None)
