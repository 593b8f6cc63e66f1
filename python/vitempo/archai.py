"""Evaluators for searches with Archai (`ModelEvaluator`).

Archai's latency evaluators (`AvgOnnxLatency`) return seconds, so these do too: `evaluate` converts
the forecast from ms. A forecast is cheap, so it can bound the search:

    objectives.add_objective("Latency (s)", LatencyEvaluator("epyc-onnxruntime-f32-1t",
                             input_shape=(1, 3, 224, 224)), higher_is_better=False,
                             compute_intensive=False, constraint=(0.0, 0.02))

Archai's objectives take only a `ModelEvaluator`. Where Archai is installed, a `LatencyEvaluator`
is one.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

from functools import cache
from typing import Any, Optional

from ._open import Named, opened, predict_one
from ._vitempo import Forecast


@cache
def _join_archai() -> None:
    """Makes the class below one of Archai's evaluators, where Archai can be imported."""
    try:
        from archai.discrete_search.api import ModelEvaluator
    except ImportError:
        return
    # A base class would have to be known when this module is imported.
    ModelEvaluator.register(LatencyEvaluator)


class LatencyEvaluator:
    """The forecast latency of an architecture, in seconds.

    Args:
        bundle: The device: a bundle, its name, or its path.
        input_shape: Shape of the model's input.
        upper: Evaluate the upper end of the interval instead of the forecast.
    """

    def __init__(
        self,
        bundle: Named,
        input_shape: Optional[tuple[int, ...]] = None,
        *,
        upper: bool = False,
    ) -> None:
        _join_archai()
        self.bundle = opened(bundle)
        self.input_shape = input_shape
        self.upper = upper

    def forecast(self, arch: Any) -> Forecast:
        """The forecast in ms, of an `ArchaiModel` or of what `Bundle.predict` takes."""
        model = getattr(arch, "arch", arch)
        return predict_one(self.bundle, model, inputs=self.input_shape)

    def evaluate(self, arch: Any, budget: Optional[float] = None) -> float:
        """The latency of an architecture, s; a budget changes nothing."""
        forecast = self.forecast(arch)
        return (forecast.upper if self.upper else forecast.ms) / 1e3
