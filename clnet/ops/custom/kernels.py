"""The definition of a kernel of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.arguments import shown
from ...core.op import Case, Cotangents, Vjp
from ...core.origin import Origin, caller, traced
from ...core.spec import NARROW, Spec, dtype_name
from ...core.tensor import Tensor
from ...engine.compile.c_types import STORAGE
from ...errors import ConfigError, DTypeError, ShapeError
from ...names import ending, told
from .own import FAMILY, Gradient, accepted, differentiated, named, referred, renew, retire
from .prototype import Parameter, fits, read
from .whole import PART, Sizes, WholeKernel


@told
def kernel(
    name: str, source: str | Path | Origin, outputs: Sizes | Mapping[str, Any] | None = None, *, entry: str = "",
    global_size: Sizes, local_size: Sizes | None = None, parameters: Mapping[str, Any] | None = None,
    macros: Mapping[str, Any] | None = None, tune: Mapping[str, Sequence[Any]] | None = None,
    dtypes: Mapping[str, str] | None = None, shapes: str = "", reference: Callable[..., Any] | None = None,
    gradient: Gradient = None, samples: Sequence[Sequence[Any]] | None = None,
    domain: tuple[float, float] = (-2.0, 2.0), work: Callable[..., float] | None = None, doc: str = "",
) -> WholeKernel:
    """The results of a kernel in OpenCL C, launched once a call.

        saxpy = clnet.ops.custom.kernel("saxpy", '''
            __kernel void saxpy(__global const float* x, __global const float* y, __global float* z,
                                const float a, const uint n) {
                const size_t i = get_global_id(0);
                if (i < n) z[i] = a * x[i] + y[i];
            }''', outputs=lambda x: x.shape, parameters={"a": 2.0, "n": lambda x: x.size},
            global_size=lambda n, GROUP: -(-n // GROUP) * GROUP, local_size=lambda GROUP: GROUP,
            tune={"GROUP": (64, 128)}, shapes="n, n -> n",
            gradient=lambda g, out, x, y, a: (a * g, g), reference=lambda x, y, a: a * x + y)
        z = saxpy(x, y, a=3.0)

    source       the text, or the Path of a file; `entry` names one of several kernels. What it reads and writes stands
                 in its head: `__global const` pointers are inputs, in their order, other `__global` pointers outputs,
                 all contiguous; a T* is float or double like the inputs
    outputs      the shape of the result, or a dict of them by name: a tuple, or a function of inputs' specs
                 (`x.shape`, `x.size`, `x.dtype`), numbers and macros, by their names. Several results are of one dtype
    parameters   what the kernel's numbers are: a number, which calls may state anew, or a function as for outputs
    global_size  work-items, one to three numbers, or a function as for outputs, which may ask for results, too
    local_size   work-items of a group, alike; None: the runtime's choice
    macros       what is defined in front of the source
    tune         macros with the values they may have, the first one to begin with: `op.tune(x, y)` keeps the fastest
    dtypes       of buffers whose C type stores another ("bool" as uchar)
    shapes       "m k, k n -> m n": inputs are held to it, and a result whose shape is not stated is of its right side
    reference    the same in NumPy, of arrays and numbers by name: what runs on NumPy, and what checks compare with
    gradient     a function (g, out, *inputs, **numbers) of tensors that gives the cotangents of the inputs; of several
                 results g and out are tuples. Or expressions, as for elementwise
    samples      calls for checks: of each the inputs, as shapes or arrays
    work         (input specs) -> additions and products, for times against the roof

    16-bit floats are passed as float32. Raises ConfigError for a definition that does not hold together, DTypeError,
    ShapeError and UseError for calls that do not fit, KernelBuildError with the line of the source.
    """
    who = f"custom.kernel({named('custom.kernel', name)!r})"
    origin = _source(who, name, source)
    head = read(who, origin.text, entry)
    buffers = _buffers(who, head.parameters, dtypes or {})
    inputs = tuple(b.name for b in buffers if not b.written)
    results = _results(who, [b for b in buffers if b.written], outputs, shapes)
    numbers = _numbers(who, head.parameters, parameters or {})
    tunables = {n: tuple(v) for n, v in (tune or {}).items()}
    if empty := [n for n, v in tunables.items() if not v or n in (macros or {})]:
        raise ConfigError(f"{who}: expected tune to name values of macros that macros= does not fix; got {empty[0]!r}.")
    vjp, slopes = differentiated(name, gradient, inputs, inputs, None, numbers)
    calls = [Case(tuple(s), {}) for s in samples] if samples is not None else []
    retire(name)
    made = WholeKernel(
        name, _nothing, _nothing, inputs, vjp=vjp, domain=domain, family=FAMILY, cost=100, accepts="any",
        differentiable=bool(slopes), doc=doc or f"the kernel {head.name}", signature=shapes, entry=head.name,
        text=_declaring(origin, head.text, [b for b in buffers if b.written]),
        writes=next(iter(results)) if len(results) == 1 else "g_results", buffers=buffers, results=results,
        numbers=numbers, global_size=global_size, local_size=local_size, macros=dict(macros or {}), tunables=tunables,
        origin=origin)
    made.infer, made.launch, made.samples = _rule(made), made, lambda: calls or _seen(made)
    made.ref = _reference(made, reference)
    made.vjp = vjp if len(results) == 1 else _of_parts(made, vjp)
    made.work = lambda specs, result, attrs: float(work(*specs)) if work else 0.0
    renew(made)
    return made


def _nothing(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a kernel gets its rule and its reference once it is there")


# --- what a definition says
def _source(who: str, name: str, source: object) -> Origin:
    if isinstance(source, Origin):
        return source
    if isinstance(source, Path):
        try:
            return Origin(name, source.read_text("utf-8"), str(source), 1)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{who}: expected a file of OpenCL C; got {source}: {error}.") from None
    if not isinstance(source, str) or not source.strip():
        raise ConfigError(f"{who}: expected the text of a kernel, or the Path of its file; got {shown(source)}.")
    if "\n" not in source and source.endswith(".cl"):
        raise ConfigError(f"{who}: expected the text of a kernel; got {source!r}; "
                          f"for a file pass pathlib.Path({source!r}).")
    return traced(name, source, caller())


def _declaring(origin: Origin, text: str, written: Sequence[Parameter]) -> str:
    """The text as programs have it; several results are pointers into the one buffer."""
    if len(written) > 1:
        kind = "T" if written[0].dtype == "T" else STORAGE[written[0].dtype]
        parts = "".join(f" __global {kind}* {b.name} = g_results + g_{b.name}_at;" for b in written)
        text = text.replace(" BEGIN", f" BEGIN{parts}", 1)
    return origin.marked(text)


def _buffers(who: str, parameters: Sequence[Parameter], dtypes: Mapping[str, str]) -> tuple[Parameter, ...]:
    found = []
    for b in parameters:
        if b.buffer and b.name in dtypes:
            dtype = dtype_name(dtypes[b.name])
            if not fits(b, dtype):
                raise ConfigError(f"{who}: expected dtypes that the kernel's C types store; got {dtype} for {b.name}, "
                                  f"a pointer to {b.dtype}.")
            b = b._replace(dtype=dtype)
        if b.buffer:
            found.append(b)
    if unknown := [n for n in dtypes if n not in {b.name for b in found}]:
        raise ConfigError(f"{who}: expected dtypes of the kernel's buffers; got one of {unknown[0]!r}"
                          f"{ending(unknown[0], [b.name for b in found])}")
    return tuple(found)


def _results(who: str, written: Sequence[Parameter], outputs: Any, shapes: str) -> dict[str, Any]:
    names = [b.name for b in written]
    if not names:
        raise ConfigError(f"{who}: expected a kernel that writes to a `__global` pointer without const; got none.")
    if len({b.dtype for b in written}) > 1:
        got = ", ".join(f"{b.name} {b.dtype}" for b in written)
        raise ConfigError(f"{who}: expected results of one dtype; got {got}; define a kernel for each dtype.")
    if not isinstance(outputs, Mapping) and len(names) == 1 and (outputs is not None or shapes):
        return {names[0]: outputs}
    if not isinstance(outputs, Mapping) or set(outputs) != set(names):
        got = f"those of {', '.join(outputs)}" if isinstance(outputs, Mapping) else shown(outputs)
        raise ConfigError(f"{who}: expected outputs to be the shapes of {', '.join(names)}, by name: those are what "
                          f"the kernel writes (a pointer without const); got {got}.")
    return {n: outputs[n] for n in names}


def _numbers(who: str, parameters: Sequence[Parameter], stated: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    taken = {p.name: p.dtype for p in parameters if not p.buffer}
    if missing := [n for n in taken if n not in stated]:
        raise ConfigError(f"{who}: expected parameters= to say what {', '.join(missing)} is, a number or a function of "
                          f"inputs' specs; got {', '.join(stated) or 'none'}.")
    if unknown := [n for n in stated if n not in taken]:
        raise ConfigError(f"{who}: expected parameters that the kernel takes ({', '.join(taken) or 'none'}); "
                          f"got {unknown[0]!r}{ending(unknown[0], taken)}")
    return {n: (dtype, stated[n]) for n, dtype in taken.items()}


# --- what follows from it
def _rule(op: WholeKernel) -> Callable[..., Spec]:
    wanted = {b.name: b for b in op.buffers}

    def infer(*specs: Spec, **attrs: Any) -> Spec:
        for n, spec in zip(op.args, specs, strict=True):
            if not fits(wanted[n], "float32" if spec.dtype in NARROW else spec.dtype):
                dtype = "float32 or float64" if wanted[n].dtype == "T" else wanted[n].dtype
                raise DTypeError(f"{op.name}: expected {n} of {dtype}; got {spec}; "
                                 f"cast it: {n}.astype({dtype.split()[0]!r}).")
        if len({s.dtype for n, s in zip(op.args, specs, strict=True) if wanted[n].dtype == "T"} - set(NARROW)) > 1:
            raise DTypeError(f"{op.name}: expected inputs of one float dtype; got {', '.join(map(str, specs))}; "
                             "cast one of them.")
        starts = op.starts(specs, attrs)
        if all(spec.size for _, spec in starts.values()):
            op.sizes(op.everything(specs, attrs))
        op.seen = specs
        if len(starts) == 1:
            return next(iter(starts.values()))[1]
        at, last = list(starts.values())[-1]
        return Spec((at + -(-last.size // PART) * PART,), last.dtype)

    return infer


def _seen(op: WholeKernel) -> list[Case]:
    """The last call, where a definition states no samples."""
    if not op.seen:
        raise ConfigError(f"{op.name}: expected samples to check it with; got none; state samples=[(shape, ...)], or "
                          "call it once.")
    draws = np.random.default_rng(0)
    return [Case(tuple(tuple(map(int, s.shape)) if s.dtype in ("float32", *NARROW) else
                       draws.uniform(*op.domain, s.shape).astype(s.dtype) for s in op.seen), {})]


def _reference(op: WholeKernel, reference: Callable[..., Any] | None) -> Callable[..., Any]:
    def specs(arrays: Sequence[Any]) -> list[Spec]:
        return [Spec(np.shape(a), dtype_name(np.asarray(a).dtype)) for a in arrays]

    def shape_of(*arrays: Any, **attrs: Any) -> tuple[int, ...]:
        return op.infer(*_stored(op, specs(arrays)), **{**op.parameters, **attrs}).shape

    def packed(*arrays: Any, **attrs: Any) -> Any:
        assert reference is not None
        attrs = {**op.parameters, **attrs}
        found = reference(*arrays, **accepted(reference, attrs))
        if len(op.results) == 1:
            return found
        starts = op.starts(specs(arrays), attrs)
        shapes = [np.shape(f) for f in found] if isinstance(found, (tuple, list)) else [np.shape(found)]
        if shapes != [spec.shape for _, spec in starts.values()]:
            wanted = ", ".join(f"{n} {spec.shape}" for n, (_, spec) in starts.items())
            raise ShapeError(f"{op.name}: expected its reference to give {wanted}; got {shapes}.")
        whole = np.zeros(shape_of(*arrays, **attrs), np.result_type(*found))
        for (at, spec), f in zip(starts.values(), found, strict=True):
            whole[at : at + spec.size] = np.ravel(f)
        return whole

    return referred(op.name, reference and packed, shape_of, [*op.args, *op.parameters])


def _stored(op: WholeKernel, specs: Sequence[Spec]) -> list[Spec]:
    """The specs that a device would have in place of the reference's, which computes in float64."""
    wanted = {b.name: b.dtype for b in op.buffers}
    return [Spec(s.shape, s.dtype if wanted[n] == "T" else wanted[n]) for n, s in zip(op.args, specs, strict=True)]


def _of_parts(op: WholeKernel, vjp: Vjp) -> Vjp:
    def whole(g: Tensor, out: Tensor, *inputs: Tensor, **attrs: Any) -> Cotangents:
        specs = [i.spec for i in inputs]
        return vjp(op.parts(g, specs, attrs), op.parts(out, specs, attrs), *inputs, **attrs)

    return whole
