"""What every model can do, besides what layers can: sizes, JSON, summaries, devices, files."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import reprlib
import warnings
from collections.abc import Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import show
from ..config.fields import parse_json
from ..core.recording import homed, local
from ..core.spec import FLOATS, Spec, dtype_name, is_float
from ..core.state import Parameter, carry
from ..core.tensor import Operators, TensorLike
from ..engine import current, engine_for, on
from ..engine.device.devices import Device, select
from ..engine.record import infer
from ..errors import ClnetError, ConfigError, DataError, DTypeError, ShapeError
from ..layers.base import Layer
from ..names import ending
from ..optimizers.base import Optimizer
from . import files as model_io

if TYPE_CHECKING:  # what few scripts ask for loads when it is asked for
    from .diagram import Diagram
    from .summary import Summary
    from .transfer import Loaded, Source

TRIAL = 5  # samples that shapes are tried with: one would broadcast where it must not
SHAPES = 8  # different ones that a model is called with before somebody is told what each costs


class _Network(Layer):
    """What every model can do, besides what layers can. Shapes given to it are those of one sample, without the batch.
    """

    integers = True
    _told: ClassVar[bool] = False  # of what shapes cost

    def build(self, *shapes: Any, dtype: str = "float32") -> Any:
        """Binds all sizes that were left out; nothing runs. Returns the model.
        Raises ShapeError where layers do not fit.

        shapes   of one sample of every input: (1, 8, 8), 30, or an array of samples;
                 none where the model's inputs say them
        """
        samples = self._samples("build", shapes, dtype)
        with self._without_batch("build", samples):
            infer(self, [Spec((TRIAL, *s.shape), s.dtype) for s in samples])
        return self

    def to_json(self, indent: int | None = 2) -> str:
        """The configuration; `from_json` makes a model with the same structure (and new values) of it."""
        return json.dumps(self.config(), indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Any:
        """The model that a text describes, in these words or those of `clnet.model.dialects`. ConfigError has the path
        of what is wrong: $.nodes[2].layer.eps.
        """
        from . import dialects

        return Layer.from_config(dialects.own(parse_json(text, "model")))

    def specs_of_inputs(self) -> list[Spec | None]:
        """Shape and dtype of one sample of every input, None where the configuration does not say."""
        return [None]

    def summary(self, *shapes: Any, batch: int = 64, dtype: str = "float32", optimizer: Optimizer | None = None,
                measure: bool = False) -> Summary:
        """Layers, output shapes, exact counts, and what a training step with this batch and optimizer (Adam if none is
        given) takes on the device in use: bytes, and seconds by layers, forward and in all.

        shapes   of one sample of every input: (1, 8, 8), 30, or an array of samples;
                 none for a model that was called, or whose inputs say them
        measure  whether steps of a copy of the model run, for the times that they take; else nothing is compiled
        Times are forecast for each launch of the step's plan: max(flops / peak, bytes / bandwidth) / 0.6, plus what a
        launch costs by itself, of what this device was measured to reach at best, once a machine. What is fused counts
        to the layer whose kernel computes it. The loss is that of mean squares.
        """
        from .summary import summarize

        with self.placed():
            samples = self._samples("summary", shapes, dtype)
            arrays = [None if isinstance(s, (tuple, list, int)) else getattr(s, "x", s) for s in shapes]
            given = arrays if len(arrays) == len(samples) else [None] * len(samples)
            with self._without_batch("summary", samples):
                return summarize(self, samples, batch, optimizer, given if measure else None)

    def graph(self, *shapes: Any, depth: int | None = None, dtype: str = "float32") -> Diagram:
        """The model as a picture: a box a layer with its path, the shape of what it gives and its parameters, lines for
        what flows; branches stand side by side, a layer that is used again has a dashed edge. A notebook shows it,
        a terminal a table; `model.graph().save("model.svg")` writes it (.png and .pdf, too). Nothing runs.

        shapes   as for `summary`; without, a model whose shapes nobody said is drawn as it is written down
        depth    how many levels of layers with layers inside are opened, 0 for none; None: as many as keep it readable
        """
        from .diagram import diagram

        seen = vars(self).get("_seen")
        known = bool(shapes or seen) or None not in self.specs_of_inputs()
        with self.placed():
            samples = self._samples("graph", shapes, dtype) if known else None
            with self._without_batch("graph", samples or []):
                return diagram(self, samples, seen, depth)

    @contextlib.contextmanager
    def _without_batch(self, who: str, samples: Sequence[Spec]) -> Iterator[None]:
        """An error about shapes that would fit without their first number says so: that is the batch, written along."""
        seen = vars(self).get("_seen")
        try:
            yield
        except ShapeError as error:
            with contextlib.suppress(ClnetError):
                infer(self, samples)
                error.args = (f"{error} The shape is of one sample, the batch left out: "
                              f"{who}({', '.join(str(s.shape[1:]) for s in samples)}).",)
            vars(self)["_seen"] = seen or []  # of trials nobody asks
            raise

    def _samples(self, who: str, given: tuple[Any, ...], dtype: str) -> list[Spec]:
        """Specs of one sample of every input: those given, else what the inputs say,
        else what the model was called with last.
        """
        if given:
            shapes = [given] if all(isinstance(n, int) for n in given) else given
            return [sample_spec(f"{type(self).__name__}.{who}", s, dtype) for s in shapes]
        found = self.specs_of_inputs()
        if None in found:
            found = [Spec(s.shape[1:], s.dtype) for s in vars(self).get("_seen", ())]
        if not found:
            raise ConfigError(
                f"{type(self).__name__}.{who}: expected the shape of one sample, which a model that was not called yet "
                f"does not know; got none; write model.{who}((30,)), or model.{who}(x) with samples x.")
        return [s for s in found if s is not None]

    # --- how it shows itself
    def lines(self) -> list[tuple[str, Layer, str]]:
        """(name, layer, where its inputs come from) of every layer, in order."""
        raise NotImplementedError

    def title(self) -> str:
        """What stands above the lines."""
        return type(self).__name__

    def __repr__(self) -> str:
        """A line a layer, those of models inside under them."""
        shown = self.lines()
        width = max((len(name) for name, _, _ in shown), default=0)
        parts = [f"{name.ljust(width)}  {layer!r}{f'  <- {source}' if source else ''}" for name, layer, source in shown]
        return "\n".join([f"{self.title()}:", *(f"  {line}" for part in parts for line in _hanging(part, width + 2))])

    def _repr_html_(self) -> str:
        rows = []
        for name, layer, source in self.lines():
            kind, _, fields = repr(layer).partition("(")
            if isinstance(layer, _Network):
                kind, fields = type(layer).__name__, show.plural(len(layer.lines()), "layer")
            rows.append((name, kind, fields.removesuffix(")"), sum(v.size for v in layer.parameters()) or None, source))
        heads = ["", "layer", "fields", "parameters", "inputs"]
        last = 5 if any(r[4] for r in rows) else 4
        return show.Table(heads[:last], [r[:last] for r in rows], align="lllrl"[:last], title=self.title()).html()

    # --- where it runs
    def use(self, device: str | int | Device | None = None) -> Any:
        """The model goes on with another device: "numpy", "opencl", or anything `clnet.use` takes. Returns the model.

        Weights, buffers, random counters and, once it trains, the optimizer's state are carried over to the last bit.
        From then on its calls, what is computed from their results, and what a Trainer does with it run there, within
        `with clnet.on(...)` too; other models and tensors stay where they are. What is computed from results of two
        models on two devices runs on one of the two. Raises NoDeviceError, and nothing has changed.
        """
        chosen, _ = select(device)
        engine_for(chosen)
        carry(model_io.held(self))
        self._device = chosen
        return self

    @property
    def device(self) -> Device:
        """The device that the model runs on: the one given to `use`, else the one in use."""
        found: Device = vars(self).get("_device") or current().device
        return found

    @contextlib.contextmanager
    def placed(self) -> Iterator[None]:
        """What is recorded and run in the block runs on the model's device."""
        if (device := vars(self).get("_device")) is not None:
            engine = engine_for(device)
            with on(engine), homed(engine):
                yield
        else:
            yield

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        with self.placed():
            output = super().__call__(*inputs, **named)
        if local.log is None and not local.step:  # nothing is recorded, to run with other inputs or to learn a shape
            self._tell_of_shapes()
        return output

    def _tell_of_shapes(self) -> None:
        """Warns, once a process, where a loop calls with ever new shapes what is compiled for each of them."""
        shapes = vars(self).setdefault("_shapes", set())
        if _Network._told or len(shapes) == SHAPES:
            return
        shapes.add(tuple(s.shape for s in vars(self).get("_seen", ())))
        if len(shapes) == SHAPES:
            _Network._told = True
            warnings.warn(
                f"{type(self).__name__}: called with {SHAPES} different shapes, for each of which kernels are compiled;"
                " call clnet.Recorded(model) in place of the model, or trainer.predict: sizes that change cost nothing "
                "there.", UserWarning, stacklevel=3)

    def backward(self, g: TensorLike | Sequence[TensorLike] | None = None) -> Any:
        with self.placed():
            return super().backward(g)

    def update(self, lr: float = 0.01) -> None:
        with self.placed():
            super().update(lr)

    # --- what is trained
    def freeze(self, *names: str) -> Any:
        """Parameters of these names are not trained from the next `fit` on. Returns the model.

        names   paths of parameters or of layers, with wildcards: "layers.0", "*.bias", "*"
        Of a normalisation that is frozen the running statistics still follow the data. A Trainer whose parameters are
        others than before begins its optimizer's state anew. Raises ConfigError for a name that nothing has.
        """
        return self._train(False, names)

    def unfreeze(self, *names: str) -> Any:
        """Parameters of these names are trained again, see `freeze`. Returns the model. Raises ConfigError."""
        return self._train(True, names)

    def _train(self, trained: bool, names: tuple[str, ...]) -> Any:
        for p in self._chosen("unfreeze" if trained else "freeze", names):
            p.trainable = trained
        return self

    def _chosen(self, what: str, names: tuple[str, ...]) -> list[Parameter]:
        """The parameters of these names. Raises ConfigError in the words of the method `what`."""
        found = {n: p for n, p in self.variables().items() if isinstance(p, Parameter)}
        who = f"{type(self).__name__}.{what}"
        if not found:
            raise ConfigError(
                f"{who}: expected a model with parameters; got none; call it once, or model.build(shape).")
        chosen: list[Parameter] = []
        for name in names or ("",):
            matched = [p for n, p in found.items() if isinstance(name, str)
                       and (fnmatch.fnmatchcase(n, name) or fnmatch.fnmatchcase(n, f"{name}.*"))]
            if not matched:
                known = dict.fromkeys((*found, *(n.rpartition(".")[0] for n in found)))
                raise ConfigError(
                    f"{who}: expected names of parameters or layers, as {next(iter(found))!r} or '*.bias'; "
                    f"got {'none' if name == '' else repr(name)}{ending(str(name), known)}")
            chosen += matched
        return chosen

    # --- how it is stored
    def astype(self, dtype: Any, *names: str) -> Any:
        """Parameters are kept in another float dtype from now on, their values rounded to it. Returns the model.

        dtype   "bfloat16" or "float16", half the memory and half the file; "float32", "float64"
        names   paths of parameters or of layers, with wildcards, as for `freeze`; none: weights and embeddings, which
                are nearly all, while biases, normalisations and buffers stay as they are
        16 bits are how values are stored, not how they are computed with: a product of float32 samples reads the
        16 bits and sums in float32, so that on a CPU one row times a large matrix takes little more than
        half the time; from about 16 rows on memory alone is gained.
        `save` and `load` keep the dtype; `astype` before `load` for a file that has it. A Trainer trains what is stored
        so, with its optimizer's state anew: bfloat16 is rounded up or down by chance, float16 to the nearest.
        Raises ConfigError for a name that nothing has, DTypeError for a dtype that is no float.
        """
        name = dtype_name(dtype)
        if not is_float(name):
            raise DTypeError(
                f"{type(self).__name__}.astype: expected {', '.join(FLOATS)}; got {name}; parameters are floats.")
        for p in self._chosen("astype", names or ("*",)):
            if names or p.role in ("weight", "embedding"):
                p.convert(name)
        return self

    # --- files
    def save(self, path: str | Path) -> None:
        """Configuration and values in one safetensors file, atomically;
        a name as other programs end theirs (".h5", ".pt") is refused.

        Raises CheckpointError, ConfigError where sizes are open.
        """
        model_io.save(self, path)

    def load(self, source: str | Path | Mapping[str, Any]) -> Any:
        """Values from a file that `save` wrote of a model with this structure, or from arrays by the names
        of `variables()`. Returns the model.

        Raises CheckpointError, which lists all names, shapes and dtypes that do not fit;
        ConfigError where sizes are open.
        """
        model_io.load_into(self, source)
        return self

    def load_weights(self, source: Source, strict: bool = False, names: Mapping[str, str] | None = None) -> Loaded:
        """Takes what fits of another network's values; returns a table of what was taken and what was not.

        source   a .safetensors file; a network, PyTorch's too, its state_dict or a file of one (.pt, needs PyTorch);
                 arrays by name
        strict   whether something missing, unexpected or of another shape is an error
        names    {prefix of theirs: prefix of ours}; otherwise by names where these are the same, else in order: layer
                 by layer the next of theirs with the same variables
        PyTorch's layouts are read as ours: LSTM, GRU and RNN by level and direction, attention's in_proj as three maps.
        Raises CheckpointError where nothing fits, ConfigError where sizes are open or the order is unknown.
        """
        from .transfer import load_weights

        with self.placed():
            return load_weights(self, source, strict, names)


def _hanging(text: str, indent: int) -> list[str]:
    first, *rest = text.splitlines()
    return [first, *(" " * indent + line for line in rest)]


def sample_spec(who: str, given: object, dtype: str) -> Spec:
    """The spec of one sample: of a shape, a number of features, or an array, frame or data set of samples.
    ConfigError for anything else.
    """
    if isinstance(given, int):
        given = (given,)
    if isinstance(given, (list, tuple)) and not any(isinstance(n, Sized) for n in given):
        # Keras writes the batch as None
        sizes = tuple(given[1:] if given and (given[0] is None or given[0] == -1) else given)
        if all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in sizes):
            return Spec(sizes, dtype_name(dtype))
        raise ConfigError(f"{who}: expected the shape of one sample, sizes of at least 1; got {reprlib.repr(given)}.")
    given = getattr(given, "x", given)
    try:
        array: Any = given if isinstance(given, Operators) else np.asarray(given)
    except ValueError:
        raise ConfigError(f"{who}: expected samples of one shape; got {reprlib.repr(given)}.") from None
    if not array.ndim or (not isinstance(array, Operators) and array.dtype.kind not in "biuf"):
        raise ConfigError(
            f"{who}: expected the shape of one sample, or an array of samples; got {reprlib.repr(given)}.")
    name = dtype_name(array.dtype)
    return Spec(tuple(array.shape[1:]), "float32" if name == "float64" else name)


def apply(name: str, layer: Layer, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """layer(*inputs) as a tuple; errors say which layer it was."""
    try:
        out = layer(*inputs)
    except (ShapeError, DTypeError, DataError) as error:
        error.args = (f"{name}: {error}",)
        raise
    return out if isinstance(out, tuple) else (out,)
