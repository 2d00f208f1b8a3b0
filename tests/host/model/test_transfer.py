"""What a network keeps of another's training: parameters that stay as they are, values by names and shapes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import clnet
from clnet.errors import CheckpointError, ConfigError
from clnet.layers import (
    GRU,
    LSTM,
    Activation,
    BatchNorm,
    Bidirectional,
    Conv2d,
    ConvTranspose2d,
    Dense,
    Embedding,
    Flatten,
    GroupNorm,
    LayerNorm,
    PReLU,
    TransformerEncoderBlock,
)
from clnet.model import Sequential, to_torch_state_dict


def network() -> Sequential:
    model: Sequential = Sequential(Dense(4, 8, activation="relu"), Dense(8, 3))
    return model


def test_frozen_parameters_stay_and_thaw() -> None:
    with clnet.on("numpy"):
        model = network()
        x, y = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32), np.arange(16) % 3
        trainer = clnet.Trainer(model, "cross_entropy", "sgd")

        def moved() -> list[str]:
            before = {n: v.numpy().copy() for n, v in model.variables().items()}
            trainer.fit(x, y, epochs=1, batch_size=16, verbose=False)
            return [n for n, v in model.variables().items() if (v.numpy() != before[n]).any()]

        assert moved() == ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
        assert model.freeze("layers.0") is model
        assert moved() == ["layers.1.weight", "layers.1.bias"]
        model.freeze("*.bias").unfreeze("layers.0.weight")
        assert moved() == ["layers.0.weight", "layers.1.weight"]
        assert len(model.parameters()) == 2 and model.summary().trainable == 4 * 8 + 8 * 3


def test_a_trained_model_is_copied_and_pickled() -> None:
    with clnet.on("numpy"):
        model = network().use("numpy")
        x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
        clnet.Trainer(model, "mse", "adam").fit(x, x[:, :3], epochs=1, verbose=False)
        wanted = model.freeze("*.bias")(x).numpy()
        for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):  # noqa: S301
            assert (again(x).numpy() == wanted).all()
            assert [v.path for v in again.parameters()] == ["layers.0.weight", "layers.1.weight"]
            again[0].weight.assign(again[0].weight * 0)
            assert (model(x).numpy() == wanted).all()


def test_names_that_nothing_has_are_told() -> None:
    with pytest.raises(ConfigError, match=r"^Sequential\.freeze: .* got 'layers\.2'; did you mean 'layers\.[01]'\?$"):
        network().freeze("layers.2")
    with pytest.raises(ConfigError, match=r"^Sequential\.freeze: expected names of parameters or layers.* got 0"):
        network().freeze(0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^Sequential\.unfreeze: .* got 'none'|^Sequential\.unfreeze: .* got none"):
        network().unfreeze()
    with pytest.raises(ConfigError, match=r"expected a model with parameters; got none; call it once"):
        Sequential(Dense(out_features=2)).freeze("*")


def test_a_frozen_weight_takes_memory_and_has_no_gradient() -> None:
    with clnet.on("numpy"):
        model = Sequential(Dense(3, 4), Dense(4, 2)).freeze("layers.0")
        memory = model.summary((3,)).memory
        assert memory["parameters"] == 4 * (16 + 10) and memory["gradients"] == 4 * 10 and "buffers" not in memory


# --- values of other networks
def convolutional() -> Sequential:
    model: Sequential = Sequential(Conv2d(1, 4, 3), BatchNorm(), Activation("relu"), Flatten(), Dense(out_features=5))
    return model.build((1, 6, 6))


def test_what_fits_is_taken_and_the_rest_is_told() -> None:
    with clnet.on("numpy"):
        ours, other = convolutional(), convolutional()
        theirs = {n: v.numpy() + 1 for n, v in other.variables().items()}
        assert ours.load_weights(theirs, strict=True).loaded == {n: n for n in theirs}
        assert (ours[0].weight.numpy() == theirs["layers.0.weight"]).all()
        head = {**theirs, "layers.4.weight": np.zeros((7, 64), np.float32), "layers.4.bias": np.zeros(7, np.float32)}
        del head["layers.1.running_mean"]
        report = ours.load_weights({**head, "extra.w": np.ones(3)})
        assert sorted(report.loaded) == ["layers.0.bias", "layers.0.weight"]
        assert sorted(report.wrong_shape) == ["layers.4.bias", "layers.4.weight"]
        assert report.missing == [n for n in theirs if n.startswith("layers.1.")]
        assert report.unexpected == [n for n in head if n.startswith("layers.1.")] + ["extra.w"]
        assert "missing: keeps its value" in str(report) and "shape (5, 64), theirs (7, 64)" in str(report)
        with pytest.raises(CheckpointError, match=r"expected values for all of the model; got .*of another shape"):
            ours.load_weights(head, strict=True)
        with pytest.raises(CheckpointError, match="expected values that fit the model; got 0 variables loaded"):
            ours.load_weights({"a": np.ones(3)})


def test_safetensors_without_an_order_need_names(tmp_path: Path) -> None:
    file = tmp_path / "theirs.safetensors"
    arrays = {f"{n}.{v}": np.full(s, k, np.float32) for k, n in enumerate(("fc", "head", "1"))
              for v, s in (("weight", (4, 4)), ("bias", (4,)))}
    safetensors.numpy.save_file(arrays, file)
    with clnet.on("numpy"):
        model = Sequential(Dense(4, 4), Dense(4, 4))
        with pytest.raises(ConfigError, match=r"which layer comes first; got .* both alike; safetensors"):
            model.load_weights(file)
        report = model.load_weights(file, names={"head": "layers.0", "fc": "layers.1"})
        assert sorted(report.unexpected) == ["1.bias", "1.weight"] and report.loaded["layers.1.bias"] == "fc.bias"
        assert (model[0].bias.numpy() == 1).all() and (model[1].bias.numpy() == 0).all()


def test_values_of_pytorch_give_its_outputs_and_go_back(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)

    class Words(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 6)
            self.rnn = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
            self.gru = nn.GRU(10, 8, num_layers=2, batch_first=True)
            self.block = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
            self.out = nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            return self.out(self.block(self.gru(self.rnn(self.table(x))[0])[0]))

    pictures = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.PReLU(), nn.ConvTranspose2d(4, 2, 3),
                             nn.GroupNorm(2, 2), nn.Flatten(), nn.Linear(72, 8), nn.LayerNorm(8), nn.Linear(8, 5))
    pictures(torch.randn(8, 1, 6, 6))  # running statistics
    words = Words()
    x, t = torch.randn(2, 1, 6, 6), torch.randint(0, 9, (2, 4))
    with clnet.on("numpy"):
        ours = Sequential(Conv2d(1, 4, 3), BatchNorm(), PReLU(channels=1), ConvTranspose2d(4, 2, 3),
                          GroupNorm(num_groups=2), Flatten(), Dense(72, 8), LayerNorm(), Dense(8, 5)).build((1, 6, 6))
        text = Sequential(Embedding(9, 6), Bidirectional(layer=LSTM(6, 5)), GRU(10, 8, num_layers=2),
                          TransformerEncoderBlock(d_model=8, num_heads=2, d_ff=16, dropout=0.0, activation="relu",
                                                  norm_first=False), Dense(8, 3)).build((4,), dtype="int32")
        for mine, theirs, inputs in ((ours, pictures.eval(), x), (text, words.eval(), t)):
            torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
            for source in (theirs.state_dict(), tmp_path / "theirs.pt"):
                mine.load_weights(source, strict=True)
                wanted = theirs(inputs).detach().numpy()
                assert np.allclose(mine.eval()(inputs.numpy()).numpy(), wanted, rtol=1e-4, atol=1e-5)
        back = {n: torch.from_numpy(a) for n, a in to_torch_state_dict(ours).items()}
        pictures.load_state_dict(back)
        assert all((back[n] == v).all() for n, v in pictures.state_dict().items() if n in back)
        parts = dict(zip("01234", ("table", "rnn", "gru", "block", "out"), strict=True))
        words.load_state_dict({parts[n[0]] + n[1:]: torch.from_numpy(a) for n, a in to_torch_state_dict(text).items()})
        assert np.allclose(words(t).detach().numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_another_network_is_a_source_of_its_own() -> None:
    """Copies of one's own kind, as those of a target network, and of PyTorch's; anything else is no source."""
    mine, other = (clnet.Sequential(Dense(3, 4), Dense(4, 2)) for _ in range(2))
    assert len(mine.load_weights(other).loaded) == 4
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(mine.parameters(), other.parameters(), strict=True))
    with pytest.raises(ConfigError, match=r"load_weights: expected a file, a network, or arrays by name; got 3"):
        mine.load_weights(3)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=r"model\.load_weights\(other\)"):
        mine.load(other)  # type: ignore[arg-type]
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    mine.load_weights(theirs)
    assert np.allclose(mine(np.ones((1, 3), np.float32)).numpy(), theirs(torch.ones(1, 3)).detach().numpy(), atol=1e-6)
