"""Where recorded tensors run. The engines stand above the core: `clnet.engine` registers here which one is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..engine.protocol import Engine
    from .tensor import Tensor


class Changing(Protocol):
    """A variable, as a flush sees it."""

    @property
    def tensor(self) -> Tensor: ...

    def settle(self) -> None:
        """Forgets how its value came about."""


_current: Callable[[], Engine]
_exact: Callable[[], Engine]
_on_replaced: list[Callable[[str], None]] = []
_before_flush: list[Callable[[], Iterable[Changing]]] = []


def register(current: Callable[[], Engine], exact: Callable[[], Engine]) -> None:
    """What `clnet.engine` does when it is imported, which `import clnet` does."""
    global _current, _exact
    _current, _exact = current, exact


def current() -> Engine:
    """The engine in use."""
    return _current()


def exact() -> Engine:
    """The engine on the host that computes at the precision of its leaves."""
    return _exact()


def on_flush(hook: Callable[[], Iterable[Changing]]) -> None:
    """Registers a source of variables whose recorded updates every flush runs along."""
    _before_flush.append(hook)


def on_replaced(hook: Callable[[str], None]) -> None:
    """Registers who keeps what was made of ops."""
    _on_replaced.append(hook)


def replaced(key: str) -> None:
    """An op, by its key, is there no more, or to be computed in another way: what was made of it is let go."""
    for hook in _on_replaced:
        hook(key)


def flush(roots: Iterable[Tensor]) -> None:
    """Runs the graph under the roots, and all updates of variables recorded so far, in one plan on the current engine.

    What a model computed that was told to `use` a device runs there, in a plan of its own.
    """
    variables = [v for hook in _before_flush for v in hook()]
    wanted: dict[Engine | None, list[Tensor]] = {}
    for t in (*roots, *(v.tensor for v in variables)):
        wanted.setdefault(t.home, []).append(t)
    for home, tensors in wanted.items():
        (home or current()).run(tensors)
    for v in variables:
        v.settle()
