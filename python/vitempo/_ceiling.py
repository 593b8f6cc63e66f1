"""What constraints on latency have in common, whatever the search."""

from __future__ import annotations

from ._numbers import number
from ._open import Named, opened
from ._vitempo import Forecast


class LatencyCeiling:
    """A device, the most time that a run may take on it, ms, and whether the upper end of the
    interval has to keep it, or the forecast."""

    def __init__(self, bundle: Named, ms: float, *, upper: bool = True) -> None:
        self.bundle = opened(bundle)
        self.ms = number("ms", ms, "ms", above=True)
        self.upper = upper

    def excess(self, forecast: Forecast) -> float:
        """Ms above the ceiling; at most 0 where it is kept."""
        return (forecast.upper if self.upper else forecast.ms) - self.ms


def latency_metrics(forecast: Forecast) -> dict[str, float]:
    """The forecast as a trial of a search keeps it, ms."""
    return {
        "latency_ms": forecast.ms,
        "latency_lower_ms": forecast.lower,
        "latency_upper_ms": forecast.upper,
    }
