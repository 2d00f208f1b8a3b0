"""Blocks: each (layer with its fields, inputs, parameters by name) -> output or outputs. What torchvision has, it says;
parameters have its names.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from rules import ACT, by, vision
from torch import nn
from torch.func import functional_call


def _same(module: nn.Module, p: Any, x: Any) -> Any:
    return functional_call(module.double(), p, (x,))


def _short(c: int, out: int, stride: int) -> nn.Module | None:
    return nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False),
                         nn.BatchNorm2d(out)) if stride != 1 or c != out else None


@by("torchvision")
def basic(c: Any, x: Any, p: Any) -> Any:
    return _same(vision("models.resnet").BasicBlock(c.in_channels, c.out_channels, c.stride,
                                                    _short(c.in_channels, c.out_channels, c.stride)), p, x[0])


@by("torchvision")
def bottleneck(c: Any, x: Any, p: Any) -> Any:
    class Block(vision("models.resnet").Bottleneck):
        expansion = c.expansion

    return _same(Block(c.in_channels, c.base_channels, c.stride,
                       _short(c.in_channels, c.base_channels * c.expansion, c.stride)), p, x[0])


@by("torchvision")
def unit(c: Any, x: Any, p: Any) -> Any:
    return None if c.dropout else _same(vision("models.densenet")._DenseLayer(
        c.in_channels, c.growth_rate, c.bn_size, 0.0), p, x[0])


@by("torchvision")
def dense_block(c: Any, x: Any, p: Any) -> Any:
    module = vision("models.densenet")._DenseBlock(c.num_layers, c.in_channels, c.bn_size, c.growth_rate, 0.0)
    return _same(module, {f"denselayer{int(n.split('.')[1]) + 1}.{n.split('.', 2)[2]}": v for n, v in p.items()}, x[0])


@by("torchvision")
def transition(c: Any, x: Any, p: Any) -> Any:
    return _same(vision("models.densenet")._Transition(c.in_channels, p["conv.weight"].shape[0]), p, x[0])


@by("torchvision")
def squeeze(c: Any, x: Any, p: Any, prefix: str = "") -> Any:
    if c.gate_activation != "sigmoid":
        return x[0] * ACT[c.gate_activation](F.linear(ACT[c.activation](F.linear(x[0], p["w1"], p["b1"])), p["w2"],
                                                      p["b2"]))
    module = vision("ops").SqueezeExcitation(c.channels, p[prefix + "w1"].shape[0])
    weights = {"fc1.weight": p[prefix + "w1"][:, :, None, None], "fc1.bias": p[prefix + "b1"]}
    return _same(module, weights | {"fc2.weight": p[prefix + "w2"][:, :, None, None], "fc2.bias": p[prefix + "b2"]},
                 x[0])


def _normed(y: Any, p: Any, name: str) -> Any:
    return F.batch_norm(y, None, None, p[f"{name}.weight"], p[f"{name}.bias"], True)


@by("torchvision")
def inverted(c: Any, x: Any, p: Any) -> Any:
    if not c.use_se:
        return _same(vision("models.mobilenetv2").InvertedResidual(c.in_channels, c.out_channels, c.stride,
                                                                   c.expansion), p, x[0])
    y = F.conv2d(x[0], p["conv.0.0.weight"], None, c.stride, c.kernel_size // 2, groups=c.in_channels)
    y = squeeze(c.se, [F.hardswish(_normed(y, p, "conv.0.1"))], p, "se.")
    return _normed(F.conv2d(y, p["conv.1.weight"]), p, "conv.2")


def rep_conv(c: Any, x: Any, p: Any) -> Any:
    y = sum(_normed(F.conv2d(x[0], p[f"conv{k}.weight"], None, c.stride, k // 2, groups=c.groups), p, f"bn{k}")
            for k in (1, 3))
    return ACT[c.activation](y if c.bn is None else y + _normed(x[0], p, "bn"))


def rdb(c: Any, x: Any, p: Any, prefix: str = "") -> Any:
    known = [x[0]]
    for k in range(5):
        y = F.conv2d(torch.cat(known, 1), p[f"{prefix}convs.{k}.weight"], p[f"{prefix}convs.{k}.bias"], padding=1)
        known.append(F.leaky_relu(y, c.negative_slope))
    return x[0] + c.residual_scale * y


def rrdb(c: Any, x: Any, p: Any, prefix: str = "") -> Any:
    y = x[0]
    for k in range(3):
        y = rdb(c, [y], p, f"{prefix}rdb.{k}.")
    return x[0] + c.residual_scale * y


RULES = {
    "BasicBlock": basic,
    "BottleneckBlock": bottleneck,
    "DenseBlockUnit": unit,
    "DenseBlock": dense_block,
    "Transition": transition,
    "SqueezeExcitation": squeeze,
    "InvertedResidual": inverted,
    "RepConv2d": rep_conv,
    "ResidualDenseBlock": rdb,
    "RRDB": rrdb,
}
