"""Names that somebody wrote and nobody has: the nearest one there is, and what other libraries' names are called here.

One mechanism for modules, objects and constructors; the sentence is put together when somebody reads it, so that `hasattr` costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

# Where a name may be found that was looked for elsewhere.
PACKAGES = {"clnet": "clnet", **{p: f"clnet.{p}" for p in ("layers", "losses", "optimizers", "train", "ops", "errors")}, "data": "clnet.train.data"}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The name that `word` was most likely meant to be, capitals and underscores aside; None where none is near."""
    import difflib

    spelt: dict[str, list[str]] = {}
    for k in known:
        spelt.setdefault(_plain(k), []).append(k)
    close = difflib.get_close_matches(_plain(word), list(spelt), 1, 0.65)
    return max(spelt[close[0]], key=lambda k: difflib.SequenceMatcher(None, word, k).ratio()) if close else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def ending(word: str, known: Iterable[str]) -> str:
    """How a sentence about an unknown name ends: `; did you mean 'relu'?`, or a full stop."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else "."


def ending_of_argument(word: str, known: Iterable[str]) -> str:
    """The same for an argument of a constructor that has the `known` ones."""
    from .habits import ARGUMENTS, FIELDS

    known = list(known)
    if ours := next((f for f in FIELDS.get(word, ()) if f in known), None):
        return f"; did you mean {ours!r}?"
    if word in ARGUMENTS and nearest(word, known) is None:
        return f"; {ARGUMENTS[word]}"
    return ending(word, known)


def _unknown(text: Callable[[], str]) -> AttributeError:
    from .errors import UnknownNameError  # which has names that may be misspelt itself

    return UnknownNameError(text)


# --- modules
def guide(module: str) -> None:
    """Gives a public module the `__getattr__` that answers for names that it lacks."""
    vars(sys.modules[module])["__getattr__"] = answer(module)


def answer(module: str, depth: int = 1) -> Callable[[str], Any]:
    """That `__getattr__`. Raises AttributeError; in `from module import name`, which would drop the sentence, ImportError.

    depth   how many calls lie between it and whoever asks
    """

    def missing(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if _is_import(sys._getframe(depth)):
            raise ImportError(of_module(module, name), name=module)
        raise _unknown(lambda: of_module(module, name))

    return missing


def _is_import(frame: Any) -> bool:
    """Whether the frame stands at `from module import name`: nothing but an ImportError gets through that."""
    import dis

    return bool(dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM")


def of_module(module: str, name: str) -> str:
    """The sentence about a name that a module lacks."""
    from .habits import CALLED

    own, start = _public(module), f"module {module!r} has no {name!r}"
    if same := next((k for k in own if _plain(k) == _plain(name)), None):
        return f"{start}; did you mean {same!r}?"
    others = [(f"{_shown(package)}.{k}", k) for package, path in PACKAGES.items() if path != module for k in _public(path)]
    if found := next((where for where, k in others if k == name), None):
        return f"{start}; it is {found}."
    if text := next((ours for theirs, ours in CALLED.items() if _plain(theirs) == _plain(name)), None):
        return f"{start}; {_called(module, text)}"
    found = next((where for where, k in others if _plain(k) == _plain(name)), None)
    return f"{start}; it is {found}." if found else start + ending(name, own)


def _called(module: str, text: str) -> str:
    """`clnet calls it Dense(out_features=...)`, with the package where it is another; any other text as it is."""
    package, _, rest = text.partition(".")
    if package not in PACKAGES or not rest or " " in rest.partition("(")[0]:
        return text
    return f"clnet calls it {rest if PACKAGES[package] == module and package != 'clnet' else f'{_shown(package)}.{rest}'}."


def _shown(package: str) -> str:
    return package if package == "clnet" else f"clnet.{package}"


def _public(module: str) -> list[str]:
    """The names that a module offers."""
    found = importlib.import_module(module)
    mine = (k for k, v in vars(found).items() if not k.startswith("_") and str(getattr(v, "__module__", "clnet")).startswith("clnet"))
    return list(getattr(found, "__all__", None) or (k for k in mine if not isinstance(vars(found)[k], ModuleType)))


# --- objects
def lacking(thing: Any, name: str, habit: Callable[[str], str | None], more: str = "") -> AttributeError:
    """The error for an attribute that an object lacks; to be raised by its `__getattr__`.

    habit   name -> how the sentence ends for a name of other libraries (a table's `get`), or nothing
    more    how it ends where no name is near
    """
    who = type(thing).__name__
    if name.startswith("_"):
        return AttributeError(f"{who!r} object has no attribute {name!r}")
    return _unknown(lambda: f"{who} has no {name!r}{_of_object(thing, name, habit, more)}")


def _of_object(thing: Any, name: str, habit: Callable[[str], str | None], more: str) -> str:
    if text := habit(name):
        return f"; {text}"
    found = ending(name, (k for k in dir(thing) if not k.startswith("_")))
    return f"; {more}" if more and found == "." else found
