"""A latency with its interval, as searches and plans have it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Latency:
    """A forecast latency and its interval, ms."""

    ms: float
    lower: float
    upper: float
