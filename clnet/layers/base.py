"""What a layer is: fields (its configuration), a signature (its shapes), setup (its parameters), forward (its formula).

The trio forward, backward, update that users and status tables speak of exists once, here.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import init
from ..config.fields import Configured
from ..core.arrays import Array
from ..core.autodiff import gradients
from ..core.op import OPS
from ..core.size import number
from ..core.spec import Spec, is_float
from ..core.state import Generator, Parameter, Parameters, Variable, Variables
from ..core.tensor import Operators, Tensor, TensorLike, leaf
from ..errors import ConfigError, DataError, DTypeError, ShapeError
from ..habits import LAYER, MODEL
from ..names import ending_of_argument, lacking
from .inputs import Symbolic, read, spread
from .slips import fits, misread, paired, turned, way_out

LARGEST = 1 << 30  # elements of one parameter: 4 GiB in float32


class New:
    """Makes the parameters of a layer in `setup(new)`. `fan_in` scales the default U(−1/√fan_in, 1/√fan_in)."""

    def __init__(self, who: str = "setup") -> None:
        self.who = who

    def _sized(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A file may ask for any size: one that no device has memory for is refused before it is allocated."""
        if (n := math.prod(shape)) > LARGEST:
            raise ConfigError(
                f"{self.who}: expected parameters of at most {LARGEST} elements; got {n} of shape {shape}; "
                "make a size smaller.")
        return shape

    def weight(self, *shape: int, fan_in: int = 0, role: str = "weight") -> Parameter:
        return Parameter(leaf(init.uniform(self._sized(shape), (fan_in or init.fan(shape)[0]) ** -0.5)), role=role)

    def bias(self, *shape: int, fan_in: int) -> Parameter:
        """What is added to a product over `fan_in` numbers; the field that says whether it is there is `use_bias`."""
        return self.weight(*shape, fan_in=fan_in, role="bias")

    def zeros(self, *shape: int, role: str = "bias") -> Parameter:
        return Parameter(leaf(np.zeros(self._sized(shape), np.float32)), role=role)

    def ones(self, *shape: int, role: str = "normalization") -> Parameter:
        return Parameter(leaf(np.ones(self._sized(shape), np.float32)), role=role)

    def normal(self, *shape: int, std: float = 1.0, role: str = "weight") -> Parameter:
        return Parameter(leaf(init.normal(self._sized(shape), std)), role=role)

    def value(self, array: Array | Sequence[float], role: str = "weight") -> Parameter:
        return Parameter(np.asarray(array, np.float32), role=role)

    def buffer(self, array: Array) -> Variable:
        """State that is saved but not optimised."""
        return Variable(np.asarray(array), role="buffer")


class Layer(Configured):
    """A formula over ops with its parameters. `layer(x)` checks shapes and records;
    nothing runs until a value is asked for.
    """

    _whole: ClassVar[bool] = False  # on an instance: this layer and all inside are built
    signature: ClassVar[str] = "... -> ..."
    # Whether integers and bools among the inputs of the signature stay what they are. Else they become float32 before
    # `forward`, as bytes of images and columns of counts must. None, for classes of one's own: a layer with others
    # inside leaves that to them.
    integers: ClassVar[bool | None] = None
    merges: ClassVar[bool] = False  # whether it takes any number of inputs, all alike
    family: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    has_gradient: ClassVar[bool] = True  # False: what it gives is chosen, and constant in the derivative
    # What backward gives where it is not the formula's derivative, for status: it is not held to differences then.
    surrogate_gradient: ClassVar[str] = ""
    # The rule by which variables change in a training call without gradients, for status, which sees them change.
    own_rule: ClassVar[str] = ""
    # What checks, status and benchmarks run: (fields, inputs) each;
    # an input is a shape (drawn from U(−2, 2)) or an array.
    examples: ClassVar[list[tuple[dict[str, Any], list[Any]]]] = []

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        cls.family = cls.__dict__.get("family") or cls.__module__.rpartition(".")[2]
        if cls.integers is None and cls.__module__.startswith(__package__):  # those of clnet that take integers say so
            cls.integers = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.training = True
        self.built = False
        self.random = Generator(int(init.generator().integers(2**62)))
        if not self._unbound():
            self._setup()

    if not TYPE_CHECKING:  # else every attribute would count as there

        def __getattr__(self, name: str) -> Any:
            waits = ("parameters are made when the sizes are known: call it once, or model.build(shape)."
                     if vars(self).get("built") is False else "")
            if "build" in vars(type(self)) and "setup" not in vars(type(self)):
                waits = "write setup(self, new) in place of build, and make parameters with new."
            raise lacking(self, name, {**LAYER, **MODEL, "bias": waits}.get, waits)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles have: all but the last call, and the device that it was told to use."""
        return {k: v for k, v in vars(self).items() if k not in ("_called", "_device")}

    # --- what a layer states
    def setup(self, new: New) -> None:
        """Creates parameters (attributes made with `new`) once all sizes are known."""

    def forward(self, *inputs: Any) -> Any:
        theirs = next((n for n in ("call", "__call__") if n in vars(type(self))), "")
        raise ConfigError(
            f"{type(self).__name__}: expected a method forward(self, x) with the formula of the layer; got a class "
            f"without; {f'call it so in place of {theirs}' if theirs else 'write it with clnet.ops'}.")

    # --- building
    def _unbound(self) -> list[str]:
        names = self.signature.split("->")[0].replace(",", " ").split()
        return [n for n in dict.fromkeys(names) if getattr(self, n, 0) is None]

    def _setup(self) -> None:
        checked = vars(self).pop("_checked", None)  # setup may complete its own fields
        self.setup(New(type(self).__name__))
        if checked:
            self._checked = True
        self.built = True
        self.train(self.training)

    def fixed(self, name: str) -> bool:
        """Whether parameters, or layers inside, were made of the fields; layers without any take a change."""
        return self.built and bool(self.children() or any(isinstance(v, Variable) for v in vars(self).values()))

    def bind(self, *shapes: tuple[int, ...]) -> None:
        """Binds the sizes that were left out to those of the input shapes.
        Raises ShapeError where they contradict a field.
        """
        sides = [s.split() for s in self.signature.split("->")[0].split(",")]
        for k, (axes, shape) in enumerate(zip(sides, shapes, strict=False)):
            sizes = {a: n for a in axes if isinstance(n := self._size(a), (int, type(None)))}
            if not fits(axes, sizes, shape) or (len(shape) == 1 and None in sizes.values() and axes[0] == "..."):
                raise self._misfit(axes, sizes, shape, f"input {k + 1}" if len(sides) > 1 else "an input")
            if text := misread(axes, sizes, shape):
                warnings.warn(f"{type(self).__name__}: {text}.", UserWarning, stacklevel=2)
            for axis, n in paired(axes, shape):
                if axis in sizes and sizes[axis] is None:
                    vars(self)[axis] = n
        if not self.built:
            if missing := self._unbound():
                raise ShapeError(
                    f"{type(self).__name__}: expected an input, which binds {', '.join(missing)}; got none; "
                    "pass an array.")
            self._setup()

    def _size(self, axis: str) -> Any:
        """The field, or the attribute, that an axis of the signature is named after; "" where there is none."""
        return getattr(self, axis) if axis in vars(self) or hasattr(type(self), axis) else ""

    def _misfit(self, axes: list[str], sizes: dict[str, Any], shape: tuple[int, ...], which: str) -> ShapeError:
        hint = way_out(axes, sizes, shape) or f"signature: {self.signature}"
        who = type(self).__name__
        for axis, n in paired(axes, shape) if fits(axes, {}, shape) else ():
            if sizes.get(axis) not in (None, n):
                return ShapeError(f"{who}: {axis} is {sizes[axis]}; got {n} in {which} of shape {shape}; {hint}.")
        return ShapeError(
            f"{who}: expected {which.removeprefix('an ')} axes ({', '.join(axes)}); got shape {shape}; {hint}.")

    # --- the trio
    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """forward(*inputs, **named), shapes checked, sizes bound, and remembered for `backward`."""
        for x in (inputs := spread(inputs, self.merges)):
            if isinstance(x, Symbolic):
                return x.wire(self, inputs, named)
        inputs = self._numbers(tuple(read(x, type(self).__name__) for x in inputs))
        # True and False say how, they are no data: as tensors in an op's attributes no plan would be found again.
        named = {k: bool(v) if isinstance(v, (bool, np.bool_)) else read(v, type(self).__name__)
                 for k, v in named.items()}
        if inputs and inputs[0] is None:
            raise DataError(f"{type(self).__name__}: expected an array; got None; pass the samples.")
        shapes = [x.shape for x in inputs if isinstance(x, Operators)]
        with contextlib.nullcontext() if self._whole else self._all_or_nothing():
            try:
                self.bind(*shapes)
                output = self.forward(*inputs, **named)
            except (ShapeError, DTypeError) as error:
                self._explain(error, shapes)
                raise
            except TypeError:
                self._expect(inputs, named)
                raise
        vars(self)["_seen"] = [Spec(tuple(map(number, x.shape)), x.dtype) for x in inputs if isinstance(x, Operators)]
        if _tape.on:
            self._called = (inputs, output)
        return output

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Sizes bound and parameters made inside are taken back where it fails:
        the next call must not meet what a wrong input left.
        """
        waiting = [(x, dict(vars(x))) for x in self.descend() if not x.built]
        state = init.generator().bit_generator.state
        try:
            yield
        except BaseException:
            for x, before in waiting:
                vars(x).clear()
                vars(x).update(before)
            if waiting:
                init.generator().bit_generator.state = state
            raise
        vars(self)["_whole"] = all(x.built for x in self.descend())

    def _explain(self, error: Exception, shapes: list[tuple[int, ...]]) -> None:
        """An op's error becomes the layer's: users know layers. The traceback stays what it is."""
        op, _, rest = str(error).partition(": ")
        if op in OPS:
            axes = self.signature.split("->")[0].split(",")[0].split()
            hint = ""
            if shapes and isinstance(error, ShapeError):
                hint = turned(axes, {a: None for a in axes if self._size(a) != ""}, shapes[0])
            error.args = (f"{type(self).__name__} ({op}): {rest}{f' Or {hint}.' if hint else ''}",)

    def _expect(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Raises ShapeError where forward does not take that many inputs, or none of that name."""
        taken = inspect.signature(self.forward)
        try:
            taken.bind(*inputs, **named)
        except TypeError as error:
            unknown = next((n for n in named if n not in taken.parameters), None)
            why = f": {error}." if unknown is None else ending_of_argument(unknown, taken.parameters)
            raise ShapeError(
                f"{type(self).__name__}: expected inputs ({', '.join(map(str, taken.parameters))}); got "
                f"{len(inputs)}{' and ' + ', '.join(named) if named else ''}{why}") from None

    def _numbers(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs, integers and bools of the signature's as float32 unless the layer, or one inside,
        takes them as they are.
        """
        count = len(inputs) if self.merges else self.signature.split("->")[0].count(",") + 1
        whole = [isinstance(x, Operators) and not is_float(x.dtype) for x in inputs[:count]]
        if not any(whole) or self.integers or (self.integers is None and self.children()):
            return inputs
        return (*(x.astype("float32") if w else x for x, w in zip(inputs, whole, strict=False)), *inputs[count:])

    def backward(self, g: TensorLike | Sequence[TensorLike] | None = None) -> Any:
        """Gradients of the last call: sets `grad` of every parameter, returns that of the input (a tuple for several).

        g   cotangent of the output (of several outputs: a tuple, or that of the first); may be left out for a scalar
            output
        """
        if getattr(self, "_called", None) is None:
            raise ShapeError(
                f"{type(self).__name__}.backward: expected a call of the layer first; got none; "
                "call it, then backward(g).")
        inputs, output = self._called
        sources = [x for x in inputs if isinstance(x, Tensor)]
        params = self.parameters()
        y, g = _paired(output, g)
        found = gradients(y, [*sources, *(p.tensor for p in params)], g)
        for p, grad in zip(params, found[len(sources) :], strict=True):
            p.grad = grad
        return found[0] if len(sources) == 1 else tuple(found[: len(sources)])

    def update(self, lr: float = 0.01) -> None:
        """w ← w − lr · grad for every parameter with a gradient. Optimizers do better; local rules override this."""
        for p in self.parameters():
            if p.grad is not None:
                p.assign(p.tensor - lr * p.grad)

    # --- what it holds
    def descend(self) -> Iterator[Layer]:
        """This layer and all inside."""
        yield self
        for child in self.children().values():
            yield from child.descend()

    def children(self) -> dict[str, Layer]:
        """Layers among the attributes (also in lists and dicts), by name."""
        found: dict[str, Layer] = {}
        for name, value in vars(self).items():
            items = (value.items() if isinstance(value, dict)
                     else enumerate(value) if isinstance(value, (list, tuple)) else [("", value)])
            for k, v in items:
                if isinstance(v, Layer):
                    found[f"{name}.{k}" if k != "" else name] = v
        return found

    def variables(self, prefix: str = "") -> dict[str, Variable]:
        """Every parameter and buffer by its path ("body.0.weight"), shared ones once. Shows as a table."""
        found = Variables()
        for name, value in vars(self).items():
            if isinstance(value, Variable):
                found[prefix + name] = value
        for name, child in self.children().items():
            for path, v in child.variables(f"{prefix}{name}.").items():
                if not any(v is w for w in found.values()):
                    found[path] = v
        for path, v in found.items() if not prefix else ():
            # a part of a model that is asked does not rename what the model has named
            if not v.path.endswith(f".{path}"):
                v.path = path
        return found

    def parameters(self) -> list[Parameter]:
        """What optimizers see. Shows as a table."""
        return Parameters(v for v in self.variables().values() if isinstance(v, Parameter) and v.trainable)

    def auxiliary(self) -> list[Any]:
        """Takes the scalars that layers add to the training loss: `aux_loss` of their last call, 0 from then on.
        `Trainer` adds them up.
        """
        found = [t for c in self.children().values() for t in c.auxiliary()]
        if isinstance(own := vars(self).get("aux_loss"), Operators):
            found.append(own)
            self.aux_loss: Any = 0.0  # of a step that is being recorded it is of no use to anybody later
        return found

    def generators(self) -> list[Generator]:
        """Random number counters of this layer and its children: part of a checkpoint."""
        return [self.random, *(g for c in self.children().values() for g in c.generators())]

    def train(self, on: bool = True) -> Any:
        """Training mode: dropout drops, batch statistics count."""
        self.training = on
        for child in self.children().values():
            child.train(on)
        return self

    def eval(self) -> Any:
        return self.train(False)


def _paired(output: Tensor | Sequence[Tensor],
            g: TensorLike | Sequence[TensorLike] | None) -> tuple[Tensor, TensorLike | None]:
    """One output and its cotangent; of several outputs with one each, Σ ⟨g, y⟩ and none."""
    if isinstance(output, Tensor):
        return output, g
    if not isinstance(g, (tuple, list)):
        return output[0], g
    first, *more = ((y * c).sum() for y, c in zip(output, g, strict=True))
    return sum(more, first), None


class _Tape(threading.local):
    on = True


_tape = _Tape()


@contextlib.contextmanager
def no_tape() -> Iterator[None]:
    """Layers do not remember their calls inside: recorded steps differentiate the whole network themselves."""
    before, _tape.on = _tape.on, False
    try:
        yield
    finally:
        _tape.on = before
