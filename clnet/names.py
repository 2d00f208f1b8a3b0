"""Names that somebody wrote and nobody has: the nearest one there is, and what other libraries' names are called here.

One mechanism for modules, objects, constructors and functions; the sentence is put together when somebody reads it, so
that `hasattr` costs nothing.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from . import errors
from .called import CALLED
from .collector import paused
from .errors import UnknownNameError, UseError
from .habits import ALIKE, ARGUMENTS, FIELDS, UNSET

if TYPE_CHECKING:
    from pathlib import Path

P = ParamSpec("P")
R = TypeVar("R")

# Where a name may be found that was looked for elsewhere.
PACKAGES = {"clnet": "clnet", **{p: f"clnet.{p}" for p in ("layers", "losses", "optimizers", "augment", "train", "ops",
                                                           "errors")},
            "data": "clnet.train.data"}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The name that `word` was most likely meant to be, capitals and underscores aside; None where none is near."""
    import difflib

    spelt: dict[str, list[str]] = {}
    for k in known:
        spelt.setdefault(_plain(k), []).append(k)
    mine = _plain(word)
    close = difflib.get_close_matches(mine, list(spelt), 3, 0.65)
    if not close:
        return None
    matched = {k: difflib.SequenceMatcher(None, k, mine) for k in close}
    # Of equally near ones that with the longest piece in common: adamm is Adam, not ADMM.
    best = max(close, key=lambda k: (matched[k].ratio(), matched[k].find_longest_match().size))
    return max(spelt[best], key=lambda k: difflib.SequenceMatcher(None, word, k).ratio())


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def ending(word: str, known: Iterable[str]) -> str:
    """How a sentence about an unknown name ends: `; did you mean 'relu'?`, or a full stop."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else "."


def ending_of_path(path: Path, known: Iterable[str] = ()) -> str:
    """The same for a file that is not there: the nearest of `known` and of those in its folder."""
    there = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    return ending(path.name, [*known, *there])


def ending_of_argument(word: str, known: Iterable[str]) -> str:
    """The same for an argument of a constructor that has the `known` ones."""
    known = list(known)
    if ours := next((f for f in FIELDS.get(word, ()) if f in known), None):
        return f"; did you mean {ours!r}?"
    near = nearest(word, known)
    if word in ARGUMENTS and (near is None or f"write {near}=" in ARGUMENTS[word]):
        return f"; {ARGUMENTS[word]}"
    return ending(word, known)


# --- modules
def guide(module: str) -> None:
    """Gives a public module the `__getattr__` that answers for names that it lacks."""
    vars(sys.modules[module])["__getattr__"] = answer(module)


def answer(module: str, depth: int = 1) -> Callable[[str], Any]:
    """That `__getattr__`. Raises AttributeError; in `from module import name`,
    which would drop the sentence, ImportError.

    depth   how many calls lie between it and whoever asks
    """

    def missing(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if _is_import(sys._getframe(depth)):
            raise ImportError(of_module(module, name), name=module)
        raise UnknownNameError(lambda: of_module(module, name))

    return missing


OFFERED: dict[str, dict[str, str]] = {}  # package: the module that has a name


def offer(package: str, modules: Mapping[str, str], whole: str = "") -> list[str]:
    """Gives a package the names that its modules have, each imported when somebody asks for it: a hundred classes whose
    fields check themselves take a second to make, and a script needs five. Returns what the package offers, `__all__`.

    modules   module of the package, or the whole path of another: its names, spaces between
    whole     modules of the package that are themselves among what it offers; others are there, too, when asked for
    """
    paths = {module: module if module.startswith("clnet.") else f"{package}.{module}"
             for module in (*modules, *whole.split())}
    where = {name: paths[module] for module, names in modules.items() for name in names.split()}
    own, missing, OFFERED[package] = vars(sys.modules[package]), answer(package, 2), where

    def found(name: str) -> Any:
        if name not in where:
            module = paths.get(name) or (f"{package}.{name}" if name.isidentifier() and name[0] != "_" else "")
            return _imported(module) if module and importlib.util.find_spec(module) else missing(name)
        own[name] = getattr(_imported(where[name]), name)
        return own[name]

    public = sorted({*where, *whole.split()})
    own["__getattr__"], own["__dir__"] = found, lambda: own["__all__"]
    return public


def _imported(module: str) -> ModuleType:
    with paused(keeps=True):
        return importlib.import_module(module)


def _is_import(frame: Any) -> bool:
    """Whether the frame stands at `from module import name`: nothing but an ImportError gets through that."""
    import dis

    return bool(dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM")


def unpacked(frame: Any) -> int | None:
    """How many names `a, b = x` has, where the frame stands at such a line; None where it does not."""
    import dis

    at, code = frame.f_lasti, frame.f_code.co_code
    return code[at + 1] if dis.opname[code[at]] == "UNPACK_SEQUENCE" else None


def of_module(module: str, name: str) -> str:
    """The sentence about a name that a module lacks."""
    own, start = public(module), f"module {module!r} has no {name!r}"
    if same := next((k for k in own if _plain(k) == _plain(name)), None):
        return f"{start}; did you mean {same!r}?"
    others = [(f"{_shown(package)}.{k}", k)
              for package, path in PACKAGES.items() if path != module for k in public(path)]
    if found := next((where for where, k in others if k == name), None):
        return f"{start}; it is {found}."
    like = [k for k in CALLED if _plain(k) == _plain(name)]
    alike = [k for k in like if k[0].isupper() == name[0].isupper()]  # conv2d is a function, Conv2D a layer
    found = next((where for where, k in others if _plain(k) == _plain(name)), None)
    if not alike and found:
        return f"{start}; it is {found}."
    return f"{start}; {_called(module, CALLED[(alike or like)[0]])}" if like else start + ending(name, own)


def _called(module: str, text: str) -> str:
    """`clnet calls it Dense(out_features=...)`, with the package where it is another; any other text as it is."""
    package, _, rest = text.partition(".")
    if package not in PACKAGES or not rest or " " in rest.partition("(")[0]:
        return text
    here = PACKAGES[package] == module and package != "clnet"
    return f"clnet calls it {rest if here else f'{_shown(package)}.{rest}'}."


def _shown(package: str) -> str:
    return package if package == "clnet" else f"clnet.{package}"


def public(module: str) -> list[str]:
    """The names that a module offers."""
    found = importlib.import_module(module)
    mine = (k for k, v in vars(found).items() if not k.startswith("_")
            and str(getattr(v, "__module__", "clnet")).startswith("clnet"))
    return list(getattr(found, "__all__", None) or (k for k in mine if not isinstance(vars(found)[k], ModuleType)))


# --- calls
def told(fn: Callable[P, R], method: str = "") -> Callable[P, R]:
    """fn, whose arguments may be spelt as NumPy or PyTorch has them: `axis`, `dim`, `keepdim` are understood, NumPy's
    own call with `out=None` too. Any other call that does not fit raises UseError, which says what was meant.

    method   the name that fn has as a method, whose first argument, the object, is not spoken of
    """

    @functools.cache
    def parameters() -> list[inspect.Parameter]:
        return list(inspect.signature(fn).parameters.values())[bool(method) :]

    @functools.wraps(fn)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return fn(*args, **named)
        except TypeError as error:
            # Of a call that did not come about there is no frame but this one.
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise
            taken = parameters()
            slip = _slip(taken, args[bool(method) :], named)
            if not slip:
                raise
            meant = _respelt(taken, named)
            if meant.keys() != named.keys():
                return call(*args, **meant)  # type: ignore[arg-type]
        names = ", ".join(str(p.replace(annotation=p.empty, default=p.empty)) for p in taken)
        raise UseError(f"{method or fn.__name__.strip('_')}: expected arguments ({names}); got {slip}")

    return call


def tell(module: str) -> None:
    """Every public function of a module is `told`."""
    names = vars(sys.modules[module])
    names.update({k: told(v) for k, v in names.items() if isinstance(v, FunctionType) and not k.startswith("_")})


def _respelt(taken: Sequence[inspect.Parameter], named: Mapping[str, object]) -> dict[str, object]:
    """The arguments by the names that they have here, without those that say nothing."""
    known, found = {p.name for p in taken}, dict[str, object]()
    for name, value in named.items():
        ours = next((k for k in ALIKE.get(name, ()) if k in known and k not in named and k not in found), None)
        if name in known or ours is None or _differs(name, known, named):
            if not (name in UNSET and name not in known and value is None):
                found[name] = value
        else:
            found[ours] = value
    return found


def _differs(name: str, known: Collection[str], named: Mapping[str, object]) -> bool:
    """Whether PyTorch's function has another default here: its std and var divide by n - 1, NumPy's by n."""
    return name.startswith("dim") and "ddof" in known and not {"ddof", "correction"} & set(named)


def _slip(taken: Sequence[inspect.Parameter], args: Sequence[object], named: Mapping[str, object]) -> str:
    """What of a call does not fit the arguments that are taken, and what was meant; "" where all does."""
    kinds = {p.kind for p in taken}
    known = [p.name for p in taken if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    places = [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD]
    unknown = [k for k in named if k not in known]
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        word = "out" if "out" in unknown else unknown[0]  # which says that a function of NumPy's calls
        bare = any(p.name == word for p in taken)
        if _differs(word, known, named):
            return f"{word!r}; PyTorch divides by n - 1, NumPy by n: write axes=..., ddof=1, or axes=... alone."
        return f"{word!r}{'; write its values without the name.' if bare else ending_of_argument(word, known)}"
    if len(args) > len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        way = "name" if len(known) > len(places) else "leave out"
        return f"{len(args)} by position, where {len(places)} may be; {way} the others."
    if twice := next((n for n in places[: len(args)] if n in named), None):
        return f"{twice!r} by position and by name; leave one out."
    required = [p.name for p in taken if p.default is p.empty and p.name in known]
    missing = next((n for n in required if n not in named and n not in places[: len(args)]), None)
    if missing is None:
        return ""
    way = ARGUMENTS.get(missing, "pass it, too.")
    return f"no {missing!r}; {'pass it, too.' if way.startswith('leave it out') else way}"


# --- objects
def lacking(thing: Any, name: str, habit: Callable[[str], str | None], more: str = "") -> AttributeError:
    """The error for an attribute that an object lacks; to be raised by its `__getattr__`.

    habit   name -> how the sentence ends for a name of other libraries (a table's `get`), or nothing
    more    how it ends where no name is near
    """
    who = type(thing).__name__
    if name.startswith("_"):
        return AttributeError(f"{who!r} object has no attribute {name!r}")
    return UnknownNameError(lambda: f"{who} has no {name!r}{_of_object(thing, name, habit, more)}")


def _of_object(thing: Any, name: str, habit: Callable[[str], str | None], more: str) -> str:
    if text := habit(name):
        return f"; {text}"
    found = ending(name, (k for k in dir(thing) if not k.startswith("_")))
    return f"; {more}" if more and found == "." else found


guide(errors.__name__)  # which stands below this module
