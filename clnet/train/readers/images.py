"""Pictures in files: decoded by Pillow, turned as their camera says, brought to one size, by class from subfolders."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from ...core import arguments
from ...errors import ConfigError, DataError
from ...names import ending_of_path
from ...show import plural
from ..lazy import Array, Numbers, Rows
from ..preparing import Preparation
from ..samples import Dataset
from .columns import _natural
from .frames import listed

if TYPE_CHECKING:
    from PIL.Image import Image

Fit = Literal["crop", "pad", "stretch"]
FITS = ("crop", "pad", "stretch")
GREY = ("1", "L", "LA", "I", "F")  # modes of Pillow that are grey, and all that begin with "I;16"
BUDGET = 1 << 30  # [bytes] of decoded pictures, a byte a value, that are kept in memory
SIDES = ("train", "training", "test", "testing", "val", "valid", "validation")
ORIENTATION = 0x0112  # of EXIF; from 5 on height and width change places
MOST = 6  # broken files that a message names


@dataclass(frozen=True)
class ImagePreparation(Preparation):
    """Files of pictures → float32 (N, channels, height, width) in [0, 1].

    size      height and width
    channels  3: red, green, blue; 1: grey
    fit       how a picture of another shape is brought to it, as `read_images` says
    """

    kind: ClassVar[str] = "images"
    size: tuple[int, int]
    channels: int
    fit: Fit
    classes: tuple[str, ...] = ()

    def takes(self, data: object) -> bool:
        first = data[0] if isinstance(data, (list, tuple)) and data else data
        return isinstance(first, (str, Path))

    def apply(self, data: Any, target: bool | None = None, who: str = "apply") -> Dataset:
        """New pictures: a folder with or without subfolders of classes, a file, or a list of files."""
        found, labels = _found(data, who)
        known = {c: k for k, c in enumerate(self.classes)}
        wanted = labels is not None if target is None else target
        if wanted and (wrong := sorted({str(c) for c in labels or ["no folder"]} - known.keys())):
            raise DataError(f"{who}: expected folders of the classes {listed(self.classes)}, as in training; "
                            f"got {listed(wrong)}.")
        y = np.array([known[c] for c in labels] if wanted and labels else [0] * len(found), np.int32)
        return _dataset(self, found, y, wanted, BUDGET, "raise", who)

    def decoded(self, path: Path) -> Array:
        """One file as uint8 (channels, height, width). Raises DataError that names it."""
        try:
            return self._pixels(path)
        except Exception as error:  # Pillow's decoders raise what they like: SyntaxError, struct.error, ValueError
            raise DataError(f"{path}: expected a picture that Pillow reads; got: {str(error).rstrip('.')}.") from None

    def _pixels(self, path: Path) -> Array:
        from PIL import Image, ImageOps

        with Image.open(path) as opened:
            image = _converted(ImageOps.exif_transpose(opened), self.channels)
        wide = (self.size[1], self.size[0])
        if image.size != wide:
            how = Image.Resampling.BILINEAR
            if self.fit == "stretch":
                image = image.resize(wide, how)
            else:
                image = (ImageOps.fit if self.fit == "crop" else ImageOps.pad)(image, wide, how)
        pixels = np.asarray(image, np.uint8)
        return pixels[None] if self.channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        return cls(tuple(fields["size"]), fields["channels"], fields["fit"], tuple(fields["classes"]))


class Pictures(Rows):
    """float32 (N, channels, height, width) in [0, 1]: of bytes in memory, or of files that are decoded when needed."""

    dtype = np.dtype(np.float32)

    def __init__(self, bytes_: Array | None, files: Sequence[Path] = (),
                 preparation: ImagePreparation | None = None) -> None:
        self.bytes, self.files, self.preparation = bytes_, tuple(files), preparation
        self.lazy = bytes_ is None
        if bytes_ is not None:
            self.shape = bytes_.shape
        elif preparation is not None:
            self.shape = (len(self.files), preparation.channels, *preparation.size)

    def read(self, numbers: Numbers) -> Array:
        if self.bytes is not None:
            return self.bytes[numbers] * np.float32(1 / 255)
        assert self.preparation is not None
        return np.stack([self.preparation.decoded(self.files[k]) for k in numbers]) * np.float32(1 / 255)

    def chosen(self, numbers: Numbers) -> Self:
        return type(self)(None if self.bytes is None else self.bytes[numbers],
                          [self.files[k] for k in numbers] if self.files else (), self.preparation)


def read_images(folder: str | Path | Sequence[str | Path], size: int | Sequence[int] | None = None, *,
                mode: Literal["RGB", "L"] | None = None, fit: Fit = "crop", broken: Literal["warn", "raise"] = "warn",
                budget: int = BUDGET) -> Dataset:
    """The pictures in a folder: x float32 (N, channels, height, width) in [0, 1], a class for each subfolder, by name;
    without subfolders, or of a list of files, x alone, as `predict` takes it.

    size    (height, width), or one number for both; None: that of the pictures, if they agree
    mode    "RGB", or "L", grey; None: grey where all are
    fit     how another shape becomes that size: "crop": scaled until it covers it, and the middle of that; "pad":
            scaled until it fits into it, the rest black; "stretch"; bilinear with antialiasing
    broken  files that Pillow cannot read are left out, "warn", and named in one warning; or "raise"
    budget  [bytes] up to which decoded pictures, a byte a value, are kept in memory; larger ones are decoded batch by
            batch, and a file that breaks off then raises DataError
    Orientation is the camera's (EXIF), transparency white; 16 bits of grey are divided by 65535, floats are taken from
    0 to 1. What begins with "." is not looked at. Raises DataError, ConfigError.
    """
    who = f"read_images({folder if isinstance(folder, (str, Path)) else '[...]'})"
    for name, value, known in (("mode", mode, (None, "RGB", "L")), ("fit", fit, FITS),
                               ("broken", broken, ("warn", "raise"))):
        if value not in known:
            raise ConfigError(f"{who}: expected {name}={' or '.join(map(repr, known))}; got {value!r}.")
    files, labels = _found(folder, who)
    if not files:
        raise DataError(f"{who}: expected at least one picture; got none.")
    sizes, modes, wrong = _headers(files)
    _say(wrong, broken, who, len(files))
    there = [k for k, f in enumerate(files) if f not in wrong]
    files, labels = [files[k] for k in there], labels and [labels[k] for k in there]
    classes = tuple(sorted(set(labels or ()), key=_natural))
    if doubts := _doubts(folder, labels):
        warnings.warn(f"{who}: {'; '.join(doubts)}.", UserWarning, stacklevel=2)
    channels = 1 if mode == "L" or (not mode and all(map(_is_grey, modes))) else 3
    made = ImagePreparation(_size(size, sizes, who), channels, fit, classes)
    number = {c: k for k, c in enumerate(classes)}
    y = np.array([number[c] for c in labels] if labels else [0] * len(files), np.int32)
    return _dataset(made, files, y, labels is not None, budget, broken, who)


# --- files
def _found(given: Any, who: str) -> tuple[list[Path], list[str] | None]:
    """(files, the class of each, or None) of a folder, a file or a list of files."""
    from PIL import Image

    if not isinstance(given, (str, Path)):
        if not isinstance(given, (list, tuple)) or not all(isinstance(p, (str, Path)) for p in given):
            raise DataError(f"{who}: expected a folder of pictures, a file or a list of files; got {given!r:.60}.")
        return [Path(p) for p in given], None
    top, known = Path(given), Image.registered_extensions()
    if top.is_file():
        return [top], None
    if not top.is_dir():
        raise DataError(
            f"{who}: expected a folder of pictures; got {str(top)!r}, which is not there{ending_of_path(top)}")

    def pictures(folder: Path, deep: bool) -> list[Path]:
        found = folder.rglob("*") if deep else folder.iterdir()
        return sorted(p for p in found if p.suffix.lower() in known and p.is_file()
                      and not any(map(_hidden, p.relative_to(folder).parts)))

    classes = {d.name: pictures(d, True) for d in sorted(top.iterdir()) if d.is_dir() and not _hidden(d.name)}
    classes = {name: files for name, files in classes.items() if files}
    if classes and {name.lower() for name in classes} <= set(SIDES):
        raise DataError(f"{who}: expected a folder for each class; got {listed(classes)}; read one of them, and "
                        "prepare the other alike: train = read_images('…/train'), "
                        "test = train.preparation.apply('…/test').")
    if classes:
        return ([f for files in classes.values() for f in files],
                [name for name, files in classes.items() for _ in files])
    if not (flat := pictures(top, False)):
        raise DataError(f"{who}: expected pictures (.png, .jpg, .webp, ...), in a folder for each class; got "
                        f"{_instead(top)}.")
    return flat, None


def _hidden(name: str) -> bool:
    """Of a file or folder that nobody put there as a picture: of notebooks, of macOS."""
    return name.startswith(".") or name == "__MACOSX"


def _instead(top: Path) -> str:
    """What is there in the place of pictures."""
    others = [p for p in sorted(top.rglob("*"))[:1000] if p.is_file() and not any(map(_hidden, p.parts[-2:]))]
    if idx := next((p for p in others if "idx" in p.name), None):
        return f"files of MNIST; read one: read({str(idx)!r})"
    kinds = Counter(p.suffix.lower() or "no ending" for p in others)
    return "files with " + ", ".join(f"{k} ({n})" for k, n in kinds.most_common(4)) if kinds else "none"


def _doubts(given: Any, labels: Sequence[str] | None) -> list[str]:
    """What of a folder is not among the classes, and a single class."""
    if labels is None:
        return []
    top, known = Path(given), {ending.lower() for ending in _endings()}
    there = [p for p in sorted(top.iterdir()) if not _hidden(p.name)]
    lost = [p.name for p in there if p.is_dir() and p.name not in labels]
    beside = sum(p.is_file() and p.suffix.lower() in known for p in there)
    found = [f"folders without a picture that can be read are no classes: {listed(lost)}"] if lost else []
    if beside:
        found.append(f"{plural(beside, 'picture')} beside the folders of classes left out")
    if len(set(labels)) == 1:
        (one,) = set(labels)
        inner = [p.name for p in (top / one).iterdir() if p.is_dir() and not _hidden(p.name)]
        more = f"; if its folders are the classes, read {str(top / one)!r}" if len(inner) > 1 else ""
        found.append(f"got one class, {one!r}{more}")
    return found


def _endings() -> Iterable[str]:
    from PIL import Image

    return Image.registered_extensions()


def _headers(files: Sequence[Path]) -> tuple[set[tuple[int, int]], set[str], dict[Path, str]]:
    """(sizes as (height, width), modes, files that have none with why)"""
    from PIL import Image

    sizes, modes, wrong = set(), set(), {}
    for path in files:
        try:
            with Image.open(path) as image:
                # that of the base class: a PNG's own decodes the whole picture
                turned = Image.Image.getexif(image).get(ORIENTATION, 1) in (5, 6, 7, 8)
                sizes.add(image.size if turned else image.size[::-1])
                modes.add("RGB" if image.mode in ("P", "PA") else image.mode)
        except Exception as error:
            wrong[path] = str(error)
    return sizes, modes, wrong


def _size(given: int | Sequence[int] | None, sizes: set[tuple[int, int]], who: str) -> tuple[int, int]:
    if given is not None:
        height, width = arguments.per_axis(who, "size", given, 2, 1)
        return height, width
    if len(sizes) != 1:
        shown = ", ".join(f"{h} x {w}" for h, w in sorted(sizes)[:4])
        raise DataError(f"{who}: expected size=(height, width), for pictures of {len(sizes)} sizes, {shown}"
                        f"{', …' if len(sizes) > 4 else ''}.")
    return next(iter(sizes))


def _say(wrong: dict[Path, str], broken: str, who: str, count: int, depth: int = 3) -> None:
    """What cannot be read, in one warning or error."""
    if not wrong:
        return
    names = listed([f"{p.parent.name}/{p.name}" for p in wrong], MOST)
    text = f"{who}: expected pictures that Pillow reads; got {plural(len(wrong), 'broken file')}: {names}"
    first = next(iter(wrong.values())).rpartition("got: ")[2].rstrip(".")
    if broken == "raise" or len(wrong) == count:
        raise DataError(f"{text}; the first: {first}.")
    warnings.warn(f"{text}; left out; the first: {first}.", UserWarning, stacklevel=depth)


def _dataset(made: ImagePreparation, files: list[Path], y: Array, labelled: bool, budget: int,
             broken: Literal["warn", "raise"], who: str) -> Dataset:
    """In memory, where that is within the budget."""
    if len(files) * made.channels * made.size[0] * made.size[1] > budget:
        x = Pictures(None, files, made)
    else:
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(lambda p: _tried(made, p), files))
        wrong = {p: a for p, a in zip(files, found, strict=True) if isinstance(a, str)}
        _say(wrong, broken, who, len(files), 4)
        there = [k for k, a in enumerate(found) if not isinstance(a, str)]
        x = Pictures(np.stack([found[k] for k in there]), [files[k] for k in there], made)
        y = y[there]
    title = files[0].parent.parent.name if labelled else files[0].parent.name
    return Dataset(x, y, made.classes, "", title or "images", preparation=made, labelled=labelled)


def _tried(made: ImagePreparation, path: Path) -> Array | str:
    try:
        return made.decoded(path)
    except DataError as error:
        return str(error)


def _is_grey(mode: str) -> bool:
    return mode in GREY or mode.startswith("I;16")


def _converted(image: Image, channels: int) -> Image:
    """As bytes of grey or of red, green and blue; what is transparent is white."""
    from PIL import Image as pillow

    if image.mode[0] in "IF":  # the scale is that of the file, not of what this picture holds
        wide, most = np.asarray(image), 1.0 if image.mode == "F" else 65535
        if wide.min() < 0 or wide.max() > most:
            raise ValueError(f"values from {wide.min():g} to {wide.max():g}, where 0 to {most:g} are taken; make "
                             "an array of them with your scale: np.asarray(PIL.Image.open(path)) / scale")
        image = pillow.fromarray((wide * (255.0 / most)).round().astype(np.uint8))
    if "A" in image.mode or "transparency" in image.info:
        seen = image.convert("RGBA")
        image = pillow.alpha_composite(pillow.new("RGBA", seen.size, "white"), seen)
    return image.convert("L" if channels == 1 else "RGB")


def stored(pixels: Array, y: Array | None, title: str) -> Dataset:
    """Bytes (N, height, width) or (N, channels, height, width) as pictures of classes that are numbers."""
    x = pixels[:, None] if pixels.ndim == 3 else pixels
    classes = tuple(str(k) for k in range(int(y.max()) + 1)) if y is not None else ()
    made = ImagePreparation((x.shape[2], x.shape[3]), x.shape[1], "stretch", classes)
    labels = np.zeros(len(x), np.int32) if y is None else y.astype(np.int32)
    return Dataset(Pictures(np.ascontiguousarray(x), (), made), labels, classes, "", title, preparation=made,
                   labelled=y is not None)
