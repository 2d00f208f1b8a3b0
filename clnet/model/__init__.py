"""Models: layers in a row or wired as a graph, their files, what they are made of, and how other programs write them.
"""

from ..names import guide as _guide
from .sequential import Graph, Input, Model, Sequential, load
from .transfer import Loaded, to_torch_state_dict

_guide(__name__)
