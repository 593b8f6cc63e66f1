"""A profiler for searches with NNI (`nni.nas.profiler.Profiler`): latencies in ms.

    from nni.nas.strategy import RegularizedEvolution
    from nni.nas.strategy.middleware import Chain, Filter

    profiler = LatencyProfiler(model_space, "pixel4-tflite-cpu-f32", inputs=(1, 3, 224, 224))
    fast = Filter(lambda model: profiler.profile(model.sample) < 20.0)
    strategy = Chain(RegularizedEvolution(), fast)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional

from ._open import Named, opened, predict_one
from ._vitempo import Forecast


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
        self._known: dict[str, Forecast] = {}

    def forecast(self, sample: Mapping[str, Any]) -> Forecast:
        """The forecast of a sample with its interval; each sample is exported once."""
        key = repr(sorted(sample.items(), key=lambda item: item[0]))
        if key not in self._known:
            make = self._to_model or self.model_space.freeze
            self._known[key] = predict_one(self.bundle, make(sample), inputs=self.inputs)
        return self._known[key]

    def profile(self, sample: Mapping[str, Any]) -> float:
        """The latency of a sample, ms."""
        return self.forecast(sample).ms
