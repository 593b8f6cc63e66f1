"""Prints the forecast latency of the model that is being trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Optional, Union

from ._open import Named, opened, several
from ._vitempo import Forecast, read


class ForecastCallback:
    """For a plain training loop, `callback(model)`; for PyTorch Lightning, a callback whose
    `on_fit_start` prints.

    Args:
        bundles: One device or several: bundles, names, or paths.
        inputs: Example inputs of the model, or the shape of its input.
        show: Called with each line; prints by default.
    """

    def __init__(
        self,
        bundles: Union[Named, Iterable[Named]],
        inputs: Optional[Any] = None,
        show: Callable[[str], object] = print,
    ) -> None:
        self.bundles = [opened(bundle) for bundle in several(bundles)]
        self.inputs = inputs
        self.show = show

    def __call__(self, model: Any) -> list[Forecast]:
        """Forecasts the model on each device and shows a line for each."""
        graph = read(model, inputs=self.inputs)
        forecasts = [bundle.predict(graph) for bundle in self.bundles]
        for forecast in forecasts:
            ends = f"[{forecast.lower:.3g} .. {forecast.upper:.3g} ms]"
            self.show(f"{forecast.model} on {forecast.bundle}: {forecast.ms:.3g} ms {ends}")
        return forecasts

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by PyTorch Lightning."""
        self(pl_module)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Every other event of PyTorch Lightning: nothing happens."""
        if name.startswith(("on_", "setup", "teardown")):
            return lambda *_, **__: None
        raise AttributeError(name)

    def state_dict(self) -> dict[str, Any]:
        """Called by PyTorch Lightning: there is no state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called by PyTorch Lightning."""

    @property
    def state_key(self) -> str:
        """Called by PyTorch Lightning."""
        return type(self).__qualname__
