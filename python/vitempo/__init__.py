"""vitempo: how long will this vision model take on that device, and how sure are we?

>>> import vitempo
>>> bundle = vitempo.Bundle.load("epyc-onnxruntime-f32-1t")
>>> forecast = bundle.predict("vit.onnx")  # doctest: +SKIP
>>> forecast.ms, forecast.lower, forecast.upper  # doctest: +SKIP
(19.3, 18.1, 20.6)

All latencies are in milliseconds. A forecast holds for its bundle's environment: device, inference
engine and version, precision, threads. `bundles()` lists what comes with vitempo.
"""

from __future__ import annotations

from . import errors, plan
from ._compare import Comparison, predict_on
from ._latency import Latency
from ._search import Candidate, SearchResult, search
from ._types import Coverage, Unsupported
from ._vitempo import (
    Bundle,
    Forecast,
    Forecasts,
    Model,
    Space,
    Table,
    __version__,
    bundles,
    read,
)
from .errors import (
    DynamicShape,
    InvalidBundle,
    InvalidEncoding,
    InvalidModel,
    InvalidSpace,
    LimitExceeded,
    ModelNotFound,
    NothingFits,
    PlanError,
    SearchError,
    UnknownBundle,
    UnsupportedOperator,
    VitempoError,
)

__all__ = [
    "Bundle",
    "Candidate",
    "Comparison",
    "Coverage",
    "DynamicShape",
    "Forecast",
    "Forecasts",
    "InvalidBundle",
    "InvalidEncoding",
    "InvalidModel",
    "InvalidSpace",
    "Latency",
    "LimitExceeded",
    "Model",
    "ModelNotFound",
    "NothingFits",
    "PlanError",
    "SearchError",
    "SearchResult",
    "Space",
    "Table",
    "UnknownBundle",
    "Unsupported",
    "UnsupportedOperator",
    "VitempoError",
    "__version__",
    "bundles",
    "errors",
    "plan",
    "predict_on",
    "read",
    "search",
]
