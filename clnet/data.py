"""`import clnet.data`, `from clnet.data import from_arrays`: what `clnet.data` is, the module clnet.train.data."""

from __future__ import annotations

import sys

from .train import data

sys.modules[__name__] = data
