"""Losses on images that look through a network, and tasks that images set themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops as F
from ..config.fields import choice, field
from ..core.tensor import Tensor, TensorLike, as_tensor
from ..errors import ConfigError, ShapeError
from ..layers.base import Layer
from ..layers.fields import Child
from .base import Loss, frozen, rest
from .classification import CrossEntropyLoss

IMAGES = (2, 3, 4, 4)


def _features(network: Layer, x: Tensor) -> list[Tensor]:
    """What the network makes of x, as a list however it returns it."""
    y = network(x)
    found = list(y.values()) if isinstance(y, dict) else list(y) if isinstance(y, (tuple, list)) else [y]
    return [as_tensor(f) for f in found]


def _distance(kind: str, p: Tensor, y: Tensor) -> Tensor:
    """Mean square or mean absolute difference of each sample."""
    d = p - y
    return F.mean(F.square(d) if kind == "mse" else F.abs(d), rest(d))


class PerceptualLoss(Loss):
    """Σ_l w_l · mean distance(φ_l(p), φ_l(y)) per sample, φ_l the features that a frozen network returns

    prediction and target: what the extractor takes, batch first. Gradients reach the prediction through φ;
    none the target. The extractor is run in evaluation mode and not trained, as it is not given to an optimizer.
    Its configuration is saved with the loss, its values are not.
    Paper: Johnson, Alahi, Fei-Fei 2016, arXiv:1603.08155.
    """

    spec_name = "PerceptualLoss"
    aliases = ("Perceptual", "perceptual")
    per = "sample"
    extractor: Child = field(doc="φ: a layer or model that returns features, one tensor or several")
    layer_weights: tuple[float, ...] | None = field(None, doc="w, factor per feature; 1 if left out")
    distance: str = choice("mse", ("mse", "l1"), doc="mean square or mean absolute difference")
    examples = [(dict(extractor={"type": "Activation", "name": "tanh"}), IMAGES, IMAGES),
                (dict(extractor={"type": "AvgPool2d", "kernel_size": 2}, layer_weights=(0.5,), distance="l1"), IMAGES,
                 IMAGES)]

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        with frozen(self.extractor):
            ps, ys = _features(self.extractor, prediction), _features(self.extractor, target)
        weights = (1.0,) * len(ps) if self.layer_weights is None else self.layer_weights
        if len(weights) != len(ps):
            raise ConfigError(
                f"PerceptualLoss: expected one of layer_weights per feature of the extractor, {len(ps)}; got "
                f"{len(weights)}.")
        total: Any = 0.0
        for w, p, y in zip(weights, ps, ys, strict=True):
            total = total + w * _distance(self.distance, p, F.detach(y))
        return total


class RealESRGANLoss(Loss):
    """w₁ mean|p − y| + w_p Perceptual(p, y) + w_g mean softplus(−D(p)) per sample

    prediction and target of one shape, batch first. Parts whose network is not given are left out. The discriminator D
    counts as constant: it is trained by a loss of its own.
    Paper: Wang, Xie, Dong, Shan 2021, arXiv:2107.10833.
    """

    spec_name = "RealESRGANLoss"
    aliases = ("RealESRGAN", "real_esrgan")
    per = "sample"
    l1_weight: float = field(1.0, doc="w₁, of the absolute difference", ge=0)
    perceptual_weight: float = field(
        1.0, doc="w_p, of the perceptual distance (absolute differences of features)", ge=0)
    gan_weight: float = field(0.1, doc="w_g, of the discriminator's opinion", ge=0)
    extractor: Child | None = field(None, doc="φ of the perceptual part: returns features, one tensor or several")
    discriminator: Child | None = field(None, doc="D: returns scores, larger for what it takes for real")
    examples = [(dict(extractor={"type": "Activation", "name": "tanh"},
                      discriminator={"type": "AvgPool2d", "kernel_size": 2}), IMAGES, IMAGES),
                (dict(l1_weight=0.5), IMAGES, IMAGES)]

    def formula(self, prediction: Tensor, target: Tensor) -> Tensor:
        total = self.l1_weight * _distance("l1", prediction, target)
        with frozen(self.extractor, self.discriminator):
            if self.extractor is not None:
                pairs = zip(_features(self.extractor, prediction), _features(self.extractor, target), strict=True)
                for p, y in pairs:
                    total = total + self.perceptual_weight * _distance("l1", p, F.detach(y))
            if self.discriminator is not None:
                scores = as_tensor(self.discriminator(prediction))
                total = total + self.gan_weight * F.mean(F.softplus(-scores), rest(scores))
        return total


class RotationPredictionLoss(CrossEntropyLoss):
    """−ln softmax(z)_r, r the quarter turns that an image was turned by: see `make_task`

    Logits (M, 4), labels (M) of integers 0 … 3.
    Paper: Gidaris, Singh, Komodakis 2018, arXiv:1803.07728.
    """

    spec_name = "RotationPredictionLoss"
    aliases = ("RotationPrediction", "rotation")
    examples = [({}, (8, 4), np.repeat(np.arange(4, dtype=np.int32), 2)),
                (dict(label_smoothing=0.1), (4, 4), np.array([3, 0, 2, 1], np.int32))]

    def check(self, prediction: Tensor, target: Tensor) -> None:
        super().check(prediction, target)
        if prediction.shape[1] != 4:
            raise ShapeError(
                f"RotationPredictionLoss: expected logits (M, 4), one per quarter turn; got {prediction.shape}.")

    @staticmethod
    def make_task(x: TensorLike) -> tuple[Tensor, Tensor]:
        """(images, labels): x turned by 0, 90, 180 and 270 degrees counterclockwise, one after the other,
        and the quarter turns of each.

        x (N, C, H, H) -> (4N, C, H, H), (4N). Raises ShapeError unless images are square.
        """
        x = as_tensor(x)
        if x.ndim != 4 or x.shape[2] != x.shape[3]:
            raise ShapeError(
                f"RotationPredictionLoss.make_task: expected square images (N, C, H, H); got {x.shape}; "
                "crop or pad them.")
        across = F.permute(x, 0, 1, 3, 2)
        turned = [x, F.flip(across, 2), F.flip(x, (2, 3)), F.flip(across, 3)]
        labels = F.floordiv(F.arange(n=4 * x.shape[0], dtype="int32"), x.shape[0])
        return F.concat(turned, 0), labels
