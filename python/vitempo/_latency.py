"""A latency with its interval, as searches and plans have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Latency:
    """A forecast latency and its interval, ms."""

    ms: float
    lower: float
    upper: float


def latency_of(of: Mapping[str, float]) -> Latency:
    """From the ends in ns, as the library and the program write them."""
    return Latency(of["point"] / 1e6, of["lower"] / 1e6, of["upper"] / 1e6)
