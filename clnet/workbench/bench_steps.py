"""The bench's training steps: forward, loss, gradients and Adam's update of six networks, data on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import init
from ..autodiff import gradients
from ..engine import on
from ..engine.record import Recorded
from ..layers.base import Layer, no_tape
from ..losses.base import Loss
from ..optimizers import Adam
from ..tensor import tensor
from . import bench_torch, registry
from .bench import Work
from .peers import Run, Torch

Config = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A network by its configuration, with a batch: x of normal numbers (or of labels below `tokens`), y of labels below `classes`."""

    name: str
    layers: list[Config]
    x: tuple[int, ...]
    y: tuple[int, ...]
    classes: int
    torch: Callable[[Any], Any]
    tokens: int = 0
    quick: bool = False

    def batch(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        x = rng.integers(0, self.tokens, self.x).astype(np.int32) if self.tokens else rng.standard_normal(self.x, np.float32)
        return x, rng.integers(0, self.classes, self.y).astype(np.int32)


def layer(kind: str, **fields: Any) -> Config:
    return {"type": kind, **fields}


def _mlp() -> list[Config]:
    return [layer("Dense", out_features=512, activation="relu"), layer("Dense", out_features=512, activation="relu"), layer("Dense", out_features=10)]


def _convolution(out: int, **more: Any) -> Config:
    return layer("Conv2d", out_channels=out, kernel_size=3, padding=1, **more)


def _cnn() -> list[Config]:
    pool = layer("MaxPool2d", kernel_size=2)
    return [_convolution(32, activation="relu"), pool, _convolution(64, activation="relu"), pool, layer("Flatten"),
            layer("Dense", out_features=128, activation="relu"), layer("Dense", out_features=10)]


def _basic_block(inputs: int, out: int, stride: int) -> Config:
    branch = [_convolution(out, stride=stride, bias=False), layer("BatchNorm"), layer("Activation", name="relu"),
              _convolution(out, bias=False), layer("BatchNorm")]
    if inputs == out and stride == 1:
        return layer("Residual", layer=branch, activation="relu")
    short = layer("Sequential", layers=[layer("Conv2d", out_channels=out, kernel_size=1, stride=stride, bias=False), layer("BatchNorm")])
    return layer("Residual", layer=branch, projection=short, activation="relu")


def _resnet() -> list[Config]:
    blocks = [_basic_block(a, b, s) for a, b, s in bench_torch.RESNET20]
    return [_convolution(16, bias=False), layer("BatchNorm"), layer("Activation", name="relu"), *blocks, layer("GlobalPool"), layer("Dense", out_features=10)]


def _lstm() -> list[Config]:
    return [layer("LSTM", hidden_size=128, return_sequences=False), layer("Dense", out_features=10)]


def _gpt() -> list[Config]:
    block = layer("TransformerEncoderBlock", num_heads=4, d_ff=512, dropout=0.0, activation="gelu", norm_first=True, causal=True)
    return [layer("Embedding", num_embeddings=96, embedding_dim=128), layer("PositionalEncoding", learned=True, max_len=128), *[block] * 4,
            layer("Dense", out_features=96)]


def tasks() -> list[Task]:
    """The six networks, smallest first."""
    return [Task("mlp b64", _mlp(), (64, 784), (64,), 10, bench_torch.mlp, quick=True),
            Task("mlp b512", _mlp(), (512, 784), (512,), 10, bench_torch.mlp),
            Task("cnn b64", _cnn(), (64, 1, 28, 28), (64,), 10, bench_torch.cnn, quick=True),
            Task("resnet20 b32", _resnet(), (32, 3, 32, 32), (32,), 10, bench_torch.resnet20),
            Task("lstm b32 t50", _lstm(), (32, 50, 64), (32,), 10, bench_torch.lstm),
            Task("gpt b16 t128", _gpt(), (16, 128), (16, 128), 96, bench_torch.gpt, tokens=96)]


def works() -> list[Work]:
    registry.load_all()
    return [Work("steps", t.name, _ours(t), _theirs(t), t.quick, missing(t)) for t in tasks()]


def missing(task: Task) -> str:
    """What the task needs and is not registered yet: "needs LSTM, GRU", or ""."""
    from .. import model  # registers Sequential

    known = {n for cls in Layer.registry.values() for n in (cls.__name__, *cls.aliases)}
    names = dict.fromkeys(n for n in _types({"type": model.Sequential.__name__, "layers": task.layers}) if n not in known)
    absent = [*names, *([] if "CrossEntropyLoss" in Loss.registry else ["CrossEntropyLoss"])]
    return f"needs {', '.join(absent)}" if absent else ""


def _types(config: Any) -> list[str]:
    if isinstance(config, list):
        return [n for c in config for n in _types(c)]
    return [config["type"], *(n for v in config.values() for n in _types(v))] if isinstance(config, dict) else []


def network(task: Task) -> Any:
    """The task's network, built."""
    init.seed(0)
    model: Any = Layer.from_config(layer("Sequential", layers=task.layers))
    return model.build(task.x[1:], dtype="int32" if task.tokens else "float32")


def _ours(task: Task) -> Callable[[Any], Run]:
    def prepare(engine: Any) -> Run:
        with on(engine):
            model, loss, optimizer = network(task), Loss.registry["CrossEntropyLoss"](), Adam(lr=1e-3)
            optimizer.attach(model.parameters())
            x, y = (tensor(a) for a in task.batch())
            engine.run([x, y])

            def body(x: Any, y: Any, hyper: Any) -> Any:
                with no_tape():
                    out = model(x)
                value = loss(out.reshape(-1, task.classes), y.reshape(-1))
                optimizer.apply(gradients(value, [p.tensor for p in optimizer.parameters]), hyper)
                return value

            step = Recorded(body, task.name)
        count = iter(range(1, 1 << 30))
        return lambda: step(x, y, optimizer.hyper(next(count)))

    return prepare


def _theirs(task: Task) -> Callable[[Torch], Run]:
    def prepare(peer: Torch) -> Run:
        torch = peer.torch
        torch.manual_seed(0)
        model = task.torch(torch).to(peer.where)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        x, y = (peer.array(a.astype(np.int64) if a.dtype == np.int32 else a) for a in task.batch())

        def step() -> Any:
            optimizer.zero_grad(set_to_none=True)
            value = torch.nn.functional.cross_entropy(model(x).reshape(-1, task.classes), y.reshape(-1))
            value.backward()
            optimizer.step()
            return value

        return step

    return prepare
