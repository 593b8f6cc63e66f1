"""Searches a space for the best architectures within ceilings for latency and memory."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

from . import _numbers, _vitempo
from ._latency import Latency
from ._open import Named, opened, several
from ._types import Memory
from ._vitempo import Bundle, Space
from .errors import SearchError

Objective = Union[str, Callable[[list[str]], Sequence[float]]]
Progress = Callable[[int, Optional[float]], object]


@dataclass(frozen=True)
class Candidate:
    """An architecture of the front: its encoding, its score, and for each bundle a latency, and the
    memory where that of the bundle's engine is known."""

    encoding: str
    score: float
    latencies: list[Latency]
    memories: list[Optional[Memory]]


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        front: The architectures within the ceilings that no other dominates, the highest score
            first.
        candidates: How many architectures were evaluated.
    """

    front: list[Candidate]
    candidates: int
    _json: str = field(default="{}", repr=False, compare=False)

    @property
    def best(self) -> Candidate:
        """The highest score."""
        return self.front[0]

    def to_dict(self) -> dict[str, Any]:
        """As the program writes it: latencies in ns, memory in bytes."""
        found: dict[str, Any] = json.loads(self._json)
        return found


def search(
    space: Union[Space, str, os.PathLike[str]],
    bundles: Union[Named, Sequence[Named]],
    objective: Objective = "flops",
    *,
    ceilings: Union[float, Sequence[float], None] = None,
    memory_ceilings: Union[int, Sequence[int], None] = None,
    candidates: int = 10_000,
    population: int = 100,
    seed: int = 0,
    upper: bool = False,
    progress: Union[bool, Progress] = False,
) -> SearchResult:
    """Searches by evolution (NSGA-II): maximises the score, minimises the latency of each bundle.

    Args:
        space: A space, its name, or the path of its definition.
        bundles: One bundle or several, or names or paths.
        objective: `flops` or `parameters` as stand-ins for accuracy, or a function from encodings
            to scores of the same number; larger is better.
        ceilings: The most time a run may take on each bundle, ms.
        memory_ceilings: The most memory that the engine of each bundle may take to load and run a
            model, bytes.
        candidates: Distinct architectures to evaluate.
        population: Architectures in a generation, and most of the front.
        seed: The same seed, space, bundles and scores give the same front.
        upper: Ceilings hold for the upper ends of the intervals instead of the forecasts.
        progress: True shows a bar where tqdm is installed; a function is called with the number
            of evaluated architectures and the best score so far.

    Raises:
        NothingFits: No candidate is within the ceilings.
        SearchError: A number is not in its range, or options contradict each other.
    """
    options = {
        "ceilings": [
            _numbers.number("ceilings", ceiling, "ms", error=SearchError)
            for ceiling in _numbers.each(ceilings)
        ],
        "memory_ceilings": [
            _numbers.count("memory_ceilings", ceiling, "bytes", error=SearchError)
            for ceiling in _numbers.each(memory_ceilings)
        ],
        "candidates": _numbers.count("candidates", candidates, error=SearchError),
        "population": _numbers.count("population", population, error=SearchError),
        "seed": _numbers.count("seed", seed, error=SearchError),
        "upper": upper,
    }
    of = space if isinstance(space, Space) else Space(space)
    with _shown(progress, candidates) as shown:
        evaluated, front, as_json = _vitempo.search(of, _opened(bundles), objective, options, shown)
    members = [
        Candidate(
            encoding,
            score,
            [Latency(*ends) for ends in latencies],
            [memory and Memory(*memory) for memory in memories],
        )
        for encoding, score, latencies, memories in front
    ]
    return SearchResult(members, evaluated, as_json)


def _opened(bundles: Union[Named, Sequence[Named]]) -> list[Bundle]:
    return [opened(bundle) for bundle in several(bundles)]


@contextmanager
def _shown(progress: Union[bool, Progress], total: int) -> Generator[Optional[Progress], None, None]:
    if callable(progress):
        yield progress
        return
    if not progress:
        yield None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=total, unit="architectures") as bar:

        def shown(done: int, best: Optional[float]) -> None:
            bar.update(done - bar.n)
            if best is not None:
                bar.set_postfix(best=f"{best:.4g}")

        yield shown
