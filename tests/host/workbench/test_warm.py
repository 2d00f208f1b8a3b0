"""`clnet warm`: what it takes, without a device."""

from __future__ import annotations

from typing import Any

import pytest

from clnet import cli
from clnet.engine.reference import NumpyEngine
from clnet.errors import ConfigError
from clnet.train import examples, networks
from clnet.workbench import warm_command


def test_all_that_come_with_clnet_are_known() -> None:
    assert set(warm_command.NAMES) == {f"digits-{m}" for m in examples.MODELS} | set(networks.RECIPES)


def test_a_name_that_is_none_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"^warm: expected digits-mlp, .*did you mean 'digits-cnn'\?"):
        warm_command.work("digits-cn", 8)


def test_numpy_compiles_nothing() -> None:
    with pytest.raises(ConfigError, match="expected an OpenCL device"):
        warm_command.main([], NumpyEngine(), batch=8, shape=None, loss="", json_file=None)


def test_a_batch_of_one_has_no_part(capsys: Any) -> None:
    assert cli.main(["warm", "--batch", "1"]) == 2
    assert "at least 2" in capsys.readouterr().err
