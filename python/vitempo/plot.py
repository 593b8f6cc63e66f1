"""Figures of forecasts by matplotlib: `pip install "vitempo[plot]"`.

Each function draws into the axes given, or into new ones, and returns them:

ax = vitempo.plot.devices(vitempo.predict_on("vit.onnx"))
ax.figure.savefig("devices.svg")
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ._card import by_kind
from ._compare import Comparison
from ._search import SearchResult
from ._vitempo import Forecast, Forecasts

__all__ = ["breakdown", "devices", "front"]

COLOR = "#4c78a8"
FAINT = "#b8b8b8"
ROW_INCHES = 0.28


def devices(
    forecasts: Union[Comparison, Iterable[Forecast]],
    *,
    ceiling: Optional[float] = None,
    logarithmic: bool = True,
    ax: Optional[Any] = None,
) -> Any:
    """A model over devices: a row per forecast, the latency as a dot and its interval as a bar.

    Args:
        forecasts: A result of `vitempo.predict_on`, or forecasts; the first is on top.
        ceiling: A latency to mark, ms.
        logarithmic: Whether the axis of latencies is.
        ax: Axes to draw into.

    Returns:
        The axes.
    """
    rows = list(forecasts)
    if not rows:
        raise ValueError("no forecast to draw")
    axes = _axes(ax, len(rows))
    ms = np.array([row.ms for row in rows])
    ends = _ends(rows)
    places = np.arange(len(rows))
    axes.errorbar(ms, places, xerr=np.maximum(ends, 0.0), fmt="o", color=COLOR, capsize=2)
    axes.set_yticks(places, [row.bundle for row in rows])
    axes.invert_yaxis()
    if logarithmic:
        axes.set_xscale("log")
    if ceiling is not None:
        axes.axvline(ceiling, color=FAINT, linestyle="--", label=f"{ceiling:g} ms")
        axes.legend()
    names = sorted({row.model for row in rows})
    axes.set_title(", ".join(names) if len(names) <= 3 else f"{len(names)} models")
    axes.set_xlabel(f"latency, ms; interval of {rows[0].level:.0%}")
    return axes


def breakdown(
    forecast: Forecast, *, by: str = "kind", most: int = 12, ax: Optional[Any] = None
) -> Any:
    """Where the time of a forecast goes: a bar per kind of operator, or per kernel.

    Args:
        forecast: The forecast.
        by: `kind`, or `kernel` for the slowest ones.
        most: Most bars; the time of all others is one bar.
        ax: Axes to draw into.

    Returns:
        The axes.
    """
    if by not in ("kind", "kernel"):
        raise ValueError(f"by {by!r}: expected `kind` or `kernel`")
    rows = [(kind, ms) for kind, _, ms, _ in by_kind(forecast, None)]
    if by == "kernel":
        operators = forecast.operators
        pairs = zip(operators["name"].tolist(), operators["ms"].tolist())
        rows = sorted(((str(name), float(ms)) for name, ms in pairs), key=lambda row: -row[1])
    shown, others = rows[:most], rows[most:]
    if len(others) == 1:
        shown = rows
    elif others:
        shown.append((f"{len(others)} others", sum(ms for _, ms in others)))
    axes = _axes(ax, len(shown))
    whole = sum(ms for _, ms in rows) or 1.0
    places = np.arange(len(shown))
    bars = axes.barh(places, [ms for _, ms in shown], color=COLOR)
    axes.margins(x=0.1)
    axes.bar_label(bars, [f"{ms / whole:.0%}" for _, ms in shown], padding=2)
    axes.set_yticks(places, [name for name, _ in shown])
    axes.invert_yaxis()
    axes.set_title(f"{forecast.model} on {forecast.bundle}: {forecast.ms:.3g} ms")
    axes.set_xlabel("latency, ms")
    return axes


def front(
    latencies: Union[Forecasts, SearchResult, Sequence[Forecast], npt.ArrayLike],
    scores: Optional[npt.ArrayLike] = None,
    *,
    ceiling: Optional[float] = None,
    label: str = "accuracy",
    device: int = 0,
    ax: Optional[Any] = None,
) -> Any:
    """Architectures by latency and score, with those that none other beats in both.

    Args:
        latencies: Forecasts of a batch, a list of them, or latencies in ms, shape (n,); or a result
            of `vitempo.search`, which has scores of its own.
        scores: What is to be high, e.g. accuracies, shape (n,).
        ceiling: A latency to mark, ms.
        label: What the scores are.
        device: Of a search over several bundles: which one.
        ax: Axes to draw into.

    Returns:
        The axes.
    """
    middle, ends = _latencies(latencies, device)
    if isinstance(latencies, SearchResult):
        scores = [candidate.score for candidate in latencies.front]
    if scores is None:
        raise ValueError("`scores` gives the score of each latency")
    score = np.asarray(scores, dtype=np.float64)
    if score.shape != middle.shape:
        raise ValueError(f"{len(middle)} latencies, but scores of shape {score.shape}")
    if not len(middle):
        raise ValueError("no architecture to draw")
    axes = _axes(ax, 12)
    best = best_of(middle, score)
    axes.scatter(middle, score, s=8, color=FAINT, zorder=1)
    bars = None if ends is None else np.maximum(ends[:, best], 0.0)
    axes.errorbar(
        middle[best],
        score[best],
        xerr=bars,
        fmt="o-",
        color=COLOR,
        markersize=4,
        capsize=2,
        drawstyle="steps-post",
        label="front",
        zorder=2,
    )
    if ceiling is not None:
        axes.axvline(ceiling, color=FAINT, linestyle="--", label=f"{ceiling:g} ms")
    axes.legend()
    axes.set_xlabel("latency, ms")
    axes.set_ylabel(label)
    return axes


def best_of(latencies: npt.ArrayLike, scores: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Indices of the members that no other is at least as fast and at least as good as, without
    being equal; fastest first. Of equal members the first is taken.

    Args:
        latencies: What is to be low, shape (n,).
        scores: What is to be high, shape (n,).
    """
    low = np.asarray(latencies, dtype=np.float64)
    high = np.asarray(scores, dtype=np.float64)
    order = np.lexsort((-high, low))
    reached = np.maximum.accumulate(high[order])
    above = np.ones(len(order), dtype=bool)
    above[1:] = high[order][1:] > reached[:-1]
    return order[above]


def _latencies(
    given: Any, device: int
) -> tuple[npt.NDArray[np.float64], Optional[npt.NDArray[np.float64]]]:
    """Latencies, and how far the ends of their intervals are, where these are known."""
    if isinstance(given, SearchResult):
        rows = [candidate.latencies[device] for candidate in given.front]
    elif isinstance(given, Forecasts):
        return given.ms, np.array([given.ms - given.lower, given.upper - given.ms])
    elif isinstance(given, (list, tuple)) and all(isinstance(row, Forecast) for row in given):
        rows = list(given)
    else:
        return np.asarray(given, dtype=np.float64), None
    ms = np.array([row.ms for row in rows], dtype=np.float64)
    return ms, _ends(rows)


def _ends(rows: Iterable[Any]) -> npt.NDArray[np.float64]:
    """How far the ends of intervals are, ms; NaN, which draws nothing, for an end that is not
    known."""
    ends = [[row.ms - row.lower, row.upper - row.ms] for row in rows]
    far = np.array(ends, dtype=np.float64).reshape(-1, 2).T
    return np.where(np.isfinite(far), far, np.nan)


def _axes(ax: Optional[Any], rows: int) -> Any:
    """The axes given, or new ones that are high enough."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "vitempo.plot draws by matplotlib, which is not installed: pip install 'vitempo[plot]'"
        ) from error
    _, made = plt.subplots(figsize=(7.0, 1.4 + ROW_INCHES * rows), layout="constrained")
    return made
