"""Two states of the project timed by turns: this one beside itself, and what is no state at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clnet
from clnet.errors import ConfigError, DataError
from clnet.workbench.bench import against
from clnet.workbench.cores import PROBES, Cores

HERE = Path(clnet.__file__).parents[1]


def test_both_states_are_timed_at_the_same_pace(cpu: Any) -> None:
    """Whoever asks waits: an older state does not know how to, and would be timed at any pace."""
    asked = list[float]()

    def rate() -> float:
        asked.append(1.0)
        return 1.0

    (row,) = against.compared(cpu.device.key, HERE, "ops", True, "matmul 64 NN", rounds=2, cores=Cores(rate))
    assert not row["note"] and len(asked) == 2 * 2 * 2 * PROBES, "before and after each sample"


def test_a_state_beside_itself_has_its_own_times() -> None:
    (row,) = against.compared("numpy", HERE, "ops", True, "matmul 64 NN", rounds=3)
    assert row["work"] == "matmul 64 NN"
    assert not row["note"]
    assert row["before [ms]"] > 0 < row["now [ms]"]
    low, high = map(float, row["middle half"].split(" to "))
    assert 0 < low <= row["before / now"] <= high


def test_no_checkout_no_work_and_a_state_that_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a checkout of clnet with --against; got .*git worktree add"):
        list(against.compared("numpy", tmp_path, "ops", True, ""))
    with pytest.raises(ConfigError, match=r"expected a work of --suite ops that both states have; got 'matmul 65 NN'"):
        list(against.compared("numpy", HERE, "ops", True, "matmul 65 NN"))
    (tmp_path / "clnet").mkdir()
    (tmp_path / "clnet" / "__init__.py").write_text("raise RuntimeError('half a checkout')")
    with pytest.raises(DataError, match=r"the state in .* to time its works; got: .*half a checkout"):
        list(against.compared("numpy", tmp_path, "ops", True, ""))
