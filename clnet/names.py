"""Names that somebody wrote and nobody has: the nearest one there is, and what other libraries' names are called here."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The name that `word` was most likely meant to be, capitals and underscores aside; None where none is near."""
    import difflib

    plain = {_plain(k): k for k in reversed(list(known))}
    close = difflib.get_close_matches(_plain(word), list(plain), 1, 0.65)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def ending(word: str, known: Iterable[str]) -> str:
    """How a sentence about an unknown name ends: `; did you mean 'relu'?`, or a full stop."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else "."
