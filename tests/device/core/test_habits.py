"""What people write first who come from Keras, scikit-learn or PyTorch, and the usual slips in shapes: it works, or the
sentence says what does.

A row is (name, call, expected). `expected` is a text: the pattern of the message that a ClnetError, AttributeError or
ImportError must have; a function: what must hold of the result; anything else: the result (the fixture `shows`). One
list a subject; whoever mends a finding adds its row there. Tensors and ops: test_habits_tensors.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import pytest

import clnet
from clnet import data, layers, losses, ops, optimizers, train
from clnet.errors import ClnetError
from clnet.layers import Conv2d, Dense, Flatten, Layer
from clnet.model import Sequential, schema
from clnet.train import EarlyStopping, Trainer

Row = tuple[str, Callable[[], Any], Any]

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(12, 6)).astype(np.float32)  # samples of six numbers
IMAGES = RNG.normal(size=(8, 1, 6, 6)).astype(np.float32)
LABELS = np.arange(12, dtype=np.int32) % 2


def mlp() -> Sequential:
    return Sequential(Dense(out_features=5, activation="relu"), Dense(out_features=2))


def cnn() -> Sequential:
    return Sequential(Conv2d(out_channels=3, kernel_size=3), Flatten(), Dense(out_features=2))


def imported(module: str, name: str) -> Callable[[], Any]:
    """`from module import name`, as it stands in a program."""
    return lambda: exec(compile(f"from {module} import {name}", "<program>", "exec"), {})


def called(model: Sequential, x: Any) -> Sequential:
    model(x)
    return model


# Names of modules and of what lies in them.
NAMES: list[Row] = [
    ("a class in a file", lambda: Layer.from_config({"type": "Dens"}), r"got 'Dens'; did you mean 'Dense'\?"),
    ("clnet schema Dence", lambda: schema.document("Dence"), r"got 'Dence'; did you mean 'Dense'\?$"),
    ("layers.Linear", lambda: layers.Linear,
     r"^module 'clnet.layers' has no 'Linear'; clnet calls it Dense\(out_features=\.\.\.\)\.$"),
    ("layers.Conv2D", lambda: layers.Conv2D, r"did you mean 'Conv2d'\?$"),
    ("layers.ReLU", lambda: layers.ReLU, r'clnet calls it Activation\("relu"\)\.$'),
    ("layers.MaxPooling2D", lambda: layers.MaxPooling2D, r"clnet calls it MaxPool2d\(kernel_size=\.\.\.\)\.$"),
    ("layers.BatchNormalization", lambda: layers.BatchNormalization, r"clnet calls it BatchNorm\(\)\.$"),
    ("layers.LayerNormalization", lambda: layers.LayerNormalization, r"clnet calls it LayerNorm\(\)\.$"),
    ("layers.GlobalAveragePooling2D", lambda: layers.GlobalAveragePooling2D, r"clnet calls it GlobalPool\(\)\.$"),
    ("layers.Droput", lambda: layers.Droput, r"did you mean 'Dropout'\?$"),
    ("layers.Adam", lambda: layers.Adam, r"it is clnet\.optimizers\.Adam\.$"),
    ("layers.Sequential", lambda: layers.Sequential, r"it is clnet\.Sequential\.$"),
    ("losses.CrossEntropy", lambda: losses.CrossEntropy, r"clnet calls it CrossEntropyLoss\(\)\.$"),
    ("losses.MSE", lambda: losses.MSE, r"clnet calls it MSELoss\(\)\.$"),
    ("losses.BCEWithLogitsLoss", lambda: losses.BCEWithLogitsLoss, r"clnet calls it BCELoss\(from_logits=True\)\.$"),
    ("losses.CategoricalCrossentropy", lambda: losses.CategoricalCrossentropy,
     r"did you mean 'CategoricalCrossEntropyLoss'\?$"),
    ("optimizers.adam", lambda: optimizers.adam, r"^module 'clnet.optimizers' has no 'adam'; did you mean 'Adam'\?$"),
    ("clnet.Dense", lambda: clnet.Dense, r"^module 'clnet' has no 'Dense'; it is clnet\.layers\.Dense\.$"),
    ("clnet.Linear", lambda: clnet.Linear, r"clnet calls it clnet\.layers\.Dense\(out_features=\.\.\.\)\.$"),
    ("clnet.relu", lambda: clnet.relu, r"it is clnet\.ops\.relu\.$"),
    ("clnet.nn", lambda: clnet.nn, r"clnet calls it clnet\.layers\.$"),
    ("clnet.optim", lambda: clnet.optim, r"clnet calls it clnet\.optimizers\.$"),
    ("clnet.no_grad", lambda: clnet.no_grad, r"clnet\.gradients\(loss, \[w\]\)"),
    ("clnet.tensr", lambda: clnet.tensr, r"did you mean 'tensor'\?$"),
    ("ops.concatenate", lambda: ops.concatenate, r"clnet calls it concat\(\[a, b\], 0\)\.$"),
    ("data.from_array", lambda: data.from_array, r"did you mean 'from_arrays'\?$"),
    ("train.EarlyStoping", lambda: train.EarlyStoping, r"did you mean 'EarlyStopping'\?$"),
    ("from clnet.layers import Linear", imported("clnet.layers", "Linear"),
     r"^module 'clnet.layers' has no 'Linear'; clnet calls it Dense"),
    ("from clnet import Dense", imported("clnet", "Dense"), r"it is clnet\.layers\.Dense\.$"),
    ("hasattr(layers, 'Linear')", lambda: hasattr(layers, "Linear"), False),
]

FIELDS = "expected fields .*; got "

# Constructors of layers, losses, optimizers and schedules.
CONSTRUCTORS: list[Row] = [
    ("Dense(out_feature=3)", lambda: Dense(out_feature=3), r"did you mean 'out_features'\?"),
    ("Adam(lr=0.1)", lambda: optimizers.Adam(lr=0.1), lambda a: a.lr == 0.1),
    ("Adam(lr=np.float32(0.5))", lambda: optimizers.Adam(lr=np.float32(0.5)),
     lambda a: type(a.lr) is float and a.lr == 0.5),
    ("Dense(out_features=np.int64(3))", lambda: Dense(out_features=np.int64(3)), lambda d: type(d.out_features) is int),
    ("Adam(learning_rate=1e-3)", lambda: optimizers.Adam(learning_rate=1e-3),
     FIELDS + r"'learning_rate'; did you mean 'lr'\?$"),
    ("Adam(model.parameters(), lr=1e-3)", lambda: optimizers.Adam(mlp().parameters(), lr=1e-3),
     r"^Adam: expected a rate first; got a Parameters; .*write Adam\(lr=\.\.\.\), and Trainer\(model, loss"),
    ("Adam(lr='1e-3')", lambda: optimizers.Adam(lr="1e-3"), r"got the text '1e-3'; pass a number: lr=0\.001\.$"),
    ("Adam(betas=(0.9, 0.99))", lambda: optimizers.Adam(betas=(0.9, 0.99)), r"write b1=0\.9, b2=0\.999\.$"),
    ("Adam(lr=True)", lambda: optimizers.Adam(lr=True), "lr must be a valid number"),
    ("Dense(10)", lambda: (Dense(10).in_features, Dense(10).out_features), (None, 10)),
    ("Dense(10, activation=...)", lambda: Dense(10, activation="relu")(zeros(2, 3)).shape, (2, 10)),
    ("Dense(None)", lambda: Dense(None), r"write Dense\(out_features=None\), and the first call binds in_features\.$"),
    ("LSTM(8)", lambda: layers.LSTM(8).hidden_size, 8),
    ("Dense('ten')", lambda: Dense("ten"), r"^Dense\(out_features='ten'\): out_features must be a valid integer"),
    ("Conv2d(16)", lambda: Conv2d(16),
     r"expected a value for out_channels .*; write Conv2d\(out_channels=16, kernel_size=\.\.\.\), and the first call"),
    ("Conv2d(16, 3)", lambda: Conv2d(16, 3),
     r"write Conv2d\(out_channels=16, kernel_size=3\), and the first call binds in_channels\.$"),
    ("Dense(units=3)", lambda: Dense(units=3), FIELDS + r"'units'; did you mean 'out_features'\?$"),
    ("Conv2d(filters=3)", lambda: Conv2d(filters=3, kernel_size=3), r"did you mean 'out_channels'\?$"),
    ("Conv2d(padding='sme')", lambda: Conv2d(out_channels=3, kernel_size=3, padding="sme"),
     "padding must be 'same' or 'valid'"),
    ("LSTM(units=3)", lambda: layers.LSTM(units=3), r"did you mean 'hidden_size'\?$"),
    ("LSTM(bidirectional=True)", lambda: layers.LSTM(hidden_size=3, bidirectional=True),
     r"wrap it: Bidirectional\(layer=LSTM"),
    ("Dropout(rate=0.5)", lambda: layers.Dropout(rate=0.5), r"did you mean 'p'\?$"),
    ("MaxPool2d(pool_size=2)", lambda: layers.MaxPool2d(pool_size=2), r"did you mean 'kernel_size'\?$"),
    ("BatchNorm(epsilon=1e-3)", lambda: layers.BatchNorm(epsilon=1e-3), r"did you mean 'eps'\?$"),
    ("Dense(3, input_shape=(4,))", lambda: Dense(out_features=3, input_shape=(4,)),
     r"leave it out: the first call, or model\.build"),
    ("Dense(1, 2, True, None, 5)", lambda: Dense(1, 2, True, None, 5),
     r"at most 4 arguments by position \(in_features, .*\); got 5\.$"),
    ("Dense(out_features='3')", lambda: Dense(out_features="3"), r"got the text '3'; pass a number: out_features=3\.$"),
    ("Dense(out_features=3.0)", lambda: Dense(out_features=3.0), r"must be a valid integer; write out_features=3\.$"),
    ("Dense(bias=1)", lambda: Dense(out_features=3, bias=1), r"must be a valid boolean; write bias=True\.$"),
    ("Residual(layer=Dense)", lambda: layers.Residual(layer=Dense),
     r"got the class Dense; call it: Dense\(\.\.\.\)\.$"),
    ("Dense(activation=Dense)", lambda: Dense(out_features=3, activation=Dense),
     r"got the class Dense; call it: Dense\(\.\.\.\)\.$"),
    ("Activation('relw')", lambda: layers.Activation("relw"), r"got 'relw'; did you mean 'relu'\?$"),
    ("MSELoss('meen')", lambda: losses.MSELoss("meen"), r"did you mean 'mean'\?$"),
    ("CrossEntropyLoss(from_logits=True)", lambda: losses.CrossEntropyLoss(from_logits=True),
     r"leave it out: CrossEntropyLoss takes logits\.$"),
]

# Layers after they were made: fields, parameters, calls.
LAYERS: list[Row] = [
    ("layer.weight.shape", lambda: layers.Dense(in_features=3, out_features=2).weight.shape, (2, 3)),
    ("layer.weight before the first call", lambda: Dense(out_features=2).weight,
     r"Dense has no 'weight'; .* call it once, or model\.build\(shape\)\.$"),
    ("layer.kernel", lambda: Dense(in_features=3, out_features=2).kernel, r"clnet calls it weight\.$"),
    ("layer.out_feature", lambda: Dense(out_features=2).out_feature, r"did you mean 'out_features'\?$"),
    ("layer._anything", lambda: Dense(out_features=2)._anything, r"^'Dense' object has no attribute '_anything'$"),
    ("hasattr(layer, 'kernel')", lambda: hasattr(Dense(out_features=2), "kernel"), False),
    ("copy.deepcopy(layer)", lambda: copy.deepcopy(Dense(out_features=2)).out_features, 2),
]

# Models: lists, summaries, files, devices.
MODELS: list[Row] = [
    ("len(model)", lambda: len(mlp()), 2),
    ("model[0]", lambda: mlp()[0].out_features, 5),
    ("model[-1]", lambda: mlp()[-1].out_features, 2),
    ("model[:1]", lambda: mlp()[:1], lambda m: isinstance(m, Sequential) and len(m) == 1),
    ("model.append(layer)", lambda: mlp().append(Dense(out_features=7))(TABLE).shape, (12, 7)),
    ("model.add(layer)", lambda: mlp().add(Dense(out_features=7)), r"write model\.append\(layer\)\.$"),
    ("model.fit(x, y)", lambda: mlp().fit(TABLE, LABELS),
     r"Sequential has no 'fit'; a Trainer trains: clnet\.Trainer\(model, loss, optimizer\)\.fit"),
    ("model.compile(...)", lambda: mlp().compile(optimizer="adam"), r"loss and optimizer go to a Trainer"),
    ("model.predict(x)", lambda: mlp().predict(TABLE),
     r"trainer\.predict\(x\); one batch is model\.eval\(\)\(x\)\.numpy\(\)\.$"),
    ("model.state_dict()", lambda: mlp().state_dict(), r"values are in model\.variables\(\)"),
    ("model.to('cuda')", lambda: mlp().to("cuda"), r'write model\.use\("gpu"\)\.$'),
    ("model.summary()", lambda: mlp().summary(),
     r"write model\.summary\(\(30,\)\), or model\.summary\(x\) with samples x\.$"),
    ("model.summary() of one that was called", lambda: called(mlp(), TABLE).summary().parameters, 47),
    ("model.summary(6)", lambda: mlp().summary(6).parameters, 47),
    ("model.summary((6,))", lambda: [r.output for r in mlp().summary((6,)).rows], ["(N, 5)", "(N, 2)"]),
    ("model.summary(x)", lambda: mlp().summary(TABLE).parameters, 47),
    ("model.summary((None, 6))", lambda: mlp().summary((None, 6)).parameters, 47),
    ("print(model)", lambda: repr(mlp()).splitlines()[1],
     lambda line: line == "  0  Dense(out_features=5, activation='relu')"),
    ("print(model.parameters())", lambda: repr(mlp().build((6,)).parameters()),
     lambda text: "layers.0.weight" in text and "?" not in text),
    ("clnet.Input(6)", lambda: clnet.Input(6).shape, (6,)),
    ("clnet.Input((None, 6))", lambda: clnet.Input((None, 6)).shape, (6,)),
    ("clnet.Input('x')", lambda: clnet.Input("x"), "Input: expected the shape of one sample"),
    ("layers.Input(shape=6)", lambda: layers.Input(shape=6), r"write shape=\(6,\)\.$"),
    ("model.extend(layer)", lambda: mlp().extend(3), r"write model\.extend\(\[layer\]\)\.$"),
    ("Sequential.from_json({})", lambda: Sequential.from_json({}), "expected JSON text; got dict"),
    ("clnet.seed('x')", lambda: clnet.seed("x"), "seed: expected a whole number"),
    ("model.use('numpy').device", lambda: mlp().build((6,)).use("numpy").device.key, lambda key: key == "numpy"),
    ("model.save('m.h5')", lambda: mlp().build((6,)).save("m.h5"), r"ends in \.safetensors, .*; got \.h5"),
    ("model.load(arrays)", lambda: mlp().build((6,)).load({}), "missing layers.0.bias"),
]


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


def mended() -> tuple[int, ...]:
    """A model that was called with a wrong input first."""
    model = cnn()
    with pytest.raises(ClnetError):
        model(IMAGES[:, :, :2])
    return tuple(model(IMAGES).shape)


# Shapes and dtypes that do not fit what a layer takes.
SHAPES: list[Row] = [
    ("images without a channel axis", lambda: cnn()(IMAGES[:, 0]),
     r"^layers\.0: Conv2d: expected input axes \(N, in_channels, H, W\); got shape \(8, 6, 6\); "
     r"there is no axis of channels: write x\[:, None\]\.$"),
    ("one image without a batch axis", lambda: Conv2d(3, 2, 3)(zeros(3, 6, 6)),
     r"one sample has an axis for the batch too: write x\[None\]\.$"),
    ("one image, neither axis", lambda: Conv2d(1, 2, 3)(zeros(6, 6)), r"write x\[None, None\]\.$"),
    ("channels last", lambda: Conv2d(3, 2, 3)(zeros(5, 28, 28, 3)),
     r"in_channels is 3; got 28 .*places: write np\.moveaxis\(x, -1, 1\)\.$"),
    ("channels last, not built yet", lambda: cnn()(zeros(5, 28, 28, 1)),
     r"^layers\.0: Conv2d \(conv\): .*write np\.moveaxis\(x, -1, 1\)\.$"),
    ("a vector for Dense", lambda: Dense(30, 2)(zeros(569)),
     r"in_features is 30; got 569 .*one axis is one sample, of 569 numbers: give \(samples, 30\)\.$"),
    ("a vector for Dense, not built yet", lambda: mlp()(zeros(569)),
     r"got shape \(569,\); there is no axis of features: write x\[:, None\]\.$"),
    ("one sample for a built Dense", lambda: Dense(30, 2)(zeros(30)).shape, (2,)),
    ("no Flatten", lambda: Dense(784, 2)(zeros(5, 1, 28, 28)),
     r"in_features is 784; got 28 .*put a Flatten\(\) in front\.$"),
    ("one sequence without a batch axis", lambda: layers.LSTM(5, 3)(zeros(7, 5)),
     r"one sample has an axis for the batch too: write x\[None\]\.$"),
    ("sequences of numbers", lambda: layers.LSTM(hidden_size=3)(zeros(50, 7)),
     r"there is no axis of features: write x\[\.\.\., None\]\.$"),
    ("features before steps", lambda: layers.LSTM(5, 3)(zeros(50, 5, 7)),
     r"features come after the steps: write np\.swapaxes\(x, 1, 2\)\.$"),
    ("layers that do not fit", lambda: Sequential(Dense(out_features=3), Dense(4, 2))(TABLE),
     r"^layers\.1: Dense: in_features is 4; got 3 in an input"),
    ("two inputs for one", lambda: mlp()(TABLE, TABLE),
     r"^layers\.0: Dense: expected inputs \(x\); got 2: too many positional arguments\.$"),
    ("no input", lambda: mlp()(), "expected an input, which binds in_features; got none"),
    ("model(None)", lambda: Sequential(Dense(6, 2))(None), r"expected an array; got None; pass the samples\.$"),
    ("a frame", lambda: mlp()(pandas.DataFrame(TABLE)).shape, (12, 2)),
    ("a frame with text", lambda: mlp()(pandas.DataFrame({"a": [1.0], "b": ["x"]})),
     r"columns of numbers; got 'b' \(text\)"),
    ("a dict", lambda: mlp()({"x": TABLE}), "expected an array; got a dict of 'x'"),
    ("an op's error is the layer's", lambda: layers.Add()(zeros(2, 3), zeros(4)), r"^Add \(add\): "),
    ("the right input after a wrong one", mended, (8, 2)),
]

# Data sets, labels, losses and metrics.
DATA: list[Row] = [
    ("data.load('mnist')", lambda: data.load("mnist"), "expected 'digits'"),
]


# The Trainer: fit, evaluate, predict, callbacks, histories, checkpoints.
def trainer(loss: Any = "cross_entropy", optimizer: Any = "adam", outputs: int = 2, **more: Any) -> Trainer:
    return Trainer(Sequential(Dense(out_features=5, activation="relu"), Dense(out_features=outputs)), loss, optimizer,
                   **more)


def quiet(*data: Any, **more: Any) -> Any:
    return trainer().fit(*data, verbose=0, **more)


def trained(**more: Any) -> Trainer:
    made = trainer(**more)
    made.fit(TABLE, LABELS if made.model[1].out_features == 2 else LABELS[:, None], verbose=False)
    return made


def is_row(*names: str) -> Callable[[Any], bool]:
    return lambda history: all(n in history.columns() for n in names) and len(history) == 1


TRAINING: list[Row] = [
    ("fit(x, y, epochs=1)", lambda: quiet(TABLE, LABELS, epochs=1), is_row("accuracy")),
    ("fit((x, y), 1, 4)", lambda: len(quiet((TABLE, LABELS), 1, 4).steps), 3),
    ("fit(X=x, y=y)", lambda: quiet(X=TABLE, y=LABELS), is_row("loss")),
    ("fit(x)", lambda: quiet(TABLE), r"expected labels too; got ndarray alone; pass x and y: fit\(x, y\)"),
    ("fit(x, y) of a Dataset", lambda: quiet(data.from_arrays(TABLE, LABELS), LABELS), "expected a Dataset alone"),
    ("validation=0.25", lambda: quiet(TABLE, LABELS, validation=0.25), is_row("val_loss", "val_accuracy")),
    ("validation=(x, y)", lambda: quiet(TABLE, LABELS, validation=(TABLE, LABELS)), is_row("val_loss")),
    ("validation_data=(x, y)", lambda: quiet(TABLE, LABELS, validation_data=(TABLE, LABELS)), is_row("val_loss")),
    ("validation_split=0.2", lambda: quiet(TABLE, LABELS, validation_split=0.2), is_row("val_loss")),
    ("validation=x", lambda: quiet(TABLE, LABELS, validation=TABLE), "^validation: data: expected labels too"),
    ("validation=2.5", lambda: quiet(TABLE, LABELS, validation=2.5), r"share in \(0, 1\)"),
    ("epoch=1", lambda: quiet(TABLE, LABELS, epoch=1), r"did you mean 'epochs'\?"),
    ("fit(lr=)", lambda: quiet(TABLE, LABELS, lr=1), r"the optimizer has it: Adam\(lr=\.\.\.\)"),
    ("fit(class_weight=)", lambda: quiet(TABLE, LABELS, class_weight={0: 1}), is_row("loss")),
    ("epochs twice", lambda: quiet(TABLE, LABELS, 1, epochs=2), "a call that does not fit"),
    ("callbacks=EarlyStopping()", lambda: quiet(TABLE, LABELS, callbacks=EarlyStopping("loss")), is_row("loss")),
    ("callbacks='early'", lambda: quiet(TABLE, LABELS, callbacks="early"),
     r"expected callbacks, as EarlyStopping\(\).*got 'early'"),
    ("callbacks=EarlyStopping", lambda: quiet(TABLE, LABELS, callbacks=EarlyStopping),
     r"make one of it: EarlyStopping\(\.\.\.\)"),
    ("evaluate(x, y)", lambda: list(trainer().evaluate(TABLE, LABELS)), ["loss", "accuracy"]),
    ("evaluate(x, y, batchsize=)", lambda: trainer().evaluate(TABLE, LABELS, batchsize=4),
     r"^evaluate: .*did you mean 'batch_size'\?"),
    ("loss and optimizer by name", lambda: repr(trainer("mse", "sgd")), lambda r: "MSELoss(), SGD()" in r),
    ("names of Keras", lambda: repr(trainer("sparse_categorical_crossentropy", "rmsprop")),
     lambda r: "SparseCategoricalCrossEntropyLoss(), RMSprop()" in r),
    ("classes", lambda: repr(trainer(losses.MSELoss, optimizers.SGD)), lambda r: "MSELoss(), SGD()" in r),
    ("a class with fields to fill", lambda: trainer(losses.OrdinalRegressionLoss), "pass num_classes="),
    ("a name of PyTorch", lambda: trainer("BCEWithLogitsLoss"), r"losses\.BCELoss\(from_logits=True\)"),
    ("loss='mes'", lambda: trainer("mes"), r"did you mean 'mse'\?|expected the name of a loss; see clnet\.losses\."),
    ("optimizer='adamm'", lambda: trainer("mse", "adamm"), r"name of an optimizer; did you mean 'Adam'\?"),
    ("optimizer=0.1", lambda: trainer("mse", 0.1), r"as Adam\(lr=1e-3\), or its name; got 0\.1"),
    ("loss=3", lambda: trainer(3), "expected a loss, its name or a function"),
    ("predict_proba", lambda: trained().predict_proba(TABLE),
     lambda p: p.shape == (12, 2) and np.allclose(p.sum(1), 1)),
    ("predict_proba of yes", lambda: trained(loss=losses.BCELoss(from_logits=True), outputs=1).predict_proba(TABLE),
     lambda p: bool(((p > 0) & (p < 1)).all())),
    ("predict_proba of numbers", lambda: trained(loss="mse", outputs=1).predict_proba(TABLE),
     "predict_proba: MSELoss: expected a loss on logits or prob"),
    ("trainer.score", lambda: trainer().score(TABLE, LABELS), r"evaluate\(x, y\)"),
    ("trainer.compile", lambda: trainer().compile(), "go to Trainer"),
    ("metrics='R2'", lambda: trainer("mse", metrics="R2"), r"did you mean 'r2'\?"),
    ("metrics='accuracy' of numbers", lambda: trainer("mse", outputs=1, metrics="accuracy").fit(
        TABLE, TABLE[:, :1], verbose=False), "choose 'rmse' or 'r2'"),
]

ROWS = {f"{subject}: {name}": (call, expected) for subject, rows in {
    "names": NAMES, "constructors": CONSTRUCTORS, "layers": LAYERS, "models": MODELS, "shapes": SHAPES, "data": DATA,
    "training": TRAINING}.items() for name, call, expected in rows}


@pytest.mark.cheap
@pytest.mark.parametrize("row", ROWS)
def test_habit(shows: Callable[[Any, Any], None], row: str) -> None:
    shows(*ROWS[row])


def test_every_row_has_a_name_of_its_own() -> None:
    assert len(ROWS) == sum(map(len, (NAMES, CONSTRUCTORS, LAYERS, MODELS, SHAPES, DATA, TRAINING)))
