"""A latency with its interval, as searches and plans have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Latency:
    """A forecast latency and its interval, ms; `upper` is infinite where it is not known."""

    ms: float
    lower: float
    upper: float


def latency_of(of: Mapping[str, Optional[float]]) -> Latency:
    """From the ends in ns, as the library and the program write them."""

    def ms(name: str) -> float:
        ns = of[name]
        return float("inf") if ns is None else ns / 1e6

    return Latency(ms("point"), ms("lower"), ms("upper"))
