"""Radial basis functions: responses that depend on distances from centres."""

from __future__ import annotations

from collections.abc import Callable

from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.tensor import Tensor
from .base import Layer, New


def _thin_plate(q: Tensor) -> Tensor:
    inside = q > 0
    return F.where(inside, 0.5 * q * F.log(F.where(inside, q, 1.0)), 0.0)


# Each as a function of q = (r / s)², which is smooth where r itself is not.
KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussian": lambda q: F.exp(-0.5 * q),
    "multiquadric": lambda q: F.sqrt(1 + q),
    "inverse_multiquadric": lambda q: F.rsqrt(1 + q),
    "inverse_quadratic": lambda q: F.reciprocal(1 + q),
    "thin_plate": _thin_plate,
}


class RBF(Layer):
    """y_k = φ(|x − c_k| / s_k),  s = exp(log_width)

    kernel "gaussian": φ(r) = exp(−r²/2), "multiquadric": √(1 + r²), "inverse_multiquadric": 1/√(1 + r²),
    "inverse_quadratic": 1/(1 + r²), "thin_plate": r² ln r, 0 at 0.
    x (…, in_features), centers (num_centers, in_features) at first N(0, 1), log_width (num_centers) at first 0; y
    (…, num_centers). What is not trained is a buffer.
    Paper: Broomhead & Lowe 1988, Complex Systems 2, 321.
    """

    spec_name = "RBFLayer"
    aliases = ("RadialBasisFunction",)
    in_features: int | None = bound(doc="size of the last axis of the input")
    num_centers: int = positive(doc="how many centres there are, the size of the last axis of the output")
    kernel: str = choice("gaussian", tuple(KERNELS), doc="φ")
    trainable_centers: bool = field(True, doc="whether centres are learned")
    trainable_widths: bool = field(True, doc="whether widths are learned")
    signature = "... in_features -> ... num_centers"
    examples = [(dict(in_features=3, num_centers=4), [(5, 3)]),
                (dict(num_centers=3, kernel="multiquadric", trainable_centers=False), [(2, 3, 2)]),
                (dict(num_centers=3, kernel="inverse_multiquadric", trainable_widths=False), [(4, 2)]),
                (dict(num_centers=2, kernel="inverse_quadratic"), [(4, 3)]),
                (dict(num_centers=3, kernel="thin_plate"), [(4, 3)])]

    def setup(self, new: New) -> None:
        centers, widths = new.normal(self.num_centers, self.in_features or 0), new.zeros(self.num_centers)
        self.centers = centers if self.trainable_centers else new.buffer(centers.numpy())
        self.log_width = widths if self.trainable_widths else new.buffer(widths.numpy())

    def forward(self, x: Tensor) -> Tensor:
        # Differences, not |x|² − 2 x c + |c|²: near a centre that would leave rounding alone.
        apart = F.reshape(x, (*x.shape[:-1], 1, x.shape[-1])) - self.centers.tensor
        return KERNELS[self.kernel](F.sum(F.square(apart), -1) * F.exp(-2 * self.log_width.tensor))
