"""Plans of several models that share processors and wait for each other."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union, cast

from . import _numbers, _vitempo
from ._open import Named, opened
from ._tasks import OfTasks
from ._vitempo import Bundle, Model, read
from .errors import PlanError

Processors = Mapping[str, Union[Named, Sequence[Named]]]


@dataclass(frozen=True)
class Task:
    """A model in one or several variants, and what it is asked for.

    Attributes:
        models: One model, as for `Bundle.predict`, or several variants by name.
        latency: The longest time from a query to its answer, ms.
        accuracies: Accuracy of each variant, percent; needed where there are several.
        accuracy: The least accuracy, percent.
        every: Time between two queries, ms.
        rate: Or queries per second that come at random.
        inputs: Example inputs of torch modules, or the shape of their input.
        dims: Extents of symbolic dimensions.
    """

    models: Any
    latency: float
    accuracies: Mapping[str, float] = field(default_factory=dict[str, float])
    accuracy: float = 0.0
    every: Optional[float] = None
    rate: Optional[float] = None
    inputs: Optional[Any] = None
    dims: Optional[dict[str, int]] = None


@dataclass(frozen=True)
class PlacedWay:
    """A way to run a task: a variant on a processor.

    Attributes:
        variant: Name of the variant.
        processor: Where it runs.
        alone: Its latency alone on the device, ms.
        accuracy: Its accuracy, percent.
        queries: How many queries take it.
    """

    variant: str
    processor: str
    alone: float
    accuracy: float
    queries: int


@dataclass(frozen=True)
class PlacedTask:
    """The plan of one task.

    Attributes:
        name: Its name.
        ways: One, or several of which each query takes the one that is expected to end first.
        priority: Where queries wait, the lowest is next.
        queries: Simulated queries.
        violated: How many of these are later or less accurate than asked.
        mean: Mean latency from arrival to answer, ms.
        longest: Longest latency, ms.
    """

    name: str
    ways: list[PlacedWay]
    priority: int
    queries: int
    violated: int
    mean: float
    longest: float


@dataclass(frozen=True)
class Placing(OfTasks[PlacedTask]):
    """A plan of several models.

    Attributes:
        tasks: In the order in which they were given.
        queries: Simulated queries of all tasks.
        violated: How many of these are later or less accurate than asked.
        violated_at_least: So many are in every plan.
        queries_per_s: Answered where queries always wait.
        proof: `enumerated`: no plan is better; `first`: none violates fewer; `single_ways`: none
            with one way for each task is better; `open`: best found.
        contention_known: Whether slowdowns by busy neighbours are known; else none is assumed.
        energy: Of the processors above idle, mJ; None without `power`.
    """

    tasks: list[PlacedTask]
    queries: int
    violated: int
    violated_at_least: int
    queries_per_s: float
    proof: str
    contention_known: bool
    energy: Optional[float]
    _json: str

    def __str__(self) -> str:
        lines = [
            f"{task.name}: {' or '.join(f'{w.variant} on {w.processor}' for w in task.ways)}, "
            f"priority {task.priority}, mean {task.mean:.3g} ms, longest {task.longest:.3g} ms, "
            f"{task.violated} of {task.queries} violated"
            for task in self.tasks
        ]
        energy = "" if self.energy is None else f", {self.energy:.3g} mJ"
        lines.append(
            f"{self.violated} of {self.queries} violated (at least {self.violated_at_least} in "
            f"every plan), {self.queries_per_s:.3g} queries/s when saturated{energy}"
        )
        return "\n".join(lines)


def place(
    tasks: Mapping[str, Task],
    processors: Processors,
    *,
    over: float = 10_000.0,
    slowdown: Optional[Mapping[tuple[str, str], float]] = None,
    power: Optional[Mapping[str, float]] = None,
    cold: bool = False,
    memory: Optional[int] = None,
    minimise: str = "violations",
    evaluations: int = 20_000,
    seed: int = 0,
) -> Placing:
    """Several models at once: which variant of each runs on which processor, in which order? Each
    model runs whole; `stitch` combines variants.

    Plans are evaluated in a simulator, with waiting and contention.

    Args:
        tasks: Names of tasks, and what they are. Where none says `every` or `rate`, one query of
            each comes at the same time, in every order.
        processors: Names of processors and their bundles; several for several precisions.
        over: Queries arrive for so long, ms.
        slowdown: Factor by which a processor is slower while another one is busy, of every pair,
            e.g. `{("cpu", "npu"): 1.2, ("npu", "cpu"): 1.1}`; by default what the bundles forecast.
        power: Power of each processor while busy, above idle, W.
        cold: Nothing is loaded at first; times of loading are forecasts.
        memory: Weights of all models of the plan take at most so many bytes.
        minimise: `violations`, or `throughput`: the most queries per second.
        evaluations: Most plans to evaluate.
        seed: Of the search, and of random arrivals.

    Raises:
        PlanError: A task cannot run on any processor, options contradict each other, or a number
            is not in its range.
    """
    models: list[Model] = []
    options = {
        "tasks": [_task(name, task, models, seed) for name, task in tasks.items()],
        "horizon_ns": _ns("over", over),
        "slowdown": [
            [one, other, _number(f"slowdown[{one!r}, {other!r}]", factor)]
            for (one, other), factor in (slowdown or {}).items()
        ],
        "power": [
            [name, _number(f"power[{name!r}]", watts, "W")] for name, watts in (power or {}).items()
        ],
        "cold": cold,
        "memory_bytes": None if memory is None else _count("memory", memory, "bytes"),
        "objective": minimise,
        "evaluations": _count("evaluations", evaluations),
        "seed": _count("seed", seed),
    }
    return _placing(_vitempo.plan_place(models, by_name(processors), json.dumps(options)))


def by_name(processors: Processors) -> list[tuple[str, Bundle]]:
    """Processors and their bundles, a row per bundle."""
    named: list[tuple[str, Bundle]] = []
    for name, given in processors.items():
        if isinstance(given, (Bundle, str, os.PathLike)):
            named.append((name, opened(given)))
        else:
            named += [(name, opened(bundle)) for bundle in given]
    return named


def _task(name: str, task: Task, models: list[Model], seed: int) -> dict[str, Any]:
    given: Any = task.models
    variants: dict[str, Any] = {name: given}
    if isinstance(given, Mapping):
        variants = dict(cast("Mapping[str, Any]", given))
    needs_accuracies = len(variants) > 1 or task.accuracies
    if needs_accuracies and set(task.accuracies) != set(variants):
        raise ValueError(f"task {name!r}: `accuracies` gives the accuracy of each variant")
    models += [read(model, inputs=task.inputs, dims=task.dims) for model in variants.values()]
    accuracies = task.accuracies or dict.fromkeys(variants, 100.0)
    of = f"tasks[{name!r}]"
    return {
        "name": name,
        # A variant has no more than its accuracy, and no less is asked for.
        "variants": [
            [name, math.floor(_basis_points(f"{of}.accuracies[{name!r}]", accuracies[name]))]
            for name in variants
        ],
        "accuracy_bp": math.ceil(_basis_points(f"{of}.accuracy", task.accuracy)),
        "latency_ns": _ns(f"{of}.latency", task.latency),
        "arrivals": _arrivals(name, task, seed),
    }


def _number(name: str, value: float, unit: str = "") -> float:
    return _numbers.number(name, value, unit, error=PlanError)


def _count(name: str, value: int, unit: str = "") -> int:
    return _numbers.count(name, value, unit, error=PlanError)


def _ns(name: str, ms: float) -> int:
    return _numbers.scaled(name, ms, 1e6, "ms", error=PlanError)


def _basis_points(name: str, percent: float) -> float:
    """Hundredths of a percent, without what binary numbers are off by."""
    found = _number(name, percent, "percent")
    if found > 100:
        raise PlanError(f"`{name}` is {percent!r}, expected at most 100 percent")
    return round(found * 100, 2)


def _arrivals(name: str, task: Task, seed: int) -> Optional[dict[str, Any]]:
    if task.every is not None and task.rate is not None:
        raise ValueError(f"task {name!r}: give `every` or `rate`, not both")
    if task.every is not None:
        period = _ns(f"tasks[{name!r}].every", task.every)
        return {"periodic": {"period_ns": period, "phase_ns": 0}}
    if task.rate is not None:
        rate = _number(f"tasks[{name!r}].rate", task.rate, "queries per second")
        return {"poisson": {"per_s": rate, "seed": seed}}
    return None


def _placing(text: str) -> Placing:
    of = json.loads(text)
    tasks = [
        PlacedTask(
            task["name"],
            [
                PlacedWay(
                    way["variant"],
                    way["processor"],
                    way["alone_ns"] / 1e6,
                    way["accuracy_bp"] / 100,
                    way["queries"],
                )
                for way in task["ways"]
            ],
            task["priority"],
            task["queries"],
            task["violated"],
            task["mean_latency_ns"] / 1e6,
            task["longest_ns"] / 1e6,
        )
        for task in of["tasks"]
    ]
    return Placing(
        tasks,
        of["queries"],
        of["violated"],
        of["violated_at_least"],
        of["queries_per_s"],
        of["proof"],
        of["contention_known"],
        None if of["energy_nj"] is None else of["energy_nj"] / 1e6,
        text,
    )
