"""A regressor over encodings with the interface of scikit-learn, without needing it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ._open import Named, opened
from ._vitempo import Bundle, Forecasts, Space
from .errors import InvalidArgument

Floats = npt.NDArray[np.float64]


class LatencyRegressor:
    """Latencies of encodings in ms. It is fitted already; `fit` only checks its arguments.

    Args:
        bundle: The device: a bundle, its name, or its path.
        space: The space of the encodings; by default the one that comes with vitempo.
    """

    def __init__(
        self,
        bundle: Union[Bundle, str] = "epyc-onnxruntime-f32-1t",
        space: Union[Space, str, os.PathLike[str], None] = None,
    ) -> None:
        self.bundle = bundle
        self.space = space
        self._opened: Optional[tuple[Named, Bundle]] = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {"bundle": self.bundle, "space": self.space}

    def set_params(self, **params: Any) -> LatencyRegressor:
        """Changes arguments of the constructor."""
        for name, value in params.items():
            if name not in ("bundle", "space"):
                raise ValueError(f"LatencyRegressor has no parameter `{name}`")
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: Optional[Any] = None) -> LatencyRegressor:
        """Forecasts the first encoding, so that wrong ones are seen here; learns nothing."""
        self._forecasts(_column(X)[:1])
        return self

    def predict(self, X: Any) -> Floats:
        """Latencies, ms, of encodings of shape (n,) or (n, 1); float64, shape (n,)."""
        return self._forecasts(X).ms

    def predict_interval(self, X: Any) -> Floats:
        """Lower and upper ends of the intervals, ms; float64, shape (n, 2)."""
        forecasts = self._forecasts(X)
        return np.column_stack([forecasts.lower, forecasts.upper])

    def score(self, X: Any, y: Sequence[float]) -> float:
        """The coefficient of determination of the forecasts for measured latencies `y`, ms."""
        measured, forecasts = np.asarray(y, dtype=np.float64), self.predict(X)
        if measured.shape != forecasts.shape:
            raise InvalidArgument(
                f"`y` has shape {measured.shape}, expected {forecasts.shape}: a latency per row "
                "of `X`"
            )
        residual = float(((measured - forecasts) ** 2).sum())
        total = float(((measured - measured.mean()) ** 2).sum())
        return 1.0 - residual / total if total else 0.0

    def _forecasts(self, X: Any) -> Forecasts:
        if self._opened is None or self._opened[0] is not self.bundle:
            self._opened = self.bundle, opened(self.bundle)
        return self._opened[1].predict(_column(X), space=self.space)


def _column(X: Any) -> npt.NDArray[Any]:
    """Encodings of shape (n,); an array keeps its mask."""
    values: npt.NDArray[Any] = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
