"""Errors of a bundle on measured models that it was not trained on."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _vitempo
from ._dataset import Dataset
from ._open import Named, opened

_log = logging.getLogger("vitempo")


@dataclass(frozen=True)
class ModelError:
    """A measured model and its forecast, ms; `error` is a share, above 0 where the forecast is
    longer."""

    model: str
    measured: float
    forecast: float
    lower: float
    upper: float

    @property
    def error(self) -> float:
        """Forecast over measured, less 1."""
        return self.forecast / self.measured - 1.0 if self.measured else float("nan")


@dataclass(frozen=True)
class Errors:
    """Errors on a set of models.

    Attributes:
        models: The models, in the order of their names.
        mape: Mean absolute percentage error end to end, percent.
        p90: 90th percentile of the absolute percentage error, percent.
        within_10pct: Share of models with an error of at most 10 %.
        covered: Share of models whose latency is in the interval.
        level: Share that the interval is made for.
        noise: Difference between runs of the same model, percent; None where none ran twice.
        kinds: Mean absolute percentage error of each kind of kernel, percent.
    """

    models: list[ModelError]
    mape: float
    p90: float
    within_10pct: float
    covered: float
    level: float
    noise: Optional[float]
    kinds: dict[str, float]


@dataclass(frozen=True)
class Evaluation:
    """A bundle's errors: on all models, on those sampled from a search space, and on the others.

    Attributes:
        bundle: Name of the bundle.
        all: Every test model.
        synthetic: Models sampled from a search space.
        real: The other models.
    """

    bundle: str
    all: Errors
    synthetic: Optional[Errors]
    real: Optional[Errors]
    _of: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """As the program writes it: MAPE and p90 in percent, shares between 0 and 1."""
        return dict(self._of)

    def __str__(self) -> str:
        sets = [("synthetic", self.synthetic), ("real", self.real)]
        lines = [
            f"{name}: {of.mape:.1f} % mean error on {len(of.models)} models, "
            f"{of.covered:.0%} within the {of.level:.0%} interval"
            for name, of in sets
            if of is not None
        ]
        return "\n".join(lines)


def evaluate(bundle: Named, on: Union[Dataset, str, os.PathLike[str]]) -> Evaluation:
    """Compares a bundle's forecasts with the measurements of its environment in a dataset. Models
    that it was trained on do not count.

    Args:
        bundle: A trained bundle, its name, or its path.
        on: A dataset, or its folder.

    Raises:
        NothingMeasured: The dataset has no other models of that environment.
        InvalidBundle: The bundle is adapted: it has no forecasts of kernels.
    """
    device = opened(bundle)
    folder = on.path if isinstance(on, Dataset) else os.fspath(on)
    of = json.loads(_vitempo.evaluate(device, folder))
    for warning in of["warnings"]:
        _log.warning("%s", warning)
    return Evaluation(
        device.name,
        _errors(of["all"]),
        _optional(of["synthetic"]),
        _optional(of["real"]),
        of["json"],
    )


def _optional(of: Optional[dict[str, Any]]) -> Optional[Errors]:
    return None if of is None else _errors(of)


def _errors(of: dict[str, Any]) -> Errors:
    whole: dict[str, Optional[float]] = of["e2e"] or of["e2e_executed"] or {}

    def figure(name: str) -> float:
        found = whole.get(name)
        return float("nan") if found is None else found

    noise = of["noise_floor"]
    return Errors(
        models=[_model(row) for row in of["models"]],
        mape=figure("mape"),
        p90=figure("p90_ape"),
        within_10pct=figure("within_10pct"),
        covered=figure("interval_coverage"),
        level=figure("interval_level"),
        noise=None if noise is None else noise["mape"],
        kinds={name: row["mape"] for name, row in of["operators"].items()},
    )


def _model(row: dict[str, Any]) -> ModelError:
    def ms(name: str) -> float:
        return float(row[f"{name}_ns"]) / 1e6

    return ModelError(row["name"], ms("actual"), ms("predicted"), ms("lower"), ms("upper"))
