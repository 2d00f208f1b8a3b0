"""Capsules: groups of features whose length says whether something is there, and whose direction says how."""

from __future__ import annotations

from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.tensor import Tensor, TensorLike
from ..ops.activations import squash
from .base import Layer, New
from .convolution import Conv2d


class PrimaryCapsule(Layer):
    """y = squash(W ∗ x + b) for every group of capsule_dim channels at every position;
    squash(s) = |s|² / (1 + |s|²) · s / √(|s|² + 1e-8)

    x (N, in_channels, H, W), W (num_maps · capsule_dim, in_channels, k, k) with channel m · capsule_dim + d,
    y (N, num_maps · H' · W', capsule_dim), maps first, then rows, then columns.
    Paper: Sabour, Frosst, Hinton 2017, arXiv:1710.09829.
    """

    spec_name = "PrimaryCapsuleLayer"
    in_channels: int | None = bound(doc="channels of the input")
    num_maps: int = positive(32, doc="capsules at a position")
    capsule_dim: int = positive(8, doc="features of a capsule")
    kernel_size: int = positive(9, doc="size of the kernels")
    stride: int = positive(2, doc="distance between windows")
    padding: int = field(0, doc="zeros at every border", ge=0)
    signature = "N in_channels H W -> N capsules capsule_dim"
    examples = [(dict(in_channels=2, num_maps=3, capsule_dim=4, kernel_size=3), [(2, 2, 5, 7)]),
                (dict(num_maps=2, capsule_dim=3, kernel_size=2, stride=1, padding=1), [(1, 3, 2, 3)])]

    def setup(self, new: New) -> None:
        self.conv = Conv2d(self.in_channels, self.num_maps * self.capsule_dim, self.kernel_size, self.stride,
                           self.padding)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        n, _, h, w = y.shape
        y = F.permute(F.reshape(y, (n, self.num_maps, self.capsule_dim, h, w)), 0, 1, 3, 4, 2)
        return squash(F.reshape(y, (n, self.num_maps * h * w, self.capsule_dim)))


class Capsule(Layer):
    """v_j = squash(s_j), s_j = Σ_i c_ij u_ij + bias_j, u_ij = x_i W_ij, c_i = softmax_j(b_i), with b = 0 at first and
    b_ij ← b_ij + ⟨u_ij, v_j⟩ after each of routing_iterations rounds but the last

    x (N, in_capsules, in_dim), W (in_capsules, num_capsules, in_dim, capsule_dim), bias (num_capsules, capsule_dim),
    v (N, num_capsules, capsule_dim). Gradients go through all rounds; with detach_routing they do not pass through b.
    Paper: Sabour, Frosst, Hinton 2017, arXiv:1710.09829.
    """

    spec_name = "CapsuleLayer"
    in_capsules: int | None = bound(doc="capsules of the input")
    in_dim: int | None = bound(doc="features of a capsule of the input")
    num_capsules: int = positive(doc="capsules of the output")
    capsule_dim: int = positive(16, doc="features of a capsule of the output")
    routing_iterations: int = positive(3, doc="rounds of routing by agreement")
    use_bias: bool = field(True, alias="bias", doc="whether the bias is added")
    detach_routing: bool = field(False, doc="whether the agreements b are constants in the gradient")
    signature = "N in_capsules in_dim -> N num_capsules capsule_dim"
    examples = [(dict(in_capsules=4, in_dim=3, num_capsules=2, capsule_dim=5), [(2, 4, 3)]),
                (dict(num_capsules=3, capsule_dim=2, routing_iterations=2, bias=False), [(2, 3, 2)])]

    def setup(self, new: New) -> None:
        shape = self.in_capsules or 0, self.num_capsules, self.in_dim or 0, self.capsule_dim
        self.weight = new.weight(*shape, fan_in=self.in_dim or 1)
        self.bias = new.bias(*shape[1::2], fan_in=self.in_dim or 1) if self.use_bias else None

    def forward(self, x: Tensor) -> Tensor:
        u = F.einsum("nid,ijdk->nijk", x, self.weight)
        seen = F.detach(u) if self.detach_routing else u
        b = F.zeros(u.shape[:3], u.dtype)
        for left in range(self.routing_iterations - 1, -1, -1):
            used = u if not left else seen
            s = F.sum(F.reshape(F.softmax(b), (*b.shape, 1)) * used, 1)
            v = squash(s if self.bias is None else s + (F.detach(self.bias) if left and self.detach_routing
                                                         else self.bias))
            if left:
                b = b + F.sum(used * F.reshape(v, (v.shape[0], 1, *v.shape[1:])), -1)
        return v


class DigitCapsule(Capsule):
    """v_j = squash(Σ_i c_ij x_i W_ij), c by routing as in Capsule: a capsule for each class, without a bias

    x (N, in_capsules, in_dim), W (in_capsules, num_capsules, in_dim, capsule_dim), v (N, num_capsules, capsule_dim);
    `lengths(v)`, (N, num_capsules), are what the classes score. `num_classes` is another word for num_capsules.
    Paper: Sabour, Frosst, Hinton 2017, arXiv:1710.09829.
    """

    spec_name = "DigitCapsuleLayer"
    num_capsules: int = field(10, alias="num_classes", doc="classes", gt=0)
    use_bias: bool = field(False, alias="bias", doc="whether a bias is added")
    examples = [(dict(in_capsules=4, in_dim=3, num_classes=3, capsule_dim=4), [(2, 4, 3)])]

    @staticmethod
    def lengths(v: TensorLike) -> Tensor:
        """y_j = |v_j|: (N, classes, capsule_dim) -> (N, classes), from 0 to 1"""
        return F.norm(v, -1)
