"""Bundles by what names them, and forecasts of one model whose type is not known."""

from __future__ import annotations

import os
from typing import Any, Union, cast

from ._dataset import Dataset
from ._vitempo import Bundle, Forecast

Named = Union[Bundle, str, "os.PathLike[str]"]


def opened(bundle: Named) -> Bundle:
    """The bundle itself, or that of a name or a path."""
    return bundle if isinstance(bundle, Bundle) else Bundle.load(bundle)


def written(path: Union[str, os.PathLike[str]]) -> Bundle:
    """The bundle of a file that was just written, though a bundle that ships has its name."""
    return Bundle.load(os.path.abspath(path))


def several(value: Any) -> list[Any]:
    """One value or several, as several: a name is not taken letter by letter."""
    if isinstance(value, (str, bytes, os.PathLike, Bundle, Dataset)):
        return [value]
    return list(value)


def predict_one(bundle: Bundle, model: Any, **options: Any) -> Forecast:
    """`Bundle.predict` for one model of any kind that it takes."""
    return cast(Forecast, cast(Any, bundle).predict(model, **options))
