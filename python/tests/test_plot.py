"""Figures of forecasts: what the axes have."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import MODELS

import vitempo

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")

from vitempo import plot  # noqa: E402

MODEL = MODELS / "mobilevit_xxs.onnx"

# Those of matplotlib and of what it needs are not ours.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def labels(axis) -> list[str]:
    return [text.get_text() for text in axis.get_ticklabels()]


def test_devices_with_their_intervals(bundle, tmp_path):
    found = vitempo.predict_on(MODEL, [bundle, "pixel4-tflite-cpu-f32"])
    ax = plot.devices(found, ceiling=20.0)
    assert labels(ax.yaxis) == [row.bundle for row in found] and ax.get_xscale() == "log"
    (bars,) = ax.containers
    dots, _, (segments,) = bars.lines
    assert dots.get_xdata().tolist() == [row.ms for row in found]
    ends = [segment[:, 0].tolist() for segment in segments.get_segments()]
    for row, end in zip(found, ends):
        assert end == pytest.approx([row.lower, row.upper])
    assert ax.yaxis_inverted() and ax.get_title() == "mobilevit_xxs"
    ax.figure.savefig(tmp_path / "devices.svg")
    assert b"pixel4-tflite-cpu-f32" in (tmp_path / "devices.svg").read_bytes()
    with pytest.raises(ValueError, match="no forecast"):
        plot.devices([])


def test_a_breakdown_has_the_whole_time(bundle):
    forecast = bundle.predict(MODEL)
    total = float(forecast.operators["ms"].sum())
    for by in ("kind", "kernel"):
        ax = plot.breakdown(forecast, by=by, most=5)
        widths = [bar.get_width() for bar in ax.patches]
        assert len(widths) == 6 and sum(widths) == pytest.approx(total)
        assert widths[:5] == sorted(widths[:5], reverse=True)
        assert labels(ax.yaxis)[-1].endswith("others")
    last = len({*forecast.operators["kind"].tolist()}) - 1
    assert labels(ax.yaxis)[0] in forecast.operators["name"].tolist()
    ax = plot.breakdown(forecast, most=last)
    assert not any("others" in name for name in labels(ax.yaxis))
    given = plot.breakdown(forecast, ax=ax)
    assert given is ax
    with pytest.raises(ValueError, match="by 'layer'"):
        plot.breakdown(forecast, by="layer")


def test_the_front_is_what_no_other_beats():
    latencies = [3.0, 1.0, 2.0, 2.0, 4.0, 1.0]
    scores = [5.0, 1.0, 4.0, 6.0, 6.0, 2.0]
    assert plot.best_of(latencies, scores).tolist() == [5, 3]
    assert plot.best_of([2.0, 2.0], [1.0, 1.0]).tolist() == [0]
    assert plot.best_of([], []).tolist() == []


def test_a_front_of_a_batch_and_of_a_search(bundle, encodings):
    batch = bundle.predict(encodings[:50])
    scores = np.arange(50.0)
    ax = plot.front(batch, scores, ceiling=15.0, label="top-1 accuracy, %")
    best = plot.best_of(batch.ms, scores)
    assert ax.lines[0].get_xdata().tolist() == batch.ms[best].tolist()
    assert ax.get_ylabel() == "top-1 accuracy, %"
    assert len(ax.collections[0].get_offsets()) == 50
    found = vitempo.search("hybrid-vit", bundle, "flops", candidates=300, population=20)
    ax = plot.front(found, label="FLOPs")
    assert len(ax.collections[0].get_offsets()) == len(found.front)
    plot.front(list(batch)[:5], scores[:5])
    plot.front([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="`scores` gives the score"):
        plot.front(batch)
    with pytest.raises(ValueError, match="50 latencies, but scores of shape"):
        plot.front(batch, scores[:3])
