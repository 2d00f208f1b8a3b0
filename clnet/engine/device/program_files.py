"""Files that are believed only if whole: a JSON line with checksums, then the bytes. Any doubt means absent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from .folders import check_private, private_folder, write_atomically

SUFFIX = ".clp"
LARGEST_HEADER = 4096
MARK = b"clnet group "  # an entry that names another, in which its kernels are


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def reference(group: str, kernels: Sequence[str]) -> bytes:
    """The entry of a program that lies in another."""
    return MARK + json.dumps({"group": group, "kernels": list(kernels)}).encode()


def referred(data: bytes, kernel: str) -> str | None:
    """The key of the program in which this kernel lies; None where the entry names no such."""
    try:
        found = json.loads(data.removeprefix(MARK))
        return str(found["group"]) if kernel in found["kernels"] else None
    except (ValueError, KeyError, TypeError):
        return None


class Store:
    """Entries in one private folder (0700, ours). Where that cannot be had, nothing is kept and `problem` says why."""

    def __init__(self, folder: Path, limit: int = 512 << 20) -> None:
        self.folder = folder
        self.limit = limit
        self.problem = ""
        try:
            private_folder(folder)
        except OSError as error:
            self.problem = str(error)

    def path(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def read(self, key: str) -> bytes | None:
        """The bytes of an entry, or None for every reason not to trust it."""
        if self.problem:
            return None
        path = self.path(key)
        try:
            check_private(path)
            with path.open("rb") as file:
                header = json.loads(file.readline(LARGEST_HEADER))
                data = file.read()
            if header["key"] == key and header["bytes"] == len(data) and header["sha256"] == digest(data):
                return data
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def write(self, key: str, data: bytes) -> bool:
        """Keeps an entry, replacing a bad one; whether it is there. A full or read-only disk is no error."""
        if self.problem:
            return False
        header = json.dumps({"key": key, "bytes": len(data), "sha256": digest(data)})
        try:
            write_atomically(self.path(key), header.encode() + b"\n" + data)
        except OSError as error:
            self.problem = str(error)
        return not self.problem

    def drop(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self.path(key).unlink(missing_ok=True)

    def entries(self) -> list[Path]:
        return sorted(self.folder / name for name, _ in self._found())

    def empty(self) -> bool:
        return next(self._found(), None) is None

    def _found(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Names of entries, as they come: paths of ten thousands, in order, take longer than a start may."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as found:
            yield from ((f.name, f) for f in found if f.name.endswith(SUFFIX))

    def trim(self) -> None:
        """Drops the oldest entries beyond `limit` bytes."""
        seen = []
        for name, entry in self._found():
            with contextlib.suppress(OSError):
                status = entry.stat()
                seen.append((status.st_mtime, status.st_size, name))
        excess = sum(size for _, size, _ in seen) - self.limit
        for _, size, name in sorted(seen) if excess > 0 else ():
            if excess <= 0:
                return
            self.drop(name.removesuffix(SUFFIX))
            excess -= size

    def clear(self) -> int:
        """Removes every entry; returns how many there were."""
        paths = self.entries()
        for path in paths:
            self.drop(path.stem)
        return len(paths)
