"""Verdicts and the marks they are shown by:
words, which every font has and which are read aloud; colour and weight only beside them.
"""

from __future__ import annotations

from collections.abc import Iterable

YES, PARTIAL, NO, NONE = "yes", "partial", "no", "n/a"
CLASSES = {YES: "yes", PARTIAL: "partial", NO: "no", NONE: "none"}  # of HTML elements: pages/page.css colours them
LEGEND = "yes: shown by a run here. partial, NO: the note says why. n/a: there is nothing of the kind."


class Mark(str):
    """A verdict, "yes", "partial", "no" or "n/a", that tables know from text. ValueError for another word."""

    def __new__(cls, verdict: str | bool) -> Mark:
        word = verdict if isinstance(verdict, str) else YES if verdict else NO
        if word not in CLASSES:
            raise ValueError(f"Mark: expected {', '.join(CLASSES)}; got {word!r}.")
        return super().__new__(cls, word)

    @property
    def text(self) -> str:
        """As it stands in plain text: "NO" must not look like its neighbours."""
        return self.upper() if self == NO else str(self)

    @property
    def markdown(self) -> str:
        return f"**{self.text}**" if self in (NO, PARTIAL) else self.text

    def __html__(self) -> str:
        return f'<span class="mark {CLASSES[self]}">{self.text}</span>'


def green(verdicts: Iterable[str]) -> bool:
    """Whether every verdict is yes, or has nothing to be about."""
    return all(v in (YES, NONE) for v in verdicts)
