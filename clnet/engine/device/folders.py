"""The private folder where clnet keeps what it may lose: compiled programs, vendor lists."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path


def cache_root() -> Path:
    """CLNET_CACHE_DIR, or `clnet` in the user's cache folder."""
    chosen = os.environ.get("CLNET_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "clnet"


def slug(text: str) -> str:
    """A name for a file, or a part of one: lower case, anything but letters and digits as "-"."""
    return "".join(c if c.isalnum() else "-" for c in text.lower())


def private_folder(path: Path) -> Path:
    """`path`, made 0700 if missing. Raises OSError where another user could write into it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_private(path)
    return path


def check_private(path: Path) -> None:
    """OSError unless `path` is ours alone: what lies in it is loaded as machine code."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise OSError(f"{path}: is a link; remove it")
    if os.name == "posix":
        if status.st_uid != os.getuid():
            raise OSError(f"{path}: belongs to user {status.st_uid}, not to {os.getuid()}; set CLNET_CACHE_DIR")
        if status.st_mode & 0o022:
            raise OSError(f"{path}: others may write into it; run chmod go-w on it")


def write_atomically(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one, never half of one."""
    descriptor, name = tempfile.mkstemp(prefix=".part-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
