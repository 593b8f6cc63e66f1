"""Cards for notebooks.

A card is one piece of HTML without scripts, style sheets or ids, so that many of them fit into one
notebook. Text has the notebook's own colour; marks have a colour that is seen on light and on dark.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._vitempo import Forecast

MOST_KINDS = 8
ACCENT = "#12887f"
# Pixels of the drawing: all of it, and from its edges to the ends of the axis.
WIDTH, HEIGHT, EDGE = 360.0, 46.0, 8.0
BAR = 120.0
QUIET = "opacity:.75;font-size:.9em"
CELL = "padding:.1em .8em .1em 0"


def forecast(of: Forecast) -> str:
    """The card of a forecast: latency, interval, coverage, and the time of each kind."""
    coverage = of.coverage
    kinds = by_kind(of, None)
    rows = "".join(_row(*kind) for kind in kinds[:MOST_KINDS])
    return (
        "<div style='max-width:34em;text-align:left'>"
        f"<div><b>{escape(of.model)}</b> on {escape(of.environment)}</div>"
        f"<div><span style='font-size:1.6em;font-weight:600'>{_ms(of.ms)}</span> "
        f"<span>{_interval(of)}</span></div>"
        f"{_drawing(of.ms, of.lower, of.upper, of.level)}"
        f"<div style='{QUIET}'>{coverage.trained} of {coverage.operators} kernels by trained "
        f"predictors{_marks(coverage.fallback, coverage.extrapolating, len(of.unsupported))}</div>"
        "<table style='border-collapse:collapse;margin:.5em 0 0;color:inherit;font-size:inherit'>"
        f"<caption style='text-align:left;{QUIET}'>{_caption(len(kinds))}</caption>"
        f"<thead><tr>{_heading('kind')}{_heading('kernels', 'right')}{_heading('ms', 'right')}"
        f"{_heading('share')}</tr></thead><tbody>{rows}</tbody></table></div>"
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


def _ms(value: float) -> str:
    """Three digits, without an exponent."""
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:.{decimals}f} ms"


def _interval(of: Forecast) -> str:
    if of.upper == float("inf"):
        return f"at least {_ms(of.lower)}: operators are missing"
    return f"{_ms(of.lower)} to {_ms(of.upper)} ({of.level:.0%} interval)"


def _drawing(ms: float, lower: float, upper: float, level: float) -> str:
    """A dot on its interval, over an axis from 0: the shorter the line, the surer the forecast."""
    if not 0.0 < upper < float("inf"):
        return ""
    places = (EDGE + (WIDTH - 2 * EDGE) * value / (1.1 * upper) for value in (lower, ms, upper))
    low, at, high = (f"{place:.1f}" for place in places)
    label = f"forecast {_ms(ms)}, {level:.0%} interval {_ms(lower)} to {_ms(upper)}"
    anchor = "text-anchor='middle' font-size='11' fill='currentColor'"
    return (
        f"<svg role='img' aria-label='{escape(label)}' width='{WIDTH:.0f}' height='{HEIGHT:.0f}' "
        f"viewBox='0 0 {WIDTH:.0f} {HEIGHT:.0f}' style='max-width:100%;display:block'>"
        f"<path d='M{EDGE:.0f} 16H{WIDTH - EDGE:.0f}M{EDGE:.0f} 11v10' stroke='currentColor' "
        "stroke-opacity='.35' fill='none'/>"
        f"<path d='M{low} 16H{high}' stroke='{ACCENT}' stroke-opacity='.5' stroke-width='9' "
        "stroke-linecap='round'/>"
        f"<circle cx='{at}' cy='16' r='6' fill='{ACCENT}'/>"
        f"<text x='{EDGE:.0f}' y='38' {anchor}>0</text>"
        f"<text x='{at}' y='38' {anchor}>{_ms(ms)}</text></svg>"
    )


def _caption(kinds: int) -> str:
    if kinds <= MOST_KINDS:
        return "Time by kind of kernel"
    return f"Time by kind of kernel, the {MOST_KINDS} longest of {kinds}"


def _heading(text: str, align: str = "left") -> str:
    return f"<th scope='col' style='text-align:{align};{CELL}'>{text}</th>"


def _row(kind: str, count: int, ms: float, share: float) -> str:
    number = f"<td style='text-align:right;{CELL}'>"
    bar = (
        f"<svg aria-hidden='true' width='{BAR:.0f}' height='10'>"
        f"<rect width='{BAR * share:.1f}' height='10' rx='2' fill='{ACCENT}'/></svg>"
    )
    return (
        f"<tr><th scope='row' style='text-align:left;font-weight:400;{CELL}'>{escape(kind)}</th>"
        f"{number}{count}</td>{number}{ms:.3g}</td>"
        f"<td style='text-align:left;white-space:nowrap;{CELL}'>{bar} {share:.0%}</td></tr>"
    )


def _marks(fallback: int, extrapolating: int, unsupported: int) -> str:
    marks = (
        (fallback, "estimated from their work alone"),
        (extrapolating, "outside of the training data"),
        (unsupported, "not supported"),
    )
    return "".join(f"; {count} {what}" for count, what in marks if count)
