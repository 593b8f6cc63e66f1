"""One model on several devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Optional, Union

from ._open import Named, opened, several
from ._vitempo import Forecast, bundles, read
from .errors import VitempoError


@dataclass(frozen=True)
class Comparison:
    """Forecasts of one model by several bundles, the shortest latency first.

    Attributes:
        forecasts: One per bundle.
        left_out: Names of bundles without a forecast, each with the reason.
    """

    forecasts: list[Forecast]
    left_out: list[tuple[str, VitempoError]]

    def __len__(self) -> int:
        return len(self.forecasts)

    def __iter__(self) -> Iterator[Forecast]:
        return iter(self.forecasts)

    def __getitem__(self, index: int) -> Forecast:
        return self.forecasts[index]

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns: bundle, environment, and the latency and its interval in ms."""
        rows = self.forecasts
        return {
            "bundle": [row.bundle for row in rows],
            "environment": [row.environment for row in rows],
            "ms": [row.ms for row in rows],
            "lower": [row.lower for row in rows],
            "upper": [row.upper for row in rows],
        }

    def __repr__(self) -> str:
        width = max((len(row.bundle) for row in self.forecasts), default=0)
        lines = [
            f"{row.bundle:<{width}}  {row.ms:10.3f} ms [{row.lower:.3f} .. {row.upper:.3f}]"
            for row in self.forecasts
        ]
        lines += [f"{name}: left out: {error.message}" for name, error in self.left_out]
        return "\n".join(lines)


def predict_on(
    model: Any,
    bundles: Optional[Union[Named, Iterable[Named]]] = None,
    *,
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
) -> Comparison:
    """Forecasts one model by several bundles; the model is read once.

    Args:
        model: As for `Bundle.predict`, one model.
        bundles: One or several: bundles, names or paths; every bundle that a name finds if left
            out.
        inputs: Example inputs of a torch module, or the shape of its input.
        dims: Extents of symbolic dimensions.

    Raises:
        InvalidModel: The model cannot be read. A bundle that cannot forecast it is listed in
            `left_out` of the result instead.
    """
    chosen = _all() if bundles is None else several(bundles)
    graph = read(model, inputs=inputs, dims=dims)
    forecasts: list[Forecast] = []
    left_out: list[tuple[str, VitempoError]] = []
    for bundle in chosen:
        device = opened(bundle)
        try:
            forecasts.append(device.predict(graph))
        except VitempoError as error:
            left_out.append((device.name, error))
    forecasts.sort(key=lambda forecast: forecast.ms)
    return Comparison(forecasts, left_out)


def _all() -> list[Named]:
    return list(bundles())
