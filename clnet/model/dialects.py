"""Models written by other programs, read as models of this one. A dialect is a row of `DIALECTS`; what it is made of
is a table: its words, and what they are called here.

The grid dialect: `{"batch_size", "grid_rows", "grid_cols", "layers_per_cell", "layers": [...]}`, layers in snake_case,
cell after cell. Between layers lies one flat vector; every layer takes it in the shape that it wants. All sizes are
checked here, before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..names import ending

LARGEST = 1 << 24  # of one size
MOST = 1 << 28  # weights of a layer, or values between two: 1 GiB in float32
GRID = {"grid_rows", "grid_cols", "layers_per_cell"}  # what a file of the grid dialect is known by

Values = dict[str, Any]
Shape = tuple[int, ...]
NONE = object()


# --- words
@dataclass(frozen=True)
class Key:
    """A key of a layer: what is expected of it in words, the test, the argument here ("": it says a shape),
    what it is when left out.
    """

    expected: str
    allows: Callable[[Any], bool]
    argument: str = ""
    default: Any = NONE  # none: the key must be there
    meaning: Callable[[Any], Any] = lambda value: value


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST


def size(argument: str = "", default: object = NONE) -> Key:
    return Key(f"a whole number from 1 to {LARGEST}", lambda v: _whole(v, 1), argument, default)


def amount(argument: str) -> Key:
    return Key(f"a whole number from 0 to {LARGEST}", lambda v: _whole(v, 0), argument, 0)


def _above_zero(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def number(argument: str, default: float) -> Key:
    return Key("a number above 0", _above_zero, argument, default)


def word(argument: str, meanings: dict[str, Any], default: str) -> Key:
    return Key(f"one of {', '.join(meanings)}", lambda v: isinstance(v, str) and v in meanings, argument, default,
               meanings.__getitem__)


def flags(argument: str) -> Key:
    return Key("a list of true and false",
               lambda v: isinstance(v, list) and bool(v) and all(isinstance(b, bool) for b in v), argument, None)


ACTIVATIONS = {"relu": "relu", "leaky_relu": "leaky_relu", "sigmoid": "sigmoid", "tanh": "tanh", "linear": None}
ACT = word("activation", ACTIVATIONS, "linear")
NO_ACT = word("", {"linear": None}, "linear")
VARIANTS = {name: name for name in ("standard", "temperature", "grid", "masked")}
NETWORK = {"id": Key("a text", lambda v: isinstance(v, str), default=""), "batch_size": size(default=1),
           "grid_rows": size(default=1), "grid_cols": size(default=1), "layers_per_cell": size(default=1)}


# --- layers
@dataclass(frozen=True)
class Word:
    """A type of layer: its class here, its keys, the keys that make up a sample's shape ("*": whatever is left),
    what comes out, how many weights.
    """

    layer: str
    keys: dict[str, Key]
    takes: tuple[str, ...]
    gives: Callable[[Values, Shape], Shape] = lambda v, shape: shape
    weights: Callable[[Values], int] = lambda v: 0
    fixed: Values = field(default_factory=dict)


def _windows(*names: str) -> Callable[[Values, Shape], Shape]:
    """(filters, positions…) of a convolution."""
    filters, kernel, stride, padding = names
    return lambda v, shape: (v[filters], *((n + 2 * v[padding] - v[kernel]) // v[stride] + 1 for n in shape[1:]))


def _recurrent(layer: str, gates: int, keys: dict[str, Key]) -> Word:
    keys = {"input_size": size("input_size"), "hidden_size": size("hidden_size"), "seq_length": size(default=None),
            **keys}
    return Word(layer, keys, ("seq_length", "input_size"), lambda v, shape: (shape[0], v["hidden_size"]),
                lambda v: gates * v["hidden_size"] * (v["input_size"] + v["hidden_size"] + 2))


def _norm(layer: str) -> Word:
    return Word(layer, {"norm_size": size("normalized_shape"), "epsilon": number("eps", 1e-5), "activation": NO_ACT},
                ("*", "norm_size"))


_MHA = Word("MultiHeadAttention", {"d_model": size("embed_dim"), "num_heads": size("num_heads"),
                                   "seq_length": size(default=None), "activation": NO_ACT},
            ("seq_length", "d_model"), weights=lambda v: 4 * v["d_model"] * (v["d_model"] + 1))

WORDS = {
    "dense": Word("Dense", {"input_height": size("in_features"), "output_height": size("out_features"),
                            "activation": ACT},
                  ("input_height",), lambda v, shape: (v["output_height"],),
                  lambda v: v["input_height"] * v["output_height"]),
    "swiglu": Word("SwiGLU", {"input_height": size("in_features"), "output_height": size("hidden_features"),
                              "activation": NO_ACT},
                   ("*", "input_height"), weights=lambda v: 3 * v["input_height"] * v["output_height"],
                   fixed={"bias": True}),
    "layer_norm": _norm("LayerNorm"),
    "rms_norm": _norm("RMSNorm"),
    "softmax": Word("Softmax", {"softmax_variant": word("variant", VARIANTS, "standard"),
                                "temperature": number("temperature", 1.0), "softmax_rows": size("rows", None),
                                "softmax_cols": size("cols", None), "mask": flags("mask"), "activation": NO_ACT},
                    ("*",)),
    "conv1d": Word("Conv1d", {"conv1d_in_channels": size("in_channels"), "conv1d_filters": size("out_channels"),
                              "conv1d_kernel_size": size("kernel_size"), "conv1d_stride": size("stride", 1),
                              "conv1d_padding": amount("padding"), "input_length": size(default=None),
                              "activation": ACT},
                   ("conv1d_in_channels", "input_length"),
                   _windows("conv1d_filters", "conv1d_kernel_size", "conv1d_stride", "conv1d_padding"),
                   lambda v: v["conv1d_filters"] * v["conv1d_in_channels"] * v["conv1d_kernel_size"]),
    "conv2d": Word("Conv2d", {"input_channels": size("in_channels"), "filters": size("out_channels"),
                              "kernel_size": size("kernel_size"), "stride": size("stride", 1),
                              "padding": amount("padding"), "input_height": size(), "input_width": size(),
                              "output_height": size(default=None), "output_width": size(default=None),
                              "activation": ACT},
                   ("input_channels", "input_height", "input_width"),
                   _windows("filters", "kernel_size", "stride", "padding"),
                   lambda v: v["filters"] * v["input_channels"] * v["kernel_size"] ** 2),
    "rnn": _recurrent("RNN", 1, {"activation": word("nonlinearity", {"tanh": "tanh", "relu": "relu"}, "tanh")}),
    "lstm": _recurrent("LSTM", 4, {"activation": word("", {"tanh": "tanh", "linear": None}, "tanh")}),
    "mha": _MHA,
    "multi_head_attention": _MHA,
}


# --- reading
@dataclass(frozen=True)
class Dialect:
    """A way to write models. knows: whether an object without "type" is written in it; read: the same model in this
    project's words, with a ConfigError that names the path of what is wrong.
    """

    knows: Callable[[Values], bool]
    read: Callable[[Values], Values]


def own(config: object) -> Any:
    """The configuration in this project's words: one of a dialect translated, any other as it is.
    Raises ConfigError with the path.
    """
    if not isinstance(config, dict) or "type" in config:
        return config
    return next((d.read(config) for d in DIALECTS.values() if d.knows(config)), config)


def _grid(config: Values) -> Values:
    values = _read({k: v for k, v in config.items() if k != "layers"}, NETWORK, "$", "the network", more="layers")
    layers, cells = config.get("layers"), values["grid_rows"] * values["grid_cols"] * values["layers_per_cell"]
    if not isinstance(layers, list) or len(layers) != cells:
        got = f"{len(layers)}" if isinstance(layers, list) else repr(layers)[:40]
        raise ConfigError(
            f"$.layers: expected grid_rows · grid_cols · layers_per_cell = {cells} layers; "
            f"got {got}; list every cell's layers.")
    return {"type": "Sequential", "layers": _chain(layers)}


DIALECTS = {"grid": Dialect(lambda config: bool(config.keys() & GRID), _grid)}


def _chain(layers: list[Any]) -> list[Values]:
    """The layers, with a reshape wherever a layer wants the vector in another shape than the one before it leaves."""
    out: list[Values] = []
    shape: Shape | None = None
    for k, entry in enumerate(layers):
        path = f"$.layers[{k}]"
        kind, values = _layer(entry, path)
        wanted = _wanted(kind, values, shape, path)
        if shape is None:
            shape = (math.prod(wanted),)
            out.append({"type": "Input", "shape": list(shape)})
        if wanted != shape:
            out.append({"type": "Reshape", "shape": list(wanted)})
        arguments = {key.argument: key.meaning(values[name]) for name, key in kind.keys.items()
                     if key.argument and values[name] is not None}
        out.append({"type": kind.layer, **kind.fixed, **arguments})
        shape = _given(kind, values, wanted, path)
    if shape is not None and len(shape) > 1:
        out.append({"type": "Flatten"})
    return out


def _layer(entry: object, path: str) -> tuple[Word, Values]:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
        raise ConfigError(
            f'{path}: expected an object with a "type"; got {repr(entry)[:60]}; name one of {", ".join(WORDS)}.')
    if entry["type"] not in WORDS:
        raise ConfigError(
            f"{path}.type: expected one of {', '.join(WORDS)}; got {entry['type']!r}{ending(entry['type'], WORDS)}")
    kind = WORDS[entry["type"]]
    values = _read({k: v for k, v in entry.items() if k != "type"}, kind.keys, path, entry["type"])
    if kind.weights(values) > MOST:
        name = max(kind.keys, key=lambda n: values[n] if isinstance(values[n], int) else 0)
        raise ConfigError(
            f"{path}.{name}: expected a layer of at most {MOST} weights; "
            f"got {kind.weights(values)} with {values[name]}; make it smaller.")
    return kind, values


def _read(entry: Values, keys: dict[str, Key], path: str, who: str, more: str = "") -> Values:
    """Every key's value, checked."""
    for name in entry:
        if name not in keys:
            raise ConfigError(
                f"{path}.{name}: expected a key of {who} ({', '.join([*keys, *([more] if more else [])])}); "
                f"got {name!r}{ending(name, keys)}")
    values = {}
    for name, key in keys.items():
        if name not in entry and key.default is NONE:
            raise ConfigError(f"{path}.{name}: expected {key.expected}; got none; {who} needs it.")
        values[name] = entry.get(name, key.default)
        if name in entry and not key.allows(values[name]):
            raise ConfigError(f"{path}.{name}: expected {key.expected}; got {repr(values[name])[:60]}; change it.")
    return values


def _wanted(kind: Word, values: Values, shape: Shape | None, path: str) -> Shape:
    """The shape in which the layer takes the vector; a size that is left out is what the others leave of it."""
    sizes = {name: values.get(name) for name in kind.takes}
    known = math.prod(n for n in sizes.values() if n is not None)
    free = next((name for name, n in sizes.items() if n is None), None)
    named = next((name for name in kind.takes if sizes.get(name) is not None), "type")
    if shape is None and free and free != "*":
        raise ConfigError(f"{path}.{free}: expected the size of the model's input; got none; add it.")
    if shape is None and kind.takes == ("*",):
        raise ConfigError(
            f"{path}.type: expected a layer that says the size of the model's input first; "
            f"got {kind.layer}; put one in front.")
    count = math.prod(shape) if shape else known
    if known > MOST:
        raise ConfigError(f"{path}.{named}: expected at most {MOST} values for a layer; got {known}; make it smaller.")
    if count % known or (free is None and count != known):
        want = f"{known}" if free is None else f"a multiple of {known}"
        raise ConfigError(
            f"{path}.{named}: expected a layer for the {count} values of the layer before; "
            f"got one for {want}; change either.")
    full = tuple(count // known if n is None else n for n in sizes.values())
    return full[1:] if free == "*" and len(full) > 1 and full[0] == 1 else full


def _given(kind: Word, values: Values, shape: Shape, path: str) -> Shape:
    """The shape of what the layer returns, as the file says it too."""
    out = kind.gives(values, shape)
    if min(out) < 1:
        name = next(n for n, key in kind.keys.items() if key.argument == "kernel_size")
        raise ConfigError(
            f"{path}.{name}: expected a kernel that fits into {shape[1:]} with its padding; "
            f"got {values[name]}; make it smaller.")
    for name, n in zip(("output_height", "output_width"), out[1:], strict=False):
        if kind.layer == "Conv2d" and values[name] not in (None, n):
            raise ConfigError(
                f"{path}.{name}: expected {n}, which follows from the other sizes; got {values[name]}; leave it out.")
    if math.prod(out) > MOST:
        raise ConfigError(
            f"{path}: expected at most {MOST} values from a layer; got {math.prod(out)}; make it smaller.")
    if kind.layer == "Softmax":
        _softmax(values, shape, path)
    if kind.layer == "MultiHeadAttention" and values["d_model"] % values["num_heads"]:
        raise ConfigError(
            f"{path}.num_heads: expected a divisor of d_model = {values['d_model']}; "
            f"got {values['num_heads']}; choose another.")
    return out


def _softmax(values: Values, shape: Shape, path: str) -> None:
    rows, cols, mask = (values[n] for n in ("softmax_rows", "softmax_cols", "mask"))
    if values["softmax_variant"] == "grid" and (rows or 0) * (cols or 0) != shape[-1]:
        raise ConfigError(
            f"{path}.softmax_rows: expected softmax_rows · softmax_cols = {shape[-1]}; "
            f"got {rows} and {cols}; change them.")
    if values["softmax_variant"] == "masked" and len(mask or ()) != shape[-1]:
        raise ConfigError(
            f"{path}.mask: expected a mask of {shape[-1]} values; got {len(mask or ())}; give one for every value.")
