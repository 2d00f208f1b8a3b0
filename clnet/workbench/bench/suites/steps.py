"""The bench's training steps: forward, loss, gradients and Adam's update of six networks, data on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .... import init
from ....core.autodiff import gradients
from ....core.precision import STORED, autocast
from ....core.tensor import Tensor, tensor
from ....engine import current, on
from ....engine.record import Recorded
from ....layers.base import Layer, no_tape
from ....losses.base import Loss
from ....model.sequential import Sequential
from ....optimizers import Adam
from ....train.scaling import LossScale
from ...evidence import registry
from .. import networks_jax as bench_jax
from .. import networks_tinygrad as bench_tinygrad
from .. import networks_torch as bench_torch
from ..compare import Step, Work
from ..peers import Array, Jax, Run, TheirTensor, Torch
from ..row import ARITHMETIC
from . import Suite

if TYPE_CHECKING:
    from ....engine.protocol import Engine

Config = dict[str, Any]
CHECKED = 4  # losses of a peer that are held against ours before it is timed
# Of the loss: what the order of sums makes of the first, and Adam, which divides by small gradients, of those after it.
FIRST, LATER = 1e-4, 2e-2


@dataclass(frozen=True)
class Task:
    """A network by its configuration, with a batch:
    x of normal numbers (or of labels below `tokens`), y of labels below `classes`.

    products   multiply-adds of one sample's forward pass; a step has three times as many, less the unused
    unused     those of the gradient that nobody asks for: of the input, by the first layer
    """

    name: str
    layers: list[Config]
    x: tuple[int, ...]
    y: tuple[int, ...]
    classes: int
    torch: Callable[[Any], Any]
    products: float = 0.0
    unused: float = 0.0
    tokens: int = 0
    quick: bool = False
    tinygrad: Callable[[Any], Any] | None = None
    suite: str = "steps"
    jax: Callable[..., Any] | None = None

    @property
    def flops(self) -> float:
        """Of a step's products; what is done element by element is not counted."""
        return 2 * self.x[0] * (3 * self.products - self.unused)

    def batch(self, seed: int = 0) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        x = (rng.integers(0, self.tokens, self.x).astype(np.int32) if self.tokens
             else rng.standard_normal(self.x, np.float32))
        return x, rng.integers(0, self.classes, self.y).astype(np.int32)


def layer(kind: str, **fields: Any) -> Config:
    return {"type": kind, **fields}


def _mlp() -> list[Config]:
    return [layer("Dense", out_features=512, activation="relu"), layer("Dense", out_features=512, activation="relu"),
            layer("Dense", out_features=10)]


def convolution(out: int, **more: Any) -> Config:
    return layer("Conv2d", out_channels=out, kernel_size=3, padding=1, **more)


def _cnn() -> list[Config]:
    pool = layer("MaxPool2d", kernel_size=2)
    return [convolution(32, activation="relu"), pool, convolution(64, activation="relu"), pool, layer("Flatten"),
            layer("Dense", out_features=128, activation="relu"), layer("Dense", out_features=10)]


def basic_block(inputs: int, out: int, stride: int) -> Config:
    branch = [convolution(out, stride=stride, bias=False), layer("BatchNorm"), layer("Activation", name="relu"),
              convolution(out, bias=False), layer("BatchNorm")]
    if inputs == out and stride == 1:
        return layer("Residual", layer=branch, activation="relu")
    short = layer("Sequential", layers=[layer("Conv2d", out_channels=out, kernel_size=1, stride=stride, bias=False),
                                        layer("BatchNorm")])
    return layer("Residual", layer=branch, projection=short, activation="relu")


def _resnet() -> list[Config]:
    blocks = [basic_block(a, b, s) for a, b, s in bench_torch.RESNET20]
    return [convolution(16, bias=False), layer("BatchNorm"), layer("Activation", name="relu"), *blocks,
            layer("GlobalPool"), layer("Dense", out_features=10)]


def _lstm() -> list[Config]:
    return [layer("LSTM", hidden_size=128, return_sequences=False), layer("Dense", out_features=10)]


def _gpt(width: int, heads: int, depth: int, tokens: int, length: int) -> list[Config]:
    block = layer("TransformerEncoderBlock", num_heads=heads, d_ff=4 * width, dropout=0.0, activation="gelu",
                  norm_first=True, causal=True)
    return [layer("Embedding", num_embeddings=tokens, embedding_dim=width),
            layer("PositionalEncoding", learned=True, max_len=length), *[block] * depth,
            layer("Dense", out_features=tokens)]


def tasks() -> list[Task]:
    """The six networks, smallest first."""
    return [_mlp_task(64, quick=True), _mlp_task(512),
            Task("cnn b64", _cnn(), (64, 1, 28, 28), (64,), 10, bench_torch.cnn,
                 784 * 288 + 196 * 64 * 288 + 3136 * 128 + 1280, 784 * 288, quick=True, tinygrad=bench_tinygrad.cnn,
                 jax=bench_jax.cnn),
            _resnet_task(32), _lstm_task(),
            gpt_task("gpt b16 t128", 16, width=128, heads=4, depth=4, tokens=96, length=128)]


def gpu_tasks() -> list[Task]:
    """Four networks at the sizes of GPUs, smallest first."""
    return [_mlp_task(512, quick=True), _lstm_task(), _resnet_task(256),
            gpt_task("gpt d768 L12 h12 t1024 b8 v8192", 8, width=768, heads=12, depth=12, tokens=8192, length=1024)]


def _resnet_task(batch: int) -> Task:
    return Task(f"resnet20 b{batch}", _resnet(), (batch, 3, 32, 32), (batch,), 10, bench_torch.resnet20,
                _resnet_products(), 1024 * 16 * 27, jax=bench_jax.resnet20)


def _lstm_task() -> Task:
    return Task("lstm b32 t50", _lstm(), (32, 50, 64), (32,), 10, bench_torch.lstm, 50 * 192 * 512 + 1280,
                50 * 64 * 512, jax=bench_jax.lstm)


def gpt_task(name: str, batch: int, **sizes: int) -> Task:
    width, depth, length, tokens = sizes["width"], sizes["depth"], sizes["length"], sizes["tokens"]
    # A block: four matrices for attention, eight for the rest, scores and their use up to the query's place;
    # no product for the input.
    products = length * (depth * (12 * width**2 + (length + 1) * width) + width * tokens)
    return Task(name, _gpt(**sizes), (batch, length), (batch, length), tokens,
                lambda torch: bench_torch.gpt(torch, **sizes), products, tokens=tokens,
                jax=functools.partial(bench_jax.gpt, heads=sizes["heads"], depth=depth))


def _mlp_task(batch: int, quick: bool = False) -> Task:
    return Task(f"mlp b{batch}", _mlp(), (batch, 784), (batch,), 10, bench_torch.mlp, 784 * 512 + 512 * 512 + 5120,
                784 * 512, quick=quick, tinygrad=bench_tinygrad.mlp, jax=bench_jax.mlp)


def _resnet_products() -> float:
    side, total = 32, 1024.0 * 16 * 27
    for i, o, stride in bench_torch.RESNET20:
        side //= stride
        total += side**2 * o * (9 * i + 9 * o + (i if stride > 1 else 0))
    return total + 640


def works(gpu: bool = False, precision: str = "") -> list[Work]:
    """The steps at the sizes of CPUs, or of GPUs; in float32 or a name of clnet.autocast."""
    registry.load_all()
    found = [as_work(t, precision or "fp32") for t in (gpu_tasks() if gpu else tasks())]
    return [*found, as_work(gpu_tasks()[-1], "fp32x3")] if gpu and not precision else found


SUITE = Suite(works, sized=True, bars=True)


def as_work(task: Task, arithmetic: str = "fp32") -> Work:
    """The task's training step in a name of clnet.autocast, PyTorch's too (float32 for fp32x3), its best its compiled
    network with the fused update. PyTorch and JAX begin with our first values, and their first losses in float32 have
    to be ours.

    NumPy, JAX and tinygrad know float32 alone.
    """
    plain = arithmetic == "fp32"
    their = functools.partial(checked, task) if plain and task.suite == "steps" else functools.partial(
        theirs, task, arithmetic=arithmetic)
    modes = {"fused Adam": their(fused=True)} if task.suite == "steps" else {}
    if modes and arithmetic != "fp32x3":
        modes["compiled, fused Adam"] = their(fused=True, compiled=True)
    tinygrad = None
    if task.tinygrad and plain:
        tinygrad = functools.partial(bench_tinygrad.step, task=task, network=task.tinygrad)
    name, known = (task.name, ARITHMETIC) if plain else (f"{task.name} {arithmetic}", arithmetic)
    return Work(task.suite, name, ours(task, arithmetic), their(), task.quick,
                missing(task), modes, tinygrad, numpy=task.suite == "steps" and plain, flops=task.flops,
                arithmetic=known, jax=beside_jax(task) if task.jax and plain and task.suite == "steps" else None)


def missing(task: Task) -> str:
    """What the task needs and is not registered yet: "needs LSTM, GRU", or ""."""
    known = {n for cls in Layer.registry.values() for n in (cls.__name__, *cls.aliases)}
    names = dict.fromkeys(n for n in _types({"type": Sequential.__name__, "layers": task.layers}) if n not in known)
    absent = [*names, *([] if "CrossEntropyLoss" in Loss.registry else ["CrossEntropyLoss"])]
    return f"needs {', '.join(absent)}" if absent else ""


def _types(config: object) -> list[str]:
    if isinstance(config, list):
        return [n for c in config for n in _types(c)]
    return [config["type"], *(n for v in config.values() for n in _types(v))] if isinstance(config, dict) else []


def network(task: Task) -> Any:
    """The task's network, built."""
    init.seed(0)
    model: Any = Layer.from_config(layer("Sequential", layers=task.layers))
    return model.build(task.x[1:], dtype="int32" if task.tokens else "float32")


def training(task: Task, engine: Engine,
             arithmetic: str = "fp32") -> tuple[Recorded, Callable[[Any, Any], tuple[Any, ...]]]:
    """(step, arguments): step(*arguments(x, y)) trains and gives the loss; arguments end in Adam's scalars."""
    with on(engine):
        model, loss, optimizer = network(task), Loss.registry["CrossEntropyLoss"](), Adam(lr=1e-3)
        optimizer.attach(model.parameters())
        scaling = LossScale() if arithmetic == "fp16" else None

    def body(x: Tensor, y: Tensor, hyper: Tensor) -> Any:
        with autocast(arithmetic):
            with no_tape():
                out = model(x)
            value = loss(out.reshape(-1, task.classes), y.reshape(-1))
            found = gradients(scaling.scaled(value) if scaling else value, [p.tensor for p in optimizer.parameters])
        optimizer.apply(found, hyper, scaling)
        return value

    count = iter(range(1, 1 << 30))
    return Recorded(body, task.name), lambda x, y: (x, y, optimizer.hyper(next(count)))


def ours(task: Task, arithmetic: str = "fp32") -> Callable[[Engine], Run]:
    def prepare(engine: Engine) -> Step:
        step, arguments = training(task, engine, arithmetic)
        x, y = our_batch(task, engine)
        return Step(step, lambda: arguments(x, y))

    return prepare


def our_batch(task: Task, engine: Engine) -> list[Tensor]:
    """The task's batch, on the device."""
    with on(engine):
        found = [tensor(a) for a in task.batch()]
        engine.run(found)
    return found


def their_batch(task: Task, peer: Torch, seed: int = 0, arithmetic: str = "fp32") -> list[TheirTensor]:
    """The task's batch as PyTorch takes it: labels are int64."""
    real = np.float64 if arithmetic == "fp64" else np.float32
    return [peer.array(a.astype(np.int64 if a.dtype == np.int32 else real)) for a in task.batch(seed)]


def their_network(task: Task, peer: Torch, compiled: bool = False) -> tuple[Any, Any]:
    """(module, what is called): the module itself, or what torch.compile makes of it."""
    torch = peer.torch
    torch.manual_seed(0)
    model = task.torch(torch).to(peer.where)
    # Graphs of CUDA are its fastest mode where launches take longer than kernels, and no slower elsewhere.
    mode = "reduce-overhead" if peer.where == "cuda" else None
    return model, torch.compile(model, mode=mode) if compiled else model


def their_training(task: Task, peer: Torch, fused: bool | None = None, compiled: bool = False,
                   start: Mapping[str, Array] | None = None, arithmetic: str = "fp32") -> Callable[..., Any]:
    """PyTorch's step(x, y), which gives the loss; `start`: our variables' values to begin with; "fp64": all of it."""
    torch, (model, forward) = peer.torch, their_network(task, peer, compiled)
    if arithmetic == "fp64":
        model.double()
    if start is not None:
        state = bench_torch.state(model, start)
        model.load_state_dict({**model.state_dict(), **{k: peer.array(v) for k, v in state.items()}})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    device, stored = next(model.parameters()).device.type, getattr(torch, STORED.get(arithmetic, ""), None)
    scaler, tf32 = torch.amp.GradScaler(device, enabled=arithmetic == "fp16"), arithmetic == "tf32"

    def step(x: TheirTensor, y: TheirTensor) -> Any:
        optimizer.zero_grad(set_to_none=True)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        with torch.autocast(device, stored, enabled=stored is not None):
            value = torch.nn.functional.cross_entropy(forward(x).reshape(-1, task.classes), y.reshape(-1))
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        return value

    return step


def theirs(task: Task, fused: bool | None = None, compiled: bool = False,
           arithmetic: str = "fp32") -> Callable[[Torch], Run]:
    def prepare(peer: Torch) -> Run:
        step = their_training(task, peer, fused, compiled, arithmetic=arithmetic)
        return functools.partial(step, *their_batch(task, peer))

    return prepare


def checked(task: Task, **mode: Any) -> Callable[[Torch], Run]:
    """As `theirs`, in float32 and from our first values. ArithmeticError where its losses are not ours."""

    def prepare(peer: Torch) -> Run:
        run = functools.partial(their_training(task, peer, start=first(task), **mode), *their_batch(task, peer))
        agree(task, [float(run().detach()) for _ in range(CHECKED)])
        return run

    return prepare


def beside_jax(task: Task) -> Callable[[Jax], Run]:
    """JAX's step from our first values. ArithmeticError where its losses are not ours."""

    def prepare(peer: Jax) -> Run:
        run = bench_jax.training(peer, task.jax, first(task), *task.batch())
        agree(task, [float(run()) for _ in range(CHECKED)])
        return run

    return prepare


def first(task: Task) -> dict[str, Array]:
    """Our variables at first, by their names."""
    return {name: np.array(v.numpy()) for name, v in network(task).variables().items()}


def agree(task: Task, theirs: Sequence[float]) -> None:
    """Holds a peer's first losses against those of our steps on the current engine, from the same values.

    ArithmeticError where they differ by more than the order of sums makes.
    """
    step, arguments = training(task, current())
    batch = task.batch()
    mine = np.array([float(step(*arguments(*batch)).numpy()) for _ in theirs])
    allowed = np.array([FIRST, *[LATER] * (len(theirs) - 1)]) * np.abs(mine)
    if not np.all(np.abs(np.array(theirs) - mine) <= allowed):
        shown = [" ".join(f"{v:.5g}" for v in losses) for losses in (theirs, mine)]
        raise ArithmeticError(f"its first losses are {shown[0]}, ours {shown[1]}: not the same network, not timed")
