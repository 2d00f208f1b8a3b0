"""Transformer blocks: attention and a feed-forward network, each with a residual and a normalisation."""

from __future__ import annotations

from typing import Any

from ..config import bound, field, fraction, positive
from .attention import MultiHeadAttention
from .base import Layer, New
from .dense import Dense
from .fields import Act
from .normalisation import LayerNorm
from .utility import Dropout


class TransformerEncoderBlock(Layer):
    """h = LN₁(x + attention(x)), y = LN₂(h + ffn(h));  norm_first: h = x + attention(LN₁(x)), y = h + ffn(LN₂(h))

    x and y (N, T, d_model); a second input is the attention's mask. ffn(x) = act(x W₁ᵀ + b₁) W₂ᵀ + b₂ of width d_ff. Dropout on the
    attention weights, inside ffn, and on both branches.
    Paper: Vaswani et al. 2017, arXiv:1706.03762; norm_first: Xiong et al. 2020, arXiv:2002.04745.
    """

    spec_name = "TransformerEncoderLayer"
    aliases = ("TransformerEncoder", "transformer_encoder")
    d_model: int | None = bound(doc="features of the input and the output")
    num_heads: int = positive(doc="heads of the attention")
    d_ff: int = positive(2048, doc="width of the feed-forward network")
    dropout: float = fraction(0.1, doc="probability that an element is dropped in training")
    activation: Act = field("relu", doc="function of the feed-forward network")
    norm_first: bool = field(False, doc="whether normalisation comes before each branch")
    eps: float = positive(1e-5, doc="ε of the normalisations")
    bias: bool = field(True, doc="whether maps and normalisations have a bias")
    causal: bool = field(False, doc="whether a position sees only itself and those before it")
    signature = "N T d_model -> N T d_model"
    examples = [(dict(d_model=4, num_heads=2, d_ff=6, dropout=0.0), [(2, 3, 4)]),
                (dict(num_heads=2, d_ff=6, dropout=0.0, activation="gelu", norm_first=True, causal=True, bias=False), [(2, 3, 4)]),
                (dict(num_heads=2, d_ff=6, dropout=0.2), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        d = self.d_model or 0
        self.self_attn = MultiHeadAttention(embed_dim=d, num_heads=self.num_heads, bias=self.bias, dropout=self.dropout, causal=self.causal)
        self.linear1 = Dense(in_features=d, out_features=self.d_ff, bias=self.bias, activation=self.activation)
        self.linear2 = Dense(in_features=self.d_ff, out_features=d, bias=self.bias)
        self.norm1, self.norm2 = (LayerNorm(normalized_shape=d, eps=self.eps, bias=self.bias) for _ in range(2))
        self.drop, self.drop1, self.drop2 = (Dropout(p=self.dropout) for _ in range(3))

    def forward(self, x: Any, mask: Any = None) -> Any:
        if self.norm_first:
            h = x + self._attend(self.norm1(x), mask)
            return h + self._feed(self.norm2(h))
        h = self.norm1(x + self._attend(x, mask))
        return self.norm2(h + self._feed(h))

    def _attend(self, x: Any, mask: Any) -> Any:
        return self.drop1(self.self_attn(x, None, None, mask))

    def _feed(self, x: Any) -> Any:
        return self.drop2(self.linear2(self.drop(self.linear1(x))))
