"""What proves, measures and shows: checks, parity, benchmarks, tuning, reports, widgets."""

from ..names import offer as _offer

__all__ = [*_offer(__name__, {}, "explore tune")]
