"""Linear maps with fewer connections, or with weights of their own at every place."""

from __future__ import annotations

from .. import init
from .. import ops as F
from ..config.bounded import PositiveInt
from ..config.fields import bound, field, fraction, positive
from ..core.arguments import per_axis
from ..core.tensor import Tensor
from ..errors import ConfigError
from ..ops.activations import activation
from .base import Layer, New
from .fields import Act, Amount, Size


class SparseLinear(Layer):
    """y = act(x · Sᵀ + b), S[row_k, col_k] = values_k and 0 elsewhere

    x (…, in_features), S (out_features, in_features) with nnz = max(1, ⌊in · out · (1 − sparsity)⌋) entries at places
    drawn once, values (nnz), b (out_features), y (…, out_features). S is never made dense; its places are buffers, by
    rows: row_ptr (out + 1), row_idx and col_idx (nnz).
    Paper: Mocanu et al. 2018, arXiv:1707.04780 (fixed places: no rewiring).
    """

    spec_name = "SparseLinearLayer"
    in_features: int | None = bound(doc="size of the last axis of the input")
    out_features: int = positive(doc="size of the last axis of the output")
    sparsity: float = fraction(0.9, doc="share of S that is zero")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=7, out_features=5, sparsity=0.6), [(3, 7)]),
                (dict(out_features=4, bias=False, activation="tanh"), [(2, 3, 6)])]

    def setup(self, new: New) -> None:
        n, out = self.in_features or 0, self.out_features
        count = max(1, int(n * out * (1 - self.sparsity)))
        row, column = init.pattern(out, n, count)
        self.values = new.value(init.uniform((count,), (count / out) ** -0.5))
        self.row_idx, self.col_idx = new.buffer(row), new.buffer(column)
        self.row_ptr = new.buffer(row.searchsorted(range(out + 1)).astype("int32"))
        self.bias = new.bias(out, fan_in=n) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        columns = F.transpose(F.reshape(x, (-1, x.shape[-1])))
        y = F.transpose(F.sparse_matmul(self.values, self.row_idx, self.col_idx, columns, rows=self.out_features))
        y = F.reshape(y, (*x.shape[:-1], self.out_features))
        return activation(self.activation)(y if self.bias is None else y + self.bias)


class LocallyConnected2d(Layer):
    """y[n, o, p, q] = act(Σ W[p, q, o, c, u, v] · x[n, c, p·s + u, q·s + v] + b): a convolution with a kernel
    of its own at every place

    x (N, in_channels, *input_size), padded with zeros; W (Ho, Wo, out_channels, in_channels, kh, kw),
    Ho = ⌊(H + 2p − k) / s⌋ + 1; b (out_channels, Ho, Wo), or (out_channels) with tied_bias;
    y (N, out_channels, Ho, Wo).
    Paper: LeCun 1989, "Generalization and network design strategies"; Taigman et al. 2014, "DeepFace".
    """

    spec_name = "LocallyConnectedLayer"
    aliases = ("LocallyConnected2D",)
    in_channels: int | None = bound(doc="channels of the input")
    out_channels: int = positive(doc="channels of the output")
    input_size: tuple[PositiveInt, PositiveInt] = field(doc="(H, W) of the input")
    kernel_size: Size = field(doc="size of a window, one number or one per axis")
    stride: Size = field(1, doc="distance between windows")
    padding: Amount = field(0, doc="zeros at both sides")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    tied_bias: bool = field(False, doc="whether b is the same at every place")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "N in_channels height width -> N out_channels Ho Wo"
    examples = [(dict(in_channels=2, out_channels=3, input_size=(4, 5), kernel_size=2), [(2, 2, 4, 5)]),
                (dict(out_channels=2, input_size=(5, 4), kernel_size=(3, 2), stride=2, padding=1, tied_bias=True,
                      activation="tanh"), [(2, 2, 5, 4)])]

    def validate(self) -> None:
        if min(self.places()) < 1:
            raise ConfigError(f"LocallyConnected2d(kernel_size={self.kernel_size}): expected a window that fits into "
                              f"input_size={self.input_size} with padding={self.padding}; choose a smaller one.")

    height = property(lambda self: self.input_size[0])
    width = property(lambda self: self.input_size[1])

    def pair(self, name: str, least: int = 1) -> tuple[int, ...]:
        """The field of this name along both axes."""
        return per_axis("LocallyConnected2d", name, getattr(self, name), 2, least)

    def places(self) -> tuple[int, ...]:
        """(Ho, Wo)"""
        sizes = zip(self.input_size, self.pair("kernel_size"), self.pair("stride"), self.pair("padding", 0),
                    strict=True)
        return tuple((n + 2 * p - k) // s + 1 for n, k, s, p in sizes)

    def setup(self, new: New) -> None:
        n, (kh, kw) = self.in_channels or 0, self.pair("kernel_size")
        fan = n * kh * kw
        self.weight = new.weight(*self.places(), self.out_channels, n, kh, kw, fan_in=fan)
        each = () if self.tied_bias else self.places()
        self.bias = new.bias(self.out_channels, *each, fan_in=fan) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        low = (0, 0, *self.pair("padding", 0))
        patches = F.windows(F.pad(x, low, low), self.pair("kernel_size"), self.pair("stride"))
        y = F.einsum("ncpquv,pqocuv->nopq", patches, self.weight)
        if self.bias is not None:
            y = y + (F.reshape(self.bias, (-1, 1, 1)) if self.tied_bias else self.bias)
        return activation(self.activation)(y)
