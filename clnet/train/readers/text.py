"""Text: a tokeniser as a value, windows that a language model learns from, and texts with classes as Sequences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ...core import arguments
from ...errors import ConfigError, DataError
from ...show import plural
from ..preparing import Preparation
from ..samples import Dataset
from ..sequences import Sequences
from .columns import Array, words
from .frames import encoding_of, frame_of, is_frame, listed, read_frame
from .targets import Classes

Tokens = Literal["bytes", "characters", "words"]
KINDS = ("bytes", "characters", "words")
UNKNOWN = "�"
WORD = re.compile(r"\w+|[^\w\s]")
MOST = 20_000  # words of a vocabulary


@dataclass(frozen=True)
class Tokeniser(Preparation):
    """Text ↔ numbers: int32 (T), below `size`.

    tokens       "bytes": those of UTF-8, 256 of them; "characters"; "words": letters and digits in a row, each other
                 sign alone, in small letters
    vocabulary   the token of each number; number 0 stands for all that were not there when it was made, save bytes
    decode(encode(text)) is the text, for characters that are known; of words it is the words with a space between.
    """

    kind: ClassVar[str] = "tokens"
    tokens: Tokens
    vocabulary: tuple[str, ...] = ()

    @classmethod
    def fitted(cls, tokens: Tokens, texts: Iterable[str], most: int = MOST, least: int = 1) -> Tokeniser:
        """Of the tokens in these texts: those that are there `least` times, the most frequent `most` of them."""
        if tokens not in KINDS:
            raise ConfigError(f"Tokeniser(tokens={tokens!r}): expected one of {', '.join(map(repr, KINDS))}.")
        if tokens == "bytes":
            return cls(tokens, tuple(f"\\x{k:02x}" for k in range(256)))
        counts = Counter(t for text in texts for t in cls(tokens)._parts(text))
        kept = sorted(counts, key=lambda t: (-counts[t], t))[:most]
        return cls(tokens, (UNKNOWN, *sorted(t for t in kept if counts[t] >= least and t != UNKNOWN)))

    @property
    def size(self) -> int:
        """How many numbers there are: num_embeddings of an Embedding."""
        return len(self.vocabulary)

    def _parts(self, text: str) -> Sequence[str]:
        return WORD.findall(text.lower()) if self.tokens == "words" else text

    def encode(self, text: str) -> Array:
        """int32 (T). Raises DataError for anything but text."""
        if not isinstance(text, str):
            raise DataError(f"encode: expected text; got {type(text).__name__}; str(x) makes some.")
        if self.tokens == "bytes":
            return np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        numbers = self._numbers()
        return np.array([numbers.get(t, 0) for t in self._parts(text)], np.int32)

    def _numbers(self) -> dict[str, int]:
        known = vars(self).get("_known")
        if known is None:
            known = {t: k for k, t in enumerate(self.vocabulary)}
            object.__setattr__(self, "_known", known)
        found: dict[str, int] = known
        return found

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of these numbers. Raises DataError for numbers that are none."""
        found = np.asarray(list(numbers), np.int64)
        if found.size and not 0 <= found.min() <= found.max() < self.size:
            raise DataError(f"decode: expected numbers from 0 to {self.size - 1}; got {found.min()} to {found.max()}.")
        if self.tokens == "bytes":
            return found.astype(np.uint8).tobytes().decode(errors="replace")
        return (" " if self.tokens == "words" else "").join(self.vocabulary[k] for k in found)

    def takes(self, data: object) -> bool:
        return isinstance(data, str)

    def apply(self, data: Any, target: bool | None = None, who: str = "apply") -> Dataset:
        """A text as one sample (1, T)."""
        x = self.encode(data)[None]
        if not x.size:
            raise DataError(f"{who}: expected a text of at least one token; got none.")
        return Dataset(x, np.zeros(1, np.int32), preparation=self, labelled=False)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        return cls(fields["tokens"], tuple(fields["vocabulary"]))

    def __repr__(self) -> str:
        return f"<Tokeniser: {plural(self.size, self.tokens.removesuffix('s'))}>"


@dataclass(frozen=True)
class TextPreparation(Preparation):
    """Texts → numbers of tokens, cut after `length`; names of classes → their numbers.

    text, target   the columns of tables that they come from
    """

    kind: ClassVar[str] = "texts"
    tokeniser: Tokeniser
    length: int
    classes: tuple[str, ...] = ()
    text: str = "text"
    target: str = "target"

    def takes(self, data: object) -> bool:
        return is_frame(data) or (isinstance(data, (list, tuple)) and all(isinstance(t, str) for t in data))

    def apply(self, data: Any, target: bool | None = None, who: str = "apply") -> Sequences:
        """New texts: a list of them, or a frame with the column of the training. Raises DataError."""
        if isinstance(data, (list, tuple)):
            return self.sequences(list(data), None)
        frame = frame_of(data, who)
        if self.text not in frame:
            raise DataError(f"{who}: expected a column {self.text!r}, as in training; got {listed(frame.columns)}.")
        wanted = self.target in frame if target is None else target
        y = Classes(self.target, self.classes).values(frame, who) if wanted else None
        return self.sequences(_texts(frame, self.text, who), y)

    def sequences(self, texts: Sequence[str], y: Array | None, title: str = "data") -> Sequences:
        found = Sequences([self.tokeniser.encode(t)[: self.length] for t in texts], y, title=title)
        found.preparation, found.classes = self, self.classes
        return found

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        return cls(**{**fields, "tokeniser": Tokeniser.from_dict(fields["tokeniser"]),
                      "classes": tuple(fields["classes"])})

    def __repr__(self) -> str:
        return f"<TextPreparation: {self.tokeniser}, up to {self.length} a text, classes {listed(self.classes)}>"


def read_text(source: str | Path | Sequence[str | Path], tokens: Tokens = "characters", length: int = 128,
              stride: int | None = None, *, vocabulary: int = MOST, encoding: str = "utf-8") -> Dataset:
    """Windows of a text for a language model: x int32 (N, length), and y int32 (N, length), the token after each.

    source      a file, files, or a folder of .txt files; a window lies in one file
    tokens      "bytes", "characters" or "words", see Tokeniser; the dataset's `preparation` is the Tokeniser
    stride      from window to window; None: length, so that they do not overlap
    vocabulary  of words, at most: the most frequent ones
    Raises DataError for files that are no text, or all shorter than a window.
    """
    who = f"read_text({source if isinstance(source, (str, Path)) else '[...]'})"
    length = arguments.integer(who, "length", length, 1, DataError)
    step = length if stride is None else arguments.integer(who, "stride", stride, 1, DataError)
    texts = [_read(p, encoding, who) for p in _files(source, who)]
    made = Tokeniser.fitted(tokens, texts, vocabulary)
    windows = []
    for whole in map(made.encode, texts):
        if len(whole) > length:
            windows.append(np.lib.stride_tricks.sliding_window_view(whole, length + 1)[::step])
    if not windows:
        raise DataError(f"{who}: expected a text of more than {length} {tokens}; "
                        f"got {max(len(made.encode(t)) for t in texts)} at most; give more text, or a smaller length=.")
    found = np.concatenate(windows)
    title = Path(source).name if isinstance(source, (str, Path)) else "text"
    return Dataset(found[:, :-1], found[:, 1:], title=title, preparation=made)


def read_texts(source: Any, text: str = "text", target: str = "label", tokens: Tokens = "words", length: int = 256, *,
               vocabulary: int = MOST, least: int = 2, encoding: str = "utf-8") -> Sequences:
    """Texts and their classes as Sequences: of the columns `text` and `target` of a table (a file as `read` takes it,
    or a frame), or of a folder with .txt files in a folder for each class.

    tokens      "bytes", "characters" or "words", see Tokeniser
    length      tokens of a text at most; what is longer is cut
    vocabulary  of words, at most; `least`: times that one is there
    The tokeniser is made of all of these texts; texts that are to judge a model are best read apart:
    `train.preparation.apply(frame)`. Raises DataError.
    """
    who = f"read_texts({source if isinstance(source, (str, Path)) else '[...]'})"
    length = arguments.integer(who, "length", length, 1, DataError)
    if isinstance(source, (str, Path)) and Path(source).is_dir():
        texts, labels = _by_folder(Path(source), encoding, who)
        classes = tuple(sorted(set(labels)))
        y = np.array([classes.index(c) for c in labels], np.int32)
    else:
        frame = (read_frame(Path(source), None, None, (), encoding, who) if isinstance(source, (str, Path))
                 else frame_of(source, who))
        for name, column in (("text", text), ("target", target)):
            if column not in frame:
                raise DataError(
                    f"{who}({name}={column!r}): expected a column, one of {listed(map(str, frame.columns))}.")
        texts, made = _texts(frame, text, who), Classes.fitted(target, frame[target], who)
        classes, y = made.classes, made.values(frame, who)
    tokeniser = Tokeniser.fitted(tokens, texts, vocabulary, least if tokens == "words" else 1)
    if tokeniser.size < 2:
        raise DataError(f"{who}: expected {tokens} that are there {least} times or more; got none in "
                        f"{plural(len(texts), 'text')}; least=1 takes all, tokens=\"characters\" others.")
    title = Path(source).name if isinstance(source, (str, Path)) else "texts"
    return TextPreparation(tokeniser, length, classes, text, target).sequences(texts, y, title)


# --- files
def _texts(frame: Any, column: str, who: str) -> list[str]:
    found = words(frame[column])
    if (missing := np.flatnonzero(found.isna().to_numpy())).size:
        raise DataError(f"{who}: expected a text in column {column!r} of every row; got none at row {missing[0]}, as "
                        f"in {plural(len(missing), 'row')}; leave them out: frame.dropna(subset=[{column!r}]).")
    return [str(t) for t in found]


def _files(source: Any, who: str) -> list[Path]:
    if not isinstance(source, (str, Path)):
        found = [Path(p) for p in source]
    else:
        found = sorted(Path(source).rglob("*.txt")) if Path(source).is_dir() else [Path(source)]
    if not found:
        raise DataError(f"{who}: expected .txt files; got none.")
    return found


def _read(path: Path, encoding: str, who: str) -> str:
    try:
        return path.read_text(encoding_of(path, encoding))
    except (OSError, UnicodeError, LookupError) as error:
        more = f"; say encoding=, if it is not {encoding}" if isinstance(error, UnicodeError) else ""
        raise DataError(f"{who}: expected a readable text in {path.name}; got: {error}{more}.") from None


def _by_folder(top: Path, encoding: str, who: str) -> tuple[list[str], list[str]]:
    folders = {d.name: sorted(d.rglob("*.txt")) for d in sorted(top.iterdir()) if d.is_dir()}
    folders = {name: files for name, files in folders.items() if files}
    if len(folders) < 2:
        raise DataError(f"{who}: expected .txt files in a folder for each class; got {listed(folders)}.")
    texts = [_read(p, encoding, who) for files in folders.values() for p in files]
    return texts, [name for name, files in folders.items() for _ in files]
