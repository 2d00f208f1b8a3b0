"""The bench's networks in JAX, as its own users write them: functions of a dict of arrays, the whole step under jit,
its arrays donated, Adam of optax. The modules are handed in: neither is a dependency.

Arrays have our variables' names and first values; images and kernels have channels last, as XLA likes them on CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .networks_torch import RESNET20

if TYPE_CHECKING:
    from .peers import Array, Jax, Run, TheirTensor

Arrays = dict[str, Any]
LAST = {4: (0, 2, 3, 1)}  # axes of images with channels last
KERNELS = {4: (2, 3, 1, 0)}  # of convolutions' weights: height, width, in, out
RUNNING = ("running_mean", "running_var")  # what is no parameter ends so
MOMENTUM, EPS = 0.1, 1e-5  # of normalisations


def _dense(p: Arrays, name: str, x: TheirTensor) -> Any:
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def _convolution(jax: Any, p: Arrays, name: str, x: TheirTensor, stride: int = 1) -> Any:
    w = p[f"{name}.weight"]
    y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(w.shape[0] // 2,) * 2] * 2,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def _pool(jax: Any, x: TheirTensor) -> Any:
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, window, window, "VALID")


def _normalised(jax: Any, p: Arrays, name: str, x: TheirTensor, axes: tuple[int, ...], found: Arrays) -> Any:
    """x less its mean over its deviation, and what becomes of the running statistics where there are some."""
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    if f"{name}.{RUNNING[0]}" in p:
        count = x.size / mean.size
        for word, value in zip(RUNNING, (mean.ravel(), var.ravel() * (count / (count - 1))), strict=True):
            found[f"{name}.{word}"] = (1 - MOMENTUM) * p[f"{name}.{word}"] + MOMENTUM * value
    return (x - mean) * jax.lax.rsqrt(var + EPS) * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(jax: Any, p: Arrays, x: TheirTensor, found: Arrays) -> Any:
    for k in range(2):
        x = jax.nn.relu(_dense(p, f"layers.{k}", x))
    return _dense(p, "layers.2", x)


def cnn(jax: Any, p: Arrays, x: TheirTensor, found: Arrays) -> Any:
    for k in (0, 2):
        x = _pool(jax, jax.nn.relu(_convolution(jax, p, f"layers.{k}", x)))
    flat = x.transpose(0, 3, 1, 2).reshape(len(x), -1)  # in the order of our weights
    return _dense(p, "layers.6", jax.nn.relu(_dense(p, "layers.5", flat)))


def resnet20(jax: Any, p: Arrays, x: TheirTensor, found: Arrays) -> Any:
    def both(x: TheirTensor, convolution: str, norm: str, stride: int = 1) -> Any:
        return _normalised(jax, p, norm, _convolution(jax, p, convolution, x, stride), (0, 1, 2), found)

    x = jax.nn.relu(both(x, "layers.0", "layers.1"))
    for k, (_, _, stride) in enumerate(RESNET20):
        at = f"layers.{3 + k}"
        y = jax.nn.relu(both(x, f"{at}.layer.0", f"{at}.layer.1", stride))
        y = both(y, f"{at}.layer.3", f"{at}.layer.4")
        short = f"{at}.projection.layers"
        x = jax.nn.relu(y + (both(x, f"{short}.0", f"{short}.1", stride) if f"{short}.0.weight" in p else x))
    return _dense(p, "layers.13", x.mean((1, 2)))


def lstm(jax: Any, p: Arrays, x: TheirTensor, found: Arrays) -> Any:
    at = "layers.0.layers.0."
    gates = x.swapaxes(0, 1) @ p[f"{at}w_ih"].T + p[f"{at}b_ih"] + p[f"{at}b_hh"]

    def step(state: Any, z: TheirTensor) -> Any:
        h, c = state
        i, f, g, o = jax.numpy.split(z + h @ p[f"{at}w_hh"].T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
        return (jax.nn.sigmoid(o) * jax.numpy.tanh(c), c), None

    zero = jax.numpy.zeros((len(x), p[f"{at}w_hh"].shape[1]))
    (last, _), _ = jax.lax.scan(step, (zero, zero), gates)
    return _dense(p, "layers.1", last)


def gpt(jax: Any, p: Arrays, x: TheirTensor, found: Arrays, heads: int = 4, depth: int = 4) -> Any:
    x = p["layers.0.weight"][x] + p["layers.1.pe"][: x.shape[1]]
    for k in range(2, 2 + depth):
        at = f"layers.{k}"
        h = _normalised(jax, p, f"{at}.norm1", x, (-1,), found)
        q, key, v = ((h @ p[f"{at}.self_attn.w_{n}"].T + p[f"{at}.self_attn.b_{n}"])
                     .reshape(*h.shape[:2], heads, -1) for n in "qkv")
        y = jax.nn.dot_product_attention(q, key, v, is_causal=True).reshape(x.shape)
        x = x + y @ p[f"{at}.self_attn.w_o"].T + p[f"{at}.self_attn.b_o"]
        h = _normalised(jax, p, f"{at}.norm2", x, (-1,), found)
        x = x + _dense(p, f"{at}.linear2", jax.nn.gelu(_dense(p, f"{at}.linear1", h), approximate=False))
    return _dense(p, f"layers.{2 + depth}", x)


def training(peer: Jax, network: Any, start: Mapping[str, Array], x: Array, y: Array) -> Run:
    """A training step of `network` on the batch, from these values: cross entropy, gradients, Adam. A call starts one
    and gives the loss.
    """
    jax, optax = peer.jax, peer.optax
    laid = {k: peer.array(a.transpose(KERNELS.get(a.ndim, range(a.ndim)))) for k, a in start.items()}
    running = {k: a for k, a in laid.items() if k.endswith(RUNNING)}
    params = {k: a for k, a in laid.items() if k not in running}
    optimizer = optax.adam(1e-3)
    inputs, labels = peer.array(x.transpose(LAST.get(x.ndim, range(x.ndim)))), peer.array(y)

    def step(params: Arrays, running: Arrays, state: Any, x: TheirTensor, y: TheirTensor) -> Any:
        def loss(params: Arrays) -> Any:
            found: Arrays = {}
            out = network(jax, {**running, **params}, x, found)
            return optax.softmax_cross_entropy_with_integer_labels(out, y).mean(), found

        (value, found), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), {**running, **found}, state, value

    whole, carried = jax.jit(step, donate_argnums=(0, 1, 2)), [params, running, optimizer.init(params)]

    def run() -> Any:
        *carried[:], value = whole(*carried, inputs, labels)
        peer.running[:] = [*carried, value]
        return value

    return run
