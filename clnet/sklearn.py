"""Networks as estimators of scikit-learn: they work in Pipeline, GridSearchCV and with joblib."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import init
from .engine import current, on
from .errors import ConfigError
from .layers import Dense, Dropout, Flatten
from .layers.base import Layer
from .losses import CrossEntropyLoss, MSELoss
from .losses.base import Loss
from .losses.reading import CLASSES, reading
from .model.sequential import Sequential
from .names import told
from .optimizers.base import Optimizer
from .train.callbacks import EarlyStopping
from .train.callbacks.base import several
from .train.options import loss_of, optimizer_of
from .train.trainer import Trainer

__all__ = ["Classifier", "Regressor"]

Array = np.ndarray[Any, Any]
LARGEST = 2**31 - 1  # seeds
ARGUMENTS = """

model                 None: Dense layers of the sizes below; a network, of which every fit takes a copy, or a
                      function (shape of a sample, number of outputs) -> network, which a fit calls
hidden_layer_sizes    sizes of the Dense layers between input and output
activation, dropout   behind each of them
loss, optimizer       objects, classes or names, as the Trainer takes them
learning_rate         None: the optimizer's own
batch_size            None: what the optimizer is meant for
max_iter              epochs at most
tol, n_iter_no_change training ends when the loss has not improved by tol for so many epochs; None: never
early_stopping        whether that is the loss of samples that are held out, validation_fraction of all;
                      the best epoch is kept then
device, precision     what `clnet.use` and the Trainer take; None: those in use
random_state          of initial values, order of samples and Dropout
warm_start            whether `fit` goes on from where the last one ended
callbacks, verbose    as `Trainer.fit` takes them
Fitted: `model_`, `n_iter_` (epochs), `loss_curve_`, `n_features_in_`, and `history_`, where `fit` was called.
"""


@dataclass(eq=False, repr=False)
class _Estimator(BaseEstimator):
    """A network with `fit` and `predict` as scikit-learn has them: the fields are the constructor."""

    model: Layer | Callable[..., Layer] | None = None
    _: KW_ONLY
    hidden_layer_sizes: Sequence[int] | int = (100,)
    activation: str = "relu"
    dropout: float = 0.0
    loss: str | type[Loss] | Callable[..., Any] | None = None
    optimizer: str | type[Optimizer] | Optimizer = "adam"
    learning_rate: float | None = None
    batch_size: int | None = None
    max_iter: int = 200
    tol: float = 1e-4
    n_iter_no_change: int | None = 10
    early_stopping: bool = False
    validation_fraction: float = 0.1
    device: str | int | None = None
    precision: str | None = None
    random_state: Any = None
    warm_start: bool = False
    callbacks: Any = ()
    verbose: bool = False

    # --- what differs
    def _default_loss(self) -> Loss:
        raise NotImplementedError

    def _learned(self, y: Array, reset: bool, classes: Any = None, weight: Array | None = None) -> Array:
        """The targets as the network learns them; with `reset` it is noted what they are, all `classes`, and how much
        each of them weighs.
        """
        raise NotImplementedError

    def _outputs(self) -> int:
        raise NotImplementedError

    def _stratified(self, targets: Array) -> Array | None:
        """What held-out samples are drawn in proportion to."""
        return None

    # --- fitting
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Trains a new network (with warm_start the same one) on samples X (N, …) and targets y. Returns itself.

        sample_weight   (N), how much each sample counts: the loss of a batch is Σ w l / Σ w. A sample of weight 0 is
                        left out; one of weight 2 counts as if it were there twice, exactly where a batch holds all
                        samples; in several batches it comes in one of them
        Held-out samples (early_stopping) count the same, each once.
        """
        go_on = bool(self.warm_start) and "model_" in vars(self)
        X, y, weight = self._checked(X, y, True, sample_weight)
        targets = self._learned(y, not go_on, weight=weight)
        held = None
        with self._seeded() as seed:
            if not go_on:
                self._begin(X)
            if self.early_stopping:
                parts = train_test_split(
                    X, targets, *([] if weight is None else [weight]), test_size=self.validation_fraction,
                    random_state=seed, stratify=self._stratified(targets))
                X, other_x, targets, other_y, *both = parts
                held, weight = (other_x, other_y), both[0] if both else None
            self._train(X, targets, weight, self._epochs(), seed, held, [*several(self.callbacks), *self._watching()])
        return self

    def _one_epoch(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        new = "model_" not in vars(self)
        X, y, weight = self._checked(X, y, new, sample_weight)
        targets = self._learned(y, new, classes, weight)
        with self._seeded() as seed:
            if new:
                self._begin(X)
            self._train(X, targets, weight, 1, seed + self.n_iter_)
        return self

    def _checked(self, X: Any, y: Any, reset: bool, sample_weight: Any = None) -> tuple[Array, Array, Array | None]:
        """Samples, targets and weights; what weighs nothing is left out, and where all weigh the same, they weigh None.
        """
        options = dict(multi_output=True, y_numeric=True) if isinstance(self, RegressorMixin) else {}
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float32, allow_nd=self.model is not None, **options)
        if sample_weight is None:
            return X, y, None
        weight = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
        counts = weight > 0
        if not counts.any():
            raise ValueError(f"{type(self).__name__}.fit: expected a sample_weight above 0; got none.")
        X, y, weight = (X, y, weight) if counts.all() else (X[counts], y[counts], weight[counts])
        return X, y, None if (weight == weight[0]).all() else weight

    def _watching(self) -> list[EarlyStopping]:
        if self.n_iter_no_change is None:
            return []
        monitor = "val_loss" if self.early_stopping else "loss"
        return [EarlyStopping(monitor, self.n_iter_no_change, self.tol, "min", bool(self.early_stopping))]

    def _begin(self, X: Array) -> None:
        """A network of its own, built for these samples, and what is known of its training: nothing yet."""
        with on(self._engine()):
            self.model_ = self._network(X.shape[1:], self._outputs())
            getattr(self.model_, "build", self.model_)(X[:2])
        self.n_iter_, self.loss_curve_ = 0, list[float]()
        self._trainer = self._made_trainer()

    def _network(self, shape: tuple[int, ...], outputs: int) -> Layer:
        if self.model is None:
            return self._dense(shape, outputs)
        if isinstance(self.model, Layer):
            return Layer.from_config(self.model.config())  # type: ignore[no-any-return]
        made = self.model(shape, outputs) if callable(self.model) else None
        if not isinstance(made, Layer):
            raise ConfigError(
                f"{type(self).__name__}(model=...): expected a network, or a function (shape, outputs) -> network; "
                f"got {made if callable(self.model) else self.model!r}.")
        return made

    def _dense(self, shape: tuple[int, ...], outputs: int) -> Layer:
        sizes = self.hidden_layer_sizes if isinstance(self.hidden_layer_sizes, Iterable) else [self.hidden_layer_sizes]
        layers: list[Layer] = [Flatten()] if len(shape) > 1 else []
        for n in sizes:
            layers.append(Dense(out_features=int(n), activation=self.activation))
            if self.dropout:
                layers.append(Dropout(p=self.dropout))
        return Sequential([*layers, Dense(out_features=outputs)])

    def _train(self, X: Array, targets: Array, weight: Array | None, epochs: int, seed: int, held: Any = None,
               callbacks: Any = ()) -> None:
        with on(self._engine()):
            history = self._trainer.fit(X, targets, epochs=epochs, batch_size=self.batch_size, validation=held,
                                        seed=seed, verbose=self.verbose, callbacks=list(callbacks),
                                        sample_weight=weight)
        self.history_ = history.history
        self.loss_curve_ = [*self.loss_curve_, *history["loss"]]
        self.n_iter_ += len(history)

    def _epochs(self) -> int:
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ConfigError(
                f"{type(self).__name__}(max_iter={self.max_iter!r}): expected a number of epochs, at least 1.")
        return int(self.max_iter)

    # --- what it is trained with
    def _made_trainer(self) -> Trainer:
        return Trainer(self.model_, self._made_loss(), self._made_optimizer(), metrics=(), precision=self.precision)

    def _made_loss(self) -> Callable[..., Any]:
        return self._default_loss() if self.loss is None else loss_of(self.loss)

    def _made_optimizer(self) -> Optimizer:
        """One of its own: the one given stays as it is."""
        given = self.optimizer
        made: Optimizer = Optimizer.from_config(given.config()) if isinstance(given, Optimizer) else optimizer_of(given)
        if self.learning_rate is not None:
            made.lr = self.learning_rate
        return made

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[int]:
        """What is drawn inside follows random_state; other networks of the process draw as if nothing had been."""
        seed = int(check_random_state(self.random_state).randint(LARGEST))
        with init.seeded(seed):
            yield seed

    def _engine(self) -> Any:
        return current() if self.device is None else self.device

    # --- using
    def _asked(self, method: str, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float32, allow_nd=self.model is not None)
        with on(self._engine()):
            return np.asarray(getattr(self._trainer, method)(X))

    def __getstate__(self) -> dict[str, Any]:
        """Without the trainer, which holds what is compiled: `partial_fit` of a copy begins the optimizer anew."""
        state: dict[str, Any] = super().__getstate__()
        return {k: v for k, v in state.items() if k != "_trainer"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "model_" in vars(self):
            self._trainer = self._made_trainer()


@dataclass(eq=False, repr=False)
class Classifier(ClassifierMixin, _Estimator):
    __doc__ = "A network that tells classes apart, as an estimator of scikit-learn." + ARGUMENTS.replace(
        "Fitted: ", """\
class_weight          of the classes in the loss: None, "balanced" (N / (C N_c)) or {class: weight}
Fitted: `classes_`, """)

    class_weight: str | Mapping[Any, float] | None = field(default=None, kw_only=True)

    def _default_loss(self) -> Loss:
        return CrossEntropyLoss(weight=self._weight)

    def _made_loss(self) -> Callable[..., Any]:
        found = super()._made_loss()
        if reading(found) not in CLASSES:
            raise ConfigError(f"Classifier(loss={self.loss!r}): expected a loss between classes, as 'cross_entropy'; "
                              f"got one on {reading(found) or 'what it does not say'}; a Regressor takes others.")
        if self.loss is not None and self.class_weight is not None:
            raise ConfigError("Classifier(class_weight=...): expected no loss beside it; got both; "
                              "write the weights into the loss: CrossEntropyLoss(weight=(...)).")
        return found

    def _learned(self, y: Array, reset: bool, classes: Any = None, weight: Array | None = None) -> Array:
        check_classification_targets(y)
        if reset:
            self.classes_ = np.unique(y) if classes is None else np.unique(classes)
        if strange := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist())):
            raise ValueError(f"{type(self).__name__}: expected labels of the classes {self.classes_.tolist()}; "
                             f"got {strange[0]!r}.")
        if reset:
            self._weight = None
            if self.class_weight is not None:
                self._weight = tuple(compute_class_weight(self.class_weight, classes=self.classes_, y=y,
                                                          sample_weight=weight).tolist())
        return np.searchsorted(self.classes_, y).astype(np.int32)

    def _outputs(self) -> int:
        return len(self.classes_)

    def _stratified(self, targets: Array) -> Array | None:
        return targets

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """One epoch over these samples. The first call may say all `classes` that are to come. Returns itself."""
        return self._one_epoch(X, y, classes, sample_weight)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (N, classes), in the order of `classes_`."""
        return self._asked("predict_proba", X)

    def predict(self, X: Any) -> Array:
        """The most likely class of every sample."""
        found: Array = self._asked("predict", X).argmax(1)
        return self.classes_[found]  # type: ignore[no-any-return]


@dataclass(eq=False, repr=False)
class Regressor(RegressorMixin, _Estimator):
    __doc__ = "A network that predicts one number a sample, or several, as an estimator of scikit-learn." + ARGUMENTS

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _default_loss(self) -> Loss:
        return MSELoss()

    def _learned(self, y: Array, reset: bool, classes: Any = None, weight: Array | None = None) -> Array:
        if reset:
            self._shape = y.shape[1:]
        if y.shape[1:] != self._shape:
            raise ValueError(f"{type(self).__name__}: expected targets {('N', *self._shape)}; got shape {y.shape}.")
        return y.astype(np.float32).reshape(len(y), -1)

    def _outputs(self) -> int:
        return int(np.prod(self._shape, dtype=int))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """One epoch over these samples. Returns itself."""
        return self._one_epoch(X, y, sample_weight=sample_weight)

    def predict(self, X: Any) -> Array:
        """The numbers of every sample, in the shape of the targets of `fit`."""
        found = self._asked("predict", X).astype(np.float64)
        return found.reshape(len(found), *self._shape)


for _kind in (Classifier, Regressor):
    _kind.__init__ = told(_kind.__init__, _kind.__name__)  # type: ignore[method-assign]
