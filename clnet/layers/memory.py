"""Memories beside a network: S slots of features that are read and written by what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ops as F
from ..config.fields import bound, choice, field, positive
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..ops.activations import activation
from .base import Layer, New
from .fields import Act


class _Addressed(Layer):
    """What reads and writes share: a key that is compared with every slot."""

    if TYPE_CHECKING:
        input_dim: int | None
        memory_dim: int | None
        similarity: str

    def prepare(self, new: New, bias: bool) -> None:
        """W_key and, for cosines, how sharply they tell."""
        d, m = self.input_dim or 0, self.memory_dim or 0
        self.w_key, self.b_key = new.weight(m, d), new.bias(m, fan_in=d) if bias else None
        sharp = self.similarity == "cosine"
        self.w_beta = new.weight(1, d) if sharp else None
        self.b_beta = new.bias(1, fan_in=d) if sharp else None

    def expected(self, x: Tensor, memory: Tensor) -> Tensor:
        """The memory as (N, S, M), or (1, S, M) for all samples. Raises ShapeError."""
        n = x.shape[0]
        if memory.ndim not in (2, 3) or (memory.ndim == 3 and memory.shape[0] != n) or not memory.shape[-2]:
            raise ShapeError(f"{type(self).__name__}: expected a memory (S, {self.memory_dim}) or ({n}, S, "
                             f"{self.memory_dim}) of at least one slot beside x {x.shape}; got {memory.shape}.")
        return memory if memory.ndim == 3 else F.reshape(memory, (1, *memory.shape))

    def address(self, x: Tensor, memory: Tensor) -> Tensor:
        """w (N, S), which adds up to 1."""
        key = F.linear(x, self.w_key, self.b_key)
        if self.w_beta is not None:  # a slot of zeros has cosine 0
            key = key / F.sqrt(F.sum(F.square(key), -1, keepdims=True) + 1e-12)
            memory = memory / F.sqrt(F.sum(F.square(memory), -1, keepdims=True) + 1e-12)
        scores = (F.linear(key, memory[0]) if memory.shape[0] == 1
                  else F.sum(F.reshape(key, (key.shape[0], 1, key.shape[1])) * memory, -1))
        if self.w_beta is not None:
            scores = scores * F.softplus(F.linear(x, self.w_beta, self.b_beta))
        return F.softmax(scores)


class MemoryRead(_Addressed):
    """y = act(W_out W_value r + b_out), r = Σ_s w_s mem_s, w = softmax_s(⟨W_key x, mem_s⟩)

    similarity "cosine": w = softmax_s(softplus(W_beta x + b_beta) · cos(W_key x, mem_s)). Inputs x (N, input_dim),
    memory (S, memory_dim) of all samples or (N, S, memory_dim), which has a gradient, too; W_key (memory_dim,
    input_dim), W_value (memory_dim, memory_dim), W_out (output_dim, memory_dim), W_beta (1, input_dim);
    y (N, output_dim). Raises ShapeError for a memory without slots or of other samples.
    Paper: Sukhbaatar et al. 2015, arXiv:1503.08895; Graves, Wayne, Danihelka 2014, arXiv:1410.5401.
    """

    spec_name = "MemoryReadLayer"
    input_dim: int | None = bound(doc="features of a sample")
    memory_dim: int | None = bound(doc="features of a slot")
    output_dim: int = positive(doc="features of the result")
    similarity: str = choice("dot", ("dot", "cosine"), doc="how a key is compared with a slot")
    activation: Act = field(None, doc="name of the function applied last; None: identity")
    signature = "N input_dim, ... slots memory_dim -> N output_dim"
    examples = [(dict(input_dim=3, memory_dim=4, output_dim=2), [(2, 3), (5, 4)]),
                (dict(output_dim=3, similarity="cosine", activation="tanh"), [(3, 2), (3, 4, 2)])]

    def setup(self, new: New) -> None:
        self.prepare(new, bias=False)
        m = self.memory_dim or 0
        self.w_value, self.w_out = new.weight(m, m), new.weight(self.output_dim, m)
        self.b_out = new.bias(self.output_dim, fan_in=m)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        memory = self.expected(x, memory)
        w = self.address(x, memory)
        read = (F.matmul(w, memory[0]) if memory.shape[0] == 1
                else F.sum(F.reshape(w, (*w.shape, 1)) * memory, 1))
        return activation(self.activation)(F.linear(F.linear(read, self.w_value), self.w_out, self.b_out))


class MemoryWrite(_Addressed):
    """mem'_s = mem_s ⊙ (1 − w_s e) + w_s a,  e = σ(W_erase x + b_erase), a = W_add x + b_add,
    w = softmax_s(softplus(W_beta x + b_beta) · cos(W_key x + b_key, mem_s))

    similarity "dot": w = softmax_s(⟨W_key x + b_key, mem_s⟩). Inputs x (N, input_dim), memory (N, S, memory_dim), or
    (S, memory_dim), of which each sample writes into a copy; W_key, W_erase, W_add (memory_dim, input_dim),
    W_beta (1, input_dim); gives the new memory (N, S, memory_dim). Steps that hand it on are differentiated through
    all of them; `clnet.ops.detach(memory)` cuts. Raises ShapeError for a memory without slots or of other samples.
    Paper: Graves, Wayne, Danihelka 2014, arXiv:1410.5401.
    """

    spec_name = "MemoryWriteLayer"
    input_dim: int | None = bound(doc="features of a sample")
    memory_dim: int | None = bound(doc="features of a slot")
    similarity: str = choice("cosine", ("cosine", "dot"), doc="how a key is compared with a slot")
    signature = "N input_dim, ... slots memory_dim -> N slots memory_dim"
    examples = [(dict(input_dim=3, memory_dim=4), [(2, 3), (2, 5, 4)]),
                (dict(similarity="dot"), [(2, 3), (4, 2)])]

    def setup(self, new: New) -> None:
        self.prepare(new, bias=True)
        d, m = self.input_dim or 0, self.memory_dim or 0
        self.w_erase, self.b_erase = new.weight(m, d), new.bias(m, fan_in=d)
        self.w_add, self.b_add = new.weight(m, d), new.bias(m, fan_in=d)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        memory = self.expected(x, memory)
        n, m = x.shape[0], memory.shape[-1]
        w = F.reshape(self.address(x, memory), (n, memory.shape[1], 1))
        erase = F.reshape(F.sigmoid(F.linear(x, self.w_erase, self.b_erase)), (n, 1, m))
        return memory * (1.0 - w * erase) + w * F.reshape(F.linear(x, self.w_add, self.b_add), (n, 1, m))
