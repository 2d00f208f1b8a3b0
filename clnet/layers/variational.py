"""What stands between the encoder and the decoder of an autoencoder, and a decoder."""

from __future__ import annotations

from typing import Any

from .. import ops as F
from ..config.fields import bound, field, positive
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ShapeError
from ..ops.draws import normal
from .base import Layer, New
from .dense import Dense
from .fields import Act


class Reparameterize(Layer):
    """z = μ + exp(l / 2) · ε, ε ~ N(0, 1) in training; z = μ in evaluation;  x = [μ ; l], l the logarithm of σ²

    x (…, 2 L), z (…, L). ε is a constant in the gradient. With kl_weight the layer adds, in training, kl_weight times
    the mean of KL(N(μ, σ²) ‖ N(0, 1)) = −½ Σ (1 + l − μ² − eˡ) to the loss: `Trainer` does it by itself, own loops
    find it as the attribute `aux_loss` after a call. Raises ShapeError for an odd last axis.
    Paper: Kingma, Welling 2014, arXiv:1312.6114.
    """

    spec_name = "RepParameterizationLayer"
    aliases = ("RepParameterization",)
    family = "specialised"
    sample_in_eval: bool = field(False, doc="whether evaluation draws, too")
    kl_weight: float = field(0.0, doc="weight of the divergence in the loss", ge=0)
    signature = "... features -> ... latent"
    examples = [({}, [(3, 8)]), (dict(sample_in_eval=True), [(2, 3, 4)])]

    def validate(self) -> None:
        self.aux_loss: Any = 0.0

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self._halves(x)
        self.aux_loss = F.mean(self.kl(x)) * self.kl_weight if self.training and self.kl_weight else 0.0
        if not self.training and not self.sample_in_eval:
            return mean
        noise = normal(mean.shape, self.random.key, self.random.advance(), 0.0, 1.0, x.dtype)
        return mean + F.exp(log_variance * 0.5) * noise

    def kl(self, x: TensorLike) -> Tensor:
        """KL(N(μ, σ²) ‖ N(0, 1)) = −½ Σ (1 + l − μ² − eˡ) over the last axis: (…, 2 L) -> (…). Raises ShapeError."""
        mean, log_variance = self._halves(as_tensor(x))
        return F.sum(1.0 + log_variance - F.square(mean) - F.exp(log_variance), -1) * -0.5

    def _halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if not x.ndim or x.shape[-1] % 2:
            raise ShapeError(f"Reparameterize: expected a last axis of means and as many logarithms of variances, an "
                             f"even number; got shape {x.shape}.")
        latent = x.shape[-1] // 2
        return x[..., :latent], x[..., latent:]


class Reconstruction(Layer):
    """y = out(W₃ act(W₂ act(W₁ x + b₁) + b₂) + b₃)

    x (…, in_features), W₁ (hidden1, in_features), W₂ (hidden2, hidden1), W₃ (out_features, hidden2),
    y (…, out_features).
    Paper: Sabour, Frosst, Hinton 2017, arXiv:1710.09829 (the decoder).
    """

    spec_name = "ReconstructionLayer"
    family = "specialised"
    in_features: int | None = bound(doc="size of the last axis of the input")
    hidden1: int = positive(doc="features behind the first map")
    hidden2: int = positive(doc="features behind the second map")
    out_features: int = positive(doc="size of the last axis of the output")
    hidden_activation: Act = field("relu", doc="name of the function behind the first two maps")
    output_activation: Act = field("sigmoid", doc="name of the function applied last")
    signature = "... in_features -> ... out_features"
    examples = [(dict(in_features=4, hidden1=3, hidden2=5, out_features=6), [(3, 4)]),
                (dict(hidden1=2, hidden2=3, out_features=2, hidden_activation="tanh", output_activation=None),
                 [(2, 2, 3)])]

    def setup(self, new: New) -> None:
        act = self.hidden_activation
        self.layers = [Dense(self.in_features, self.hidden1, activation=act),
                       Dense(self.hidden1, self.hidden2, activation=act),
                       Dense(self.hidden2, self.out_features, activation=self.output_activation)]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
