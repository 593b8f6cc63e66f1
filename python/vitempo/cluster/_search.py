"""Searches a space by several populations at once, each of them a task."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import vitempo

from .. import _vitempo
from .._latency import Latency
from .._open import Named
from .._vitempo import Space
from ..errors import NothingFits
from ._run import STOP, Failure, Part, Progress, Settings, run
from ._score import Ranked, plain, rows
from ._shared import (
    Objective,
    SentBundle,
    describe,
    each,
    evaluators,
    made,
    sent_bundles,
    space_of,
)
from ._store import Store, to_json


@dataclass(frozen=True)
class PopulationsResult:
    """What a search by several populations found.

    Attributes:
        front: The architectures within the ceilings that no other dominates, the highest score
            first.
        candidates: How many architectures were evaluated.
        failed: Populations without a result.
    """

    front: list[Ranked]
    candidates: int
    failed: list[Failure]

    @property
    def best(self) -> Ranked:
        """The highest score."""
        return self.front[0]


@dataclass(frozen=True)
class _Shared:
    space: Space
    bundles: list[SentBundle]
    objective: Objective
    options: dict[str, Any]


def search(
    space: Union[Space, str, os.PathLike[str]],
    bundles: Union[Named, Sequence[Named]],
    out: Union[str, os.PathLike[str]],
    *,
    objective: Objective = "flops",
    populations: int = 4,
    ceilings: Union[float, Sequence[float], None] = None,
    memory_ceilings: Union[int, Sequence[int], None] = None,
    candidates: int = 100_000,
    population: int = 100,
    seed: int = 0,
    upper: bool = False,
    actors: int = 0,
    resources: Optional[Mapping[str, Any]] = None,
    address: Optional[str] = None,
    on_error: str = STOP,
    progress: Progress = False,
) -> PopulationsResult:
    """Searches by evolution (NSGA-II) in several populations, which do not mix; the front is that
    of all of them. One population gives what `vitempo.search` gives.

    The result is a function of space, bundles, scores, seed and the number of populations: the same
    bytes in this process and on any cluster. The same call goes on where an interrupted one stopped.

    Args:
        space: A space, its name, or the path of its definition.
        bundles: One bundle or several, or names or paths.
        out: The folder of the job: `result.json`, `front.csv`, and what is done so far.
        objective: `flops` or `parameters` as stand-ins for accuracy, or a function from encodings
            to scores of the same number, larger is better; a class is made once in each actor.
        populations: How many; each is a task.
        ceilings: The most time a run may take on each bundle, ms.
        memory_ceilings: The most memory that the engine of each bundle may take to load and run a
            model, bytes.
        candidates: Architectures to evaluate, of all populations together.
        population: Architectures in a generation.
        seed: Of the first population; the next ones have the next numbers.
        upper: Ceilings hold for the upper ends of the intervals instead of the forecasts.
        actors: Actors of Ray that the objective lives in; 0 calls it where populations run.
        resources: What each actor needs, as options of Ray: `{"num_gpus": 1}`.
        address: Of the cluster: `HOST:PORT`, `auto`, `local`, or `here` for this process alone.
        on_error: `stop`, or `go-on`, which lists populations that failed.
        progress: True prints how many are done; a function is called with those done and all.

    Raises:
        ClusterError: A population failed and `on_error` is `stop`; or the folder is of another job.
        NothingFits: No candidate is within the ceilings.
    """
    if not 1 <= populations <= candidates:
        raise ValueError(f"populations {populations}: expected 1 to {candidates}")
    how = Settings(address, on_error, progress)
    of, sent = space_of(space), sent_bundles(bundles)
    options = {
        "ceilings": [float(of) for of in each(ceilings)],
        "memory_ceilings": [int(of) for of in each(memory_ceilings)],
        "population": population,
        "upper": upper,
    }
    job = {
        "job": "search",
        "vitempo": vitempo.__version__,
        "space": [of.name, str(of.size)],
        "bundles": [[bundle.name, bundle.digest] for bundle in sent],
        "objective": describe(objective),
        "populations": [populations, candidates, seed],
        "options": options,
    }
    least, more = divmod(candidates, populations)
    parts = [
        Part(f"population-{n}", (seed + n, least + (1 if n < more else 0)))
        for n in range(populations)
    ]
    with Store(out, job) as store:
        chosen = evaluators(objective, actors, resources, how)
        failed = run(_work, _Shared(of, sent, chosen, options), parts, store, how)
        found = [json.loads(store.get(part.key)) for part in parts if store.has(part.key)]
        result = _merged(found, failed)
        store.finish("front.csv", rows(result.front, [bundle.name for bundle in sent]))
        members = [[m.encoding, m.score, [plain(of) for of in m.latencies]] for m in result.front]
        store.finish("result.json", to_json({"candidates": result.candidates, "front": members}))
        return result


def _work(shared: _Shared, seed: int, candidates: int) -> bytes:
    """What a node does for a population."""
    bundles = [bundle.load() for bundle in shared.bundles]
    options = {**shared.options, "seed": seed, "candidates": candidates}
    try:
        evaluated, front, _ = _vitempo.search(
            shared.space, bundles, made(shared.objective), options, None
        )
    except NothingFits:
        return to_json([candidates, []])
    # Memories are left out: they follow from the encodings.
    return to_json([evaluated, [member[:3] for member in front]])


def _merged(found: list[Any], failed: list[Failure]) -> PopulationsResult:
    """The front of all populations; that of a single one stays as it is."""
    candidates = sum(of[0] for of in found)
    fronts = [[(m[0], m[1], [tuple(ends) for ends in m[2]]) for m in of[1]] for of in found]
    if len(fronts) == 1:
        front = fronts[0]
    else:
        front = _vitempo.merge_scores([(0, 0, [], members) for members in fronts], 0)[3]
    if not front and not failed:
        raise NothingFits(
            f"none of {candidates} candidates is within the ceilings",
            hint="raise the ceiling, or search a space with smaller architectures",
        )
    members = [Ranked(e, s, [Latency(*ends) for ends in of]) for e, s, of in front]
    return PopulationsResult(members, candidates, failed)
