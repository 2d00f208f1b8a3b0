"""Ops that are a formula over other ops: shape, reference and gradient follow from it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays import Array
from .autodiff import gradients
from .op import Composite, Infer, Launches, Reads, Rule, Samples, Work, family, positional
from .precision import autocast
from .recording import eager
from .running import exact
from .spec import Spec, accept, dtype_name, einshape
from .tensor import Tensor, placeholder


def composite(
    signature: str = "", *, cl: str = "", samples: Samples | None = None, accepts: str = "any",
    domain: tuple[float, float] = (-2.0, 2.0), work: Work | None = None, reads: tuple[Reads, ...] = (),
    rounds: bool = False, rule: Rule = "", launch: Launches | None = None, infer: Infer | None = None,
) -> Callable[[Callable[..., Tensor]], Composite]:
    """A formula over other ops, kept as one node so that a kernel may stand in for it. Fields as Kernel's.

    The body is the definition: the reference runs it, the gradient differentiates it (unless `defvjp` knows better),
    and what it records gives the spec of the result, unless `infer` knows without (of a body that walks over an axis).
    """

    def declare(define: Callable[..., Tensor]) -> Composite:
        name, args = define.__name__.strip("_"), positional(define)
        bind = einshape(signature, name, args) if signature else None

        def inferred(*specs: Spec, **attrs: Any) -> Spec:
            accept(name, accepts, specs)
            if bind:
                bind(*specs)
            return infer(*specs, **attrs) if infer else infer_formula(define, specs, attrs)

        def ref(*arrays: Array, **attrs: Any) -> Array:
            return evaluate_formula(define, arrays, attrs)

        def vjp(g: Tensor, y: Tensor, *inputs: Tensor, **attrs: Any) -> tuple[Tensor | None, ...]:
            return tuple(gradients(define(*inputs, **attrs), inputs, g, allow_unused=True))

        return Composite(name, inferred, ref, args, cl=cl, vjp=vjp, define=define, signature=signature, accepts=accepts,
                         samples=samples, domain=domain, doc=inspect.getdoc(define) or "", family=family(), cost=100,
                         work=work, reads=reads, rounds=rounds, rule=rule, launch=launch)

    return declare


def infer_formula(define: Callable[..., Tensor], specs: Sequence[Spec], attrs: dict[str, Any]) -> Spec:
    """The spec of a composite, from recording its definition on placeholders."""
    return _infer_cached(define, tuple(specs), tuple(sorted(attrs.items())))


@functools.lru_cache(4096)
def _infer_cached(define: Callable[..., Tensor], specs: tuple[Spec, ...], attrs: tuple[tuple[str, Any], ...]) -> Spec:
    with eager(False), autocast(None):
        spec: Spec = define(*(placeholder(*s) for s in specs), **dict(attrs)).spec
    return spec


def evaluate_formula(define: Callable[..., Tensor], arrays: Sequence[Array], attrs: dict[str, Any]) -> Array:
    """A composite's reference: its definition on the NumPy engine, at the precision
    of the arrays (never through float32).
    """
    leaves = [Tensor(None, (), {}, Spec(np.shape(a), dtype_name(np.asarray(a).dtype)), np.asarray(a)) for a in arrays]
    with eager(False), autocast(None):
        return exact().values([define(*leaves, **attrs)])[0]
