"""A profiler for searches with NNI (`nni.nas.profiler.Profiler`): latencies in ms.

    from nni.nas.strategy import RegularizedEvolution
    from nni.nas.strategy.middleware import Chain, Filter

    profiler = LatencyProfiler(model_space, "pixel4-tflite-cpu-f32", inputs=(1, 3, 224, 224))
    fast = Filter(lambda model: profiler.profile(model.sample) < 20.0)
    strategy = Chain(RegularizedEvolution(), fast)
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, Callable, Optional

from ._open import Named, opened, predict_one
from ._vitempo import Forecast

MOST_KNOWN = 4096


class LatencyProfiler:
    """Profiles samples of a model space by a bundle.

    It has the methods of `nni.nas.profiler.Profiler`. Where a program asks for that class itself,
    `class Mine(LatencyProfiler, Profiler)` is one.

    Args:
        model_space: A model space of NNI; `freeze(sample)` makes its models.
        bundle: The device: a bundle, its name, or its path.
        inputs: Example inputs of the models, or the shape of their input.
        to_model: Makes what `Bundle.predict` takes of a sample, instead of `freeze`.
    """

    def __init__(
        self,
        model_space: Any,
        bundle: Named,
        inputs: Optional[Any] = None,
        to_model: Optional[Callable[[Mapping[str, Any]], Any]] = None,
    ) -> None:
        self.model_space = model_space
        self.bundle = opened(bundle)
        self.inputs = inputs
        self._to_model = to_model
        self._known: dict[bytes, Forecast] = {}

    def forecast(self, sample: Mapping[str, Any]) -> Forecast:
        """The forecast of a sample with its interval; equal samples are exported once, of the
        last few thousand."""
        key = _key(sample)
        known = None if key is None else self._known.get(key)
        if known is not None:
            return known
        make = self._to_model or self.model_space.freeze
        forecast = predict_one(self.bundle, make(sample), inputs=self.inputs)
        if key is not None:
            if len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = forecast
        return forecast

    def profile(self, sample: Mapping[str, Any]) -> float:
        """The latency of a sample, ms."""
        return self.forecast(sample).ms


def _key(sample: Mapping[str, Any]) -> Optional[bytes]:
    """The exact contents of a sample; None where they cannot be written."""
    try:
        return pickle.dumps(sorted(sample.items(), key=lambda item: item[0]))
    except Exception:  # noqa: BLE001 - classes of others raise what they like
        return None
