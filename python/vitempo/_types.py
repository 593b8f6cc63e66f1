"""Small values that forecasts consist of."""

from __future__ import annotations

from typing import NamedTuple


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


class Unsupported(NamedTuple):
    """A node of the model whose operator vitempo does not support."""

    node: str
    operator: str
