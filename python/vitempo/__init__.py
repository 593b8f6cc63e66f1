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

from . import cells, errors, plan, zoo
from ._adapt import Adaptation, adapt, first_models
from ._compare import Comparison, predict_on
from ._data_card import DataCard, data_card
from ._dataset import Dataset, Finding, Part, Validation
from ._evaluate import Evaluation, evaluate
from ._export import export
from ._latency import Latency
from ._program import profile, program, train
from ._refine import RefinedKernel, Refinement, RefinePlan, refine, refine_plan
from ._search import Candidate, SearchResult, search
from ._types import Coverage, Memory, Unsupported
from ._vitempo import (
    Bundle,
    Forecast,
    Forecasts,
    Model,
    Space,
    Table,
    __version__,
    bundles,
    models,
    read,
)
from .errors import (
    ClusterError,
    DynamicShape,
    InvalidArgument,
    InvalidBundle,
    InvalidDataset,
    InvalidEncoding,
    InvalidLatencies,
    InvalidModel,
    InvalidSpace,
    LimitExceeded,
    ModelNotFound,
    NothingFits,
    NothingMeasured,
    PlanError,
    ProgramError,
    ProgramNotFound,
    SearchError,
    UnknownBundle,
    UnsupportedOperator,
    VitempoError,
)

__all__ = [
    "Adaptation",
    "Bundle",
    "Candidate",
    "ClusterError",
    "Comparison",
    "Coverage",
    "DataCard",
    "Dataset",
    "DynamicShape",
    "Evaluation",
    "Finding",
    "Forecast",
    "Forecasts",
    "InvalidArgument",
    "InvalidBundle",
    "InvalidDataset",
    "InvalidEncoding",
    "InvalidLatencies",
    "InvalidModel",
    "InvalidSpace",
    "Latency",
    "LimitExceeded",
    "Memory",
    "Model",
    "ModelNotFound",
    "NothingFits",
    "NothingMeasured",
    "Part",
    "PlanError",
    "ProgramError",
    "ProgramNotFound",
    "RefinePlan",
    "RefinedKernel",
    "Refinement",
    "SearchError",
    "SearchResult",
    "Space",
    "Table",
    "UnknownBundle",
    "Unsupported",
    "UnsupportedOperator",
    "Validation",
    "VitempoError",
    "__version__",
    "adapt",
    "bundles",
    "cells",
    "data_card",
    "errors",
    "evaluate",
    "export",
    "first_models",
    "models",
    "plan",
    "predict_on",
    "profile",
    "program",
    "read",
    "refine",
    "refine_plan",
    "search",
    "train",
    "zoo",
]
