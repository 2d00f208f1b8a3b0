"""Numbers and dates that a table has as text: 1,234.50, $ 3 and 12 %; 31.12.2024 and 12/31/2024."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

MARKS = re.compile(r"[\s,%$€£¥]")
AMOUNT = re.compile(r"[-+]?[$€£¥]?\s?[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?\s?[%$€£¥]?")
TIME = r"([ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})" + TIME)
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}" + TIME + r"(Z|[+-]\d{2}:?\d{2})?")
UNSURE = "unsure"  # whether the day or the month is first


def all_match(there: pandas.Series[Any], pattern: re.Pattern[str]) -> bool:
    """Whether there is anything, and all of it text of this form."""
    return bool(len(there)) and all(isinstance(v, str) and pattern.fullmatch(v.strip()) for v in there)


def marked(there: pandas.Series[Any]) -> bool:
    """Whether all are numbers, some with a sign that parts thousands, a currency or a percent sign."""
    return all_match(there, AMOUNT) and any(MARKS.search(v.strip()) for v in there)


def unmarked(value: Any) -> Any:
    """A number in text without such signs: "$1,234.50" → "1234.50"; anything else as it is."""
    return MARKS.sub("", value) if isinstance(value, str) and AMOUNT.fullmatch(value.strip()) else value


def first_of(there: pandas.Series[Any]) -> str:
    """Of text: "day" or "month", which of them all dates begin with; UNSURE where neither is more than 12; "" where
    they are no such dates. With dots it is the day.
    """
    if not all_match(there, DATE):
        return ""
    parts = [m for v in there.unique() if (m := DATE.fullmatch(v.strip()))]
    if all(m[2] == "." for m in parts):
        return "day"
    one, two = max(int(m[1]) for m in parts), max(int(m[3]) for m in parts)
    return "" if one > 12 and two > 12 else "day" if one > 12 else "month" if two > 12 else UNSURE


def iso(value: Any, first: str) -> Any:
    """A date in text as ISO 8601 writes it; anything else as it is."""
    found = DATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return value
    day, month = (found[3], found[1]) if first == "month" else (found[1], found[3])
    return f"{found[4]}-{month:0>2}-{day:0>2}{found[5] or ''}"


def alike(values: list[str]) -> list[str]:
    """Those that another one equals but for blanks around them and capitals."""
    kinds: dict[str, list[str]] = {}
    for v in values:
        kinds.setdefault(v.strip().casefold(), []).append(v)
    return [v for same in kinds.values() if len(same) > 1 for v in same]
