"""Latency constraints for searches with Ray Tune: `pip install "vitempo[ray]"`.

ceiling = Ceiling("pixel4-tflite-cpu-f32", ms=20.0)

def trainable(config):
    model = build(config)
    if not ceiling.report(model, inputs=(1, 3, 224, 224)):
        return  # too slow: not trained
    ...

Architectures of a search space that are too slow are not even drawn with
`param_space={"encoding": tune.sample_from(ceiling.sampler("hybrid-vit"))}`, and `Constrained` keeps
another search algorithm from starting them.
"""

# pyright: reportUntypedBaseClass=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import Any, Optional, Union

from ._ceiling import LatencyCeiling, latency_metrics
from ._open import predict_one
from ._vitempo import Forecast, Space
from .errors import NothingFits

try:
    _tune: Any = importlib.import_module("ray.tune")
    _search: Any = importlib.import_module("ray.tune.search")
except ImportError as _error:
    raise ImportError(
        "vitempo.ray is for Ray Tune, which is not installed: pip install 'vitempo[ray]'"
    ) from _error

__all__ = ["Ceiling", "CeilingStopper", "Constrained"]

VIOLATION = "latency_violation_ms"

DRAWN_AT_ONCE = 64
MOST_DRAWN = 64_000


class Ceiling(LatencyCeiling):
    """A latency that models must keep. Workers get it with the trainable.

    Args:
        bundle: The device: a bundle, its name, or its path.
        ms: The most time a run may take.
        upper: The ceiling holds for the upper end of the interval instead of the forecast, so that
            the model keeps it with the level of the interval.
    """

    def forecast(self, model: Any, **options: Any) -> Forecast:
        """The forecast of a model; options are those of `Bundle.predict`."""
        return predict_one(self.bundle, model, **options)

    def metrics(self, model: Any, **options: Any) -> dict[str, float]:
        """What a trial reports of its model: `latency_ms`, the ends of the interval
        (`latency_lower_ms`, `latency_upper_ms`), and `latency_violation_ms`, which is above 0 where
        the ceiling is not kept."""
        forecast = self.forecast(model, **options)
        return {**latency_metrics(forecast), VIOLATION: self.excess(forecast)}

    def is_kept(self, model: Any, **options: Any) -> bool:
        """Whether a model keeps the ceiling."""
        return self.excess(self.forecast(model, **options)) <= 0

    def report(self, model: Any, **options: Any) -> bool:
        """Reports the metrics of the trial's model to Ray Tune, within a trainable; whether it
        keeps the ceiling."""
        metrics = self.metrics(model, **options)
        _tune.report(metrics)
        return metrics[VIOLATION] <= 0

    def sampler(
        self, space: Union[Space, str, os.PathLike[str]], *, seed: int = 0
    ) -> Callable[..., str]:
        """For `tune.sample_from`: draws architectures of a search space that keep the ceiling, as
        encodings.

        Raises:
            NothingFits: None of many draws keeps it; raised by the draw.
        """
        return _Sampler(self, space if isinstance(space, Space) else Space(space), seed)


class _Sampler:
    """Draws from a space, several at once."""

    def __init__(self, ceiling: Ceiling, space: Space, seed: int) -> None:
        self.ceiling, self.space, self.seed = ceiling, space, seed
        self.ready: list[str] = []
        self.lock = threading.Lock()

    def __call__(self, *_: Any) -> str:
        with self.lock:
            drawn = 0
            while not self.ready:
                if drawn >= MOST_DRAWN:
                    raise NothingFits(
                        f"none of {drawn} architectures of {self.space.name} keeps "
                        f"{self.ceiling.ms:g} ms on {self.ceiling.bundle.name}",
                        hint="raise the ceiling, or sample a space with smaller architectures",
                    )
                self._draw()
                drawn += DRAWN_AT_ONCE
            return self.ready.pop()

    def _draw(self) -> None:
        encodings = self.space.sample(DRAWN_AT_ONCE, seed=self.seed)
        self.seed += 1
        batch = self.ceiling.bundle.predict(encodings, space=self.space)
        reached = batch.upper if self.ceiling.upper else batch.ms
        kept = [e for e, ms in zip(encodings, reached.tolist()) if ms <= self.ceiling.ms]
        self.ready = kept[::-1]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.Lock())


class CeilingStopper(_tune.Stopper):  # type: ignore[misc]
    """Ends trials that have reported a latency above their ceiling, as `Ceiling.report` does.

    Give it as `stop` of Ray Tune's `RunConfig`.
    """

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial ends."""
        return bool(result.get(VIOLATION, 0.0) > 0)

    def stop_all(self) -> bool:
        """Other trials go on."""
        return False


class Constrained(_search.Searcher):  # type: ignore[misc]
    """A search algorithm of Ray Tune that starts no trial whose model is above a ceiling.

    What the algorithm suggests is forecast first. Where it is too slow, the algorithm is told that
    the trial failed, and asked again.

    Args:
        searcher: The algorithm, a `ray.tune.search.Searcher`.
        ceiling: The ceiling.
        to_model: The model of a configuration, as for `Bundle.predict`.
        tries: How often it is asked for one trial; then there is none for the time being.
        options: Options of `Bundle.predict`.
    """

    def __init__(
        self,
        searcher: Any,
        ceiling: Ceiling,
        to_model: Callable[[dict[str, Any]], Any],
        *,
        tries: int = 100,
        **options: Any,
    ) -> None:
        super().__init__(metric=searcher.metric, mode=searcher.mode)
        self.searcher = searcher
        self.ceiling = ceiling
        self.to_model = to_model
        self.tries = tries
        self.options = options
        self.refused = 0
        """How many suggestions were too slow."""
        self._named: dict[str, str] = {}

    def set_search_properties(
        self, metric: Optional[str], mode: Optional[str], config: dict[str, Any], **spec: Any
    ) -> bool:
        """Called by Ray Tune: passed on."""
        is_set = bool(self.searcher.set_search_properties(metric, mode, config, **spec))
        self._metric, self._mode = self.searcher.metric, self.searcher.mode
        return is_set

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Called by Ray Tune: passed on."""
        return bool(self.searcher.set_max_concurrency(max_concurrent))

    def suggest(self, trial_id: str) -> Any:
        """The next configuration that keeps the ceiling."""
        for attempt in range(self.tries):
            name = f"{trial_id}-{attempt}"
            found: Any = self.searcher.suggest(name)
            if not isinstance(found, dict):  # None for not now, or that it has ended
                return found
            if self.ceiling.is_kept(self.to_model(found), **self.options):
                self._named[trial_id] = name
                return found
            self.refused += 1
            self.searcher.on_trial_complete(name, result=None, error=True)
        return None

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Called by Ray Tune: passed on."""
        self.searcher.on_trial_result(self._named.get(trial_id, trial_id), result)

    def on_trial_complete(
        self, trial_id: str, result: Optional[dict[str, Any]] = None, error: bool = False
    ) -> None:
        """Called by Ray Tune: passed on."""
        name = self._named.pop(trial_id, trial_id)
        self.searcher.on_trial_complete(name, result=result, error=error)

    def save(self, checkpoint_path: str) -> None:
        """Called by Ray Tune: the algorithm's own state."""
        self.searcher.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Called by Ray Tune: the algorithm's own state."""
        self.searcher.restore(checkpoint_path)
