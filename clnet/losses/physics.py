"""Losses that ask a network to solve a differential equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .. import ops as F
from ..config.fields import choice, field, positive
from ..core.autodiff import gradients
from ..core.tensor import Operators, Tensor, TensorLike, as_tensor, tensor
from ..errors import ConfigError, ShapeError
from ..layers.base import Layer, no_tape
from .base import Loss

Network: TypeAlias = Layer | Callable[[Tensor], Tensor]
POINTS = np.array([[0.1, 0.2], [0.4, 0.9], [0.8, 0.3], [0.6, 0.5]], np.float32)
EDGE = np.array([[0.0, 0.4], [1.0, 0.7]], np.float32)
START = np.array([[0.3, 0.0], [0.7, 0.0]], np.float32)


def _laplacian(second: Tensor, n: int) -> Tensor:
    """Σ_d ∂²u/∂x_d² over the first n coordinates: (N, M, D, D) -> (N, M)."""
    total: Any = second[:, :, 0, 0]
    for d in range(1, n):
        total = total + second[:, :, d, d]
    return total


# Equations by name; the last coordinate of heat and wave is time.
RESIDUALS: dict[str, Callable[..., Any]] = {
    "laplace": lambda x, u, first, second: _laplacian(second, x.shape[1]),
    "heat": lambda x, u, first, second: first[:, :, -1] - _laplacian(second, x.shape[1] - 1),
    "wave": lambda x, u, first, second: second[:, :, -1, -1] - _laplacian(second, x.shape[1] - 1),
}


class PhysicsInformedLoss(Loss):
    """w_d mean (u(x) − u_d)² + w_p mean r(x_p)² + w_b mean b(x_b)² + w_i mean (u(x_0) − u_0)²

    Called with the network and whatever of the points there is: loss(network, x=, u=, x_pde=, x_boundary=,
    x_initial=, u_initial=), points (N, D), values (N, M). r and b are functions of (x, u, first, second): u (N, M),
    first (N, M, D) and second (N, M, D, D) derivatives of the network by its inputs, samples independent of each other;
    r may be "laplace", "heat" or "wave" (time last), b is u unless given. Derivatives are exact, or central differences
    with step h. value_and_grad gives the gradients of the network's parameters.
    Paper: Raissi, Perdikaris, Karniadakis 2019, Journal of Computational Physics 378.
    """

    spec_name = "PhysicsInformedLoss"
    aliases = ("PhysicsInformed", "pinn")
    per = "whole"
    inputs = ("network", "x", "u", "x_pde", "x_boundary", "x_initial", "u_initial")
    optional = inputs[1:]
    residual_fn: str | Callable[..., Any] = field(doc="r: a name or a function (x, u, first, second) -> residual")
    boundary_fn: Callable[..., Any] | None = field(
        None, doc="b: a function (x, u, first, second) -> what is to be 0 at the boundary")
    data_weight: float = field(1.0, doc="w_d, of known values", ge=0)
    pde_weight: float = field(1.0, doc="w_p, of the equation", ge=0)
    boundary_weight: float = field(1.0, doc="w_b, of the boundary", ge=0)
    initial_weight: float = field(1.0, doc="w_i, of the initial values", ge=0)
    derivatives: str = choice("exact", ("exact", "fd"), doc="exact, or by finite differences")
    h: float = positive(0.02, doc="step of the differences, in units of x")
    examples = [(dict(residual_fn="heat", boundary_weight=0.5),
                 {"type": "Dense", "in_features": 2, "out_features": 1, "activation": "tanh"},
                 POINTS, POINTS[:, :1] * 0.5, POINTS[::-1].copy(), EDGE, START, START[:, :1] * 2.0),
                (dict(residual_fn="wave", derivatives="fd", h=0.25),
                 {"type": "Dense", "in_features": 2, "out_features": 2, "activation": "tanh"},
                 None, None, POINTS, EDGE)]

    def validate(self) -> None:
        if isinstance(self.residual_fn, str) and self.residual_fn not in RESIDUALS:
            raise ConfigError(
                f"PhysicsInformedLoss(residual_fn={self.residual_fn!r}): expected one of {', '.join(RESIDUALS)}, "
                "or a function.")

    def __call__(self, network: Network, x: TensorLike | None = None,  # type: ignore[override]
                 u: TensorLike | None = None, x_pde: TensorLike | None = None, x_boundary: TensorLike | None = None,
                 x_initial: TensorLike | None = None, u_initial: TensorLike | None = None,
                 sample_weight: TensorLike | None = None) -> Tensor:
        return super().__call__(network, x, u, x_pde, x_boundary, x_initial, u_initial, sample_weight=sample_weight)

    def operands(self, *inputs: Any) -> tuple[Any, ...]:
        if not callable(inputs[0]):
            raise ShapeError(
                f"PhysicsInformedLoss: expected the network first; got {type(inputs[0]).__name__}; "
                "pass the model, not its output.")
        return (inputs[0], *(None if x is None else as_tensor(x) if isinstance(x, Operators) else tensor(x, "float32")
                             for x in inputs[1:]))

    def check(self, network: Network, x: Tensor | None, u: Tensor | None,  # type: ignore[override]
              x_pde: Tensor | None, x_boundary: Tensor | None, x_initial: Tensor | None,
              u_initial: Tensor | None) -> None:
        for name, points, values in (("x and u", x, u), ("x_initial and u_initial", x_initial, u_initial)):
            if (points is None) != (values is None):
                raise ShapeError(f"PhysicsInformedLoss: expected both {name}, or none; got one.")
        given = {n: t for n, t in zip(self.inputs[1::2], (x, x_pde), strict=False) if t is not None}
        given |= {n: t for n, t in (("x_boundary", x_boundary), ("x_initial", x_initial)) if t is not None}
        if not given:
            raise ShapeError("PhysicsInformedLoss: expected points of at least one kind; got none; pass x_pde=.")
        for name, t in given.items():
            if t.ndim != 2:
                raise ShapeError(f"PhysicsInformedLoss: expected {name} (N, D); got {t.shape}.")

    def formula(self, network: Network, x: Tensor | None, u: Tensor | None,  # type: ignore[override]
                x_pde: Tensor | None, x_boundary: Tensor | None, x_initial: Tensor | None,
                u_initial: Tensor | None) -> Tensor:
        residual = RESIDUALS[self.residual_fn] if isinstance(self.residual_fn, str) else self.residual_fn
        total: Any = 0.0
        with no_tape():
            for weight, points, values in ((self.data_weight, x, u), (self.initial_weight, x_initial, u_initial)):
                if points is not None and values is not None:
                    total = total + weight * _mean_square("the network", network(points), values)
            if x_pde is not None:
                total = total + self.pde_weight * F.mean(F.square(residual(x_pde, *self.jet(network, x_pde))))
            if x_boundary is not None:
                b = (network(x_boundary) if self.boundary_fn is None
                     else self.boundary_fn(x_boundary, *self.jet(network, x_boundary)))
                total = total + self.boundary_weight * F.mean(F.square(b))
        return total

    def reduce(self, values: Tensor, weight: Tensor | None, *operands: Any) -> Tensor:
        return values

    def jet(self, network: Network, x: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
        """(u, first, second): (N, M), (N, M, D) and (N, M, D, D) of the network at x (N, D)."""
        if self.derivatives == "exact":
            return _exact(network, as_tensor(x))
        return _differences(network, as_tensor(x), self.h)


def _mean_square(who: str, p: Tensor, y: Tensor) -> Tensor:
    if p.shape != y.shape:
        raise ShapeError(
            f"PhysicsInformedLoss: expected values of the shape {p.shape} that {who} gives; got {y.shape}.")
    return F.mean(F.square(p - y.astype(p.dtype)))


def _columns(network: Network, x: Tensor) -> Tensor:
    u = network(x)
    if u.ndim != 2 or u.shape[0] != x.shape[0]:
        raise ShapeError(f"PhysicsInformedLoss: expected a network (N, D) -> (N, M); got {x.shape} -> {u.shape}.")
    return u


def _exact(network: Network, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Reverse over reverse: a derivative of the sum over samples is each sample's own."""
    u = _columns(network, x)
    slopes = [gradients(F.sum(u[:, m]), [x])[0] for m in range(u.shape[1])]
    bends = [F.stack([gradients(F.sum(s[:, d]), [x])[0] for d in range(x.shape[1])], 1) for s in slopes]
    return u, F.stack(slopes, 1), F.stack(bends, 1)


def _differences(network: Network, x: Tensor, h: float) -> tuple[Tensor, Tensor, Tensor]:
    """Central differences, all shifted points in one batch: (u₊ − u₋) / 2h, (u₊ − 2u + u₋) / h²,
    and the four corners over 4h².
    """
    n, size = x.shape
    axes = F.one_hot(F.arange(n=size, dtype="int32"), size, x.dtype) * h
    pairs = [(d, e) for d in range(size) for e in range(d)]
    corners = [a * axes[d] + b * axes[e] for d, e in pairs for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    shifts = F.concat([F.zeros((1, size), x.dtype), axes, -axes, *(c.reshape(1, size) for c in corners)])
    points = (x.reshape(1, n, size) + shifts.reshape(-1, 1, size)).reshape(-1, size)
    u = _columns(network, points).reshape(shifts.shape[0], n, -1)
    middle, up, down = u[0], u[1 : 1 + size], u[1 + size : 1 + 2 * size]
    first = (up - down) / (2 * h)
    bends = {(d, d): (up[d] + down[d] - 2.0 * middle) / h**2 for d in range(size)}
    for k, (d, e) in enumerate(pairs):
        c = u[1 + 2 * size + 4 * k : 5 + 2 * size + 4 * k]
        bends[d, e] = bends[e, d] = (c[0] - c[1] - c[2] + c[3]) / (4 * h**2)
    second = F.stack([F.stack([bends[d, e] for e in range(size)], 2) for d in range(size)], 2)
    return middle, F.permute(first, 1, 2, 0), second
