"""Names that nobody has: every public module and every table answers with something that is there."""

from __future__ import annotations

import ast
import copy
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import called, habits, names, ops
from clnet import ops as F
from clnet.config import Configured
from clnet.errors import UnknownNameError, UseError
from clnet.layers import Dense

MODULES = ["clnet", "clnet.ops", "clnet.layers", "clnet.losses", "clnet.optimizers", "clnet.optimizers.schedules",
           "clnet.train", "clnet.train.data", "clnet.train.callbacks", "clnet.train.metrics", "clnet.metrics",
           "clnet.augment",
           "clnet.engine", "clnet.engine.device.devices", "clnet.engine.explain", "clnet.errors", "clnet.init",
           "clnet.facade", "clnet.workbench", "clnet.config", "clnet.model", "clnet.model.files"]


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_answers_for_every_slip(module: str) -> None:
    found = importlib.import_module(module)
    for name in names.public(module):
        if len(name) > 5 and name[0] != "_" and not hasattr(found, slip := name[:2] + name[3:]):
            with pytest.raises(AttributeError, match=r"did you mean '\w+'\?$|; it is clnet[\w.]+\.$|clnet calls it"):
                getattr(found, slip)
    with pytest.raises(AttributeError, match=f"module '{module}' has no 'qqqqqq'\\.$"):
        _ = found.qqqqqq
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'"):
        _ = found.__wrapped__


@pytest.mark.parametrize("package", ["clnet.layers", "clnet.losses", "clnet.optimizers", "clnet.augment"])
def test_a_package_offers_what_its_modules_have_and_editors_see(package: str) -> None:
    """What is imported when somebody asks is what mypy reads, and no class that a module registers is left out."""
    found = importlib.import_module(package)
    (block,) = (n for n in ast.parse(inspect.getsource(found)).body if isinstance(n, ast.If))
    seen = {a.name: f"{package}.{n.module}" for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert seen == names.OFFERED[package] and sorted(seen) == found.__all__ == dir(found)
    for name, module in seen.items():
        assert getattr(found, name).__module__ == module
    for module in pkgutil.iter_modules(found.__path__):
        importlib.import_module(f"{package}.{module.name}")
    registered = {c.__name__ for family in Configured.families for c in family.registry.values()
                  if c.__module__.startswith(f"{package}.")}
    assert registered <= seen.keys()


def test_one_class_is_imported_with_what_it_is_made_of_alone() -> None:
    script = """
import sys
import clnet
from clnet.layers import Dense
assert "GraphConvolution" in dir(clnet.layers) and not hasattr(clnet.layers, "Dens")
clnet.layers.Layer.from_config({"type": "LSTM", "input_size": 2, "hidden_size": 2})
clnet.train.options.optimizer_of("adam"), clnet.train.options.loss_of("cross_entropy")
print(*sorted(m for m in sys.modules if m.startswith(("clnet.layers.", "clnet.losses.", "clnet.optimizers."))))
assert clnet.layers.Layer.lookup("SAGEConv").__name__ == "GraphSAGE" and "clnet.layers.mesh" in sys.modules, "an alias"
assert not hasattr(clnet.train, "no.such") and not hasattr(clnet.train, "")
assert clnet.layers.attention.__name__ == "clnet.layers.attention", "modules are there, too"
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    loaded = run.stdout.split()
    assert "clnet.layers.recurrent" in loaded and len(loaded) < 25
    assert not {"clnet.layers.graph", "clnet.losses.margin", "clnet.optimizers.quasi_newton"} & set(loaded)


def resolved(text: str) -> Any:
    """What a text of the table writes, without its arguments."""
    package, *path = re.split(r"[(\s]", text)[0].split(".")
    found = importlib.import_module(names.PACKAGES[package])
    for name in path:
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("theirs", called.CALLED)
def test_what_a_name_is_called_here_exists(theirs: str) -> None:
    text = called.CALLED[theirs]
    if names._called("", text) == text:
        assert text.endswith(".")
        return
    ours = resolved(text)
    assert ours is not None
    if inspect.isclass(ours) and issubclass(ours, Configured):
        assert set(re.findall(r"(\w+)=", text)) <= set(ours._attributes)
    for activation in re.findall(r'Activation\("(\w+)"\)', text):
        assert activation in clnet.ops.ACTIVATIONS


def test_arguments_of_others_are_called_as_some_class_or_function_has_it() -> None:
    fields = {f for family in Configured.families for c in family.registry.values() for f in c._attributes}
    fields |= {a for f in vars(ops).values() if inspect.isfunction(f) for a in inspect.signature(f).parameters}
    offered = (getattr(clnet.train, name) for name in clnet.train.__all__)
    callbacks = (c for c in offered if inspect.isclass(c) and issubclass(c, clnet.train.Callback))
    networks = (getattr(clnet.models, name) for name in clnet.models.__all__)
    for made in (clnet.Trainer, clnet.sklearn.Classifier, *networks, *callbacks):
        fields |= set(inspect.signature(made).parameters)
    assert habits.FIELDS
    assert {theirs: ours for theirs, ours in habits.FIELDS.items() if not set(ours) <= fields} == {}


def test_no_table_has_a_name_that_is_ours() -> None:
    assert [n for n in habits.LAYER if hasattr(clnet.Sequential(Dense(out_features=1)), n)] == []
    assert [n for n in called.CALLED if n in names.public("clnet.layers")] == []


def test_errors_survive_copies_and_probes_are_quiet() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = clnet.layers.Linear
    again = copy.copy(caught.value)
    assert type(again) is UnknownNameError and "Dense" in str(again)
    assert doctest.testmod(clnet.layers).failed == 0
    assert inspect.unwrap(clnet.layers.Dense) is Dense
    assert "Linear" not in dir(clnet.layers)


def test_a_traceback_shows_the_sentence_once() -> None:
    run = subprocess.run([sys.executable, "-c", "import clnet.layers\nclnet.layers.Dens"], capture_output=True,
                         text=True)
    last = run.stderr.strip().splitlines()[-1]
    assert last == "clnet.errors.UnknownNameError: module 'clnet.layers' has no 'Dens'; did you mean 'Dense'?"


def test_functions_take_the_arguments_of_numpy_and_pytorch() -> None:
    """axis, dim, keepdim, correction are understood; NumPy's functions pass out=None. Two for one are an error."""
    x = F.arange(n=6).reshape(2, 3)
    for y in (x.sum(axis=0), x.sum(dim=0), F.sum(x, axis=(0,)), np.sum(x, axis=0)):
        assert y.tolist() == [3, 5, 7]
    assert x.sum(-1, keepdim=True).shape == np.mean(x, axis=1, keepdims=True).shape == (2, 1)
    assert F.concat([x, x], dim=1).shape == (2, 6)
    assert x.astype("float32").std(dim=0, correction=1).tolist() == x.astype("float32").std(axis=0, ddof=1).tolist()
    with pytest.raises(UseError, match=r"mean: .* got 'dim'"):
        x.mean(axis=0, dim=1)  # type: ignore[call-arg]
    with pytest.raises(UseError, match=r"'dim'; PyTorch divides by n - 1, NumPy by n: write axes=\.\.\., ddof=1"):
        x.astype("float32").std(dim=0)  # type: ignore[call-arg]
