"""What fields accept at once is what pydantic accepts, and kept as pydantic keeps it; the rest is left to it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clnet.config.checks import Unsure
from clnet.config.fields import Configured, field
from clnet.errors import ConfigError
from clnet.layers import Conv2d, Dense, Layer, LayerNorm
from clnet.optimizers import SGD, Adam, CosineAnnealingLR
from clnet.optimizers.schedules import Schedule

FIELDS = sorted({(c.__name__, f.name): (c, f.name) for family in Configured.families for c in family.registry.values()
                 for f in dataclasses.fields(c)}.items())  # type: ignore[arg-type]
NUMBERS = st.none() | st.booleans() | st.integers(-3, 70) | st.floats() | st.just(2**60)
VALUES = (NUMBERS | st.sampled_from(["relu", "same", "mean", "step", "", abs, Dense(3, 2), SGD(), 2**60])
          | st.lists(NUMBERS | st.tuples(NUMBERS, NUMBERS), max_size=3).map(tuple)
          | st.dictionaries(st.sampled_from(["a", "p"]), NUMBERS, max_size=2))


@settings(deadline=None, max_examples=600)
@given(st.sampled_from(FIELDS), VALUES)
def test_what_is_accepted_is_what_pydantic_keeps(which: Any, value: Any) -> None:
    _, (cls, name) = which
    checks = cls._checks
    try:
        kept = checks.accepts[name](value)
    except Unsure:
        return
    made: Any = object.__new__(checks.exact)
    vars(made).update({f.name: None for f in dataclasses.fields(cls)})
    checks.exact.__pydantic_validator__.validate_assignment(made, name, value)
    theirs = getattr(made, name)
    assert type(kept) is type(theirs) and repr(kept) == repr(theirs)


def test_what_networks_are_made_of_needs_no_pydantic() -> None:
    """Its import and its validators take longer than a network's first step."""
    code = ("import sys, clnet; L = clnet.layers; "
            "clnet.Sequential(L.Conv2d(1, 8, 3, padding='same', activation='relu'), L.MaxPool2d(2), L.Flatten(), "
            "L.Dropout(0.1), L.LayerNorm(8), L.Dense(8, 10)); clnet.losses.CrossEntropyLoss(); "
            "clnet.optimizers.Adam(1e-3); clnet.optimizers.SGD(lr=1, momentum=0.9); "
            "sys.exit(any(m.startswith('pydantic') for m in sys.modules))")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_whole_number_is_kept_as_a_float() -> None:
    assert repr(Adam(lr=1).lr) == "1.0" and isinstance(Adam(lr=CosineAnnealingLR(t_max=3, lr=0.1)).lr, Schedule)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: Dense(3, 2, in_features=4), "in_features"),
    (lambda: Adam(lr=True), "lr"),
    (lambda: LayerNorm(eps=float("nan")), "eps"),
    (lambda: Conv2d(3, 4, (3, 0)), r"kernel_size\[1\] must be greater than 0"),
])
def test_what_is_not_plainly_right_is_pydantic_s_to_judge(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


def test_a_changed_field_is_checked_as_in_the_constructor() -> None:
    optimizer = SGD(lr=0.5)
    optimizer.lr = 1
    assert repr(optimizer.lr) == "1.0"
    with pytest.raises(ConfigError, match=r"SGD\(lr='1e-3'\).*pass a number: lr=0.001"):
        optimizer.lr = "1e-3"


class Ratio(float):
    """A type that fields of a class written in a function go by."""


def test_a_class_of_ones_own_may_have_any_type_and_any_error() -> None:
    local = Ratio

    class Scaled(Layer):
        """y = ratio · x"""

        ratio: local = field(Ratio(2.0), doc="the factor")
        left: list[int] = dataclasses.field(default_factory=list)

        def validate(self) -> None:
            if self.ratio < 0:
                raise ValueError("ratio is below 0")

        def forward(self, x: Any) -> Any:
            return float(self.ratio) * x

    try:
        assert Scaled(Ratio(3.0)).ratio == 3.0 and Scaled().left == [] and Scaled().left is not Scaled().left
        with pytest.raises(ConfigError, match="ratio must be an instance of Ratio"):
            Scaled("three")
        with pytest.raises(ConfigError, match="Scaled: ratio is below 0"):
            Scaled(Ratio(-1.0))
    finally:
        del Layer.registry["Scaled"]
