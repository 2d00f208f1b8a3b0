"""Linear maps over other spaces and numbers: the hyperbolic ball, octonions."""

from __future__ import annotations

import numpy as np

from .. import init
from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.activations import activation
from ..ops.hyperbolic import exp0, log0, mobius_add, project
from .base import Layer, New
from .fields import Act

# A point at the origin, one near it, one far out; the last of _LARGE lies outside the ball.
_SMALL = np.array([[0.0, 0.0, 0.0], [0.1, -0.2, 0.3], [-0.6, 0.5, 0.4]], np.float32)
_LARGE = np.array([[0.3, -0.2, 0.1, 0.5], [1.5, -0.5, 0.25, 1.0]], np.float32)


class HyperbolicLinear(Layer):
    """y = proj(exp₀(W · log₀(proj(x))) ⊕ exp₀(b)) on the Poincaré ball √c ‖x‖ < 1, c = −curvature

    x (…, in_features), W (out_features, in_features), b (out_features) a tangent vector at the origin,
    y (…, out_features) in the ball. All parameters are Euclidean: any optimizer serves.
    proj(x) = x · min(1, (1 − ε) / (√c ‖x‖)).
    Paper: Ganea, Bécigneul, Hofmann 2018, arXiv:1805.09112.
    """

    spec_name = "HyperbolicLinearLayer"
    in_features: int | None = bound(doc="size of the last axis of the input")
    out_features: int = positive(doc="size of the last axis of the output")
    curvature: float = field(-1.0, doc="−c", lt=0)
    use_bias: bool = field(True, alias="bias", doc="whether exp₀(b) is added")
    project_input: bool = field(True, doc="whether inputs outside the ball are brought to its inner edge")
    eps: float = field(1e-5, doc="ε, distance of the inner edge from the edge, as a share of the radius", gt=0, lt=1)
    signature = "... in_features -> ... out_features"
    # One row of the first input lies at the origin, one of the second outside the ball.
    examples = [(dict(in_features=3, out_features=4), [_SMALL]),
                (dict(out_features=2, curvature=-0.5, bias=False, eps=0.05), [_LARGE])]

    def setup(self, new: New) -> None:
        n = self.in_features or 0
        self.weight = new.weight(self.out_features, n)
        self.bias = new.bias(self.out_features, fan_in=n) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        c = -self.curvature
        inside = project(x, c, self.eps) if self.project_input else x
        y = exp0(F.linear(log0(inside, c, self.eps), self.weight), c)
        if self.bias is not None:
            y = mobius_add(y, exp0(self.bias, c), c)
        return project(y, c, self.eps)


def _product() -> list[list[list[float]]]:
    """P[i][j][k]: the part of eₖ in eᵢ eⱼ. e₀ is 1, eᵢ² = −1, and the triples' cyclic products are positive."""
    table = [[[0.0] * 8 for _ in range(8)] for _ in range(8)]
    for i in range(8):
        table[0][i][i] = table[i][0][i] = 1.0
        table[i][i][0] = 1.0 if i == 0 else -1.0
    for a, b, c in ((1, 2, 3), (1, 4, 5), (1, 7, 6), (2, 4, 6), (2, 5, 7), (3, 4, 7), (3, 6, 5)):
        for i, j, k in ((a, b, c), (b, c, a), (c, a, b)):
            table[i][j][k], table[j][i][k] = 1.0, -1.0
    return table


PRODUCT = _product()


class OctonionLinear(Layer):
    """y_o = act(Σᵢ W_oi · xᵢ + b_o), · the product of octonions, the weight on the left

    x (…, 8 · in_features), W (out_features, in_features, 8), b (out_features, 8), y (…, 8 · out_features);
    the component runs fastest, act is applied to each. Computed as one real product with the (8 out, 8 in) matrix
    of the left multiplications. Products of units: e₁e₂ = e₃, e₁e₄ = e₅, e₁e₇ = e₆, e₂e₄ = e₆,
    e₂e₅ = e₇, e₃e₄ = e₇, e₃e₆ = e₅.
    Paper: Wu, Xu, Wu, Kong, Senhadji, Shu 2020, arXiv:1903.08478.
    """

    spec_name = "OctonionLinearLayer"
    in_features: int | None = field(None, doc="octonions of the input; None: an eighth of its last axis", gt=0)
    out_features: int = positive(doc="octonions of the output")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "... components -> ... components"
    examples = [(dict(in_features=2, out_features=3), [(3, 16)]),
                (dict(out_features=1, bias=False, activation="tanh"), [(2, 2, 8)])]

    @property
    def components(self) -> int | None:
        """Real numbers in an input: eight an octonion."""
        return None if self.in_features is None else 8 * self.in_features

    def bind(self, *shapes: tuple[int, ...]) -> None:
        last = shapes[0][-1] if shapes[0] else 0
        if self.in_features is None and last % 8 == 0:
            self.in_features = last // 8 or None
        if self.components != last:
            raise ShapeError(
                "OctonionLinear: expected "
                f"{f'8 · in_features = {self.components}' if self.in_features else 'a multiple of 8'} numbers on the "
                f"last axis; got shape {shapes[0]}.")
        super().bind(*shapes)

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        limit = (2 / (n + out) / 8) ** 0.5
        self.weight = new.value(init.uniform((out, n, 8), limit))
        self.bias = new.bias(out, 8, fan_in=8 * n) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        n, out = self.in_features or 0, self.out_features
        left = F.reshape(F.einsum("oia,ajk->okij", self.weight, PRODUCT), (8 * out, 8 * n))
        y = F.linear(x, left)
        return activation(self.activation)(y if self.bias is None else y + F.reshape(self.bias, (-1,)))
