"""What a notebook shows of an error of clnet: the user's own lines and the sentence. CLNET_DEBUG=1 shows everything."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from .show import plural

DEBUG = "CLNET_DEBUG"
LIBRARY = str(Path(__file__).parent) + os.sep
# what lies around the user's lines, besides Python's own modules
AROUND = ("IPython", "ipykernel", "nbclient", "pyopencl")


def debugging() -> bool:
    """Whether the environment asks for whole tracebacks."""
    return os.environ.get(DEBUG, "") not in ("", "0")


def render(error: BaseException) -> list[str]:
    """The lines that IPython shows for the error, in its own style where there is a shell;
    called by it as `_render_traceback_`.
    """
    if debugging():
        return _styled(error, error.__traceback__, offset=1)
    kept = list(_frames(error.__traceback__, _is_users))
    hidden = sum(1 for _ in _frames(error.__traceback__, lambda file: file.startswith(LIBRARY)))
    cause, context, silent = error.__cause__, error.__context__, error.__suppress_context__
    error.__cause__, error.__suppress_context__ = None, True  # told in a line of its own, not by all frames of it
    try:
        lines = _styled(error, _chain(kept))
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = cause, context, silent
    return [*lines, *_origin(cause, context, silent),
            *([f"({plural(hidden, 'call')} inside clnet left out; {DEBUG}=1 shows all)"] if hidden else [])]


def _origin(cause: BaseException | None, context: BaseException | None, silent: bool) -> list[str]:
    """A line on the error that led to this one, where there was one that is not hidden on purpose."""
    if cause is not None:
        return [f"caused by {type(cause).__name__}: {cause}"]
    if context is None or silent:
        return []
    return [f"while this was handled: {type(context).__name__}: {context}"]


def _is_users(file: str) -> bool:
    """Whether a source file is neither clnet's nor what runs notebooks nor Python's own."""
    if file.startswith((LIBRARY, "<frozen ")):
        return False
    parts = Path(file).parts
    if any(name in parts for name in AROUND):
        return False
    paths = sysconfig.get_paths()
    own = file.startswith((paths["stdlib"] + os.sep, paths["platstdlib"] + os.sep))
    return not own or "site-packages" in parts


def _frames(tb: TracebackType | None, wanted: Callable[[str], bool]) -> Iterator[TracebackType]:
    while tb is not None:
        if wanted(tb.tb_frame.f_code.co_filename):
            yield tb
        tb = tb.tb_next


def _chain(kept: list[TracebackType]) -> TracebackType | None:
    """A traceback of these frames alone."""
    found: TracebackType | None = None
    for tb in reversed(kept):
        found = TracebackType(found, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return found


def _styled(error: BaseException, tb: TracebackType | None, offset: int = 0) -> list[str]:
    """As IPython formats it; as Python does where there is no shell, or its formatter cannot."""
    try:
        from IPython import get_ipython

        shell = get_ipython()  # type: ignore[no-untyped-call]
        if shell is not None and tb is not None:
            lines = shell.InteractiveTB.structured_traceback(type(error), error, tb, tb_offset=offset)
            return [str(line) for line in lines]
    except Exception:  # another version's formatter: the text matters, its colours do not
        pass
    return "".join(traceback.format_exception(type(error), error, tb)).rstrip().split("\n")
