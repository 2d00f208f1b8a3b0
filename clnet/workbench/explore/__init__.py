"""Explorers: lists that filter, with a page for the row that is chosen; widgets in a notebook, tables elsewhere.

    clnet.explore.status()                 what works here: formula, kernels, errors of each name; measure now
    clnet.explore.devices()                the devices found, and what they reach
    clnet.explore.parity(model, [x])       every value of a model beside the float64 reference
    clnet.explore.graph(trainer)           a recorded step (or model(x), or tensors), launch by launch, and its timeline
    clnet.explore.kernels(trainer)         kernels with their numbers: change one, time it, keep it; kernels(): all
    clnet.explore.tuner()                  what was tuned on this machine, with the gains
    clnet.explore.benchmarks("bench.json") the rows of `clnet bench --json`, and their pictures
"""

from ...names import guide as _guide
from .explorer import Explorer
from .graph import Graph, graph
from .kernels import Kernels, kernels, tuner
from .others import benchmarks, devices, parity
from .status import status

_guide(__name__)
