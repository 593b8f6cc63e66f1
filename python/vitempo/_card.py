"""Cards for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._vitempo import Forecast

MOST_KINDS = 8


def forecast(of: Forecast) -> str:
    """The card of a forecast: latency, interval, coverage, and the time of each kind."""
    coverage = of.coverage
    rows = "".join(_row(kind, count, ms, share) for kind, count, ms, share in by_kind(of))
    return (
        f"<div><b>{escape(of.model)}</b> on {escape(of.environment)}<br>"
        f"<span style='font-size:1.4em'>{of.ms:.3g} ms</span> "
        f"[{of.lower:.3g} .. {of.upper:.3g} ms, {of.level:.0%}]<br>"
        f"{coverage.trained} of {coverage.operators} kernels by trained predictors"
        f"{_marks(coverage.fallback, coverage.extrapolating, len(of.unsupported))}"
        "<table><thead><tr><th>kind</th><th>kernels</th><th>ms</th><th>share</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def by_kind(of: Forecast, most: Optional[int] = MOST_KINDS) -> list[tuple[str, int, float, float]]:
    """Kind, number of kernels, ms and share, the longest first, at most so many."""
    operators = of.operators
    kinds: dict[str, tuple[int, float]] = {}
    for kind, ms in zip(operators["kind"].tolist(), operators["ms"].tolist()):
        count, total = kinds.get(kind, (0, 0.0))
        kinds[kind] = (count + 1, total + ms)
    whole = sum(total for _, total in kinds.values()) or 1.0
    ranked = sorted(kinds.items(), key=lambda item: -item[1][1])
    return [(kind, count, ms, ms / whole) for kind, (count, ms) in ranked[:most]]


def _row(kind: str, count: int, ms: float, share: float) -> str:
    bar = f"<div style='background:#4c78a8;height:0.8em;width:{100 * share:.1f}px'></div>"
    return f"<tr><td>{escape(kind)}</td><td>{count}</td><td>{ms:.3g}</td><td>{bar}</td></tr>"


def _marks(fallback: int, extrapolating: int, unsupported: int) -> str:
    marks = (
        (fallback, "estimated from their work alone"),
        (extrapolating, "outside of the training data"),
        (unsupported, "not supported"),
    )
    return "".join(f"; {count} {what}" for count, what in marks if count)
