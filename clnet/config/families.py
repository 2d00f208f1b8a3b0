"""The families of configured classes (layers, losses, optimizers, ...), filled as their base classes are declared."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from ..names import OFFERED

if TYPE_CHECKING:
    from .fields import Configured


class Registry(MutableMapping[str, "type[Any]"]):
    """The classes of a family by name, in the order of the alphabet. Those that the family's package offers and nobody
    asked for yet are imported when somebody does: one by its name, all of them where somebody goes through them.
    """

    def __init__(self, module: str) -> None:
        self._package = module.rpartition(".")[0]
        self._known: dict[str, type[Any]] = {}

    def _offered(self) -> dict[str, str]:
        return OFFERED.get(self._package, {})

    def _whole(self) -> dict[str, type[Any]]:
        for module in dict.fromkeys(self._offered().values()):
            importlib.import_module(module)
        return self._known

    def __getitem__(self, name: str) -> type[Any]:
        if name not in self._known and name in self._offered():
            importlib.import_module(self._offered()[name])
        return self._known[name]

    def __setitem__(self, name: str, cls: type[Any]) -> None:
        self._known[name] = cls

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._whole()))

    def __len__(self) -> int:
        return len(self._whole())

    def likely(self, plain: Callable[[str], str], name: str) -> type[Any] | None:
        """The class whose own name is `name` when both are written plainly, found without importing others."""
        names = (n for n in (*self._known, *self._offered()) if plain(n) == plain(name))
        return next((self[n] for n in names if n in self), None)


def find(families: Iterable[type[Configured]], name: str) -> type[Any] | None:
    """The class under a name, an alias or a specification's name: a name imports one class, the others all."""
    families = list(families)
    for family in families:
        if name in family.registry:
            return family.registry[name]
    every = (c for family in families for c in family.registry.values())
    return next((c for c in every if name in (c.spec_name, *c.aliases)), None)


FAMILIES: list[type[Configured]] = []


def family_of(cls: type) -> type[Configured] | None:
    """The family that a class belongs to; None of what is not configured."""
    return next((c for c in cls.__mro__ if c in FAMILIES), None)
