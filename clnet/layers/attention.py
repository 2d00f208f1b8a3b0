"""Attention layers."""

from __future__ import annotations

import numpy as np

from .. import ops as F
from ..config.fields import bound, field, fraction, positive
from ..core.tensor import Tensor
from ..errors import ConfigError, ShapeError
from .base import Layer, New
from .packed import Places, attend, heads, joined, unpacked
from .utility import Dropout

OFFSETS = np.array([0, 2, 5], np.int32)  # in examples: of two sequences one after another


class MultiHeadAttention(Layer):
    """y = concat over heads of softmax(q kᵀ / √d + mask) v, · W_oᵀ + b_o;
    q = x W_qᵀ + b_q, k = key W_kᵀ + b_k, v = value W_vᵀ + b_v

    Inputs x, key=x, value=key, mask=None: (N, T, embed_dim), (N, S, kdim), (N, S, vdim), mask (T, S),
    (N, T, S) or (N, heads, T, S), bool (True: may attend) or float (added); y (N, T, embed_dim). Fewer key heads:
    query head m reads key head m // (heads / key heads). A row with nothing to attend to gives zeros before W_o.
    Sequences one after another: x (S, embed_dim), in the mask's place their offsets (N + 1) or steps (N, T), integers,
    and behind them those of keys that are others; dropout on the weights takes steps.
    Paper: Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245.
    """

    spec_name = "MultiHeadAttentionLayer"
    aliases = ("MHA", "multi_head_attention", "mha")
    embed_dim: int | None = bound(doc="features of the input and the output")
    num_heads: int = positive(doc="query heads")
    num_kv_heads: int | None = field(None, doc="key and value heads, a divisor of num_heads; None: num_heads", gt=0)
    kdim: int | None = field(None, doc="features of the keys' input; None: embed_dim", gt=0)
    vdim: int | None = field(None, doc="features of the values' input; None: embed_dim", gt=0)
    head_dim: int | None = field(None, doc="features of a head; None: embed_dim / num_heads", gt=0)
    use_bias: bool = field(True, alias="bias", doc="whether the four maps add a bias")
    dropout: float = fraction(0.0, doc="probability that an attention weight is dropped in training")
    causal: bool = field(False, doc="whether a position sees only itself and those before it")
    signature = "N T embed_dim -> N T embed_dim"
    examples = [(dict(embed_dim=4, num_heads=2), [(2, 3, 4)]),
                (dict(num_heads=2, num_kv_heads=1, causal=True, bias=False), [(2, 3, 4)]),
                (dict(num_heads=2, kdim=3, vdim=5), [(2, 3, 4), (2, 5, 3), (2, 5, 5)])]

    def validate(self) -> None:
        if self.num_heads % (self.num_kv_heads or self.num_heads):
            raise ConfigError(
                f"{type(self).__name__}: expected num_kv_heads to divide num_heads = {self.num_heads}; got "
                f"{self.num_kv_heads}.")
        if self.head_dim is None and (self.embed_dim or 0) % self.num_heads:
            raise ConfigError(
                f"{type(self).__name__}: expected embed_dim, a multiple of num_heads = {self.num_heads}; got "
                f"{self.embed_dim}; or give head_dim.")

    def setup(self, new: New) -> None:
        self.validate()
        e = self.embed_dim or 0
        d = self.head_dim or e // self.num_heads
        wide, narrow = d * self.num_heads, d * (self.num_kv_heads or self.num_heads)
        sizes = dict(q=(wide, e), k=(narrow, self.kdim or e), v=(narrow, self.vdim or e), o=(e, wide))
        self.w_q, self.w_k, self.w_v, self.w_o = (new.weight(*s) for s in sizes.values())
        self.b_q, self.b_k, self.b_v, self.b_o = (new.bias(out, fan_in=n) if self.use_bias else None
                                                  for out, n in sizes.values())
        self.drop = Dropout(p=self.dropout)

    def bind(self, *shapes: tuple[int, ...]) -> None:
        super().bind(*unpacked(shapes))

    def forward(self, x: Tensor, key: Tensor | None = None, value: Tensor | None = None, mask: Tensor | None = None,
                key_offsets: Tensor | None = None) -> Tensor:
        key = x if key is None else key
        value = key if value is None else value
        groups = self.num_kv_heads or self.num_heads
        q, k, v = (F.linear(x, self.w_q, self.b_q), F.linear(key, self.w_k, self.b_k),
                   F.linear(value, self.w_v, self.b_v))
        if x.ndim == 2:
            where = Places.of(type(self).__name__, x, key, mask, key_offsets)
            y = where.attend(q, k, v, self.num_heads, groups, self.causal, self.drop)
            return F.linear(y, self.w_o, self.b_o)
        q, k, v = heads(q, self.num_heads), heads(k, groups), heads(v, groups)
        return F.linear(joined(attend(q, k, v, _per_head(mask), self.causal, self.drop)), self.w_o, self.b_o)


class SelfAttention(MultiHeadAttention):
    """y = concat over heads of softmax(q kᵀ / √d + mask) v, · W_oᵀ + b_o;
    q, k, v = x W_qᵀ + b_q, x W_kᵀ + b_k, x W_vᵀ + b_v

    Inputs x (N, T, embed_dim), mask=None as in MultiHeadAttention; y (N, T, embed_dim).
    Paper: Vaswani et al. 2017, arXiv:1706.03762.
    """

    spec_name = "SelfAttentionLayer"
    num_heads: int = positive(8, doc="query heads")
    examples = [(dict(embed_dim=4, num_heads=2), [(2, 3, 4)]), (dict(num_heads=2), [(5, 4), OFFSETS])]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, None, None, mask)


class GroupedQueryAttention(MultiHeadAttention):
    """y = concat over heads of softmax(q kᵀ / √d + mask) v, · W_oᵀ + b_o:
    MultiHeadAttention with fewer key and value heads

    Query head m reads key head m // (num_heads / num_kv_heads); inputs and shapes as in MultiHeadAttention.
    Paper: Ainslie et al. 2023, arXiv:2305.13245.
    """

    spec_name = "GroupedQueryAttentionLayer"
    num_kv_heads: int | None = field(doc="key and value heads, a divisor of num_heads", gt=0)
    examples = [(dict(embed_dim=4, num_heads=4, num_kv_heads=2), [(2, 3, 4)])]


class Attention(Layer):
    """y = softmax(q kᵀ / √A + mask) v · W_oᵀ;  q = x W_qᵀ, k = context W_kᵀ, v = context W_vᵀ

    Inputs x (N, T, input_size), context=x (N, S, input_size), mask=None (T, S) or (N, T, S), bool (True: may attend) or
    float (added); W_q, W_k, W_v (A, input_size), W_o (input_size, A), A = attention_size; y (N, T, input_size). One
    head. A row with nothing to attend to gives zeros before W_o.
    Paper: Vaswani et al. 2017, arXiv:1706.03762.
    """

    spec_name = "AttentionLayer"
    aliases = ("attention",)
    input_size: int | None = bound(doc="features of the input and the output")
    attention_size: int = positive(doc="A, features of queries, keys and values")
    use_bias: bool = field(False, alias="bias", doc="whether the four maps add a bias")
    dropout: float = fraction(0.0, doc="probability that an attention weight is dropped in training")
    causal: bool = field(False, doc="whether a position sees only itself and those before it")
    signature = "N T input_size -> N T input_size"
    examples = [(dict(input_size=4, attention_size=3), [(2, 3, 4)]),
                (dict(attention_size=5, bias=True),
                 [(2, 3, 4), (2, 2, 4), np.array([[True, False], [True, True], [False, True]])])]

    def setup(self, new: New) -> None:
        d, a = self.input_size or 0, self.attention_size
        self.w_q, self.w_k, self.w_v, self.w_o = new.weight(a, d), new.weight(a, d), new.weight(a, d), new.weight(d, a)
        self.b_q, self.b_k, self.b_v, self.b_o = (new.bias(out, fan_in=n) if self.use_bias else None
                                                  for out, n in ((a, d), (a, d), (a, d), (d, a)))
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        q, k, v = (F.linear(x, self.w_q, self.b_q), F.linear(context, self.w_k, self.b_k),
                   F.linear(context, self.w_v, self.b_v))
        y = attend(heads(q, 1), heads(k, 1), heads(v, 1), _per_head(mask), self.causal, self.drop)
        return F.linear(joined(y), self.w_o, self.b_o)


class CrossAttention(Layer):
    """y = concat over heads of softmax(q kᵀ / √d + mask) v, · W_oᵀ + b_o;
    q = x W_qᵀ, k = context W_kᵀ, v = context W_vᵀ

    Inputs x (N, T, query_dim) or an image (N, query_dim, H, W), whose places are the T = H · W positions;
    context (N, S, context_dim), or (S, context_dim) for all; mask=None as in MultiHeadAttention.
    W_q (h·d, query_dim), W_k, W_v (h·d, context_dim), W_o (query_dim, h·d); y of x's shape.
    Paper: Vaswani et al. 2017, arXiv:1706.03762; images: Rombach et al. 2022, arXiv:2112.10752.
    """

    spec_name = "CrossAttentionLayer"
    query_dim: int | None = bound(doc="features of the queries' input and of the output")
    context_dim: int | None = bound(doc="features of the context")
    num_heads: int = positive(8, doc="heads")
    head_dim: int | None = field(None, doc="features of a head; None: query_dim / num_heads", gt=0)
    use_bias: bool = field(False, alias="bias", doc="whether the maps to queries, keys and values add a bias")
    out_bias: bool = field(True, doc="whether b_o is added")
    dropout: float = fraction(0.0, doc="probability that an attention weight is dropped in training")
    signature = "N T query_dim, ... S context_dim -> N T query_dim"
    examples = [(dict(query_dim=4, context_dim=3, num_heads=2), [(2, 3, 4), (2, 5, 3)]),
                (dict(num_heads=2, head_dim=3, bias=True, out_bias=False), [(2, 4, 2, 3), (5, 3)])]

    def validate(self) -> None:
        if self.head_dim is None and (self.query_dim or 0) % self.num_heads:
            raise ConfigError(
                f"CrossAttention: expected query_dim, a multiple of num_heads = {self.num_heads}; got "
                f"{self.query_dim}; or give head_dim.")

    def bind(self, *shapes: tuple[int, ...]) -> None:
        if len(shapes) < 2:
            raise ShapeError("CrossAttention: expected x and a context; got one input; SelfAttention needs no context.")
        n, *rest = shapes[0]
        tokens = (n, rest[1] * rest[2], rest[0]) if len(rest) == 3 else shapes[0]
        super().bind(tokens, *shapes[1:])

    def setup(self, new: New) -> None:
        self.validate()
        e, c = self.query_dim or 0, self.context_dim or 0
        wide = (self.head_dim or e // self.num_heads) * self.num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            new.weight(wide, e), new.weight(wide, c), new.weight(wide, c), new.weight(e, wide))
        self.b_q, self.b_k, self.b_v = (new.bias(wide, fan_in=n) if self.use_bias else None for n in (e, c, c))
        self.b_o = new.bias(e, fan_in=wide) if self.out_bias else None
        self.drop = Dropout(p=self.dropout)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> Tensor:
        if context.ndim == 2:
            context = F.expand(context, (x.shape[0], *context.shape))
        tokens = F.permute(F.reshape(x, (*x.shape[:2], -1)), 0, 2, 1) if x.ndim == 4 else x
        q, k, v = (heads(y, self.num_heads) for y in (
            F.linear(tokens, self.w_q, self.b_q), F.linear(context, self.w_k, self.b_k),
            F.linear(context, self.w_v, self.b_v)))
        y = F.linear(joined(attend(q, k, v, _per_head(mask), False, self.drop)), self.w_o, self.b_o)
        return F.reshape(F.permute(y, 0, 2, 1), x.shape) if x.ndim == 4 else y


def _per_head(mask: Tensor | None) -> Tensor | None:
    """A mask that broadcasts to (N, H, T, S)."""
    if mask is None or mask.ndim in (2, 4):
        return mask
    if mask.ndim != 3:
        raise ShapeError(
            f"MultiHeadAttention: expected a mask (T, S), (N, T, S) or (N, heads, T, S); got {mask.shape}.")
    n, t, s = mask.shape
    return F.reshape(mask, (n, 1, t, s))
