"""What proves, measures and shows: checks, parity, benchmarks, tuning, reports, widgets."""

from ..names import guide as _guide

_guide(__name__)
