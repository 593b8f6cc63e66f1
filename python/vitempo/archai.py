"""Evaluators for searches with Archai (`ModelEvaluator`).

Archai's latency evaluators (`AvgOnnxLatency`) return seconds, so these do too: `evaluate` converts
the forecast from ms. `AvgOnnxLatency.evaluate` and earlier versions of the interface also pass a
dataset provider, which is accepted and not used.

    objectives.add_objective("Latency (s)", LatencyEvaluator("epyc-onnxruntime-f32-1t",
                             input_shape=(1, 3, 224, 224)), higher_is_better=False)
"""

from __future__ import annotations

from typing import Any, Optional

from ._open import Named, opened, predict_one
from ._vitempo import Forecast


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
        self.bundle = opened(bundle)
        self.input_shape = input_shape
        self.upper = upper

    def forecast(self, arch: Any) -> Forecast:
        """The forecast in ms, of an `ArchaiModel` or of what `Bundle.predict` takes."""
        model = getattr(arch, "arch", arch)
        return predict_one(self.bundle, model, inputs=self.input_shape)

    def evaluate(
        self, arch: Any, dataset_provider: Optional[Any] = None, budget: Optional[float] = None
    ) -> float:
        """The latency of an architecture, s."""
        forecast = self.forecast(arch)
        return (forecast.upper if self.upper else forecast.ms) / 1e3
