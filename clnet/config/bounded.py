"""Types of fields: numbers within bounds, and values that a function checks or makes.

They are Annotated with what pydantic understands and `checks` does too, without importing it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

Holds = dict[str, Callable[[Any, Any], bool]]
OF_NUMBERS: Holds = {"gt": lambda v, b: v > b, "ge": lambda v, b: v >= b, "lt": lambda v, b: v < b,
                     "le": lambda v, b: v <= b}
OF_TUPLES: Holds = {"min_length": lambda v, b: len(v) >= b, "max_length": lambda v, b: len(v) <= b}
HOLDS = {int: OF_NUMBERS, float: OF_NUMBERS, tuple: OF_TUPLES}  # by the type of a value


class Within:
    """Bounds of a number, by pydantic's names: gt, ge, lt, le."""

    def __init__(self, **bounds: float) -> None:
        self.bounds = bounds

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), **self.bounds}


class After:
    """A function that is given a value of the right type, and returns it or raises ConfigError."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import AfterValidator

        return AfterValidator(self.function).__get_pydantic_core_schema__(source, handler)


class Before:
    """A function that makes of what was given something of the right type, which it leaves as it is."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import BeforeValidator

        return BeforeValidator(self.function).__get_pydantic_core_schema__(source, handler)


PositiveInt = Annotated[int, Within(gt=0)]
NonNegativeInt = Annotated[int, Within(ge=0)]
PositiveFloat = Annotated[float, Within(gt=0)]
NonNegativeFloat = Annotated[float, Within(ge=0)]
