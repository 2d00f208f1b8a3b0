"""Numbers for symbols and for places in a sequence."""

from __future__ import annotations

import numpy as np

from .. import init
from .. import ops as F
from ..config.fields import bound, field, fraction, positive
from ..core.spec import is_float
from ..core.tensor import Tensor
from ..errors import ConfigError, DataError, DTypeError, ShapeError
from ..ops.index import gather
from .base import Layer, New
from .utility import Dropout


class Embedding(Layer):
    """y = W[i], row i of a table

    i of integers in [0, num_embeddings), any shape; W (num_embeddings, embedding_dim), y (*i.shape, embedding_dim).
    The row padding_idx is 0 at first and gets no gradient.
    """

    spec_name = "EmbeddingLayer"
    aliases = ("embedding",)
    integers = True
    num_embeddings: int = positive(doc="rows of the table")
    embedding_dim: int = positive(doc="size of a row")
    padding_idx: int | None = field(None, doc="row that stays as it is", ge=0)
    signature = "... -> ... embedding_dim"
    examples = [(dict(num_embeddings=6, embedding_dim=4), [np.array([[0, 5, 2], [2, 2, 1]], np.int32)]),
                (dict(num_embeddings=5, embedding_dim=3, padding_idx=1), [np.array([2, 4, 0, 2], np.int32)])]

    def validate(self) -> None:
        if (self.padding_idx or 0) >= self.num_embeddings:
            raise ConfigError(
                f"Embedding(padding_idx={self.padding_idx}): expected a row below num_embeddings = "
                f"{self.num_embeddings}.")

    def setup(self, new: New) -> None:
        table = init.normal((self.num_embeddings, self.embedding_dim))
        if self.padding_idx is not None:
            table[self.padding_idx] = 0
        self.weight = new.value(table, role="embedding")

    def forward(self, i: Tensor) -> Tensor:
        if not i.dtype.startswith(("int", "uint")):
            raise DTypeError(f"Embedding: expected integer indices; got {i.dtype}; cast them.")
        self._check(i)
        rows = gather(self.weight, i)
        if self.padding_idx is None:
            return rows
        padding = F.reshape(F.equal(i, self.padding_idx), (*i.shape, 1))
        return F.where(padding, F.detach(rows), rows)

    def _check(self, i: Tensor) -> None:
        """Raises DataError for indices known on the host that are no rows; on the device they give NaN."""
        if i.value is None:
            return
        bad = np.argwhere((i.value < 0) | (i.value >= self.num_embeddings))
        if len(bad):
            at = tuple(bad[0].tolist())
            raise DataError(
                f"Embedding: expected indices in [0, {self.num_embeddings}); got {i.value[at]} at {at}; "
                "enlarge num_embeddings or mend the data.")


class PositionalEncoding(Layer):
    """y = dropout(x + pe[:T]);  pe[t, 2i] = sin(t / 10000^(2i / d)), pe[t, 2i + 1] = cos(same), or learned

    x and y (…, T, d_model), T ≤ max_len; pe (max_len, d_model) is a buffer, or a parameter with learned=True.
    Paper: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """

    spec_name = "PositionalEncodingLayer"
    aliases = ("positional_encoding",)
    d_model: int | None = bound(doc="d, features of the input")
    max_len: int = positive(5000, doc="longest sequence")
    dropout: float = fraction(0.0, doc="probability that an element of the sum is dropped in training")
    learned: bool = field(False, doc="whether pe is a parameter, drawn from N(0, 0.02²)")
    signature = "... T d_model -> ... T d_model"
    examples = [(dict(d_model=4, max_len=6), [(2, 3, 4)]), (dict(max_len=5, learned=True), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        d = self.d_model or 0
        self.pe = (new.normal(self.max_len, d, std=0.02, role="embedding") if self.learned
                   else new.buffer(init.sinusoids(self.max_len, d)))
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2] > self.max_len:
            raise ShapeError(
                f"PositionalEncoding: expected at most max_len = {self.max_len} steps; got {x.shape[-2]} in an input "
                f"of shape {x.shape}.")
        return self.drop(x + self.pe[: x.shape[-2]])


class TimeEmbedding(Layer):
    """y = W₂ · silu(W₁ · e + b₁) + b₂;  e = [sin(t wᵢ); cos(t wᵢ)], wᵢ = max_period^(−i / half),
    half = ⌊embedding_dim / 2⌋

    t (N) or (N, 1), time steps, integers or floats; W₁ (output_dim, embedding_dim), W₂ (output_dim, output_dim),
    y (N, output_dim). An odd embedding_dim leaves one 0 at the end of e.
    Paper: Ho, Jain, Abbeel 2020, arXiv:2006.11239.
    """

    spec_name = "TimeEmbeddingLayer"
    aliases = ("time_embedding",)
    integers = True
    embedding_dim: int = field(doc="size of e", ge=2)
    output_dim: int = positive(doc="size of the last axis of the output")
    max_period: float = positive(10000.0, doc="longest period, divided by 2π")
    signature = "N ... -> N output_dim"
    examples = [(dict(embedding_dim=6, output_dim=4), [np.array([0.0, 1.0, 7.5], np.float32)]),
                (dict(embedding_dim=5, output_dim=3, max_period=100.0), [np.array([[3], [40]], np.int32)])]

    def setup(self, new: New) -> None:
        n, out = self.embedding_dim, self.output_dim
        self.periods = new.buffer(init.frequencies(n // 2, self.max_period))
        self.w1, self.b1 = new.weight(out, n), new.bias(out, fan_in=n)
        self.w2, self.b2 = new.weight(out, out), new.bias(out, fan_in=out)

    def forward(self, t: Tensor) -> Tensor:
        if t.shape not in ((t.size,), (t.size, 1)):
            raise ShapeError(f"TimeEmbedding: expected time steps (N) or (N, 1); got {t.shape}.")
        angle = F.reshape(t if is_float(t.dtype) else F.cast(t, "float32"), (-1, 1)) * self.periods
        e = F.concat([F.sin(angle), F.cos(angle)], 1)
        if self.embedding_dim % 2:
            e = F.pad(e, (0, 0), (0, 1))
        return F.linear(F.swish(F.linear(e, self.w1, self.b1)), self.w2, self.b2)
