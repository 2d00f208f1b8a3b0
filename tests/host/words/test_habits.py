"""Programs as people write them who come from PyTorch and Keras: what is meant is done, or told how to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import layers, losses, optimizers
from clnet import ops as F
from clnet.errors import CheckpointError, ConfigError, DataError, ShapeError, UseError
from clnet.layers import LSTM, Concatenate, Dense, Layer
from clnet.model import network
from clnet.sklearn import Classifier

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


class _Called(Layer):
    def call(self, x: Any) -> Any:
        return x


class _Built(Layer):
    def build(self, shape: Any) -> None: ...

    def forward(self, x: Any) -> Any:
        return x @ self.w


def two_of(x: Any) -> Any:
    a, b = x
    return a, b


# What somebody writes, and the part of the sentence that says what to write instead.
SLIPS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: optimizers.SGD(0.1).zero_grad(), AttributeError, r"optimizer\.update\(weights\)"),
    (lambda: optimizers.Adam(lr=0.1).param_groups, AttributeError, r"Trainer"),
    (lambda: optimizers.StepLR(step_size=3).step(), AttributeError, r"SGD\(lr=schedule\)"),
    (lambda: optimizers.StepLR(optimizers.SGD(0.1), step_size=3), ConfigError, r"SGD\(lr=StepLR\(lr=0\.1"),
    (lambda: optimizers.StepLR(0.1, step_size=3), ConfigError, r"by name: StepLR\(lr=0\.1, step_size=3\)"),
    (lambda: losses.QuantileLoss(0.9), ConfigError, r"name it: QuantileLoss\(quantile=\.\.\.\)"),
    (lambda: clnet.Trainer(Dense(out_features=1), optimizers.Adam(), "mse"), ConfigError, "loss comes second"),
    (lambda: clnet.Trainer(Dense(out_features=1), ["mse", "mse"]), ConfigError, "several outputs"),
    (lambda: clnet.train.EarlyStopping(restore_best_weights=True), UseError, "'restore_best'"),
    (lambda: clnet.train.ModelCheckpoint(filepath="x"), UseError, "'path'"),
    (lambda: clnet.tensor(X, requires_grad=True), UseError, r"clnet\.gradients"),
    (lambda: clnet.Parameter(3, 4), UseError, r"np\.zeros"),
    (lambda: clnet.tensor(X).size(0), UseError, r"x\.shape\[0\]"),
    (lambda: two_of(clnet.tensor(X)), UseError, "expected 4 names .* got 2"),
    (lambda: two_of(LSTM(3, 5)(X[:, None])), UseError, "return_state=True"),
    (lambda: clnet.tensor(X).repeat(1, 2), ShapeError, "tile"),
    (lambda: clnet.tensor(X).eq(1), AttributeError, r"clnet\.ops\.equal"),
    (lambda: clnet.tensor(X).new_zeros(3), AttributeError, r"clnet\.ops\.zeros"),
    (lambda: F.conv2d(X, X), AttributeError, r"conv\(x, weight, bias"),
    (lambda: F.normalize(X), AttributeError, r"ops\.norm"),
    (lambda: clnet.Conv2D(3), AttributeError, r"clnet\.layers\.Conv2d"),
    (lambda: layers.Concat(), AttributeError, r"Concatenate\(\)"),
    (lambda: layers.MultiHeadAttention(3, 1)(X[:, None], attn_mask=None), ShapeError, "write mask=, True where"),
    (lambda: clnet.gradients(lambda w: w.sum(), [clnet.tensor(X)]), UseError, r"gradients\(f\(w\), \[w\]\)"),
    (lambda: clnet.gradients(F.sum(X * clnet.tensor(X)), [X]), UseError, r"clnet\.tensor\(array\)"),
    (lambda: Dense(3, 2)(X, training=False), ShapeError, r"model\.eval\(\)"),
    (lambda: clnet.Tensor([1, 2]), UseError, r"clnet\.tensor\(values\)"),  # type: ignore[arg-type]
    (lambda: clnet.Tensor(2, 3), UseError, r"clnet\.ops\.zeros\(shape\)"),  # type: ignore[arg-type]
    (lambda: clnet.models.gcn(), UseError, r"gcn: expected arguments \(features, .* got no 'features'; pass it"),
    (lambda: clnet.models.gpt(vocab_size=9), UseError, "did you mean 'letters'"),
    (lambda: clnet.models.unet(num_classes=2), UseError, "did you mean 'channels'"),
    (lambda: clnet.models.resnet18(pretrained=True), UseError, r"load_weights\(path\)"),
    (lambda: clnet.models.mlp(in_features=3), UseError, r"model\.build\(shape\)"),
    (lambda: clnet.Model(inputs=clnet.Input((3,))), UseError, "got no 'outputs'"),
    (lambda: F.random.normal((2, 3)), UseError, r"got no 'key'; .*self\.random\.advance\(\)"),
    (lambda: F.randn_like(X), AttributeError, r"draws anew in every step"),
    (lambda: Classifier(solver="adam"), UseError, "Classifier: .*did you mean 'optimizer'"),
    (lambda: Classifier(learning_rate_init=0.1), UseError, "did you mean 'learning_rate'"),
    (lambda: _Called()(X), ConfigError, "forward.* in place of call"),
    (lambda: _Built()(X), AttributeError, r"setup\(self, new\) in place of build"),
    (lambda: _Called().save("x"), AttributeError, r"clnet\.Sequential\(layer\)"),
]


@pytest.mark.parametrize(("written", "error", "told"), SLIPS)
def test_a_habit_is_told_what_to_write(written: Callable[[], Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        written()


@pytest.mark.parametrize("written", [
    lambda x: F.relu(x), lambda x: x[:, 0], lambda x: x.reshape(3, 1), lambda x: x / 2, lambda x: 1 - x,
    lambda x: F.concat([x, x], 1), lambda x: np.exp(x), lambda x: x @ x, list])
def test_what_is_wired_goes_through_layers(written: Callable[[Any], Any]) -> None:
    with pytest.raises(UseError, match=r"^Input: expected layers .* Lambda\(function\)\(x\)"):
        written(clnet.Input((3,)))
    with pytest.raises(ConfigError, match=r"Lambda\(lambda x: 2 \* x\)"):
        _ = clnet.Input((3,)) * 2


def test_lists_of_inputs_are_inputs() -> None:
    """Keras's Concatenate()([a, b]), of arrays and of what is wired."""
    a, b = clnet.Input((3,)), clnet.Input((2,))
    model = clnet.Model([a, b], Concatenate()([a, b]))
    assert model(X, X[:, :2]).shape == Concatenate()([X, X[:, :2]]).shape == (4, 5)
    assert layers.Add()([X, X]).tolist() == (X + X).tolist()
    assert Dense(2, 1)([[1.0, 2.0]]).shape == (1, 1), "a list of numbers stays an array"


def test_arrays_are_tuples_of_fields() -> None:
    for weight in (np.array([1, 2], np.float32), clnet.tensor([1.0, 2.0]), [1, 2]):
        assert losses.CrossEntropyLoss(weight=weight).weight == (1.0, 2.0)  # type: ignore[arg-type]
    assert optimizers.MultiStepLR(lr=0.1, milestones=np.array([3, 5])).milestones == (3, 5)  # type: ignore[arg-type]
    loss = losses.CrossEntropyLoss()
    loss.weight = np.array([1.0, 3.0])  # type: ignore[assignment]
    assert loss.weight == (1.0, 3.0)


def test_tensors_as_in_pytorch() -> None:
    x = clnet.tensor(X)
    assert x.unsqueeze(1).expand(-1, 5, -1).shape == (4, 5, 3) and x.expand(2, -1, -1).shape == (2, 4, 3)
    with pytest.raises(ShapeError, match=r"got \(-1, 4, 3\)"):
        x.expand(-1, 4, 3)
    a, *rest = x
    assert len(rest) == 3 and np.array_equal(a.numpy(), X[0]) and len(dict(zip("abcd", x, strict=True))) == 4
    assert round(x.mean(), 2) == round(float(X.mean()), 2) and x.size == 12 and F.zeros(x.size).shape == (12,)


def test_one_tensor_to_derive_by_is_not_its_rows() -> None:
    x = clnet.tensor(X)
    (slope,) = clnet.gradients(F.sum(x * x), x)  # type: ignore[arg-type]
    assert np.array_equal(slope.numpy(), 2 * X)


def test_a_pair_of_states() -> None:
    lstm, x = LSTM(3, 5, return_state=True), X[:, None]
    _, h, c = lstm(x)
    for ours, theirs in zip(lstm(x, h, c), lstm(x, (h, c)), strict=True):
        assert np.array_equal(ours.numpy(), theirs.numpy())


def test_a_fit_of_keras() -> None:
    model = clnet.Sequential(Dense(3, 2))
    trainer = clnet.Trainer(model, "crossentropy", "adam", metrics=["acc"])
    found = trainer.fit(X, np.array([0, 1, 1, 0]), epochs=1, batch_size=2, verbose=0, shuffle=True,
                        steps_per_epoch=None, validation_data=(X, np.array([0, 1, 1, 0])))
    assert "val_accuracy" in found.history
    with pytest.raises(ConfigError, match="always shuffled"):
        trainer.fit(X, np.array([0, 1, 1, 0]), shuffle=False)


def test_a_history_says_what_it_has() -> None:
    trainer = clnet.Trainer(clnet.Sequential(Dense(3, 1)), "mse")
    found = trainer.fit(X, X[:, :1], epochs=2, verbose=False)
    assert "loss" in found and "val_loss" not in found and len(found["loss"]) == 2
    keys = (("val_loss", r"fit\(validation=0\.2\)"), ("los", "did you mean 'loss'"), (-1, r"history\.rows\[-1\]"))
    for key, told in keys:
        with pytest.raises(KeyError, match=f"^History: expected the name of a column, of epoch, loss, .*{told}"):
            found[key]  # type: ignore[index]
    with pytest.raises(AttributeError, match=r"History has no 'loss'; write history\['loss'\]\.$"):
        _ = found.loss  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match=r"fit\(resume=True\): expected the file that .*Checkpoint\(path\)"):
        trainer.fit(X, X[:, :1], epochs=3, verbose=False, resume=True)  # type: ignore[arg-type]


def test_pytorch_takes_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    mine = clnet.tensor(X)
    for theirs in (torch.tensor(mine), torch.as_tensor(mine), torch.from_dlpack(mine)):
        assert np.array_equal(theirs.numpy(), X)
        theirs += 1
    assert np.array_equal(mine.numpy(), X)


def test_data_is_a_module() -> None:
    import clnet.data as imported
    from clnet.data import from_arrays

    assert imported is clnet.data and from_arrays is clnet.data.from_arrays


class _Forgetful(Layer):
    def forward(self, x: Any) -> Any:
        return Dense(3, 1)(x)


class _Named(Layer):
    def setup(self, new: Any) -> None:
        self.inner = Dense(3, 1)

    def forward(self, x: Any) -> Any:
        return {"logits": self.inner(x)}


class _Scored(losses.Loss):
    def forward(self, output: Any, target: Any) -> Any:
        return F.mean(output)


def frozen() -> Any:
    return clnet.Sequential(Dense(3, 1)).freeze("*")


# What learns nothing, or is no loss: (model, loss, what is said).
NOTHING: list[tuple[Callable[[], Any], Any, str]] = [
    (_Forgetful, "mse", "make the layers of a layer in its setup"), (frozen, "mse", "unfreeze"),
    (_Named, lambda out, y: F.mean(out["logits"]), r"tuple of tensors; got a dict with 'logits'"),
    (lambda: Dense(3, 1), lambda out, y: F.mean(y), "none of them reaches"),
    (lambda: Dense(3, 1), lambda out, y: F.mean(F.round(out).detach() - y), "none of them reaches"),
    (lambda: Dense(3, 1), lambda out, y: 0.0, "one number, as a tensor; got 0.0"),
    (lambda: Dense(3, 1), lambda out, y: (out - y) ** 2, r"shape \(4, 1\); take their mean\(\)"),
    (lambda: Dense(3, 1), losses.MSELoss(reduction="none"), r"take their mean\(\)"),
    (lambda: Dense(3, 1), lambda out, y: None, "write return"),
    (lambda: Dense(3, 1), _Scored(), r"formula\(self, prediction, target\)"),
]


@pytest.mark.parametrize(("model", "loss", "told"), NOTHING)
def test_training_that_would_learn_nothing_is_refused(model: Callable[[], Any], loss: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        clnet.Trainer(model(), loss).fit(X, X[:, :1], epochs=1, verbose=False)


def test_layers_in_a_row_as_people_write_them() -> None:
    """Names and functions between layers, named layers, Keras's Input; the rest says what it lacks."""
    model = clnet.Sequential(clnet.Input((3,)), Dense(out_features=4), "relu", F.tanh, lambda x: 2 * x)
    assert [type(x).__name__ for x in model.layers] == ["Input", "Dense", "Activation", "Activation", "Lambda"]
    assert model(X).shape == (4, 4) and model.append("softmax").layers[-1].name == "softmax"
    first, last = Dense(3, 4), Dense(4, 2)
    assert clnet.Sequential({"first": first, "last": last}).layers == (first, last)
    with pytest.raises(ConfigError, match=r"got none; write Sequential\(Dense"):
        clnet.Sequential()
    with pytest.raises(ConfigError, match="'relu'"):
        clnet.Sequential(Dense(3, 4), "rleu")


def test_a_loop_over_new_shapes_is_told_what_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network._Network, "_told", False)
    model = clnet.Sequential(Dense(3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (*range(1, network.SHAPES), 1, 2):
            model(np.ones((n, 3), np.float32))
        recorded = clnet.Recorded(model)
        for n in range(1, 12):
            recorded(np.ones((n, 3), np.float32))
    with pytest.warns(UserWarning, match=r"8 different shapes.*clnet\.Recorded\(model\)"):
        model(np.ones((20, 3), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(np.ones((21, 3), np.float32))


class _Twice(Layer):
    def setup(self, new: Any) -> None:
        self.inner = Dense(3, 2)

    def forward(self, a: Any, b: Any) -> Any:
        return self.inner(a), self.inner(b)


def test_a_loss_takes_the_two_outputs_of_a_siamese_network() -> None:
    trainer = clnet.Trainer(_Twice(), "contrastive", "adam")
    same = np.array([0, 1, 1, 0], np.float32)
    found = trainer.fit((X, X[::-1].copy()), same, epochs=1, batch_size=4, verbose=False)
    assert found["loss"][0] > 0
    a, b = trainer.predict((X, X[::-1].copy()))
    assert np.isclose(trainer.evaluate((X, X[::-1].copy()), same)["loss"], losses.ContrastiveLoss()(a, b, same).item())
    with pytest.raises(ShapeError, match=r"2 outputs of a model in a tuple.*lambda out, y: MSELoss\(\)\(out\[0\], y\)"):
        clnet.Trainer(_Twice(), "mse").fit((X, X), X[:, :2], verbose=False)
    with pytest.raises(ShapeError, match=r"TripletLoss\(\)\(\*out\)"):
        losses.TripletLoss()((clnet.tensor(X),) * 3, X)


@pytest.mark.parametrize("targets", [(X, X[:, 0]), [X[:, :1], X[:, 1:]], {"class": X[:, 0]}])
def test_several_arrays_of_targets_are_told_to_be_one(targets: Any) -> None:
    with pytest.raises(DataError, match=r"one array of targets; got \d in a \w+; .*np\.column_stack\(\[a, b\]\)"):
        clnet.Trainer(Dense(3, 1), "mse").fit(X, targets, verbose=False)


def test_lists_of_rows_are_targets() -> None:
    for rows in ([list(row) for row in X], list(X), tuple(X), list(map(tuple, X))):
        assert len(clnet.Trainer(Dense(3, 3), "mse").fit(X, rows, epochs=1, verbose=False)["loss"]) == 1


@pytest.mark.parametrize(("channels", "told"), [(1, r"y\[:, None\]"), (2, r"np\.moveaxis\(np\.eye\(2\)\[y\], -1, 1\)")])
def test_a_mask_without_channels_is_told_its_axis(channels: int, told: str) -> None:
    with pytest.raises(ShapeError, match=told):
        losses.DiceLoss()(np.full((2, channels, 4, 4), 0.5, np.float32), np.ones((2, 4, 4), np.float32))
