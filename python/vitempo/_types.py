"""Small values that forecasts consist of."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Coverage(NamedTuple):
    """How many operators are forecast in which way.

    `operators` is the number of kernels that the framework runs. Of these, `trained` come from
    trained predictors and `fallback` are estimated from their work alone. Of the trained ones,
    `extrapolating` are outside the range of the training data.
    """

    operators: int
    trained: int
    fallback: int
    extrapolating: int


class Memory(NamedTuple):
    """Memory that an engine takes to load and run a model, bytes.

    `peak` is the forecast, and lies between `lower` and `upper` for a share `level` of models;
    `upper` is None where the model has operators that vitempo does not know.
    `weights` are those of the kernels that run, `activations` what is kept for tensors at once,
    `freed` what loading frees and the process keeps (0 for other engines than ONNX Runtime).
    """

    peak: int
    lower: int
    upper: Optional[int]
    level: float
    weights: int
    activations: int
    freed: int


class Unsupported(NamedTuple):
    """A node of the model whose operator vitempo does not support."""

    node: str
    operator: str
