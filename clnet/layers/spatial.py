"""Images that a network turns the right way round before it looks at them."""

from __future__ import annotations

from .. import ops as F
from ..config.bounded import PositiveInt
from ..config.fields import bound, field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.sample import affine_grid, grid_sample
from .base import Layer, New
from .fields import Child


class SpatialTransformer(Layer):
    """y[n, c, i, j] = x[n, c] at θ[n] · (x_j, y_i, 1), bilinear, 0 outside;  θ = W₂ tanh(W₁ x + b₁) + b₂

    x (N, channels, height, width), points x_j, y_i from −1 to 1 over the image, W₁ (hidden, channels · height · width),
    W₂ (6, hidden), θ (N, 2, 3), y (N, channels, *output_size). `localization`, another layer (N, channels, height,
    width) -> (N, 6) or (N, 2, 3), takes the place of the two maps. b₂ starts as the identity, W₂ at 0 (zero_init).
    Raises ShapeError where the localization gives no six numbers a sample.
    Paper: Jaderberg et al. 2015, arXiv:1506.02025.
    """

    spec_name = "SpatialTransformerLayer"
    family = "specialised"
    channels: int | None = bound(doc="channels of the image")
    height: int | None = bound(doc="rows of the image")
    width: int | None = bound(doc="columns of the image")
    output_size: tuple[PositiveInt, PositiveInt] | None = field(None, doc="rows and columns of y; None: those of x")
    hidden: int = positive(32, doc="features between the two maps")
    localization: Child | None = field(None, doc="what finds θ; None: the two maps")
    align_corners: bool = field(False, doc="whether −1 and 1 are the centres of the corner pixels, else their edges")
    zero_init: bool = field(True, doc="whether W₂ starts at 0, so that the layer starts as the identity")
    signature = "N channels height width -> N channels rows columns"
    examples = [(dict(channels=2, height=2, width=3, hidden=2, zero_init=False), [(1, 2, 2, 3)]),
                (dict(output_size=(3, 2), hidden=2, align_corners=True, zero_init=False), [(2, 1, 3, 4)])]

    def setup(self, new: New) -> None:
        if self.localization is not None:
            return
        pixels = (self.channels or 0) * (self.height or 0) * (self.width or 0)
        self.w1, self.b1 = new.weight(self.hidden, pixels), new.bias(self.hidden, fan_in=pixels)
        self.w2 = new.zeros(6, self.hidden, role="weight") if self.zero_init else new.weight(6, self.hidden)
        self.b2 = new.value([1, 0, 0, 0, 1, 0], role="bias")

    def forward(self, x: Tensor) -> Tensor:
        theta = self.theta(x)
        size = self.output_size or x.shape[2:]
        return grid_sample(x, affine_grid(theta, size, self.align_corners), align_corners=self.align_corners)

    def theta(self, x: Tensor) -> Tensor:
        """(N, 2, 3): where the axes of the result lie in x. Raises ShapeError."""
        if self.localization is None:
            flat = F.reshape(x, (x.shape[0], -1))
            found = F.linear(F.tanh(F.linear(flat, self.w1, self.b1)), self.w2, self.b2)
        else:
            found = self.localization(x)
            if found.shape not in ((x.shape[0], 6), (x.shape[0], 2, 3)):
                raise ShapeError(f"SpatialTransformer: expected ({x.shape[0]}, 6) or ({x.shape[0]}, 2, 3) from its "
                                 f"localization; got {found.shape}; end it with Flatten() and Dense(out_features=6).")
        return F.reshape(found, (x.shape[0], 2, 3))
