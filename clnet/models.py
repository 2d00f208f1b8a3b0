"""Networks of the literature as configurations over `clnet.layers`: they are saved as JSON, and everything that models
do works with them. Sizes that are left out are bound by the first call, or by `model.build(shape)`.

Parameters with 1000 classes of images (3, 224, 224) are those of torchvision: resnet18 11 689 512, resnet34 21 797 672,
resnet50 25 557 032, mobilenet_v2 3 504 872, densenet121 7 978 856, vit_b_16 86 567 656. With 10 classes of images
(3, 32, 32): resnet20 272 474, resnet32 466 906, resnet44 661 338, resnet56 855 770; lenet on (1, 28, 28) 61 706.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .core.arguments import integer, integers
from .errors import ConfigError
from .layers import (
    LSTM,
    Activation,
    AvgPool2d,
    BasicBlock,
    BatchNorm,
    Bidirectional,
    BottleneckBlock,
    Concatenate,
    Conv2d,
    Crop2d,
    Dense,
    DenseBlock,
    Dropout,
    Embedding,
    Flatten,
    GlobalPool,
    GraphConvolution,
    InvertedResidual,
    LayerNorm,
    MaxPool2d,
    Mean,
    PatchEmbedding,
    PositionalEncoding,
    Reshape,
    TransformerEncoderBlock,
    Transition,
    Upsample2d,
)
from .layers.base import Layer, Symbolic
from .model.sequential import Graph, Input, Model, Sequential
from .names import guide as _guide
from .names import tell as _tell

__all__ = ["bilstm", "densenet", "densenet121", "gcn", "gpt", "lenet", "lstm", "mlp", "mobilenet", "mobilenet_v2",
           "resnet", "resnet18", "resnet20", "resnet32", "resnet34", "resnet44", "resnet50", "resnet56", "unet", "vit",
           "vit_b_16"]

IMAGENET = 1000  # classes
V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mlp(classes: int = 10, hidden: Sequence[int] = (128, 64), activation: str = "relu",
        dropout: float = 0.0) -> Sequential:
    """Samples of any shape (N, …) to (N, classes): Dense layers of the `hidden` sizes, each with the activation."""
    body: list[Layer] = [Flatten()]
    for n in hidden:
        body += [Dense(out_features=n, activation=activation), *([Dropout(p=dropout)] if dropout else [])]
    return Sequential([*body, Dense(out_features=classes)])


def lenet(classes: int = 10) -> Sequential:
    """LeNet-5 for images (N, C, 28, 28): 5×5 convolutions to 6 and 16 channels with means of 2×2 behind them, maps to
    120, 84 and the classes, tanh.

    Paper: LeCun, Bottou, Bengio, Haffner 1998, Proceedings of the IEEE 86.
    """
    def part(channels: int, padding: int) -> list[Layer]:
        return [Conv2d(out_channels=channels, kernel_size=5, padding=padding, activation="tanh"),
                AvgPool2d(kernel_size=2)]

    return Sequential([*part(6, 2), *part(16, 0), Flatten(), Dense(out_features=120, activation="tanh"),
                       Dense(out_features=84, activation="tanh"), Dense(out_features=classes)])


# --- convolutions
def _conv(channels: int, kernel: int = 3, stride: int = 1, act: str = "relu") -> list[Layer]:
    return [Conv2d(out_channels=channels, kernel_size=kernel, stride=stride, padding=kernel // 2, bias=False),
            BatchNorm(), Activation(name=act)]


def resnet(blocks: int = 3, width: int = 16, classes: int = 10) -> Sequential:
    """conv, 3 stages of `blocks` BasicBlocks with width, 2 and 4 times it, mean, map to classes:
    ResNet-20 is blocks=3, width=16; a shortcut is a 1×1 convolution where the shape changes.

    Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385, section 4.2.
    """
    stages = [BasicBlock(out_channels=width << s, stride=2 if s and not b else 1)
              for s in range(3) for b in range(blocks)]
    return Sequential([*_conv(width), *stages, GlobalPool(), Dense(out_features=classes)])


def resnet20(classes: int = 10) -> Sequential:
    """`resnet` with 3 blocks a stage, for images of 32 × 32."""
    return resnet(3, classes=classes)


def resnet32(classes: int = 10) -> Sequential:
    """`resnet` with 5 blocks a stage, for images of 32 × 32."""
    return resnet(5, classes=classes)


def resnet44(classes: int = 10) -> Sequential:
    """`resnet` with 7 blocks a stage, for images of 32 × 32."""
    return resnet(7, classes=classes)


def resnet56(classes: int = 10) -> Sequential:
    """`resnet` with 9 blocks a stage, for images of 32 × 32."""
    return resnet(9, classes=classes)


def _stem() -> list[Layer]:
    """What halves a large image twice: 7×7 convolution, maximum of 3×3."""
    return [*_conv(64, 7, 2), MaxPool2d(kernel_size=3, stride=2, padding=1)]


def _resnet(counts: Sequence[int], classes: int, bottleneck: bool = False) -> Sequential:
    """Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385, table 1; the stride is that of the 3×3 convolution."""
    blocks: list[Layer] = []
    for stage, count in enumerate(counts):
        for b in range(count):
            stride, width = 2 if stage and not b else 1, 64 << stage
            blocks.append(BottleneckBlock(base_channels=width, stride=stride) if bottleneck
                          else BasicBlock(out_channels=width, stride=stride))
    return Sequential([*_stem(), *blocks, GlobalPool(), Dense(out_features=classes)])


def resnet18(classes: int = IMAGENET) -> Sequential:
    """ResNet-18 for images of 224 × 224. Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385."""
    return _resnet((2, 2, 2, 2), classes)


def resnet34(classes: int = IMAGENET) -> Sequential:
    """ResNet-34 for images of 224 × 224. Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385."""
    return _resnet((3, 4, 6, 3), classes)


def resnet50(classes: int = IMAGENET) -> Sequential:
    """ResNet-50 for images of 224 × 224, of BottleneckBlocks. Paper: He, Zhang, Ren, Sun 2016, arXiv:1512.03385."""
    return _resnet((3, 4, 6, 3), classes, bottleneck=True)


def mobilenet(width: int = 16, blocks: int = 2, expansion: int = 4, classes: int = 10) -> Sequential:
    """conv, 3 stages of InvertedResiduals, 1×1 conv, mean, map to classes: MobileNetV2 for small images.

    Paper: Sandler et al. 2018, arXiv:1801.04381.
    """
    stages = [InvertedResidual(out_channels=width * (s + 1), stride=2 if s and not b else 1, expansion=expansion)
              for s in range(3) for b in range(blocks)]
    return Sequential([*_conv(width, act="relu6"), *stages, *_conv(8 * width, 1, act="relu6"), GlobalPool(),
                       Dense(out_features=classes)])


def mobilenet_v2(classes: int = IMAGENET, dropout: float = 0.2) -> Sequential:
    """MobileNetV2 for images of 224 × 224. Paper: Sandler et al. 2018, arXiv:1801.04381, table 2."""
    stages = [InvertedResidual(out_channels=c, stride=1 if b else stride, expansion=expansion)
              for expansion, c, count, stride in V2 for b in range(count)]
    return Sequential([*_conv(32, stride=2, act="relu6"), *stages, *_conv(1280, 1, act="relu6"), GlobalPool(),
                       Dropout(p=dropout), Dense(out_features=classes)])


def _dense(start: list[Layer], counts: Sequence[int], growth: int, classes: int) -> Sequential:
    body = list(start)
    for b, count in enumerate(counts):
        body += [*([Transition()] if b else []), DenseBlock(num_layers=count, growth_rate=growth)]
    return Sequential([*body, BatchNorm(), Activation(name="relu"), GlobalPool(), Dense(out_features=classes)])


def densenet(growth: int = 8, layers: int = 4, blocks: int = 2, classes: int = 10) -> Sequential:
    """conv, DenseBlocks with Transitions between, norm, relu, mean, map to classes: for small images.

    Paper: Huang, Liu, van der Maaten, Weinberger 2017, arXiv:1608.06993.
    """
    start: list[Layer] = [Conv2d(out_channels=2 * growth, kernel_size=3, padding=1, bias=False)]
    return _dense(start, [layers] * blocks, growth, classes)


def densenet121(classes: int = IMAGENET) -> Sequential:
    """DenseNet-121 for images of 224 × 224.

    Paper: Huang, Liu, van der Maaten, Weinberger 2017, arXiv:1608.06993, table 1.
    """
    return _dense(_stem(), (6, 12, 24, 16), 32, classes)


def unet(width: int = 16, depth: int = 2, image: tuple[int, int, int] = (1, 8, 8), channels: int = 1) -> Graph:
    """Down `depth` times (two convs, max pool), up again (nearest, beside it the same size from the way down,
    two convs), 1×1 conv: image (N, C, H, W) to image (N, channels, H, W); H and W are multiples of 2^depth, for any
    other ConfigError.

    Paper: Ronneberger, Fischer, Brox 2015, arXiv:1505.04597.
    """
    def twice(x: Symbolic, channels: int) -> Any:
        for layer in (*_conv(channels), *_conv(channels)):
            x = layer(x)
        return x

    depth = integer("unet", "depth", depth, 0)
    part, (_, *sizes) = 1 << depth, integers("unet", "image", image, 3, 1, ConfigError, "; (channels, height, width)")
    if any(n % part for n in sizes):
        fits = " x ".join(str(-(-n // part) * part) for n in sizes)
        raise ConfigError(f"unet(depth={depth}): expected images whose height and width are multiples of 2^depth = "
                          f"{part}; got {' x '.join(map(str, sizes))}; pad them to {fits}, or take a smaller depth.")
    x = start = Input(image, name="image")
    beside = []
    for level in range(depth):
        x = twice(x, width << level)
        beside.append(x)
        x = MaxPool2d(kernel_size=2)(x)
    x = twice(x, width << depth)
    for level in reversed(range(depth)):
        x = twice(Concatenate()(Upsample2d()(x), beside[level]), width << level)
    return Model([start], [Conv2d(out_channels=channels, kernel_size=1)(x)])


# --- attention
def _blocks(count: int, heads: int, width: int, causal: bool, eps: float = 1e-5, dropout: float = 0.0) -> list[Layer]:
    return [TransformerEncoderBlock(num_heads=heads, d_ff=4 * width, dropout=dropout, activation="gelu",
                                    norm_first=True, causal=causal, eps=eps) for _ in range(count)]


def vit(width: int = 48, blocks: int = 3, heads: int = 4, patch: int = 2, image: tuple[int, int, int] = (1, 8, 8),
        classes: int = 10) -> Sequential:
    """Patches with learned positions, transformer blocks, norm, mean over patches, map to classes: for small images.

    Paper: Dosovitskiy et al. 2021, arXiv:2010.11929.
    """
    patches = PatchEmbedding(image_size=image[1:], patch_size=patch, in_channels=image[0], embed_dim=width,
                             pos_embed=True)
    return Sequential([patches, *_blocks(blocks, heads, width, False), LayerNorm(), Mean(axis=1),
                       Dense(out_features=classes)])


def vit_b_16(classes: int = IMAGENET, image: int = 224) -> Sequential:
    """ViT-B/16: 16×16 patches of an RGB image, 768 features, 12 blocks of 12 heads, the class token's map.

    Paper: Dosovitskiy et al. 2021, arXiv:2010.11929, table 1.
    """
    others = (image // 16) ** 2
    patches = PatchEmbedding(image_size=image, patch_size=16, embed_dim=768, cls_token=True, pos_embed=True)
    return Sequential([patches, *_blocks(12, 12, 768, False, 1e-6), LayerNorm(eps=1e-6),
                       Crop2d(crop=((0, others), (0, 0))), Flatten(), Dense(out_features=classes)])


def gpt(width: int = 64, blocks: int = 2, heads: int = 4, letters: int = 96, context: int = 64,
        dropout: float = 0.0) -> Sequential:
    """Tokens (N, T), T ≤ context, to logits of the token after each (N, T, letters): embedding, learned positions,
    causal transformer blocks, norm, map.

    Paper: Radford et al. 2019, "Language models are unsupervised multitask learners".
    """
    start = [Embedding(num_embeddings=letters, embedding_dim=width), PositionalEncoding(max_len=context, learned=True)]
    return Sequential([*start, *_blocks(blocks, heads, width, True, dropout=dropout), LayerNorm(),
                       Dense(out_features=letters, bias=False)])


# --- sequences and graphs
def lstm(classes: int = 2, hidden: int = 128, layers: int = 1, words: int | None = None, width: int = 64,
         dropout: float = 0.0) -> Sequential:
    """Sequences (N, T, features), or of the numbers of `words` (N, T), to (N, classes): LSTM, its last output's map.

    Paper: Hochreiter, Schmidhuber 1997, Neural Computation 9.
    """
    start = [Embedding(num_embeddings=words, embedding_dim=width)] if words else []
    return Sequential([*start, LSTM(hidden_size=hidden, num_layers=layers, return_sequences=False),
                       *([Dropout(p=dropout)] if dropout else []), Dense(out_features=classes)])


def bilstm(hidden: int = 32, shape: tuple[int, int] = (8, 8), classes: int = 10) -> Sequential:
    """An image (N, 1, H, W) as H steps of W pixels, shape = (H, W), an LSTM each way, map of both last outputs to
    classes.

    Paper: Graves, Schmidhuber 2005, Neural Networks 18.
    """
    return Sequential([Reshape(shape=shape), Bidirectional(layer=LSTM(hidden_size=hidden, return_sequences=False)),
                       Dense(out_features=classes)])


def gcn(features: int, classes: int, hidden: int = 16, layers: int = 2, dropout: float = 0.5) -> Graph:
    """Nodes (V, features) and edges (2, E) to classes of the nodes (V, classes): GraphConvolutions, relu and dropout
    between them. Cora's sizes are features=1433, classes=7, hidden=16: 23 063 parameters.

    Paper: Kipf, Welling 2017, arXiv:1609.02907.
    """
    x = nodes = Input((features,), name="nodes")
    edges = Input(name="edges")
    for k in range(layers):
        last = k == layers - 1
        x = GraphConvolution(out_features=classes if last else hidden, activation=None if last else "relu")(
            Dropout(p=dropout)(x) if dropout else x, edges)
    return Model([nodes, edges], [x])


_tell(__name__)
_guide(__name__)
