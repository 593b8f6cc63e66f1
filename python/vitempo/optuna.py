"""Latency constraints for searches with Optuna.

ceiling = Ceiling("pixel4-tflite-cpu-f32", ms=20.0)

def objective(trial):
    model = build(trial)
    ceiling.check(trial, model, inputs=(1, 3, 224, 224))  # prunes what is too slow
    return train(model)

sampler = optuna.samplers.NSGAIISampler(constraints_func=ceiling.violation)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ._ceiling import LatencyCeiling, latency_metrics
from ._open import predict_one
from ._vitempo import Forecast

VIOLATION = "vitempo:violation"


class Ceiling(LatencyCeiling):
    """A latency that models must keep.

    Args:
        bundle: The device: a bundle, its name, or its path.
        ms: The most time a run may take.
        upper: The ceiling holds for the upper end of the interval instead of the forecast, so that
            the model keeps it with the level of the interval.
    """

    def forecast(self, trial: Any, model: Any, **options: Any) -> Forecast:
        """Forecasts the model of a trial and keeps the latency with the trial, as its attributes
        `latency_ms`, `latency_lower_ms`, `latency_upper_ms`. Options are those of
        `Bundle.predict`."""
        forecast = predict_one(self.bundle, model, **options)
        for name, ms in latency_metrics(forecast).items():
            trial.set_user_attr(name, ms)
        trial.set_user_attr(VIOLATION, self.excess(forecast))
        return forecast

    def check(self, trial: Any, model: Any, **options: Any) -> Forecast:
        """The same, and ends the trial where the model is above the ceiling.

        Raises:
            optuna.TrialPruned: It is above.
        """
        forecast = self.forecast(trial, model, **options)
        if trial.user_attrs[VIOLATION] > 0:
            import optuna

            which = "upper end" if self.upper else "latency"
            raise optuna.TrialPruned(f"{which} is {trial.user_attrs[VIOLATION]:.3g} ms too long")
        return forecast

    def violation(self, trial: Any) -> Sequence[float]:
        """For samplers with `constraints_func`: ms above the ceiling; at most 0 where it is
        kept, infinite where the trial was not forecast."""
        return (float(trial.user_attrs.get(VIOLATION, math.inf)),)
