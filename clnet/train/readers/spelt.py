"""Numbers and dates that a table has as text: 1,234.50, 1.234,50 €, 12 % and 80 kg; 31.12.2024 and 12/31/2024."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

LETTER = r"(?:[^\W\d_]|[°µ/²³·])"
UNIT = rf"[%‰$€£¥₹]|(?<=\s){LETTER}{{1,9}}|{LETTER}{{2,9}}"  # one letter without a blank before may be a code: 12A
# What an amount is, by the sign between whole and parts; -$ 3, ($3.00) as accountants write it, 1 234,50 EUR, 8.3e4 kg.
# None begins with a needless 0, as 05.2024 and codes do.
AMOUNTS = {sign: re.compile(
    rf"(?P<below>\()?(?P<minus>[-+−]?)(?P<first>[$€£¥₹]|[A-Z]{{3}}(?=\s))?\s?(?P<minus2>[-+−]?)"
    rf"(?P<whole>[1-9]\d{{0,2}}(?P<group>[{parts}\s'’])\d{{3}}(?:(?P=group)\d{{3}})*|0|[1-9]\d*|(?=[{sign}]\d))"
    rf"(?:[{sign}](?P<part>\d*))?(?P<power>[eE][-+]?\d+)?\s?(?P<unit>{UNIT})?(?(below)\))")
    for sign, parts in ((".", ","), (",", "."))}
TIME = r"([ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?"
DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})" + TIME)
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}" + TIME + r"(Z|[+-]\d{2}:?\d{2})?")
UNSURE = "unsure"  # whether the day or the month is first


def all_match(there: pandas.Series[Any], pattern: re.Pattern[str]) -> bool:
    """Whether there is anything, and all of it text of this form."""
    return bool(len(there)) and all(isinstance(v, str) and pattern.fullmatch(v.strip()) for v in there)


Spelling = tuple[str, ...]  # (sign between whole and parts, unit or currency) of numbers in text; () of others


def spelling(there: pandas.Series[Any]) -> Spelling:
    """How numbers in text are written: "1.234,50 €" gives (",", "€"). () where some are none, have another unit, or are
    whole numbers and no more, which may be codes.
    """
    if not len(there) or not isinstance(there.iloc[0], str):
        return ()
    values = there.unique()
    for sign, form in AMOUNTS.items():
        found = []
        for value in values:
            m = form.fullmatch(value.strip()) if isinstance(value, str) else None
            if m is None:
                break
            found.append(m)
        else:
            units = {u for m in found if (u := _unit(m))}
            if len(units) <= 1 and _told(sign, found, bool(units)):
                return sign, *units, *[""][len(units):]
    return ()


def _told(sign: str, found: list[re.Match[str]], unit: bool) -> bool:
    """Whether they are more than codes, as 00123, 123 456 and 789 012 of one length, and 192.168.100.101 may be; 3.4,
    $ 3, 12 345 and 7, 1,234 and 12 are numbers.
    """
    if unit or any(m["part"] or m["power"] or m["below"] for m in found):
        return True
    parted = [m for m in found if m["group"]]
    blanks = any(m["group"] not in ".," for m in parted)
    return bool(parted) and sign == "." and (not blanks or len({len(m[0]) for m in found}) > 1)


def _unit(m: re.Match[str]) -> str:
    """The currency or unit, of several things that of one: 1 day, 3 days."""
    unit = m["first"] or m["unit"] or ""
    return unit[:-1] if len(unit) > 3 and unit.endswith("s") else unit


def plain(value: Any, how: Spelling) -> Any:
    """A number in text as Python writes it: "$1,234.50" → "1234.50"; anything else, or of another unit, as it is."""
    m = AMOUNTS[how[0]].fullmatch(value.strip()) if how and isinstance(value, str) else None
    if m is None or _unit(m) not in ("", how[1]):
        return value
    below = m["below"] or any(m[k] in ("-", "−") for k in ("minus", "minus2"))
    whole = re.sub(r"\D", "", m["whole"]) or "0"
    return f"{'-' * bool(below)}{whole}{'.' + m['part'] if m['part'] else ''}{m['power'] or ''}"


def read_as(there: pandas.Series[Any], how: Spelling) -> str:
    """What is said of a column of text that was read as numbers."""
    shown = next((v for v in there if plain(v, how) != v), there.iloc[0])
    return f"is read as numbers, {shown!r} as {plain(shown, how)}"


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
