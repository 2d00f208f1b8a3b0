"""Transformer blocks: attention and a feed-forward network, each with a residual and a normalisation."""

from __future__ import annotations

from .. import ops as F
from ..config.bounded import PositiveInt
from ..config.fields import bound, field, fraction, positive
from ..core.tensor import Tensor
from ..errors import ConfigError
from .attention import OFFSETS, Attention, MultiHeadAttention
from .base import Layer, New
from .dense import Dense, FeedForward
from .fields import Act
from .normalisation import LayerNorm
from .packed import unpacked
from .utility import Dropout


class TransformerEncoderBlock(Layer):
    """h = LN₁(x + attention(x)), y = LN₂(h + ffn(h));  norm_first: h = x + attention(LN₁(x)), y = h + ffn(LN₂(h))

    x and y (N, T, d_model); a second input is the attention's mask. Sequences one after another are x and y
    (S, d_model), the second input then their offsets (N + 1), or steps (N, T), which dropout in training needs.
    ffn(x) = act(x W₁ᵀ + b₁) W₂ᵀ + b₂ of width d_ff. Dropout on the attention weights, inside ffn, and on both branches.
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
    use_bias: bool = field(True, alias="bias", doc="whether maps and normalisations have a bias")
    causal: bool = field(False, doc="whether a position sees only itself and those before it")
    signature = "N T d_model -> N T d_model"
    examples = [(dict(d_model=4, num_heads=2, d_ff=6, dropout=0.0), [(2, 3, 4)]),
                (dict(num_heads=2, d_ff=6, dropout=0.0, activation="gelu", norm_first=True, causal=True, bias=False),
                 [(2, 3, 4)]),
                (dict(num_heads=2, d_ff=6, dropout=0.2), [(2, 3, 4)]),
                (dict(num_heads=2, d_ff=6, dropout=0.0, norm_first=True), [(5, 4), OFFSETS])]

    def setup(self, new: New) -> None:
        d = self.d_model or 0
        self.self_attn = MultiHeadAttention(embed_dim=d, num_heads=self.num_heads, bias=self.use_bias,
                                            dropout=self.dropout, causal=self.causal)
        self.linear1 = Dense(in_features=d, out_features=self.d_ff, bias=self.use_bias, activation=self.activation)
        self.linear2 = Dense(in_features=self.d_ff, out_features=d, bias=self.use_bias)
        self.norm1, self.norm2 = (LayerNorm(normalized_shape=d, eps=self.eps, bias=self.use_bias) for _ in range(2))
        self.drop, self.drop1, self.drop2 = (Dropout(p=self.dropout) for _ in range(3))

    def bind(self, *shapes: tuple[int, ...]) -> None:
        super().bind(*unpacked(shapes))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.norm_first:
            h = x + self._attend(self.norm1(x), mask)
            return h + self._feed(self.norm2(h))
        h = self.norm1(x + self._attend(x, mask))
        return self.norm2(h + self._feed(h))

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.drop1(self.self_attn(x, None, None, mask))

    def _feed(self, x: Tensor) -> Tensor:
        return self.drop2(self.linear2(self.drop(self.linear1(x))))


class TransformerDecoderBlock(TransformerEncoderBlock):
    """h₁ = LN₁(x + attention(x)), h₂ = LN₂(h₁ + attention(h₁, memory)), y = LN₃(h₂ + ffn(h₂));
    norm_first: each LN before its branch

    Inputs x (N, T, d_model), memory (N, S, d_model), self_mask=None (T, T), memory_mask=None (T, S),
    or with N or (N, heads) in front; y (N, T, d_model). Sequences one after another are x (S, d_model), memory
    (S', d_model) and, as self_mask and memory_mask, the offsets or steps of both. ffn and dropout as in
    TransformerEncoderBlock.
    Paper: Vaswani et al. 2017, arXiv:1706.03762; norm_first: Xiong et al. 2020, arXiv:2002.04745.
    """

    spec_name = "TransformerDecoderLayer"
    aliases = ("TransformerDecoder", "transformer_decoder")
    causal: bool = field(True, doc="whether a position of x sees only itself and those before it")
    signature = "N T d_model, N S d_model -> N T d_model"
    examples = [(dict(num_heads=2, d_ff=6, dropout=0.0, activation="gelu", norm_first=True, causal=False, bias=False),
                 [(2, 3, 4), (2, 2, 4)]),
                (dict(d_model=4, num_heads=2, d_ff=6, dropout=0.0), [(2, 3, 4), (2, 5, 4)])]

    def setup(self, new: New) -> None:
        super().setup(new)
        d = self.d_model or 0
        self.multihead_attn = MultiHeadAttention(embed_dim=d, num_heads=self.num_heads, bias=self.use_bias,
                                                 dropout=self.dropout)
        self.norm3 = LayerNorm(normalized_shape=d, eps=self.eps, bias=self.use_bias)
        self.drop3 = Dropout(p=self.dropout)

    def forward(self, x: Tensor, memory: Tensor, self_mask: Tensor | None = None,  # type: ignore[override]
                memory_mask: Tensor | None = None) -> Tensor:
        def look(h: Tensor) -> Tensor:
            masks = (self_mask, memory_mask) if x.ndim == 2 else (memory_mask,)
            return self.drop3(self.multihead_attn(h, memory, None, *masks))

        if self.norm_first:
            h = x + self._attend(self.norm1(x), self_mask)
            h = h + look(self.norm2(h))
            return h + self._feed(self.norm3(h))
        h = self.norm1(x + self._attend(x, self_mask))
        h = self.norm2(h + look(h))
        return self.norm3(h + self._feed(h))


class DecoderBlock(Layer):
    """h₁ = LN₁(x + attention(x)), h₂ = LN₂(h₁ + attention(h₁, encoder_output)), y = LN₃(h₂ + ffn(h₂)),
    attention with one head

    Inputs x (N, T, input_size), encoder_output=x (N, S, input_size), mask=None (T, T) or (N, T, T)
    of the first attention; y (N, T, input_size). ffn(x) = act(x W₁ᵀ + b₁) W₂ᵀ + b₂ of width feed_forward_size.
    Dropout on attention weights, inside ffn, on branches.
    Paper: Vaswani et al. 2017, arXiv:1706.03762.
    """

    spec_name = "DecoderLayer"
    input_size: int | None = bound(doc="features of the input and the output")
    attention_size: int = positive(doc="features of queries, keys and values")
    feed_forward_size: int = positive(doc="width of the feed-forward network")
    activation: Act = field("relu", doc="function of the feed-forward network")
    dropout: float = fraction(0.0, doc="probability that an element is dropped in training")
    causal: bool = field(False, doc="whether a position of x sees only itself and those before it")
    signature = "N T input_size -> N T input_size"
    examples = [(dict(input_size=4, attention_size=3, feed_forward_size=6), [(2, 3, 4), (2, 2, 4)]),
                (dict(attention_size=4, feed_forward_size=5, activation="tanh", causal=True), [(2, 3, 4)])]

    def setup(self, new: New) -> None:
        d, a = self.input_size or 0, self.attention_size
        self.self_attn = Attention(input_size=d, attention_size=a, dropout=self.dropout, causal=self.causal)
        self.cross_attn = Attention(input_size=d, attention_size=a, dropout=self.dropout)
        self.ffn = FeedForward(d_model=d, d_ff=self.feed_forward_size, activation=self.activation, dropout=self.dropout)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(normalized_shape=d) for _ in range(3))
        self.drop1, self.drop2, self.drop3 = (Dropout(p=self.dropout) for _ in range(3))

    def forward(self, x: Tensor, encoder_output: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        memory = x if encoder_output is None else encoder_output
        h = self.norm1(x + self.drop1(self.self_attn(x, None, mask)))
        h = self.norm2(h + self.drop2(self.cross_attn(h, memory)))
        return self.norm3(h + self.drop3(self.ffn(h)))


class PatchEmbedding(Layer):
    """y[n, l] = W · patchₗ(x[n]) + b (+ pos[l]), patches row by row; in front cls, where there is one

    x (N, in_channels, H, W), H and W multiples of P = patch_size; W (embed_dim, in_channels, P, P), b (embed_dim), cls
    (1, 1, embed_dim), pos (1, L, embed_dim); y (N, L, embed_dim), L = (H / P) · (W / P), one more with cls.
    Paper: Dosovitskiy et al. 2021, arXiv:2010.11929.
    """

    spec_name = "PatchEmbeddingLayer"
    aliases = ("patch_embedding",)
    image_size: int | tuple[PositiveInt, PositiveInt] = field(doc="(H, W), or one number for both")
    patch_size: int = positive(16, doc="P")
    in_channels: int = positive(3, doc="channels of the image")
    embed_dim: int = positive(768, doc="features of a patch")
    use_bias: bool = field(True, alias="bias", doc="whether b is added")
    cls_token: bool = field(False, doc="whether a learned token comes first")
    pos_embed: bool = field(False, doc="whether a learned position is added, drawn from N(0, 0.02²) like cls")
    signature = "N in_channels height width -> N L embed_dim"
    examples = [(dict(image_size=(4, 6), patch_size=2, in_channels=2, embed_dim=5), [(2, 2, 4, 6)]),
                (dict(image_size=4, patch_size=2, in_channels=1, embed_dim=3, bias=False, cls_token=True,
                      pos_embed=True), [(2, 1, 4, 4)])]

    height = property(lambda self: self.image_size[0] if isinstance(self.image_size, tuple) else self.image_size)
    width = property(lambda self: self.image_size[1] if isinstance(self.image_size, tuple) else self.image_size)

    def validate(self) -> None:
        if self.height % self.patch_size or self.width % self.patch_size or min(self.height, self.width) < 1:
            raise ConfigError(
                f"PatchEmbedding(image_size={self.image_size}): expected multiples of patch_size = {self.patch_size}.")

    def setup(self, new: New) -> None:
        d, p, c = self.embed_dim, self.patch_size, self.in_channels
        length = self.height // p * (self.width // p) + self.cls_token
        self.weight = new.weight(d, c, p, p)
        self.bias = new.bias(d, fan_in=c * p * p) if self.use_bias else None
        self.cls = new.normal(1, 1, d, std=0.02, role="embedding") if self.cls_token else None
        self.pos = new.normal(1, length, d, std=0.02, role="embedding") if self.pos_embed else None

    def forward(self, x: Tensor) -> Tensor:
        n, c, p = x.shape[0], self.in_channels, self.patch_size
        patches = F.permute(F.reshape(x, (n, c, self.height // p, p, self.width // p, p)), 0, 2, 4, 1, 3, 5)
        y = F.linear(F.reshape(patches, (n, -1, c * p * p)), F.reshape(self.weight, (self.embed_dim, -1)), self.bias)
        if self.cls is not None:
            y = F.concat([F.expand(self.cls, (n, 1, self.embed_dim)), y], 1)
        return y if self.pos is None else y + self.pos
