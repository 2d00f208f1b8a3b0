"""Models: layers in a row or wired as a graph, their files, what they are made of, and how other programs write them.
"""

from typing import TYPE_CHECKING

from ..names import offer as _offer

if TYPE_CHECKING:  # for editors and mypy; at run time the table below
    from .sequential import Graph, Input, Model, Sequential, load
    from .transfer import Loaded, to_torch_state_dict

__all__ = _offer(__name__, {
    "sequential": "Graph Input Model Sequential load",
    "transfer": "Loaded to_torch_state_dict",
})
